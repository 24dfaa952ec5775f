import { describe, expect, it } from "vitest";
import {
  actionsOf,
  factsOf,
  forceLoss,
  lagOf,
  lastPoint,
  mirrorChange,
  mirrorValues,
  opened,
  passSums,
  readSeconds,
} from "../src/lib/mirrors";
import type { Fact, Mirror } from "../src/lib/mirrors";

const NOW = 1_800_000_000;

function mirror(given: Partial<Mirror> = {}): Mirror {
  return {
    name: "dr",
    id: "0f8fad5b-d9cb-469f-a165-70867728950e",
    role: "primary",
    epoch: 0,
    points: [7, 8, 9].map((number) => ({ name: `0-${number}`, cut_at: NOW - (10 - number) * 60, snapshots: "s" })),
    handed: false,
    split: false,
    volumes: ["db"],
    peer: { cluster: "c", addresses: [] },
    late_after_s: 180,
    interval_s: 60,
    keep: 3,
    never_deposed: false,
    ...given,
  };
}

const seen = (given: Partial<NonNullable<Mirror["seen"]>>) => ({
  ...{ role: "secondary", epoch: 0, handed: false, at: NOW },
  ...given,
});

describe("the facts of a mirror", () => {
  const fact = (name: string, ...objects: string[]): Fact => ({
    name,
    severity: "warning",
    objects,
    text: "",
    advice: "",
  });
  const facts = [
    fact("mirror-late", "dr"),
    fact("mirror-stalled", "other"),
    fact("node-gone", "dr"),
    fact("mirror-split", "dr"),
  ];
  it("are its own, the worst first", () =>
    expect(factsOf(facts, "dr").map(({ name }) => name)).toEqual(["mirror-split", "mirror-late"]));
});

describe("the lag", () => {
  it("a secondary knows by itself, but not when it was handed over", () => {
    expect(lagOf(mirror({ role: "secondary", lag_s: 75 }), NOW)).toBe(75);
    expect(lagOf(mirror({ role: "secondary", lag_s: 75, handed: true }), NOW)).toBeUndefined();
  });
  it("a primary knows by the point that it has seen the other one at", () => {
    expect(lagOf(mirror({ seen: seen({ point: "0-8" }) }), NOW)).toBe(120);
    expect(lagOf(mirror({ seen: seen({ point: "0-6" }) }), NOW)).toBeUndefined();
    expect(lagOf(mirror({ seen: seen({ point: "0-8", role: "deposed" }) }), NOW)).toBeUndefined();
    expect(lagOf(mirror(), NOW)).toBeUndefined();
  });
  it("is told by the points behind it where the clock was set back", () => {
    const points = [
      { name: "0-7", cut_at: NOW + 500, snapshots: "s" },
      { name: "0-8", cut_at: NOW - 30, snapshots: "s" },
    ];
    expect(lagOf(mirror({ points, seen: seen({ point: "0-7" }) }), NOW)).toBe(30);
  });
});

it("the last point is the newest of an end that cuts them, and else the one that it is at", () => {
  expect(lastPoint(mirror())?.name).toBe("0-9");
  expect(lastPoint(mirror({ role: "secondary", point: "0-8" }))?.name).toBe("0-8");
  expect(lastPoint(mirror({ role: "secondary", point: null }))).toBeUndefined();
});

it("a pass is as far as all of its volumes are", () => {
  const volume = { name: "db", done_bytes: 3, total_bytes: 8, written_bytes: 1, whole: false };
  expect(passSums({ to: "0-9", cut_at: NOW, volumes: [volume, { ...volume, done_bytes: 8 }] })).toEqual({
    ...{ done: 11, total: 16, written: 2 },
  });
});

describe("what may be done", () => {
  it.each([
    ["primary", ["set", "pause", "demote", "remove"]],
    ["secondary", ["set", "pause", "promote", "force"]],
    ["deposed", ["set", "pause", "resync", "force"]],
    ["demoting", ["set", "pause"]],
    ["of a later version", ["set", "pause"]],
  ])("at one that is %s", (role, actions) => expect(actionsOf({ role, volumes: ["db"] })).toEqual(actions));
  it("at one that never got volumes is to remove it, too", () => {
    expect(actionsOf({ role: "secondary", volumes: [] })).toContain("remove");
    expect(actionsOf({ role: "promoting", volumes: [] })).not.toContain("remove");
    expect(actionsOf({ role: "primary", volumes: [] })).toHaveLength(4);
  });
});

it("what is lost by force is what the other end has since the point, or all, or nothing of this one", () => {
  expect(forceLoss(mirror({ role: "secondary", point: "0-8" }))).toBe("since");
  expect(forceLoss(mirror({ role: "secondary", point: null }))).toBe("all");
  expect(forceLoss(mirror({ role: "deposed", point: "0-8" }))).toBe("other");
});

it("what is opened by a removal is told", () => {
  const pass = { to: "0-9", cut_at: NOW, volumes: [] };
  expect(opened({ role: "deposed", point: "0-8", pass: null })).toBe("as-written");
  expect(opened({ role: "secondary", point: "0-8", pass: null })).toBe("point");
  expect(opened({ role: "secondary", point: "0-8", pass })).toBe("begun");
  expect(opened({ role: "secondary", point: null, pass })).toBe("parts");
});

describe("a change", () => {
  const found = mirror({ limit_bytes_per_second: 100 * 2 ** 20, alert_after_s: 300 });
  const values = mirrorValues(found);
  it("begins with what is so", () =>
    expect(values).toEqual({ interval: 60, keep: 3, rate: "100M", alertAfter: "300" }));
  it("has what is another, and nothing else", () => {
    expect(mirrorChange(found, { ...values, interval: 30, alertAfter: " 90 " })).toEqual({
      body: { interval_s: 30, alert_after_s: 90 },
      command: "amita mirror set dr --interval 30s --alert-after 90s",
    });
    expect(mirrorChange(found, values)).toEqual({ body: {}, command: undefined });
  });
  it("takes limits away", () => {
    expect(mirrorChange(found, { ...values, rate: "", alertAfter: "", keep: 0 })).toEqual({
      body: { keep: 0, limit_bytes_per_second: null, alert_after_s: null },
      command: "amita mirror set dr --keep 0 --limit-rate 0 --alert-after 0s",
    });
  });
});

it.each([
  ["", null],
  [" 90 ", 90],
  ["0", undefined],
  ["-1", undefined],
  ["1.5", undefined],
  ["5m", undefined],
])("%j are seconds: %j", (text, seconds) => expect(readSeconds(text)).toBe(seconds));
