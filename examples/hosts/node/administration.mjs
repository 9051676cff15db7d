// What operators do to sessions, transcripts and users: one call of the component. The functions are those of
// `wit/deps/admin`, with all their parameters in their order, but for `extras`, which is none.

const camel = (name) => name.replace(/-./g, (part) => part[1].toUpperCase());

/// `administer(filter, 'sessions.get', ['anna', 'last_answer'])`: {ok: record} or {err: problem}. Undefined: the component
/// failed.
export function administer(filter, name, parameters) {
  const [part, called] = name.split('.');
  return filter.administer(part, camel(called), parameters);
}

/// Forgets a user altogether: one call takes so many sessions, and is to be repeated until nothing is left.
export function forgetUser(filter, user) {
  let [sessions, nodes] = [0n, 0n];
  for (;;) {
    const answer = administer(filter, 'users.forget', [user]);
    if (!answer?.ok) return answer;
    [sessions, nodes] = [sessions + answer.ok.sessions, nodes + answer.ok.nodes];
    if (answer.ok.remaining === 0n) return { ok: { ...answer.ok, sessions, nodes } };
  }
}
