import { describe, expect, it } from "vitest";
import { isUnreadable, problemOf, ProblemError } from "../src/api/problem";
import { mergeEvents } from "../src/lib/events";
import { labelChange, parseLabels, writeLabels } from "../src/lib/labels";
import { parsePlace, placeHref } from "../src/lib/router";
import { MessageReader } from "../src/lib/sse";
import { arrange } from "../src/lib/topology";
import { visible } from "../src/lib/visible";

describe("labels", () => {
  it("are read from lines", () => {
    expect(parseLabels("a=1\n\n b = two=2 \nempty=")).toEqual({ a: "1", b: "two=2", empty: "" });
    expect(parseLabels(writeLabels({ a: "1", b: "x" }))).toEqual({ a: "1", b: "x" });
  });
  it.each(["a", "=1", "a=1\na=2"])("%j is not for labels", (text) => expect(parseLabels(text)).toBeUndefined());
  it("a change has what is new and what goes", () => {
    expect(labelChange({ a: "1", b: "2", c: "3" }, { a: "1", b: "4", d: "5" })).toEqual({ c: null, b: "4", d: "5" });
  });
});

describe("places", () => {
  it.each([[["volumes", "a/b?c#d %"]], [["pools", "<img>"]]])("%j come back from their address", (path) => {
    const place = parsePlace(placeHref(path, { tab: "x&y" }));
    expect(place.path).toEqual(path);
    expect(place.query.get("tab")).toBe("x&y");
  });
  it("a lone % is taken as it is", () => expect(parsePlace("#/volumes/100%").path).toEqual(["volumes", "100%"]));
});

describe("server-sent events", () => {
  it("are the same wherever the stream is cut", () => {
    const stream = ': hello\r\nid: 7\ndata: {"a":\ndata: 1}\n\nevent: x\ndata:two\r\r\nid\ndata\n\ndata: unfinished';
    const whole = new MessageReader().push(stream);
    expect(whole).toEqual([
      { id: "7", data: '{"a":\n1}' },
      { id: "7", data: "two" },
      { id: "", data: "" },
    ]);
    for (let cut = 0; cut <= stream.length; cut += 1) {
      const reader = new MessageReader();
      expect([...reader.push(stream.slice(0, cut)), ...reader.push(stream.slice(cut))]).toEqual(whole);
    }
  });
  it("go on from the last id", () =>
    expect(new MessageReader("5").push("data: x\n\n")).toEqual([{ id: "5", data: "x" }]));
});

it("events are there once, the newest first", () => {
  const at = (id: string, at_ms: number) => ({ id, at_ms });
  expect(mergeEvents([at("c", 3), at("b", 2)], [at("a", 1), at("b", 2), at("d", 3)]).map(({ id }) => id)).toEqual([
    "d",
    "c",
    "b",
    "a",
  ]);
});

it("nodes stand in racks of sites, by number where names have one", () => {
  const node = (name: string, site: string, rack: string) => ({ name, site, rack });
  const sites = arrange(
    [node("n10", "s", "r"), node("n2", "s", "r"), node("x", "", "")],
    [
      { node: "n2", path: "/dev/a" },
      { node: "gone", path: "/dev/b" },
    ],
  );
  expect(sites.map(({ name }) => name)).toEqual(["", "s"]);
  expect(sites[1]?.racks[0]?.nodes.map(({ node, stores }) => [node.name, stores.length])).toEqual([
    ["n2", 1],
    ["n10", 0],
  ]);
});

it("what is not seen is written out", () => {
  expect(visible("a\u202Eb\u200Bc\nd\u0000")).toBe("a[U+202E]b[U+200B]c[U+000A]d[U+0000]");
  expect(visible("名字 é – ok")).toBe("名字 é – ok");
});

describe("problems", () => {
  it("of the API keep code and detail", () => {
    const problem = problemOf(409, { code: "exists", title: "The name is taken.", detail: "take another" });
    expect([problem.status, problem.code, problem.title, problem.detail]).toEqual([
      409,
      "exists",
      "The name is taken.",
      "take another",
    ]);
  });
  it("of strangers are told as such", () => expect(problemOf(502, "<html>").code).toBe("no-problem"));
});

it.each([
  ["internal", 500, true],
  ["changed", 412, false],
  ["metadata-away", 503, false],
  ["not-found", 404, false],
  ["denied", 403, false],
] as const)("a record is damaged where the API says `%s` (%d): %j", (code, status, is) =>
  expect(isUnreadable(new ProblemError(status, code, "", ""))).toBe(is),
);

it("what was not read is not damaged", () => {
  expect([isUnreadable(null), isUnreadable(new Error("no network"))]).toEqual([false, false]);
});
