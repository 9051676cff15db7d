// One session: its conversation, the band of what is sent, and the next question.

import { get, path } from "../core/api.js";
import { announce, debounced, el, fill, marked } from "../core/dom.js";
import { subscribe } from "../core/events.js";
import { plural } from "../core/format.js";
import { problemBox } from "../core/problems.js";
import { keepParameters } from "../core/router.js";
import { isHashed } from "../core/users.js";
import { Band } from "./band.js";
import { drawBranches, loadBranches } from "./branches.js";
import { Fates } from "./fates.js";
import { drawHead } from "./head.js";
import { drawRecall, wordsPattern } from "./recall.js";
import { BranchSource, WholeSource } from "./source.js";
import { Timeline } from "./timeline.js";
import { decorate, drawTurn, groupTurns } from "./turns.js";
import { WindowQuery } from "./window-query.js";

/** Messages of a conversation whose branches are looked for before anything is shown: of a longer one, that takes too long. */
const SHORT = 2000;

export class SessionView {
  /** `parameters` of the address: `budget`, `query`, and `at`, a position to begin at. */
  constructor(id, parameters) {
    this.id = id;
    this.parameters = parameters;
    this.fates = new Fates(null);
    this.forks = new Set();
    this.branches = [];
    this.pattern = null;
    this.recalled = new Set();
    this.kept = {};
    // Browsers refuse more than a few changes of the address in a second.
    this.keepSoon = debounced(300, () => keepParameters(this.kept));
    this.tellRecall = debounced(900, (passages) => announce(passages ? `Recalled: ${plural(passages, "passage")}` : "Nothing is recalled"));
    this.make();
  }

  make() {
    this.head = el("header", { class: "session-head" });
    this.problem = el("div", { class: "session-problem" });
    this.branchBox = el("fieldset", { class: "branches", hidden: true });
    this.recallBox = el("section", { class: "recall", "aria-label": "Recalled", hidden: true });
    this.band = new Band({ onbudget: (budget) => this.setBudget(budget), onjump: (position) => this.jump(position) });
    this.timeline = new Timeline({
      load: (number) => this.source.load(number),
      draw: (messages) => this.drawChunk(messages),
      after: this.recallBox,
      onloaded: () => this.decorate(),
      onproblem: (error) => this.fail(error),
    });
    this.query = el("input", {
      type: "text", id: "query", autocomplete: "off", enterkeyhint: "search", data: { shortcut: "query" },
      placeholder: "Type a question to see what it would bring back", oninput: () => this.setQuery(this.query.value),
    });
    this.newer = el("button", { type: "button", class: "button to-end", hidden: true, onclick: () => this.timeline.scrollToEnd() }, "To the newest");
    this.timeline.element.addEventListener("scroll", () => { this.newer.hidden = this.timeline.isAtEnd(); }, { passive: true });
    const composer = el("div", { class: "composer" }, el("label", { for: "query" }, "Next question"), this.query,
      el("span", { class: "composer-note" }, "Only looked at: nothing is sent or stored."));
    this.element = el("article", { class: "session", tabindex: "-1", "aria-label": `Session ${this.id}` },
      this.head, this.problem, this.branchBox, this.band.element,
      el("div", { class: "timeline-box" }, this.timeline.element, this.newer), composer);
    this.windowQuery = new WindowQuery(this.id, {
      onwindow: (window, asked) => this.showWindow(window, asked),
      onproblem: (error) => this.fail(error, () => this.windowQuery.ask({})),
      onbusy: (isBusy) => this.element.classList.toggle("is-asking", isBusy),
    });
  }

  async open() {
    const budget = Number(this.parameters.get("budget")) || null;
    this.band.budget = budget;
    this.query.value = this.parameters.get("query") ?? "";
    this.setPattern(this.query.value);
    this.windowQuery.wanted = { budget, query: this.query.value };
    this.refreshSoon = debounced(150, () => this.refresh());
    this.unsubscribe = subscribe(({ type, data }) => {
      if (type === "look" || data?.session === this.id) this.refreshSoon();
    });
    await this.load();
  }

  close() {
    this.unsubscribe?.();
    this.refreshSoon?.cancel();
    this.tellRecall.cancel();
    this.keepSoon.cancel();
    this.windowQuery.close();
    this.timeline.close();
    this.reading?.abort();
    this.isClosed = true;
  }

  fail(error, again = () => this.load()) {
    fill(this.problem, problemBox(error, () => {
      fill(this.problem);
      again();
    }));
  }

  async load() {
    try {
      this.session = await get(path("sessions", this.id));
      drawHead(this.head, this.session);
      const isShort = this.session.messages <= SHORT;
      if (isShort) await this.loadBranches();
      if (!this.branch) {
        this.source = new WholeSource(this.id, this.session);
        this.timeline.setChunks(this.source.sizes());
      }
      this.timeline.scrollToEnd();
      this.ask();
      this.jumpTo(this.parameters);
      if (!isShort) await this.loadBranches();
    } catch (error) {
      if (!this.isClosed) this.fail(error);
    }
  }

  /** A question of its owner: what other sessions of theirs hold comes back as well. */
  ask(changes = {}) {
    const { owner } = this.session;
    this.windowQuery.ask({ user: owner !== null && !isHashed(owner) ? owner : null, ...changes });
  }

  async loadBranches() {
    if (!this.session.messages) return;
    const before = this.branches.length;
    this.branches = await loadBranches(this.id);
    this.forks = new Set(this.branches.map((branch) => branch.fork_position).filter((position) => position !== null));
    if (this.branches.length < 2) return drawBranches(this.branchBox, [], null);
    const isNew = this.branches.length !== before || !this.branches.some(({ id }) => id === this.branch?.id);
    if (isNew) await this.choose(this.branches[0]);
    else drawBranches(this.branchBox, this.branches, this.branch.id, (branch) => this.choose(branch));
  }

  async choose(branch) {
    this.branch = branch;
    drawBranches(this.branchBox, this.branches, branch.id, (other) => this.choose(other));
    this.reading?.abort();
    this.reading = new AbortController();
    const source = new BranchSource(this.id, branch);
    try {
      await source.open(this.reading.signal);
    } catch (error) {
      return this.fail(error, () => this.choose(branch));
    }
    this.source = source;
    this.timeline.clear();
    this.timeline.setChunks(source.sizes());
    this.ask({ parent: branch.id });
  }

  /** Looks whether anything is different. */
  async refresh() {
    if (!this.session || this.isClosed) return;
    try {
      const before = this.session;
      this.session = await get(path("sessions", this.id));
      drawHead(this.head, this.session);
      const changed = ["next", "oldest", "tokens", "bytes", "summary", "generation", "messages"].some((name) => before[name] !== this.session[name]);
      if (!changed) return;
      this.ask();
      if (this.branch || this.session.next > before.next) this.branchesSoon ??= debounced(600, () => this.loadBranches().catch(() => {}));
      this.branchesSoon?.();
      if (this.branch) return;
      const grew = before.oldest === this.session.oldest && before.generation === this.session.generation && this.session.next > before.next;
      const last = this.source.sizes().length - 1;
      this.source = new WholeSource(this.id, this.session);
      this.timeline.setChunks(this.source.sizes(), { stale: (number) => !grew || number >= last });
    } catch (error) {
      if (error.status === 404) this.unsubscribe?.();
      if (!this.isClosed && error.status) this.fail(error);
    }
  }

  setBudget(budget) {
    this.kept.budget = budget;
    this.keepSoon();
    this.ask({ budget });
  }

  setPattern(query) {
    this.pattern = wordsPattern(query);
  }

  setQuery(query) {
    this.kept.query = query;
    this.keepSoon();
    this.ask({ query });
  }

  showWindow(window, { query = "" }) {
    fill(this.problem);
    this.fates = new Fates(window);
    this.band.show(this.fates);
    const before = String(this.pattern);
    this.setPattern(query);
    const passages = window.recalled?.passages ?? [];
    this.recalled = new Set(passages.filter(({ session }) => session === undefined || session === this.id).map(({ position }) => position));
    if (query.trim() && String(this.pattern) !== before) this.tellRecall(passages.length);
    const wasAtEnd = this.timeline.isAtEnd();
    drawRecall(this.recallBox, {
      window, query, session: this.id, jump: (position) => this.jump(position), marks: (text) => marked(text, this.pattern),
    });
    if (String(this.pattern) !== before) this.redraw();
    this.decorate();
    if (wasAtEnd) this.timeline.scrollToEnd();
  }

  /** Draws the turns in sight anew, with other words marked. */
  redraw() {
    for (const chunk of this.timeline.chunks) {
      if (!chunk.messages || !chunk.node) continue;
      if (chunk.node.isConnected) {
        const opened = [...chunk.node.querySelectorAll("details")].map(({ open }) => open);
        chunk.node.replaceChildren(...this.drawChunk(chunk.messages));
        chunk.node.querySelectorAll("details").forEach((details, at) => { details.open = opened[at] ?? false; });
      } else chunk.node = null;
    }
  }

  drawChunk(messages) {
    const turns = groupTurns(messages).map((turn) => drawTurn(turn, { pattern: this.pattern, forks: this.forks }));
    this.decorateThese(turns);
    return turns;
  }

  decorate() {
    this.decorateThese(this.timeline.turns());
    const turns = this.timeline.turns();
    if (turns.length && !turns.some((turn) => turn.tabIndex === 0)) turns.at(-1).tabIndex = 0;
  }

  decorateThese(turns) {
    const first = this.fates.sent[0]?.turn;
    for (const turn of turns) {
      const { turn: id, position } = turn.dataset;
      decorate(turn, this.fates.of(id, Number(position)), { isFirst: first !== undefined && id === first, recalled: this.recalled });
    }
  }

  /** Goes to the position that an address names. */
  jumpTo(parameters) {
    const at = parameters.get("at");
    if (at !== null && this.source) this.jump(Number(at));
  }

  jump(position) {
    this.timeline.reveal(this.source.chunkOf(position), (turns) => turns.findLast((turn) => {
      const end = turn.nextElementSibling ?? turn.parentElement.nextElementSibling?.firstElementChild;
      return Number(turn.dataset.position) <= position && (!end || Number(end.dataset.position ?? Infinity) > position);
    }));
  }
}
