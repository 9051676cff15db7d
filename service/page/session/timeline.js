// A conversation of any length, of which only what is in sight exists. It is cut into chunks, whose heights are guessed until
// they have been seen; the scrollbar stands for all of it. What one reads stays where it is while heights change.

import { el, onNextFrame } from "../core/dom.js";

/** Height of a chunk that was never seen, for each message. */
const GUESS = 96;
/** Chunks whose messages are kept, on both sides of what is in sight. */
const KEPT = 12;
/** How near the end counts as the end. */
const NEAR = 48;

export class Timeline {
  /**
   * `load(number)` reads a chunk, `draw(messages)` makes its elements, `after` stands below all of them; `onloaded` is told
   * that there are more, `onproblem` what could not be read.
   */
  constructor({ load, draw, after, onloaded, onproblem }) {
    Object.assign(this, { load, draw, onloaded, onproblem });
    this.chunks = [];
    /** Which conversation it is: what was asked for another one is not shown. */
    this.generation = 0;
    this.above = el("div", { class: "timeline-space" });
    this.below = el("div", { class: "timeline-space" });
    this.feed = el("div", { class: "timeline-feed", role: "feed", "aria-label": "Turns", "aria-busy": "false" });
    this.content = el("div", { class: "timeline-content" }, this.above, this.feed, this.below, after);
    this.element = el("div", { class: "scroller timeline", onkeydown: (event) => this.onKey(event) }, this.content);
    this.update = onNextFrame(() => this.updateNow());
    this.element.addEventListener("scroll", this.update, { passive: true });
    this.observer = new ResizeObserver(() => this.keepAtEnd());
    this.observer.observe(this.element);
    this.observer.observe(this.content);
    this.isFollowing = true;
    /** Where the end was when it was last gone to. */
    this.endTop = 0;
    this.shown = { first: 0, last: -1 };
  }

  close() {
    this.observer.disconnect();
    this.chunks = [];
  }

  /** How many chunks there are, and messages in each. What has been read stays, but for what is `stale`. */
  setChunks(sizes, { stale = () => false } = {}) {
    const before = this.chunks;
    this.chunks = sizes.map((size, number) => {
      const known = before[number];
      if (known) return { ...known, size, isStale: known.isStale || stale(number) || known.size !== size };
      return { size, height: size * GUESS, node: null, messages: null, isLoading: false, isStale: false };
    });
    for (const gone of before.slice(sizes.length)) gone.node?.remove();
    this.updateNow();
  }

  /** Forgets all, for another conversation. */
  clear() {
    for (const { node } of this.chunks) node?.remove();
    this.chunks = [];
    this.generation += 1;
    this.isFollowing = true;
    this.endTop = 0;
  }

  /**
   * Whether it stays at the end while more comes: until one scrolls up. The position tells, as the event of a scroll comes
   * later than a reply may, which would pull the reader back to the end.
   */
  isAtEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    const isNear = scrollTop + clientHeight >= scrollHeight - NEAR;
    if (!this.isPlacing) this.isFollowing = isNear || (this.isFollowing && scrollTop >= this.endTop);
    return this.isFollowing;
  }

  goToEnd() {
    this.element.scrollTop = this.element.scrollHeight;
    this.endTop = this.element.scrollTop;
  }

  scrollToEnd() {
    this.isFollowing = true;
    this.goToEnd();
    this.update();
  }

  keepAtEnd() {
    if (this.isAtEnd()) this.goToEnd();
    this.update();
  }

  /** Chunks in sight, with one more on both sides. */
  range() {
    const { scrollTop, clientHeight } = this.element;
    let top = 0;
    let first = null;
    let last = 0;
    this.chunks.forEach(({ height }, number) => {
      if (top + height >= scrollTop - clientHeight / 2) first ??= number;
      if (top <= scrollTop + clientHeight * 1.5) last = number;
      top += height;
    });
    return { first: Math.min(first ?? this.chunks.length - 1, last), last };
  }

  /** The chunk one reads, and where it stands. */
  anchor() {
    const top = this.element.getBoundingClientRect().top;
    const nodes = [...this.feed.children];
    const seen = nodes.find((node) => node.getBoundingClientRect().bottom > top + 1);
    if (!seen) return () => {};
    const before = seen.getBoundingClientRect().top;
    return () => {
      if (seen.isConnected) this.element.scrollTop += seen.getBoundingClientRect().top - before;
    };
  }

  updateNow() {
    if (!this.chunks.length) {
      this.above.style.blockSize = "0";
      this.below.style.blockSize = "0";
      return;
    }
    const isAtEnd = this.isAtEnd();
    const restore = this.anchor();
    const { first, last } = this.range();
    this.shown = { first, last };
    let above = 0;
    let below = 0;
    let next = this.feed.firstElementChild;
    this.chunks.forEach((chunk, number) => {
      if (number < first || number > last) {
        if (chunk.node?.isConnected) {
          chunk.height = chunk.node.offsetHeight || chunk.height;
          if (chunk.node === next) next = next.nextElementSibling;
          chunk.node.remove();
        }
        if (number < first - KEPT || number > last + KEPT) Object.assign(chunk, { node: null, messages: null });
        if (number < first) above += chunk.height;
        else below += chunk.height;
        return;
      }
      this.prepare(chunk, number);
      if (chunk.node === next) next = next.nextElementSibling;
      else this.feed.insertBefore(chunk.node, next);
      if (chunk.messages) chunk.height = chunk.node.offsetHeight;
    });
    this.above.style.blockSize = `${above}px`;
    this.below.style.blockSize = `${below}px`;
    if (isAtEnd) this.goToEnd();
    else restore();
  }

  prepare(chunk, number) {
    if (!chunk.node) {
      chunk.node = el("div", { class: "chunk", "data-chunk": number });
      if (chunk.messages) chunk.node.replaceChildren(...this.draw(chunk.messages));
      else {
        chunk.node.style.blockSize = `${chunk.height}px`;
        chunk.node.append(el("p", { class: "chunk-wait" }, "Loading…"));
      }
    }
    if ((!chunk.messages || chunk.isStale) && !chunk.isLoading) this.fetch(chunk, number);
  }

  async fetch(chunk, number) {
    const { generation } = this;
    Object.assign(chunk, { isLoading: true, isStale: false });
    this.feed.setAttribute("aria-busy", "true");
    try {
      const messages = await this.load(number);
      const now = this.chunks[number];
      if (!now || generation !== this.generation) return;
      const isAtEnd = this.isAtEnd();
      const restore = this.anchor();
      Object.assign(now, { messages, isLoading: false });
      if (now.node) {
        now.node.style.blockSize = "";
        now.node.replaceChildren(...this.draw(messages));
        now.height = now.node.offsetHeight || now.height;
      }
      if (isAtEnd) this.goToEnd();
      else restore();
      this.onloaded();
      this.keepAtEnd();
    } catch (error) {
      if (this.chunks[number] && generation === this.generation) this.chunks[number].isLoading = false;
      if (error.name !== "AbortError") this.onproblem(error);
    } finally {
      this.feed.setAttribute("aria-busy", "false");
    }
  }

  /** The turns that exist now. */
  turns() {
    return [...this.feed.querySelectorAll(".turn")];
  }

  /** Brings a chunk into sight and calls the function once its turns are there. */
  async reveal(number, find) {
    if (!this.chunks[number]) return;
    this.isFollowing = false;
    this.isPlacing = true;
    const top = this.chunks.slice(0, number).reduce((sum, { height }) => sum + height, 0);
    this.element.scrollTop = top;
    for (let tries = 0; tries < 100; tries += 1) {
      this.updateNow();
      const turn = find(this.turns());
      if (turn) {
        turn.scrollIntoView({ block: "start" });
        this.updateNow();
        turn.scrollIntoView({ block: "start" });
        this.setActive(turn);
        turn.focus({ preventScroll: true });
        break;
      }
      await new Promise((resolve) => { setTimeout(resolve, 30); });
    }
    this.isPlacing = false;
  }

  setActive(turn) {
    for (const other of this.turns()) other.tabIndex = other === turn ? 0 : -1;
  }

  onKey(event) {
    if (!event.target.classList.contains("turn") || event.ctrlKey || event.metaKey || event.altKey) return;
    const turns = this.turns();
    const at = turns.indexOf(event.target);
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 1, PageUp: at - 1 };
    if (event.key === "End") {
      event.preventDefault();
      this.scrollToEnd();
      requestAnimationFrame(() => this.focusTurn(this.turns().at(-1)));
    } else if (event.key === "Home") {
      event.preventDefault();
      this.reveal(0, (all) => all[0]);
    } else if (event.key in moves) {
      event.preventDefault();
      this.focusTurn(turns[Math.max(0, Math.min(turns.length - 1, moves[event.key]))]);
    }
  }

  focusTurn(turn) {
    if (!turn) return;
    this.setActive(turn);
    turn.focus({ preventScroll: true });
    turn.scrollIntoView({ block: "nearest" });
  }
}
