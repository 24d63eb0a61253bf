// What a Workbench does with a client that was generated from the relay's OpenAPI document.
import createClient from "openapi-fetch";
import type { components, operations, paths } from "./relay-api";

type Submission = components["schemas"]["SubmissionShown"];

const relay = createClient<paths>({ baseUrl: "https://relay.example.org", headers: { Authorization: "Bearer …" } });

export async function record(): Promise<string> {
  const { data, error } = await relay.PUT("/api/provenance/tasks/{agent}/{taskId}", {
    params: { path: { agent: "literature", taskId: "task-1" } },
    body: { conversationId: "c1", answerId: "a1", role: "specialist", status: "completed" },
  });
  if (error) throw new Error(`${error.code}: ${error.detail}`);
  return data.taskId;
}

export async function rateable(answerId: string): Promise<string[]> {
  const { data } = await relay.GET("/api/answers/{answerId}/targets", { params: { path: { answerId } } });
  return (data?.targets ?? []).filter((target) => target.rateable).map((target) => target.taskId);
}

export async function rate(id: string, taskId: string, comment?: string): Promise<Submission> {
  const { data, error } = await relay.POST("/api/feedback", {
    params: { header: { Prefer: "wait=5" } },
    body: { id, taskId, rating: "down", comment },
  });
  if (error) throw new Error(error.code);
  return data;
}

export function told(submission: Submission): string {
  switch (submission.state) {
    case "saved":
      return `saved at ${submission.savedAt}`;
    case "pending":
    case "sending":
    case "held":
    case "needs_owner":
      return `waiting: ${submission.lastAttempt?.reason ?? "not tried yet"}`;
    case "rejected":
    case "conflict":
    case "exhausted":
    case "abandoned":
      return "not accepted";
    default:
      return submission.state satisfies never;
  }
}

async function page(cursor: string | null): Promise<components["schemas"]["SubmissionPage"]> {
  const query: operations["list_feedback"]["parameters"]["query"] = { state: "pending", ...(cursor && { cursor }) };
  const { data, error } = await relay.GET("/api/feedback", { params: { query } });
  if (error) throw new Error(error.code);
  return data;
}

export async function waiting(): Promise<Submission[]> {
  const found: Submission[] = [];
  let cursor: string | null = null;
  do {
    const { items, next } = await page(cursor);
    found.push(...items);
    cursor = next;
  } while (cursor !== null);
  return found;
}

// Each of these is a mistake that the types have to find.
// @ts-expect-error no such rating
export const rating: components["schemas"]["FeedbackBody"]["rating"] = "sideways";
// @ts-expect-error a body without the task
export const body: components["schemas"]["FeedbackBody"] = { id: "7c9e6679-7425-40de-944b-e07fc1f90ae7", rating: "up" };
// @ts-expect-error a moment that may be missing
export const savedAt = (submission: Submission): string => submission.savedAt;
// @ts-expect-error no such path
export const elsewhere = () => relay.GET("/api/feedbacks");
