// The section of users: who there is, and one of them.

import { get, pages, path, ROOT } from "../core/api.js";
import { announce, debounced, el, fill } from "../core/dom.js";
import { subscribe } from "../core/events.js";
import { count, plural } from "../core/format.js";
import { showProblem } from "../core/problems.js";
import { go, routeTo } from "../core/router.js";
import { Section } from "../core/section.js";
import { splitView } from "../core/split.js";
import { VirtualList } from "../core/virtual-list.js";
import { UserView } from "./user.js";

const ROW_HEIGHT = 60;

export class UsersSection extends Section {
  constructor() {
    super("users");
    this.users = new Map();
    this.isComplete = false;
    this.search = el("input", {
      type: "search", placeholder: "Id of a user; Enter opens it", "aria-label": "Search users", autocomplete: "off", spellcheck: "false",
      oninput: () => this.update(true), onkeydown: (event) => this.onSearchKey(event),
    });
    this.total = el("p", { class: "list-total" });
    this.list = new VirtualList({
      label: "Users", rowHeight: ROW_HEIGHT, key: ({ id }) => id, href: ({ id }) => routeTo("users", id),
      content: ({ id, sessions, values, nodes }) => [
        el("span", { class: "row-title" }, el("span", { class: "row-name" }, id)),
        el("span", { class: "row-facts" }, [plural(sessions, "session"), plural(values, "value"), nodes > 0 && plural(nodes, "node")].filter(Boolean).join(" · ")),
      ],
    });
    this.split = splitView({
      label: "Users", list: [el("div", { class: "find" }, this.search, this.total), this.list.element],
      empty: "Choose a user to see what is known of them.",
    });
    this.element = this.split.element;
    this.tellCount = debounced(700, () => announce(plural(this.list.items.length, "user")));
    this.reloadSoon = debounced(400, () => this.reload());
  }

  async open() {
    this.unsubscribe = subscribe((event) => this.onEvent(event));
    await this.reload();
  }

  async reload() {
    const signal = this.beginReload();
    const found = new Map();
    try {
      for await (const page of pages(path("users"), {}, signal)) {
        for (const user of page) {
          found.set(user.id, user);
          this.users.set(user.id, user);
        }
        this.update();
      }
      this.users = found;
      this.isComplete = true;
      this.update();
    } catch (error) {
      showProblem(error, () => this.reload());
    }
  }

  async onEvent({ type }) {
    if (type !== "look") {
      if (/^session\.|^message\./.test(type)) this.reloadSoon();
      return;
    }
    try {
      const { users } = await get(`${ROOT}/stats`);
      if (this.isComplete && users !== this.counted) {
        this.counted = users;
        await this.reload();
      }
    } catch { /* The next look tells. */ }
  }

  update(isAsked = false) {
    const text = this.search.value.trim().toLowerCase();
    const found = [...this.users.values()].filter(({ id }) => id.toLowerCase().includes(text)).sort((a, b) => a.id.localeCompare(b.id));
    this.list.setItems(found);
    const all = this.users.size;
    fill(this.total, found.length === all ? plural(all, "user") : `${count(found.length)} of ${plural(all, "user")}`, !this.isComplete && ", loading more…");
    if (isAsked) {
      this.list.element.scrollTop = 0;
      this.tellCount();
    }
  }

  show(id) {
    if (this.view?.id === id && id) return;
    this.view?.close();
    this.view = id ? new UserView(id, () => this.reload()) : null;
    this.split.show(this.view?.element ?? null);
    this.list.setCurrent(id);
    this.view?.open();
  }

  onSearchKey(event) {
    if (event.key === "ArrowDown") {
      event.preventDefault();
      this.list.focus(0);
    } else if (event.key === "Enter" && this.search.value.trim()) go("users", this.search.value.trim());
  }
}
