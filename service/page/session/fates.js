// What became of each turn in the window, and why, in words.

const WHY = {
  kept: "Sent to the model.",
  cut: "Sent in part: alone, it is over the budget.",
  "over budget": "Out: together with all newer turns it is over the budget.",
  "over message_limit": "Out: with all newer turns there would be more messages than message_limit allows.",
  "cut back": "Out, though it would fit: the window was cut back before, and its beginning stays there, so that a provider can reuse its cache.",
  summarized: "Out: the summary stands for it.",
  removed: "Out: its messages were removed.",
  empty: "Out: no message of it has content.",
  "beginning not read": "Out: its beginning lies further back than the window reads.",
  older: "Out: newer turns use up the budget.",
  before: "Sent to the model: it stands before the window.",
  unknown: "Not known yet.",
};

const LABELS = { kept: "sent", cut: "sent in part", older: "over budget", before: "sent", unknown: "not known yet" };
const SENT = new Set(["kept", "cut", "before"]);

const described = (fate) => ({ fate, isSent: SENT.has(fate), label: LABELS[fate] ?? fate, why: WHY[fate] ?? `Out: ${fate}.` });

/** Of a window: what it says of each turn. */
export class Fates {
  constructor(window) {
    this.window = window;
    this.turns = window?.turns ?? [];
    this.byTurn = new Map(this.turns.map((turn) => [turn.turn, turn]));
    this.firstTold = this.turns[0]?.position ?? Infinity;
    this.start = window?.start ?? null;
  }

  /** Of the turn with that id, which begins at that position. */
  of(turn, position) {
    if (!this.window) return described("unknown");
    const told = this.byTurn.get(turn);
    if (told) return described(told.fate);
    // Not among those that are told one by one: newer ones came since, older ones are before the window's beginning or in it.
    if (position > this.firstTold) return described("unknown");
    if (this.start !== null && position >= this.start) return described("before");
    if ((this.window.summary_to ?? -1) >= position) return described("summarized");
    return described("older");
  }

  get sent() {
    return this.turns.filter(({ fate }) => SENT.has(fate));
  }

  /** Whether turns are sent that are not told one by one. */
  get hasMoreSent() {
    return this.start !== null && this.start < this.firstTold;
  }

  /** Tokens of turns that are not told one by one: of those that are sent, and of those that are out. */
  get olderTokens() {
    const total = (turns) => turns.reduce((sum, { tokens }) => sum + (tokens ?? 0), 0);
    const all = Math.max(0, (this.window?.thread_tokens ?? 0) - total(this.turns));
    const sent = this.hasMoreSent ? Math.min(all, Math.max(0, (this.window.tokens ?? 0) - total(this.sent))) : 0;
    return { sent, out: all - sent };
  }
}
