// A long list of links of which only the rows in sight exist. Arrow keys move from row to row; Tab leaves the list.

import { el, onNextFrame } from "./dom.js";

/** Rows beyond what is in sight, on both sides. */
const BEYOND = 6;

export class VirtualList {
  /**
   * `key` and `href` of an item; `content` makes what its row holds; `onshow` is told the items in sight.
   */
  constructor({ label, rowHeight, key, href, content, onshow = () => {} }) {
    Object.assign(this, { rowHeight, key, href, content, onshow });
    this.items = [];
    this.rows = new Map();
    this.active = 0;
    this.current = null;
    this.rowsBox = el("ul", { class: "rows", role: "list", "aria-label": label });
    this.element = el("div", { class: "scroller list", onkeydown: (event) => this.onKey(event) }, this.rowsBox);
    this.draw = onNextFrame(() => this.drawNow());
    this.element.addEventListener("scroll", this.draw, { passive: true });
    new ResizeObserver(this.draw).observe(this.element);
  }

  /** At once: what is told beside the list, such as its total, is of the same items. */
  setItems(items) {
    this.items = items;
    this.active = Math.min(this.active, Math.max(0, items.length - 1));
    this.drawNow();
  }

  /** Marks the item that is open. */
  setCurrent(key) {
    this.current = key;
    const at = this.items.findIndex((item) => this.key(item) === key);
    if (at >= 0) this.active = at;
    this.draw();
  }

  /** Draws a row anew the next time. */
  forget(key) {
    const row = this.rows.get(key);
    if (row) row.item = null;
    this.draw();
  }

  visible() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / this.rowHeight));
    const last = Math.ceil((this.element.scrollTop + this.element.clientHeight) / this.rowHeight);
    return { first, last: Math.min(this.items.length, last) };
  }

  drawNow() {
    const { first, last } = this.visible();
    const wanted = new Set();
    this.rowsBox.style.blockSize = `${this.items.length * this.rowHeight}px`;
    for (let at = Math.max(0, first - BEYOND); at < Math.min(this.items.length, last + BEYOND); at += 1) wanted.add(at);
    // The row with the focus stays, or the focus would be lost.
    if (this.rowsBox.contains(document.activeElement)) wanted.add(this.active);
    const kept = new Map();
    for (const at of [...wanted].sort((a, b) => a - b)) {
      if (at < this.items.length) kept.set(this.key(this.items[at]), this.drawRow(at));
    }
    for (const [key, row] of this.rows) if (!kept.has(key)) row.element.remove();
    this.rows = kept;
    this.putInOrder();
    this.onshow(this.items.slice(first, last));
  }

  /** A screen reader goes by the order of the document. A row with the focus stays where it is. */
  putInOrder() {
    let next = this.rowsBox.firstElementChild;
    for (const { element } of this.rows.values()) {
      if (element === next) next = next.nextElementSibling;
      else if (!element.contains(document.activeElement)) this.rowsBox.insertBefore(element, next);
    }
  }

  drawRow(at) {
    const item = this.items[at];
    const key = this.key(item);
    let row = this.rows.get(key);
    if (!row) {
      const link = el("a", { class: "row" });
      row = { link, element: el("li", { class: "row-place" }, link), item: null };
      link.addEventListener("focus", () => {
        this.active = this.items.findIndex((other) => this.key(other) === key);
      });
      this.rowsBox.append(row.element);
    }
    if (row.item !== item) {
      row.item = item;
      row.link.setAttribute("href", this.href(item));
      row.link.replaceChildren(...this.content(item));
    }
    row.element.style.transform = `translateY(${at * this.rowHeight}px)`;
    row.element.style.blockSize = `${this.rowHeight}px`;
    row.element.setAttribute("aria-setsize", this.items.length);
    row.element.setAttribute("aria-posinset", at + 1);
    row.link.tabIndex = at === this.active ? 0 : -1;
    if (key === this.current) row.link.setAttribute("aria-current", "page");
    else row.link.removeAttribute("aria-current");
    return row;
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.items.length, End: this.items.length };
    const step = steps[event.key];
    if (step === undefined || !this.items.length) return;
    event.preventDefault();
    this.focus(this.active + step);
  }

  /** Moves the focus to a row, which comes into sight. */
  focus(at = this.active) {
    if (!this.items.length) return;
    this.active = Math.min(this.items.length - 1, Math.max(0, at));
    const top = this.active * this.rowHeight;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    if (top + this.rowHeight > scrollTop + clientHeight) this.element.scrollTop = top + this.rowHeight - clientHeight;
    this.drawNow();
    this.rows.get(this.key(this.items[this.active]))?.link.focus({ preventScroll: true });
  }
}
