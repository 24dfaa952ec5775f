import { describe, expect, it } from "vitest";
import { bytesOf, joined } from "../src/lib/extents";
import type { Extent } from "../src/lib/extents";

const extent = (offset: number, length: number, kind: Extent["kind"] = "data"): Extent => ({ offset, length, kind });

describe("pieces of what was changed", () => {
  it("go on with the extent that ended with the piece before", () => {
    const known = [extent(0, 4096, "zero"), extent(8192, 4096)];
    expect(joined(known, [extent(12288, 8192), extent(40960, 4096)])).toEqual([
      extent(0, 4096, "zero"),
      extent(8192, 12288),
      extent(40960, 4096),
    ]);
  });

  it("stay apart where they differ, or do not touch", () => {
    const known = [extent(0, 4096)];
    expect(joined(known, [extent(4096, 4096, "zero")])).toHaveLength(2);
    expect(joined(known, [extent(8192, 4096)])).toHaveLength(2);
    expect(joined(known, [])).toEqual(known);
    expect(joined([], known)).toEqual(known);
  });

  it("are counted by kind", () => {
    const all = [extent(0, 4096), extent(8192, 8192), extent(65536, 1024, "zero")];
    expect([bytesOf(all, "data"), bytesOf(all, "zero")]).toEqual([12288, 1024]);
  });
});
