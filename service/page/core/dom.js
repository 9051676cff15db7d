// Makes elements. Text only ever becomes text nodes: what is stored is never read as markup.

/**
 * An element. Attributes that begin with `on` are listeners, `class` and `data` as they say, `true` and `false` set and
 * leave out; all else is an attribute as it stands.
 */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (key === "data") Object.assign(element.dataset, value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** Appends elements and texts, also those in lists; nothing for what is missing. */
export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Puts these in place of all that an element holds. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** The element of the page with that id. */
export const byId = (id) => document.getElementById(id);

/** Says something to a screen reader, and to nobody else. */
export function announce(text) {
  const region = byId("announcements");
  // The same text again is only read if it was gone in between.
  region.textContent = "";
  setTimeout(() => { region.textContent = text; }, 50);
}

/** Calls the function when nothing has asked for it for so long. */
export function debounced(milliseconds, call) {
  let timer;
  const later = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(call, milliseconds, ...given);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

/** Calls the function at most once in so long, with what was given last. */
export function throttled(milliseconds, call) {
  let last = null;
  return (...given) => {
    const isWaiting = last !== null;
    last = given;
    if (isWaiting) return;
    setTimeout(() => {
      const latest = last;
      last = null;
      call(...latest);
    }, milliseconds);
  };
}

/** Dialogs, and what their last question waits for. */
const questions = new WeakMap();

/**
 * Shows a dialog. What the button that closes it stands for; empty if none closed it.
 *
 * A dialog tells of its closing in an event that comes later. By then another question may be open in it, which that event must not
 * answer, and whose answer is not the earlier one's.
 */
export function ask(dialog) {
  questions.get(dialog)?.(dialog.open ? "" : dialog.returnValue);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    const listening = new AbortController();
    const settle = (answer) => {
      listening.abort();
      resolve(answer);
    };
    questions.set(dialog, settle);
    dialog.addEventListener("close", () => dialog.open || settle(dialog.returnValue), { signal: listening.signal });
  });
}

/** Calls the function once for all that ask before the next frame. */
export function onNextFrame(call) {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      call();
    });
  };
}

/** A text in which the parts that match are marked. */
export function marked(text, pattern) {
  if (!pattern) return [text];
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    if (!match[0]) continue;
    if (match.index > end) parts.push(text.slice(end, match.index));
    parts.push(el("mark", {}, match[0]));
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}
