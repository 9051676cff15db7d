// Puts the page together: which section is open, and what runs beside it.

import { byId, fill } from "./dom.js";
import { listen } from "./events.js";
import { clearProblem } from "./problems.js";
import { onRoute } from "./router.js";
import { listenToShortcuts } from "./shortcuts.js";
import { DefinitionsSection } from "../views/definitions.js";
import { showHealth } from "../views/health.js";
import { SessionsSection } from "../views/sessions.js";
import { UsersSection } from "../views/users.js";

const SECTIONS = {
  sessions: { make: () => new SessionsSection(), title: "Sessions" },
  users: { make: () => new UsersSection(), title: "Users" },
  definitions: { make: () => new DefinitionsSection(), title: "Definitions" },
};

let name = null;
let section = null;

function openSection(wanted) {
  if (wanted === name) return;
  section?.close();
  name = wanted;
  section = SECTIONS[wanted].make();
  fill(byId("main"), section.element);
  for (const link of document.querySelectorAll("[data-section]")) {
    if (link.dataset.section === wanted) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  section.open();
}

onRoute(({ parts: [wanted, ...rest], parameters }) => {
  clearProblem();
  openSection(wanted in SECTIONS ? wanted : "sessions");
  const opened = rest.join("/");
  document.title = `${opened || SECTIONS[name].title} – Keepline`;
  section.show(...(name === "definitions" ? [rest] : [rest[0] ?? null]), parameters);
});
listenToShortcuts(() => section);
listen();
showHealth(byId("health"));
