// A Chromium without a window, told what to do over a pair of pipes (the DevTools protocol).

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';

const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'];
/// Only guards against hanging. In milliseconds.
const PATIENCE = 300_000;

export const program = () => PROGRAMS.find((name) => spawnSync('which', [name]).status === 0);

export class Chromium {
  #calls = new Map();
  #number = 0;
  #rest = [];
  /// What went wrong in its pages.
  complaints = [];

  constructor(profile) {
    const flags = ['--headless=new', '--remote-debugging-pipe', '--no-sandbox', '--disable-gpu', '--no-first-run',
      '--disable-extensions', '--disable-background-networking', '--disable-component-update', '--disable-dev-shm-usage'];
    const stdio = ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'];
    // A group of its own, since it has processes that write to the profile, too, and outlive it.
    this.child = spawn(program(), [...flags, `--user-data-dir=${profile}`], { stdio, detached: true });
    this.ended = once(this.child, 'exit');
    const [, , , commands, replies] = this.child.stdio;
    this.commands = commands;
    commands.on('error', () => {});
    replies.on('data', (bytes) => this.#take(bytes));
  }

  /// Messages are JSON, each with a zero byte behind it.
  #take(bytes) {
    for (let end = bytes.indexOf(0); end >= 0; end = bytes.indexOf(0)) {
      this.#message(JSON.parse(Buffer.concat([...this.#rest.splice(0), bytes.subarray(0, end)]).toString()));
      bytes = bytes.subarray(end + 1);
    }
    this.#rest.push(bytes);
  }

  #message({ id, method, params, result, error }) {
    if (id !== undefined) {
      const { resolve, reject } = this.#calls.get(id);
      this.#calls.delete(id);
      if (error) reject(new Error(error.message));
      else resolve(result);
    } else if (method === 'Runtime.exceptionThrown') {
      this.complaints.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    }
  }

  call(sessionId, method, params = {}) {
    const id = (this.#number += 1);
    this.commands.write(`${JSON.stringify({ id, sessionId, method, params })}\0`);
    return new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject }));
  }

  async open(url) {
    const { targetId } = await this.call(undefined, 'Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.call(undefined, 'Target.attachToTarget', { targetId, flatten: true });
    const tab = new Tab(this, targetId, sessionId);
    await tab.call('Runtime.enable');
    await tab.load('Page.navigate', { url });
    return tab;
  }

  async kill() {
    try {
      process.kill(-this.child.pid, 'SIGKILL');
    } catch (error) {
      // All of them have ended.
      if (error.code !== 'ESRCH') throw error;
    }
    await this.ended;
  }
}

class Tab {
  constructor(browser, targetId, sessionId) {
    Object.assign(this, { browser, targetId, sessionId });
  }

  call(method, params) {
    return this.browser.call(this.sessionId, method, params);
  }

  /// Loads a page. The mark on the one before tells when it has gone.
  async load(method, params) {
    await this.value('void (window.isBefore = true)');
    await this.call(method, params);
    await this.until('!window.isBefore && document.readyState === "complete"');
  }
  reload() {
    return this.load('Page.reload');
  }
  close() {
    return this.browser.call(undefined, 'Target.closeTarget', { targetId: this.targetId });
  }

  /// What an expression, or the promise that it is, comes to.
  async value(expression) {
    const asked = { expression, returnByValue: true, awaitPromise: true };
    const { result, exceptionDetails } = await this.call('Runtime.evaluate', asked);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /// Waits until an expression holds. While a page is being loaded there is none to ask.
  async until(expression) {
    const end = Date.now() + PATIENCE;
    while (!(await this.value(`Boolean(${expression})`).catch(() => false))) {
      if (Date.now() > end) throw new Error(`it never came to ${expression}: ${await this.value('document.body.innerText')}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
