// What is drawn of what: the charts of each kind of object, and how its figures are read.
import type { components } from "../../api/schema";
import type { Word } from "../../i18n";

export type Point = components["schemas"]["HistoryPoint"];
export type Answer = components["schemas"]["HistoryAnswer"];
export type Kind = "cluster" | "node" | "store" | "core" | "volume";
export type Unit = "rate" | "bytes" | "bytes_per_s" | "time" | "processors";

export const KINDS: readonly Kind[] = ["cluster", "node", "store", "core", "volume"];

/** Which of the numbers of a point. */
export type Pick = "mean" | "max" | "p50" | "p99";

export interface Series {
  readonly word: Word;
  readonly metric: string;
  readonly pick: Pick;
}

export interface Chart {
  readonly id: string;
  readonly title: Word;
  readonly unit: Unit;
  readonly series: readonly Series[];
}

const series = (word: Word, metric: string, pick: Pick = "mean"): Series => ({ word, metric, pick });

export const IOPS: Chart = {
  id: "iops",
  title: "performance.iops",
  unit: "rate",
  series: [
    series("performance.reads", "read-iops"),
    series("performance.writes", "write-iops"),
    series("performance.peak", "iops", "max"),
  ],
};
/** A core does not tell reads from writes. */
const CORE_IOPS: Chart = {
  ...IOPS,
  series: [series("performance.mean", "iops"), series("performance.peak", "iops", "max")],
};
export const BYTES: Chart = {
  id: "bytes",
  title: "performance.bytes",
  unit: "bytes_per_s",
  series: [series("performance.reads", "read-bytes"), series("performance.writes", "write-bytes")],
};
export const LATENCY: Chart = {
  id: "latency",
  title: "performance.latency",
  unit: "time",
  series: [
    series("performance.p50", "latency", "p50"),
    series("performance.p99", "latency", "p99"),
    series("performance.longest", "latency", "max"),
  ],
};
const SPACE: Chart = {
  id: "space",
  title: "performance.space",
  unit: "bytes",
  series: [series("performance.used", "used"), series("performance.capacity", "capacity")],
};
const CPU: Chart = {
  id: "cpu",
  title: "performance.cpu",
  unit: "processors",
  series: [series("performance.mean", "cpu"), series("performance.peak", "cpu", "max")],
};
const NETWORK: Chart = {
  id: "network",
  title: "performance.network",
  unit: "bytes_per_s",
  series: [series("performance.sent", "network-sent"), series("performance.received", "network-received")],
};
const RECOVERY: Chart = {
  id: "recovery",
  title: "performance.recovery",
  unit: "bytes_per_s",
  series: [series("performance.mean", "recovery"), series("performance.peak", "recovery", "max")],
};
const REQUESTS: Chart = {
  id: "requests",
  title: "performance.requests",
  unit: "rate",
  series: [series("performance.mean", "requests"), series("performance.peak", "requests", "max")],
};
const ERRORS: Chart = {
  id: "errors",
  title: "performance.errors",
  unit: "rate",
  series: [series("performance.mean", "errors"), series("performance.peak", "errors", "max")],
};

export const CHARTS: Readonly<Record<Kind, readonly Chart[]>> = {
  cluster: [IOPS, BYTES, LATENCY, SPACE, NETWORK, RECOVERY, CPU],
  node: [IOPS, BYTES, LATENCY, SPACE, NETWORK, RECOVERY, CPU],
  store: [IOPS, BYTES, LATENCY, SPACE],
  core: [CPU, CORE_IOPS, REQUESTS],
  volume: [IOPS, BYTES, LATENCY, ERRORS],
};

export interface Range {
  readonly id: string;
  readonly word: Word;
  readonly seconds: number;
}

export const RANGES: readonly Range[] = [
  { id: "1h", word: "performance.1h", seconds: 3_600 },
  { id: "5h", word: "performance.5h", seconds: 18_000 },
  { id: "1d", word: "performance.1d", seconds: 86_400 },
  { id: "2d", word: "performance.2d", seconds: 172_800 },
  { id: "7d", word: "performance.7d", seconds: 604_800 },
  { id: "30d", word: "performance.30d", seconds: 2_592_000 },
];

export function pick(point: Point, which: Pick): number {
  if (which === "mean") return point.mean;
  if (which === "max") return point.max;
  return point.percentiles?.[which] ?? point.mean;
}

/** Numbers side by side for a chart: the times, and of each series what it was then; null where nothing is known. */
export function align(chart: Chart, answers: ReadonlyMap<string, Answer>): (number | null)[][] {
  const times = new Set<number>();
  let step = 0;
  for (const { metric } of chart.series) {
    const answer = answers.get(metric);
    step = Math.max(step, answer?.step_s ?? 0);
    for (const { at } of answer?.points ?? []) times.add(at);
  }
  const sorted = [...times].sort((a, b) => a - b);
  // A time in which nobody took figures is a gap, and no line across it.
  const all: number[] = [];
  for (const at of sorted) {
    const before = all.at(-1);
    if (before !== undefined && step > 0 && at - before > step) all.push(before + step);
    all.push(at);
  }
  const columns = chart.series.map(({ metric, pick: which }) => {
    const known = new Map((answers.get(metric)?.points ?? []).map((point) => [point.at, pick(point, which)]));
    return all.map((at) => known.get(at) ?? null);
  });
  return [all, ...columns];
}
