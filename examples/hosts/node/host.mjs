// Reads JSON lines from standard input and writes them with their memory (`lines.mjs`), in Node:
//   node host.mjs [FOLDER]    what jco made of the component; "out" unless told

import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { Conversations } from './conversations.mjs';
import { Filter, load } from './filter.mjs';
import { passed } from './lines.mjs';
import { MemoryStore } from './store.mjs';

const options = process.env.KEEPLINE_OPTIONS ?? '{}';
const component = await load(pathToFileURL(`${process.argv[2] ?? 'out'}/`), readFile);
const conversations = new Conversations(new Filter(component, new MemoryStore(), options));
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

// As bytes: decoded, readline would end lines at U+2028 too, which JSON allows within them.
process.stdin.setEncoding('latin1');
for await (const raw of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const bytes = Buffer.from(raw, 'latin1');
  let text;
  try {
    text = utf8.decode(bytes);
  } catch {
    conversations.unreadable();
  }
  const line = text === undefined ? bytes : passed(conversations, text);
  process.stdout.write(Buffer.concat([Buffer.from(line), Buffer.from('\n')]));
  await conversations.work();
}
