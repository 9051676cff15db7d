// Requests to the service. Asks for a key when the service does, and keeps it for this tab alone.

import { askForKey } from "./key-dialog.js";

export const ROOT = "/keepline/v1";
const KEY = "keepline.key";

/** A request that was refused, or that did not get through (status 0). */
export class RequestError extends Error {
  constructor(status, { message, code, param } = {}, retryAfter = null) {
    super(message || (status ? `the service answered ${status}` : "the service can't be reached"));
    this.status = status;
    this.code = code ?? "";
    this.param = param ?? null;
    this.retryAfter = retryAfter;
  }
}

/** A path of encoded parts: ids may hold anything. */
export const path = (...parts) => `${ROOT}/${parts.map(encodeURIComponent).join("/")}`;

/** With the parameters that are set. */
export function withQuery(where, query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${where}?${new URLSearchParams(given)}` : where;
}

let asking = null;
let isDeclined = false;

/** Somebody who closed the dialog is not asked again until they try again themselves. */
export function askAgain() {
  isDeclined = false;
}

/** One dialog, however many requests wait for it. Null: nobody gave a key. */
function newKey(refused) {
  asking ??= askForKey(refused).then((key) => {
    if (key) sessionStorage.setItem(KEY, key);
    isDeclined = !key;
    return key;
  }).finally(() => { asking = null; });
  return asking;
}

async function send(where, options) {
  const key = sessionStorage.getItem(KEY);
  const headers = { ...options.headers };
  if (key) headers.authorization = `Bearer ${key}`;
  try {
    return { key, response: await fetch(where, { ...options, headers, credentials: "omit", cache: "no-store" }) };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError(0);
  }
}

/** Sends a request and returns its reply, which may be an error. A 401 is sent again with the key that somebody types. */
export async function fetchWithKey(where, options = {}) {
  for (;;) {
    const { key, response } = await send(where, options);
    if (response.status !== 401) return response;
    // Another request may have got the key meanwhile.
    if (key !== sessionStorage.getItem(KEY)) continue;
    if (key) sessionStorage.removeItem(KEY);
    if (isDeclined || !(await newKey(Boolean(key)))) return response;
  }
}

async function failure(response) {
  const after = Number(response.headers.get("retry-after")) || null;
  const body = await response.json().catch(() => ({}));
  return new RequestError(response.status, body?.error, after);
}

/**
 * Sends a request and reads its reply as JSON. `body`: an object, or a text that is sent as it stands. The revision of what
 * was sent is `etag` of the reply, where it has one.
 */
export async function request(method, where, { body, headers = {}, signal } = {}) {
  const options = { method, signal, headers: { ...headers } };
  if (body !== undefined) {
    options.body = typeof body === "string" ? body : JSON.stringify(body);
    options.headers["content-type"] ??= "application/json";
  }
  const response = await fetchWithKey(where, options);
  if (!response.ok) throw await failure(response);
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

export const get = (where, options) => request("GET", where, options);
export const post = (where, body, options) => request("POST", where, { ...options, body });
export const put = (where, body, options) => request("PUT", where, { ...options, body });
export const remove = (where, options) => request("DELETE", where, options);

/** The pages of a list, one after the other, until the signal says that nobody wants them. */
export async function* pages(where, query = {}, signal = undefined) {
  let after = "";
  for (;;) {
    const page = await get(withQuery(where, { limit: 100, ...query, after }), { signal });
    yield page.data;
    if (!page.has_more || page.last_id === after) return;
    after = page.last_id;
  }
}
