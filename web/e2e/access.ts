// The part of the recorded cluster that is about who may what, and when: hosts, exports, policies, tokens, the log.
import type { components } from "../src/api/schema";
import { HOSTILE } from "./hostile";

type Schemas = components["schemas"];
/** 2026-11-20, in seconds. */
const THEN = 1_795_132_800;
const DAY = 86_400;
const MANY = 1_000;

export interface Access {
  subsystems: Schemas["Subsystem"][];
  namespaces: Record<string, Schemas["Namespace"][]>;
  hosts: Schemas["Host"][];
  exports: Schemas["NbdExport"][];
  policies: Schemas["SnapshotPolicy"][];
  sets: Schemas["SnapshotSet"][];
  tokens: Schemas["Token"][];
  audit: Schemas["AuditRecord"][];
  thresholds: Schemas["Thresholds"];
  recovery: Schemas["Recovery"];
  cluster: Schemas["Cluster"];
  jobs: Schemas["Job"][];
  certificates: Schemas["Certificates"];
  alerts: Schemas["Alert"][];
  silences: Schemas["Silence"][];
  channels: Schemas["Channel"][];
}

function range<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

function four(index: number): string {
  return String(index).padStart(4, "0");
}

export function nqn(index: number): string {
  return index === 3 ? `nqn.2014-08.org.example:${HOSTILE[0]}` : `nqn.2014-08.org.example:host-${four(index)}`;
}

/** The first are of a volume of the same name, one has a stranger's name, the rest are of volumes from 400 on. */
function subsystem(index: number): Schemas["Subsystem"] {
  const name = index === 10 ? HOSTILE[0]! : index < 20 ? `volume-${four(index)}` : `subsystem-${four(index)}`;
  return {
    name,
    nqn: `nqn.2026-11.io.amita:5d1c8f0e:${name}`,
    serial: `AM${four(index)}`,
    gateways: index === 2 ? ["node-000", "node-004"] : [],
    any_host: index === 5,
    hosts: index % 4 === 1 ? [nqn(index), nqn(3)] : [],
    namespaces: 1,
    tls_required: index % 7 === 0,
  };
}

function namespace({ name }: Schemas["Subsystem"], index: number): Schemas["Namespace"] {
  return {
    subsystem: name,
    nsid: 1,
    volume: index < 20 ? name : `volume-${four(400 + (index % 500))}`,
    snapshot: null,
    read_only: false,
    block_bytes: 4096,
    size_bytes: 2 ** 34,
    uuid: `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`,
  };
}

function host(index: number, subsystems: readonly Schemas["Subsystem"][]): Schemas["Host"] {
  return {
    nqn: nqn(index),
    dhchap: index % 3 === 0,
    dhchap_controller: index % 6 === 0,
    tls: index % 5 === 0,
    subsystems: subsystems.filter(({ hosts }) => hosts.includes(nqn(index))).map(({ name }) => name),
  };
}

function nbdExport(index: number): Schemas["NbdExport"] {
  return {
    volume: HOSTILE[index - 10] ?? `volume-${four(index)}`,
    clients: index % 2 === 0 ? [`client-${index}`, HOSTILE[1]!] : [],
    tenants: index % 3 === 0 ? ["acme"] : [],
    any_client: index % 2 === 1,
    read_only: index % 5 === 0,
    shared: false,
  };
}

function policy(index: number): Schemas["SnapshotPolicy"] {
  return {
    id: index + 1,
    name: index === 1 ? HOSTILE[0]! : `policy-${four(index)}`,
    schedule: "30 2 * * *",
    zone: "Europe/Berlin",
    template: index === 1 ? HOSTILE[1]! : "{policy}-{time}",
    keep: { last: 0, hourly: 0, daily: 7, weekly: 4, monthly: index % 12, yearly: 0 },
    target:
      index % 3 === 0
        ? { volume_ids: [1, 11], label: null, pool: null }
        : index % 3 === 1
          ? { volume_ids: null, label: { key: "app", value: HOSTILE[0]! }, pool: null }
          : { volume_ids: null, label: null, pool: "fast" },
    together: index % 2 === 0,
    paused: index === 2,
    late_seconds: index === 4 ? 7_300 : 0,
    fault: index === 5 ? `The record cannot be read: ${HOSTILE[0]}` : null,
    next_at: index === 2 ? null : THEN + 10 * DAY + index * 60,
    history: {
      runs: 40,
      taken: 80,
      deleted: 60,
      failures: 1,
      missed: 0,
      running: index === 6,
      last: {
        due_at: THEN,
        began_at: THEN + 1,
        ended_at: THEN + 3,
        taken: 2,
        deleted: 1,
        failed: index === 1 ? 1 : 0,
        why: index === 1 ? [`Volume ${HOSTILE[0]} is not there.`] : [],
      },
    },
  };
}

function token(index: number): Schemas["Token"] {
  return {
    id: `${index.toString(16).padStart(8, "0")}d9cb469fa16570867728950e`,
    name: index === 1 ? HOSTILE[0]! : `program-${four(index)}`,
    role: ["viewer", "operator", "admin", "auditor"][index % 4]!,
    made_by: "alice",
    made_at: THEN,
    ends_at: THEN + (index === 2 ? -DAY : 3_000 * DAY),
    ended: index === 2,
  };
}

/** Records in pairs: what began, and how it ended. */
function record(index: number): Schemas["AuditRecord"] {
  const isEnd = index % 2 === 1;
  return {
    number: index + 1,
    at_ms: THEN * 1000 + index * 500,
    who: index < 2 ? HOSTILE[0]! : index % 8 < 4 ? "alice" : "robot",
    role: index % 8 < 4 ? "admin" : "operator",
    host: "desk-1",
    address: "192.0.2.9",
    action: index % 4 < 2 ? "volume.create" : "recovery.set",
    object: `volume-${four(index >> 1)}`,
    outcome: isEnd ? (index % 10 === 9 ? "failed" : "done") : "begun",
    begun_by: isEnd ? index : null,
    text: index === 1 ? HOSTILE[1]! : "",
  };
}

function job(index: number): Schemas["Job"] {
  const nothing = { unit: null, done: null, total: null, left: null, moved_bytes: null, left_bytes: null };
  const unknown = { bytes_per_second: null, left_s: null, started_at: null, paused: null, ails: null, actions: [] };
  const common = { ...nothing, ...unknown, state: "running" } as const;
  const store = `${(index + 30).toString(16).padStart(8, "0")}-0000-4000-8000-${(index + 30).toString(16).padStart(12, "0")}`;
  if (index === 0) {
    const counted = {
      unit: "chunks",
      done: 250,
      total: 1_000,
      left: 750,
      started_at: THEN,
    } as const;
    return {
      ...common,
      ...counted,
      id: "flatten-4",
      kind: "flatten",
      object: "volume-0003",
      left_s: 5_400,
      actions: ["cancel", "pause"],
    };
  }
  if (index === 1) {
    return { ...common, id: "scrub-11", kind: "scrub", object: HOSTILE[0]!, state: "stalled", ails: HOSTILE[1]! };
  }
  if (index === 2) {
    const moved = { unit: "groups", done: 8, total: 12, left: 4, bytes_per_second: 2 ** 28, left_s: 3_700 } as const;
    return { ...common, ...moved, id: `recovery-${store}`, kind: "recovery", object: store };
  }
  return {
    ...common,
    id: `drain-${store}`,
    kind: "drain",
    object: store,
    unit: "groups",
    left: 3,
    actions: ["cancel"],
  };
}

/** The last is one that has ended; the first two are an authority's and a browser's. */
function certificate(index: number): Schemas["Certificate"] {
  const [use, state, days] = (
    [
      ["authority", "well", 900],
      ["browser", "due", 20],
      ["identity", "well", 6],
      ["identity", "due", 2],
      ["identity", "late", 0],
      ["identity", "ended", 0],
    ] as const
  )[index]!;
  const node = `node-${four(index)}`;
  const isHostile = index === 1;
  return {
    use,
    state,
    nodes: [node],
    node_count: use === "authority" ? 40 : 1,
    name: isHostile ? HOSTILE[0]! : use === "authority" ? "amita authority" : `amita://9/node/${node}`,
    role: use === "identity" ? "node" : null,
    issuer: isHostile ? HOSTILE[1]! : "amita authority",
    serial: `0${index}a9`,
    fingerprint: `${index}f`.repeat(32),
    begins_at: THEN - 7 * DAY,
    ends_at: state === "ended" ? THEN - 60 : THEN + days * DAY + 60,
    left_days: days,
    told_at: THEN,
    renew:
      use === "browser"
        ? null
        : use === "authority"
          ? "amita ca rotate --ca /var/lib/amita/ca"
          : state === "ended"
            ? `amita node token ${node} --ca /var/lib/amita/ca`
            : "amita cert renew --identity /etc/amita/identity --ca-server HOST:7600",
  };
}

function alert(index: number): Schemas["Alert"] {
  const isOver = index % 5 === 4;
  return {
    id: `${index.toString(16).padStart(4, "0")}0c9a4be1`,
    code: index % 2 === 0 ? "node-down" : "pool-near-full",
    severity: (["critical", "warning", "info"] as const)[index % 3]!,
    object: index === 1 ? HOSTILE[0]! : `node-${index}`,
    labels: index === 1 ? { pool: HOSTILE[1]! } : { node: `node-${index}` },
    state: isOver ? "resolved" : index % 7 === 6 ? "pending" : "firing",
    since: THEN + index,
    fired_at: THEN + index,
    resolved_at: isOver ? THEN + DAY : null,
    came_back: index % 3,
    what: index === 1 ? `Pool ${HOSTILE[0]} is nearly full.` : `Node node-${index} is gone.`,
    impact: "I/O goes on.",
    advice: "Bring it back.",
    runbook: "AmitaNodeDown",
    acknowledged: index === 2 ? { by: "alice", at: THEN, note: HOSTILE[0]! } : null,
    silenced_by: index === 3 ? "7be01c55d9a0" : null,
  };
}

function silence(index: number): Schemas["Silence"] {
  return {
    id: `${index.toString(16).padStart(4, "0")}1c55d9a0`,
    matches: { codes: ["node-*"], objects: index === 1 ? [HOSTILE[0]!] : [], labels: {} },
    from: THEN,
    until: THEN + 30 * DAY,
    holds: index % 2 === 0,
    by: "alice",
    why: index === 1 ? HOSTILE[1]! : "new switches",
    made_at: THEN,
  };
}

function channel(index: number): Schemas["Channel"] {
  return {
    ...{ name: index === 1 ? HOSTILE[0]! : `channel-${index}`, kind: "webhook", has_secret: true },
    ...{ target: index === 1 ? HOSTILE[1]! : "https://hooks.example.org:443/...", allow_loopback: false },
    ...{ least_severity: "warning", matches: { codes: [], objects: [], labels: {} }, group_by: "code" },
    ...{ group_wait_s: 15, repeat_s: 14_400, send_resolved: true, made_by: "alice", made_at: THEN },
    ...{ delivered: 12, delivered_at: THEN, waiting: index === 1 ? 1 : 0, failures: index === 1 ? 3 : 0 },
    ...{ why: index === 1 ? `connection refused ${HOSTILE[0]}` : null, failed_at: null },
  };
}

export function makeAccess(): Access {
  const subsystems = range(MANY, subsystem);
  const limits = (factor: number) => ({ bytes_per_second: factor * 2 ** 26, iops: 0, windows: 8 * factor });
  return {
    subsystems,
    namespaces: Object.fromEntries(subsystems.map((one, index) => [one.name, [namespace(one, index)]])),
    hosts: range(MANY, (index) => host(index, subsystems)),
    exports: range(MANY, nbdExport),
    policies: range(MANY, policy),
    sets: range(MANY, (index) => ({
      id: index + 1,
      name: index === 1 ? HOSTILE[0]! : `set-${four(index)}`,
      taken_at: THEN + index,
      volumes: range(8, (one) => `volume-${four(index + one)}`),
    })),
    tokens: range(MANY, token),
    audit: range(2 * MANY + 500, record),
    jobs: range(6, job),
    certificates: {
      at: THEN,
      certificates: range(6, certificate),
      not_known: [{ node: "node-0007", why: "the node has no identity" }],
    },
    alerts: range(MANY, alert),
    silences: range(MANY, silence),
    channels: range(8, channel),
    thresholds: { near_full_percent: 85, full_percent: 95, pool_percents: [75, 85, 95] },
    recovery: {
      automatic: true,
      p99_percent: 200,
      iops_percent: 80,
      least_bytes_per_second: 0,
      critical: { bytes_per_second: 0, iops: 0, windows: 0 },
      degraded: limits(4),
      rebalance: limits(2),
      scrub: limits(1),
      slow_stores: { policy: "propose", after_seconds: 60, rest_seconds: 600, per_hour: 1 },
      sick_networks: { policy: "propose", after_seconds: 60, rest_seconds: 600, per_hour: 2 },
      sick_disks: "propose",
    },
    cluster: {
      id: "5d1c8f0e",
      version: 3,
      known_version: 4,
      node_versions: { "node-000": 4, [HOSTILE[0]!]: 4, "node-002": 3 },
      nodes_away: [`node-007 ${HOSTILE[1]}`],
      counts: {
        backup_policies: MANY,
        deleted_volumes: 3,
        hosts: MANY,
        initiators: MANY,
        luns: MANY,
        mirrors: MANY,
        namespaces: MANY,
        nodes: 100,
        nodes_alive: 99,
        pools: 2,
        snapshot_policies: MANY,
        stores: 800,
        stores_serving: 792,
        subsystems: MANY,
        targets: MANY,
        volumes: MANY,
      },
    },
  };
}
