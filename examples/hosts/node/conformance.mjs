// Replays the conformance kit against the store: `node conformance.mjs [FOLDER]`. The kit's README has the format.
// The store is called with what jco would call it with: members in camel case, variants as {tag, val}, 64-bit integers
// as BigInt. Calls here are never repeated, so cases that repeat one are skipped.

import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { camel, differs, expand, isObject, mapMembers, spelled } from './kit.mjs';
import { MemoryStore, asFailure } from './store.mjs';

const folder = process.argv[2] ?? fileURLToPath(new URL('../../../conformance', import.meta.url));

const U64 = new Set([
  'milliseconds', 'max-bytes', 'max-entries', 'max-records', 'limit', 'keep', 'count', 'position', 'first', 'next',
  'amount', 'newest',
]);

const record = (value, change) => mapMembers(value, ([name, one]) => [camel(name), change(one, name)]);

function variant(value, known) {
  const [[tag, val]] = Object.entries(value);
  return { tag, val: record(val, (one, name) => argument(one, name, known)) };
}

/// A value of the kit as the component would hand it in.
function argument(value, name, known, parent) {
  if (value === null) return undefined;
  if (typeof value === 'string' && /^\$./.test(value)) return known.get(value) ?? value;
  if (U64.has(name) && !(name === 'count' && parent === 'spans') && !isObject(value)) return BigInt(value);
  if (name === 'opening') return variant(value, known);
  if (name === 'operations' || name === 'expectations') return value.map((one) => variant(one, known));
  if (Array.isArray(value)) return value.map((one) => argument(one, '', known, name));
  return isObject(value) ? record(value, (one, inner) => argument(one, inner, known, parent)) : value;
}

function call(store, step, known) {
  const given = (name) => argument(step[name], name, known);
  const result = (answer) => {
    try {
      return { ok: spelled(answer()) };
    } catch (error) {
      return { err: spelled(asFailure(error)) };
    }
  };
  switch (step.call) {
    case 'transact': return result(() => store.transact(given('transaction')));
    case 'transact-each': return spelled(store.transactEach(given('transactions')));
    case 'list-buckets': return result(() => store.listBuckets(step.kind, given('cursor'), step.limit));
    case 'delete-bucket':
      return result(() => store.deleteBucket(given('bucket'), given('incarnation'), step['max-keys']));
    case 'capabilities': return spelled(store.capabilities());
    default: throw new Error(`the kit has a call that this replayer does not know: ${step.call}`);
  }
}

/// Undefined: the case holds. Otherwise what does not.
function replay(steps) {
  let ahead = 0;
  const store = new MemoryStore(() => Date.now() + ahead);
  const known = new Map();
  for (const [place, step] of steps.entries()) {
    if (step.call === 'advance') {
      ahead += step.milliseconds;
      continue;
    }
    const problem = differs(step.expect, call(store, step, known), known);
    if (problem) return `step ${place + 1}: ${problem}`;
  }
  return undefined;
}

/// This host never repeats a call, and its store keeps no second clock to see by that the first one was set.
const leftOut = ['repeat', 'set-clock-ahead'];
const capabilities = spelled(new MemoryStore().capabilities());
const counts = { passed: 0, failed: 0, skipped: 0 };
for (const file of readdirSync(folder).filter((name) => name.endsWith('.json')).sort()) {
  for (const { name, needs = [], lacks = [], steps } of JSON.parse(readFileSync(`${folder}/${file}`, 'utf8')).cases) {
    const fits = needs.every((one) => capabilities[one]) && !lacks.some((one) => capabilities[one]);
    if (!fits || steps.some(({ call }) => leftOut.includes(call))) {
      counts.skipped += 1;
      continue;
    }
    const problem = replay(expand(steps));
    counts[problem ? 'failed' : 'passed'] += 1;
    if (problem) console.error(`${file}: ${name}: ${problem}`);
  }
}
console.log(`conformance (Node, memory): ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
