// Checks the kit and its replayer: `node conformance-test.mjs [FOLDER [WIT]]`. What is handed to a store has the types of
// the contract, and stores with a mistake fail the cases that are about it.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { setImmediate as others } from 'node:timers/promises';
import { about, casesFor, kitFolder } from './conformance.mjs';
import { camel } from './kit.mjs';
import { argument, replay } from './replay.mjs';
import { Life, MemoryStore, asProblem } from '../store.mjs';

/// In milliseconds: for writers that wait for each other for ever.
const PATIENCE = 2000;

/// The folder of `core.wit` and `optional.wit`.
const wit = process.argv[3] ?? fileURLToPath(new URL('../../../../wit/deps/store', import.meta.url));
const problems = [];

// The types of the contract.

/// Records, variants and enums by name: their members, each with its type; of an enum, none.
function typesOf(source) {
  const text = source.replace(/\/\/.*/g, '');
  const types = new Map();
  for (const [, kind, name, body] of text.matchAll(/\b(record|variant|enum) ([a-z-]+) \{([^}]*)\}/g)) {
    const members = body.split(/,(?![^<]*>)/).map((member) => member.trim()).filter(Boolean);
    const typed = members.map((member) => /^([a-z-]+)\s*[:(]?\s*([^)]*)\)?$/.exec(member).slice(1));
    types.set(name, { kind, members: new Map(typed) });
  }
  return types;
}

const types = typesOf(['core', 'optional'].map((name) => readFileSync(`${wit}/${name}.wit`, 'utf8')).join(''));
const WIDTHS = { u16: 2 ** 16, u32: 2 ** 32 };

/// What of a value is not as jco hands over a value of this type; none: it is.
function mistyped(value, type, path) {
  const complaint = `${path}: ${typeof value} in place of ${type}`;
  const [, outer, inner] = /^(list|option)<(.*)>$/.exec(type) ?? [];
  if (outer === 'option') return value === undefined ? undefined : mistyped(value, inner, path);
  if (outer === 'list') {
    if (!Array.isArray(value)) return complaint;
    return value.map((one, place) => mistyped(one, inner, `${path}[${place}]`)).find(Boolean);
  }
  if (type === 'u64' || type === 's64') return typeof value === 'bigint' ? undefined : complaint;
  if (type in WIDTHS) return Number.isInteger(value) && value >= 0 && value < WIDTHS[type] ? undefined : complaint;
  if (type === 'string') return typeof value === 'string' ? undefined : complaint;
  if (type === 'bool') return typeof value === 'boolean' ? undefined : complaint;
  const { kind, members } = types.get(type);
  if (kind === 'enum') return members.has(value) ? undefined : complaint;
  if (kind === 'variant') {
    return members.has(value?.tag) ? mistyped(value.val, members.get(value.tag), `${path}.${value.tag}`) : complaint;
  }
  if (value === null || typeof value !== 'object' || Object.keys(value).length !== members.size) return complaint;
  const wrong = ([name, one]) => (camel(name) in value ? mistyped(value[camel(name)], one, `${path}.${name}`) : complaint);
  return [...members].map(wrong).find(Boolean);
}

const TYPED = {
  transaction: 'transaction', requests: 'list<delete-request>', kind: 'string', cursor: 'string', limit: 'u32',
};
const TRANSACTIONS = {
  'transact-each': 'list<transaction>', 'leases.transact-each': 'list<leased-transaction>',
  'indexes.transact-each': 'list<indexed-transaction>',
};
/// Stands for whatever a case remembers: texts, and positions among them.
const anything = { get: () => '1' };

function checkTypes(steps, name) {
  for (const step of steps) {
    if (step.writers) step.writers.forEach((writer) => checkTypes(writer, name));
    if (step.call === 'retry') checkTypes(step.steps, name);
    for (const [member, type] of Object.entries({ ...TYPED, transactions: TRANSACTIONS[step.call] })) {
      if (!(member in step)) continue;
      const given = member === 'limit' ? step[member] : argument(step[member], member, anything);
      const problem = mistyped(given, type, member);
      if (problem) problems.push(`${name}: ${problem}`);
    }
  }
}

const everything = { ...about, capabilities: [...about.capabilities, 'indexes'] };
for (const { name, steps } of casesFor(kitFolder, everything).cases) checkTypes(steps, name);

// Stores with a mistake.

/// Works on a copy of the bucket and puts it back as a whole, whatever others wrote meanwhile: it compares, but not with
/// what it replaces.
class Overwriting extends MemoryStore {
  async #onCopy({ kind, name }, work) {
    const [place, copy] = [`${kind}/${name}`, new MemoryStore(this.clock)];
    const life = this.lives.get(place);
    if (life) copy.lives.set(place, Object.assign(Object.create(Life.prototype), structuredClone({ ...life })));
    const answer = work(copy);
    await others();
    if ((answer.receipt ?? answer).status !== 'applied') return answer;
    if (copy.lives.has(place)) this.lives.set(place, copy.lives.get(place));
    else this.lives.delete(place);
    return answer;
  }
  transactLeased(request) {
    return this.#onCopy(request.transaction.bucket, (copy) => copy.transactLeased(request));
  }
  async transact(transaction) {
    return (await this.transactLeased({ transaction })).receipt;
  }
  transactEach(transactions) {
    return eachAttempt(transactions, 'receipt', (one) => this.transact(one));
  }
  transactEachLeased(requests) {
    return eachAttempt(requests, 'receipt', (one) => this.transactLeased(one));
  }
  deleteEach(requests) {
    return eachAttempt(requests, 'deletion', (one) => this.#onCopy(one.bucket, (copy) => copy.deleteOne(one)));
  }
}

function eachAttempt(requests, tag, work) {
  return Promise.all(requests.map(async (one) => {
    try {
      return { tag, val: await work(one) };
    } catch (error) {
      return { tag: 'problem', val: asProblem(error) };
    }
  }));
}

/// Applies operations one by one: others see a half of it.
class Piecemeal extends MemoryStore {
  async transact({ operations, ...rest }) {
    const receipt = super.transact({ ...rest, operations: operations.slice(0, 1) });
    if (receipt.status !== 'applied') return receipt;
    const precondition = { tag: 'existing', val: { generation: undefined, renew: true } };
    const { bucket } = rest;
    for (const operation of operations.slice(1)) {
      await others();
      const next = super.transact({ bucket, precondition, expectations: [], operations: [operation] });
      receipt.outcomes.push(...next.outcomes);
    }
    return receipt;
  }
  transactEach(transactions) {
    return eachAttempt(transactions, 'receipt', (one) => this.transact(one));
  }
}

/// Locks the buckets of a call in the order in which they are given, and keeps all until the end.
class Locking extends MemoryStore {
  #locks = new Map();
  async #locked(buckets, work) {
    const unlocks = [];
    for (const { name } of buckets) {
      while (this.#locks.has(name)) await this.#locks.get(name);
      this.#locks.set(name, new Promise((unlock) => unlocks.push(unlock)));
      await others();
    }
    const answers = work();
    for (const { name } of buckets) this.#locks.delete(name);
    unlocks.forEach((unlock) => unlock());
    return answers;
  }
  transactEach(transactions) {
    return this.#locked(transactions.map(({ bucket }) => bucket), () => super.transactEach(transactions));
  }
  deleteEach(requests) {
    return this.#locked(requests.map(({ bucket }) => bucket), () => super.deleteEach(requests));
  }
}

const READ_WHOLE = 'a transaction is read as a whole or not at all';
const DELETED_WHOLE = 'a bucket that is deleted while others write is whole or not there, and does not come back';
const CROSSED = 'transactions on the same buckets in opposite order do not wait for each other';
const CROSSED_DELETIONS = 'deletions and transactions on the same buckets in opposite order do not wait for each other';

const races = casesFor(kitFolder, about).cases.filter(({ steps }) => steps.some(({ call }) => call === 'race'));
const mutants = [
  // Writers that only have to wait for nobody lose nothing.
  [Overwriting, races.map(({ name }) => name).filter((name) => name !== CROSSED_DELETIONS)],
  [Piecemeal, [READ_WHOLE, DELETED_WHOLE]],
  [Locking, [CROSSED, CROSSED_DELETIONS]],
];
/// How often a race is run until it notices a mistake: who comes first is chance.
const ATTEMPTS = 20;
let caught = 0;
for (const [Store, names] of mutants) {
  for (const name of names) {
    const race = races.find((one) => one.name === name);
    let problem;
    for (let attempt = 0; race && !problem && attempt < ATTEMPTS; attempt += 1) {
      problem = await replay(race.steps, (clock) => new Store(clock), { patience: PATIENCE });
    }
    if (problem) caught += 1;
    else problems.push(race ? `${Store.name} passes "${name}"` : `there is no case "${name}"`);
  }
}

problems.forEach((problem) => console.error(problem));
console.log(`conformance of the replayer (Node): ${caught} mistakes caught, ${problems.length} problems`);
process.exitCode = problems.length > 0 || caught === 0 ? 1 : 0;
