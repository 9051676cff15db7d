// Where the messages of a conversation come from: by their positions, or along one branch.

import { get, pages, path, withQuery } from "../core/api.js";

/** Messages of a chunk. */
const CHUNK = 50;

/** All messages, read wherever somebody looks: positions count on without a gap. */
export class WholeSource {
  constructor(session, { oldest, next }) {
    Object.assign(this, { session, oldest, next });
  }

  sizes() {
    const total = Math.max(0, this.next - this.oldest);
    return Array.from({ length: Math.ceil(total / CHUNK) }, (_, at) => Math.min(CHUNK, total - at * CHUNK));
  }

  chunkOf(position) {
    return Math.max(0, Math.floor((position - this.oldest) / CHUNK));
  }

  async load(number) {
    const first = this.oldest + number * CHUNK;
    const after = first > 0 ? first - 1 : "";
    const page = await get(withQuery(`${path("sessions", this.session)}/messages`, { order: "asc", limit: CHUNK, after }));
    return page.data;
  }
}

/** The messages of one branch, all read at once: which they are is only known by reading. */
export class BranchSource {
  constructor(session, branch) {
    Object.assign(this, { session, branch });
    this.messages = [];
  }

  async open(signal) {
    const where = `${path("sessions", this.session)}/messages`;
    for await (const page of pages(where, { branch: this.branch.id }, signal)) this.messages.push(...page);
    this.messages.reverse();
  }

  sizes() {
    return Array.from({ length: Math.ceil(this.messages.length / CHUNK) }, (_, at) => Math.min(CHUNK, this.messages.length - at * CHUNK));
  }

  chunkOf(position) {
    const at = this.messages.findIndex((message) => message.position >= position);
    return Math.max(0, Math.floor((at < 0 ? this.messages.length - 1 : at) / CHUNK));
  }

  load(number) {
    return this.messages.slice(number * CHUNK, (number + 1) * CHUNK);
  }
}
