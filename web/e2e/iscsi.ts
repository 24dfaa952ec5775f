// The part of the recorded cluster that is about iSCSI: targets, their LUNs, and initiators.
import type { components } from "../src/api/schema";
import { HOSTILE } from "./hostile";

type Schemas = components["schemas"];
const MANY = 1_000;

export interface Iscsi {
  targets: Schemas["IscsiTarget"][];
  luns: Record<string, Schemas["Lun"][]>;
  initiators: Schemas["Initiator"][];
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

export function makeIscsi(): Iscsi {
  const targets = range(MANY, target);
  return {
    targets,
    luns: Object.fromEntries(targets.map((one, index) => [one.name, [lun(one, index)]])),
    initiators: range(MANY, (index) => initiator(index, targets)),
  };
}
