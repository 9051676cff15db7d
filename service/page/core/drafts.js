// Unsaved changes of definitions, kept in this tab until they are saved or discarded.

const key = (name) => `keepline.draft.${name}`;

/** `{ text, form, revision }` as it was left, or null. */
export function readDraft(name) {
  try {
    return JSON.parse(sessionStorage.getItem(key(name)));
  } catch {
    return null;
  }
}

/** Null: there is nothing to keep. A tab whose storage is full keeps no more drafts. */
export function keepDraft(name, draft) {
  try {
    if (draft) sessionStorage.setItem(key(name), JSON.stringify(draft));
    else sessionStorage.removeItem(key(name));
  } catch {
    sessionStorage.removeItem(key(name));
  }
}
