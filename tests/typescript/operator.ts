// What an operator's program does with a client that was generated from the relay's OpenAPI document.
import createClient from "openapi-fetch";
import type { components, paths } from "./relay-api";

const relay = createClient<paths>({ baseUrl: "https://relay.example.org", headers: { Authorization: "Bearer …" } });

type Credentials = NonNullable<components["schemas"]["ProposalBody"]["credentials"]>;

export const pilot: Credentials = [
  { mode: "static_bearer", issuer: "https://id.example.org", clientId: "workbench", tokenFile: "bearer" },
];

export function files(credentials: Credentials): string[] {
  return credentials.map((one) => (one.mode === "static_bearer" ? one.tokenFile : one.keyFile));
}

export async function propose(agent: string): Promise<string> {
  const { data, error } = await relay.POST("/api/operator/agents/{agent}/proposals", {
    params: { path: { agent } },
    body: { why: "a pilot", credentials: pilot },
  });
  return error ? error.detail : `version ${data.agent.versions[0]?.version}`;
}

export async function retry(): Promise<string> {
  const { data, error } = await relay.POST("/api/operator/jobs", {
    body: { kind: "retry", filter: { state: "exhausted" }, dryRun: true },
  });
  if (error) return error.detail;
  return "would" in data ? `${data.total} of them` : data.state;
}

export async function changes(): Promise<string[]> {
  const { data } = await relay.GET("/api/operator/audit", { params: { query: { limit: 100 } } });
  return (data?.items ?? []).map((entry) => `${entry.actor} ${entry.action}: ${JSON.stringify(entry.after?.["state"])}`);
}

// Each of these is a mistake that the types have to find.
// @ts-expect-error a file that does not go with this mode
export const mixed: Credentials = [{ mode: "static_bearer", issuer: "i", clientId: "c", keyFile: "key" }];
// @ts-expect-error no such state
export const filter: components["schemas"]["JobFilter"] = { state: "lost" };
// @ts-expect-error a job without the submissions that it is for
export const job: components["schemas"]["JobBody"] = { kind: "retry" };
