// All sessions of the service: loaded page by page in the background, kept up to date, filtered and sorted.

import { get, pages, path, withQuery } from "../core/api.js";
import { firstLine, textOf } from "../core/format.js";

/** Sessions that are asked for at a time. */
const AT_A_TIME = 4;
const DAY_MS = 86_400_000;

const ORDERS = {
  used: (a, b) => (b.last_at_ms ?? 0) - (a.last_at_ms ?? 0),
  tokens: (a, b) => (b.tokens ?? 0) - (a.tokens ?? 0),
  expiry: (a, b) => (a.expires_in_ms ?? Infinity) - (b.expires_in_ms ?? Infinity),
  title: (a, b) => (a.title ?? a.id).localeCompare(b.title ?? b.id),
};

const KINDS = {
  all: () => true,
  owned: (session) => session.owner !== null,
  unowned: (session) => session.owner === null,
  expiring: (session) => session.expires_in_ms !== null && session.expires_in_ms < DAY_MS,
};

const searched = (session) => `${session.title ?? ""}\n${session.id}\n${session.owner ?? ""}\n${session.lastLine ?? ""}`.toLowerCase();

export class SessionSource {
  /** `onchange` is called whenever there is something else to show. */
  constructor(onchange) {
    this.sessions = new Map();
    this.isComplete = false;
    /** What events have told of since the list began to be loaded: they are newer than it. */
    this.touched = new Set();
    this.onchange = onchange;
    this.waiting = new Map();
    this.running = 0;
  }

  /** Loads all of them. What is there already stays until then. */
  async load(signal) {
    const seen = new Set();
    this.touched.clear();
    for await (const page of pages(path("sessions"), {}, signal)) {
      for (const session of page) {
        seen.add(session.id);
        if (!this.touched.has(session.id)) this.put(session);
      }
      this.onchange();
    }
    for (const id of this.sessions.keys()) if (!seen.has(id) && !this.touched.has(id)) this.sessions.delete(id);
    this.isComplete = true;
    this.onchange();
  }

  put(session) {
    const before = this.sessions.get(session.id);
    const isSame = before && before.last_at_ms === session.last_at_ms && before.messages === session.messages;
    const lastLine = isSame ? before.lastLine : undefined;
    const next = { ...session, lastLine };
    next.searched = searched(next);
    this.sessions.set(session.id, next);
  }

  /** It was deleted. Whether it still is gone is looked at, because it may just be being read. */
  remove(id) {
    this.touched.add(id);
    if (this.sessions.delete(id)) this.onchange();
    this.refresh(id);
  }

  /** Reads a session anew, after those that were asked for before. */
  refresh(id) {
    this.enqueue(`session ${id}`, async () => {
      try {
        this.put(await get(path("sessions", id)));
      } catch (error) {
        if (error.status !== 404) throw error;
        this.sessions.delete(id);
      }
      this.touched.add(id);
      this.onchange();
    });
  }

  /** Reads the last lines of those sessions that are in sight and nothing else. */
  wantLastLines(sessions) {
    for (const key of [...this.waiting.keys()]) if (key.startsWith("line ")) this.waiting.delete(key);
    for (const { id, lastLine, messages } of sessions) {
      if (lastLine === undefined && messages) this.enqueue(`line ${id}`, () => this.readLastLine(id));
    }
  }

  async readLastLine(id) {
    const page = await get(withQuery(`${path("sessions", id)}/messages`, { limit: 1 }));
    const session = this.sessions.get(id);
    if (!session) return;
    const lastLine = firstLine(textOf(page.data[0]?.message.content ?? ""));
    const next = { ...session, lastLine };
    next.searched = searched(next);
    this.sessions.set(id, next);
    this.onchange();
  }

  enqueue(key, task) {
    this.waiting.set(key, task);
    this.work();
  }

  async work() {
    while (this.running < AT_A_TIME && this.waiting.size) {
      const [key, task] = this.waiting.entries().next().value;
      this.waiting.delete(key);
      this.running += 1;
      // What can't be read is left out here; the session's own view says why.
      task().catch(() => {}).finally(() => {
        this.running -= 1;
        this.work();
      });
    }
  }

  /** Those that hold all words, of that kind, in that order. */
  find({ text, kind, order }) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (const session of this.sessions.values()) {
      if (KINDS[kind](session) && words.every((word) => session.searched.includes(word))) found.push(session);
    }
    return found.sort(ORDERS[order]);
  }
}
