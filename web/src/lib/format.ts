// Numbers as people read them. Bytes are binary (KiB, MiB, ...), as the command line says them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** `1536` is `1.5 KiB`: three digits, no more. */
export function formatBytes(bytes: number): string {
  let value = Math.abs(bytes);
  let unit = 0;
  // 1023.6 KiB would be written as 1024 KiB: it is 1 MiB.
  while (unit < UNITS.length - 1 && Math.round(value * 10) / 10 >= 1024) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  const text = Number(value.toFixed(digits)).toString();
  return `${bytes < 0 ? "-" : ""}${text} ${UNITS[unit]}`;
}

const SIZE = /^(\d+(?:\.\d+)?)\s*([KMGTPE]?)(?:i?B)?$/i;

/** `10G`, `1.5 TiB`, `4096`: the bytes; undefined where it is no size. Letters are binary, as in the command line. */
export function parseBytes(text: string): number | undefined {
  const found = SIZE.exec(text.trim());
  if (found === null) return undefined;
  const power = " KMGTPE".indexOf((found[2] ?? "").toUpperCase() || " ");
  const bytes = Number(found[1]) * 1024 ** power;
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** The fewest bytes a second that copies, moves and mirrors are limited to. */
export const LEAST_RATE = 65_536;

/** A limit of bytes a second as a person writes it: null where nothing is, undefined where it is none, or less than the least. */
export function parseRate(text: string, least = LEAST_RATE): number | null | undefined {
  if (text.trim() === "") return null;
  const rate = parseBytes(text);
  return rate !== undefined && rate >= least ? rate : undefined;
}

/** Bytes as the command line takes them: `10G` where that is exact, else the number. */
export function bytesArgument(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && value % 1024 === 0 && unit < 6) {
    value /= 1024;
    unit += 1;
  }
  return `${value}${" KMGTPE"[unit]?.trim() ?? ""}`;
}

const STEPS: readonly (readonly [string, number])[] = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
];

/** `3700` seconds are `1 h 1 min`: the two largest units. */
export function formatDuration(seconds: number): string {
  let rest = Math.max(0, Math.round(seconds));
  const first = STEPS.findIndex(([, length]) => rest >= length);
  if (first < 0) return "0 s";
  const parts: string[] = [];
  for (const [name, length] of STEPS.slice(first, first + 2)) {
    const count = Math.floor(rest / length);
    rest -= count * length;
    if (count > 0) parts.push(`${count} ${name}`);
  }
  return parts.join(" ");
}

/** A share in whole percent; nothing of nothing is 0. A part that is there is 1 at least, one that is missing leaves 99. */
export function percent(part: number, whole: number): number {
  if (whole <= 0) return 0;
  const value = (part / whole) * 100;
  if (value > 0 && value < 1) return 1;
  if (value < 100 && value > 99) return 99;
  return Math.round(value);
}

export function formatCount(count: number, language: string): string {
  return new Intl.NumberFormat(language).format(count);
}

/** A moment in the time zone of whoever looks, to the second. */
export function formatTime(milliseconds: number, language: string): string {
  const format = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
  return format.format(new Date(milliseconds));
}
