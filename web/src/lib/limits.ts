// Limits of a volume's hosts: what the dialog holds, and the body and the commands that it comes to.
import type { components } from "../api/schema";
import { amitaCommand } from "./command";
import { bytesArgument, parseBytes } from "./format";

type Schemas = components["schemas"];
export type Limits = Schemas["VolumeLimits"];
export type Limit = Schemas["Limit"];

type Measure = "iops" | "bandwidth";
type Kind = "both" | "read" | "write";

/** Each limit that there can be: where it stands, and the option that sets it. */
export const LIMITS = [
  ["iops", "both", "--iops"],
  ["iops", "read", "--read-iops"],
  ["iops", "write", "--write-iops"],
  ["bandwidth", "both", "--bandwidth"],
  ["bandwidth", "read", "--read-bandwidth"],
  ["bandwidth", "write", "--write-bandwidth"],
] as const satisfies readonly (readonly [Measure, Kind, string])[];
export type LimitOption = (typeof LIMITS)[number][2];

/** Rates as they are typed, by the option of each; empty: not limited. */
export type LimitValues = Readonly<Record<LimitOption, string>>;

function limitAt(limits: Limits, measure: Measure, kind: Kind): Limit | undefined {
  return limits[measure]?.[kind] ?? undefined;
}

function write(measure: Measure, rate: number): string {
  return measure === "iops" ? String(rate) : bytesArgument(rate);
}

/** The rate that was typed: null where it is empty, undefined where it is none. */
export function readRate(option: LimitOption, text: string): number | null | undefined {
  const typed = text.trim();
  if (typed === "") return null;
  const isCount = LIMITS.some(([measure, , named]) => named === option && measure === "iops");
  const rate = isCount ? (/^\d+$/.test(typed) ? Number(typed) : undefined) : parseBytes(typed);
  return rate !== undefined && Number.isSafeInteger(rate) && rate > 0 ? rate : undefined;
}

/** What holds, as the dialog holds it. */
export function limitValues(limits: Limits): LimitValues {
  const typed = LIMITS.map(([measure, kind, option]) => {
    const found = limitAt(limits, measure, kind);
    return [option, found === undefined ? "" : write(measure, found.rate)];
  });
  return Object.fromEntries(typed) as Record<LimitOption, string>;
}

/** All limits as they are to be: one whose rate stays keeps its burst and its peak, another one gets what is usual. */
export function limitsBody(found: Limits, values: LimitValues): Limits {
  const body = { iops: {} as Record<Kind, Limit>, bandwidth: {} as Record<Kind, Limit> };
  for (const [measure, kind, option] of LIMITS) {
    const rate = readRate(option, values[option]);
    if (rate == null) continue;
    const before = limitAt(found, measure, kind);
    body[measure][kind] = before?.rate === rate ? before : { rate };
  }
  return body;
}

/** The commands that do the same; undefined where one limit goes and another one stays with a burst or a peak, which one command cannot say. */
export function limitCommands(name: string, found: Limits, values: LimitValues): string | undefined {
  const asked = LIMITS.map(([measure, kind, option]) => {
    const [before, rate] = [limitAt(found, measure, kind), readRate(option, values[option]) ?? undefined];
    return { before, rate, words: rate === undefined ? [] : [option, write(measure, rate)] };
  });
  const goes = asked.some(({ before, rate }) => before !== undefined && rate === undefined);
  const isKept = (one: (typeof asked)[number]) => one.before !== undefined && one.before.rate === one.rate;
  if (goes && asked.some((one) => isKept(one) && (one.before?.burst != null || one.before?.peak != null))) {
    return undefined;
  }
  const words = asked.filter((one) => goes || !isKept(one)).flatMap(({ words }) => words);
  const commands = [
    ...(goes ? [amitaCommand("volume", "limit", "clear", name)] : []),
    ...(words.length === 0 ? [] : [amitaCommand("volume", "limit", "set", name, ...words)]),
  ];
  return commands.length === 0 ? undefined : commands.join("\n");
}
