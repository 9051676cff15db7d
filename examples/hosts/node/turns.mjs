// The open turns of a stream of many conversations: what a question leaves for its answers.

/// A host that serves more conversations than this at once forgets the oldest question first.
const MAX_TURNS = 1000;

const textOf = (value) => (typeof value === 'string' && value !== '' ? value : undefined);

/// Which transcript metadata name. Undefined: no session.
function address(metadata, isByNode) {
  const { session_id, memory_mode, app_id, node_id, user_id } = Object(metadata);
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

export class Turns {
  #turns = new Map(); // the oldest first
  #last;
  #isByNode;

  /// `isByNode`: whether entries that don't say so are about the transcripts of nodes (the option `memory_mode`).
  constructor(isByNode = false) {
    this.#isByNode = isByNode;
  }

  /// A question begins a turn, in the place of an earlier one of its transcript. `state` is what the filter's reply says.
  ask(metadata, text, state) {
    const at = address(metadata, this.#isByNode);
    const turn = { at, state, text };
    const { session, isNode, app, node, user } = at ?? {};
    const key = at ? JSON.stringify([session, user, isNode && [app, node]]) : '';
    this.#turns.delete(key);
    this.#turns.set(key, turn);
    this.#last = turn;
    if (this.#turns.size <= MAX_TURNS) return;
    const [oldest, dropped] = this.#turns.entries().next().value;
    this.#turns.delete(oldest);
    if (dropped.text !== undefined) {
      console.error(`keepline: more than ${MAX_TURNS} turns: the answer to the oldest question will lack its question`);
    }
  }

  /// The turn of an answer: of the session that it names, else of the question asked last. Never that of another session.
  find(metadata) {
    const named = address(metadata, this.#isByNode);
    if (named === undefined) return this.#last;
    const turns = [...this.#turns.values()].filter((turn) => mayTake(turn, named));
    if (named.node !== undefined) return turns.findLast(({ at }) => at.isNode) ?? turns.at(-1);
    const waiting = turns.filter(({ text }) => text !== undefined);
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
