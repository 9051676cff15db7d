// Asks whether something that can't be undone is to be done.

import { ask, byId, fill } from "./dom.js";

/** Whether somebody said yes. The safe answer has the focus. */
export async function confirmed({ title, text, action }) {
  fill(byId("confirm-title"), title);
  fill(byId("confirm-text"), text);
  fill(byId("confirm-yes"), action);
  const answered = ask(byId("confirm-dialog"));
  byId("confirm-no").focus();
  return await answered === "yes";
}
