// What happens in the service, live: server-sent events, read by `fetch`, because the key goes in a header. Where the service
// has no such route, listeners are asked to look for themselves every few seconds.

import { ROOT, fetchWithKey } from "./api.js";
import { hasRoute } from "./capabilities.js";

const POLL_MS = 4000;
const LONGEST_WAIT_MS = 15_000;

const listeners = new Set();

/**
 * Calls the listener for each event, `{type, data}`; `{type: "look"}` says that anything may have changed. Returns what ends
 * that.
 */
export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(event) {
  for (const listener of [...listeners]) listener(event);
}

const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

/** The events of a text that grows. Returns what is not whole yet. */
export function readFrames(text, onFrame) {
  const frames = text.replace(/\r\n?/g, "\n").split("\n\n");
  const rest = frames.pop();
  for (const frame of frames) {
    const fields = { id: "", event: "message", data: "" };
    for (const line of frame.split("\n")) {
      const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
      if (name === "data" && fields.data) fields.data += `\n${value}`;
      else if (name in fields) fields[name] = value;
    }
    if (fields.data || fields.id) onFrame(fields);
  }
  return rest;
}

async function follow(response, state) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text = readFrames(text + value, ({ id, event, data }) => {
      if (id) state.last = id;
      let read = {};
      try {
        read = JSON.parse(data || "{}");
      } catch { /* An event without JSON still says that something happened. */ }
      tell({ type: event, data: read.data ?? {} });
    });
  }
}

async function poll() {
  for (;;) {
    await pause(POLL_MS);
    if (!document.hidden) tell({ type: "look", data: {} });
  }
}

/** Begins to listen, for as long as the page is open. */
export async function listen() {
  if (!(await hasRoute(`${ROOT}/events`))) return poll();
  const state = { last: "" };
  let wait = 1000;
  for (let isFirst = true; ; isFirst = false) {
    try {
      const headers = { accept: "text/event-stream", ...(state.last && { "last-event-id": state.last }) };
      const response = await fetchWithKey(`${ROOT}/events`, { headers });
      const isStream = response.headers.get("content-type")?.startsWith("text/event-stream");
      if (response.ok && isStream) {
        wait = 1000;
        // What happened while nobody listened.
        if (!isFirst) tell({ type: "look", data: {} });
        await follow(response, state);
      } else if ([404, 405, 501].includes(response.status)) {
        return poll();
      }
    } catch { /* It is tried again. */ }
    await pause(wait);
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
}
