// What of a thing has become another between two readings of it.
import { formatBytes } from "./format";

export interface Difference {
  /** As the API names it, from the outside in: `quota.volumes`. */
  readonly field: string;
  readonly from: string;
  readonly to: string;
}

/** What changes by itself, and is no part of what an entity tag stands for: figures, and how far things are. */
const FIGURES: ReadonlySet<string> = new Set([
  ...["used_bytes", "free_bytes", "used_percent", "capacity_bytes", "raw_bytes", "fullest_percent", "asked"],
  ...["groups", "in_sync", "syncing", "named", "group_counts", "outlook", "stores", "serves", "alive"],
  ...["history", "late_seconds", "next_at", "runner"],
]);
/** So much of a value is shown. */
const MOST_SHOWN = 200;

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isPlain(value: unknown): boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

/** A value as a person reads it; a dash where there is none. */
function write(field: string, value: unknown): string {
  if (value === undefined || value === null || value === "") return "–";
  if (typeof value === "number" && field.endsWith("_bytes")) return formatBytes(value);
  if (Array.isArray(value) && value.length === 0) return "–";
  const text = Array.isArray(value) && value.every(isPlain) ? value.join(", ") : undefined;
  const whole = text ?? (isPlain(value) ? String(value) : JSON.stringify(value));
  return whole.length > MOST_SHOWN ? `${whole.slice(0, MOST_SHOWN)}…` : whole;
}

function compare(field: string, from: unknown, to: unknown): Difference[] {
  if (isRecord(from) && isRecord(to)) {
    const names = new Set([...Object.keys(from), ...Object.keys(to)]);
    const known = field === "" ? [...names].filter((name) => !FIGURES.has(name)) : [...names];
    return known.flatMap((name) => compare(field === "" ? name : `${field}.${name}`, from[name], to[name]));
  }
  const isSame = JSON.stringify(from ?? null) === JSON.stringify(to ?? null);
  return isSame ? [] : [{ field, from: write(field, from), to: write(field, to) }];
}

/** The fields that are others now; figures that change by themselves are left out. */
export function differencesOf(from: unknown, to: unknown): Difference[] {
  return compare("", from, to);
}
