import { describe, expect, it } from "vitest";
import { bytesArgument, formatBytes, formatDuration, parseBytes, parseRate, percent } from "../src/lib/format";

describe("bytes", () => {
  it.each([
    [0, "0 B"],
    [1023, "1023 B"],
    [1024, "1 KiB"],
    [1536, "1.5 KiB"],
    [1024 ** 2 - 1, "1 MiB"],
    [123 * 1024 ** 3, "123 GiB"],
    [1.25 * 1024 ** 4, "1.25 TiB"],
    [-2048, "-2 KiB"],
    [Number.MAX_SAFE_INTEGER, "8 PiB"],
  ])("%d is written %s", (bytes, text) => expect(formatBytes(bytes)).toBe(text));

  it.each([
    ["4096", 4096],
    ["10G", 10 * 1024 ** 3],
    ["1.5T", 1.5 * 1024 ** 4],
    [" 2 GiB ", 2 * 1024 ** 3],
    ["3kb", 3072],
  ])("%j is read as %d", (text, bytes) => expect(parseBytes(text)).toBe(bytes));

  it.each(["", "G", "-1G", "1.0001", "10X", "1e3", "99999P"])("%j is no size", (text) =>
    expect(parseBytes(text)).toBeUndefined(),
  );

  it.each([
    ["", null],
    [" 64K ", 65_536],
    ["65535", undefined],
    ["fast", undefined],
  ])("%j a second are %j", (text, rate) => expect(parseRate(text)).toBe(rate));

  it("a second may be fewer where that is said", () => expect(parseRate("1", 1)).toBe(1));

  it("are given to the command line exactly", () => {
    expect(bytesArgument(10 * 1024 ** 3)).toBe("10G");
    expect(bytesArgument(4096)).toBe("4K");
    expect(bytesArgument(1.5 * 1024 ** 4)).toBe("1536G");
    expect(bytesArgument(1000)).toBe("1000");
    for (const bytes of [1, 4096, 12_345_678 * 4096, 7 * 1024 ** 5])
      expect(parseBytes(bytesArgument(bytes))).toBe(bytes);
  });
});

it.each([
  [0, "0 s"],
  [-5, "0 s"],
  [59.6, "1 min"],
  [3700, "1 h 1 min"],
  [3601, "1 h"],
  [90_061, "1 d 1 h"],
])("%d seconds are %s", (seconds, text) => expect(formatDuration(seconds)).toBe(text));

it("a part that is there is not 0 percent, and one that is missing leaves less than 100", () => {
  expect([
    percent(0, 0),
    percent(0, 10),
    percent(1, 10_000),
    percent(9_999, 10_000),
    percent(10, 10),
    percent(1, 3),
  ]).toEqual([0, 0, 1, 99, 100, 33]);
});
