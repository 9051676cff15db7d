// Where one is: `#/sessions/ID?budget=300`. The part after `#` is never sent to the service.

/** The route of the address: its parts, decoded, and its parameters. */
export function currentRoute() {
  const [where, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const parts = where.split("/").filter(Boolean).map(decode);
  return { parts: parts.length ? parts : ["sessions"], parameters: new URLSearchParams(query) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a route. */
export function routeTo(...parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/** Goes there. */
export function go(...parts) {
  location.hash = routeTo(...parts);
}

/** Keeps parameters in the address, without a step in the history. */
export function keepParameters(values) {
  const { parts, parameters } = currentRoute();
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === "") parameters.delete(name);
    else parameters.set(name, value);
  }
  const query = String(parameters);
  history.replaceState(null, "", `${routeTo(...parts)}${query ? `?${query}` : ""}`);
}

/** Calls the function for each route, the present one first. */
export function onRoute(call) {
  addEventListener("hashchange", () => call(currentRoute()));
  call(currentRoute());
}
