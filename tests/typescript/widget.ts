// A page that embeds the widget, in TypeScript.
import type { FeedbackState, SpecialistFeedback } from "./specialist-feedback";

export function embed(token: () => Promise<string>): SpecialistFeedback {
  const element = document.createElement("specialist-feedback");
  element.setAttribute("answer", "a1");
  element.getToken = async ({ fresh }) => (fresh ? await token() : "kept");
  element.reasons = ["wrong_unit", { id: "too_long", label: "Too long" }];
  element.texts = { saved: "Thank you", "reason.wrong_unit": "Wrong unit" };
  element.addEventListener("feedback-state", ({ detail }) => {
    if (detail.state === "failed") console.warn(detail.code);
    else console.info(detail.taskId, detail.rating, detail.state satisfies FeedbackState);
  });
  return element;
}

// Each of these is a mistake that the types have to find.
export function mistakes(element: SpecialistFeedback): void {
  // @ts-expect-error a token has to be waited for
  element.getToken = () => "token";
  // @ts-expect-error no such text
  element.texts = { savedd: "" };
}
