import { describe, expect, it } from "vitest";
import { nbdGuides, splitAddress } from "../src/lib/attach";
import { exportCommand } from "../src/lib/exports";
import { ownSubsystem, subsystemChange } from "../src/lib/subsystems";

it.each([
  ["192.0.2.1:4420", { host: "192.0.2.1", port: "4420" }],
  ["[2001:db8::1]:4420", { host: "2001:db8::1", port: "4420" }],
  ["gw1:10809", { host: "gw1", port: "10809" }],
  ["gw1", undefined],
  ["", undefined],
])("the address %j is taken apart", (address, parts) => expect(splitAddress(address)).toEqual(parts));

it("what a client does for NBD is said for each node, those that live first", () => {
  const nodes = [
    { name: "n1", alive: false, nbd: "192.0.2.1:10809" },
    { name: "n2", alive: true, nbd: "[2001:db8::2]:10809" },
    { name: "n3", alive: true, nbd: null },
  ];
  expect(nbdGuides("my disk", nodes)).toEqual([
    {
      node: "n2",
      look: "nbdinfo 'nbd://[2001:db8::2]:10809/my%20disk'",
      connect: "nbd-client -N 'my disk' -C 4 2001:db8::2 10809 /dev/nbd0",
    },
    {
      node: "n1",
      look: "nbdinfo nbd://192.0.2.1:10809/my%20disk",
      connect: "nbd-client -N 'my disk' -C 4 192.0.2.1 10809 /dev/nbd0",
    },
  ]);
});

it("an export names all that shall hold", () => {
  expect(exportCommand("d 1", { clients: ["a", "b"], tenants: ["t"], read_only: true, shared: false })).toBe(
    "amita nbd export 'd 1' --client a --client b --tenant t --read-only",
  );
  expect(exportCommand("d", { any_client: true, shared: true })).toBe("amita nbd export d --any-client --shared");
});

describe("subsystems", () => {
  it("of a volume have its name; of a snapshot one that they may have", () => {
    expect(ownSubsystem("db")).toBe("db");
    expect(ownSubsystem("db@mon:day+1")).toBe("db.mon-day-1");
  });

  const from = { gateways: ["n1"], any_host: false, tls_required: false };
  it("are changed in what is another, and nothing else", () => {
    expect(subsystemChange("s", from, { ...from, gateways: [], tls_required: true })).toEqual({
      body: { gateways: [], tls_required: true },
      command: "amita subsystem set s --all-gateways --require-tls",
    });
    expect(subsystemChange("s", from, { ...from, gateways: ["n2", "n1"], any_host: true }).command).toBe(
      "amita subsystem set s --gateway n2 --gateway n1 --any-host",
    );
    expect(subsystemChange("s", from, from)).toEqual({ body: {}, command: undefined });
  });
});
