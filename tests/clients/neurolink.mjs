// NeuroLink's npm package against a service: node neurolink.mjs URL KEY PACKAGE, where PACKAGE is the unpacked package.
//
// Its HTTP client (dist/client/httpClient.js) has methods for agents, workflows, tools, providers and /api/health, and none for
// conversations; neither have its streaming, SSE and WebSocket clients. So the routes are called by the `request` on which all
// those methods stand: it sends keys and request ids, unwraps replies, repeats what failed and makes errors. Which routes there
// are comes from the package's own server (createMemoryRoutes), and so do the replies that ours have to be like, and the schemas
// of its OpenAPI description.
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import Ajv from "ajv";
import addFormats from "ajv-formats";

const [url, key, folder] = process.argv.slice(2);
const from = (file) => import(pathToFileURL(`${folder}/dist/${file}`).href);
const { NeuroLinkClient, NeuroLinkApiError } = await from("client/httpClient.js");
const { createMemoryRoutes } = await from("server/routes/memoryRoutes.js");
const { SessionSchema, SessionsListResponseSchema } = await from("server/openapi/schemas.js");

const ajv = new Ajv({ strict: false });
addFormats(ajv);
const client = new NeuroLinkClient({ baseUrl: url, apiKey: key, retry: { maxAttempts: 1 } });
const { prefix, routes } = createMemoryRoutes();
let checks = 0;

// What a session is for the package's server: its own handlers answer from it.
const said = [["user", "Where is my parcel?"], ["assistant", "In Leipzig."]];
const theirs = {
  sessionId: "trip",
  createdAt: 0,
  lastActivity: 0,
  messages: said.map(([role, content], at) => ({ id: `m${at}`, role, content, timestamp: new Date(0).toISOString() })),
};
const memoryOf = (sessions) => ({
  getSession: (id) => sessions.get(id),
  getStats: async () => ({ totalSessions: sessions.size, totalTurns: sessions.size }),
  clearSession: async (id) => sessions.delete(id),
  clearAllSessions: async () => sessions.clear(),
});

const pathOf = (route, id) => route.path.replace(/:\w+/, encodeURIComponent(id));
const nameOf = (route) => `${route.method} ${route.path}`;

/** What the package's server says. */
function handled(route, id, memory) {
  const params = { id, sessionId: id };
  return route.handler({ params, query: {}, requestId: "r", neurolink: { conversationMemory: memory } });
}

/** What the service says, by the package's client. */
const asked = (route, id, options) => client.request(route.method, pathOf(route, id), undefined, options);

/** The error with which the service refuses. */
async function refused(route, id, options) {
  const error = await asked(route, id, options).then(() => undefined, (thrown) => thrown);
  assert.ok(error instanceof NeuroLinkApiError, `${nameOf(route)} is not refused: ${error}`);
  return error;
}

/** Each member of theirs is one of ours, of the same type. Times are texts with us everywhere, as in their description. */
function assertLike(ours, expected, place) {
  if (Array.isArray(expected)) {
    assert.ok(Array.isArray(ours), `${place} is no list`);
    if (expected.length > 0) assert.equal(ours.length, expected.length, place);
    expected.forEach((item, at) => assertLike(ours[at], item, `${place}[${at}]`));
  } else if (expected !== null && typeof expected === "object") {
    for (const [name, value] of Object.entries(expected)) {
      // Ours stands in the envelope, where their adapters put one, too; the last use is `updatedAt`, as in their description.
      if (["metadata", "lastActivity", "createdAt"].includes(name)) continue;
      assert.ok(name in ours, `${place}.${name} is missing`);
      assertLike(ours[name], value, `${place}.${name}`);
    }
  } else {
    assert.equal(typeof ours, typeof expected, place);
  }
  checks += 1;
}

function assertValid(schema, value, what) {
  const validate = ajv.compile(schema);
  assert.ok(validate(value), `${what}: ${ajv.errorsText(validate.errors)}`);
  checks += 1;
}

async function fill() {
  const headers = { "content-type": "application/json", "x-api-key": key };
  const turns = said.map(([role, content]) => ({ role, content }));
  const path = `${url}/keepline/v1/sessions/trip/messages?user=anna`;
  const reply = await fetch(path, { method: "POST", headers, body: JSON.stringify(turns) });
  assert.equal(reply.status, 200, await reply.text());
}

const find = (method, end) => routes.find((route) => route.method === method && route.path.endsWith(end));
const [list, show, messages] = [find("GET", "/sessions"), find("GET", "/sessions/:id"), find("GET", "/messages")];
const [clear, clearAll] = [find("DELETE", "/:sessionId"), find("DELETE", "/sessions")];
const methods = Object.getOwnPropertyNames(NeuroLinkClient.prototype);
assert.deepEqual(methods.filter((name) => /memory|session|conversation/i.test(name)), [], "the client has methods to be run here");
assert.equal(prefix, "/api/memory");
assert.equal(routes.length, 7, "the package has other routes than those that the service knows");

// Replies, by every route of theirs; those that delete come last.
await fill();
const deletes = (route) => Number(route.method === "DELETE");
const inOrder = [...routes].sort((one, other) => deletes(one) - deletes(other) || other.path.length - one.path.length);
for (const route of inOrder) {
  const sessions = new Map([["trip", theirs]]);
  if (route === clearAll) await fill();
  const expected = await handled(route, "trip", memoryOf(sessions));
  // Their memory in the process can't list sessions, and says so in a message.
  if (route === list) delete expected.message;
  const { data, status, headers, requestId } = await asked(route, "trip");
  assert.equal(status, 200, nameOf(route));
  assert.equal(headers["x-request-id"], requestId, nameOf(route));
  assertLike(data, expected, nameOf(route));
  if (route === messages) {
    assert.deepEqual(data.messages.map(({ role, content }) => [role, content]), said);
    assert.equal((await client.request("GET", `${pathOf(route, "trip")}?limit=1&offset=1`)).data.messages[0].content, "In Leipzig.");
  }
  if (route === show) assertValid(SessionSchema, data.session, nameOf(route));
  if (route === list) assertValid(SessionsListResponseSchema, data, nameOf(route));
  if (route === list) assert.deepEqual(data.sessions.map((session) => session.sessionId), ["trip"]);
}
assert.equal((await asked(list)).data.total, 0, "what was deleted is still there");

// Errors, with the codes and statuses of their own handlers.
for (const route of [show, messages, clear]) {
  const expected = await handled(route, "nobody", memoryOf(new Map()));
  const error = await refused(route, "nobody");
  assert.equal(error.code, expected.error.code, nameOf(route));
  assert.equal(error.status, expected.httpStatus ?? 404, nameOf(route));
  checks += 1;
}
const stranger = new NeuroLinkClient({ baseUrl: url, token: "nothing", retry: { maxAttempts: 1 } });
const unknown = await stranger.request("GET", list.path).then(() => undefined, (thrown) => thrown);
assert.deepEqual([unknown?.status, unknown?.code], [401, "AUTH_INVALID"]);

console.log(`neurolink: ${routes.length} routes, ${checks} checks`);
