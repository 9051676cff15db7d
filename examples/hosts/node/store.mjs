// The interfaces `core`, `leases` and `listing` of `keepline:store`, in this process's memory.
//
// JavaScript runs one transaction at a time and a call never waits, so "all or none" takes no lock: whatever can fail
// is looked at first (`Life.probe`), and what follows can't fail. Each call arrives once and is answered, so none is
// ever repeated, and nobody has to remember who wrote what.

import {
  Failure, LIMITS, PIECE_BYTES, bytes, checkBucket, checkBuckets, checkPart, checkTransaction, checkTransactions, refuse,
  tooLarge,
} from './checks.mjs';

/// Records that are replaced at a time, names on one page of a listing, and keys that a deletion names.
const MAX_MANY = 10_000;
const PAGE = 100n;
const MAX_BUCKETS = 100_000;
const COUNTER = /^(0|-?[1-9][0-9]*)$/;
const COUNTER_END = 1n << 63n;

/// A 64-bit number that stands for how many, or for a position. What is beyond 2^53 is more than there is.
const index = (u64) => Number(u64 < Number.MAX_SAFE_INTEGER ? u64 : Number.MAX_SAFE_INTEGER);
const most = (u64) => Math.min(index(u64), MAX_MANY);
// Names and keys are ASCII: UTF-16 sorts them as bytes do.
const sorted = (names) => [...names].sort();
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/// What all outcomes of a transaction may hold, together.
class Room {
  pieces = LIMITS['reply-pieces'];
  bytes = LIMITS['reply-bytes'];

  /// The operation, asking for no more than there is room for.
  limited({ tag, val }) {
    const [pieces, room] = [Math.min(LIMITS['reply-pieces-each'], this.pieces), BigInt(this.bytes)];
    const few = (asked) => (asked < pieces ? asked : BigInt(pieces));
    const limits = { maxPieces: pieces };
    if ('maxBytes' in val) limits.maxBytes = val.maxBytes < room ? val.maxBytes : room;
    if ('maxEntries' in val) {
      // A page is a step forward, room or not.
      limits.maxEntries = val.cursor === undefined ? few(val.maxEntries) : few(val.maxEntries || PAGE) || 1n;
    }
    if ('maxRecords' in val) limits.maxRecords = this.bytes > 0 ? few(val.maxRecords) : 0n;
    if (tag === 'read-at' && this.bytes === 0) limits.maxPieces = 0;
    return { tag, val: { ...val, ...limits } };
  }
  /// Makes room for what an operation returned.
  take(asked, { entries = [], missing, runs = [] }) {
    const records = runs.flatMap((run) => run.records);
    const texts = [...records, ...entries.map(({ key, text }) => (asked === 'get' ? text : key + text))];
    const count = texts.length + (missing?.unreadable.length ?? 0);
    this.pieces -= Math.min(this.pieces, count);
    this.bytes -= Math.min(this.bytes, count * PIECE_BYTES + sum(texts.map(bytes)));
  }
}

/// The longest beginning of `texts` that is no longer than `maxBytes`, but at least one.
function fitting(texts, maxBytes) {
  let total = 0;
  const end = texts.findIndex((text, place) => (total += bytes(text)) > index(maxBytes) && place > 0);
  return end < 0 ? texts : texts.slice(0, end);
}

/// One life of a bucket, from its creation to its end.
export class Life {
  generation = crypto.randomUUID();
  maps = new Map();
  logs = new Map();
  leases = new Map();

  constructor(now, timeToLive) {
    this.createdAt = now;
    this.timeToLive = timeToLive;
    this.renew(now);
  }

  renew(now) {
    this.expiresAt = this.timeToLive ? now + Number(this.timeToLive.milliseconds) : Infinity;
  }
  map(name) {
    return this.maps.get(name) ?? new Map();
  }
  log(name) {
    return this.logs.get(name) ?? { first: 0, records: [] };
  }
  extent(name) {
    const { first, records } = this.log(name);
    return { first: BigInt(first), length: BigInt(records.length) };
  }

  holds({ tag, val }, operations) {
    if (tag === 'entry') {
      const found = this.map(val.mapName).get(val.key);
      if (found === undefined) return val.state === 'absent' || val.state === 'absent-or-equal';
      return val.state === 'present' || (val.state !== 'absent' && found === val.text);
    }
    if (tag === 'log') {
      const { first, records } = this.log(val.log);
      const stands = (asked, found) => asked === undefined || asked === BigInt(found);
      return stands(val.first, first) && stands(val.next, first + records.length);
    }
    const map = this.map(val.mapName);
    const created = operations.flatMap(keysSet).filter(([name, key]) => name === val.mapName && !map.has(key)).length;
    return created === 0 || map.size + created <= index(val.limit);
  }

  /// Throws what keeps the operations from being applied, in their order. Each place is written once, so what a step
  /// would write to is still as it is now. Leases that have run out are forgotten.
  probe(lease, operations, now) {
    for (const [name, { until }] of this.leases) if (until <= now) this.leases.delete(name);
    for (const { tag, val } of operations) {
      if (tag === 'add') this.counted(val);
      if (tag === 'replace-oldest') {
        const count = Math.min(this.log(val.log).records.length, most(val.count));
        if (val.records.length > count) refuse('invalid', val.log, `there are only ${count} records to replace`);
      }
      if (tag === 'rewrite') {
        const { first, records } = this.log(val.log);
        const unknown = val.records.find(({ position }) => position < first || position >= first + records.length);
        if (unknown) refuse('invalid', val.log, `there is no record at ${unknown.position}`);
      }
    }
    const named = (what, parts) => [...parts.keys()].map((name) => `${what} ${name}`);
    const maps = named('map', this.maps).filter((part) => part !== 'map values');
    const there = [...maps, ...named('log', this.logs), ...named('lease', this.leases)];
    const leased = lease?.milliseconds > 0n ? [`lease ${lease.name}`] : [];
    const parts = new Set([...there, ...leased, ...operations.flatMap(partsMade)]);
    const values = this.map('values');
    const created = operations.flatMap(keysSet).filter(([map, key]) => map === 'values' && !values.has(key)).length;
    if (created > 0 && values.size + created > LIMITS.values) tooLarge('values');
    // What the transaction removes makes no room for what it creates.
    if (parts.size > Math.max(LIMITS.parts, there.length)) tooLarge('parts');
  }

  counted({ mapName, key, amount }) {
    const before = this.map(mapName).get(key) ?? '0';
    const isCounter = COUNTER.test(before) && BigInt(before) >= -COUNTER_END && BigInt(before) < COUNTER_END;
    if (!isCounter) refuse('not-a-counter', key, `${key} is no counter`);
    const value = BigInt(before) + amount;
    if (value < -COUNTER_END || value >= COUNTER_END) refuse('counter-overflow', key, `${key} would leave its range`);
    return value;
  }

  set(mapName, entries) {
    if (entries.length > 0 && !this.maps.has(mapName)) this.maps.set(mapName, new Map());
    const map = this.map(mapName);
    for (const { key, text } of entries) map.set(key, text);
  }
  /// Runs of records, each given as the places of its first record and of the one after its last.
  records(name, runs) {
    const { first, records } = this.log(name);
    const found = runs.map(([from, to]) => ({ first: BigInt(first + from), records: records.slice(from, to) }));
    return { tag: 'records', val: { extent: this.extent(name), runs: found } };
  }
  /// Takes, renews or gives back a lease, and returns its state.
  lease({ name, holder, milliseconds }, now) {
    let lease = this.leases.get(name);
    if (!lease || lease.holder === holder) {
      lease = milliseconds > 0n ? { holder, until: now + index(milliseconds) } : undefined;
      if (lease) this.leases.set(name, lease);
      else this.leases.delete(name);
    }
    const expiresIn = lease ? BigInt(lease.until - now) : 0n;
    return { held: lease?.holder === holder, holder: lease?.holder ?? '', expiresIn };
  }

  apply(operation, now, room) {
    const { tag, val } = room.limited(operation);
    const outcome = APPLY[tag](this, val, now);
    if ('maxBytes' in val) room.take(tag, outcome.val);
    return outcome;
  }
}

const extent = (life, name) => ({ tag: 'extent', val: life.extent(name) });

function entries(found, { unreadable = [], cursor = '', oversize } = {}) {
  const isAll = unreadable.length === 0 && cursor === '' && oversize === undefined;
  const texts = found.map(([key, text]) => ({ key, text }));
  return { tag: 'entries', val: { entries: texts, missing: isAll ? undefined : { unreadable, cursor, oversize } } };
}
const oversize = (total, count) => entries([], { oversize: { bytes: BigInt(total), entries: BigInt(count) } });

/// The keys to which an operation gives a text, as pairs of map and key.
function keysSet({ tag, val }) {
  if (tag === 'add') return [[val.mapName, val.key]];
  if (tag === 'set') return val.put.map(({ key }) => [val.mapName, key]);
  return (val.marks ?? []).map(({ mapName, key }) => [mapName, key]);
}

/// What an operation may bring into being.
function partsMade(operation) {
  const { tag, val } = operation;
  const parts = keysSet(operation).map(([map]) => `map ${map}`).filter((part) => part !== 'map values');
  if (tag === 'append' && val.records.length > 0) parts.push(`log ${val.log}`);
  return parts;
}

function page(map, { cursor, maxEntries, maxBytes, keysOnly }) {
  const rest = sorted(map.keys()).filter((key) => key > cursor);
  const keys = rest.slice(0, index(maxEntries));
  const [found, unreadable] = [[], []];
  let total = 0;
  for (const key of keys) {
    const text = keysOnly ? '' : map.get(key);
    const length = key.length + bytes(text);
    if (total + length > index(maxBytes)) {
      unreadable.push(key);
    } else {
      total += length;
      found.push([key, text]);
    }
  }
  return entries(found, { unreadable, cursor: rest.length > keys.length ? keys.at(-1) : '' });
}

const APPLY = {
  get(life, { mapName, keys, maxBytes, maxPieces }) {
    const map = life.map(mapName);
    const found = keys.filter((key) => map.has(key)).map((key) => [key, map.get(key)]);
    const total = sum(found.map(([, text]) => bytes(text)));
    return total > index(maxBytes) || found.length > maxPieces ? oversize(total, found.length) : entries(found);
  },
  'get-all'(life, operation) {
    const { mapName, cursor, maxEntries, maxBytes, keysOnly } = operation;
    const map = life.map(mapName);
    if (cursor !== undefined) return page(map, operation);
    if (map.size > index(maxEntries)) return oversize(0, map.size);
    const found = sorted(map.keys()).map((key) => [key, keysOnly ? '' : map.get(key)]);
    const total = sum(found.map(([key, text]) => key.length + bytes(text)));
    return total > index(maxBytes) ? oversize(total, map.size) : entries(found);
  },
  set(life, { mapName, reset, remove, put }) {
    const map = life.map(mapName);
    const [before, added] = [map.size, put.filter(({ key }) => !map.has(key)).length];
    if (reset) map.clear();
    for (const key of remove) map.delete(key);
    life.set(mapName, put);
    // A map without entries does not exist.
    if (life.map(mapName).size === 0) life.maps.delete(mapName);
    return { tag: 'changed', val: { added: BigInt(added), removed: BigInt(before + added - life.map(mapName).size) } };
  },
  add(life, operation) {
    const value = life.counted(operation);
    life.set(operation.mapName, [{ key: operation.key, text: `${value}` }]);
    return { tag: 'counter', val: { value } };
  },
  append(life, { log: name, reset, records, marks }) {
    if (records.length > 0 && !life.logs.has(name)) life.logs.set(name, { first: 0, records: [] });
    const log = life.log(name);
    const next = log.first + log.records.length;
    if (reset) Object.assign(log, { first: next, records: [] });
    for (const record of records) log.records.push(record);
    for (const { mapName, key, recordIndex } of marks) life.set(mapName, [{ key, text: `${next + recordIndex}` }]);
    return extent(life, name);
  },
  read(life, { log, newest, onlyOver, leave, maxRecords, maxBytes }) {
    const { records } = life.log(log);
    const rest = records.slice(0, Math.max(records.length - index(leave), 0));
    const count = Math.min(rest.length, index(maxRecords));
    if (records.length <= onlyOver || count === 0) return extent(life, log);
    if (!newest) return life.records(log, [[0, fitting(rest.slice(0, count), maxBytes).length]]);
    return life.records(log, [[rest.length - fitting(rest.slice(-count).reverse(), maxBytes).length, rest.length]]);
  },
  'read-at'(life, { log, spans, maxBytes, maxPieces }) {
    const { first, records } = life.log(log);
    const found = [];
    let [room, count] = [index(maxBytes), 0];
    for (const { position, count: length } of spans) {
      // A run may begin before the log does.
      const from = Math.max(index(position) - first, 0);
      const wanted = records.slice(from, Math.max(index(position) - first + length, 0)).slice(0, maxPieces - count);
      let texts = fitting(wanted, Math.max(room, 0));
      if (count > 0 && texts.length > 0 && bytes(texts[0]) > room) texts = [];
      room -= sum(texts.map(bytes));
      count += texts.length;
      if (texts.length > 0) found.push([from, from + texts.length]);
      if (texts.length < wanted.length || count === maxPieces) break;
    }
    return life.records(log, found);
  },
  'replace-oldest'(life, { log: name, count, records }) {
    const log = life.log(name);
    const replaced = Math.min(log.records.length, most(count));
    log.records = [...records, ...log.records.slice(replaced)];
    log.first += replaced - records.length;
    return extent(life, name);
  },
  rewrite(life, { log: name, records }) {
    const log = life.log(name);
    for (const { position, text } of records) log.records[index(position) - log.first] = text;
    return extent(life, name);
  },
  describe(life, { parts }, now) {
    const part = (kind, name, position, count) => {
      return { kind, name, position: BigInt(position), count: BigInt(count), bytes: 0n };
    };
    const logs = sorted(life.logs.keys()).map((name) => part('log', name, life.log(name).first, life.log(name).records.length));
    const maps = sorted(life.maps.keys()).filter((name) => name !== 'values');
    const val = {
      timeToLive: life.timeToLive,
      createdAt: BigInt(life.createdAt),
      expiresIn: life.timeToLive && BigInt(life.expiresAt - now),
      values: BigInt(life.map('values').size),
      parts: parts ? [...logs, ...maps.map((name) => part('map', name, 0, life.map(name).size))] : [],
    };
    return { tag: 'described', val };
  },
};

export class MemoryStore {
  lives = new Map();
  #now = 0;

  /// `clock` returns milliseconds since 1970.
  constructor(clock = Date.now) {
    this.clock = clock;
  }

  /// The machine's clock may be set back, the store's does not go back.
  #tick() {
    return (this.#now = Math.max(this.#now, this.clock()));
  }

  #find({ kind, name }, now) {
    const place = `${kind}/${name}`;
    const life = this.lives.get(place);
    const expired = life !== undefined && life.expiresAt <= now;
    if (expired) this.lives.delete(place);
    return { place, life: expired ? undefined : life, gone: expired ? 'expired' : 'absent' };
  }

  about() {
    const capabilities = ['atomic', 'compare', 'expiring', 'exactly-once', 'positions', 'leases', 'listing'];
    return { capabilities, limits: [{ name: 'buckets', value: BigInt(MAX_BUCKETS) }] };
  }

  transact(transaction) {
    return this.transactLeased({ transaction }).receipt;
  }

  transactEach(transactions) {
    const attempts = this.transactEachLeased(transactions.map((transaction) => ({ transaction })));
    return attempts.map(({ tag, val }) => ({ tag, val: val.receipt ?? val }));
  }

  /// `leases.transact-each`.
  transactEachLeased(requests) {
    return attempts(requests, 'receipt', checkTransactions, (request) => this.transactLeased(request));
  }

  transactLeased({ lease, transaction }) {
    checkTransaction(lease, transaction);
    const { bucket, precondition: { tag, val: precondition }, expectations, operations } = transaction;
    const now = this.#tick();
    const { place, life: before, gone } = this.#find(bucket, now);
    const receipt = (status, life, more) => {
      const named = life === undefined || life.generation === precondition.generation;
      const generation = named ? undefined : life.generation;
      const rest = { generation, created: false, unmet: undefined, outcomes: [], ...more };
      return { lease: undefined, receipt: { status, now: BigInt(now), ...rest } };
    };

    if (tag === 'existing' && !before) return receipt(gone);
    if (tag === 'existing' && (precondition.generation ?? before.generation) !== before.generation) {
      return receipt('generation-mismatch', before);
    }
    if (tag === 'create-new' && before) return receipt('exists', before);

    const seen = before ?? new Life(now);
    const unmet = expectations.findIndex((expectation) => !seen.holds(expectation, operations));
    if (unmet >= 0) return receipt('unmet', before, { unmet });

    const created = !before || tag === 'replace';
    const life = created ? new Life(now, precondition.timeToLive) : before;
    life.probe(lease, operations, now);
    if (!before) this.#makeRoom(now);
    if (created) this.lives.set(place, life);
    else if (life.timeToLive?.sliding && (precondition.renew ?? true)) life.renew(now);
    const room = new Room();
    const outcomes = operations.map((operation) => life.apply(operation, now, room));
    return { ...receipt('applied', life, { created, outcomes }), lease: lease && life.lease(lease, now) };
  }

  /// Expired buckets go when somebody asks for them, and all at once when there is no more room.
  #makeRoom(now) {
    if (this.lives.size < MAX_BUCKETS) return;
    for (const [place, life] of this.lives) if (life.expiresAt <= now) this.lives.delete(place);
    if (this.lives.size >= MAX_BUCKETS) refuse('too-many-buckets', '', 'the store is full', MAX_BUCKETS);
  }

  deleteEach(requests) {
    const check = () => checkBuckets(requests.map(({ bucket }) => bucket));
    return attempts(requests, 'deletion', check, (request) => this.deleteOne(request));
  }

  deleteOne({ bucket, generation, maxKeys }) {
    checkBucket(bucket, generation);
    const now = this.#tick();
    const { place, life, gone } = this.#find(bucket, now);
    const deletion = (status, keys) => ({
      status, now: BigInt(now), values: BigInt(keys.length), keys: keys.slice(0, most(maxKeys)),
    });
    if (!life) return deletion(gone, []);
    if ((generation ?? life.generation) !== life.generation) return deletion('generation-mismatch', []);
    this.lives.delete(place);
    return deletion('applied', sorted(life.map('values').keys()));
  }

  listBuckets(kind, cursor, limit) {
    checkPart('kind', kind);
    const now = this.#tick();
    const there = [...this.lives].filter(([place, life]) => place.startsWith(`${kind}/`) && life.expiresAt > now);
    const names = sorted(there.map(([place]) => place.slice(kind.length + 1))).filter((name) => name > cursor);
    const page = names.slice(0, most(limit) || Number(PAGE));
    return { names: page, cursor: names.length > page.length ? page.at(-1) : '' };
  }
}

/// One attempt for each request; what `check` refuses, it refuses for all of them.
export function attempts(requests, tag, check, work) {
  const attempt = (call) => {
    try {
      return { tag, val: call() };
    } catch (error) {
      return { tag: 'problem', val: asProblem(error) };
    }
  };
  const all = attempt(() => check(requests));
  return requests.map((one) => (all.tag === 'problem' ? all : attempt(() => work(one))));
}

/// What an import answers in place of throwing. An error that is no `Failure` is a mistake in this file: the filter
/// is told that the store failed, and nothing that could contain a stored text.
export function asProblem(error) {
  if (error instanceof Failure) return { ...error };
  // Where it was, and not what it says.
  const places = String(error?.stack).split('\n').filter((line) => line.startsWith('    at '));
  console.error(['keepline: the store made a mistake', ...places].join('\n'));
  return { code: 'other', subject: '', limit: 0n, message: 'the store made a mistake' };
}
