// What can be refused before the store is looked at: names, limits, and two writes to one place.
// The rules are those of wit/key-value.wit, section by section. The component is not trusted with them: a name
// becomes part of an address here.

/// Of a call, and of the answers to a transaction.
export const MAX_PIECES = 20_000;
export const MAX_BYTES = 16 << 20;
/// What each piece counts beside its bytes.
export const PIECE_BYTES = 96;
const MAX_TEXT_BYTES = 8 << 20;
const MAX_RECORD_BYTES = 2 << 20;
const MAX_RANGES = 16;
export const MAX_PARTS = 64;
const MAX_TIME_TO_LIVE = 3_162_240_000_000n;
const MAX_TRANSACTIONS = 128;

/// A `failure` of the contract. Thrown inside the store, and turned into a payload where it leaves (host.mjs).
export class Failure {
  constructor(code, subject, message, limit = 0) {
    Object.assign(this, { code, subject, message, limit: BigInt(limit) });
  }
}

export const refuse = (code, subject, message, limit) => {
  throw new Failure(code, subject, message, limit);
};

export const bytes = (text) => Buffer.byteLength(text);

const NAMES = {
  bucket: /^[A-Za-z0-9_-]{1,128}$/,
  part: /^[a-z][a-z0-9-]{0,31}$/,
  value: /^(?!__.*__$)(?!___?$)[A-Za-z0-9_.-]{1,256}$/,
  token: /^[!-~]{1,256}$/,
};

/// `what` names the offending part to the caller.
export function checkName(what, rule, name) {
  if (!NAMES[rule].test(name)) {
    refuse('invalid', what, `the ${what} name ${JSON.stringify(name.slice(0, 64))} is not allowed`);
  }
}
const checkPart = (what, name) => checkName(what, 'part', name);
const checkKey = (map, key) => checkName('key', map === 'values' ? 'value' : 'token', key);

const twice = (what, name) => refuse('invalid', name, `the ${what} ${name} would be written twice`);

/// What a call comes to: counted before anything is done for each piece.
class Size {
  pieces = 0;
  bytes = 0;
  ranges = 0;

  constructor(transactions) {
    for (const { expectations, operations } of transactions) {
      for (const { val: { mapName, log, key, text } } of expectations) {
        this.piece(mapName ?? log, key);
        this.text(text ?? '');
      }
      for (const { tag, val } of operations) this.operation(tag, val);
    }
    if (this.pieces > MAX_PIECES) refuse('too-large', 'pieces', 'too many pieces in a call', MAX_PIECES);
    if (this.ranges > MAX_RANGES) refuse('too-large', 'reads', 'too many maps and logs are read', MAX_RANGES);
    if (this.bytes > MAX_BYTES) refuse('too-large', 'bytes', 'too many bytes in a call', MAX_BYTES);
  }
  operation(tag, val) {
    this.piece(val.mapName, val.log, val.lease, val.key, val.holder, val.cursor);
    if (['get-all', 'page', 'read', 'read-at', 'overflow'].includes(tag)) this.ranges++;
    if (tag === 'describe' && val.parts) this.pieces += MAX_PARTS - 1;
    this.pieces += val.spans?.length ?? 0;
    for (const key of val.keys ?? []) this.piece(key);
    for (const { key, text } of val.entries ?? []) {
      this.piece(key);
      this.text(text);
    }
    for (const record of val.records ?? []) {
      const text = record.text ?? record;
      if (bytes(text) > MAX_RECORD_BYTES) refuse('too-large', 'record', 'a record is too long', MAX_RECORD_BYTES);
      this.piece(text);
    }
    for (const { mapName, key } of val.marks ?? []) this.piece(mapName, key);
  }
  piece(...names) {
    this.pieces++;
    this.bytes += PIECE_BYTES;
    for (const name of names) this.bytes += bytes(name ?? '');
  }
  text(text) {
    if (bytes(text) > MAX_TEXT_BYTES) refuse('too-large', 'text', 'a text is too long', MAX_TEXT_BYTES);
    this.bytes += bytes(text);
  }
}

/// Where a transaction writes.
class Tally {
  keys = new Set();
  maps = new Set();
  resets = new Set();
  parts = new Set();

  key(map, key) {
    checkKey(map, key);
    const place = `${map} ${key}`;
    if (this.resets.has(map) || this.keys.has(place)) twice('key', key);
    this.maps.add(map);
    this.keys.add(place);
  }
  entries(map, entries) {
    for (const { key } of entries) this.key(map, key);
  }
  reset(map) {
    checkPart('map', map);
    if (this.resets.has(map) || this.maps.has(map)) twice('map', map);
  }
  part(what, name) {
    checkPart(what, name);
    const place = `${what} ${name}`;
    if (this.parts.has(place)) twice(what, name);
    this.parts.add(place);
  }
  records({ records, marks = [] }) {
    for (const mark of marks) {
      checkPart('map', mark.mapName);
      if (mark.mapName === 'values') refuse('invalid', 'marks', 'values hold no positions');
      if (mark.recordIndex >= records.length) refuse('invalid', 'marks', `there is no record ${mark.recordIndex}`);
      this.key(mark.mapName, mark.key);
    }
  }
}

const OPERATIONS = {
  get({ mapName, keys }) {
    checkPart('map', mapName);
    const seen = new Set();
    for (const key of keys) {
      checkKey(mapName, key);
      if (seen.has(key)) refuse('invalid', key, `the key ${key} is asked for twice`);
      seen.add(key);
    }
  },
  'get-all': ({ mapName }) => checkPart('map', mapName),
  page({ mapName, cursor }) {
    checkPart('map', mapName);
    if (cursor.length > 512) refuse('invalid', 'cursor', 'no store gave this cursor');
  },
  put({ mapName, entries }, tally) {
    checkPart('map', mapName);
    tally.entries(mapName, entries);
  },
  increment({ mapName, key }, tally) {
    checkPart('map', mapName);
    tally.key(mapName, key);
  },
  remove({ mapName, keys }, tally) {
    checkPart('map', mapName);
    for (const key of keys) tally.key(mapName, key);
  },
  'reset-map'({ mapName, entries }, tally) {
    tally.reset(mapName);
    tally.entries(mapName, entries);
    tally.resets.add(mapName);
  },
  append(append, tally) {
    tally.part('log', append.log);
    tally.records(append);
  },
  read: ({ log }) => checkPart('log', log),
  'read-at': ({ log }) => checkPart('log', log),
  overflow({ log, limit, keep }) {
    checkPart('log', log);
    if (keep > limit) refuse('invalid', 'keep', `keep (${keep}) is more than limit (${limit})`);
  },
  'replace-oldest'(replace, tally) {
    tally.part('log', replace.log);
    tally.records(replace);
    if (replace.records.length > replace.count) refuse('invalid', 'records', 'more records than they replace');
  },
  rewrite({ log, records }, tally) {
    tally.part('log', log);
    const positions = new Set();
    for (const { position } of records) {
      if (positions.has(position)) twice('position', `${position}`);
      positions.add(position);
    }
  },
  'reset-log'(reset, tally) {
    tally.part('log', reset.log);
    tally.records(reset);
  },
  lease({ lease, holder, milliseconds }, tally) {
    tally.part('lease', lease);
    checkName('holder', 'token', holder);
    if (milliseconds > MAX_TIME_TO_LIVE) refuse('invalid', 'milliseconds', 'a lease does not last that long');
  },
  describe() {},
};

const EXPECTATIONS = {
  entry({ mapName, key }) {
    checkPart('map', mapName);
    checkKey(mapName, key);
  },
  log: ({ log }) => checkPart('log', log),
  room({ mapName }, rooms) {
    checkPart('map', mapName);
    if (rooms.has(mapName)) refuse('invalid', mapName, `the room in ${mapName} is expected twice`);
    rooms.add(mapName);
  },
};

export function checkTransaction({ bucket, precondition, expectations, operations }) {
  checkName('bucket', 'bucket', bucket.name);
  const { generation, timeToLive: life } = precondition.val;
  if (generation !== undefined) checkName('generation', 'token', generation);
  if (life && (life.milliseconds < 1n || life.milliseconds > MAX_TIME_TO_LIVE)) {
    refuse('invalid', 'time-to-live', `a time to live is 1 to ${MAX_TIME_TO_LIVE} milliseconds`);
  }
  new Size([{ expectations, operations }]);
  const rooms = new Set();
  for (const { tag, val } of expectations) EXPECTATIONS[tag](val, rooms);
  const tally = new Tally();
  for (const { tag, val } of operations) {
    const check = OPERATIONS[tag] ?? (() => refuse('unsupported', 'indexes', 'this store has no indexes'));
    check(val, tally);
  }
}

/// What makes all of `transact-each` fail.
export function checkEach(transactions) {
  if (transactions.length > MAX_TRANSACTIONS) {
    refuse('too-large', 'transactions', 'too many transactions at a time', MAX_TRANSACTIONS);
  }
  new Size(transactions);
  const buckets = new Set();
  for (const { bucket } of transactions) {
    const place = `${bucket.kind} ${bucket.name}`;
    if (buckets.has(place)) refuse('invalid', bucket.name, 'two transactions are about the same bucket');
    buckets.add(place);
  }
}
