// Checks that texts come out of the component as they went in: `node filter-test.mjs [FOLDER]`, what jco made of it. jco's
// decoder drops a byte order mark at the beginning, which JSON readers have to accept.

import { readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { Filter, load } from '../filter.mjs';
import { MemoryStore } from '../store.mjs';

const { lanes } = new Filter(await load(pathToFileURL(`${process.argv[2] ?? 'out'}/`), readFile), new MemoryStore(), '{}').instance;
const metadata = '\ufeff{"session_id":"s"}';
const { turn } = lanes.question({ text: 'Hello', metadata });
lanes.answer({ text: 'Hi', metadata, turn, question: { text: 'Hello' }, tools: [] });
const reply = lanes.question({ text: 'Hello again', metadata });
if (!reply.metadata.startsWith('\ufeff{"session_id":"s",')) {
  console.error(`metadata lose their byte order mark: ${JSON.stringify(reply.metadata.slice(0, 30))}`);
  process.exitCode = 1;
}
