// What the sections have in common: a search above a list, and one of its items beside it.

import { go } from "./router.js";

export class Section {
  /** `name`: of its address. Who extends it sets `search`, `list` and `view`, and `unsubscribe` where it follows events. */
  constructor(name) {
    this.name = name;
  }

  close() {
    this.unsubscribe?.();
    this.reloadSoon?.cancel();
    this.loading?.abort();
    this.view?.close();
  }

  /** For requests of a reload, which ends the one before. */
  beginReload() {
    this.loading?.abort();
    this.loading = new AbortController();
    return this.loading.signal;
  }

  focusSearch() {
    this.search.focus();
    this.search.select();
  }

  backToList() {
    if (this.list.element.checkVisibility()) this.list.focus();
    else go(this.name);
  }
}
