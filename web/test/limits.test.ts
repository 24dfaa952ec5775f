import { describe, expect, it } from "vitest";
import { clearCommand, limitCommands, limitsBody, limitsSet, limitValues, meanOf, readRate } from "../src/lib/limits";
import type { LimitOption, Limits, LimitValues } from "../src/lib/limits";

const NONE = limitValues({});
const FOUND: Limits = {
  iops: { both: { rate: 500, burst: 60, peak: { rate: 2000, seconds: 30 } }, write: { rate: 100 } },
  bandwidth: { read: { rate: 8 * 2 ** 20, burst: null, peak: null } },
};
type Texts = Partial<Record<LimitOption, string>>;
/** What the dialog holds when these were typed. */
function values(rates: Texts, bursts: Texts = {}, found: Limits = FOUND): LimitValues {
  const held = limitValues(found);
  return { rates: { ...held.rates, ...rates }, bursts: { ...held.bursts, ...bursts } };
}
const db = { kind: "volume", name: "db" } as const;

it("what holds is what the dialog begins with", () => {
  const nothing = {
    ...{ "--iops": "", "--read-iops": "", "--write-iops": "" },
    ...{ "--bandwidth": "", "--read-bandwidth": "", "--write-bandwidth": "" },
  };
  expect(NONE).toEqual({ rates: nothing, bursts: nothing });
  expect(limitValues(FOUND)).toEqual({
    rates: { ...nothing, "--iops": "500", "--write-iops": "100", "--read-bandwidth": "8M" },
    bursts: { ...nothing, "--iops": "60" },
  });
  expect(limitsSet(FOUND)).toEqual(["--iops", "--write-iops", "--read-bandwidth"]);
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
    expect(limitsBody(FOUND, values({ "--iops": "600" })).iops?.both).toEqual({ rate: 600 });
  });

  it("has the burst that was typed, also where the rate stays", () => {
    const peak = { rate: 2000, seconds: 30 };
    expect(limitsBody(FOUND, values({}, { "--iops": "90" })).iops?.both).toEqual({ rate: 500, burst: 90, peak });
    expect(limitsBody(FOUND, values({}, { "--iops": "" })).iops?.both).toEqual({ rate: 500, peak });
    expect(limitsBody(FOUND, values({ "--iops": "600" }, { "--iops": "90" })).iops?.both).toEqual({
      ...{ rate: 600, burst: 90 },
    });
  });

  it("names in the command what changes", () => {
    const whose = { kind: "volume", name: "db 1" } as const;
    expect(limitCommands(whose, FOUND, values({ "--write-iops": "200" }))).toBe(
      "amita volume limit set 'db 1' --write-iops 200",
    );
    expect(limitCommands(db, FOUND, values({}))).toBeUndefined();
  });

  it("of a burst is a command of its own", () => {
    const typed = values({ "--write-iops": "200", "--bandwidth": "1M" }, { "--bandwidth": "4M" });
    expect(limitCommands({ kind: "tenant", name: "acme" }, FOUND, typed)).toBe(
      "amita tenant limit set acme --write-iops 200\namita tenant limit set acme --bandwidth 1M --burst 4M",
    );
  });

  it("that takes one away says anew what stays, each with its burst and its peak", () => {
    const found: Limits = { iops: { read: { rate: 10 }, write: { rate: 20 } } };
    expect(limitCommands(db, found, values({ "--read-iops": "" }, {}, found))).toBe(
      "amita volume limit clear db\namita volume limit set db --write-iops 20",
    );
    expect(limitCommands({ kind: "pool", name: "p" }, found, NONE)).toBe("amita pool limit clear p");
    expect(limitCommands(db, FOUND, values({ "--write-iops": "" }))).toBe(
      "amita volume limit clear db\namita volume limit set db --read-bandwidth 8M\n" +
        "amita volume limit set db --iops 500 --burst 60 --peak 2000 --for 30",
    );
    expect(clearCommand(db)).toBe("amita volume limit clear db");
  });
});

it("what is used is the average of what is known", () => {
  expect(meanOf([{ mean: 10 }, { mean: 20 }])).toBe(15);
  expect(meanOf([])).toBeUndefined();
});
