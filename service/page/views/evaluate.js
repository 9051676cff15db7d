// Asks a rule engine which memories a question calls for, and shows the rules that held.

import { path, post } from "../core/api.js";
import { el, fill } from "../core/dom.js";
import { routeTo } from "../core/router.js";
import { TrialPanel, readJson } from "./trial.js";

export class EvaluatePanel extends TrialPanel {
  constructor() {
    const input = (id, placeholder) => el("input", { type: "text", id, autocomplete: "off", spellcheck: "false", placeholder });
    const query = input("evaluate-query");
    const scopes = input("evaluate-scopes", '{"project": {"name": "shop"}}');
    const variables = input("evaluate-variables", "{}");
    super({
      label: "Evaluate", title: "Evaluate it", about: "As it is saved. Nothing is changed.",
      fields: [["Question", query], ["Variables by scope (JSON)", scopes], ["Other variables (JSON)", variables]],
    });
    Object.assign(this, { query, scopes, variables });
  }

  request() {
    return post(path("evaluate"), {
      rule_engine_ids: [this.definition.id], input: { text: this.query.value },
      scope_variables: readJson(this.scopes, "the variables by scope"), additional_variables: readJson(this.variables, "the other variables"),
    });
  }

  showResult({ memories, rules_applied: applied, variables_used: used }) {
    const holds = new Set(applied.map(({ rule_id: rule }) => rule));
    const rules = this.definition.rules ?? [];
    const condition = ({ field, operator, value }) => el("li", { class: "mono" }, [field, operator, value === undefined ? "" : JSON.stringify(value)].join(" "));
    fill(this.result,
      el("h3", {}, "Rules"),
      el("ol", { class: "steps" }, rules.map(({ id, when = [] }) => el("li", { class: holds.has(id) ? "step is-done" : "step" },
        el("details", { open: holds.has(id) },
          el("summary", {}, el("span", { class: "mono" }, id), el("span", { class: "step-size" }, holds.has(id) ? "holds" : "does not hold")),
          el("ul", {}, (Array.isArray(when) ? when : [when]).map(condition)))))),
      used.length > 0 && el("p", { class: "muted" }, "Looked at: ", el("span", { class: "mono" }, used.join(", "))),
      el("h3", {}, "Memories that it calls for"),
      memories.length > 0
        ? el("ul", { class: "evaluated" }, memories.map((id) => el("li", {}, el("a", { class: "mono", href: routeTo("definitions", "memories", id) }, id))))
        : el("p", { class: "muted" }, "None."));
  }
}
