// Asks for the window as one types and slides. A request that is overtaken is dropped: the last answer wins.

import { get, path, withQuery } from "../core/api.js";

const WAIT_MS = 140;

export class WindowQuery {
  /** `onwindow` is told each answer that still counts, and what it was asked with; `onproblem` what went wrong. */
  constructor(session, { onwindow, onproblem, onbusy }) {
    Object.assign(this, { session, onwindow, onproblem, onbusy });
    this.wanted = {};
  }

  /** Changes what is asked for. Asks soon, or at once. */
  ask(changes, { isSoon = true } = {}) {
    Object.assign(this.wanted, changes);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), isSoon ? WAIT_MS : 0);
  }

  close() {
    clearTimeout(this.timer);
    this.sent?.abort();
  }

  async send() {
    this.sent?.abort();
    const sent = new AbortController();
    this.sent = sent;
    const asked = { ...this.wanted };
    this.onbusy(true);
    try {
      const window = await get(withQuery(`${path("sessions", this.session)}/window`, asked), { signal: sent.signal });
      if (this.sent === sent) this.onwindow(window, asked);
    } catch (error) {
      if (error.name !== "AbortError" && this.sent === sent) this.onproblem(error);
    } finally {
      if (this.sent === sent) this.onbusy(false);
    }
  }
}
