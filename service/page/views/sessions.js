// The section of sessions: the list, and the one that is open.

import { get, ROOT } from "../core/api.js";
import { announce, debounced, el, fill, marked, onNextFrame, throttled } from "../core/dom.js";
import { subscribe } from "../core/events.js";
import { count, duration, fullTime, plural, shortCount, time } from "../core/format.js";
import { showProblem } from "../core/problems.js";
import { routeTo } from "../core/router.js";
import { Section } from "../core/section.js";
import { splitView } from "../core/split.js";
import { VirtualList } from "../core/virtual-list.js";
import { SessionView } from "../session/view.js";
import { SessionSource } from "./session-source.js";

const ROW_HEIGHT = 80;

const KINDS = [["all", "All"], ["owned", "With an owner"], ["unowned", "Without an owner"], ["expiring", "Gone within a day"]];
const ORDERS = [["used", "Used last"], ["tokens", "Most tokens"], ["expiry", "Expires first"], ["title", "By title"]];

const options = (choices) => choices.map(([value, label]) => el("option", { value }, label));
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

export class SessionsSection extends Section {
  constructor() {
    super("sessions");
    this.source = new SessionSource(onNextFrame(() => this.update()));
    this.search = el("input", {
      type: "search", id: "session-search", placeholder: "Title, owner, last line", autocomplete: "off", spellcheck: "false",
      "aria-label": "Search sessions", oninput: () => this.update(true),
      onkeydown: (event) => { if (event.key === "ArrowDown") { event.preventDefault(); this.list.focus(0); } },
    });
    this.kind = el("select", { "aria-label": "Which sessions", onchange: () => this.update(true) }, options(KINDS));
    this.order = el("select", { "aria-label": "In which order", onchange: () => this.update(true) }, options(ORDERS));
    this.total = el("p", { class: "list-total" });
    this.list = new VirtualList({
      label: "Sessions", rowHeight: ROW_HEIGHT,
      key: (session) => session.id,
      href: (session) => routeTo("sessions", session.id),
      content: (session) => this.row(session),
      onshow: (sessions) => this.wantLastLines(sessions),
    });
    this.inSight = [];
    const find = el("div", { class: "find" }, this.search, el("div", { class: "find-choices" }, this.kind, this.order), this.total);
    this.split = splitView({ label: "Sessions", list: [find, this.list.element], empty: "Choose a session to see what its next question gets." });
    this.element = this.split.element;
    this.wantLastLines = throttled(120, (sessions) => {
      this.inSight = sessions;
      this.source.wantLastLines(sessions);
    });
    this.tellCount = debounced(700, () => announce(plural(this.shown, "session")));
    this.view = null;
  }

  async open() {
    this.unsubscribe = subscribe((event) => this.onEvent(event));
    await this.reload();
  }

  close() {
    super.close();
    this.view = null;
    this.show(null);
  }

  async reload() {
    const signal = this.beginReload();
    try {
      await this.source.load(signal);
    } catch (error) {
      showProblem(error, () => this.reload());
    }
  }

  /** Opens a session; none: only the list. */
  show(id, parameters = new URLSearchParams()) {
    if (this.view?.id === id && id) return this.view.jumpTo(parameters);
    this.view?.close();
    this.view = id ? new SessionView(id, parameters) : null;
    this.split.show(this.view?.element ?? null);
    this.list.setCurrent(id ?? null);
    this.view?.open();
  }

  update(isAsked = false) {
    const text = this.search.value.trim();
    const found = this.source.find({ text, kind: this.kind.value, order: this.order.value });
    const words = text.split(/\s+/).filter(Boolean).map(escaped);
    const pattern = words.length ? new RegExp(words.join("|"), "gi") : null;
    const isOther = String(pattern) !== String(this.pattern);
    this.pattern = pattern;
    if (isOther) this.list.rows.forEach((row) => { row.item = null; });
    this.list.setItems(found);
    if (isAsked) this.list.element.scrollTop = 0;
    const all = this.source.sessions.size;
    const shown = found.length === all ? plural(all, "session") : `${count(found.length)} of ${plural(all, "session")}`;
    fill(this.total, this.source.isComplete ? shown : `${shown}, loading more…`);
    this.shown = found.length;
    if (isAsked) this.tellCount();
  }

  row(session) {
    const { id, title, owner, messages, tokens, last_at_ms: at, expires_in_ms: expires, lastLine } = session;
    const facts = [
      owner === null ? "no owner" : marked(owner, this.pattern),
      messages === null ? "can't be read" : `${shortCount(tokens)} tokens`,
      expires !== null && `gone in ${duration(expires)}`,
    ].filter(Boolean);
    return [
      el("span", { class: "row-title" },
        el("span", { class: title ? "row-name" : "row-name mono" }, marked(title ?? id, this.pattern)),
        at && el("time", { class: "row-time", title: fullTime(at) }, time(at))),
      el("span", { class: "row-line" }, messages === 0 ? "No messages yet" : marked(lastLine ?? "", this.pattern)),
      el("span", { class: "row-facts" }, facts.map((fact, at) => [at > 0 && " · ", fact])),
    ];
  }

  async onEvent({ type, data }) {
    if (type === "session.deleted") this.source.remove(data.session);
    else if (type === "look") await this.look();
    else if (data?.session && /^(session|message)\./.test(type)) this.source.refresh(data.session);
  }

  /** Without events: whether sessions came or went, and what became of those in sight. */
  async look() {
    try {
      const { sessions } = await get(`${ROOT}/stats`);
      if (this.source.isComplete && sessions !== this.source.sessions.size) return await this.reload();
      for (const { id } of this.inSight.slice(0, 12)) this.source.refresh(id);
    } catch { /* The next look tells. */ }
  }
}
