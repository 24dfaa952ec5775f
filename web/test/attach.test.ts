import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { diskPath, nbdGuides, nvmeGuide, SETTINGS, splitAddress } from "../src/lib/attach";
import type { Proofs } from "../src/lib/attach";
import { exportCommand } from "../src/lib/exports";
import { ownSubsystem, subsystemChange } from "../src/lib/subsystems";

const SUBSYSTEM = "nqn.2026-11.io.amita:0123abcd:db";
const HOST = "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0051-3510-8052-b4c04f4e3732";
const NOTHING: Proofs = { dhchap: false, dhchap_controller: false, tls: false };

const gateways = [
  { node: "n2", traddr: "192.0.2.2", trsvcid: 4420, owner: true, alive: true },
  { node: "n1", traddr: "2001:db8::1", trsvcid: 4420, owner: false, alive: true },
];

it.each([
  ["192.0.2.1:4420", { host: "192.0.2.1", port: "4420" }],
  ["[2001:db8::1]:4420", { host: "2001:db8::1", port: "4420" }],
  ["gw1:10809", { host: "gw1", port: "10809" }],
  ["gw1", undefined],
  ["", undefined],
])("the address %j is taken apart", (address, parts) => expect(splitAddress(address)).toEqual(parts));

describe("what a host does for NVMe/TCP", () => {
  it("is what `amita volume attach` says", () => {
    const guide = nvmeGuide(SUBSYSTEM, HOST, gateways, NOTHING);
    expect(guide.prepare).toEqual(["modprobe nvme-tcp"]);
    expect(guide.connect[0]).toBe(
      `nvme connect --transport=tcp --traddr=192.0.2.2 --trsvcid=4420 --nqn=${SUBSYSTEM} --hostnqn=${HOST} ` +
        "--nr-io-queues=8 --keep-alive-tmo=5 --reconnect-delay=2 --ctrl-loss-tmo=-1 --fast_io_fail_tmo=600",
    );
    expect(guide.connect[1]).toContain("--traddr=2001:db8::1 ");
    expect(guide.connectAll).toContain("--traddr=192.0.2.2 ");
    expect([guide.permanentFile, guide.permanent.length]).toEqual(["/etc/nvme/discovery.conf", 2]);
  });

  it("has the settings of the command", () => {
    const source = readFileSync("../crates/amita/src/commands/volume/guide.rs", "utf8");
    const constant = (name: string) => Number(new RegExp(`const ${name}: \\w+ = (-?\\d+);`).exec(source)?.[1]);
    expect(SETTINGS).toEqual({
      keep_alive_tmo: constant("KEEP_ALIVE_S"),
      reconnect_delay: constant("RECONNECT_S"),
      ctrl_loss_tmo: constant("CTRL_LOSS_S"),
      fast_io_fail_tmo: constant("FAST_IO_FAIL_S"),
      nr_io_queues: constant("IO_QUEUES"),
    });
  });

  it("takes keys from the host's own files, never from the command line", () => {
    const guide = nvmeGuide(SUBSYSTEM, HOST, gateways, { dhchap: true, dhchap_controller: true, tls: true });
    expect(guide.connect[0]).toMatch(/ --tls$/);
    expect(guide.connect.join()).not.toContain("$(");
    expect(guide.connectAll).toBeUndefined();
    expect(guide.prepare[3]).toMatch(/^nvme check-tls-key --insert/);
    const [settings] = JSON.parse(guide.permanent.join("\n"));
    expect(settings.subsystems[0].ports[1]).toMatchObject({ traddr: "2001:db8::1", tls: true, ctrl_loss_tmo: -1 });
  });

  it("writes a file that holds names as they are, whatever they hold", () => {
    const name = "nqn.2014-08.com.example:a`id`$HOME\\$(id)'b\u202E";
    const guide = nvmeGuide(name, HOST, gateways, { ...NOTHING, dhchap: true });
    // The here-document of the command, with a key in the place of the file's.
    const script = `${guide.prepare[1]!.replace(/^.*cat > \S+ /s, "cat ").replace(/\n\)$/, "\n")}`;
    const text = execFileSync("sh", ["-c", script.replaceAll("$(cat /etc/nvme/dhchap.key)", "$(echo the-key)")], {
      env: { LC_ALL: "C.UTF-8", PATH: process.env.PATH },
    }).toString();
    const [settings] = JSON.parse(text);
    expect(settings.subsystems[0].nqn).toBe(name);
    expect(settings.subsystems[0].ports[0].dhchap_key).toBe("the-key");
  });

  it("quotes names that a shell would take apart", () => {
    const guide = nvmeGuide("nqn.2014-08.com.example:a;b$c", "nqn.2014-08.com.example:it's", gateways, NOTHING);
    expect(guide.connect[0]).toContain("--nqn='nqn.2014-08.com.example:a;b$c' ");
    expect(guide.connect[0]).toContain("--hostnqn='nqn.2014-08.com.example:it'\\''s' ");
  });

  it("finds the disk by its UUID", () => expect(diskPath("u-1")).toBe("/dev/disk/by-id/nvme-uuid.u-1"));
});

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
