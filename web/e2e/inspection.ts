// What the recorded cluster's inspection finds, how its links are, and what was decided about them.
import type { components } from "../src/api/schema";
import { HOSTILE } from "./hostile";

type Schemas = components["schemas"];
/** 2026-11-20, in seconds. */
const THEN = 1_795_132_800;

export interface Inspected {
  inspection: Schemas["Inspection"];
  links: Schemas["Links"];
}

function link(from: number, to: number, trouble: Schemas["LinkTrouble"], lost: number): Schemas["BadLink"] {
  const name = (index: number) => `node-${String(index).padStart(3, "0")}`;
  const isCut = trouble === "cut";
  return {
    ...{ from: name(from), to: name(to), network: "first", trouble, sent: isCut ? 0 : 4_000, lost },
    ...{ loss_ppm: isCut ? 1_000_000 : lost * 250, round_trip_us: isCut ? 0 : 31_500, least_us: isCut ? 0 : 210 },
  };
}

export function makeInspected(): Inspected {
  return {
    inspection: {
      at: THEN,
      worst: "critical",
      summary: "1 critical, 2 warnings, 1 notice; 2 things could not be looked at.",
      findings: [
        {
          severity: "critical",
          ...{ code: "disk-fails", check: "wear" },
          place: { kind: "disk", name: "node-020/nvme0n1" },
          ...{ reason: "The disk says that it fails.", mend: "Drain its store (`amita disk drain`)." },
        },
        {
          severity: "warning",
          ...{ code: "nic-slow", check: "nics" },
          place: { kind: "nic", name: "node-003/eth0" },
          ...{ reason: "eth0 runs at 1000 Mbit/s, and most others at 100000.", mend: "See the cable." },
        },
        {
          severity: "warning",
          ...{ code: "copies-single", check: "redundancy" },
          place: { kind: "pool", name: "archive" },
          ...{ reason: "It has one copy.", mend: "Make a pool with two copies or more." },
        },
        {
          severity: "notice",
          ...{ code: "gateway-single", check: "paths" },
          place: { kind: "subsystem", name: HOSTILE[0]! },
          ...{ reason: `Subsystem ${HOSTILE[0]} has one gateway.`, mend: "Serve NVMe/TCP at a second node." },
        },
      ],
      not_looked_at: [
        { check: "wear", place: { kind: "store", name: "00000007" }, why: "the disk does not tell its health" },
        { check: "clocks", place: { kind: "node", name: "node-007" }, why: `it does not live: ${HOSTILE[0]}` },
      ],
      checks: [
        { check: "redundancy", title: "Redundancy", looked_at: 2, not_looked_at: 0, found: 1 },
        { check: "nics", title: "Network interfaces", looked_at: 99, not_looked_at: 0, found: 1 },
        { check: "wear", title: "Health of disks", looked_at: 799, not_looked_at: 1, found: 1 },
      ],
    },
    links: {
      ...{ at: THEN, nodes: 99, measured: 9_702, bad: 6 },
      sick: [
        {
          kind: "node",
          ...{ names: ["node-003"], what: "the network of node node-003" },
          evidence: "4 of 98 links that others send to it by are bad",
        },
        {
          kind: "rack",
          ...{ names: ["site-2", "rack-5"], what: "the network of rack rack-5 (site site-2)" },
          evidence: "3 of 9 links that it sends by are bad",
        },
      ],
      links: [
        link(9, 3, "cut", 0),
        link(1, 3, "loss", 800),
        link(2, 3, "loss", 100),
        link(3, 1, "loss", 90),
        link(4, 3, "late", 0),
      ],
      left: {
        bad: 2,
        sick: [
          {
            ...{ kind: "node", network: "second", names: ["node-003"], what: "the network of node node-003" },
            evidence: "2 of 98 links that others send to it by are bad",
          },
        ],
        links: [
          { ...link(5, 3, "loss", 400), network: "second" },
          { ...link(6, 3, "late", 0), network: "second" },
        ],
      },
      silent: ["node-042", HOSTILE[0]!],
    },
  };
}

/** What the coordinator has told of the network, with what it would have done. */
export function networkEvent(): Schemas["Event"] {
  return {
    ...{ id: `${String(THEN * 1000 + 500_000).padStart(20, "0")}-00000001-0000`, at_ms: THEN * 1000 + 500_000 },
    severity: "warning",
    ...{ node: "node-001", node_id: 1, kind: "network-sick", objects: ["node-003"] },
    text:
      "The network of node-003 is sick: 4 of 98 links are bad; nothing is done, as the policy says: its stores would get no " +
      "more groups, and would be evicted until it is well.",
  };
}
