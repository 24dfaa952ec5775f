// Limits of the hosts of a volume, a tenant or a pool: what the dialog holds, and the body and the commands that it comes to.
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

/** Whose hosts are limited: those of a volume, or of all volumes of a tenant or a pool together. */
export interface Whose {
  readonly kind: "volume" | "tenant" | "pool";
  readonly name: string;
}

type Texts = Readonly<Record<LimitOption, string>>;

/** What is typed, by the option of each limit. */
export interface LimitValues {
  /** Empty: not limited. */
  readonly rates: Texts;
  /** How much may pass at once; empty: what is usual. */
  readonly bursts: Texts;
}

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

function texts(write: (measure: Measure, kind: Kind) => string): Texts {
  const written = LIMITS.map(([measure, kind, option]) => [option, write(measure, kind)]);
  return Object.fromEntries(written) as Record<LimitOption, string>;
}

/** What holds, as the dialog holds it. */
export function limitValues(limits: Limits): LimitValues {
  const text = (measure: Measure, count: number | null | undefined) => (count == null ? "" : write(measure, count));
  return {
    rates: texts((measure, kind) => text(measure, limitAt(limits, measure, kind)?.rate)),
    bursts: texts((measure, kind) => text(measure, limitAt(limits, measure, kind)?.burst)),
  };
}

/** A limit as it is to be: one whose rate stays keeps its peak, and its burst unless another one is typed; another rate has what is usual. */
function wanted(before: Limit | undefined, rate: number | null, burst: number | null): Limit | undefined {
  if (rate === null) return undefined;
  const stays = before?.rate === rate;
  const isSame = burst === (before?.burst ?? null);
  if (before !== undefined && stays && isSame) return before;
  const peak = stays ? before.peak : undefined;
  return { rate, ...(burst === null || (isSame && !stays) ? {} : { burst }), ...(peak == null ? {} : { peak }) };
}

/** Each limit: what it was, and what it is to be. */
function asked(found: Limits, { rates, bursts }: LimitValues) {
  return LIMITS.map(([measure, kind, option]) => {
    const before = limitAt(found, measure, kind);
    const read = (texts: Texts) => readRate(option, texts[option]) ?? null;
    return { measure, kind, option, before, limit: wanted(before, read(rates), read(bursts)) };
  });
}

/** All limits as they are to be. */
export function limitsBody(found: Limits, values: LimitValues): Limits {
  const body = { iops: {} as Record<Kind, Limit>, bandwidth: {} as Record<Kind, Limit> };
  for (const { measure, kind, limit } of asked(found, values)) if (limit !== undefined) body[measure][kind] = limit;
  return body;
}

/**
 * The commands that do the same; undefined where nothing is another. Those that are not named stay, so that one that goes takes all with it, and a
 * burst or a peak is of the one limit that is named.
 */
export function limitCommands({ kind, name }: Whose, found: Limits, values: LimitValues): string | undefined {
  const all = asked(found, values);
  const goes = all.some(({ before, limit }) => before !== undefined && limit === undefined);
  const plain: string[] = [];
  const alone: string[][] = [];
  for (const { measure, option, before, limit } of all) {
    if (limit === undefined || (limit === before && !goes)) continue;
    const words = [option, write(measure, limit.rate)];
    const { burst, peak } = limit;
    if (burst == null && peak == null) plain.push(...words);
    else {
      if (burst != null) words.push("--burst", write(measure, burst));
      if (peak != null) words.push("--peak", write(measure, peak.rate), "--for", String(peak.seconds));
      alone.push(words);
    }
  }
  const commands = [
    ...(goes ? [clearCommand({ kind, name })] : []),
    ...[plain, ...alone]
      .filter((words) => words.length > 0)
      .map((words) => amitaCommand(kind, "limit", "set", name, ...words)),
  ];
  return commands.length === 0 ? undefined : commands.join("\n");
}

export function clearCommand({ kind, name }: Whose): string {
  return amitaCommand(kind, "limit", "clear", name);
}

/** The figure of a volume's history that tells how much of a limit is used. */
export const USED: Readonly<Record<LimitOption, string>> = {
  "--iops": "iops",
  "--read-iops": "read-iops",
  "--write-iops": "write-iops",
  "--bandwidth": "bytes",
  "--read-bandwidth": "read-bytes",
  "--write-bandwidth": "write-bytes",
};

/** The options of those limits that hold. */
export function limitsSet(limits: Limits): readonly LimitOption[] {
  return LIMITS.filter(([measure, kind]) => limitAt(limits, measure, kind) !== undefined).map(([, , option]) => option);
}

/** How much was used, on the average of these points; undefined: nobody took figures. */
export function meanOf(points: readonly { readonly mean: number }[]): number | undefined {
  if (points.length === 0) return undefined;
  return points.reduce((sum, { mean }) => sum + mean, 0) / points.length;
}
