/**
 * `<specialist-feedback relay="https://…" answer="a7">`: the ratings of one answer, in a page of any origin that the
 * relay is configured for. Nothing that goes wrong in here reaches the page: it is said in place of the thumbs and, for
 * whoever builds the page, on the console.
 */
import { isReason } from "./comment.js";
import { Page } from "./page.js";
import { Rating } from "./rating.js";
import { waitAfter } from "./relay.js";
import { STYLE } from "./style.js";
import { Words } from "./texts.js";
import { View, button, make, put } from "./view.js";

/** How long a page may take to set `getToken`, in milliseconds. */
const PATIENCE = 3000;
const PROPERTIES = ["getToken", "texts", "reasons"];

const ADVICE = {
  page: "serve the page over https",
  relay: "set the attribute relay to the https address of the relay",
  answer: "set the attribute answer to an id recorded in provenance",
  getToken: "set the property getToken to a function that resolves to a token",
  signed_out: "getToken has to resolve to a valid access token",
  insufficient_scope: "tokens need the scopes feedback:read and feedback:write",
  answer_not_found: "no task of this sign-in is recorded for this answer",
};

const keyOf = ({ agent, taskId }) => JSON.stringify([agent, taskId]);

let sheet;

export class SpecialistFeedback extends HTMLElement {
  static observedAttributes = ["relay", "answer", "conversation", "lang", "reasons"];

  static {
    for (const name of PROPERTIES) {
      Object.defineProperty(this.prototype, name, {
        get() {
          return this.#own[name];
        },
        set(value) {
          this.#own[name] = value;
          this.#plan();
        },
      });
    }
  }

  #own = {};
  #page;
  #targets;
  #asked;
  #planned = false;
  #tries = 0;
  #timer;
  /** Ratings by task, with their views and the states that the page has been told of. */
  #ratings = new Map();
  #body = make("div", { part: "body" });
  #said = make("div", { class: "said", role: "status" });

  constructor() {
    super();
    if (!sheet) {
      sheet = new CSSStyleSheet();
      sheet.replaceSync(STYLE);
    }
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [sheet];
    root.append(this.#body, this.#said);
  }

  connectedCallback() {
    // What was set before this module had been loaded hides the accessors.
    for (const name of PROPERTIES.filter((one) => Object.hasOwn(this, one))) {
      const value = this[name];
      delete this[name];
      this[name] = value;
    }
    this.#plan();
  }

  disconnectedCallback() {
    this.#stop();
  }

  attributeChangedCallback() {
    this.#plan();
  }

  /** Ask the relay again: a page that knows that a task has finished need not wait for the next poll. */
  refresh = () => this.#load(true);

  // What is asked of the members of a page.

  received(submission) {
    this.#ratings.get(keyOf(submission))?.rating.received(submission);
  }

  unsettled(live) {
    const moves = ({ rating: { state, target } }) =>
      target.reason === "task_not_finished" || (!live && ["waiting", "sending"].includes(state));
    return [...this.#ratings.values()].some(moves);
  }

  wake() {
    if (!this.#targets) this.refresh();
    for (const { rating } of this.#ratings.values()) rating.wake();
  }

  // Starting. A framework sets attributes and properties one by one: they count together.

  #plan() {
    if (this.#planned) return;
    this.#planned = true;
    queueMicrotask(() => {
      this.#planned = false;
      if (this.isConnected) this.#start();
    });
  }

  #start() {
    const [relay, answer, conversation] = SpecialistFeedback.observedAttributes.map((name) => this.getAttribute(name));
    const { getToken } = this;
    const url = addressOf(relay);
    const asked = JSON.stringify([url, answer, conversation, typeof getToken]);
    if (asked === this.#asked) {
      if (this.#page) this.#page.relay.getToken = getToken;
      return this.#show();
    }
    this.#stop();
    this.#asked = asked;
    const missing = isSecureContext ? (url ? !answer && "answer" : "relay") : "page";
    if (missing) return this.#fail("setup", missing);
    if (typeof getToken !== "function") {
      this.#timer = setTimeout(() => this.#fail("setup", "getToken"), PATIENCE);
      return;
    }
    this.#page = Page.of(url);
    this.#page.relay.getToken = getToken;
    this.#page.join(this, this.#milliseconds("poll-seconds", 10));
    this.#load(false);
  }

  #stop() {
    clearTimeout(this.#timer);
    this.#page?.leave(this);
    this.#page = this.#asked = undefined;
    this.#clear();
  }

  #clear() {
    for (const { rating } of this.#ratings.values()) rating.end();
    this.#ratings.clear();
    this.#targets = undefined;
    this.#body.replaceChildren();
  }

  #milliseconds(name, seconds) {
    const value = parseFloat(this.getAttribute(name));
    return (value >= 0 ? value : seconds) * 1000;
  }

  async #load(fresh) {
    const asked = this.#asked;
    if (!this.#page) return;
    clearTimeout(this.#timer);
    try {
      const found = await this.#page.relay.targets(this.getAttribute("answer"), this.getAttribute("conversation"), fresh);
      if (asked === this.#asked) this.#take(structuredClone(found));
    } catch (trouble) {
      if (asked === this.#asked) this.#later(trouble);
    }
  }

  #take(found) {
    this.#tries = 0;
    const shape = ({ ownerKey, targets } = { targets: [] }) => [ownerKey, ...targets.map(keyOf)].join();
    if (shape(this.#targets) !== shape(found)) this.#clear();
    const first = !this.#targets;
    this.#targets = found;
    if (first) this.#build(found);
    for (const target of found.targets) this.#ratings.get(keyOf(target)).rating.update(target);
  }

  #build({ answerId: answer, ownerKey: owner, targets }) {
    const undo = this.#milliseconds("undo-seconds", 5);
    const changed = (rating) => this.#changed(rating);
    const host = { page: this.#page, answer, owner, undo, changed, reload: this.refresh };
    this.#body.append(make("p", { part: "several" }));
    for (const target of targets) {
      const rating = new Rating(host, target);
      const view = new View(rating, this);
      this.#ratings.set(keyOf(target), { rating, view });
      this.#body.append(view.root);
    }
    this.#show();
  }

  /** What cannot be had now is asked for again. What is shown stays, unless it may be somebody else's. */
  #later(trouble) {
    this.#timer = setTimeout(this.refresh, waitAfter(this.#tries++, trouble));
    const same = this.#targets && this.#targets.ownerKey === this.#page.relay.owner?.key;
    if (!same || trouble.code === "answer_not_found") this.#fail(trouble.code, trouble.code, trouble);
  }

  #fail(code, advice, trouble) {
    this.#clear();
    const { words } = this;
    const text = make("span", {}, words.say(code) || words.say("unreachable"));
    const retry = button("retry", this.refresh);
    put(retry, code !== "setup" && words.say("retry"));
    this.#body.append(make("div", { class: "row", part: "message" }, text, retry));
    this.#show();
    const hint = ADVICE[advice] ?? `${trouble}: does ${this.getAttribute("relay")} run, with ${location.origin} in server.cors_origins?`;
    console.warn(`specialist-feedback: ${hint}`, this);
    this.#tell({ state: "failed", code });
  }

  // Showing.

  #show() {
    const { words } = this;
    this.#body.lang = words.tag;
    this.#body.dir = words.direction;
    if (!this.#targets) return;
    put(this.#body.firstChild, this.several && words.say("several"));
    for (const { rating } of this.#ratings.values()) this.#changed(rating);
  }

  #changed(rating) {
    const shown = this.#ratings.get(keyOf(rating.target));
    if (shown?.rating !== rating) return;
    shown.view.show();
    const { state, submission, entry, target: { agent, taskId } } = rating;
    if (shown.state === state) return;
    shown.state = state;
    this.#tell({ state, agent, taskId, rating: rating.rating, id: submission?.id ?? entry?.id ?? null });
  }

  #tell(detail) {
    detail.answer = this.getAttribute("answer");
    this.dispatchEvent(new CustomEvent("feedback-state", { bubbles: true, composed: true, detail }));
  }

  // What views ask.

  get words() {
    const { lang } = this.closest("[lang]:not([lang=''])") ?? document.documentElement;
    return new Words(lang || navigator.language, this.texts);
  }

  get several() {
    return this.#targets.targets.length > 1;
  }

  get kept() {
    const days = this.#targets.retentionDays;
    return days === undefined ? "" : this.words.say(days === null ? "always" : "days", { n: days });
  }

  /** Two of the same name are told apart by their tasks. */
  nameOf({ agentName, taskId }) {
    const twice = this.#targets.targets.filter((one) => one.agentName === agentName)[1];
    return twice ? `${agentName} · ${taskId}` : agentName;
  }

  /** The ids that can stand in front of a comment: of the property, or of the attribute. */
  get offered() {
    const written = this.reasons ?? this.getAttribute("reasons")?.split(" ") ?? [];
    return Array.from(written, (one) => one?.id ?? one).filter(isReason);
  }

  labelOf = (id) => {
    const own = Array.from(this.reasons ?? []).find((one) => one?.id === id);
    return own?.label ?? (this.words.say(`reason.${id}`) || id);
  };

  announce(text) {
    this.#said.textContent = text;
  }
}

/** Without a slash at the end; "" for anything but https, or http on this machine. */
function addressOf(written) {
  const url = URL.canParse(written) ? new URL(written).href.replace(/\/$/, "") : "";
  return /^(https:|http:\/\/(localhost|127\.0\.0\.1|\[::1\])\b)/.test(url) ? url : "";
}

customElements.get("specialist-feedback") ?? customElements.define("specialist-feedback", SpecialistFeedback);
