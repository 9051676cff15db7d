// Asks for the key of the service.

import { byId } from "./dom.js";

/** What somebody typed; null if they closed the dialog. `refused`: a key was sent, and it was not the right one. */
export function askForKey(refused) {
  const dialog = byId("key-dialog");
  // No button of the form, or Enter would press it.
  byId("key-cancel").onclick = () => dialog.close("");
  const field = byId("key");
  byId("key-refused").hidden = !refused;
  field.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    const close = () => {
      const key = field.value.trim();
      field.value = "";
      resolve(dialog.returnValue === "use" && key ? key : null);
    };
    dialog.addEventListener("close", close, { once: true });
  });
}
