// Asks whether something that can't be undone is to be done.

import { byId, fill } from "./dom.js";

/** Whether somebody said yes. The safe answer has the focus. */
export function confirmed({ title, text, action }) {
  const dialog = byId("confirm-dialog");
  fill(byId("confirm-title"), title);
  fill(byId("confirm-text"), text);
  fill(byId("confirm-yes"), action);
  dialog.returnValue = "";
  dialog.showModal();
  byId("confirm-no").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
