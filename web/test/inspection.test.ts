import { describe, expect, it } from "vitest";
import { translator } from "../src/i18n";
import { en } from "../src/i18n/en";
import { addressesOf } from "../src/lib/addresses";
import { groupRows } from "../src/lib/groups";
import { blindRows, findingRows, placeOf } from "../src/lib/inspection";
import { leftOf, linkRows, lossText, matrixOf, microseconds, networkText, rackKey, sickOf } from "../src/lib/links";
import type { BadLink } from "../src/lib/links";
import { recoveryOf } from "../src/lib/jobs";
import type { JobRow } from "../src/lib/jobs";
import { changeSickDisks, changeSickNetworks } from "../src/lib/recovery";

function link(from: string, to: string, given: Partial<BadLink> = {}): BadLink {
  const figures = { sent: 100, lost: 5, loss_ppm: 50_000, round_trip_us: 200, least_us: 100 };
  return { from, to, network: "first", trouble: "loss", ...figures, ...given };
}

describe("links", () => {
  it("are rows, a direction and a network each", () => {
    const rows = linkRows([link("a", "b"), link("a", "b", { network: "second" }), link("b", "a"), link('a","b', "c")]);
    expect(new Set(rows.map(({ id }) => id)).size).toBe(4);
  });
  it("are of a network, where the node that answers says of which", () => {
    const t = translator(en);
    expect([networkText("first", t), networkText("second", t), networkText(undefined, t)]).toEqual([
      en["link.network.first"],
      en["link.network.second"],
      en.unknown,
    ]);
    // Of a newer server.
    expect(networkText("third" as "first", t)).toBe("third");
    const left = { bad: 1, sick: [], links: [link("a", "b", { network: "second" })] };
    expect([leftOf({ left }), leftOf({}).links, leftOf(undefined).bad]).toEqual([left, [], 0]);
  });
  it.each([
    [0, "0 %"],
    [123, "0.01 %"],
    [25_000, "2.5 %"],
    [99_999, "10 %"],
    [1_000_000, "100 %"],
  ])("%d of a million are %s", (ppm, text) => expect(lossText(ppm)).toBe(text));
  it.each([
    [250, "250 µs"],
    [12_540, "12.5 ms"],
    [2_000_000, "2000 ms"],
  ])("%d microseconds are %s", (us, text) => expect(microseconds(us)).toBe(text));
  it("are a matrix, with those first who have the most bad ones", () => {
    const matrix = matrixOf([link("a", "x"), link("b", "x"), link("b", "n10"), link("b", "n9"), link("a", "n9")])!;
    expect([matrix.from, matrix.to]).toEqual([
      ["b", "a"],
      ["n9", "x", "n10"],
    ]);
    expect([matrix.find("a", "x")?.loss_ppm, matrix.find("a", "n10")]).toEqual([50_000, undefined]);
  });
  it("are in a matrix by the worse of two networks, which stands first", () => {
    const matrix = matrixOf([link("a", "x", { trouble: "cut", network: "second" }), link("a", "x")])!;
    expect([matrix.find("a", "x")?.trouble, matrix.from, matrix.to]).toEqual(["cut", ["a"], ["x"]]);
  });
  it("are no matrix where nothing is bad, or so much that nobody reads it", () => {
    expect(matrixOf([])).toBeUndefined();
    expect(matrixOf(Array.from({ length: 25 }, (_, index) => link(`n${index}`, "x")))).toBeUndefined();
    expect(matrixOf(Array.from({ length: 24 }, (_, index) => link("x", `n${index}`)))?.to.length).toBe(24);
  });
  it("mark nodes, racks of their sites, and both ends of a link", () => {
    const part = { what: "", evidence: "" };
    const sick = sickOf([
      { ...part, kind: "rack", names: ["east", "r1"] },
      { ...part, kind: "node", names: ["n1"] },
      { ...part, kind: "link", names: ["n2", "n3"] },
    ]);
    expect([[...sick.nodes], sick.isNetwork]).toEqual([["n1", "n2", "n3"], false]);
    expect([sick.racks.has(rackKey("east", "r1")), sick.racks.has(rackKey("west", "r1"))]).toEqual([true, false]);
    expect(sickOf([{ ...part, kind: "network", names: [] }]).isNetwork).toBe(true);
  });
});

describe("settings of what is sick", () => {
  const networks = { policy: "propose", after_seconds: 60, rest_seconds: 600, per_hour: 2 } as const;
  it("are changed by what is another", () => {
    expect(changeSickNetworks(networks, { ...networks, policy: "avoid", per_hour: 1, rest_seconds: 60 })).toEqual({
      body: { sick_networks: { policy: "avoid", rest_seconds: 60, per_hour: 1 } },
      command: "amita recovery set --sick-networks avoid --sick-rest 60 --sick-per-hour 1",
    });
    expect(changeSickNetworks(networks, networks)).toEqual({ body: { sick_networks: {} }, command: undefined });
    expect(changeSickDisks("propose", "drain")).toEqual({
      body: { sick_disks: "drain" },
      command: "amita recovery set --sick-disks drain",
    });
    expect(changeSickDisks("off", "off")).toEqual({ body: {}, command: undefined });
  });
});

describe("the addresses of a node", () => {
  const node = {
    ...{ name: "n1:4", id: 1, alive: true, cores: 2, fabric: "10.0.0.1:7700", site: "", rack: "r:9" },
    ...{ maintenance: false, gateway: false, client: false, unprotected: false, nvme: null, api: "127.0.0.1:7780" },
    iscsi: [] as string[],
    iscsi_tag: null,
  };
  it("are those that it has", () =>
    expect(addressesOf(node)).toEqual([
      { field: "fabric", where: ["10.0.0.1:7700"] },
      { field: "api", where: ["127.0.0.1:7780"] },
    ]));
  it("are several where it has several portals", () => {
    const iscsi = ["10.0.0.1:3260", "[fd00::1]:3260"];
    expect(addressesOf({ ...node, iscsi })[1]).toEqual({ field: "iscsi", where: iscsi });
  });
  it("are also those that nobody here knows by name: lists, and what is written as one", () => {
    const more = {
      ...{ fabrics: ["10.1.0.1:7700", "10.2.0.1:7700"], mirror: "[fd00::1]:7700", note: "no address" },
      ...{ fabric_second: null, tags: [], label: "a:b" },
    };
    expect(addressesOf({ ...node, name: "n1", rack: "r9", ...more }).slice(2)).toEqual([
      { field: "fabrics", where: ["10.1.0.1:7700", "10.2.0.1:7700"] },
      { field: "mirror", where: ["[fd00::1]:7700"] },
    ]);
  });
});

describe("groups", () => {
  const stores = ["s1", "s2", "s3"].map((id, index) => ({
    id,
    node: `n${index}`,
    path: "/dev/x",
    serves: id !== "s3",
  }));
  const group = (given: object) => ({
    index: 0,
    epoch: 1,
    members: ["s1", "s2"],
    in_sync: ["s1", "s2"],
    syncing: [],
    ...given,
  });
  it.each([
    [{}, "whole"],
    [{ in_sync: ["s1"], syncing: ["s2"] }, "syncing"],
    [{ in_sync: ["s1"] }, "lacking"],
    [{ members: ["s1", "s3"], in_sync: ["s1", "s3"] }, "lacking"],
    [{ in_sync: ["s1", "s2", "s3"] }, "whole"],
    [{ members: ["s1", "s9"], in_sync: ["s1", "s9"] }, "lacking"],
  ])("%j is %s", (given, state) => expect(groupRows([group(given)], stores)[0]?.state).toBe(state));
  it("name who holds them, also who is to leave and whom nobody knows", () => {
    const [row] = groupRows([group({ in_sync: ["s1", "s2", "0123456789"] })], stores);
    expect(row?.holders.map(({ text, isMember }) => [text, isMember])).toEqual([
      ["n0 /dev/x", true],
      ["n1 /dev/x", true],
      ["01234567", false],
    ]);
  });
});

describe("an inspection", () => {
  it("leads to the screen of what it is about", () => {
    const at = (kind: string, name: string) => placeOf({ kind, name });
    expect([at("node", "n 1"), at("nic", "n1/eth0"), at("disk", "n1/sda")]).toEqual([
      "#/nodes/n%201",
      "#/nodes/n1",
      "#/nodes/n1",
    ]);
    expect([at("store", "s1"), at("pool", "p"), at("subsystem", "s"), at("cluster", "")]).toEqual([
      "#/nodes?tab=stores&q=s1",
      "#/pools/p",
      "#/hosts/s",
      undefined,
    ]);
  });
  it("has rows that differ, whatever is found twice", () => {
    const finding = {
      code: "c",
      severity: "notice",
      check: "k",
      place: { kind: "node", name: "n" },
      reason: "",
      mend: "",
    } as const;
    expect(new Set(findingRows([finding, finding]).map(({ id }) => id)).size).toBe(2);
    const blind = { check: "k", place: { kind: "node", name: "n" }, why: "" };
    expect(new Set(blindRows([blind, blind]).map(({ id }) => id)).size).toBe(2);
  });
});

it("the recovery of a store is found among all that is under way", () => {
  const rows = [
    { kind: "drain", query: { q: "s1" }, id: "drain-s1" },
    { kind: "recovery", query: { q: "s2" }, id: "recovery-s2" },
  ] as unknown as JobRow[];
  expect([recoveryOf(rows, "s2")?.id, recoveryOf(rows, "s1")]).toEqual(["recovery-s2", undefined]);
});
