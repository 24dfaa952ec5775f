import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { translator } from "../src/i18n";
import { en } from "../src/i18n/en";
import { zh } from "../src/i18n/zh";

const holes = (text: string) => (text.match(/\{\w+\}/g) ?? []).sort();

/** All that the page is made of, but the dictionaries. */
function sources(folder = "src"): string {
  return readdirSync(folder, { withFileTypes: true })
    .map((entry) => {
      const path = `${folder}/${entry.name}`;
      if (entry.isDirectory()) return entry.name === "i18n" ? "" : sources(path);
      return /\.tsx?$/.test(entry.name) ? readFileSync(path, "utf8") : "";
    })
    .join("\n");
}

describe("the two dictionaries", () => {
  it("have the same words, in the same order", () => expect(Object.keys(zh)).toEqual(Object.keys(en)));

  it.each(Object.keys(en) as (keyof typeof en)[])("%s has the same holes, and says something", (word) => {
    expect(holes(zh[word])).toEqual(holes(en[word]));
    expect(zh[word].trim()).not.toBe("");
    expect(en[word].trim()).not.toBe("");
  });

  it("have no word that nobody says", () => {
    const said = sources();
    expect(Object.keys(en).filter((word) => !said.includes(`"${word}"`))).toEqual([]);
  });
});

it("what is put into a sentence cannot turn it", () => {
  expect(translator(en)("volume.delete.title", { name: "a\u202Eb" })).toBe("Delete a[U+202E]b");
  expect(translator(zh)("volume.delete.title", { name: "{x} $& <b>" })).toBe("删除 {x} $& <b>");
});
