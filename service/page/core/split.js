// A section: a list beside what is open. On a narrow screen, one or the other.

import { el, fill } from "./dom.js";

/** `show` puts an element beside the list; null: nothing is open. */
export function splitView({ label, list, empty }) {
  const nothing = el("p", { class: "nothing" }, empty);
  const listBox = el("section", { class: "split-list", "aria-label": label, tabindex: "-1" }, list);
  const openBox = el("div", { class: "split-open" }, nothing);
  const element = el("div", { class: "split" }, listBox, openBox);
  const show = (opened) => {
    element.classList.toggle("has-open", Boolean(opened));
    fill(openBox, opened ?? nothing);
    // Where what had the focus is out of sight now, the focus goes to what is in sight.
    const focused = document.activeElement;
    if (focused !== document.body && focused.checkVisibility()) return;
    if (opened) opened.focus({ preventScroll: true });
    else if (element.isConnected) (listBox.querySelector("a[tabindex='0']") ?? listBox).focus({ preventScroll: true });
  };
  return { element, show };
}
