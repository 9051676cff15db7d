// The section of definitions: memories and rule engines, and the one that is edited.

import { pages, path } from "../core/api.js";
import { debounced, el, fill } from "../core/dom.js";
import { subscribe } from "../core/events.js";
import { plural } from "../core/format.js";
import { showProblem } from "../core/problems.js";
import { go, routeTo } from "../core/router.js";
import { Section } from "../core/section.js";
import { splitView } from "../core/split.js";
import { VirtualList } from "../core/virtual-list.js";
import { DefinitionView } from "./definition.js";

const ROW_HEIGHT = 60;
const KINDS = ["memories", "rule-engines"];
const NAMES = { memories: "memory", "rule-engines": "rule engine" };

export class DefinitionsSection extends Section {
  constructor() {
    super("definitions");
    this.definitions = [];
    this.search = el("input", {
      type: "search", placeholder: "Id or label", "aria-label": "Search definitions", autocomplete: "off", spellcheck: "false",
      oninput: () => this.update(), onkeydown: (event) => { if (event.key === "ArrowDown") { event.preventDefault(); this.list.focus(0); } },
    });
    this.total = el("p", { class: "list-total" });
    this.list = new VirtualList({
      label: "Definitions", rowHeight: ROW_HEIGHT, key: ({ id, of }) => `${of}/${id}`, href: ({ id, of }) => routeTo("definitions", of, id),
      content: ({ id, of, definition, revision }) => [
        el("span", { class: "row-title" }, el("span", { class: "row-name" }, definition.label ?? definition.name ?? id), el("span", { class: "row-time" }, `rev. ${revision}`)),
        el("span", { class: "row-facts" }, el("span", { class: "mono" }, id), ` · ${NAMES[of]}`, definition.status && definition.status !== "active" && ` · ${definition.status}`),
      ],
    });
    const create = (of, label) => el("button", { type: "button", class: "button small", onclick: () => go("definitions", of) }, label);
    this.split = splitView({
      label: "Definitions",
      list: [el("div", { class: "find" }, this.search, el("div", { class: "find-choices" }, create("memories", "New memory"), create("rule-engines", "New rule engine")), this.total), this.list.element],
      empty: "Choose a definition to read, change or run it.",
    });
    this.element = this.split.element;
    this.reloadSoon = debounced(400, () => this.reload());
  }

  async open() {
    this.unsubscribe = subscribe(({ type }) => {
      if (type === "look" || type.startsWith("persistentMemory:")) this.reloadSoon();
    });
    await this.reload();
  }

  async reload() {
    const signal = this.beginReload();
    const found = [];
    try {
      for (const of of KINDS) {
        for await (const page of pages(path("definitions", of), {}, signal)) {
          for (const definition of page) found.push({ ...definition, of });
        }
      }
      this.definitions = found;
      this.update();
    } catch (error) {
      showProblem(error, () => this.reload());
    }
  }

  update() {
    const text = this.search.value.trim().toLowerCase();
    const holds = ({ id, definition }) => `${id} ${definition.label ?? definition.name ?? ""}`.toLowerCase().includes(text);
    this.list.setItems(this.definitions.filter(holds));
    fill(this.total, plural(this.definitions.filter(holds).length, "definition"));
  }

  /** `[kind, id]`: opens one; `[kind]`: a new one; nothing: only the list. */
  show([of, id]) {
    const key = of ? `${of}/${id ?? ""}` : null;
    if (this.view?.key === key && key) return;
    this.view?.close();
    const isKind = KINDS.includes(of);
    this.view = isKind ? new DefinitionView(of, id ?? null, (saved) => this.onSaved(of, saved)) : null;
    if (this.view) this.view.key = key;
    this.split.show(this.view?.element ?? null);
    this.list.setCurrent(isKind && id ? key : null);
    this.view?.open();
  }

  /** Saved under that id; null: removed. */
  async onSaved(of, id) {
    await this.reload();
    if (id === null) go("definitions");
    else if (this.view?.key !== `${of}/${id}`) go("definitions", of, id);
  }
}
