// Asks for the key of the service.

import { ask, byId } from "./dom.js";

/** What somebody typed; null if they closed the dialog. `refused`: a key was sent, and it was not the right one. */
export async function askForKey(refused) {
  const dialog = byId("key-dialog");
  // No button of the form, or Enter would press it.
  byId("key-cancel").onclick = () => dialog.close("");
  const field = byId("key");
  byId("key-refused").hidden = !refused;
  field.value = "";
  const answered = ask(dialog);
  field.focus();
  const answer = await answered;
  const key = field.value.trim();
  field.value = "";
  return answer === "use" && key ? key : null;
}
