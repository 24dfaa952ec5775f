// What was changed in a volume, as it comes in pieces.
import type { components } from "../api/schema";

export type Extent = components["schemas"]["ChangedExtent"];

/** A piece behind those that are known: an extent that ended with the last one may go on. */
export function joined(known: readonly Extent[], piece: readonly Extent[]): readonly Extent[] {
  const last = known.at(-1);
  const [first, ...rest] = piece;
  if (last === undefined || first === undefined) return [...known, ...piece];
  if (last.kind !== first.kind || last.offset + last.length !== first.offset) return [...known, ...piece];
  return [...known.slice(0, -1), { ...last, length: last.length + first.length }, ...rest];
}

/** How many bytes there are of a kind. */
export function bytesOf(extents: readonly Extent[], kind: Extent["kind"]): number {
  return extents.filter((extent) => extent.kind === kind).reduce((sum, { length }) => sum + length, 0);
}
