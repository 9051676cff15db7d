// Shortcuts of the keyboard, and the dialog that lists them.

import { byId, el, fill } from "./dom.js";
import { go } from "./router.js";

const SHORTCUTS = [
  ["?", "Show these shortcuts"],
  ["/", "Search the list"],
  ["1", "Sessions"],
  ["2", "Users"],
  ["3", "Definitions"],
  ["b", "In a session: the budget"],
  ["q", "In a session: the next question"],
  ["↑ ↓", "In a list or a conversation: one up, one down"],
  ["Home End", "The first, the last"],
  ["Ctrl S", "In a definition: save"],
  ["Ctrl Enter", "In a definition: run"],
  ["Esc", "Close a dialog; from what is open back to the list"],
];

const isTyping = (target) => target.matches?.("input, textarea, select, [contenteditable]");

/** `section` returns the one that is open. */
export function listenToShortcuts(section) {
  const dialog = byId("help-dialog");
  fill(byId("shortcuts"), SHORTCUTS.map(([keys, what]) => el("div", {},
    el("dt", {}, keys.split(" ").map((key) => el("kbd", {}, key))), el("dd", {}, what))));
  byId("help").addEventListener("click", () => dialog.showModal());
  const calls = {
    "?": () => dialog.showModal(),
    "/": () => section().focusSearch(),
    1: () => go("sessions"),
    2: () => go("users"),
    3: () => go("definitions"),
    b: () => document.querySelector("[data-shortcut=budget]")?.focus(),
    q: () => document.querySelector("[data-shortcut=query]")?.focus(),
  };
  addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (key === "Escape" && target.closest(".split-open")) section().backToList();
    const call = calls[key];
    if (!call || isTyping(target)) return;
    event.preventDefault();
    call();
  });
}
