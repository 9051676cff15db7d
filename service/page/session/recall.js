// What the next question recalls: the passages that stand before it, with the words that they share marked.

import { el, fill } from "../core/dom.js";
import { fullTime, plural, timeAndDay } from "../core/format.js";
import { routeTo } from "../core/router.js";

/** Letters of a word by which recall finds others: it looks for stems. */
const STEM = 4;

const WHY = {
  terms: "words of the question are in it, or beside it",
  speaker: "the question names who said it",
  date: "the question names its day",
  time: "the question asks when, and it says so",
  vector: "its meaning is close to the question's",
};

/** What marks the words of a question in a text: as recall sees them, by their first letters; numbers and codes whole. */
export function wordsPattern(query) {
  const words = query.toLowerCase().match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];
  const stems = [...new Set(words.map((word) => (/\d/.test(word) || word.length < STEM ? `${word}(?![\\p{L}\\p{N}])`
    : `${word.slice(0, STEM)}[\\p{L}\\p{M}]*`)))];
  if (!stems.length) return null;
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${stems.join("|")})`, "giu");
}

/** Passages that are shown at first. */
const SHOWN = 5;

/** The passages, as elements. `jump` goes to a message of this session. */
export function drawRecall(box, { window, query, session, jump, marks }) {
  const passages = window?.recalled?.passages ?? [];
  box.hidden = !query.trim();
  if (box.hidden) return fill(box);
  const title = passages.length ? `Recalled: ${plural(passages.length, "passage")}` : "Nothing is recalled for this question";
  const items = passages.map((passage) => el("li", {}, drawPassage(passage, { session, jump, marks })));
  const best = passages.toSorted((a, b) => (b.score ?? 0) - (a.score ?? 0)).slice(0, SHOWN);
  items.forEach((item, at) => { item.hidden = !best.includes(passages[at]); });
  const more = el("button", {
    type: "button", class: "button small", hidden: passages.length <= SHOWN,
    onclick: () => {
      for (const item of items) item.hidden = false;
      more.remove();
    },
  }, `Show the other ${passages.length - SHOWN}`);
  fill(box,
    el("h2", { class: "recall-title" }, title),
    passages.length > 0
      ? el("p", { class: "recall-about" }, "They go before the question, in order of time. A score is a share of the best one's.")
      : el("p", { class: "recall-about" }, "No message outside of the band shares enough with it, or recall is off."),
    el("ol", { class: "passages" }, items), more);
}

function drawPassage(passage, { session, jump, marks }) {
  const { session: from, position, at, role, trust, text, score, why = [] } = passage;
  const place = from === undefined || from === session
    ? el("button", { type: "button", class: "link", onclick: () => jump(position) }, `position ${position}`)
    : el("a", { href: `${routeTo("sessions", from)}?at=${position}` }, `${from}, position ${position}`);
  const reasons = why.map((reason) => WHY[reason] ?? reason).join("; ");
  const meter = el("span", { class: "score", "aria-hidden": "true" }, el("span", { class: "score-bar" }));
  meter.firstChild.style.inlineSize = `${Math.min(1, score ?? 0) * 100}%`;
  return el("figure", { class: "passage" },
    el("blockquote", { dir: "auto" }, marks(text)),
    el("figcaption", {},
      el("span", {}, role, " · ", place, at && [" · ", el("time", { title: fullTime(at * 1000) }, timeAndDay(at * 1000))],
        trust === "low" && [" · ", el("span", { class: "note" }, "low trust")]),
      el("span", {}, meter, el("span", { class: "score-value" }, `score ${(score ?? 0).toFixed(2)}`), reasons && `: ${reasons}`)));
}
