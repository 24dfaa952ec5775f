// Links between nodes that are bad: as rows of a table, as a matrix, and who is to blame for them.
import type { components } from "../api/schema";
import type { Translate, Word } from "../i18n";
import { wordOf } from "./known";

type Schemas = components["schemas"];
export type Links = Schemas["Links"];
export type LeftLinks = Schemas["LeftLinks"];
export type BadLink = Schemas["BadLink"];
export type SickPart = Schemas["SickPart"];

export interface LinkRow extends BadLink {
  readonly id: string;
}

/** Each direction is a row of its own, by each network. */
export function linkRows(links: readonly BadLink[]): LinkRow[] {
  return links.map((link) => ({ ...link, id: JSON.stringify([link.from, link.to, link.network]) }));
}

const NETWORKS: Readonly<Record<Schemas["LinkNetwork"], Word>> = {
  first: "link.network.first",
  second: "link.network.second",
};

/** Which network it is; a node of an older version does not say. */
export function networkText(network: Schemas["LinkNetwork"] | null | undefined, t: Translate): string {
  return network == null ? t("unknown") : wordOf(NETWORKS, network, t);
}

/** What was left for the other network; a node of an older version does not say. */
export function leftOf(links: Partial<Pick<Links, "left">> | undefined): LeftLinks {
  return links?.left ?? { bad: 0, sick: [], links: [] };
}

/** `25000` of a million is `2.5 %`: two digits behind the point where that says something. */
export function lossText(ppm: number): string {
  const percent = ppm / 10_000;
  return `${Number(percent.toFixed(percent < 10 ? 2 : 0))} %`;
}

/** Microseconds as people read them: `250 µs`, `12.5 ms`. */
export function microseconds(us: number): string {
  return us < 1_000 ? `${us} µs` : `${Number((us / 1_000).toFixed(1))} ms`;
}

export interface Matrix {
  /** Those who send, and those who are sent to, the one with the most bad links first. */
  readonly from: readonly string[];
  readonly to: readonly string[];
  readonly find: (from: string, to: string) => BadLink | undefined;
}

/** More nodes than these are no matrix that a person reads. */
const MOST_NODES = 24;

function byCount(names: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort(([a, x], [b, y]) => y - x || a.localeCompare(b, "en", { numeric: true })).map(([one]) => one);
}

/** Who is bad to whom; undefined: nobody is, or so many that a table says more. */
export function matrixOf(links: readonly BadLink[]): Matrix | undefined {
  const from = byCount(links.map((link) => link.from));
  const to = byCount(links.map((link) => link.to));
  if (from.length === 0 || from.length > MOST_NODES || to.length > MOST_NODES) return undefined;
  const key = (from: string, to: string) => JSON.stringify([from, to]);
  // Of two networks the worse one, which stands first.
  const known = new Map([...links].reverse().map((link) => [key(link.from, link.to), link]));
  return { from, to, find: (from, to) => known.get(key(from, to)) };
}

export interface Sick {
  readonly nodes: ReadonlySet<string>;
  /** Racks by `rackKey`. */
  readonly racks: ReadonlySet<string>;
  readonly isNetwork: boolean;
}

export function rackKey(site: string, rack: string): string {
  return JSON.stringify([site, rack]);
}

/** Whom to mark: of a link between two nodes both. */
export function sickOf(parts: readonly SickPart[]): Sick {
  const nodes = parts.filter(({ kind }) => kind === "node" || kind === "link").flatMap(({ names }) => names);
  const racks = parts.filter(({ kind }) => kind === "rack").map(({ names }) => rackKey(names[0] ?? "", names[1] ?? ""));
  return { nodes: new Set(nodes), racks: new Set(racks), isNetwork: parts.some(({ kind }) => kind === "network") };
}
