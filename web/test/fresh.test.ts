import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { maxAge, noteChange, OLDEST_S, setTold } from "../src/api/fresh";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
  setTold(false);
});

afterEach(() => {
  vi.useRealTimers();
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
