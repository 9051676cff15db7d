// Replays the host kit against this host: `node host-kit.mjs [OUT [FOLDER]]`. The kit's README has the format.
// The host is what `conversations.mjs` and `administration.mjs` hold, with a store in memory for each case and a model that
// says what the case has it say. Nothing interrupts an instance here, so cases in which one is stuck are skipped.

import { readFileSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { administer, forgetUser } from '../administration.mjs';
import { Failure } from '../checks.mjs';
import { Conversations } from '../conversations.mjs';
import { Filter, load } from '../filter.mjs';
import { camel, differs, expand, isObject, mapMembers, spelled } from './kit.mjs';
import { MemoryStore } from '../store.mjs';

const instantiate = await load(pathToFileURL(`${process.argv[2] ?? 'out'}/`), readFile);
const folder = process.argv[3] ?? fileURLToPath(new URL('../../../../conformance/host', import.meta.url));

const MAX_TURNS = 8;
/// In what an unexpected error of the store says, and in nothing that the host says.
const SECRET = 'secret of the store';
const INTEGERS = new Set([
  'amount', 'before', 'branch', 'from-line', 'next', 'offset', 'position', 'max-context-tokens', 'context-window',
  'reserve-tokens',
]);

/// Its transactions meet with the fault of a step.
class FaultyStore extends MemoryStore {
  transactLeased(request) {
    if (this.fault === 'exception') throw new Error(SECRET);
    if (this.fault !== undefined) throw new Failure(this.fault, '', 'the kit has it fail');
    return super.transactLeased(request);
  }
  // No record of the contract: the instance ends.
  transact(transaction) {
    return this.fault === 'trap' ? undefined : super.transact(transaction);
  }
  transactEach(transactions) {
    return this.fault === 'trap' ? undefined : super.transactEach(transactions);
  }
  transactEachLeased(requests) {
    return this.fault === 'trap' ? undefined : super.transactEachLeased(requests);
  }
}

/// Stands between host and component: changes replies as a step has it, and keeps the results of needs.
class InspectedFilter extends Filter {
  results = [];
  lanes({ lanes }) {
    const inspected = (name) => (...given) => this.changed(name, lanes[name](...given));
    return { configure: inspected('configure'), question: inspected('question'), answer: inspected('answer') };
  }
  tasks({ tasks }) {
    const advance = (job) => {
      this.results.push(...job.results);
      return this.changed('advance', tasks.advance(job));
    };
    return { advance };
  }
  changed(name, reply) {
    const { needs, ...changed } = InspectedFilter.replies?.[name] ?? {};
    delete InspectedFilter.replies?.[name];
    return { ...reply, ...changed, ...(needs && { needs: needs.map(variant) }) };
  }
}

const variant = (value) => Object.entries(value).map(([tag, val]) => ({ tag, val: argument(val) }))[0];

/// Says what a case has it say, and keeps what it was asked.
class ScriptedModel {
  asked = [];
  constructor(script) {
    this.script = script;
  }
  complete(need) {
    this.asked.push(need);
    const said = this.script[need.purpose];
    if (said?.failed) throw new Error(SECRET);
    return said;
  }
}

/// An argument of the kit as jco takes it.
function argument(value, name) {
  if (value === null) return undefined;
  if (INTEGERS.has(name)) return BigInt(value);
  if (name === 'messages') return value.map(variant);
  return isObject(value) ? mapMembers(value, ([inner, one]) => [camel(inner), argument(one, inner)]) : value;
}

/// A host as the kit has it: each method is a step.
class Host {
  store = new FaultyStore();
  reported = [];

  constructor({ options, model = {} }) {
    this.options = JSON.stringify(options);
    this.model = new ScriptedModel(model);
    this.restart();
  }
  restart() {
    const report = ({ code, message }) => this.reported.push([code, message]);
    this.filter = new InspectedFilter(instantiate, this.store, this.options, { logFrom: 'critical', report });
    this.conversations = new Conversations(this.filter, { model: this.model, report, maxTurns: MAX_TURNS });
  }
  open({ metadata }) {
    this.conversations.open(metadata);
  }
  unreadable() {
    this.conversations.unreadable();
  }
  question({ text, metadata }) {
    return { metadata: this.conversations.question(text, metadata) };
  }
  answer({ text, metadata, status }) {
    return { metadata: this.conversations.answer(text, metadata, status) };
  }
  tool({ tool, metadata }) {
    this.conversations.tool(argument({ name: '', ...tool }), metadata);
  }
  async work({ model = this.model.script }) {
    [this.model.script, this.model.asked] = [model, []];
    await this.conversations.work();
    return { asked: spelled(this.model.asked), results: spelled(this.filter.results) };
  }
  administer({ function: name, arguments: given }) {
    const parameters = Object.entries(given).map(([inner, one]) => argument(one, inner));
    return { answer: spelled(administer(this.filter, name, parameters)) };
  }
  forgetUser({ user }) {
    return { answer: spelled(forgetUser(this.filter, user)) };
  }
  fillTurns() {
    for (let place = 0; place < MAX_TURNS; place += 1) {
      this.conversations.question('?', JSON.stringify({ session_id: `filler-${place}` }));
    }
  }

  /// What came of a step, and what was reported.
  async take(step) {
    this.reported = [];
    this.store.fault = step.fault;
    [InspectedFilter.replies, this.filter.results] = [step.replies && { ...step.replies }, []];
    // Where an error was thrown is printed: that of the kit's is nothing to look at.
    const { error } = console;
    if (step.fault === 'exception') console.error = () => {};
    const came = await this[camel(step.call)](step);
    [this.store.fault, console.error] = [undefined, error];
    return { ...came, reported: this.reported.map(([code]) => code) };
  }
}

/// What of a step did not come as expected; undefined: it did.
function wrong(step, came, known, said) {
  // What a store can't promise is its own affair.
  const silent = step.call === 'restart' ? {} : { reported: [] };
  const { verbatim = [], lacks = [], ...expected } = { ...silent, ...step.expect };
  if (step.call === 'answer') expected.metadata = step.metadata;
  const whole = came.metadata ?? JSON.stringify(came);
  const missing = verbatim.find((text) => !whole.includes(text));
  if (missing !== undefined) return `there is no ${JSON.stringify(missing)} in ${whole}`;
  const present = lacks.find((text) => whole.includes(text));
  if (present !== undefined) return `there is ${JSON.stringify(present)} in ${whole}`;
  if (said.includes(SECRET)) return 'what was reported holds a message of the store\'s';
  if (isObject(expected.metadata)) came.metadata = JSON.parse(came.metadata);
  return differs(expected, came, known, step.call);
}

/// Undefined: the case holds. Otherwise what does not.
async function replay(one) {
  const [host, known] = [new Host(one), new Map()];
  for (const [place, step] of expand(one.steps).flat(Infinity).entries()) {
    let problem;
    try {
      problem = wrong(step, await host.take(step), known, JSON.stringify(host.reported));
    } catch (error) {
      problem = `${step.call}: the host threw ${error}`;
    }
    if (problem) return `step ${place + 1}: ${problem}\n  reported: ${JSON.stringify(host.reported)}`;
  }
  return undefined;
}

const { capabilities } = new MemoryStore().about();
const counts = { passed: 0, failed: 0, skipped: 0 };
for (const file of readdirSync(folder).filter((name) => name.endsWith('.json')).sort()) {
  for (const one of JSON.parse(readFileSync(`${folder}/${file}`, 'utf8')).cases) {
    const lacks = one.needs?.some((name) => name !== 'inspection' && !capabilities.includes(name));
    if (lacks || one.steps.some(({ fault }) => fault === 'stuck')) {
      counts.skipped += 1;
      continue;
    }
    const problem = await replay(one);
    counts[problem ? 'failed' : 'passed'] += 1;
    if (problem) console.error(`${file}: ${one.name}: ${problem}\n  duty: ${one.duty}`);
  }
}
console.log(`host kit (Node, memory): ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
