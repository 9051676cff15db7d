// Replays the store kit against the store in memory, in Node: `node conformance.mjs [--real-time] [FOLDER]`. With
// `--real-time` the clock is not moved but waited for, and cases that would take long are skipped.

import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { spelled } from './kit.mjs';
import { fittingCases, replay } from './replay.mjs';
import { MemoryStore } from '../store.mjs';

/// The cases of all files that a store which says this about itself has to pass, and how many others there are.
export function casesFor(folder, about, isRealTime = false) {
  const cases = [];
  let skipped = 0;
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.json')).sort()) {
    const fitting = fittingCases(JSON.parse(readFileSync(`${folder}/${file}`, 'utf8')).cases, about, isRealTime);
    cases.push(...fitting.cases.map((one) => ({ file, ...one })));
    skipped += fitting.skipped;
  }
  return { cases, skipped };
}

const isRealTime = process.argv[2] === '--real-time';
export const kitFolder = process.argv[isRealTime ? 3 : 2] ?? fileURLToPath(new URL('../../../../conformance', import.meta.url));
export const about = spelled(new MemoryStore().about());

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { cases, skipped } = casesFor(kitFolder, about, isRealTime);
  let failed = 0;
  for (const { file, name, steps } of cases) {
    const problem = await replay(steps, (clock) => new MemoryStore(clock), { isRealTime });
    if (!problem) continue;
    failed += 1;
    console.error(`${file}: ${name}: ${problem}`);
  }
  console.log(`conformance (Node, memory): ${cases.length - failed} passed, ${failed} failed, ${skipped} skipped`);
  process.exitCode = failed > 0 || cases.length === 0 ? 1 : 0;
}
