// A person's session at a Workbench, with a client that was generated from the relay's OpenAPI document. It prints what
// came of each step, as one JSON object.
import createClient from "openapi-fetch";
import type { components, paths } from "./relay-api";

declare const process: { env: Record<string, string | undefined> };

type Submission = components["schemas"]["SubmissionShown"];
type Problem = components["schemas"]["Problem"];

function client(token: string | undefined) {
  return createClient<paths>({
    baseUrl: process.env["RELAY"] ?? "",
    headers: token === undefined ? {} : { Authorization: `Bearer ${token}` },
  });
}

const workbench = client(process.env["WORKBENCH"]);
const alice = client(process.env["ALICE"]);

const TASK = "Aufgabe 1/ä";

// Node.js 18 has no `crypto` of its own yet.
const uuids = (process.env["UUIDS"] ?? "").split(" ");

function uuid(): string {
  const next = uuids.shift();
  if (next === undefined) throw new Error("there are not enough UUIDs");
  return next;
}

/** The answer, or an error that says what the relay said. */
function taken<Data>({ data, error }: { data?: Data; error?: Problem }): Data {
  if (data === undefined) throw new Error(error ? `${error.code}: ${error.detail}` : "an answer without a body");
  return data;
}

async function record(agent: string): Promise<components["schemas"]["TaskShown"]> {
  return taken(
    await workbench.PUT("/api/provenance/tasks/{agent}/{taskId}", {
      params: { path: { agent, taskId: TASK } },
      body: {
        conversationId: "c1",
        answerId: "a1",
        role: "specialist",
        status: "completed",
        ranAs: "client",
        subject: "alice",
      },
    }),
  );
}

/** Rate the task; where the relay asks whose task is meant, the one that the person picks of those it names. */
async function rate(id: string, pick: (agents: string[]) => string | undefined): Promise<[Submission, number, string[]]> {
  const body = { id, taskId: TASK, rating: "down", comment: "The unit is wrong" } as const;
  const first = await alice.POST("/api/feedback", { body });
  if (first.error?.code !== "explicit_target_required") throw new Error("nobody asked whose task is meant");
  const agents = first.error.targets.map((target) => target.agent);
  const agent = pick(agents);
  if (agent === undefined) throw new Error("it names nobody");
  const params = { header: { Prefer: "wait=10" } };
  const second = await alice.POST("/api/feedback", { params, body: { ...body, agent } });
  return [taken(second), second.response.status, agents];
}

async function everything(): Promise<Submission[]> {
  const found: Submission[] = [];
  let cursor: string | null = null;
  do {
    const page: components["schemas"]["SubmissionPage"] = taken(
      await alice.GET("/api/feedback", { params: { query: { limit: 1, cursor: cursor ?? undefined } } }),
    );
    found.push(...page.items);
    cursor = page.next;
  } while (cursor !== null);
  return found;
}

/** What an attempt came to; there is none as long as nothing was tried. */
function tried({ lastAttempt }: Submission): string {
  return lastAttempt === null ? "not tried yet" : `${lastAttempt.outcome} at attempt ${lastAttempt.number}`;
}

/** What a person is told of a refusal to take a rating. */
function refusal(error: paths["/api/feedback"]["post"]["responses"][409]["content"]["application/problem+json"]): string {
  switch (error.code) {
    case "already_submitted":
      return `rated ${error.existing.rating} before`;
    case "uuid_reused":
    case "task_not_finished":
    case "destination_not_approved":
    case "feedback_not_supported":
    case "destination_cannot_act_for_owner":
      return error.detail;
    default:
      return error satisfies never;
  }
}

async function session() {
  const recorded = await record("literature");
  await record("chemistry");
  const answer = taken(await alice.GET("/api/answers/{answerId}/targets", { params: { path: { answerId: "a1" } } }));
  const [saved, status, asked] = await rate(uuid(), (agents) => agents.find((one) => one === "literature"));
  const again = await alice.POST("/api/feedback", {
    body: { id: uuid(), taskId: TASK, agent: "literature", rating: "up" },
  });
  const waiting = await alice.POST("/api/feedback", {
    params: { header: { Prefer: "respond-async" } },
    body: { id: uuid(), taskId: TASK, agent: "chemistry", rating: "up" },
  });
  const { id } = taken(waiting);
  const shown = taken(await alice.GET("/api/feedback/{id}", { params: { path: { id } } }));
  const nobodys = await alice.GET("/api/feedback/{id}", { params: { path: { id: uuid() } } });
  const unsigned = await client(undefined).GET("/api/feedback");
  const invalid = await alice.POST("/api/feedback", { body: { id: "7", taskId: TASK, rating: "up" } });
  return {
    task: recorded.taskId,
    rateable: answer.targets.filter((target) => target.rateable).map((target) => target.agent),
    asked,
    saved: { status, state: saved.state, tried: tried(saved), comment: saved.comment },
    again: again.error?.code === "already_submitted" ? refusal(again.error) : again.response.status,
    waiting: { status: waiting.response.status, tried: tried(shown), savedAt: shown.savedAt },
    listed: (await everything()).map((one) => `${one.agent} ${one.rating}`),
    nobodys: nobodys.error?.code,
    unsigned: unsigned.error?.code,
    invalid: invalid.error?.code === "invalid_field" ? invalid.error.errors?.map((one) => one.pointer) : [],
  };
}

console.log(JSON.stringify(await session()));
