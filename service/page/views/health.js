// The strip of health: questions that passed without memory, the store's round trip, its breaker, and how much of the prompt's
// beginning stays the same. What is not known is left out.

import { fetchWithKey, get, ROOT } from "../core/api.js";
import { hasRoute } from "../core/capabilities.js";
import { el, fill } from "../core/dom.js";
import { count, percent, shortDuration } from "../core/format.js";

const EVERY_MS = 5000;
/** Counting all that a store holds takes time. */
const COUNTED_EVERY_MS = 30_000;
const WITHOUT_MEMORY = ["passed", "ignored", "foreign", "limited", "ended", "failed"];

/** The samples of a text for Prometheus: name, labels, value. */
export function readMetrics(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const [, name, labels = "", value] = /^([\w:]+)(?:\{(.*)\})? ([^ ]+)/.exec(line) ?? [];
    if (!name) continue;
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, text]) => [key, text]);
    samples.push({ name, labels: Object.fromEntries(pairs), value: Number(value) });
  }
  return samples;
}

/** What the samples say of the memory's health: label, text, and whether it is a cause for concern. */
export function healthOf(samples) {
  const named = (name) => samples.filter((sample) => sample.name === name);
  const sum = (found) => found.reduce((total, { value }) => total + value, 0);
  const facts = [];
  const entries = named("keepline_entries_total");
  if (entries.length) {
    const without = sum(entries.filter(({ labels }) => WITHOUT_MEMORY.includes(labels.effect)));
    const failed = sum(entries.filter(({ labels }) => labels.effect === "failed"));
    facts.push(["Without memory", count(without), failed > 0]);
  }
  // Of a key without a tenant, the configured store's: those of tenants have a label.
  const ofStore = (name) => {
    const [found, own] = [named(name), named(name).filter(({ labels }) => !labels.tenant)];
    return own.length ? own : found;
  };
  const waits = sum(ofStore("keepline_store_wait_seconds_count"));
  if (waits > 0) facts.push(["Round trip", shortDuration(sum(ofStore("keepline_store_wait_seconds_sum")) / waits), false]);
  const breaker = ofStore("keepline_store_breaker").find(({ value }) => value === 1)?.labels.state;
  if (breaker) facts.push(["Breaker", breaker, breaker !== "closed"]);
  const prompts = sum(ofStore("keepline_prompt_bytes_total"));
  if (prompts > 0) facts.push(["Stable prefix", percent(sum(ofStore("keepline_prompt_stable_bytes_total")) / prompts), false]);
  return facts;
}

async function readHealth() {
  if (await hasRoute("/metrics")) {
    const response = await fetchWithKey("/metrics");
    return response.ok ? healthOf(readMetrics(await response.text())) : [];
  }
  const { sessions, users } = await get(`${ROOT}/stats`);
  return [["Sessions", count(sessions), false], users !== undefined && ["Users", count(users), false]].filter(Boolean);
}

/** Shows it, and keeps it current. */
export async function showHealth(box) {
  try {
    const facts = await readHealth();
    box.hidden = facts.length === 0;
    fill(box, facts.map(([label, text, isBad]) => el("div", { class: isBad ? "is-bad" : "" }, el("dt", {}, label), el("dd", {}, text))));
  } catch {
    box.hidden = true;
  }
  const wait = (await hasRoute("/metrics")) ? EVERY_MS : COUNTED_EVERY_MS;
  setTimeout(() => showHealth(box), document.hidden ? 4 * wait : wait);
}
