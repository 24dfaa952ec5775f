// The part of the recorded cluster that is about the care of data: mirrors, backups, and limits.
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
  backupPolicies: Schemas["BackupPolicy"][];
  backupTasks: Schemas["BackupTask"][];
  repositories: Schemas["BackupRepository"][];
  /** By `volumes/NAME`, `tenants/NAME`, `pools/NAME`; those of others are none. */
  limits: Record<string, Schemas["VolumeLimits"]>;
  /** Whose volumes are, by their names. */
  tenants: Record<string, string>;
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

function run(index: number): Schemas["BackupRun"] {
  const isBad = index === 1;
  return {
    ...{ due_at: THEN, began_at: THEN + 1, ended_at: null, again_at: null, node: "node-001", attempts: isBad ? 3 : 1 },
    ...{ volumes: 2, points: 2, forgotten: 1, read_bytes: 3 * GIB, sent_bytes: GIB, failed: isBad ? 1 : 0 },
    why: isBad ? [`Volume ${HOSTILE[0]} cannot be read.`] : [],
    notes: isBad ? [`The clock of ${HOSTILE[1]} is ahead.`] : [],
  };
}

function backupPolicy(index: number): Schemas["BackupPolicy"] {
  return {
    id: index + 1,
    name: index === 1 ? HOSTILE[0]! : `backup-${four(index)}`,
    target:
      index % 2 === 0
        ? { volume_ids: [1, 11], label: null, pool: null }
        : { volume_ids: null, label: { key: "app", value: HOSTILE[0]! }, pool: null },
    repository: index % 3 === 0 ? "off-site" : HOSTILE[0]!,
    schedule: "30 2 * * *",
    zone: "Europe/Berlin",
    keep: { last: 0, hourly: 0, daily: 14, weekly: 0, monthly: 12, yearly: 0 },
    together: index % 2 === 0,
    limit_seconds: 86_400,
    paused: index === 2,
    runner: index === 3 ? "node-001" : null,
    next_at: index === 2 ? null : THEN + 864_000 + index * 60,
    late_seconds: index === 4 ? 7_300 : 0,
    fault: index === 5 ? `The record cannot be read: ${HOSTILE[0]}` : null,
    history:
      index === 6
        ? null
        : {
            ...{
              runs: 40,
              failures: 1,
              missed: 0,
              points: 80,
              forgotten: 60,
              read_bytes: 90 * GIB,
              sent_bytes: 9 * GIB,
            },
            succeeded_at: THEN + index,
            current: index === 1 ? { ...run(index), again_at: THEN + 600 } : index === 3 ? run(index) : null,
            last: { ...run(index), ended_at: THEN + 90 },
          },
    verify: index % 2 === 1 ? { schedule: "@weekly", percent: 5 } : null,
    verification: index % 2 === 1 ? verification(index) : null,
  };
}

function verification(index: number): Schemas["RepositoryVerification"] {
  const isBad = index === 1;
  const last = {
    ...{ due_at: THEN, began_at: THEN + 1, ended_at: THEN + 60, again_at: null, node: "node-001", attempts: 1 },
    ...{ read_bytes: GIB, points: 80, failed: false, why: [] },
  };
  return {
    ...{ repository: "archive", slow_seconds: index === 5 ? 86_400 : 0 },
    ...{ runner: null, next_at: THEN + 604_800, late_seconds: 0, overdue: index === 3, fault: null, missed: 0 },
    failing: index === 3 ? `The key file of ${HOSTILE[1]} is not there.` : null,
    ...{ runs: 9, failures: 0, packs: 700, read_bytes: 9 * GIB, verified_at: THEN + 60, whole_since: THEN - 864_000 },
    ...{ current: null, last, damaged_objects: isBad ? 1 : 0, damaged_points: isBad ? 1 : 0 },
    damage: isBad ? [{ object: HOSTILE[0]!, why: `${HOSTILE[0]} is missing`, found_at: THEN }] : [],
    points: isBad ? [{ point: 7, name: HOSTILE[0]!, why: `${HOSTILE[0]} is missing` }] : [],
  };
}

function repository(index: number): Schemas["BackupRepository"] {
  const isBucket = index === 1;
  return {
    name: ["off-site", HOSTILE[0]!, "spare"][index]!,
    address: isBucket ? `s3://backups/${HOSTILE[1]}` : `/backup/amita-${index}`,
    key_file: "/etc/amita/backup.key",
    nodes: isBucket ? ["node-001", "node-002"] : [],
    limit_bytes_per_second: isBucket ? 20 * 2 ** 20 : null,
    lock_days: isBucket ? 30 : null,
    ...{ s3_ca: null, s3_region: null, vault: null },
    s3_credentials: isBucket ? "/etc/amita/s3.key" : null,
    s3_endpoint: isBucket ? "https://s3.example.org" : null,
  };
}

const TASK_STATES = ["waiting", "running", "cancelling", "done", "failed", "cancelled", "unreadable"] as const;

function backupTask(index: number): Schemas["BackupTask"] {
  const state = TASK_STATES[index % TASK_STATES.length]!;
  const isKnown = state !== "unreadable";
  const runs = state === "running";
  const restore = { point: 17, point_name: null, volume: null, to: `volume-${index}`, pool: "fast", encrypted: null };
  return {
    name: index === 4 ? HOSTILE[0]! : `task-${four(index)}`,
    ...{ id: index + 1, repository: isKnown ? "off-site" : "", limit_seconds: 86_400, attempts: runs ? 1 : 0 },
    backup: isKnown && index % 2 === 0 ? { volume: HOSTILE[1]!, snapshot: null, full: false } : null,
    restore: isKnown && index % 2 === 1 ? { ...restore, tenant: null } : null,
    ...{ forget: null, state, asked_at: THEN + index, ended_at: null, again_at: null },
    node: runs ? "node-001" : null,
    progress: runs ? { step: "volume db is backed up", done_bytes: GIB, total_bytes: 4 * GIB } : null,
    result: null,
    why: state === "failed" || !isKnown ? [`${HOSTILE[0]} is not there`] : [],
    notes: [],
  };
}

export function makeCare(): Care {
  return {
    mirrors: range(MANY, mirror),
    backupPolicies: range(256, backupPolicy),
    backupTasks: range(14, backupTask),
    repositories: range(3, repository),
    limits: {
      "volumes/volume-0001": {
        iops: { both: { rate: 120_000, burst: 12_002, peak: { rate: 200_000, seconds: 30 } }, read: null, write: null },
        bandwidth: { both: null, read: null, write: { rate: 500 * 2 ** 20, burst: 60 * 2 ** 20, peak: null } },
      },
      "pools/fast": { iops: { both: { rate: 1_000_000, burst: 100_002, peak: null } }, bandwidth: {} },
    },
    tenants: { "volume-0001": HOSTILE[0]! },
  };
}
