// What this service has: its own description says so, so nothing has to be tried that is not there.

let description = null;

/** Whether the service has a route with that path. */
export async function hasRoute(where) {
  description ??= fetch("/openapi.json", { credentials: "omit" }).then((reply) => reply.json()).catch(() => ({}));
  return where in ((await description).paths ?? {});
}
