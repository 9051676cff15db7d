// Runs a memory, and shows what each of its steps came to.

import { path, post, withQuery } from "../core/api.js";
import { el, fill } from "../core/dom.js";
import { plural, prettyJson } from "../core/format.js";
import { TrialPanel, readJson } from "./trial.js";

const BRANCHES = [["thenSteps", "if so"], ["elseSteps", "if not"]];
const OWN = new Set(["type", "alias", "thenSteps", "elseSteps"]);

export class RunPanel extends TrialPanel {
  constructor() {
    const query = el("input", { type: "text", id: "run-query", autocomplete: "off" });
    const session = el("input", { type: "text", id: "run-session", autocomplete: "off", spellcheck: "false" });
    const user = el("input", { type: "text", id: "run-user", autocomplete: "off", spellcheck: "false" });
    const variables = el("input", { type: "text", id: "run-variables", class: "mono", autocomplete: "off", spellcheck: "false", placeholder: "{}" });
    super({
      label: "Run", title: "Run it", about: "As it is saved, for a session and a user if it needs them. Nothing is changed.",
      fields: [["Question", query], ["Session", session], ["User", user], ["Variables (JSON)", variables]],
    });
    Object.assign(this, { query, session, user, variables });
  }

  request() {
    const variables = readJson(this.variables, "the variables");
    const where = withQuery(`${path("memories", this.definition.id)}/run`, { session: this.session.value.trim(), user: this.user.value.trim() });
    const query = this.query.value.trim();
    return post(where, { intent: query ? { query } : {}, variables });
  }

  showResult(run) {
    const { success, results = {}, formatted = "", exited, missing_variables: missing = [], warnings = [], error } = run;
    fill(this.result,
      error && el("p", { class: "problem-what" }, [error.path, error.message].filter(Boolean).join(": ")),
      missing.length > 0 && el("p", { class: "problem-what" }, `Missing: ${missing.join(", ")}`),
      warnings.length > 0 && el("ul", { class: "findings" }, warnings.map(({ path: where, message }) => el("li", { class: "is-warning" }, el("strong", {}, "Note"), el("span", { class: "mono" }, where), el("span", {}, message)))),
      el("h3", {}, "Steps"),
      el("ol", { class: "steps" }, drawSteps(this.definition.retrieval?.pipeline ?? [], results)),
      el("h3", {}, exited ? "What the model gets (an early exit ended the run)" : "What the model gets"),
      formatted ? el("pre", { class: "mono run-text", tabindex: "0" }, formatted) : el("p", { class: "muted" }, success ? "Nothing." : "Nothing: the run failed."));
  }
}

function drawSteps(steps, results) {
  return steps.map((step) => {
    const name = step.alias ?? step.type;
    const isDone = name in results;
    const parameters = Object.fromEntries(Object.entries(step).filter(([key]) => !OWN.has(key)));
    return el("li", { class: isDone ? "step is-done" : "step" },
      el("details", { open: isDone && sizeOf(results[name]) !== 0 },
        el("summary", {}, el("span", { class: "mono" }, step.type), step.alias && el("span", { class: "muted" }, ` as ${step.alias}`),
          el("span", { class: "step-size" }, isDone ? told(results[name]) : "not reached")),
        Object.keys(parameters).length > 0 && el("p", { class: "step-parameters mono" }, JSON.stringify(parameters)),
        isDone && el("pre", { class: "mono", tabindex: "0" }, prettyJson(results[name]))),
      BRANCHES.map(([member, label]) => Array.isArray(step[member]) && step[member].length > 0
        && el("div", {}, el("p", { class: "step-branch" }, label), el("ol", { class: "steps" }, drawSteps(step[member], results)))));
  });
}

const sizeOf = (value) => (Array.isArray(value) ? value.length : 1);

function told(value) {
  if (Array.isArray(value)) return plural(value.length, "item");
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "string" ? "a text" : "a value";
}
