// Reads JSON lines {"lane": "questions" | "answers", "text", "metadata"} and writes them with their memory:
//   node host.mjs [FOLDER]    what jco made of the component; "out" unless told
// Conversations may be interleaved: each entry belongs to the session that its metadata name, or to that of the last
// question. {"lane": "open"} begins a new conversation, in the session that its metadata name, or in all. All that the
// filter does not change passes byte for byte, and so does what is no such line.

import { createInterface } from 'node:readline';
import { Filter, load } from './filter.mjs';
import { MemoryStore } from './store.mjs';
import { Turns } from './turns.mjs';

const store = new MemoryStore();
const options = process.env.KEEPLINE_OPTIONS ?? '{}';
const filter = new Filter(await load(process.argv[2] ?? 'out'), store, options);
const turns = new Turns(JSON.parse(options).memory_mode === 'node');
const reported = new Set();
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:,]|[^\s"{}[\]:,]+/g;

/// Where the value of a member stands in a line of valid JSON; of duplicates, the last one's. Metadata goes through as
/// text: to parse it and write it again would round large numbers.
function place(line, name) {
  let [depth, end, last, key, start, found] = [0, 0, ''];
  for (const { 0: token, index } of line.matchAll(TOKENS)) {
    if (depth === 1 && (token === ',' || token === '}')) {
      if (key === name) found = [start, end];
      key = undefined;
    } else if (depth === 1 && token === ':') {
      [key, start] = [JSON.parse(last), undefined];
    } else if (key !== undefined) {
      start ??= index;
    }
    if (token === '{' || token === '[') depth += 1;
    if (token === '}' || token === ']') depth -= 1;
    [last, end] = [token, index + token.length];
  }
  return found;
}

/// Reports a problem on stderr. An id that can't be a session's is reported once: each further entry of its chat has the
/// same one.
function report({ code, message }) {
  if (code.startsWith('session-id-') && reported.has(code)) return;
  reported.add(code);
  console.error(`keepline: ${message}`);
}

/// Undefined: no entry.
function parse(line) {
  try {
    const entry = JSON.parse(line);
    return typeof entry.lane === 'string' ? entry : undefined;
  } catch {
    return undefined;
  }
}

/// The line to write for this one, and the work that it made due.
function pass(line) {
  const entry = parse(line);
  const isQuestion = entry?.lane === 'questions';
  const text = entry?.text ?? '';
  if (entry?.lane === 'open') {
    turns.open(entry.metadata);
    return { line, due: [] };
  }
  if ((!isQuestion && entry?.lane !== 'answers') || typeof text !== 'string') {
    console.error('keepline: a line that is no entry passes as it is');
    turns.forgetLast();
    return { line, due: [] };
  }
  const span = place(line, 'metadata');
  const metadata = span ? line.slice(...span) : '{}';
  let reply;
  if (isQuestion) {
    reply = filter.question(text, metadata);
    turns.ask(entry.metadata, text, reply?.turn ?? '');
  } else {
    const turn = turns.find(entry.metadata);
    reply = filter.answer(text, metadata, turn?.state ?? '', turn?.text);
    if (turn && (reply?.effect === 'stored' || reply?.effect === 'repeated')) turn.text = undefined;
  }
  if (reply?.problem) report(reply.problem);
  const due = reply?.due ?? [];
  if (reply?.metadata === undefined) return { line, due };
  const [start, end] = span ?? Array(2).fill(line.lastIndexOf('}'));
  return { line: line.slice(0, start) + (span ? '' : ',"metadata":') + reply.metadata + line.slice(end), due };
}

// As bytes: decoded, readline would end lines at U+2028 too, which JSON allows within them.
process.stdin.setEncoding('latin1');
for await (const raw of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const bytes = Buffer.from(raw, 'latin1');
  let decoded;
  try {
    decoded = utf8.decode(bytes);
  } catch {
    console.error('keepline: a line that is no UTF-8 passes as it is');
    turns.forgetLast();
  }
  const { line, due } = decoded === undefined ? { line: bytes, due: [] } : pass(decoded);
  process.stdout.write(Buffer.concat([Buffer.from(line), Buffer.from('\n')]));
  filter.maintain(due);
}
