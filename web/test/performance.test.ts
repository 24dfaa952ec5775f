import { describe, expect, it } from "vitest";
import { align, CHARTS, KINDS } from "../src/screens/performance/charts";
import type { Answer } from "../src/screens/performance/charts";
import { formatFigure, formatNanoseconds } from "../src/screens/performance/figures";
import { fieldAt, most, shade } from "../src/screens/performance/heat";
import { sharing } from "../src/screens/performance/read";
import { waterfall } from "../src/screens/performance/waterfall";

function answer(metric: string, points: Answer["points"]): Answer {
  const span = { from: 0, to: 100, step_s: 10, resolution_s: 10 };
  return { object: "cluster", metric, unit: "1/s", ...span, points, missing: [] };
}

describe("lines", () => {
  const chart = CHARTS.volume.find(({ id }) => id === "iops")!;
  it("stand side by side, with gaps where nothing is known", () => {
    const reads = [10, 20, 50].map((at) => ({ at, mean: at, max: at }));
    const all = [10, 20].map((at) => ({ at, mean: 1, max: 7 }));
    const answers = new Map([
      ["read-iops", answer("read-iops", reads)],
      ["iops", answer("iops", all)],
    ]);
    expect(align(chart, answers)).toEqual([
      [10, 20, 30, 50],
      [10, 20, null, 50],
      [null, null, null, null],
      [7, 7, null, null],
    ]);
  });
  it("are of every kind of object", () => {
    for (const kind of KINDS) expect(CHARTS[kind].length).toBeGreaterThan(2);
    expect(align(chart, new Map())).toEqual([[], [], [], []]);
  });
});

describe("figures", () => {
  it("have three digits and a unit", () => {
    expect([0, 999, 12_345, 1_900_000, 2.5e9].map(formatNanoseconds)).toEqual([
      "0 ns",
      "999 ns",
      "12.3 µs",
      "1.9 ms",
      "2.5 s",
    ]);
    expect(formatFigure(1536, "bytes_per_s", "en-US")).toBe("1.5 KiB/s");
    expect(formatFigure(12_345.6, "rate", "en-US")).toBe("12,346");
    expect(formatFigure(0.256, "processors", "en-US")).toBe("0.26");
  });
});

it("only figures of the whole cluster are shared with other pages", () => {
  expect(sharing({ object: "cluster", metric: "iops" }, 30)).toBe("max-age=30");
  expect([sharing({ object: "volume/7", metric: "iops" }, 10), sharing({ of: "volumes", by: "iops" }, 10)]).toEqual([
    "no-cache",
    "no-cache",
  ]);
});

describe("a heat map", () => {
  const heat = {
    bounds_ns: [100, 200, 400],
    columns: [
      { at: 0, counts: [5, 0] },
      { at: 20, counts: [0, 1] },
    ],
  };
  it("shows one among a million", () => {
    expect(shade(0, 1e6)).toBe(0);
    expect(shade(1, 1e6)).toBeGreaterThan(0.12);
    expect(shade(1e6, 1e6)).toBeCloseTo(1);
    expect(most(heat)).toBe(5);
  });
  it("knows what lies where", () => {
    expect(fieldAt(heat, 0.1, 0.9, 0, 40, 10)).toEqual({ column: 0, row: 0 });
    expect(fieldAt(heat, 0.6, 0.1, 0, 40, 10)).toEqual({ column: 1, row: 1 });
    expect(fieldAt(heat, 0.3, 0.1, 0, 40, 10)).toBeUndefined();
  });
});

it("a waterfall has stages one after the other, and data beside the log", () => {
  const stage = (stage: string, ns: number) => ({ stage, ns });
  const bars = waterfall({
    node: "n1",
    id: 1,
    ago_ns: 0,
    volume: "db",
    op: "write",
    offset: 0,
    length: 4096,
    total_ns: 100,
    stages: [stage("sequence", 10), stage("stores", 80), stage("reply", 10)],
    stores: [
      {
        store: "12345678-0000",
        sent_ns: 12,
        answered_ns: 88,
        way_ns: 6,
        stages: [stage("issue", 5), stage("data", 40), stage("log", 30), stage("answer", 2)],
      },
      { store: "87654321-0000", sent_ns: 12, answered_ns: null, way_ns: 0, stages: [] },
    ],
  });
  expect(bars.map(({ depth, name, from, took }) => [depth, name, from, took])).toEqual([
    [0, "sequence", 0, 10],
    [0, "stores", 10, 80],
    [1, "12345678", 12, 76],
    [2, "issue", 15, 5],
    [2, "data", 20, 40],
    [2, "log", 20, 30],
    [2, "answer", 60, 2],
    [1, "87654321", 12, undefined],
    [0, "reply", 90, 10],
  ]);
});
