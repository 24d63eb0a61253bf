/**
 * The rating widget of the specialist feedback relay: `<specialist-feedback relay="https://…" answer="a7">`.
 *
 * Attributes: `relay` (the relay's https address), `answer` (its id in provenance), `conversation` (answers of one
 * share a call), `undo-seconds` (5), `poll-seconds` (10), `reasons` (ids, with spaces between them), `lang`.
 */

export type Rating = "up" | "down";

/** How one rating stands. `saved` is said only once the specialist has acknowledged it. */
export type FeedbackState =
  | "ready"
  | "draft"
  | "undo"
  | "sending"
  | "waiting"
  | "saved"
  | "refused"
  | "unavailable"
  | "erased";

/** The detail of the event `feedback-state`: of one rating, or of an element that can show none. */
export type FeedbackStateDetail =
  | {
      answer: string;
      agent: string;
      taskId: string;
      state: FeedbackState;
      rating: Rating | null;
      /** The submission's UUID, from the press on Send on. */
      id: string | null;
    }
  | {
      answer: string | null;
      state: "failed";
      /** `setup`, `unreachable`, `signed_out`, or the relay's code. */
      code: string;
    };

/** Gives an access token for the relay. `fresh`: the last one was refused, so that a kept one is of no use. */
export type GetToken = (options: { fresh: boolean }) => Promise<string>;

/** A reason that can be put in front of a comment: `a` to `z`, digits, `_`, `.` and `-`, at most 40 of them. */
export interface Reason {
  id: string;
  /** What is shown; left out, the text `reason.<id>`, or the id. */
  label?: string;
}

/** Texts by name; `{agent}`, `{time}` and `{text}` are filled in. */
export type Texts = Partial<Record<TextName | `reason.${string}`, string>>;

export type TextName =
  | "up"
  | "down"
  | "several"
  | "reasons"
  | "comment"
  | "readers"
  | "days"
  | "always"
  | "send"
  | "close"
  | "undo"
  | "retry"
  | "undoing"
  | "sending"
  | "unsent"
  | "pending"
  | "next"
  | "saved"
  | "locked"
  | "rejected"
  | "exhausted"
  | "abandoned"
  | "erased"
  | "refused"
  | "elsewhere"
  | "lost"
  | "resolution"
  | "task_not_finished"
  | "feedback_not_supported"
  | "setup"
  | "unreachable"
  | "signed_out"
  | "answer_not_found";

export class SpecialistFeedback extends HTMLElement {
  /** Has to be set. One sign-in for one relay and page: the function that was set last is asked. */
  getToken: GetToken | undefined;
  /** Texts that replace the widget's own. */
  texts: Texts | undefined;
  /** Goes before the attribute of this name. */
  reasons: ReadonlyArray<Reason | string> | undefined;
  /** Ask the relay again, instead of waiting for the next poll. */
  refresh(): Promise<void>;
}

declare global {
  interface HTMLElementTagNameMap {
    "specialist-feedback": SpecialistFeedback;
  }
  interface HTMLElementEventMap {
    "feedback-state": CustomEvent<FeedbackStateDetail>;
  }
}
