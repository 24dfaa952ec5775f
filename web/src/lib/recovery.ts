// The settings of recovery: what of them was changed, and the commands that change the same.
import type { components } from "../api/schema";
import { amitaCommand } from "./command";
import { bytesArgument } from "./format";

type Schemas = components["schemas"];
type Recovery = Schemas["Recovery"];
type Change = Schemas["RecoveryChange"];
type Limits = Schemas["Limits"];

export const LEVELS = ["critical", "degraded", "rebalance", "scrub"] as const;
export type RecoveryLevel = (typeof LEVELS)[number];

interface Changed {
  readonly body: Change;
  /** None where nothing is to be another. */
  readonly command: string | undefined;
}

function changed(body: Change, words: readonly string[]): Changed {
  return { body, command: words.length === 0 ? undefined : amitaCommand("recovery", "set", ...words) };
}

/** Where `to` is not as `from` is. */
function differences<T extends object>(from: T, to: T): Partial<T> {
  const keys = (Object.keys(to) as (keyof T)[]).filter((key) => to[key] !== from[key]);
  return Object.fromEntries(keys.map((key) => [key, to[key]])) as Partial<T>;
}

export type Manner = Pick<Recovery, "automatic" | "p99_percent" | "iops_percent" | "least_bytes_per_second">;

/** How recovery gives way to clients. */
export function changeManner(from: Manner, to: Manner): Changed {
  const body = differences(from, to);
  const words: string[] = [];
  if (body.automatic !== undefined) words.push("--mode", body.automatic ? "automatic" : "limits");
  if (body.p99_percent !== undefined) words.push("--p99", String(body.p99_percent));
  if (body.iops_percent !== undefined) words.push("--client-iops", String(body.iops_percent));
  if (body.least_bytes_per_second !== undefined) {
    words.push("--least-bandwidth", bytesArgument(body.least_bytes_per_second));
  }
  return changed(body, words);
}

/** What recovery of one level may take. */
export function changeLimits(level: RecoveryLevel, from: Limits, to: Limits): Changed {
  const body = differences(from, to);
  const words: string[] = [];
  if (body.bytes_per_second !== undefined) words.push("--bandwidth", bytesArgument(body.bytes_per_second));
  if (body.iops !== undefined) words.push("--iops", String(body.iops));
  if (body.windows !== undefined) words.push("--windows", String(body.windows));
  return changed({ [level]: body }, words.length === 0 ? [] : ["--level", level, ...words]);
}

/** What becomes of slow stores. */
export function changeSlowStores(from: Schemas["SlowStores"], to: Schemas["SlowStores"]): Changed {
  const body = differences(from, to);
  const words: string[] = [];
  if (body.policy !== undefined) words.push("--slow-stores", body.policy);
  if (body.after_seconds !== undefined) words.push("--slow-after", String(body.after_seconds));
  if (body.rest_seconds !== undefined) words.push("--slow-rest", String(body.rest_seconds));
  if (body.per_hour !== undefined) words.push("--slow-per-hour", String(body.per_hour));
  return changed({ slow_stores: body }, words);
}

/** What becomes of nodes whose network is sick. */
export function changeSickNetworks(from: Schemas["SickNetworks"], to: Schemas["SickNetworks"]): Changed {
  const body = differences(from, to);
  const words: string[] = [];
  if (body.policy !== undefined) words.push("--sick-networks", body.policy);
  if (body.after_seconds !== undefined) words.push("--sick-after", String(body.after_seconds));
  if (body.rest_seconds !== undefined) words.push("--sick-rest", String(body.rest_seconds));
  if (body.per_hour !== undefined) words.push("--sick-per-hour", String(body.per_hour));
  return changed({ sick_networks: body }, words);
}

/** What becomes of stores whose disks predict their failure. */
export function changeSickDisks(from: Schemas["SickDisks"], to: Schemas["SickDisks"]): Changed {
  return to === from ? changed({}, []) : changed({ sick_disks: to }, ["--sick-disks", to]);
}

/** Percents as a person writes them: `75, 85, 95`; undefined where they are not three that ascend. */
export function readPercents(text: string): number[] | undefined {
  const percents = text.split(",").map((part) => Number(part.trim() === "" ? Number.NaN : part));
  const fine = percents.length === 3 && percents.every((one) => Number.isInteger(one) && one >= 1 && one <= 100);
  const ascend = percents.every((one, index) => index === 0 || one > percents[index - 1]!);
  return fine && ascend ? percents : undefined;
}
