/**
 * What a browser keeps of a rating until the relay has it: the draft, and from the press on Send its UUID and payload.
 *
 * Each is kept under the owner key of who wrote it, so that it is never shown or sent under another sign-in.
 */
const DRAFT_DAYS = 30;

/** Where storage is blocked or full, the page's own memory has to do. */
const memory = new Map();

/** The entry of one task of one owner: `{rating, reasons, text, at}`, and `{id, comment, sendAt}` once it is to go out. */
export class Keep {
  constructor(...names) {
    this.key = `specialist-feedback:${names.map(encodeURIComponent).join(":")}`;
  }

  read() {
    let text = memory.get(this.key);
    try {
      text ??= localStorage.getItem(this.key);
    } catch {
      // Blocked: memory had all there is.
    }
    const entry = JSON.parse(text ?? null);
    return entry?.id || Date.now() - entry?.at < DRAFT_DAYS * 864e5 ? entry : null;
  }

  /** Keep this entry; null: keep nothing. */
  write(entry) {
    const text = JSON.stringify(entry);
    memory.delete(this.key);
    try {
      if (entry) localStorage.setItem(this.key, text);
      else localStorage.removeItem(this.key);
    } catch {
      memory.set(this.key, text);
    }
  }

  /** Run `work` while no other tab works on the same entry. */
  alone(work) {
    return navigator.locks.request(this.key, work);
  }
}
