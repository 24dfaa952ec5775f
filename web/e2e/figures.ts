// What the mock answers of figures over time and of single I/Os: made from the question, always the same.
import type { components } from "../src/api/schema";
import { HOSTILE } from "./hostile";

type Schemas = components["schemas"];

const MISSING: Schemas["MissingNode"][] = [{ node: "node-007", why: "it is not alive" }];
const LATENCY_BOUNDS = [64, 92, 128, 184, 256, 368, 512, 736, 1024, 1472, 2048].map((us) => us * 1_000);

/** The steps of the API: short spans are kept more finely. */
function stepOf(seconds: number): number {
  const unit = seconds <= 18_000 ? 10 : seconds <= 172_800 ? 60 : 600;
  return Math.ceil(Math.ceil(seconds / 360) / unit) * unit;
}

function wave(at: number, metric: string): number {
  const size = metric.includes("bytes") || metric.startsWith("network") ? 4e8 : metric === "cpu" ? 6 : 90_000;
  return size * (0.6 + 0.3 * Math.sin(at / 1_700 + metric.length) + 0.1 * Math.sin(at / 97));
}

function point(at: number, metric: string): Schemas["HistoryPoint"] {
  if (metric === "capacity") return { at, mean: 8e14, max: 8e14 };
  if (metric === "used") return { at, mean: 4e14 + at * 1_000, max: 4e14 + at * 1_000 };
  const mean = wave(at, metric);
  if (!metric.endsWith("latency")) return { at, mean, max: mean * 1.6 };
  const percentiles = { p50: mean * 2, p95: mean * 5, p99: mean * 9, p999: mean * 30, count: 1_000 };
  return { at, mean: mean * 2.4, max: mean * 44, percentiles };
}

function times(query: URLSearchParams): { from: number; to: number; step_s: number; all: number[] } {
  const to = Number(query.get("to"));
  const step_s = stepOf(to - Number(query.get("from")));
  const from = Math.floor(Number(query.get("from")) / step_s) * step_s;
  const all: number[] = [];
  for (let at = from; at < to; at += step_s) {
    // The node was away for a while.
    if (at < from + 100 * step_s || at > from + 110 * step_s) all.push(at);
  }
  return { from, to, step_s, all };
}

function history(query: URLSearchParams): Schemas["HistoryAnswer"] {
  const [object, metric] = [query.get("object") ?? "", query.get("metric") ?? ""];
  const { from, to, step_s, all } = times(query);
  const points = all.map((at) => point(at, metric));
  return { object, metric, unit: "1/s", from, to, step_s, resolution_s: step_s, points, missing: MISSING };
}

function heatmap(query: URLSearchParams): Schemas["HeatmapAnswer"] {
  const { from, to, step_s, all } = times(query);
  const rows = LATENCY_BOUNDS.length - 1;
  const counts = (at: number) =>
    Array.from({ length: rows }, (_, row) => Math.round(5e5 * Math.exp(-((row - 3 - Math.sin(at / 2_000)) ** 2))));
  const columns = all.map((at) => ({ at, counts: counts(at) }));
  const object = query.get("object") ?? "";
  return { object, from, to, step_s, bounds_ns: LATENCY_BOUNDS, columns, missing: [] };
}

function talker(name: string, share: number): Schemas["Talker"] {
  const iops = 40_000 * share;
  return { name, ios: Math.round(iops * 3_600), iops, bytes_per_s: iops * 8_192, mean_ns: 210_000, p99_ns: 1_900_000 };
}

function top(query: URLSearchParams): Schemas["TopAnswer"] {
  const stores = query.get("of") === "stores";
  const name = (index: number) =>
    stores ? `0000000${index}-0000-4000-8000-00000000000${index}` : `volume-000${index}`;
  const rows = Array.from({ length: 9 }, (_, index) => talker(name(index), 1 / (index + 1)));
  if (!stores) rows.push(talker(HOSTILE[0]!, 0.05));
  return {
    from: Number(query.get("from")),
    to: Number(query.get("to")),
    rows,
    rest: talker("", 0.3),
    missing: MISSING,
  };
}

function forecast(query: URLSearchParams): Schemas["ForecastAnswer"] {
  const level = (percent: number, days: number) => ({
    percent,
    days,
    soonest_days: days * 0.9,
    latest_days: days * 1.25,
  });
  const bytes = { used_bytes: 4e14, capacity_bytes: 8e14, bytes_per_day: 1e13 };
  const growth = { ...bytes, bytes_per_day_low: 8e12, bytes_per_day_high: 1.1e13, span_s: 2_592_000 };
  const levels = [level(85, 28), level(95, 36), level(100, 40)];
  return { object: query.get("object") ?? "", forecast: { ...growth, levels }, missing: MISSING };
}

function trace(index: number): Schemas["Trace"] {
  const store = (number: number) => ({
    store: `0000000${number}-0000-4000-8000-00000000000${number}`,
    sent_ns: 21_000,
    answered_ns: number === 2 ? null : 180_000 + 60_000 * number,
    way_ns: 40_000,
    stages: [
      { stage: "issue", ns: 9_000 },
      { stage: "data", ns: 70_000 },
      { stage: "log", ns: 64_000 },
      { stage: "answer", ns: 4_000 },
    ],
  });
  return {
    node: `node-00${index % 4}`,
    id: index,
    ago_ns: 4e9 * (index + 1),
    volume: index === 3 ? HOSTILE[0]! : `volume-000${index}`,
    op: index % 3 === 0 ? "write" : "read",
    offset: 4_096 * index,
    length: 4_096,
    error: index === 5 ? "the store did not answer" : null,
    total_ns: 310_000 + index * 900_000,
    stages: [
      { stage: "parse", ns: 4_000 },
      { stage: "sequence", ns: 17_000 },
      { stage: "stores", ns: 260_000 },
      { stage: "reply", ns: 29_000 },
    ],
    last_store: null,
    missed_store: null,
    stores: [store(1), store(2)],
  };
}

/** Undefined: it is about something else. */
export function figuresOf(path: string, query: URLSearchParams): unknown {
  switch (path) {
    case "/api/v1/history":
      return history(query);
    case "/api/v1/history/heatmap":
      return heatmap(query);
    case "/api/v1/history/forecast":
      return forecast(query);
    case "/api/v1/history/top":
      return top(query);
    case "/api/v1/traces":
      return { traces: Array.from({ length: 8 }, (_, index) => trace(index)), missing: MISSING };
    default:
      return undefined;
  }
}
