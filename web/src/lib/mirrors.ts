// Mirrors: how far an end is, what the cluster's facts say of it, what may be done at it, and what a change of it comes to.
import type { components } from "../api/schema";
import { amitaCommand } from "./command";
import { bytesArgument, parseRate } from "./format";

type Schemas = components["schemas"];
export type Mirror = Schemas["MirrorShown"];
export type Point = Schemas["MirrorPointShown"];
export type Pass = Schemas["MirrorPassShown"];
export type Fact = Schemas["Fact"];

/** Points follow each other no faster, in seconds. */
export const LEAST_INTERVAL_S = 10;
/** So many points may be kept beside the one that an end is at. */
export const MOST_KEPT = 252;

/** The worst first. */
export const MIRROR_FACTS = [
  "mirror-deposed",
  "mirror-split",
  "mirror-stalled",
  "mirror-unheard",
  "mirror-late",
] as const;
export type MirrorFact = (typeof MIRROR_FACTS)[number];

/** What the facts of the cluster say of a mirror, the worst first. */
export function factsOf(facts: readonly Fact[], name: string): readonly (Fact & { readonly name: MirrorFact })[] {
  return MIRROR_FACTS.flatMap((known) =>
    facts.flatMap((fact) => (fact.name === known && fact.objects.includes(name) ? [{ ...fact, name: known }] : [])),
  );
}

/**
 * How old the point is that the secondary is at, in seconds: that knows it by itself, and the primary by what it has seen of it.
 * `now`: seconds since 1970. undefined: nobody knows it, or nobody follows.
 */
export function lagOf({ role, handed, lag_s, seen, points }: Mirror, now: number): number | undefined {
  if (role === "secondary") return handed ? undefined : (lag_s ?? undefined);
  if (role !== "primary" || seen?.role !== "secondary") return undefined;
  const own = points.findIndex(({ name }) => name === seen.point);
  if (own < 0) return undefined;
  // Those behind it were cut later; where the clock was set back since, its own time is of the future.
  return Math.max(...points.slice(own).map(({ cut_at }) => Math.max(0, Math.floor(now - cut_at))));
}

/** The newest point of an end that cuts them, and the one that any other end is at. */
export function lastPoint({ role, point, points }: Mirror): Point | undefined {
  if (role === "primary" || role === "demoting") return points.at(-1);
  return points.find(({ name }) => name === point);
}

/** How far a pass is: bytes that were looked at, of how many, and those that were brought. */
export function passSums({ volumes }: Pass): { done: number; total: number; written: number } {
  const sums = { done: 0, total: 0, written: 0 };
  for (const { done_bytes, total_bytes, written_bytes } of volumes) {
    sums.done += done_bytes;
    sums.total += total_bytes;
    sums.written += written_bytes;
  }
  return sums;
}

export type MirrorAction = "pause" | "set" | "demote" | "promote" | "force" | "resync" | "remove";

/** What may be done at an end by what it is; what is left out the API would refuse. */
const ACTIONS: Readonly<Record<string, readonly MirrorAction[]>> = {
  primary: ["demote", "remove"],
  secondary: ["promote", "force"],
  deposed: ["resync", "force"],
};

export function actionsOf({ role, volumes }: Pick<Mirror, "role" | "volumes">): readonly MirrorAction[] {
  const known = ACTIONS[role] ?? [];
  // One that never got any volumes has nothing of which it would have to be said what becomes of it.
  const isEmpty = volumes.length === 0 && known.length > 0 && !known.includes("remove");
  return ["set", "pause", ...known, ...(isEmpty ? (["remove"] as const) : [])];
}

/** What is lost when an end is promoted by force. */
export type ForceLoss =
  /** What the other end has written since the split, when that is resynced. */
  | "other"
  /** What the other end has acknowledged since this end's point. */
  | "since"
  /** Everything: this end was at no point yet. */
  | "all";

export function forceLoss(mirror: Mirror): ForceLoss {
  if (mirror.role === "deposed") return "other";
  return mirror.point == null ? "all" : "since";
}

/** What becomes of the volumes of an end that is no primary when it is removed. */
export type Opened =
  /** They are as they were written since the split. */
  | "as-written"
  /** They are what the point is. */
  | "point"
  /** They are of no one moment, or empty: that end was never at a point. */
  | "parts"
  /** A pass was begun since its point: it is promoted by force first. */
  | "begun";

export function opened({ role, point, pass }: Pick<Mirror, "role" | "point" | "pass">): Opened {
  if (role === "deposed") return "as-written";
  if (point == null) return "parts";
  return pass == null ? "point" : "begun";
}

/** What the dialog of a change holds; what is typed is empty where there is no limit, and where the usual lag is late. */
export interface MirrorValues {
  readonly interval: number;
  readonly keep: number;
  readonly rate: string;
  /** Seconds. */
  readonly alertAfter: string;
}

export function mirrorValues({ interval_s, keep, limit_bytes_per_second: rate, alert_after_s: after }: Mirror) {
  return {
    interval: interval_s,
    keep,
    rate: rate == null ? "" : bytesArgument(rate),
    alertAfter: after == null ? "" : String(after),
  };
}

/** Whole seconds that were typed: null where nothing is, undefined where it is no number of seconds. */
export function readSeconds(text: string): number | null | undefined {
  const typed = text.trim();
  if (typed === "") return null;
  const seconds = /^\d+$/.test(typed) ? Number(typed) : 0;
  return Number.isSafeInteger(seconds) && seconds > 0 ? seconds : undefined;
}

/** What makes a mirror work so; what stays is not said. */
export function mirrorChange(
  mirror: Mirror,
  values: MirrorValues,
): { body: Schemas["MirrorChanges"]; command: string | undefined } {
  const body: Schemas["MirrorChanges"] = {};
  const words: string[] = [];
  if (values.interval !== mirror.interval_s) {
    body.interval_s = values.interval;
    words.push("--interval", `${values.interval}s`);
  }
  if (values.keep !== mirror.keep) {
    body.keep = values.keep;
    words.push("--keep", String(values.keep));
  }
  const rate = parseRate(values.rate) ?? null;
  if (rate !== (mirror.limit_bytes_per_second ?? null)) {
    body.limit_bytes_per_second = rate;
    words.push("--limit-rate", rate === null ? "0" : bytesArgument(rate));
  }
  const after = readSeconds(values.alertAfter) ?? null;
  if (after !== (mirror.alert_after_s ?? null)) {
    body.alert_after_s = after;
    words.push("--alert-after", `${after ?? 0}s`);
  }
  return { body, command: words.length === 0 ? undefined : amitaCommand("mirror", "set", mirror.name, ...words) };
}
