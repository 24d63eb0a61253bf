/**
 * A rating as people see and operate it. Its elements are made once and then only change, so that focus and what is
 * being typed stay where they are.
 */
import { LIMIT, parted } from "./comment.js";

const ICONS = { undo: "…", sending: "↻", waiting: "…", saved: "✓", refused: "✕", erased: "–", unavailable: "–" };
const THUMB = "M8 21V10l4-8c1.7 0 3 1.3 3 3v4h5a2 2 0 0 1 2 2.3l-1.3 8a2 2 0 0 1-2 1.7zM8 21H3V10h5";

export function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A button. The second press of a double click is none of its own. */
export function button(part, pressed) {
  const made = make("button", { type: "button", part });
  made.onclick = (event) => event.detail > 1 || made.ariaDisabled === "true" || pressed();
  return made;
}

/** Show a text; without one the element is hidden. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text || "";
  element.hidden = !text;
}

function thumb(part, pressed) {
  const made = button(part, pressed);
  const [svg, path] = ["svg", "path"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  svg.setAttribute("viewBox", "0 0 24 24");
  path.setAttribute("d", THUMB);
  svg.append(path);
  made.append(svg);
  return made;
}

/** `host` has `words`, `offered`, `several`, `kept`, `nameOf(target)`, `labelOf(reason)` and `announce(text)`. */
export class View {
  #shown;

  constructor(rating, host) {
    this.rating = rating;
    this.host = host;
    this.up = thumb("up", () => rating.choose("up"));
    this.down = thumb("down", () => rating.choose("down"));
    this.form = this.#form();
    this.icon = make("span", { class: "icon", "aria-hidden": true });
    this.undo = button("undo", () => rating.revise());
    this.retry = button("retry", () => rating.retry());
    this.discard = button("discard", () => {
      rating.forget();
      this.show();
    });
    for (const part of ["note", "sent", "lost", "resolution"]) this[part] = make("p", { part, class: "wide" });
    this.name = make("bdi", { part: "name" });
    this.line = make("span", {});
    this.state = make("div", { class: "row" }, this.icon, this.line, this.undo, this.retry);
    this.root = make("div", { part: "target", role: "group" }, this.name, this.up, this.down, this.form, this.state);
    this.root.append(this.note, this.sent, this.lost, this.discard, this.resolution);
  }

  #form() {
    this.text = make("textarea", { part: "comment" });
    this.text.oninput = () => this.rating.edit({ text: this.text.value });
    this.label = make("span", {});
    this.reasons = make("fieldset", { part: "reasons" });
    this.counter = make("span", { part: "counter" });
    this.readers = make("p", { part: "readers" });
    this.send = make("button", { type: "submit", part: "send" });
    this.close = button("close", () => this.#close());
    // No ids: several forms share one tree.
    this.text.ariaDescribedByElements = [this.counter, this.readers];
    const buttons = make("div", { class: "row" }, this.send, this.close, this.counter);
    const form = make("form", { part: "form" }, this.reasons, make("label", {}, this.label, this.text), this.readers, buttons);
    form.onsubmit = (event) => {
      event.preventDefault();
      if (this.send.ariaDisabled !== "true") this.rating.send();
    };
    form.onkeydown = (event) => {
      if (event.key === "Escape" && !event.isComposing) this.#close();
    };
    return form;
  }

  #close() {
    const { rating } = this.rating;
    this.rating.close();
    this[rating].focus();
  }

  /** Bring everything up to date. */
  show() {
    const { rating, host } = this;
    const { state, target, submission, entry } = rating;
    const say = (name, blanks) => host.words.say(name, { agent: target.agentName, ...blanks });
    const active = this.root.getRootNode().activeElement;
    const open = state === "draft" || state === "ready";
    this.root.ariaLabel = host.nameOf(target);
    put(this.name, host.several && host.nameOf(target));
    for (const which of ["up", "down"]) {
      const thumb = this[which];
      thumb.title = thumb.ariaLabel = say(which);
      thumb.ariaPressed = rating.rating === which;
      thumb.ariaDisabled = !open;
    }
    this.form.hidden = state !== "draft";
    if (state === "draft") this.#showForm(say);
    const line = open ? "" : this.#line(state, say);
    this.state.setAttribute("part", `state ${state}`);
    put(this.icon, ICONS[state]);
    put(this.line, line);
    put(this.undo, state === "undo" && say("undo"));
    put(this.retry, rating.retryable && say("retry"));
    put(this.note, rating.elsewhere && say("elsewhere"));
    const unsent = submission && entry?.text;
    put(this.sent, submission?.comment && this.#readable(submission.comment));
    put(this.lost, unsent && `${say("lost")} ${unsent}`);
    put(this.discard, unsent && say("close"));
    put(this.resolution, submission?.resolution && `${say("resolution")} ${submission.resolution}`);
    // Whoever operated what has just gone finds themselves at what took its place.
    if (active && this.root.contains(active) && !active.checkVisibility()) {
      (state === "undo" ? this.undo : (this[rating.rating] ?? this.up)).focus();
    }
    // Times that move are seen; a new state is said.
    if (this.#shown && this.#shown !== state && line) host.announce(`${line} ${this.note.textContent}`);
    this.#shown = state;
  }

  #showForm(say) {
    const { rating, host } = this;
    const { text, reasons } = rating.entry;
    const { length } = rating.comment;
    if (this.text.value !== text) this.text.value = text;
    put(this.label, say("comment"));
    put(this.counter, `${length} / ${LIMIT}`);
    this.text.ariaInvalid = this.send.ariaDisabled = length > LIMIT;
    put(this.readers, `${say("readers")} ${host.kept}`);
    put(this.send, say("send"));
    put(this.close, say("close"));
    this.reasons.hidden = !host.offered.length;
    if (this.reasons.textContent !== say("reasons") + host.offered.map(host.labelOf).join("")) {
      const chips = host.offered.map((id) => {
        const chip = button("reason", () => {
          const had = rating.entry.reasons;
          rating.edit({ reasons: had.includes(id) ? had.filter((one) => one !== id) : [...had, id] });
        });
        chip.value = id;
        put(chip, host.labelOf(id));
        return chip;
      });
      this.reasons.replaceChildren(make("legend", {}, say("reasons")), ...chips);
    }
    for (const chip of this.reasons.querySelectorAll("button")) chip.ariaPressed = reasons.includes(chip.value);
  }

  #line(state, say) {
    const { rating, host: { words } } = this;
    const { submission, entry, target, trouble } = rating;
    const next = (moment) => (moment ? say("next", { time: words.time(moment) }) : "");
    if (state === "undo") return say("undoing");
    if (state === "sending" || state === "erased") return say(state);
    if (state === "unavailable") return say(target.reason) || say("feedback_not_supported");
    if (submission) {
      const how = say(submission.state, { time: words.time(submission.createdAt) });
      if (state !== "waiting") return `${how || say("rejected")} ${say("locked")}`;
      return `${how || say("pending", { time: words.time(submission.createdAt) })} ${next(submission.nextAttemptAt)}`;
    }
    if (state === "refused") return say("refused", { text: say(trouble.code) || trouble.code });
    const why = trouble.code === "signed_out" ? say("signed_out") : next(rating.nextTry);
    return `${say("unsent", { time: words.time(entry.at) })} ${why}`;
  }

  #readable(comment) {
    const { reasons, text } = parted(comment);
    return [...reasons.map(this.host.labelOf), text].join(" · ");
  }
}
