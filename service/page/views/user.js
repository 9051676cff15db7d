// One user: what is known of them, and forgetting it.

import { get, pages, path, remove } from "../core/api.js";
import { confirmed } from "../core/confirm-dialog.js";
import { announce, el, fill } from "../core/dom.js";
import { count, fullTime, plural, prettyJson, timeAndDay } from "../core/format.js";
import { problemBox } from "../core/problems.js";
import { routeTo } from "../core/router.js";
import { isHashed } from "../core/users.js";

/** Sessions that are listed. */
const SHOWN = 200;

export class UserView {
  /** `onforgotten` is called when something of the user is gone. */
  constructor(id, onforgotten) {
    this.id = id;
    this.onforgotten = onforgotten;
    this.problem = el("div");
    this.figures = el("dl", { class: "figures" });
    this.valuesBox = el("section", { class: "panel", "aria-label": "Values" });
    this.sessionsBox = el("section", { class: "panel", "aria-label": "Sessions of the user" });
    this.forgetButton = el("button", { type: "button", class: "button danger", onclick: () => this.forget() }, "Forget this user…");
    this.status = el("p", { class: "forget-status", role: "status" });
    this.element = el("article", { class: "scroller detail", tabindex: "-1", "aria-label": `User ${id}` },
      el("header", { class: "detail-head" },
        el("a", { class: "back", href: routeTo("users") }, "All users"),
        el("h1", {}, id)),
      this.problem, this.figures,
      el("div", { class: "forget" }, this.forgetButton, this.status),
      this.valuesBox, this.sessionsBox);
  }

  close() {
    this.reading?.abort();
  }

  async open() {
    if (isHashed(this.id)) return this.showHash();
    this.reading?.abort();
    this.reading = new AbortController();
    const { signal } = this.reading;
    fill(this.problem);
    try {
      const user = await get(path("users", this.id), { signal });
      this.showFigures(user);
      const values = await get(path("users", this.id, "keys"), { signal });
      this.showValues(values.data);
      await this.loadSessions(signal);
    } catch (error) {
      if (error.name !== "AbortError") fill(this.problem, problemBox(error, () => this.open()));
      if (error.status === 404) this.showNothing();
    }
  }

  /** What is theirs is only reached by their id. */
  showHash() {
    this.forgetButton.hidden = true;
    fill(this.valuesBox,
      el("h2", {}, "Known by a hash"),
      el("p", {}, "The id of this user is no plain word, so only its hash is stored. Type the id itself into the search, and press Enter, to see what is known of them."));
  }

  showFigures({ sessions, values, nodes }) {
    this.counts = { sessions, values, nodes };
    fill(this.figures, [["Sessions", sessions], ["Values", values], ["Nodes", nodes]].map(([name, value]) =>
      el("div", { data: { figure: name.toLowerCase() } }, el("dt", {}, name), el("dd", {}, count(value)))));
    this.forgetButton.disabled = sessions + values + nodes === 0;
  }

  showNothing() {
    this.showFigures({ sessions: 0, values: 0, nodes: 0 });
    fill(this.valuesBox);
    fill(this.sessionsBox);
  }

  showValues(values) {
    fill(this.valuesBox,
      el("h2", {}, "Values"),
      el("p", { class: "muted" }, values.length ? "Each question of this user gets them." : "Nothing is stored that each question would get."),
      values.length > 0 && el("dl", { class: "values" }, values.map(({ key, value }) => [el("dt", { class: "mono" }, key), el("dd", { class: "mono" }, prettyJson(value))])));
  }

  async loadSessions(signal) {
    const list = el("ul", { class: "plain-list" });
    fill(this.sessionsBox, el("h2", {}, "Sessions"), list);
    for await (const page of pages(path("users", this.id, "sessions"), {}, signal)) {
      for (const session of page) list.append(drawSession(session));
      if (list.childElementCount >= SHOWN) {
        list.append(el("li", { class: "muted" }, `These are the ${count(list.childElementCount)} that were used last.`));
        return;
      }
    }
    if (!list.childElementCount) list.append(el("li", { class: "muted" }, "No sessions."));
  }

  async forget() {
    const { sessions, values, nodes } = this.counts;
    const what = [plural(sessions, "session"), plural(values, "value"), plural(nodes, "node")].join(", ");
    const isSure = await confirmed({
      title: `Forget ${this.id}?`, action: "Forget",
      text: `${what}, and all that recall keeps of them, will be deleted. This can't be undone.`,
    });
    if (!isSure) return this.forgetButton.focus();
    this.forgetButton.disabled = true;
    fill(this.problem);
    try {
      await this.forgetAll();
    } catch (error) {
      this.forgetButton.disabled = false;
      fill(this.status);
      fill(this.problem, problemBox(error, () => this.forget()));
    }
  }

  /** The service forgets as much as the time of a request allows; it is asked until nothing is left. */
  async forgetAll() {
    for (let remaining = 1; remaining > 0;) {
      fill(this.status, "Forgetting…");
      const gone = await remove(path("users", this.id));
      remaining = gone.remaining;
      this.showFigures({ sessions: remaining, values: remaining ? this.counts.values : 0, nodes: remaining ? this.counts.nodes : 0 });
    }
    await this.countAgain();
    this.onforgotten();
  }

  /** What is left, as the service has it: nothing. */
  async countAgain() {
    const [sessions, values] = await Promise.all(["sessions", "keys"].map((list) => get(path("users", this.id, list))));
    if (sessions.data.length + values.data.length > 0) {
      fill(this.status, "Something was stored meanwhile.");
      return this.open();
    }
    this.showNothing();
    fill(this.status, "Forgotten: nothing is left.");
    announce("Forgotten: nothing is left.");
  }
}

const drawSession = ({ id, title, preview, messages, last_at_ms: at }) => el("li", {},
  el("a", { href: routeTo("sessions", id) }, title ?? id),
  el("span", { class: "row-line" }, preview),
  el("span", { class: "row-facts" }, plural(messages ?? 0, "message"), at && [" · ", el("time", { title: fullTime(at) }, timeAndDay(at))]));
