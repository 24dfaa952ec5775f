// Figures as people read them.
import { formatBytes, formatCount } from "../../lib/format";
import type { Unit } from "./charts";

/** Nanoseconds: `12.3 us`. */
export function formatNanoseconds(ns: number): string {
  const steps: readonly (readonly [string, number])[] = [
    ["s", 1e9],
    ["ms", 1e6],
    ["µs", 1e3],
  ];
  const [unit, size] = steps.find(([, size]) => ns >= size) ?? (["ns", 1] as const);
  const value = ns / size;
  return `${Number(value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2))} ${unit}`;
}

export function formatFigure(value: number, unit: Unit, locale: string): string {
  switch (unit) {
    case "bytes":
      return formatBytes(value);
    case "bytes_per_s":
      return `${formatBytes(value)}/s`;
    case "time":
      return formatNanoseconds(value);
    case "processors":
      return String(Number(value.toFixed(2)));
    case "rate":
      return formatCount(value >= 10 ? Math.round(value) : Number(value.toFixed(1)), locale);
  }
}
