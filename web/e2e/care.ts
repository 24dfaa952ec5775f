// The part of the recorded cluster that is about the care of data: mirrors.
import type { components } from "../src/api/schema";
import { HOSTILE } from "./hostile";

type Schemas = components["schemas"];
type Mirror = Schemas["MirrorShown"];
/** 2026-11-20, in seconds. */
const THEN = 1_795_132_800;
const MANY = 1_000;
const GIB = 2 ** 30;

export interface Care {
  mirrors: Mirror[];
}

function range<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

function four(index: number): string {
  return String(index).padStart(4, "0");
}

/** The first are of each role and of each trouble, the rest follow another cluster. */
function roleOf(index: number): string {
  return ["primary", "secondary", "deposed", "secondary", "demoting", "promoting"][index] ?? "secondary";
}

function pass(index: number): Schemas["MirrorPassShown"] {
  const volume = { name: `volume-${four(index)}`, done_bytes: 3 * GIB, total_bytes: 8 * GIB, written_bytes: GIB / 4 };
  return {
    to: "2-118",
    cut_at: THEN + 60,
    base: index % 2 === 1 ? "2-117" : null,
    volumes: [volume, { ...volume, name: HOSTILE[1]!, done_bytes: 2 * GIB, total_bytes: 2 * GIB, whole: true }].map(
      (one) => ({ whole: false, ...one }),
    ),
  };
}

function mirror(index: number): Mirror {
  const role = roleOf(index);
  const isPrimary = role === "primary";
  const isHanded = index === 3;
  return {
    name: index === 1 ? HOSTILE[0]! : `mirror-${four(index)}`,
    id: `0f8fad5b-d9cb-469f-a165-${String(index).padStart(12, "0")}`,
    role,
    epoch: 2,
    point: isPrimary ? null : "2-117",
    points: range(4, (one) => ({
      name: `2-${114 + one}`,
      cut_at: THEN - (3 - one) * 60,
      snapshots: `mirror-${index === 1 ? HOSTILE[0] : "dr"}-0f8fad5b-2-${114 + one}`,
    })),
    handed: isHanded,
    split: false,
    paused: index === 7 ? { by: `operator ${HOSTILE[0]}`, at: THEN } : null,
    ails: index === 1 ? `the other end answers 401: ${HOSTILE[1]}` : null,
    pass: role === "secondary" && !isHanded ? pass(index) : null,
    volumes: [`volume-${four(index)}`, HOSTILE[1]!],
    peer: { cluster: index === 8 ? null : "6d2a6b5e-2f0c-4ad5-9d0b-3a7f1f3f0c11", addresses: ["n1.far.example:7480"] },
    seen:
      index === 8
        ? null
        : { role: isPrimary ? "secondary" : "primary", epoch: 2, point: "2-116", handed: false, at: THEN },
    lag_s: isPrimary ? null : 75,
    late_after_s: 180,
    interval_s: 60,
    keep: 3,
    limit_bytes_per_second: index % 2 === 0 ? 100 * 2 ** 20 : null,
    alert_after_s: null,
    never_deposed: index === 9,
  };
}

/** What the cluster says of two of them. */
export const MIRROR_FACTS: Schemas["Fact"][] = [
  {
    name: "mirror-deposed",
    severity: "warning",
    objects: ["mirror-0002"],
    text: "Mirror mirror-0002 was deposed here.",
    advice: "amita mirror resync mirror-0002 gives that up and follows.",
  },
  {
    name: "mirror-stalled",
    severity: "warning",
    objects: [HOSTILE[0]!],
    text: `Mirror ${HOSTILE[0]} does not go on: the other end answers 401.`,
    advice: `See amita mirror show ${HOSTILE[0]}.`,
  },
];

export function makeCare(): Care {
  return { mirrors: range(MANY, mirror) };
}
