// What can be refused before the store is looked at: names, limits, and two writes to one place.
// The rules are those of wit/deps/store/core.wit, section by section. The component is not trusted with them: a name
// becomes part of an address here.

/// Limits by name, as problems name them.
export const LIMITS = {
  'text-bytes': 8 << 20, 'record-bytes': 2 << 20, 'call-bytes': 16 << 20, 'call-pieces': 20_000,
  'reply-bytes': 16 << 20, 'reply-pieces': 20_000, 'reply-pieces-each': 10_000, reads: 16, values: 20_000, parts: 64,
  transactions: 128,
};
/// What each piece counts beside its bytes, and what a description of all parts counts.
export const PIECE_BYTES = 96;
const DESCRIBED_PIECES = 64;
const MAX_TIME_TO_LIVE = 3_162_240_000_000n;

/// A call that fails with a `problem` of the contract, whose members these are. Thrown inside the store, and turned into a payload where it leaves (filter.mjs).
export class Failure {
  constructor(code, subject, message, limit = 0) {
    Object.assign(this, { code, subject, message, limit: BigInt(limit) });
  }
}

export const refuse = (code, subject, message, limit) => {
  throw new Failure(code, subject, message, limit);
};

export const tooLarge = (name) => refuse('too-large', name, `over the limit ${name}`, LIMITS[name]);

const utf8 = new TextEncoder();
// Most texts are short, and many: their bytes are counted without a copy of each.
const counted = new Uint8Array(24 << 10);
/// The length of a text in UTF-8.
export function bytes(text) {
  return 3 * text.length > counted.length ? utf8.encode(text).length : utf8.encodeInto(text, counted).written;
}

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
export const checkPart = (what, name) => checkName(what, 'part', name);
export function checkBucket({ kind, name }, generation) {
  checkPart('kind', kind);
  checkName('bucket', 'bucket', name);
  if (generation !== undefined) checkName('generation', 'token', generation);
}
const checkKey = (map, key) => checkName('key', map === 'values' ? 'value' : 'token', key);

const twice = (what, name) => refuse('invalid', name, `the ${what} ${name} would be written twice`);

/// The size of a call, counted before anything is done for each piece. `requests`: leases and transactions.
class Size {
  pieces = 0;
  bytes = 0;
  reads = 0;

  constructor(requests) {
    for (const { lease, transaction: { expectations, operations } } of requests) {
      if (lease) this.piece(lease.name, lease.holder);
      for (const { val: { mapName, log, key, text } } of expectations) {
        this.piece(mapName ?? log, key);
        this.text(text ?? '');
      }
      for (const { tag, val } of operations) this.operation(tag, val);
    }
    if (this.pieces > LIMITS['call-pieces']) tooLarge('call-pieces');
    if (this.reads > LIMITS.reads) tooLarge('reads');
    if (this.bytes > LIMITS['call-bytes']) tooLarge('call-bytes');
  }
  operation(tag, val) {
    this.piece(val.mapName, val.log, val.key, val.cursor);
    if (['get-all', 'read', 'read-at'].includes(tag)) this.reads++;
    if (tag === 'describe' && val.parts) this.pieces += DESCRIBED_PIECES - 1;
    this.pieces += val.spans?.length ?? 0;
    for (const key of val.keys ?? val.remove ?? []) this.piece(key);
    for (const { key, text } of val.put ?? []) {
      this.piece(key);
      this.text(text);
    }
    for (const record of val.records ?? []) {
      const text = record.text ?? record;
      if (bytes(text) > LIMITS['record-bytes']) tooLarge('record-bytes');
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
    if (bytes(text) > LIMITS['text-bytes']) tooLarge('text-bytes');
    this.bytes += bytes(text);
  }
}

/// Where a transaction writes.
class Tally {
  keys = new Set();
  maps = new Set();
  resets = new Set();
  logs = new Set();

  key(map, key) {
    checkKey(map, key);
    const place = `${map} ${key}`;
    if (this.resets.has(map) || this.keys.has(place)) twice('key', key);
    this.maps.add(map);
    this.keys.add(place);
  }
  reset(map) {
    if (this.resets.has(map) || this.maps.has(map)) twice('map', map);
  }
  log(name) {
    checkPart('log', name);
    if (this.logs.has(name)) twice('log', name);
    this.logs.add(name);
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
  'get-all'({ mapName, cursor }) {
    checkPart('map', mapName);
    if (cursor?.length > 512) refuse('invalid', 'cursor', 'no store gave this cursor');
  },
  set({ mapName, reset, remove, put }, tally) {
    checkPart('map', mapName);
    if (reset) tally.reset(mapName);
    for (const key of remove) tally.key(mapName, key);
    for (const { key } of put) tally.key(mapName, key);
    if (reset) tally.resets.add(mapName);
  },
  add({ mapName, key }, tally) {
    checkPart('map', mapName);
    tally.key(mapName, key);
  },
  append({ log, records, marks }, tally) {
    tally.log(log);
    for (const { mapName, key, recordIndex } of marks) {
      checkPart('map', mapName);
      if (mapName === 'values') refuse('invalid', 'marks', 'values hold no positions');
      if (recordIndex >= records.length) refuse('invalid', 'marks', `there is no record ${recordIndex}`);
      tally.key(mapName, key);
    }
  },
  read: ({ log }) => checkPart('log', log),
  'read-at': ({ log }) => checkPart('log', log),
  'replace-oldest'({ log, count, records }, tally) {
    tally.log(log);
    if (records.length > count) refuse('invalid', 'records', 'more records than they replace');
  },
  rewrite({ log, records }, tally) {
    tally.log(log);
    const positions = new Set();
    for (const { position } of records) {
      if (positions.has(position)) twice('position', `${position}`);
      positions.add(position);
    }
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

function checkLease({ name, holder, milliseconds }) {
  checkPart('lease', name);
  checkName('holder', 'token', holder);
  if (milliseconds > MAX_TIME_TO_LIVE) refuse('invalid', 'milliseconds', 'a lease does not last that long');
}

export function checkTransaction(lease, transaction) {
  const { bucket, precondition, expectations, operations } = transaction;
  const { generation, timeToLive } = precondition.val;
  checkBucket(bucket, generation);
  if (timeToLive && (timeToLive.milliseconds < 1n || timeToLive.milliseconds > MAX_TIME_TO_LIVE)) {
    refuse('invalid', 'time-to-live', `a time to live is 1 to ${MAX_TIME_TO_LIVE} milliseconds`);
  }
  new Size([{ lease, transaction }]);
  if (lease) checkLease(lease);
  const rooms = new Set();
  for (const { tag, val } of expectations) EXPECTATIONS[tag](val, rooms);
  const tally = new Tally();
  for (const { tag, val } of operations) OPERATIONS[tag](val, tally);
}

/// Refuses transactions as a whole that can't be sent together.
export function checkTransactions(requests) {
  checkBuckets(requests.map(({ transaction }) => transaction.bucket));
  new Size(requests);
}

/// Refuses a call as a whole that is about too many buckets, or about one of them twice.
export function checkBuckets(buckets) {
  if (buckets.length > LIMITS.transactions) tooLarge('transactions');
  const seen = new Set();
  for (const { kind, name } of buckets) {
    if (seen.has(`${kind} ${name}`)) refuse('invalid', name, `the bucket ${name} is named twice in a call`);
    seen.add(`${kind} ${name}`);
  }
}
