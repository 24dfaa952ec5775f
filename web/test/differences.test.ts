import { describe, expect, it } from "vitest";
import { differencesOf } from "../src/lib/differences";

describe("what has become another", () => {
  it("is told field by field, in words of people", () => {
    const from = { name: "a", size_bytes: 1024, quota: { volumes: null, snapshots: 5 }, hosts: ["x"], class: "ssd" };
    const to = { name: "a", size_bytes: 2048, quota: { volumes: 7, snapshots: 5 }, hosts: ["x", "y"], class: null };
    expect(differencesOf(from, to)).toEqual([
      { field: "size_bytes", from: "1 KiB", to: "2 KiB" },
      { field: "quota.volumes", from: "–", to: "7" },
      { field: "hosts", from: "x", to: "x, y" },
      { field: "class", from: "ssd", to: "–" },
    ]);
  });
  it("has no figures that change by themselves, and is cut where it is long", () => {
    const from = { used_bytes: 1, serves: true, in_sync: 3, labels: {}, gone: 1 };
    const to = { used_bytes: 2, serves: false, in_sync: 4, labels: { note: "x".repeat(300) } };
    const found = differencesOf(from, to);
    expect(found.map(({ field, to }) => [field, to.length])).toEqual([
      ["labels.note", 201],
      ["gone", 1],
    ]);
    expect(differencesOf(from, from)).toEqual([]);
  });
});
