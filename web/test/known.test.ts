import { describe, expect, it } from "vitest";
import { translator } from "../src/i18n";
import type { Word } from "../src/i18n";
import { en } from "../src/i18n/en";
import { markOf, wordOf } from "../src/lib/known";

const t = translator(en);
type State = "done" | "failed";
const told = (state: string) => state as State;

describe("words of a newer server", () => {
  const WORDS: Readonly<Record<State, Word>> = { done: "task.done", failed: "task.failed" };
  const MARKS = { done: ["good", "task.done"], failed: ["bad", "task.failed"] } as const;

  it("are shown as they are, and those that are known as the page says them", () => {
    expect(wordOf(WORDS, "done", t)).toBe(en["task.done"]);
    expect(markOf(MARKS, "failed", t)).toEqual(["bad", en["task.failed"]]);
    expect(wordOf(WORDS, told("suspended"), t)).toBe("suspended");
    expect(markOf(MARKS, told("suspended"), t)).toEqual(["plain", "suspended"]);
  });

  it.each(["constructor", "toString", "__proto__"])("%s is a word as any", (word) => {
    expect(wordOf(WORDS, told(word), t)).toBe(word);
    expect(markOf(MARKS, told(word), t)).toEqual(["plain", word]);
  });

  it("turn no line", () => expect(wordOf(WORDS, told("a\u202eb"), t)).toBe("a[U+202E]b"));
});
