/**
 * What the elements of one page share for one relay: its tokens, one stream of changes, and polling behind it.
 */
import { Relay } from "./relay.js";
import { follow } from "./stream.js";

const pages = new Map();

/** Members have `received(submission)`, `refresh()`, `unsettled(live)` and `wake()`. */
export class Page {
  #members = new Set();
  #leaving;
  #last = "";
  #live = false;
  #watch;

  static of(url) {
    if (!pages.has(url)) pages.set(url, new Page(url));
    return pages.get(url);
  }

  constructor(url) {
    this.relay = new Relay(url);
    this.relay.addEventListener("owner", ({ detail: before }) => {
      this.#last = "";
      this.#watch?.abort();
      if (before) this.#each((member) => member.refresh());
    });
  }

  #each(tell) {
    for (const member of [...this.#members]) tell(member);
  }

  join(member, every) {
    this.#members.add(member);
    if (this.#leaving) return;
    const { signal } = (this.#leaving = new AbortController());
    const seen = (tell) => document.hidden || this.#each(tell);
    const wake = () => {
      this.#watch?.abort();
      seen((one) => one.wake());
    };
    addEventListener("online", wake, { signal });
    document.addEventListener("visibilitychange", wake, { signal });
    const timer = setInterval(() => seen((one) => one.unsettled(this.#live) && one.refresh()), every);
    signal.addEventListener("abort", () => clearInterval(timer));
    this.#follow(signal, every);
  }

  leave(member) {
    this.#members.delete(member);
    if (this.#members.size) return;
    this.#leaving?.abort();
    this.#watch?.abort();
    this.#leaving = undefined;
  }

  /** Keep a stream open while the page is seen: a hidden one leaves the browser's few connections to others. */
  async #follow(signal, every) {
    while (!signal.aborted) {
      const watch = (this.#watch = new AbortController());
      const open = !document.hidden && this.relay.owner;
      if (open) {
        await follow(this.relay, this.#last, watch.signal, (event) => this.#tell(event)).catch((trouble) => {
          // The position is too old or another owner's: what was missed is read instead.
          if (trouble.status === 400) this.#resync();
        });
      }
      this.#live = false;
      if (signal.aborted || (watch.signal.aborted && !document.hidden)) continue;
      const { signal: interrupted } = (this.#watch = new AbortController());
      await new Promise((resume) => {
        if (open) setTimeout(resume, every);
        interrupted.addEventListener("abort", resume);
      });
    }
  }

  #tell({ id, event, data }) {
    if (id) this.#last = id;
    this.#live = true;
    if (event === "feedback") {
      const submission = JSON.parse(data);
      this.#each((member) => member.received(submission));
    } else if (event) this.#resync();
  }

  #resync() {
    this.#last = "";
    this.#each((member) => member.refresh());
  }
}
