// A heat map as numbers: how dark each field is.

export interface Heat {
  readonly bounds_ns: readonly number[];
  readonly columns: readonly { readonly at: number; readonly counts: readonly number[] }[];
}

/** Of 0 to 1: by the logarithm, so that the one slow I/O among a million is seen. */
export function shade(count: number, most: number): number {
  if (count <= 0 || most <= 0) return 0;
  return 0.12 + (0.88 * Math.log1p(count)) / Math.log1p(most);
}

export function most({ columns }: Heat): number {
  return columns.reduce((most, { counts }) => Math.max(most, ...counts), 0);
}

export interface Field {
  readonly column: number;
  readonly row: number;
}

/** Which field lies at a place of the picture, counted from its upper left; undefined: none. */
export function fieldAt(heat: Heat, x: number, y: number, from: number, to: number, step: number): Field | undefined {
  const rows = heat.bounds_ns.length - 1;
  const at = from + x * (to - from);
  const column = heat.columns.findIndex((one) => at >= one.at && at < one.at + step);
  const row = rows - 1 - Math.floor(y * rows);
  return column < 0 || row < 0 || row >= rows ? undefined : { column, row };
}
