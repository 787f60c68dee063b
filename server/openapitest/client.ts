// Uses the types that are made from the description as a caller would. It is
// compiled and never run.
import type { operations, components } from "./types";

type Decision = components["schemas"]["Decision"];

const take: operations["take"]["requestBody"]["content"]["application/json"] = {
  entity: "alice",
  resource: "chat",
  cost: { rpm: 1 },
  wait: "5s",
  priority: "interactive",
};

export async function ask(url: string, key: string): Promise<Decision> {
  const response = await fetch(url + "/v1/take", {
    method: "POST",
    headers: { "Idempotency-Key": key },
    body: JSON.stringify(take),
  });
  return (await response.json()) as operations["take"]["responses"][200]["content"]["application/json"];
}

// seconds is when to come back; undefined for never.
export function seconds(d: Decision): number | undefined {
  return d.allowed ? 0 : (d.retryAfter ?? undefined);
}

export function held(d: Decision): number {
  return d.results.reduce((sum, r) => sum + (r.held ?? 0), 0);
}

// @ts-expect-error durations are strings with a unit
export const wrong: typeof take = { entity: "alice", wait: 5 };

export const source: Decision["source"] = "denyCache";
