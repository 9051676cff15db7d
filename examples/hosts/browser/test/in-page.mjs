// What the test has the browser do in an empty page.

import { Conversations } from '../../node/conversations.mjs';
import { Filter, load } from '../../node/filter.mjs';
import { passed } from '../../node/lines.mjs';
import { attempts } from '../../node/store.mjs';
import { spelled } from '../../node/kits/kit.mjs';
import { fittingCases, replay } from '../../node/kits/replay.mjs';
import { fetched } from '../fetched.mjs';
import { IndexedDbStore } from '../store.mjs';

const component = () => load(new URL('../../node/out/', import.meta.url), fetched);

/// Passes the lines of a pipe, each saved before the next.
export async function play(lines, options) {
  const store = await IndexedDbStore.open('lines');
  const conversations = new Conversations(new Filter(await component(), store, options));
  const written = [];
  for (const line of lines) {
    written.push(passed(conversations, line));
    await conversations.work();
    await store.save();
  }
  store.close();
  return written;
}

/// Whether a byte order mark before metadata comes out again.
export async function keepsByteOrderMark() {
  const store = await IndexedDbStore.open('mark');
  const conversations = new Conversations(new Filter(await component(), store, '{}'));
  const metadata = '\ufeff{"session_id":"s"}';
  conversations.question('Hello', metadata);
  conversations.answer('Hi', metadata);
  const attached = conversations.question('Hello again', metadata);
  store.close();
  return attached.startsWith('\ufeff{"session_id":"s",');
}

/// Is closed and opened again around each call: all that it knows it has read.
class Reopened {
  static #number = 0;
  #name = `kit-${(Reopened.#number += 1)}`;
  #last = Promise.resolve();

  constructor(clock) {
    this.clock = clock;
  }
  /// One after the other, as pages wait for each other.
  #call(work) {
    this.#last = this.#last.catch(() => {}).then(async () => {
      const store = await IndexedDbStore.open(this.#name, this.clock);
      try {
        return await work(store);
      } finally {
        await store.save();
        store.close();
      }
    });
    return this.#last;
  }
  about() {
    return this.#call((store) => store.about());
  }
  transact(transaction) {
    return this.#call((store) => store.transact(transaction));
  }
  transactEach(transactions) {
    return this.#call((store) => store.transactEach(transactions));
  }
  transactEachLeased(requests) {
    return this.#call((store) => store.transactEachLeased(requests));
  }
  deleteEach(requests) {
    return this.#call((store) => store.deleteEach(requests));
  }
  listBuckets(kind, cursor, limit) {
    return this.#call((store) => store.listBuckets(kind, cursor, limit));
  }
  async remove() {
    await this.#last.catch(() => {});
    indexedDB.deleteDatabase(this.#name);
  }
}

/// Replays the store kit: what does not hold, and how many cases do.
export async function replayKit(files) {
  const about = spelled(await new Reopened(Date.now).about());
  const counts = { passed: 0, skipped: 0, problems: [] };
  for (const file of files) {
    const { cases, skipped } = fittingCases(await (await fetch(`/conformance/${file}`)).json().then(({ cases }) => cases), about);
    counts.skipped += skipped;
    for (const { name, steps } of cases) {
      const opened = [];
      const make = (clock) => {
        opened.push(new Reopened(clock));
        return opened.at(-1);
      };
      const problem = await replay(steps, make);
      if (problem) counts.problems.push(`${file}: ${name}: ${problem}`);
      else counts.passed += 1;
      for (const store of opened) await store.remove();
    }
  }
  return counts;
}
