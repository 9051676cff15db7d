// The capability `key-value`, kept in this process's memory. All of it but indexes.
//
// JavaScript runs one transaction at a time and a call never waits, so "all or none" takes no lock: whatever can fail
// is looked at first (`Life.probe`), and what follows can't fail. Each call arrives once and is answered, so none is
// ever repeated, and nobody has to remember who wrote what.

import { randomUUID } from 'node:crypto';
import {
  Failure, MAX_BYTES, MAX_PARTS, MAX_PIECES, PIECE_BYTES, bytes, checkEach, checkName, checkTransaction, refuse,
} from './checks.mjs';

const MAX_RECORDS = 10_000;
const MAX_VALUES = 20_000;
const MAX_BUCKETS = 100_000;
const COUNTER = /^(0|-?[1-9][0-9]*)$/;
const COUNTER_END = 1n << 63n;

/// A 64-bit number that stands for how many, or for a position. What is beyond 2^53 is more than there is.
const index = (u64) => Number(u64 < Number.MAX_SAFE_INTEGER ? u64 : Number.MAX_SAFE_INTEGER);
const most = (u64) => Math.min(index(u64), MAX_RECORDS);
// Names and keys are ASCII: UTF-16 sorts them as bytes do.
const sorted = (names) => [...names].sort();
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/// What all answers of a transaction may have, together.
class Room {
  pieces = MAX_PIECES;
  bytes = MAX_BYTES;

  /// The operation, asking for no more than there is room for.
  limited({ tag, val }) {
    const [pieces, room] = [Math.min(MAX_RECORDS, this.pieces), BigInt(this.bytes)];
    const few = (asked) => (asked < pieces ? asked : BigInt(pieces));
    const limits = { maxPieces: pieces };
    if ('maxBytes' in val) limits.maxBytes = val.maxBytes < room ? val.maxBytes : room;
    if ('maxEntries' in val) limits.maxEntries = few(val.maxEntries);
    // A page is a step forward, room or not.
    if (tag === 'page') limits.maxEntries = few(val.maxEntries || 100n) || 1n;
    if ('maxRecords' in val) limits.maxRecords = this.bytes > 0 ? few(val.maxRecords) : 0n;
    if (tag === 'read-at' && this.bytes === 0) limits.maxPieces = 0;
    return { tag, val: { ...val, ...limits } };
  }
  /// What an operation is answered with takes its room.
  take(asked, { tag, val }) {
    if (tag === 'oversize') return;
    const { entries = [], unreadable = [], spans = [], records = spans.flatMap((span) => span.records) } = val;
    const texts = [...records, ...entries.map(({ key, text }) => (asked === 'get' ? text : key + text))];
    const count = texts.length + unreadable.length;
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
  generation = randomUUID();
  maps = new Map();
  logs = new Map();
  leases = new Map();

  constructor(now, timeToLive) {
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
  probe(operations, now) {
    for (const [name, { until }] of this.leases) if (until <= now) this.leases.delete(name);
    for (const { tag, val } of operations) {
      if (tag === 'increment') this.counted(val);
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
    const parts = new Set([...there, ...operations.flatMap(partsMade)]);
    const values = this.map('values');
    const created = operations.flatMap(keysSet).filter(([map, key]) => map === 'values' && !values.has(key)).length;
    if (created > 0 && values.size + created > MAX_VALUES) refuse('too-large', 'values', 'too many values', MAX_VALUES);
    // What the transaction removes makes no room for what it creates.
    if (parts.size > Math.max(MAX_PARTS, there.length)) {
      refuse('too-large', 'parts', 'too many maps, logs and leases', MAX_PARTS);
    }
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
    const before = map.size;
    for (const { key, text } of entries) map.set(key, text);
    return map.size - before;
  }
  /// A map without entries does not exist.
  drop(mapName, keys) {
    const map = this.map(mapName);
    const removed = keys.filter((key) => map.delete(key)).length;
    if (map.size === 0) this.maps.delete(mapName);
    return removed;
  }
  append({ log: name, records, marks }) {
    if (records.length > 0 && !this.logs.has(name)) this.logs.set(name, { first: 0, records: [] });
    const log = this.log(name);
    const next = log.first + log.records.length;
    for (const record of records) log.records.push(record);
    for (const { mapName, key, recordIndex } of marks) this.set(mapName, [{ key, text: `${next + recordIndex}` }]);
  }
  read(name, from, to) {
    const { first, records } = this.log(name);
    const val = { extent: this.extent(name), first: BigInt(first + from), records: records.slice(from, to) };
    return { tag: 'records', val };
  }

  apply(operation, now, room) {
    const { tag, val } = room.limited(operation);
    const outcome = APPLY[tag](this, val, now);
    if ('maxBytes' in val) room.take(tag, outcome);
    return outcome;
  }
}

const changed = (count) => ({ tag: 'changed', val: { count: BigInt(count) } });
const extent = (life, name) => ({ tag: 'extent', val: life.extent(name) });
const oversize = (total, entries) => ({ tag: 'oversize', val: { bytes: BigInt(total), entries: BigInt(entries) } });
const entry = ([key, text]) => ({ key, text });

/// Where an operation sets entries, as pairs of map and key.
function keysSet({ tag, val }) {
  if (tag === 'increment') return [[val.mapName, val.key]];
  if (tag === 'put' || tag === 'reset-map') return val.entries.map(({ key }) => [val.mapName, key]);
  return (val.marks ?? []).map(({ mapName, key }) => [mapName, key]);
}

/// What an operation may bring into being.
function partsMade(operation) {
  const { tag, val } = operation;
  const parts = keysSet(operation).map(([map]) => `map ${map}`).filter((part) => part !== 'map values');
  if ((tag === 'append' || tag === 'reset-log') && val.records.length > 0) parts.push(`log ${val.log}`);
  if (tag === 'lease' && val.milliseconds > 0n) parts.push(`lease ${val.lease}`);
  return parts;
}

const APPLY = {
  get(life, { mapName, keys, maxBytes, maxPieces }) {
    const map = life.map(mapName);
    const found = keys.filter((key) => map.has(key)).map((key) => ({ key, text: map.get(key) }));
    const total = sum(found.map(({ text }) => bytes(text)));
    if (total > index(maxBytes) || found.length > maxPieces) return oversize(total, found.length);
    return { tag: 'entries', val: { entries: found, unreadable: [] } };
  },
  'get-all'(life, { mapName, maxEntries, maxBytes }) {
    const map = life.map(mapName);
    if (map.size > most(maxEntries)) return oversize(0, map.size);
    const total = sum([...map].map(([key, text]) => key.length + bytes(text)));
    if (total > index(maxBytes)) return oversize(total, map.size);
    const entries = sorted(map.keys()).map((key) => ({ key, text: map.get(key) }));
    return { tag: 'entries', val: { entries, unreadable: [] } };
  },
  page(life, { mapName, cursor, maxEntries, maxBytes, keysOnly }) {
    const map = life.map(mapName);
    const rest = sorted(map.keys()).filter((key) => key > cursor);
    const keys = rest.slice(0, most(maxEntries) || 100);
    const [entries, unreadable] = [[], []];
    let total = 0;
    for (const key of keys) {
      const text = keysOnly ? '' : map.get(key);
      const length = key.length + bytes(text);
      if (total + length > index(maxBytes)) {
        unreadable.push(key);
      } else {
        total += length;
        entries.push({ key, text });
      }
    }
    return { tag: 'page', val: { entries, unreadable, cursor: rest.length > keys.length ? keys.at(-1) : '' } };
  },
  put: (life, { mapName, entries }) => changed(life.set(mapName, entries)),
  increment(life, step) {
    const value = life.counted(step);
    life.set(step.mapName, [{ key: step.key, text: `${value}` }]);
    return { tag: 'counter', val: { value } };
  },
  remove: (life, { mapName, keys }) => changed(life.drop(mapName, keys)),
  'reset-map'(life, { mapName, entries }) {
    const removed = life.map(mapName).size;
    life.maps.delete(mapName);
    life.set(mapName, entries);
    return changed(removed);
  },
  append(life, step) {
    life.append(step);
    return extent(life, step.log);
  },
  read(life, { log, end, maxRecords, maxBytes }) {
    const { records } = life.log(log);
    const count = most(maxRecords);
    if (count === 0) return life.read(log, records.length);
    if (end === 'oldest') return life.read(log, 0, fitting(records.slice(0, count), maxBytes).length);
    return life.read(log, records.length - fitting(records.slice(-count).reverse(), maxBytes).length);
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
      if (texts.length > 0) found.push({ first: BigInt(first + from), records: texts });
      if (texts.length < wanted.length || count === maxPieces) break;
    }
    return { tag: 'spans', val: { extent: life.extent(log), spans: found } };
  },
  overflow(life, { log, limit, keep, maxRecords, maxBytes }) {
    const { records } = life.log(log);
    const surplus = records.length > index(limit) ? Math.min(records.length - index(keep), most(maxRecords)) : 0;
    if (surplus === 0) return extent(life, log);
    return life.read(log, 0, fitting(records.slice(0, surplus), maxBytes).length);
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
  'reset-log'(life, step) {
    const log = life.log(step.log);
    log.first += log.records.length;
    log.records = [];
    life.append(step);
    return extent(life, step.log);
  },
  lease(life, { lease: name, holder, milliseconds }, now) {
    let lease = life.leases.get(name);
    if (!lease || lease.holder === holder) {
      lease = milliseconds > 0n ? { holder, until: now + index(milliseconds) } : undefined;
      if (lease) life.leases.set(name, lease);
      else life.leases.delete(name);
    }
    const expiresIn = lease ? BigInt(lease.until - now) : 0n;
    return { tag: 'lease', val: { held: lease?.holder === holder, holder: lease?.holder ?? '', expiresIn } };
  },
  describe(life, { parts }, now) {
    const maps = parts ? sorted(life.maps.keys()).filter((name) => name !== 'values') : [];
    const logs = parts ? sorted(life.logs.keys()) : [];
    const val = {
      timeToLive: life.timeToLive,
      expiresIn: life.timeToLive && BigInt(life.expiresAt - now),
      values: BigInt(life.map('values').size),
      maps: maps.map((mapName) => ({ mapName, entries: BigInt(life.map(mapName).size) })),
      logs: logs.map((log) => ({ log, extent: life.extent(log) })),
      indexes: [],
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

  transact(transaction) {
    checkTransaction(transaction);
    const { bucket, precondition: { tag, val: precondition }, expectations, operations } = transaction;
    const now = this.#tick();
    const { place, life: before, gone } = this.#find(bucket, now);
    const receipt = (status, life, more) => {
      const named = life === undefined || life.generation === precondition.generation;
      const generation = named ? '' : life.generation;
      return { status, now: BigInt(now), generation, created: false, unmet: undefined, outcomes: [], ...more };
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
    life.probe(operations, now);
    if (!before) this.#makeRoom(now);
    if (created) this.lives.set(place, life);
    else if (life.timeToLive?.sliding && (precondition.renew ?? true)) life.renew(now);
    const room = new Room();
    const outcomes = operations.map((operation) => life.apply(operation, now, room));
    return receipt('applied', life, { created, outcomes });
  }

  transactEach(transactions) {
    const attempt = (check) => {
      try {
        return { tag: 'receipt', val: check() };
      } catch (error) {
        return { tag: 'failure', val: asFailure(error) };
      }
    };
    const all = attempt(() => checkEach(transactions));
    return transactions.map((one) => (all.tag === 'failure' ? all : attempt(() => this.transact(one))));
  }

  /// Expired buckets go when somebody asks for them, and all at once when there is no more room.
  #makeRoom(now) {
    if (this.lives.size < MAX_BUCKETS) return;
    for (const [place, life] of this.lives) if (life.expiresAt <= now) this.lives.delete(place);
    if (this.lives.size >= MAX_BUCKETS) refuse('too-many-buckets', '', 'the store is full', MAX_BUCKETS);
  }

  listBuckets(kind, cursor, limit) {
    const now = this.#tick();
    const there = [...this.lives].filter(([place, life]) => place.startsWith(`${kind}/`) && life.expiresAt > now);
    const names = sorted(there.map(([place]) => place.slice(kind.length + 1))).filter((name) => name > cursor);
    const page = names.slice(0, most(limit) || 100);
    return { names: page, cursor: names.length > page.length ? page.at(-1) : '' };
  }

  deleteBucket(bucket, generation, maxKeys) {
    checkName('bucket', 'bucket', bucket.name);
    if (generation !== undefined) checkName('generation', 'token', generation);
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

  capabilities() {
    return {
      atomic: true, expiring: true, exactlyOnce: true, durable: false, listing: true, leases: true, indexes: false,
    };
  }
}

/// What an import answers in place of throwing. An error that is no `Failure` is a mistake in this file: the filter
/// is told that the store failed, and nothing that could contain a stored text.
export function asFailure(error) {
  if (error instanceof Failure) return { ...error };
  // Where it was, and not what it says.
  const places = String(error?.stack).split('\n').filter((line) => line.startsWith('    at '));
  console.error(['keepline: the store made a mistake', ...places].join('\n'));
  return { code: 'other', subject: '', limit: 0n, message: 'the store made a mistake' };
}
