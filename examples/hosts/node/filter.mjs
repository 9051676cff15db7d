// The component in JavaScript: its imports, and an instance that is replaced when it breaks.

import { asProblem } from './store.mjs';

const onStderr = ({ message }) => console.error(`keepline: ${message}`);

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'critical'];

/// Keeps a byte order mark at the beginning of a text, which jco's decoder drops.
class WholeTextDecoder extends TextDecoder {
  constructor(label, options) {
    super(label, { ...options, ignoreBOM: true });
  }
}

/// `folder` is the URL of what jco made of the component, with a slash at its end; `read` gets the bytes of a file by its URL.
export async function load(folder, read) {
  const main = new URL('keepline.js', folder);
  const { instantiate } = await import(main);
  // Compiled beforehand, since instances are made synchronously.
  const names = new Set(new TextDecoder().decode(await read(main)).match(/keepline\.core\d*\.wasm/g));
  const compile = async (name) => [name, await WebAssembly.compile(await read(new URL(name, folder)))];
  const modules = new Map(await Promise.all([...names].map(compile)));
  const core = (name) => modules.get(name);
  return (imports) => {
    // jco's code prepares for suspending calls and, where Node is too old for them, spends 40 ms on an exception. With
    // synchronous imports nothing is ever suspended, so that a stand-in does. It goes again, for others look for it.
    const isMissing = WebAssembly.promising === undefined;
    if (isMissing) WebAssembly.promising = (call) => call;
    const { TextDecoder } = globalThis;
    globalThis.TextDecoder = WholeTextDecoder;
    try {
      return instantiate(core, imports);
    } finally {
      if (isMissing) delete WebAssembly.promising;
      globalThis.TextDecoder = TextDecoder;
    }
  };
}

/// An exception that leaves an import kills the instance, so none does. jco makes the error of a `result` from what is
/// thrown with a `payload`.
const result = (call) => (...given) => {
  try {
    return call(...given);
  } catch (error) {
    throw { payload: asProblem(error) };
  }
};

/// Stands for an interface of the store that this one lacks. The component calls none without its capability.
const lacking = () => {
  throw new Error('the store lacks this interface');
};

export class Filter {
  /// `instantiate` is what `load` returns. Throws if the component or its options are of no use. `report({code, message})`
  /// is told when an instance had to be replaced.
  constructor(instantiate, store, options, { logFrom = 'warn', report = onStderr } = {}) {
    this.report = report;
    const lowest = LEVELS.indexOf(logFrom);
    const clock = () => {
      const now = Date.now();
      return { seconds: BigInt(Math.floor(now / 1000)), nanoseconds: (now % 1000) * 1_000_000 };
    };
    const imports = {
      'keepline:store/core': {
        about: () => store.about(),
        transact: result((transaction) => store.transact(transaction)),
        transactEach: (transactions) => store.transactEach(transactions),
        deleteEach: (requests) => store.deleteEach(requests),
      },
      'keepline:store/leases': { transactEach: (requests) => store.transactEachLeased(requests) },
      'keepline:store/indexes': { transactEach: lacking },
      'keepline:store/listing': { listBuckets: result((kind, cursor, limit) => store.listBuckets(kind, cursor, limit)) },
      'wasi:clocks/wall-clock': { now: clock, resolution: () => ({ seconds: 0n, nanoseconds: 1_000_000 }) },
      'keepline:host/log': {
        write: (level, context, message) => {
          if (LEVELS.indexOf(level) >= lowest) console.error(`${level} ${context}: ${message}`);
        },
      },
    };
    this.start = () => {
      const instance = instantiate(imports);
      const { wants, options: inForce, warnings } = this.lanes(instance).configure(options, logFrom);
      this.wantsTurns = wants.includes('turns');
      // Entries that don't say so are about nodes' transcripts.
      this.isByNode = inForce.some(({ name, value }) => name === 'memory_mode' && value === '"node"');
      this.warnings = warnings;
      return instance;
    };
    this.instance = this.start();
    // What the store can't promise and the options rely on. A later instance says the same.
    this.warnings.forEach(report);
  }

  /// The interfaces of an instance.
  lanes(instance) {
    return instance.lanes;
  }
  tasks(instance) {
    return instance.tasks;
  }

  /// Whatever an instance throws from here on is a trap: it is dead, and what it was working on goes on without memory.
  #call(work) {
    try {
      this.instance ??= this.start();
      return work(this.instance);
    } catch (error) {
      this.instance = undefined;
      this.report({ code: 'instance', message: `the instance was replaced: ${error.message ?? error}` });
      return undefined;
    }
  }

  /// Undefined: to be sent on as it came.
  question(text, metadata) {
    return this.#call((instance) => this.lanes(instance).question({ text, metadata }));
  }

  /// Each answer and step of a turn takes its question along; the filter stores it once.
  answer(text, metadata, turn, status = 'complete') {
    const question = { text: this.wantsTurns ? turn.text : '' };
    const entry = { text, metadata, turn: turn.state, question, tools: turn.tools, status };
    return this.#call((instance) => this.lanes(instance).answer(entry));
  }

  advance(job) {
    return this.#call((instance) => this.tasks(instance).advance(job));
  }

  /// A call of an operator's: {ok} or {err}. What it throws with a `payload` is the error of its `result`, and no trap.
  administer(part, name, parameters) {
    return this.#call((instance) => {
      try {
        return { ok: instance[part][name](...parameters) };
      } catch (error) {
        if (error.payload === undefined) throw error;
        return { err: error.payload };
      }
    });
  }
}
