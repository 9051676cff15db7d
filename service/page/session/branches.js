// The branches of a conversation that forked: which one is shown, and which one the next question goes on.

import { get, path, withQuery } from "../core/api.js";
import { el, fill } from "../core/dom.js";
import { firstLine, plural, textOf } from "../core/format.js";

/** Branches that are offered. */
const SHOWN = 12;

/** The branches, the newest first, each with the beginning of its newest message. One branch or none is no choice. */
export async function loadBranches(session) {
  const { data } = await get(`${path("sessions", session)}/branches`);
  // Only what has an id can be named.
  const named = data.filter(({ id }) => id);
  if (named.length < 2) return [];
  const ends = named.slice(0, SHOWN).map(async (branch) => {
    const page = await get(withQuery(`${path("sessions", session)}/messages`, { message_id: branch.id, limit: 1 }));
    return { ...branch, text: firstLine(textOf(page.data[0]?.message.content ?? ""), 60) };
  });
  return Promise.all(ends);
}

/** A choice between branches. */
export function drawBranches(box, branches, current, onchoice) {
  box.hidden = branches.length < 2;
  if (box.hidden) return fill(box);
  fill(box,
    el("legend", {}, `${plural(branches.length, "branch", "branches")}`),
    branches.map((branch) => {
      const input = el("input", { type: "radio", name: "branch", value: branch.id, onchange: () => onchoice(branch) });
      input.checked = branch.id === current;
      return el("label", { class: "branch" }, input,
        el("span", { class: "branch-text" }, `… ${branch.text || branch.id}`),
        el("span", { class: "branch-facts" }, plural(branch.messages, "message")));
    }));
}
