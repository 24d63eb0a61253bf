/**
 * The rating of one task, from the first press to the specialist's answer. Knows nothing of how it looks.
 *
 * What the relay says of a rating goes before everything that the browser keeps.
 */
import { composed } from "./comment.js";
import { Keep } from "./keep.js";
import { waitAfter } from "./relay.js";

/** How a stored submission stands, in the widget's words. */
const STORED = { saved: "saved", sending: "sending", pending: "waiting", held: "waiting", needs_owner: "waiting" };

/**
 * `target` is the relay's, `entry` what the browser keeps, `trouble` why the last try did not reach the relay, `nextTry`
 * when it is tried again (milliseconds), and `elsewhere` that another rating was first. `host` has `page`, `answer`,
 * `owner`, `undo` (milliseconds), `changed(rating)` and `reload()`.
 */
export class Rating {
  trouble = null;
  nextTry = 0;
  elsewhere = false;
  open = false;
  #busy = false;
  #tries = 0;
  #timer;
  #ended = new AbortController();

  constructor(host, target) {
    this.host = host;
    this.target = target;
    this.keep = new Keep(host.page.relay.url, host.owner, target.agent, target.taskId);
    this.entry = this.keep.read();
    const heard = ({ key }) => key === this.keep.key && this.#sync();
    addEventListener("storage", heard, { signal: this.#ended.signal });
  }

  end() {
    this.#ended.abort();
    clearTimeout(this.#timer);
  }

  get submission() {
    return this.target.submission;
  }

  /** ready · draft · undo · sending · waiting · saved · refused · unavailable · erased */
  get state() {
    const { submission, entry, target, trouble } = this;
    if (submission?.erasedAt || target.reason === "submission_erased") return "erased";
    if (submission) return STORED[submission.state] ?? "refused";
    if (entry?.id) {
      if (this.#busy) return "sending";
      if (trouble) return trouble.passes ? "waiting" : "refused";
      return entry.sendAt > Date.now() ? "undo" : "sending";
    }
    if (!target.rateable) return "unavailable";
    return this.open ? "draft" : "ready";
  }

  /** up or down, once there is one. */
  get rating() {
    if (this.submission) return this.submission.rating;
    return this.open || this.entry?.id ? this.entry.rating : null;
  }

  get comment() {
    return composed(this.entry?.reasons ?? [], this.entry?.text ?? "");
  }

  /** Whether there is something that another try may change. */
  get retryable() {
    const { submission } = this;
    if (submission) return !["saved", "sending", "conflict", "abandoned"].includes(submission.state);
    return ["waiting", "refused"].includes(this.state);
  }

  /** What the relay says of the task now. */
  update(target) {
    const { submission } = this;
    this.target = target;
    if (target.submission) this.received(target.submission, submission);
    else this.#proceed();
  }

  /** What the relay says of the submission now. */
  received(told, known = this.submission) {
    this.target.submission = newer(known, told);
    const { entry } = this;
    const other = entry?.id && entry.id !== told.id;
    this.elsewhere ||= other;
    this.open = false;
    // A comment that went nowhere stays, for its writer to see.
    if (entry?.text && (other || !entry.id)) this.write({ id: null });
    else this.forget();
    this.#proceed();
  }

  forget() {
    this.entry = null;
    this.keep.write(null);
  }

  write(changes) {
    this.entry = { reasons: [], text: "", ...this.entry, at: Date.now(), ...changes };
    this.keep.write(this.entry);
  }

  /** A press on a thumb. Up again, when it is open already, is all there is to send. */
  choose(rating) {
    if (this.open && rating === "up" && this.rating === "up") return this.send();
    this.open = true;
    this.edit({ rating });
  }

  edit(changes) {
    if (this.state === "draft") this.write(changes);
    this.host.changed(this);
  }

  close() {
    this.open = false;
    this.host.changed(this);
  }

  /** Keep what is to be sent, then let the time to undo pass. */
  async send() {
    const { rating } = this;
    const ready = { id: crypto.randomUUID(), comment: this.comment, sendAt: Date.now() + this.host.undo };
    await this.keep.alone(() => {
      const stands = this.keep.read();
      if (!stands?.id) return this.write(ready);
      this.elsewhere = stands.rating !== rating || stands.comment !== ready.comment;
      this.entry = stands;
    });
    this.trouble = null;
    this.nextTry = 0;
    this.open = false;
    this.#proceed();
  }

  /** Back to the draft: nothing was stored. */
  revise() {
    this.write({ id: null });
    this.open = this.target.rateable;
    this.#proceed();
  }

  /** Another tab has changed what is kept. */
  #sync() {
    const before = this.entry;
    const kept = this.keep.read();
    if (this.submission || (this.open && !kept?.id)) return;
    this.entry = kept;
    this.elsewhere = this.open && kept.rating !== before.rating;
    this.open = false;
    if (before?.id && !kept?.id) this.host.reload();
    this.#proceed();
  }

  /** The page is seen again, or back online. */
  wake() {
    if (this.trouble?.passes && !this.trouble.retryAfter) this.#attempt();
  }

  /** Have the next attempt made when it is due, if there is something to send. */
  #proceed() {
    clearTimeout(this.#timer);
    const due = (this.nextTry || this.entry?.sendAt) - Date.now();
    if (["undo", "sending", "waiting"].includes(this.state) && !this.submission) {
      this.#timer = setTimeout(() => this.#attempt(), Math.max(due, 0));
    }
    this.host.changed(this);
  }

  /** Send it. Another tab may have done so while this one waited for its turn. */
  #attempt() {
    return this.#work(() =>
      this.keep.alone(async () => {
        if (this.#ended.signal.aborted || this.submission) return;
        this.entry = this.keep.read();
        if (!this.entry?.id) return this.host.reload();
        const { id, rating, comment } = this.entry;
        const { taskId, agent } = this.target;
        await this.#post("", { id, taskId, agent, rating, ...(comment && { comment }) });
      }),
    );
  }

  async #post(path, body) {
    const { page, owner, answer } = this.host;
    this.received(await page.relay.post(`/api/feedback${path}`, body, owner, answer));
  }

  async #work(work) {
    if (this.#busy) return;
    this.#busy = true;
    this.trouble = null;
    this.host.changed(this);
    try {
      await work();
      this.#tries = 0;
    } catch (trouble) {
      this.#failed(trouble);
    }
    this.#busy = false;
    this.#proceed();
  }

  #failed(trouble) {
    if (trouble.problem?.existing) return this.received(trouble.problem.existing);
    this.trouble = trouble;
    this.nextTry = Date.now() + waitAfter(this.#tries++, trouble);
  }

  /** The person asks for another try. */
  retry() {
    if (this.submission) return this.#work(() => this.#post(`/${this.submission.id}/retry`)).then(this.host.reload);
    return this.state === "refused" ? this.revise() : this.#attempt();
  }
}

/** Answers and events overtake each other: saved stays saved, and more attempts are later. */
function newer(known, told) {
  if (known?.id !== told.id || told.erasedAt) return told;
  const attempts = (submission) => submission.lastAttempt?.number ?? 0;
  return (known.saved && !told.saved) || attempts(told) < attempts(known) ? known : told;
}
