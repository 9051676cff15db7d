// Draws turns: what was asked and answered, and what tools did, folded.

import { el, marked } from "../core/dom.js";
import { fullTime, plural, prettyJson, textOf, timeAndDay } from "../core/format.js";

/** Characters of a message that are drawn at once. */
const SHOWN = 6000;

const ROLES = { user: "User", assistant: "Assistant", tool: "Tool", system: "System", developer: "Developer" };
const isCall = ({ message }) => message.kind === "tool_call";
const isTool = (record) => isCall(record) || record.message.kind === "tool_result" || record.message.role === "tool";

/** Messages by their turns, in order. A message without a turn belongs to the question before it. */
export function groupTurns(records) {
  const turns = [];
  for (const record of records) {
    const { turn, role } = record.message;
    const last = turns.at(-1);
    const goesOn = last && (turn ? last.id === turn : !last.id && role !== "user");
    if (goesOn) last.records.push(record);
    else turns.push({ id: turn ?? "", position: record.position, records: [record] });
  }
  return turns;
}

/** The element of a turn. What became of it in the window is added by `decorate`. */
export function drawTurn(turn, { pattern, forks }) {
  const at = turn.records[0].message.at;
  const tokens = turn.records.reduce((sum, { message }) => sum + (message.tokens ?? message.weight ?? 0), 0);
  const head = el("header", { class: "turn-head" },
    el("span", { class: "turn-why" }),
    el("span", { class: "turn-recalled", hidden: true }, "comes back by recall"),
    forks.has(turn.records.at(-1).position) && el("span", { class: "turn-fork" }, "forks here"),
    el("span", { class: "turn-place" },
      at && el("time", { title: fullTime(at * 1000) }, timeAndDay(at * 1000)),
      tokens > 0 && ` · ${plural(tokens, "token")}`));
  return el("article", { class: "turn", tabindex: "-1", data: { turn: turn.id, position: turn.position } },
    head, drawRecords(turn.records, pattern));
}

/** Tool calls that follow one another stand folded together, each with its result. */
function drawRecords(records, pattern) {
  const drawn = [];
  let tools = [];
  const fold = () => {
    if (tools.length) drawn.push(drawTools(tools));
    tools = [];
  };
  for (const record of records) {
    if (isTool(record)) tools.push(record);
    else {
      const text = textOf(record.message.content);
      if (!text.trim()) continue;
      fold();
      drawn.push(drawMessage(record, text, pattern));
    }
  }
  fold();
  return drawn;
}

function drawMessage({ position, message }, text, pattern) {
  const role = ROLES[message.role] ?? message.role;
  const notes = [message.status === "incomplete" && "incomplete", message.truncated && "cut when it was stored",
    message.trust === "low" && "from elsewhere"].filter(Boolean);
  return el("div", { class: `message message-${message.role in ROLES ? message.role : "other"}`, data: { position } },
    el("p", { class: "message-role" }, message.name ? `${role} (${message.name})` : role, notes.map((note) => [" ", el("span", { class: "note" }, note)])),
    drawText(text, pattern));
}

/** A long text begins, and goes on when somebody asks for it. */
function drawText(text, pattern) {
  const box = el("div", { class: "message-text", dir: "auto" });
  if (text.length <= SHOWN) {
    box.append(...marked(text, pattern));
    return box;
  }
  box.append(...marked(text.slice(0, SHOWN), pattern), "… ");
  const more = el("button", { type: "button", class: "button small" }, `Show all ${plural(text.length, "character")}`);
  more.addEventListener("click", () => box.replaceChildren(...marked(text, pattern)));
  box.append(more);
  return box;
}

function drawTools(records) {
  const calls = records.filter(isCall);
  const results = new Map(records.filter((record) => !isCall(record)).map((record) => [record.message.tool?.call_id, record]));
  const names = [...new Set(calls.map(({ message }) => message.tool?.name ?? "tool"))];
  const rows = calls.map((call) => {
    const result = results.get(call.message.tool?.call_id);
    if (result) results.delete(call.message.tool?.call_id);
    return drawCall(call.message.tool, result?.message);
  });
  for (const { message } of results.values()) rows.push(drawCall(message.tool, message));
  const summary = calls.length ? plural(calls.length, "tool call") : plural(rows.length, "tool result");
  return el("details", { class: "tools" },
    el("summary", {}, summary, names.length > 0 && el("span", { class: "mono tools-names" }, names.join(", "))), rows);
}

function drawCall(tool, result) {
  const output = result ? textOf(result.content) : "";
  const error = result?.tool?.error ?? tool?.error;
  return el("div", { class: "tool" },
    el("p", { class: "tool-name mono" }, tool?.name ?? "tool"),
    tool?.arguments && block("Arguments", prettyJson(tool.arguments)),
    output && block("Result", prettyJson(output)),
    error && block("Error", error),
    !result && el("p", { class: "note" }, "No result is stored."));
}

const block = (label, text) => [el("p", { class: "tool-label" }, label), el("pre", { class: "mono", tabindex: "0" }, text)];

const first = (fate) => (fate.fate === "cut" ? `${fate.why} The band begins here.` : "Sent to the model from here on");

/** Shows what became of a turn, and whether recall brings back a part of it. */
export function decorate(element, fate, { isFirst, recalled }) {
  element.classList.toggle("is-sent", fate.isSent);
  element.classList.toggle("is-out", !fate.isSent && fate.fate !== "unknown");
  element.classList.toggle("is-first", isFirst);
  element.dataset.fate = fate.fate;
  // What is sent needs no word for it: it is in the band.
  element.querySelector(".turn-why").textContent = isFirst ? first(fate) : fate.isSent && fate.fate !== "cut" ? "" : fate.why;
  let isRecalled = false;
  for (const message of element.querySelectorAll(".message")) {
    const comesBack = recalled.has(Number(message.dataset.position));
    message.classList.toggle("comes-back", comesBack);
    isRecalled ||= comesBack;
  }
  element.querySelector(".turn-recalled").hidden = !isRecalled;
  element.setAttribute("aria-label", `Turn at position ${element.dataset.position}: ${fate.why}${isRecalled ? " A part of it is recalled." : ""}`);
}
