// A cluster as large as the page has to bear: 100 nodes, 800 stores, 1,000 volumes, and names that strangers chose.
// The types are those of the specification: where it changes, this does not compile.
import { makeAccess } from "./access";
import type { Access } from "./access";
import { makeCare, MIRROR_FACTS } from "./care";
import type { Care } from "./care";
import type { components } from "../src/api/schema";
import { HOSTILE } from "./hostile";
import { makeIscsi } from "./iscsi";
import type { Iscsi } from "./iscsi";
import { makeInspected, networkEvent } from "./inspection";
import type { Inspected } from "./inspection";

type Schemas = components["schemas"];

const TIB = 2 ** 40;
/** 2026-11-20, in seconds. */
const THEN = 1_795_132_800;

export interface World extends Access, Care, Inspected, Iscsi {
  health: Schemas["Health"];
  nodes: Schemas["Node"][];
  stores: Schemas["Store"][];
  pools: Schemas["PoolDetails"][];
  groups: Schemas["Group"][];
  volumes: Schemas["Volume"][];
  snapshots: Record<string, Schemas["Snapshot"][]>;
  deleted: Schemas["DeletedVolume"][];
  events: Schemas["Event"][];
  self: Schemas["Myself"];
}

function range<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

function node(index: number): Schemas["Node"] {
  const site = `site-${1 + (index % 3)}`;
  return {
    name: `node-${String(index).padStart(3, "0")}`,
    id: index + 1,
    alive: index !== 7,
    cores: 16,
    fabric: `10.0.${index >> 6}.${1 + (index & 63)}:7700`,
    nbd: index % 8 === 0 ? `10.1.${index >> 6}.${1 + (index & 63)}:10809` : null,
    nbd_socket: null,
    nvme: index % 4 === 0 ? `10.1.${index >> 6}.${1 + (index & 63)}:4420` : null,
    iscsi: index % 4 === 0 ? [`10.1.${index >> 6}.${1 + (index & 63)}:3260`, `[fd00::${1 + index}]:3260`] : [],
    iscsi_tag: index % 4 === 0 ? index + 1 : null,
    metrics: "127.0.0.1:9100",
    site,
    rack: `rack-${1 + (index % 12)}`,
    maintenance: index === 9,
    gateway: index >= 96,
    client: false,
    unprotected: false,
  };
}

function store(nodes: readonly Schemas["Node"][], index: number): Schemas["Store"] {
  const owner = nodes[index % 96]!;
  const used = Math.round(TIB * (0.2 + 0.7 * ((index * 37) % 100) * 0.01));
  return {
    id: `${index.toString(16).padStart(8, "0")}-0000-4000-8000-${index.toString(16).padStart(12, "0")}`,
    node: owner.name,
    path: `/dev/nvme${Math.floor(index / 96)}n1`,
    size_bytes: TIB,
    serves: owner.alive,
    draining: index === 20,
    weight: TIB / 2 ** 20,
    class: "nvme",
    groups: 12,
    in_sync: index === 30 ? 8 : 12,
    syncing: index === 30 ? 4 : 0,
    named: 12,
    capacity_bytes: TIB,
    used_bytes: used,
    free_bytes: TIB - used,
    used_percent: Math.floor((100 * used) / TIB),
  };
}

function pool(name: string, id: number, stores: readonly Schemas["Store"][]): Schemas["PoolDetails"] {
  const used = stores.reduce((sum, { used_bytes }) => sum + (used_bytes ?? 0), 0);
  return {
    name,
    id,
    copies: 3,
    min_copies: 2,
    level: "rack",
    class: "nvme",
    groups: 1024,
    chunk_bytes: 2 ** 22,
    group_counts: { whole: 1000, degraded: 20, at_min_copies: 4, waiting: 0, below: 0, syncing: 4, moving: 24 },
    outlook: { moves: 12, unmet: 0, sentences: ["The coordinator moves 12 copies of groups."] },
    stores: stores.map((one) => one.id),
    raw_bytes: stores.length * TIB,
    used_bytes: used,
    free_bytes: stores.length * TIB - used,
    fullest_percent: 89,
    recycle_seconds: 7 * 86_400,
    quota: { provisioned_bytes: 2000 * TIB, volumes: null, snapshots: 5000 },
    asked: { provisioned_bytes: 500 * TIB, volumes: 1000, snapshots: 12 },
  };
}

/** Of every hundred one is being brought up to date, and one lacks a copy. */
function group(stores: readonly Schemas["Store"][], index: number): Schemas["Group"] {
  const members = [0, 1, 2].map((copy) => stores[(index * 3 + copy) % stores.length]!.id);
  const isSyncing = index % 100 === 50;
  const isLacking = index % 100 === 60;
  return {
    ...{ index, epoch: 3 + (index % 7), members },
    in_sync: isSyncing || isLacking ? members.slice(0, 2) : members,
    syncing: isSyncing ? members.slice(2) : [],
  };
}

function volume(index: number): Schemas["Volume"] {
  return {
    name: HOSTILE[index - 10] ?? `volume-${String(index).padStart(4, "0")}`,
    id: index + 1,
    pool: index % 5 === 0 ? "archive" : "fast",
    size_bytes: (1 + (index % 64)) * 2 ** 34,
    labels: index % 3 === 0 ? { app: `db-${index % 17}`, owner: HOSTILE[index % 4] ?? "" } : {},
    protected: index % 50 === 0,
    created_at: THEN + index * 60,
    parent: index === 2 || index === 3 ? "volume-0001@first" : null,
    clones: index === 1 ? 2 : 0,
    exported: index % 7 === 0,
    encrypted: index % 9 === 0,
    locked: index === 9 ? "node-001: no file of volume keys" : null,
    flattening: index === 3 || index === 10,
    importing: false,
    owner: index % 2 === 0 ? `node-${String(index % 96).padStart(3, "0")}` : null,
  };
}

function snapshot(volume: string, name: string, number: number): Schemas["Snapshot"] {
  return {
    volume,
    name,
    number,
    size_bytes: 2 ** 34,
    taken_at: THEN + number * 3600,
    protected: number === 2,
    clones: name === "first" ? 2 : 0,
    set: null,
    mark: false,
    hidden: false,
    labels: { policy: "daily" },
  };
}

export function event(index: number, text = `Store ${index} is up to date and in sync.`): Schemas["Event"] {
  return {
    id: `${String(THEN * 1000 + index).padStart(20, "0")}-00000001-0000`,
    at_ms: THEN * 1000 + index * 1000,
    node: "node-001",
    node_id: 1,
    kind: index % 9 === 0 ? "store-full" : "sync-finished",
    severity: index % 9 === 0 ? "error" : "info",
    objects: [String(index)],
    text,
  };
}

export function makeWorld(): World {
  const nodes = range(100, node);
  const stores = range(800, (index) => store(nodes, index));
  return {
    ...makeAccess(),
    ...makeCare(),
    ...makeInspected(),
    ...makeIscsi(),
    health: {
      cluster: "5d1c8f0e",
      health: "degraded",
      facts: [
        {
          name: "node-gone",
          severity: "warning",
          objects: ["node-007"],
          text: "Node node-007 is gone; its copies are made anew in 5 min.",
          advice: "Bring it back, or say that it is in maintenance: amita node maintenance on node-007.",
        },
        {
          name: "network-sick",
          severity: "warning",
          objects: ["node-003"],
          text: "The network of node node-003 is sick: 4 of 98 links that others send to it by are bad.",
          advice: "Look after cables, interfaces and ports of switches there.",
        },
        {
          name: "disk-failing",
          severity: "warning",
          objects: [stores[20]!.id],
          text: "Store 00000014 is on a disk that fails: the coordinator would drain it.",
          advice: "Drain it: amita disk drain 00000014.",
        },
        { name: "moving", severity: "info", objects: ["fast"], text: "12 copies of groups move.", advice: "" },
        ...MIRROR_FACTS,
      ],
    },
    nodes,
    stores,
    pools: [pool("archive", 2, stores.slice(0, 400)), pool("fast", 1, stores.slice(400))],
    groups: range(1024, (index) => group(stores.slice(400), index)),
    volumes: range(1000, volume),
    snapshots: {
      "volume-0001": ["first", "second", "third"].map((name, index) => snapshot("volume-0001", name, index + 1)),
    },
    deleted: range(3, (index) => ({
      id: 5000 + index,
      name: index === 0 ? HOSTILE[0]! : `gone-${index}`,
      pool: "fast",
      size_bytes: 2 ** 34,
      deleted_at: THEN,
      purge_at: THEN + 30 * 86_400,
      clones: 0,
      former: index === 2,
    })),
    events: [
      ...range(300, (index) => event(index, index === 299 ? `A name: ${HOSTILE[0]}` : undefined)),
      networkEvent(),
    ],
    self: {
      name: "alice",
      role: "admin",
      proof: "token",
      may: [
        ...["create", "resize", "rename", "label", "protect", "delete", "clone", "undelete", "purge"].map(
          (act) => `volume.${act}`,
        ),
        ...["flatten", "scrub", "move", "export", "unexport", "import", "revert", "export-data"].map(
          (act) => `volume.${act}`,
        ),
        ...["create", "create-set", "protect", "delete"].map((act) => `snapshot.${act}`),
        ...["create", "set", "prune", "delete"].map((act) => `snapshot-policy.${act}`),
        ...["set", "demote", "promote", "force", "resync", "pause", "resume", "remove"].map((act) => `mirror.${act}`),
        ...["volume.copy", "volume.migrate", "volume.limit", "tenant.limit", "pool.limit", "tenant.volume"],
        ...["create", "set", "run", "delete"].map((act) => `backup-policy.${act}`),
        ...["add", "set", "remove"].map((act) => `backup-repository.${act}`),
        ...["create", "set", "delete"].map((act) => `subsystem.${act}`),
        ...["add", "key", "allow", "deny", "remove"].flatMap((act) => [`host.${act}`, `initiator.${act}`]),
        ...["create", "set", "delete"].map((act) => `target.${act}`),
        ...["lun.add", "lun.remove"],
        ...["namespace.add", "namespace.remove", "reservation.clear", "recovery.set", "pool.thresholds"],
        ...["cluster.view", "alert.ack", "silence.add", "silence.remove", "job.pause", "job.resume"],
        ...["channel.add", "channel.remove", "channel.test"],
        ...["token.create", "token.revoke", "cluster.finalize", "audit.read"],
        ...[
          "node.maintenance",
          "node.place",
          "disk.drain",
          "disk.weight",
          "disk.class",
          "disk.replace",
          "disk.forget",
          "disk.adopt",
          "node.remove",
          "pool.set",
          "pool.delete",
          "pool.create",
          "pool.recycle",
          "pool.quota",
        ],
      ],
    },
  };
}
