// The host in JavaScript in a real Chromium, with its store in IndexedDB: `node test.mjs SITE CONFORMANCE LINES HALF OUTPUT [LINES OUTPUT]`.
//
// SITE is a folder with `node/` (what jco made of the component in `node/out`) and `browser/`, CONFORMANCE the store kit. The
// lines of a file go through the host and to OUTPUT; the browser is killed after HALF of them, so it had no chance to put
// anything away. The second file is played with the option `conversation`. Then the page, as its user sees it, and the kit.

import { createServer } from 'node:http';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, normalize } from 'node:path';
import { Chromium } from './chromium.mjs';

const [site, conformance, lines, half, output, moreLines, moreOutput] = process.argv.slice(2);
const TYPES = { html: 'text/html', mjs: 'text/javascript', js: 'text/javascript', json: 'application/json', wasm: 'application/wasm' };

function check(condition, ...told) {
  if (!condition) throw new Error(told.join(' '));
}

/// Serves the folders, and an empty page as `/empty`.
const server = createServer(({ url }, reply) => {
  const path = normalize(new URL(url, 'http://localhost').pathname);
  const file = path.startsWith('/conformance/') ? join(conformance, path.slice('/conformance'.length)) : join(site, path);
  try {
    const body = path === '/empty' ? '<!doctype html><title>Empty</title>' : readFileSync(file.endsWith('/') ? `${file}index.html` : file);
    const type = path === '/empty' || path.endsWith('/') ? 'text/html' : TYPES[path.split('.').at(-1)];
    reply.writeHead(200, { 'content-type': type ?? 'application/octet-stream' }).end(body);
  } catch {
    reply.writeHead(404).end();
  }
});
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const origin = `http://127.0.0.1:${server.address().port}`;
const profile = mkdtempSync(join(tmpdir(), 'keepline-chromium-'));
let browser;

const inPage = (call) => `import('/browser/test/in-page.mjs').then((page) => page.${call})`;
const linesOf = (file) => readFileSync(file, 'utf8').split('\n').filter((line) => line !== '');
const played = async (some, options) => (await browser.open(`${origin}/empty`)).value(inPage(`play(${JSON.stringify(some)}, ${JSON.stringify(options)})`));

/// A process that was killed finishes what it has asked the system for, such as one more file.
async function removeProfile(triesLeft = 100) {
  try {
    rmSync(profile, { recursive: true, force: true });
  } catch (error) {
    if (triesLeft === 0) throw error;
    await new Promise((resolve) => setTimeout(resolve, 50));
    await removeProfile(triesLeft - 1);
  }
}

async function restart() {
  await browser?.kill();
  check(!browser?.complaints.length, browser?.complaints);
  browser = new Chromium(profile);
}

async function pipes() {
  const all = linesOf(lines);
  const first = await played(all.slice(0, Number(half)), '{}');
  await restart();
  writeFileSync(output, [...first, ...(await played(all.slice(Number(half)), '{}'))].map((line) => `${line}\n`).join(''));
  const more = await played(linesOf(moreLines), '{"conversation":true}');
  writeFileSync(moreOutput, more.map((line) => `${line}\n`).join(''));
}

const isIdle = '!document.querySelector("#question").disabled';
const texts = (tab) => tab.value('[...document.querySelectorAll("#conversation li")].map((line) => line.textContent)');

async function ask(tab, text) {
  const before = (await texts(tab)).length;
  await tab.value(`document.querySelector('#question').value = ${JSON.stringify(text)}; document.forms[0].requestSubmit()`);
  await tab.until(`${isIdle} && document.querySelectorAll('#conversation li').length === ${before + 2}`);
  check((await tab.value('document.querySelector("#status").textContent')) === '', 'the page complains');
  return (await texts(tab)).at(-1);
}

async function page() {
  const tab = await browser.open(`${origin}/browser/`);
  await tab.until(isIdle);
  check((await ask(tab, 'My name is Ada.')).startsWith('I was sent 1 messages.'), await texts(tab));
  await tab.reload();
  await tab.until(isIdle);
  check((await texts(tab)).length === 2, 'after a reload the page shows', await texts(tab));
  const answer = await ask(tab, 'What is my name?');
  check(answer === 'I was sent 3 messages. You have said: My name is Ada. / What is my name?', answer);
  // Another page waits until this one has gone, and then has all of it.
  const other = await browser.open(`${origin}/browser/`);
  await other.until('document.querySelector("#status").textContent.startsWith("Waiting")');
  check((await ask(tab, 'Still there?')).startsWith('I was sent 5 messages.'), await texts(tab));
  check(!(await other.value(isIdle)), 'two pages have one conversation open');
  await tab.close();
  await other.until(isIdle);
  check((await texts(other)).length === 6, 'another page shows', await texts(other));
  await other.value('document.querySelector("#forget").click()');
  await other.until(`${isIdle} && document.querySelectorAll('#conversation li').length === 0`);
  await other.reload();
  await other.until(isIdle);
  check((await texts(other)).length === 0, 'what was forgotten is there after a reload');
  await other.close();
}

try {
  await restart();
  await pipes();
  await page();
  const tab = await browser.open(`${origin}/empty`);
  check(await tab.value(inPage('keepsByteOrderMark()')), 'metadata lose their byte order mark');
  const files = readdirSync(conformance).filter((name) => name.endsWith('.json')).sort();
  const { passed, skipped, problems } = await tab.value(inPage(`replayKit(${JSON.stringify(files)})`));
  check(problems.length === 0 && passed > 0, problems.join('\n'));
  check(browser.complaints.length === 0, browser.complaints);
  console.log(`conformance (Chromium, IndexedDB): ${passed} passed, ${problems.length} failed, ${skipped} skipped`);
} finally {
  await browser?.kill();
  server.close();
  await removeProfile();
}
