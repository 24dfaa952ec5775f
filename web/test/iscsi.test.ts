import { describe, expect, it } from "vitest";
import { call } from "../src/api/call";
import { curlCommand } from "../src/lib/command";
import {
  isIscsiName,
  isLunNumber,
  isPercent,
  iscsiName,
  lunObject,
  makeSecret,
  maskWith,
  nextLun,
  proofsChange,
  proofsOf,
  systemOf,
  targetChange,
  usualBlock,
} from "../src/lib/iscsi";

const IQN = "iqn.1993-08.org.debian:01:9c11913aa8b";

describe("blocks of a LUN", () => {
  it("are as where nobody says it", () => {
    expect([undefined, { encrypted: false }, { encrypted: true }].map(usualBlock)).toEqual(["512", "512", "4096"]);
  });
});

describe("names", () => {
  it.each([
    [IQN, true],
    [" IQN.1993-08.org.Debian:01:ABC ", true],
    ["eui.0123456789abcdef", true],
    ["naa.602414d400000000831e0a2b3c4d5e6f", true],
    ["naa.602414d4", false],
    ["iqn.1993-08.org.debian:a_b", false],
    ["iqn.1993.org", false],
    ["nqn.2014-08.org.example:a", false],
    ["", false],
  ])("%j", (name, is) => expect(isIscsiName(name)).toBe(is));

  it("are kept in small letters", () => expect(iscsiName(" IQN.1993-08.org:A ")).toBe("iqn.1993-08.org:a"));

  it.each([
    [IQN, "linux"],
    ["iqn.1998-01.com.vmware:esx-1", "esxi"],
    ["iqn.1991-05.com.microsoft:w.example.org", "windows"],
    ["eui.0123456789abcdef", "linux"],
  ] as const)("%s is one of %s", (name, system) => expect(systemOf(name)).toBe(system));
});

it.each([
  ["", true],
  ["0", true],
  ["16383", true],
  ["16384", false],
  ["-1", false],
  ["x", false],
])("%j as a number of a LUN", (text, is) => expect(isLunNumber(text)).toBe(is));

it.each([
  ["", true],
  ["3", true],
  ["100", true],
  ["2", false],
  ["101", false],
])("%j as a percentage", (text, is) => expect(isPercent(text)).toBe(is));

it("the next number is behind the highest; where there is none, the lowest that is free", () => {
  expect(nextLun([])).toBe(0);
  expect(nextLun([0, 7, 3])).toBe(8);
  expect(nextLun([0, 1, 16_383])).toBe(2);
});

describe("what an initiator sees", () => {
  const target = {
    ...{
      name: "t",
      iqn: "iqn.2026-11.io.amita:t",
      gateways: [],
      chap_required: false,
      initiators_move: false,
      luns: 3,
    },
    any_initiator: false,
    initiators: [
      { initiator: "iqn.1993-08.org:all", luns: null },
      { initiator: "iqn.1993-08.org:two", luns: [2, 0] },
    ],
  };
  it("is this LUN beside what it saw", () => {
    expect(maskWith(target, "iqn.1993-08.org:two", 1)).toEqual([0, 1, 2]);
    expect(maskWith(target, "iqn.1993-08.org:two", 2)).toEqual([0, 2]);
    expect(maskWith(target, "iqn.1993-08.org:new", 1)).toEqual([1]);
    expect(maskWith(undefined, "iqn.1993-08.org:new", 0)).toEqual([0]);
  });
  it("stays all where it was all", () => {
    expect(maskWith(target, "iqn.1993-08.org:all", 1)).toBe(null);
    expect(maskWith({ ...target, any_initiator: true }, "iqn.1993-08.org:new", 1)).toBe(null);
  });
});

it("a LUN is a volume, a snapshot, or nothing any more", () => {
  const lun = { target: "t", lun: 0, block_bytes: 512, shared: false, naa: "6", read_only: false };
  expect(lunObject({ ...lun, volume: "v", snapshot: null })).toBe("v");
  expect(lunObject({ ...lun, volume: "v", snapshot: "s", read_only: true })).toBe("v@s");
  expect(lunObject({ ...lun, volume: "v", snapshot: null, read_only: true })).toBe(undefined);
  expect(lunObject({ ...lun, volume: null, snapshot: null })).toBe(undefined);
});

it("a target is changed in what is another, and nothing else", () => {
  const from = {
    ...{ gateways: ["n1"], any_initiator: false, chap_required: false },
    ...{ initiators_move: false, warning: "" },
  };
  expect(targetChange("t", from, { ...from, gateways: [], chap_required: true, warning: "80" })).toEqual({
    body: { gateways: [], chap_required: true, space_warning_percent: 80 },
    command: "amita target set t --all-gateways --require-chap --space-warning 80",
  });
  const set = { ...from, any_initiator: true, chap_required: true, warning: "80" };
  expect(targetChange("t", set, { ...from, gateways: ["n2", "n1"] })).toEqual({
    body: { gateways: ["n2", "n1"], any_initiator: false, chap_required: false, space_warning_percent: null },
    command: "amita target set t --gateway n2 --gateway n1 --listed-initiators --allow-plain --usual-space-warning",
  });
  expect(targetChange("t", from, { ...from, initiators_move: true })).toEqual({
    body: { initiators_move: true },
    command: "amita target set t --initiators-move",
  });
  expect(targetChange("t", { ...from, initiators_move: true }, from).command).toBe(
    "amita target set t --operators-move",
  );
  expect(targetChange("t", from, from)).toEqual({ body: {}, command: undefined });
});

describe("what an initiator proves", () => {
  const made = { chap: "A".repeat(16), chap_target: "B".repeat(16) };
  const bare = { name: IQN, chap_user: IQN, chap_target_user: null, chap: false, chap_target: false, targets: [] };
  const both = { ...bare, chap: true, chap_target: true };
  const key = `amita initiator key ${IQN}`;

  it("is offered where it proves nothing, and stays where it does", () => {
    expect(proofsOf(bare)).toEqual({ secrets: "both", user: "", targetUser: "" });
    expect(proofsOf({ ...both, chap_user: "db", chap_target_user: "amita" })).toEqual({
      secrets: "keep",
      user: "db",
      targetUser: "amita",
    });
  });

  it.each([
    [bare, "both", made, "--generate-chap"],
    [bare, "one", { chap: made.chap }, "--generate-chap --one-way"],
    [both, "one", { chap: made.chap, chap_target: null }, "--generate-chap --remove-chap-target"],
    [both, "remove", { chap: null, chap_target: null }, "--remove-chap --remove-chap-target"],
    [{ ...bare, chap: true }, "remove", { chap: null }, "--remove-chap"],
  ] as const)("%# becomes what was chosen (%s)", (known, secrets, body, words) => {
    const change = proofsChange({ ...known, targets: [] }, { secrets, user: "", targetUser: "" }, made);
    expect(change).toEqual({ body, command: `${key} ${words}` });
  });

  it("has the names that are said", () => {
    const named = proofsChange(both, { secrets: "keep", user: " db ", targetUser: "amita" }, made);
    expect(named).toEqual({
      body: { chap_user: "db", chap_target_user: "amita" },
      command: `${key} --chap-user db --chap-target-user amita`,
    });
    const known = { ...both, chap_user: "db", chap_target_user: "amita" };
    expect(proofsChange(known, { secrets: "keep", user: IQN, targetUser: "" }, made)).toEqual({
      body: { chap_user: null, chap_target_user: null },
      command: `${key} --own-chap-user --own-chap-target-user`,
    });
    expect(proofsChange(both, proofsOf(both), made)).toEqual({ body: {}, command: undefined });
  });

  it("is made as the command line makes it, and stands in no command", () => {
    expect(makeSecret()).toMatch(/^[A-Za-z0-9._]{16}$/);
    expect(makeSecret()).not.toBe(makeSecret());
    const { body } = proofsChange(bare, { secrets: "both", user: "", targetUser: "" }, made);
    const path = { name: IQN };
    const asked = { ...call("patch", "/api/v1/initiators/{name}/keys", { params: { path }, body }), isSecret: true };
    const said = curlCommand(asked, "https://n1:7780", true);
    expect(said).toContain("--data @secrets.json");
    expect(said).not.toContain(made.chap);
    expect(said).not.toContain(made.chap_target);
  });
});
