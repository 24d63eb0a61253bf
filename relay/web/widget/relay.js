/**
 * The relay as this page talks to it: tokens, problems, and which sign-in a token belongs to.
 */

const TIMEOUT = 20_000;

/** Why something did not work: `code` is the relay's, or `unreachable`, `signed_out`, `other_sign_in`. */
export class Trouble extends Error {
  constructor(code, status = 0, problem, retryAfter) {
    super(code);
    Object.assign(this, { code, status, problem, retryAfter });
  }

  static async of(response) {
    const problem = await response.json().catch(() => ({}));
    const { status, headers } = response;
    return new Trouble(problem.code ?? `${status}`, status, problem, headers.get("Retry-After") * 1000 || 0);
  }

  /** Whether the same request may succeed later by itself. */
  get passes() {
    return !this.status || this.status >= 500 || this.status === 401 || this.status === 408 || this.status === 429;
  }
}

/** How long to wait before the next try, in milliseconds: longer after each, and as long as the relay asked for. */
export function waitAfter(tries, { retryAfter = 0 }) {
  const seconds = [2, 5, 15, 30, 60][Math.min(tries, 4)] * (0.8 + Math.random() * 0.4);
  return Math.max(seconds * 1000, retryAfter);
}

/** One relay. `getToken` is the page's; the sign-in that it last gave tokens of is `owner`. */
export class Relay extends EventTarget {
  getToken;
  owner = null;
  #pages = new Map();
  #loading = new Map();

  constructor(url) {
    super();
    this.url = url;
  }

  async #token(fresh) {
    let token;
    try {
      token = await this.getToken({ fresh });
    } catch (error) {
      console.warn("specialist-feedback: getToken failed.", error);
    }
    if (!token || typeof token !== "string") throw new Trouble("signed_out");
    return token;
  }

  async #fetch(path, token, { headers, ...init } = {}) {
    const sent = { ...headers, Authorization: `Bearer ${token}` };
    const signal = init.signal ?? AbortSignal.timeout(TIMEOUT);
    try {
      return await fetch(this.url + path, {
        cache: "no-store", credentials: "omit", redirect: "error", ...init, headers: sent, signal,
      });
    } catch {
      throw new Trouble("unreachable");
    }
  }

  /**
   * Ask with a token of the page; once more with a fresh one if it has expired. `init.check` says whether a token is
   * usable, before anything is sent with it.
   */
  async ask(path, { check, ...init } = {}) {
    for (let fresh = false; ; fresh = true) {
      const token = await this.#token(fresh);
      const usable = !check || (await check(token));
      const response = usable && (await this.#fetch(path, token, init));
      if (response?.ok) return { response, token };
      if (response && response.status !== 401) throw await Trouble.of(response);
      if (fresh) throw new Trouble("signed_out", 401);
    }
  }

  async json(path, init) {
    const { response, token } = await this.ask(path, init);
    const value = await response.json().catch(() => {
      throw new Trouble("unreachable");
    });
    return { value, token };
  }

  /** Post what belongs to `owner`, never with a token of anybody else: one not seen before has to show whose it is. */
  async post(path, body, owner, answer) {
    const check = async (token) => {
      if (this.owner?.token !== token) await this.#identify(token, answer);
      if (this.owner?.key !== owner) throw new Trouble("other_sign_in");
      return this.owner.token === token;
    };
    const init = body && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
    return (await this.json(path, { method: "POST", check, ...init })).value;
  }

  async #identify(token, answer) {
    const response = await this.#fetch(`/api/answers/${encodeURIComponent(answer)}/targets`, token);
    if (response.status === 404) this.#know(token, null);
    else if (response.ok) this.#know(token, (await response.json()).ownerKey);
    else if (response.status !== 401) throw await Trouble.of(response);
  }

  #know(token, key) {
    const before = this.owner;
    this.owner = { token, key };
    if (before?.key === key) return;
    this.#pages.clear();
    this.dispatchEvent(new CustomEvent("owner", { detail: before }));
  }

  /** The targets of an answer. With its conversation, all answers of that one share a call. */
  async targets(answer, conversation, fresh) {
    if (!conversation) {
      const { value, token } = await this.json(`/api/answers/${encodeURIComponent(answer)}/targets`);
      this.#know(token, value.ownerKey);
      return value;
    }
    const known = !fresh && this.#pages.get(conversation)?.get(answer);
    const found = known || (await this.#conversation(conversation)).get(answer);
    if (!found) throw new Trouble("answer_not_found", 404);
    return found;
  }

  #conversation(id) {
    if (!this.#loading.has(id)) {
      this.#loading.set(id, this.#pagesOf(id).finally(() => this.#loading.delete(id)));
    }
    return this.#loading.get(id);
  }

  async #pagesOf(id) {
    const answers = new Map();
    let key, used, cursor = "";
    do {
      const path = `/api/conversations/${encodeURIComponent(id)}/targets?limit=100${cursor}`;
      const { value, token } = await this.json(path);
      for (const one of value.items) answers.set(one.answerId, one);
      [key, used] = [value.items[0]?.ownerKey ?? key, token];
      cursor = value.next && `&cursor=${encodeURIComponent(value.next)}`;
    } while (cursor);
    this.#know(used, key);
    this.#pages.set(id, answers);
    return answers;
  }
}
