// The part of the recorded cluster that is about iSCSI: targets, their LUNs, and initiators.
import type { components } from "../src/api/schema";
import { HOSTILE } from "./hostile";

type Schemas = components["schemas"];
const MANY = 1_000;

export interface Iscsi {
  targets: Schemas["IscsiTarget"][];
  luns: Record<string, Schemas["Lun"][]>;
  initiators: Schemas["Initiator"][];
  sessions: Schemas["IscsiSession"][];
}

function range<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

function four(index: number): string {
  return String(index).padStart(4, "0");
}

/** Every tenth is an ESXi's, and every tenth behind that a Windows'. */
export function iqn(index: number): string {
  if (index % 10 === 7) return `iqn.1998-01.com.vmware:esx-${four(index)}`;
  if (index % 10 === 8) return `iqn.1991-05.com.microsoft:win-${four(index)}.example.org`;
  return `iqn.1993-08.org.debian:01:${four(index)}`;
}

/** The first are of a volume of the same name, one has a stranger's name, the rest are of volumes from 400 on. */
function target(index: number): Schemas["IscsiTarget"] {
  const name = index === 10 ? HOSTILE[0]! : index < 20 ? `volume-${four(index)}` : `target-${four(index)}`;
  return {
    name,
    iqn: `iqn.2026-11.io.amita:5d1c8f0e:${index === 10 ? "stranger" : name}`,
    gateways: index === 2 ? ["node-000", "node-004"] : index === 4 ? ["node-001"] : [],
    any_initiator: index === 5,
    chap_required: index % 7 === 0,
    initiators_move: false,
    space_warning_percent: index % 6 === 0 ? 80 : null,
    initiators:
      index % 4 === 1
        ? [
            { initiator: iqn(index), luns: null },
            { initiator: iqn(7), luns: [0] },
            { initiator: iqn(8), luns: [] },
          ]
        : [],
    luns: 1,
  };
}

function lun({ name }: Schemas["IscsiTarget"], index: number): Schemas["Lun"] {
  return {
    target: name,
    lun: 0,
    volume: index === 11 ? null : index < 20 ? name : `volume-${four(400 + (index % 500))}`,
    snapshot: null,
    read_only: false,
    size_bytes: index === 11 ? null : 2 ** 34,
    block_bytes: 512,
    shared: index % 5 === 1,
    naa: `602414d${index.toString(16).padStart(25, "0")}`,
  };
}

function initiator(index: number, targets: readonly Schemas["IscsiTarget"][]): Schemas["Initiator"] {
  const name = iqn(index);
  return {
    name,
    chap_user: index === 3 ? "db-3" : name,
    chap_target_user: index % 10 === 7 ? "amita" : null,
    chap: index % 3 === 0,
    chap_target: index % 6 === 0,
    targets: targets
      .filter(({ initiators }) => initiators.some((one) => one.initiator === name))
      .map(({ name }) => name),
  };
}

/** By every fourth node, as portals are; the first only discovers, and one is with a target that is gone. */
function session(index: number, targets: readonly Schemas["IscsiTarget"][]): Schemas["IscsiSession"] {
  const node = (index % 4) * 4;
  const found = targets[index]!;
  return {
    ...{ node: `node-${String(node).padStart(3, "0")}`, core: index % 16, number: index + 1, initiator: iqn(index) },
    ...{ proven: index % 3 === 0, peer: `10.9.0.${1 + (index % 250)}:50000`, tag: node + 1 },
    target: index === 0 || index === 1 ? null : found.name,
    iqn: index === 0 ? null : found.iqn,
    ...{ isid: `00023d${index.toString(16).padStart(6, "0")}`, tsih: index + 1, portal: `10.1.0.${1 + node}:3260` },
    ...{
      since: 1_780_000_000 + index,
      silent_seconds: 1,
      header_digest: index % 2 === 0,
      data_digest: index % 5 === 0,
    },
    ...{ immediate_data: true, initial_r2t: true, max_receive_bytes: 262_144, max_send_bytes: 262_144 },
    ...{ max_burst_bytes: 1_048_576, first_burst_bytes: 65_536, max_outstanding_r2t: 8, commands: 128 },
    under_way: index % 32,
  };
}

export function makeIscsi(): Iscsi {
  const targets = range(MANY, target);
  return {
    targets,
    luns: Object.fromEntries(targets.map((one, index) => [one.name, [lun(one, index)]])),
    initiators: range(MANY, (index) => initiator(index, targets)),
    sessions: range(MANY, (index) => session(index, targets)),
  };
}
