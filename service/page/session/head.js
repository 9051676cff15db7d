// What there is to tell of a session: title, owner, figures, summary and values.

import { get, path } from "../core/api.js";
import { el, fill } from "../core/dom.js";
import { count, duration, fullTime, plural, prettyJson, timeAndDay } from "../core/format.js";
import { problemBox } from "../core/problems.js";
import { routeTo } from "../core/router.js";

/** What each head tells. */
const drawn = new WeakMap();

/** Draws the head, if there is anything else to tell. What is unfolded stays so. */
export function drawHead(box, session) {
  const told = JSON.stringify({ ...session, expires_in_ms: session.expires_in_ms === null ? null : duration(session.expires_in_ms) });
  if (drawn.get(box) === told) return;
  drawn.set(box, told);
  const wasOpen = new Set([...box.querySelectorAll("details[open]")].map(({ dataset }) => dataset.name));
  const { id, title, owner, messages, tokens, created_at_ms: created, last_at_ms: last, expires_in_ms: expires } = session;
  const facts = [
    owner === null ? "no owner" : el("a", { href: routeTo("users", owner) }, owner),
    plural(messages ?? 0, "message"),
    plural(tokens ?? 0, "token"),
    last && el("span", { title: `Begun ${fullTime(created)}, used ${fullTime(last)}` }, `used ${timeAndDay(last)}`),
    expires !== null && `gone in ${duration(expires)}`,
  ].filter(Boolean);
  fill(box,
    el("a", { class: "back", href: routeTo("sessions") }, "All sessions"),
    el("h1", { class: title ? "" : "mono" }, title ?? id),
    el("p", { class: "session-facts" }, title && [el("span", { class: "mono" }, id), " · "], facts.map((fact, at) => [at > 0 && " · ", fact])),
    el("div", { class: "folds" },
      session.summary && fold("summary", "Summary", wasOpen, summaryOf(session)),
      fold("values", "Values", wasOpen, () => valuesOf(id)),
      fold("settings", "Settings", wasOpen, settingsOf(session))));
}

function fold(name, label, wasOpen, content) {
  const body = el("div", { class: "fold-body" });
  const details = el("details", { class: "fold", data: { name }, name: "session-fold" }, el("summary", {}, label), body);
  const show = async () => {
    if (!details.open) return;
    try {
      fill(body, typeof content === "function" ? await content() : content);
    } catch (error) {
      fill(body, problemBox(error, show));
    }
  };
  details.addEventListener("toggle", show);
  details.open = wasOpen.has(name);
  return details;
}

const summaryOf = ({ summary, summary_to: to }) => [
  el("p", { class: "message-text", dir: "auto" }, summary),
  el("p", { class: "muted" }, `It stands for all messages up to position ${count(to)}.`),
];

async function valuesOf(id) {
  const { data: keys } = await get(`${path("sessions", id)}/keys`);
  if (!keys.length) return el("p", { class: "muted" }, "No values are stored.");
  const values = await Promise.all(keys.slice(0, 100).map((key) => get(path("sessions", id, "keys", key))));
  return el("dl", { class: "values" }, values.map(({ key, value }) => [el("dt", { class: "mono" }, key), el("dd", { class: "mono" }, prettyJson(value))]));
}

function settingsOf({ settings, answers }) {
  const rows = { ...settings, answers };
  return el("dl", { class: "values" }, Object.entries(rows).map(([name, value]) => [
    el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, value === null ? "as configured" : String(value))]));
}
