// The budget: a slider that stands over the conversation, drawn to the scale of its tokens, the newest at the right. Its thumb
// is where a window of that budget begins.

import { el, fill } from "../core/dom.js";
import { count, plural } from "../core/format.js";

const LEAST = 64;
const MOST = 2_000_000;
/** Steps of the slider. */
const STEPS = 1000;
/** From so many tokens on, the scale is that of square roots, or the newest turns could not be told apart. */
const ROOTS_FROM = 6000;

/** Share of the ribbon below which a turn has no line beside it. */
const THIN = 0.006;

const clamped = (budget) => Math.min(MOST, Math.max(LEAST, Math.round(budget)));

export class Band {
  /** `onbudget` is told the budget; `onjump` the position of a turn that somebody points at. */
  constructor({ onbudget, onjump }) {
    Object.assign(this, { onbudget, onjump });
    this.most = 1000;
    this.budget = null;
    this.number = el("input", {
      type: "number", id: "budget", class: "budget-number", min: LEAST, max: MOST, step: "1", inputmode: "numeric",
      onchange: () => this.take(this.number.valueAsNumber),
    });
    this.slider = el("input", {
      type: "range", class: "budget-slider", min: "0", max: STEPS, step: "5", dir: "rtl", "aria-label": "Budget in tokens",
      data: { shortcut: "budget" }, oninput: () => this.take(this.fromScale(this.slider.valueAsNumber / STEPS)),
    });
    this.ribbon = el("div", { class: "ribbon", "aria-hidden": "true", onclick: (event) => this.point(event) });
    this.told = el("p", { class: "band-told", role: "status" });
    this.usual = el("button", { type: "button", class: "button small", hidden: true, title: "The budget as it is configured", onclick: () => this.take(null) }, "Reset");
    this.element = el("section", { class: "band", "aria-label": "Window" },
      el("div", { class: "band-head" }, this.told,
        el("div", { class: "band-budget" }, this.usual, el("label", { for: "budget" }, "Budget"), this.number, el("span", {}, "tokens"))),
      el("div", { class: "band-scale" }, this.ribbon, this.slider));
  }

  take(budget) {
    if (Number.isNaN(budget)) return;
    this.budget = budget === null ? null : clamped(budget);
    if (this.budget !== null) this.place(this.budget);
    this.onbudget(this.budget);
  }

  get power() {
    return this.most > ROOTS_FROM ? 0.5 : 1;
  }

  toScale(tokens) {
    return Math.min(1, (tokens / this.most) ** this.power);
  }

  fromScale(share) {
    return share ** (1 / this.power) * this.most;
  }

  place(budget) {
    this.number.value = budget;
    this.slider.value = Math.round(this.toScale(budget) * STEPS);
    this.slider.setAttribute("aria-valuetext", plural(budget, "token"));
  }

  /** Shows a window. */
  show(fates) {
    const { window } = fates;
    const total = window.thread_tokens ?? 0;
    this.most = Math.min(MOST, Math.max(2 * LEAST, Math.ceil(total * 1.1)));
    this.usual.hidden = this.budget === null;
    if (document.activeElement !== this.number || this.budget === null) this.place(this.budget ?? window.budget ?? MOST);
    this.drawRibbon(fates);
    const sent = `${fates.hasMoreSent ? "more than " : ""}${plural(fates.sent.length, "turn")}`;
    const out = fates.turns.length - fates.sent.length;
    const isMoreOut = fates.olderTokens.out > 0;
    const told = out > 0 ? `${plural(out, "turn")}${isMoreOut ? " and all before" : ""}` : "all before";
    fill(this.told,
      el("strong", {}, "Sent to the model: "),
      `${sent}, ${count(window.tokens ?? 0)} of ${plural(window.budget ?? 0, "token")}`,
      window.summary && ", with the summary",
      (out > 0 || isMoreOut) && el("span", { class: "band-out" }, ` · out: ${told}`));
  }

  drawRibbon(fates) {
    let newer = 0;
    const cells = [];
    const cell = (tokens, fate, title, position) => {
      const [from, to] = [this.toScale(newer), this.toScale(newer + tokens)];
      newer += tokens;
      const element = el("span", { class: "ribbon-turn", title, data: { fate, position: position ?? "" } });
      element.style.insetInlineEnd = `${from * 100}%`;
      element.style.inlineSize = `${(to - from) * 100}%`;
      // A line between turns that are thinner than it would hide them.
      element.classList.toggle("is-thin", to - from < THIN);
      cells.push(element);
    };
    for (const turn of fates.turns.toReversed()) {
      const { isSent, label } = fates.of(turn.turn, turn.position);
      cell(turn.tokens ?? 0, isSent ? "sent" : turn.fate, `Position ${turn.position}: ${label}, ${plural(turn.tokens ?? 0, "token")}`, turn.position);
    }
    const { sent, out } = fates.olderTokens;
    if (sent > 0) cell(sent, "sent", `Older turns that are sent: ${plural(sent, "token")}`, fates.start);
    if (out > 0) cell(out, fates.of("", 0).fate, `Older turns: ${plural(out, "token")}`);
    fill(this.ribbon, cells);
  }

  point(event) {
    const { position } = event.target.dataset;
    if (position) this.onjump(Number(position));
  }
}
