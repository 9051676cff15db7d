// Ids of users. One that is no plain word is stored as a hash, from which nobody can tell the id.

const HASHED = /^h-[a-z2-7]{40,}$/;

/** Whether that is the hash of an id, and not the id. */
export const isHashed = (user) => HASHED.test(user);
