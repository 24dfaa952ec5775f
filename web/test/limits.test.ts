import { describe, expect, it } from "vitest";
import { limitCommands, limitsBody, limitValues, readRate } from "../src/lib/limits";
import type { Limits, LimitValues } from "../src/lib/limits";

const NONE = limitValues({});
const FOUND: Limits = {
  iops: { both: { rate: 500, burst: 60, peak: { rate: 2000, seconds: 30 } }, write: { rate: 100 } },
  bandwidth: { read: { rate: 8 * 2 ** 20, burst: null, peak: null } },
};
const values = (change: Partial<LimitValues>): LimitValues => ({ ...limitValues(FOUND), ...change });

it("what holds is what the dialog begins with", () => {
  expect(NONE).toEqual({
    ...{ "--iops": "", "--read-iops": "", "--write-iops": "" },
    ...{ "--bandwidth": "", "--read-bandwidth": "", "--write-bandwidth": "" },
  });
  expect(limitValues(FOUND)).toMatchObject({ "--iops": "500", "--write-iops": "100", "--read-bandwidth": "8M" });
});

describe("a rate", () => {
  it.each([
    ["--iops", " 500 ", 500],
    ["--iops", "", null],
    ["--iops", "0", undefined],
    ["--iops", "5K", undefined],
    ["--iops", "-1", undefined],
    ["--iops", "99999999999999999999", undefined],
    ["--bandwidth", "10M", 10 * 2 ** 20],
    ["--bandwidth", "10 parsecs", undefined],
    ["--bandwidth", "0", undefined],
  ] as const)("%s %j is %j", (option, text, rate) => expect(readRate(option, text)).toBe(rate));
});

describe("a change", () => {
  it("keeps burst and peak of what stays, and no others", () => {
    const body = limitsBody(FOUND, values({ "--write-iops": "200", "--read-bandwidth": "", "--bandwidth": "1M" }));
    expect(body).toEqual({
      iops: { both: FOUND.iops?.both, write: { rate: 200 } },
      bandwidth: { both: { rate: 2 ** 20 } },
    });
  });

  it("names in the command what changes", () => {
    expect(limitCommands("db 1", FOUND, values({ "--write-iops": "200" }))).toBe(
      "amita volume limit set 'db 1' --write-iops 200",
    );
    expect(limitCommands("db", FOUND, values({}))).toBeUndefined();
  });

  it("that takes one away is two commands, where they can say it", () => {
    const found: Limits = { iops: { read: { rate: 10 }, write: { rate: 20 } } };
    expect(limitCommands("db", found, { ...limitValues(found), "--read-iops": "" })).toBe(
      "amita volume limit clear db\namita volume limit set db --write-iops 20",
    );
    expect(limitCommands("db", found, NONE)).toBe("amita volume limit clear db");
    // The peak of what stays would be lost.
    expect(limitCommands("db", FOUND, values({ "--write-iops": "" }))).toBeUndefined();
  });
});
