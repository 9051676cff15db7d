// Shows what went wrong, and what to do about it.

import { askAgain } from "./api.js";
import { el, fill, byId } from "./dom.js";

const ADVICE = {
  conversations_off: "Start the service with “--set conversation=true”, or with the profile “chat”.",
  recall_off: "Start the service with “--set recall=session” or “--set recall=user”.",
  changed: "Somebody saved it meanwhile. Load it again, and make your change on what is there now.",
};

const ADVICE_OF_STATUS = {
  0: "Is the service running, and does this machine reach it? Then try again.",
  400: "Change what is named here, and try again.",
  401: "The service needs a key. Try again to enter one.",
  403: "The key may not do that. Use one that may.",
  404: "It may have expired, or been deleted. Go back to the list.",
  412: "Load it again, and make your change on what is there now.",
  413: "It is over a limit of the service.",
  429: "There were too many requests. Wait a moment, and try again.",
  503: "The store is busy, or it failed. Try again in a moment.",
  504: "The time was over. Try again; it may have been done.",
};

/** What to do about an error of a request. */
export function advice(error) {
  if (error.retryAfter) return `Try again in ${error.retryAfter} s.`;
  return ADVICE[error.code] ?? ADVICE_OF_STATUS[error.status] ?? "Try again. If it stays like this, the service's log says more.";
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

/** An alert with what went wrong, what to do, and a button where it can be tried again. */
export function problemBox(error, again) {
  const retry = again && (() => {
    askAgain();
    again();
  });
  const what = error.param && error.status === 400 ? `${error.param}: ${error.message}` : sentence(error.message);
  return el("div", { class: "problem", role: "alert" },
    el("p", { class: "problem-what" }, what),
    el("p", { class: "problem-advice" }, advice(error)),
    retry && el("button", { type: "button", class: "button small", onclick: retry }, "Try again"));
}

/** Shows a problem at the top of the page until it is dismissed or something else replaces it. */
export function showProblem(error, again) {
  if (error.name === "AbortError") return;
  const place = byId("problems");
  const retry = again && (() => {
    fill(place);
    again();
  });
  const close = el("button", {
    type: "button", class: "button small quiet", "aria-label": "Dismiss the message", onclick: () => fill(place),
  }, "Dismiss");
  const box = problemBox(error, retry);
  box.append(close);
  fill(place, box);
}

export const clearProblem = () => fill(byId("problems"));
