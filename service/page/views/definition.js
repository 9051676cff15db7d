// One definition: edited as text, checked as one types, saved on the revision that was read, and run. Changes that are not saved
// are there again when it is opened again.

import { get, path, post, request } from "../core/api.js";
import { confirmed } from "../core/confirm-dialog.js";
import { keepDraft, readDraft } from "../core/drafts.js";
import { announce, debounced, el, fill } from "../core/dom.js";
import { plural } from "../core/format.js";
import { problemBox } from "../core/problems.js";
import { routeTo } from "../core/router.js";
import { EvaluatePanel } from "./evaluate.js";
import { RunPanel } from "./run.js";

const CHECK_MS = 250;
const TYPES = { json: "application/json", yaml: "application/yaml" };

const NEW = {
  memories: {
    id: "new-memory", label: "New memory", inputs_scope: ["project"],
    retrieval: { pipeline: [{ type: "kv_get", instance: "house", namespace: "style", keys: ["indent"] }] },
    contribution: { section: "constraints", priority: "medium", format: "bullet_list" },
  },
  "rule-engines": {
    id: "new-rules", name: "New rules",
    rules: [{ id: "first", when: [{ field: "input.text", operator: "contains", value: "test" }], then: { add_memories: ["new-memory"] } }],
  },
};

/** The id in a text; null: it can't be told. */
function idIn(text, form) {
  if (form === "yaml") return /^id:\s*["']?([^\s"'#]+)/m.exec(text)?.[1] ?? null;
  try {
    return JSON.parse(text).id ?? null;
  } catch {
    return null;
  }
}

export class DefinitionView {
  /** `id` is null for a new one; `onsaved` is told the id, or null when it was removed. */
  constructor(kind, id, onsaved) {
    Object.assign(this, { kind, id, onsaved, revision: null, saved: "", isValid: false, checked: 0 });
    this.problem = el("div");
    this.state = el("p", { class: "editor-state", role: "status" });
    this.text = el("textarea", {
      class: "mono editor-text", id: "definition", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off",
      "aria-describedby": "findings", "aria-label": "Definition", oninput: () => this.onInput(), onkeydown: (event) => this.onKey(event),
    });
    this.form = el("select", { "aria-label": "Written as", onchange: () => this.onInput() },
      el("option", { value: "json" }, "JSON"), el("option", { value: "yaml" }, "YAML"));
    this.findings = el("ul", { class: "findings", id: "findings" });
    this.saveButton = el("button", { type: "button", class: "button primary", disabled: true, onclick: () => this.save() }, "Save");
    this.removeButton = el("button", { type: "button", class: "button quiet", hidden: id === null, onclick: () => this.remove() }, "Delete…");
    this.discardButton = el("button", { type: "button", class: "button quiet", hidden: true, onclick: () => this.discard() }, "Discard changes");
    this.runPanel = kind === "memories" ? new RunPanel() : new EvaluatePanel();
    this.element = el("article", { class: "scroller detail", tabindex: "-1", "aria-label": id === null ? "New definition" : `Definition ${id}` },
      el("header", { class: "detail-head" },
        el("a", { class: "back", href: routeTo("definitions") }, "All definitions"),
        el("h1", { class: "mono" }, id ?? (kind === "memories" ? "A new memory" : "A new rule engine"))),
      this.problem,
      el("section", { class: "panel editor", "aria-label": "Editor" },
        el("div", { class: "editor-bar" }, this.form, this.state, el("span", { class: "grow" }), this.removeButton, this.discardButton, this.saveButton),
        this.text, this.findings),
      this.runPanel.element);
    this.checkSoon = debounced(CHECK_MS, () => this.check());
  }

  close() {
    this.checkSoon.cancel();
    this.isClosed = true;
  }

  get draftName() {
    return `${this.kind}/${this.id ?? ""}`;
  }

  async open() {
    const draft = readDraft(this.draftName);
    if (this.id === null) {
      this.template = JSON.stringify(NEW[this.kind], null, 2);
      this.text.value = this.template;
    } else {
      fill(this.problem);
      try {
        this.take(await get(path("definitions", this.kind, this.id)));
      } catch (error) {
        return fill(this.problem, problemBox(error, () => this.open()));
      }
    }
    if (draft) {
      // On the revision that it was begun from: what somebody else saved since is not overwritten.
      this.revision = draft.revision;
      [this.text.value, this.form.value] = [draft.text, draft.form];
      announce("Changes that were not saved are back.");
    }
    await this.check();
  }

  /** Reads it anew, without what was changed here. */
  discard() {
    keepDraft(this.draftName, null);
    this.form.value = "json";
    this.text.focus();
    return this.open();
  }

  take({ definition, revision }) {
    this.revision = revision;
    this.form.value = "json";
    this.saved = JSON.stringify(definition, null, 2);
    this.text.value = this.saved;
    this.runPanel.show(definition);
    this.showState();
  }

  get isChanged() {
    return this.text.value !== this.saved;
  }

  /** Of a new one: other than what it begins with. */
  get isDraft() {
    return this.text.value !== (this.id === null ? this.template : this.saved);
  }

  onInput() {
    this.isValid = false;
    keepDraft(this.draftName, this.isDraft ? { text: this.text.value, form: this.form.value, revision: this.revision } : null);
    this.showState("Checking…");
    this.checkSoon();
  }

  onKey(event) {
    if (!(event.ctrlKey || event.metaKey)) return;
    if (event.key === "s") {
      event.preventDefault();
      this.save();
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.runPanel.run();
    }
  }

  showState(text) {
    const revision = this.revision === null ? "not saved yet" : `revision ${this.revision}`;
    fill(this.state, text ?? (this.isChanged ? `${revision}, changed` : revision));
    this.discardButton.hidden = !this.isDraft;
    this.saveButton.disabled = !this.isValid || !this.isChanged || this.isSaving === true;
  }

  /** Asks the service. Of several answers, the last one counts. */
  async check() {
    const number = ++this.checked;
    const headers = { "content-type": TYPES[this.form.value] };
    try {
      const checked = await post(`${path("definitions", this.kind)}/check`, this.text.value, { headers });
      if (number !== this.checked || this.isClosed) return;
      this.showFindings(checked);
    } catch (error) {
      if (number === this.checked && !this.isClosed) fill(this.problem, problemBox(error, () => this.check()));
    }
  }

  showFindings({ valid, errors, warnings }) {
    const wanted = idIn(this.text.value, this.form.value);
    const found = [...errors];
    if (valid && this.id !== null && wanted !== null && wanted !== this.id) {
      found.push({ path: "id", message: `the id must stay ${this.id}` });
    }
    this.isValid = valid && found.length === 0;
    const finding = (kind, label) => ({ path: where, message }) => el("li", { class: kind },
      el("strong", {}, label), where && el("button", { type: "button", class: "link mono", onclick: () => this.showPlace(where) }, where), el("span", {}, message));
    fill(this.findings, found.map(finding("is-error", "Fault")), warnings.map(finding("is-warning", "Note")));
    this.text.setAttribute("aria-invalid", String(!this.isValid));
    this.showState();
    if (!this.isValid && document.activeElement === this.text) announce(`${plural(found.length, "fault")}. ${found[0]?.path} ${found[0]?.message}`);
  }

  /** Selects the name of a member that a fault is about. */
  showPlace(where) {
    let at = 0;
    let name = "";
    for (const part of where.match(/[^.[\]]+/g) ?? []) {
      if (/^\d+$/.test(part)) continue;
      const next = this.text.value.indexOf(part, at);
      if (next < 0) break;
      [at, name] = [next, part];
    }
    this.text.focus();
    this.text.setSelectionRange(at, at + name.length);
  }

  async save() {
    if (this.saveButton.disabled) return;
    const id = this.id ?? idIn(this.text.value, this.form.value);
    if (!id) return;
    this.isSaving = true;
    this.showState("Saving…");
    fill(this.problem);
    // Only on what was read: a change that somebody else made meanwhile is not lost.
    const condition = this.revision === null ? { "if-none-match": "*" } : { "if-match": `"${this.revision}"` };
    const headers = { ...condition, "content-type": TYPES[this.form.value] };
    try {
      const saved = await request("PUT", path("definitions", this.kind, id), { body: this.text.value, headers });
      this.isSaving = false;
      keepDraft(this.draftName, null);
      this.take(saved);
      this.isValid = true;
      this.showState(`Saved as revision ${saved.revision}`);
      this.onsaved(saved.id);
    } catch (error) {
      this.isSaving = false;
      this.showState();
      const again = error.status === 412 && this.id !== null ? () => this.discard() : () => this.save();
      fill(this.problem, problemBox(error, again));
    }
  }

  async remove() {
    const isSure = await confirmed({ title: `Delete ${this.id}?`, action: "Delete", text: "Questions will gain nothing of it any more. This can't be undone." });
    if (!isSure) return this.removeButton.focus();
    try {
      const headers = { "if-match": `"${this.revision}"` };
      await request("DELETE", path("definitions", this.kind, this.id), { headers });
      keepDraft(this.draftName, null);
      this.onsaved(null);
    } catch (error) {
      fill(this.problem, problemBox(error, () => this.open()));
    }
  }
}
