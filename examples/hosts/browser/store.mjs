// The store of the host in JavaScript, kept in IndexedDB.
//
// Imports of the component are synchronous and IndexedDB is not, so the buckets are in memory, and `save` writes those that
// have changed: await it before telling anybody that an entry was stored. What one `save` writes is one transaction of the
// database: after a crash all of it is there, or nothing.

import { Life, MemoryStore } from '../node/store.mjs';

const BUCKETS = 'buckets';
const READS = ['get', 'get-all', 'read', 'read-at', 'describe'];

/// For how long whoever asks for a bucket can be told that it has expired. One that nobody asks for is removed then.
const EXPIRED_MILLISECONDS = 86_400_000;

const resultOf = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

const completed = (transaction) => new Promise((resolve, reject) => {
  transaction.oncomplete = () => resolve();
  transaction.onabort = () => reject(transaction.error);
});

/// Waits until no other page has a database of this name open: its buckets in memory would not be those of this page. The
/// browser takes the lock from a page that ends. Returns what gives it back.
const lock = (name) => new Promise((locked, failed) => {
  navigator.locks.request(`keepline:${name}`, () => new Promise((release) => locked(release))).catch(failed);
});

export class IndexedDbStore extends MemoryStore {
  #database;
  #release;
  #changed = new Set();

  /// `name` is that of the database. Waits for as long as another page has it open.
  static async open(name, clock) {
    const store = new IndexedDbStore(clock);
    store.#release = await lock(name);
    try {
      const opening = indexedDB.open(name, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore(BUCKETS);
      store.#database = await resultOf(opening);
      await store.#load();
    } catch (error) {
      store.close();
      throw error;
    }
    return store;
  }

  async #load() {
    const buckets = this.#database.transaction(BUCKETS).objectStore(BUCKETS);
    const [places, lives] = await Promise.all([resultOf(buckets.getAllKeys()), resultOf(buckets.getAll())]);
    const longAgo = this.clock() - EXPIRED_MILLISECONDS;
    for (const [at, place] of places.entries()) {
      if (lives[at].expiresAt <= longAgo) this.#changed.add(place);
      else this.lives.set(place, Object.assign(Object.create(Life.prototype), lives[at]));
    }
  }

  /// Does what may change a bucket, and notes whether it did.
  #noting({ kind, name }, isWriting, work) {
    const place = `${kind}/${name}`;
    const before = this.lives.get(place);
    const expiresAt = before?.expiresAt;
    try {
      return work();
    } finally {
      const after = this.lives.get(place);
      if (after !== before || after?.expiresAt !== expiresAt || isWriting) this.#changed.add(place);
    }
  }

  transactLeased(request) {
    const { bucket, operations } = request.transaction;
    const isWriting = request.lease !== undefined || operations.some(({ tag }) => !READS.includes(tag));
    return this.#noting(bucket, isWriting, () => super.transactLeased(request));
  }

  deleteOne(request) {
    return this.#noting(request.bucket, true, () => super.deleteOne(request));
  }

  /// Returns once all that has changed up to now is on disk. Throws if it can't be written, for example if there is no room:
  /// the next call tries again.
  async save() {
    const places = [...this.#changed];
    if (places.length === 0) return;
    const transaction = this.#database.transaction(BUCKETS, 'readwrite', { durability: 'strict' });
    this.#changed.clear();
    try {
      const buckets = transaction.objectStore(BUCKETS);
      for (const place of places) {
        const life = this.lives.get(place);
        if (life) buckets.put({ ...life }, place);
        else buckets.delete(place);
      }
      await completed(transaction);
    } catch (error) {
      places.forEach((place) => this.#changed.add(place));
      throw error;
    }
  }

  /// Lets another page open it. What was not saved is lost.
  close() {
    this.#database?.close();
    this.#release();
  }
}
