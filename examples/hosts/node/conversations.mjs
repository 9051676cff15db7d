// Passes entries through the filter: each with the turn that it belongs to.
//
// Texts and metadata go in and out as they are, byte for byte, but for what the filter puts in the place of a question's
// metadata. What becomes due on the way is done by `work`, once the entry was sent on.

import { noModel, workOn } from './maintenance.mjs';
import { Turns } from './turns.mjs';

/// Effects after which the next answer of the turn takes its tools along once more.
const NOT_STORED = ['passed', 'ignored', 'foreign', 'skipped', 'limited', 'ended', 'failed'];

const onStderr = ({ message }) => console.error(`keepline: ${message}`);

export class Conversations {
  #due = [];
  #reported = new Set();

  constructor(filter, { model = noModel, report = onStderr, maxTurns } = {}) {
    this.filter = filter;
    this.model = model;
    /// An id that can't be a session's or a user's is reported once: each further entry of its chat has the same one.
    this.report = ({ code, subject, message }) => {
      const isId = code.startsWith('session-id-') || (code === 'invalid' && subject === 'user_id');
      if (isId && this.#reported.has(code)) return;
      if (isId) this.#reported.add(code);
      report({ code, message });
    };
    this.turns = new Turns((code, message) => this.report({ code, message }), filter.isByNode, maxTurns);
  }

  /// A new conversation begins, in the session that the metadata name, or in all.
  open(metadata = '{}') {
    this.turns.open(metadata);
  }

  /// There was an entry that can't be read.
  unreadable() {
    this.report({ code: 'entry', message: 'what is no entry passes as it is' });
    this.turns.forgetLast();
  }

  /// The metadata to send on.
  question(text, metadata) {
    const turn = this.turns.ask(metadata, text);
    const reply = this.#finish(this.filter.question(text, metadata));
    turn.state = reply?.turn ?? '';
    return reply?.metadata ?? metadata;
  }

  /// What a tool did goes with the next answer of its turn.
  tool(activity, metadata = '{}') {
    const turn = this.turns.ofTool(activity, metadata);
    if (turn === undefined) {
      const message = 'what a tool did is not kept: no question came before it, or it is not clear which';
      this.report({ code: 'tool', message });
    } else if (this.filter.wantsTurns) {
      turn.tools.push(activity);
      turn.calls.add(activity.callId);
    }
  }

  /// The metadata to send on: as they came.
  answer(text, metadata, status = 'complete') {
    const turn = this.turns.ofAnswer(metadata);
    const reply = this.#finish(this.filter.answer(text, turn.completed(metadata), turn, status));
    // An effect that this host does not know counts as stored.
    if (reply && !NOT_STORED.includes(reply.effect)) turn.isStored();
    return metadata;
  }

  /// Undefined: there is no reply, and the entry goes on as it came. The filter has reported why.
  #finish(reply) {
    if (reply?.problem) this.report(reply.problem);
    this.#due.push(...(reply?.due ?? []));
    return reply;
  }

  /// Does what has become due.
  async work() {
    for (const task of this.#due.splice(0)) await workOn(task, this.filter, this.model, this.report);
  }
}
