// Replays cases of the store kit against a store, in any JavaScript. The kit's README has the format.
//
// The store is called with what jco would call it with: members in camel case, variants as {tag, val}, 64-bit integers
// as BigInt. The writers of a race take turns, one call each, and may wait in between: a store whose calls are promises
// can be replayed, too. Calls here are never repeated, so cases that repeat one are skipped.

import { camel, differs, expand, isName, isObject, mapMembers, spelled } from './kit.mjs';
import { LIMITS } from '../checks.mjs';
import { asProblem } from '../store.mjs';

/// Nothing in the kit takes that long: writers that are at it still are waiting for each other. In milliseconds.
const PATIENCE = 60_000;

/// The longest `advance` to wait for, in milliseconds.
const SHORT = 1000;

/// This host never repeats a call, and its store keeps no second clock to see by that the first one was set.
const LEFT_OUT = ['repeat', 'set-clock-ahead'];

/// Members that are 64-bit integers, and those that are only as members of this operation or step.
const U64 = new Set([
  'milliseconds', 'max-bytes', 'max-entries', 'max-records', 'limit', 'only-over', 'leave', 'position', 'first', 'next',
  'amount', 'positions', 'from-position',
]);
const U64_WITHIN = { count: 'replace-oldest', newest: 'search' };

const record = (value, change) => mapMembers(value, ([name, one]) => [camel(name), change(one, name)]);

function variant(value, known) {
  const [[tag, val]] = Object.entries(value);
  return { tag, val: record(val, (one, name) => argument(one, name, known, tag)) };
}

/// A value of the kit as the component would hand it in. `within` is the operation or list that it is a member of.
export function argument(value, name, known, within) {
  if (value === null) return undefined;
  if (isName(value)) return argument(known.get(value), name, new Map(), within);
  if (Array.isArray(value)) {
    if (['operations', 'expectations', 'steps'].includes(name)) return value.map((one) => variant(one, known));
    return value.map((one) => argument(one, name, known, name));
  }
  if (isObject(value)) {
    if (value.$sum) return `${value.$sum.map((one) => BigInt(argument(one, '', known))).reduce((sum, one) => sum + one)}`;
    if (name === 'precondition') return variant(value, known);
    return record(value, (one, inner) => argument(one, inner, known, within));
  }
  const isU64 = U64.has(name) || (name in U64_WITHIN && U64_WITHIN[name] === within);
  return isU64 ? BigInt(value) : value;
}

/// The answer to a call of the store.
async function send(store, step, known) {
  const given = (name) => argument(step[name], name, known);
  const result = async (answer) => {
    try {
      return { ok: spelled(await answer()) };
    } catch (error) {
      return { err: spelled(asProblem(error)) };
    }
  };
  switch (step.call) {
    case 'transact': return result(() => store.transact(given('transaction')));
    case 'transact-each': return spelled(await store.transactEach(given('transactions')));
    case 'leases.transact-each': return spelled(await store.transactEachLeased(given('transactions')));
    case 'delete-each': return spelled(await store.deleteEach(given('requests')));
    case 'list-buckets': return result(() => store.listBuckets(step.kind, given('cursor'), step.limit));
    case 'about': return spelled(await store.about());
    default: throw new Error(`the kit has a call that this replayer does not know: ${step.call}`);
  }
}

/// How often a case is begun again that the machine was too busy for.
const TRIES = 20;

/// `signal` ends it early.
const after = (milliseconds, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, milliseconds);
  signal?.addEventListener('abort', () => {
    clearTimeout(timer);
    reject(signal.reason);
  });
});

/// What does not hold.
class Failed extends Error {}
/// A step that had to be answered early was not: the machine is busy, and nothing is known.
class Late extends Error {}

function hold(expected, answer, known) {
  const problem = differs(expected, answer, known);
  if (problem) throw new Failed(problem);
}

/// Takes the steps of all writers at once. None of them goes on once one has failed or the time is over.
async function race({ writers, expect }, store, known, patience) {
  const over = new AbortController();
  const call = async (step, own) => {
    await after(0);
    over.signal.throwIfAborted();
    return send(store, step, own);
  };
  /// A step of a writer: a `retry` until none of its answers asks for another round.
  const write = async (step, own) => {
    const [steps, inner, answers] = step.call === 'retry' ? [step.steps, new Map(own), []] : [[step], own, []];
    for (const one of steps) {
      const answer = await call(one, inner);
      if (one.again && differs(one.again, answer, new Map(inner)) === undefined) return undefined;
      hold(one.expect, answer, inner);
      answers.push(answer);
    }
    return step.call === 'retry' ? answers : answers[0];
  };
  const runs = writers.map(async (steps, number) => {
    const [own, answers] = [new Map(known), []];
    try {
      for (const step of steps) {
        let answer;
        while (answer === undefined) answer = await write(step, own);
        answers.push(answer);
      }
    } catch (error) {
      if (error instanceof Failed) error.message = `writer ${number + 1}: ${error.message}`;
      throw error;
    }
    return answers;
  });
  const late = async () => {
    await after(patience, over.signal);
    throw new Failed(`the race is not over after ${patience / 1000} seconds`);
  };
  try {
    const answers = await Promise.race([Promise.all(runs), late()]);
    if (expect) hold(expect, answers, known);
  } finally {
    over.abort();
    // Those that were stopped end in an error that tells nothing.
    for (const run of runs) run.catch(() => {});
  }
}

/// Undefined: the case holds. Otherwise what does not. `make` makes an empty store, or a promise of one,
/// that goes by the clock that it is given.
export async function replay(steps, make, { patience = PATIENCE, isRealTime = false } = {}) {
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    try {
      return await replayOnce(steps, make, patience, isRealTime);
    } catch (error) {
      if (!(error instanceof Late)) throw error;
    }
  }
  return `the machine was too busy ${TRIES} times`;
}

async function replayOnce(steps, make, patience, isRealTime) {
  const began = performance.now();
  let ahead = 0;
  const store = await make(() => Date.now() + ahead);
  const known = new Map();
  for (const [place, step] of steps.entries()) {
    try {
      if (step.call === 'advance' && isRealTime) await after(step.milliseconds);
      else if (step.call === 'advance') ahead += step.milliseconds;
      else if (step.call === 'race') await race(step, store, known, patience);
      else {
        const answer = await send(store, step, known);
        if (performance.now() - began + ahead > (step.within ?? Infinity)) throw new Late();
        hold(step.expect, answer, known);
      }
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      return `step ${place + 1}: ${error.message}`;
    }
  }
  return undefined;
}

/// Those of a file's cases that a store which says this about itself has to pass, and how many others there are.
export function fittingCases(all, { capabilities, limits: reported }, isRealTime = false) {
  const limits = { ...LIMITS, ...Object.fromEntries(reported.map(({ name, value }) => [name, value])) };
  const has = (name) => capabilities.includes(name);
  const cases = [];
  for (const one of all) {
    const { name, needs = [], lacks = [], limits: asked = {}, steps } = expand(one, limits);
    const every = steps.flatMap((step) => [step, ...(step.writers ?? []).flat()]);
    const fits = needs.every(has) && !lacks.some(has) && differs(asked, limits, new Map()) === undefined;
    if (fits && !every.some((step) => isLeftOut(step, has) || (isRealTime && step.milliseconds > SHORT))) cases.push({ name, steps });
  }
  return { cases, skipped: all.length - cases.length };
}

/// A store without indexes has no such interface that could be called.
function isLeftOut({ call, identity }, has) {
  return LEFT_OUT.includes(call) || identity !== undefined || (call.startsWith('indexes.') && !has('indexes'));
}
