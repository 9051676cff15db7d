// The open turns of a stream of many conversations: what a question leaves for its answers.

/// A host that serves more conversations than this at once forgets the oldest question first.
export const MAX_TURNS = 1000;

/// Texts of JSON, and what common writers put where JSON has no word for it.
const NO_JSON = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g;

/// The members of metadata, read as the filter reads them: `NaN` is a value, a byte order mark may stand before, and of
/// duplicates the last one counts. What is no object has none.
export function members(metadata) {
  try {
    const json = metadata.replace(/^\ufeff/, '').replace(NO_JSON, (token) => (token.startsWith('"') ? token : 'null'));
    return Object(JSON.parse(json));
  } catch {
    return {};
  }
}

const textOf = (value) => (typeof value === 'string' && value !== '' ? value : undefined);

/// Which transcript metadata name. Undefined: no session.
function address(metadata, isByNode) {
  const { session_id, memory_mode, app_id, node_id, user_id } = members(metadata);
  const session = textOf(session_id);
  if (session === undefined) return undefined;
  const isNode = memory_mode === 'node' ? true : memory_mode === 'conversation' ? false : undefined;
  const [app, node, user] = [app_id, node_id, user_id].map(textOf);
  return { session, isNode: isNode ?? isByNode, isExplicit: isNode !== undefined, app, node, user };
}

const agree = (named, own) => named === undefined || named === own;

/// Whether an answer that names this may belong to the turn.
function mayTake({ at }, named) {
  if (at === undefined || at.session !== named.session) return false;
  if (named.isExplicit && named.isNode !== at.isNode) return false;
  if (at.user !== undefined && !agree(named.user, at.user)) return false;
  return !at.isNode || (agree(named.app, at.app) && agree(named.node, at.node));
}

export class Turn {
  /// Of the filter's reply; empty: the question did not get as far as the filter.
  state = '';
  /// What tools did since the last answer that was stored.
  tools = [];
  /// The ids of its tool calls, stored ones among them.
  calls = new Set();

  /// `text` is the question's, which each answer takes along; empty: there was none, or it passed through another process.
  /// `waits`: no answer of it was stored yet.
  constructor(at, text = '', waits = false) {
    [this.at, this.text, this.waits] = [at, text, waits];
  }

  /// Its question and tools are stored, with an answer.
  isStored() {
    [this.waits, this.tools] = [false, []];
  }

  /// The metadata of an answer that names the session. Where the filter has not seen the question, it has to be told whose
  /// that was: a session without an owner would be that of whoever asks next. What the answer says itself comes later in
  /// the object, and counts.
  completed(metadata) {
    if (this.state || !this.at || !('session_id' in members(metadata))) return metadata;
    const { session, user, isNode, app, node } = this.at;
    const owner = { session_id: session, user_id: user };
    if (isNode) Object.assign(owner, { memory_mode: 'node', app_id: app, node_id: node });
    return metadata.replace('{', () => `${JSON.stringify(owner).slice(0, -1)},`);
  }
}

export class Turns {
  #turns = new Map(); // the oldest first
  #last;
  #isByNode;
  #report;
  #maxTurns;

  /// `report(code, message)` is told of problems. `isByNode`: whether entries that don't say so are about the transcripts
  /// of nodes (the option `memory_mode`).
  constructor(report, isByNode = false, maxTurns = MAX_TURNS) {
    [this.#report, this.#isByNode, this.#maxTurns] = [report, isByNode, maxTurns];
  }

  /// A turn, in the place of an earlier one of its transcript.
  #begin(metadata, text, waits) {
    const at = address(metadata, this.#isByNode);
    const turn = new Turn(at, text, waits);
    const { session, user, isNode, app, node } = at ?? {};
    const key = at ? JSON.stringify([session, user, isNode && [app, node]]) : '';
    this.#turns.delete(key);
    this.#turns.set(key, turn);
    if (this.#turns.size > this.#maxTurns) {
      const [oldest, dropped] = this.#turns.entries().next().value;
      this.#turns.delete(oldest);
      const message = `more than ${this.#maxTurns} turns: the answer to the oldest question will lack it`;
      if (dropped.waits) this.#report('turns', message);
    }
    return turn;
  }

  /// A question begins a turn. It ends the one before, whatever becomes of it: so call this before the filter.
  ask(metadata, text) {
    this.#last = this.#begin(metadata, text, true);
    return this.#last;
  }

  /// The turn of an answer: of the session that it names, else of the question asked last. Never that of another session.
  ofAnswer(metadata) {
    const named = address(metadata, this.#isByNode);
    return (named ? this.#find(named) : this.#last) ?? new Turn();
  }

  /// The turn of a tool's activity: of the session that it names; else, of a result, the one that has its call; else of the
  /// question asked last. Undefined: that is not clear.
  ofTool(activity, metadata) {
    const named = address(metadata, this.#isByNode);
    // Its question may have passed through another process.
    if (named) return this.#find(named) ?? this.#begin(metadata);
    if (activity.arguments !== undefined) return this.#last;
    const having = [...this.#turns.values()].filter(({ calls }) => calls.has(activity.callId));
    return having.length > 1 ? undefined : having[0] ?? this.#last;
  }

  #find(named) {
    const turns = [...this.#turns.values()].filter((turn) => mayTake(turn, named));
    if (named.node !== undefined) return turns.findLast(({ at }) => at.isNode) ?? turns.at(-1);
    const waiting = turns.filter(({ waits }) => waits);
    return waiting.findLast(({ at }) => at.isNode === this.#isByNode) ?? waiting.at(-1) ?? turns.at(-1);
  }

  /// A new conversation begins: of the session that is named, or of all.
  open(metadata) {
    const named = address(metadata, this.#isByNode);
    for (const [key, turn] of this.#turns) {
      if (named !== undefined && !mayTake(turn, named)) continue;
      this.#turns.delete(key);
      if (turn === this.#last) this.#last = undefined;
    }
  }

  /// After a line that can't be read, which may have been a question.
  forgetLast() {
    this.#last = undefined;
  }
}
