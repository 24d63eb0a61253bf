/**
 * The comment of a rating: how reasons stand in front of it, and how long it may be.
 *
 * The wire has one field for both. A comment with reasons is `[id,id] text`. A text that begins like that by itself,
 * without reasons, is sent as `[] text`: what was sent can always be taken apart again.
 */

/** The most UTF-16 code units of a comment, reasons included. It is what `String.length` counts. */
export const LIMIT = 4000;

const REASON = /^[a-z0-9_.-]{1,40}$/;
const FRONT = /^\[((?:[a-z0-9_.-]+(?:,[a-z0-9_.-]+)*)?)\](?: |$)/;

/** Whether a reason's id can stand in front of a comment. */
export const isReason = (id) => typeof id === "string" && REASON.test(id);

/** The comment to send; "" is none. Halves of surrogate pairs and NUL, which the relay refuses, are nothing one types. */
export function composed(reasons, text) {
  const sent = text.toWellFormed().replaceAll("\0", "").trim();
  if (!reasons.length && !FRONT.test(sent)) return sent;
  return `[${reasons.join(",")}] ${sent}`.trim();
}

/** The reasons and the text of a comment that was sent. */
export function parted(comment) {
  const front = FRONT.exec(comment);
  if (!front) return { reasons: [], text: comment };
  return { reasons: front[1] ? front[1].split(",") : [], text: comment.slice(front[0].length) };
}
