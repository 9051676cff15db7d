// What running a memory and evaluating a rule engine have in common: a form, a request on what is saved, and its result.

import { el, fill } from "../core/dom.js";
import { problemBox } from "../core/problems.js";

/** The JSON in a field, where nothing is an empty object. `what` begins the error. */
export function readJson(input, what) {
  try {
    return JSON.parse(input.value.trim() || "{}");
  } catch (error) {
    throw new SyntaxError(`${what} are not JSON: ${error.message}`);
  }
}

export class TrialPanel {
  /** `fields`: labels and inputs. Who extends it has `request`, which asks the service, and `showResult`. */
  constructor({ label, title, about, fields }) {
    this.definition = null;
    this.button = el("button", { type: "submit", class: "button primary" }, label);
    this.result = el("div", { class: "run-result", role: "region", "aria-label": "Result", "aria-live": "polite" });
    const form = el("form", { class: "run-form", onsubmit: (event) => { event.preventDefault(); this.run(); } },
      fields.map(([name, input]) => el("div", { class: "field" }, el("label", { for: input.id }, name), input)), this.button);
    this.element = el("section", { class: "panel run", "aria-label": label, hidden: true },
      el("h2", {}, title), el("p", { class: "muted" }, about), form, this.result);
  }

  /** The definition that is saved. */
  show(definition) {
    this.definition = definition;
    this.element.hidden = false;
  }

  async run() {
    if (!this.definition) return;
    this.button.disabled = true;
    try {
      this.showResult(await this.request());
    } catch (error) {
      fill(this.result, problemBox(error, () => this.run()));
    } finally {
      this.button.disabled = false;
    }
  }
}
