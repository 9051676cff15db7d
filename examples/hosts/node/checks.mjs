// What can be refused before the store is looked at: names, limits, and two writes to one place.
// The rules are those of wit/key-value.wit, section by section. The component is not trusted with them: a name
// becomes part of an address here.

const MAX_PIECES = 20_000;
const MAX_TEXT_BYTES = 16 << 20;
const MAX_BYTES = 32 << 20;
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

/// What one transaction asks for so far, and where it writes.
class Tally {
  pieces = 0;
  bytes = 0;
  keys = new Set();
  maps = new Set();
  resets = new Set();
  parts = new Set();

  piece() {
    if (++this.pieces > MAX_PIECES) refuse('too-large', 'pieces', 'too many pieces in a transaction', MAX_PIECES);
  }
  count(text) {
    this.bytes += bytes(text);
    if (this.bytes > MAX_BYTES) refuse('too-large', 'bytes', 'too many bytes in a transaction', MAX_BYTES);
  }
  text(text) {
    if (bytes(text) > MAX_TEXT_BYTES) refuse('too-large', 'text', 'a text is too long', MAX_TEXT_BYTES);
    this.count(text);
  }
  key(map, key) {
    checkKey(map, key);
    const place = `${map} ${key}`;
    if (this.resets.has(map) || this.keys.has(place)) twice('key', key);
    this.maps.add(map);
    this.keys.add(place);
  }
  entries(map, entries) {
    for (const { key, text } of entries) {
      this.piece();
      this.count(key);
      this.text(text);
      this.key(map, key);
    }
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
    for (const record of records) {
      this.piece();
      this.text(record);
    }
    for (const mark of marks) {
      this.piece();
      checkPart('map', mark.mapName);
      if (mark.mapName === 'values') refuse('invalid', 'marks', 'values hold no positions');
      if (mark.recordIndex >= records.length) refuse('invalid', 'marks', `there is no record ${mark.recordIndex}`);
      this.key(mark.mapName, mark.key);
    }
  }
}

const OPERATIONS = {
  get({ mapName, keys }, tally) {
    checkPart('map', mapName);
    const seen = new Set();
    for (const key of keys) {
      tally.piece();
      tally.count(key);
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
    tally.count(key);
    tally.key(mapName, key);
  },
  remove({ mapName, keys }, tally) {
    checkPart('map', mapName);
    for (const key of keys) {
      tally.piece();
      tally.count(key);
      tally.key(mapName, key);
    }
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
  'read-at'({ log, spans }, tally) {
    checkPart('log', log);
    spans.forEach(() => tally.piece());
  },
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
    for (const { position, text } of records) {
      tally.piece();
      tally.text(text);
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
  entry({ mapName, key, text }, tally) {
    checkPart('map', mapName);
    checkKey(mapName, key);
    tally.count(key);
    tally.text(text);
  },
  log: ({ log }) => checkPart('log', log),
  room: ({ mapName }) => checkPart('map', mapName),
};

export function checkTransaction({ bucket, opening, expectations, operations }) {
  checkName('bucket', 'bucket', bucket.name);
  const { incarnation, timeToLive: life } = opening.val;
  if (incarnation !== undefined) checkName('incarnation', 'token', incarnation);
  if (life && (life.milliseconds < 1n || life.milliseconds > MAX_TIME_TO_LIVE)) {
    refuse('invalid', 'time-to-live', `a time to live is 1 to ${MAX_TIME_TO_LIVE} milliseconds`);
  }
  const tally = new Tally();
  for (const { tag, val } of expectations) {
    tally.piece();
    EXPECTATIONS[tag](val, tally);
  }
  for (const { tag, val } of operations) {
    tally.piece();
    const check = OPERATIONS[tag] ?? (() => refuse('unsupported', 'indexes', 'this store has no indexes'));
    check(val, tally);
  }
}

/// What makes all of `transact-each` fail.
export function checkEach(transactions) {
  if (transactions.length > MAX_TRANSACTIONS) {
    refuse('too-large', 'transactions', 'too many transactions at a time', MAX_TRANSACTIONS);
  }
  const buckets = new Set();
  for (const { bucket } of transactions) {
    const place = `${bucket.kind} ${bucket.name}`;
    if (buckets.has(place)) refuse('invalid', bucket.name, 'two transactions are about the same bucket');
    buckets.add(place);
  }
}
