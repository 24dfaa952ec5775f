import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { call, send } from "../src/api/call";
import { maxAge, noteChange, OLDEST_S, setTold } from "../src/api/fresh";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
  setTold(false);
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("takes no old answer while nobody tells of changes", () => {
  vi.advanceTimersByTime(60_000);
  expect(maxAge()).toBe(0);
});

it("takes no answer that is older than the last change", () => {
  setTold(true);
  expect(maxAge()).toBe(0);
  vi.advanceTimersByTime(3_500);
  expect(maxAge()).toBe(3);
  noteChange();
  expect(maxAge()).toBe(0);
  vi.advanceTimersByTime(60_000);
  expect(maxAge()).toBe(OLDEST_S);
  // What was changed while the connection was away is not known.
  setTold(false);
  setTold(true);
  expect(maxAge()).toBe(0);
});

it("says how old an answer may be, but of what stands in the audit log", async () => {
  const asked: (string | undefined)[] = [];
  const fetched = (_: string, { headers }: { headers: Record<string, string> }) => {
    asked.push(headers["Cache-Control"]);
    return Promise.resolve(new Response("{}"));
  };
  vi.stubGlobal("fetch", fetched);
  vi.stubGlobal("window", { sessionStorage: { getItem: () => null } });
  setTold(true);
  vi.advanceTimersByTime(60_000);
  const path = { name: "diff" };
  await send(call("get", "/api/v1/volumes/{name}", { params: { path } }));
  await send(call("get", "/api/v1/volumes/{name}/diff", { params: { path, query: { from: "s" } } }));
  await send(call("get", "/api/v1/health", { params: { header: { "Cache-Control": "no-cache" } } } as never));
  expect(asked).toEqual([`max-age=${OLDEST_S}`, undefined, "no-cache"]);
});
