// What is under way, as rows of one table: the API's jobs, and what of pools and policies is no job of it.
import type { components } from "../api/schema";

type Schemas = components["schemas"];
type ApiJob = Schemas["Job"];

export type JobKind = Schemas["JobKind"] | "groups" | "policy";

export interface JobRow {
  readonly id: string;
  readonly kind: JobKind;
  /** What it is done to, for a person. */
  readonly object: string;
  /** Where more is to be seen. */
  readonly place: readonly string[];
  readonly query: Readonly<Record<string, string>>;
  readonly state: Schemas["JobState"];
  /** Of how many how many are done; undefined: nobody knows. */
  readonly done: number | undefined;
  readonly total: number | undefined;
  readonly left: number | undefined;
  readonly unit: Schemas["JobUnit"] | undefined;
  readonly bytesPerSecond: number | undefined;
  readonly leftSeconds: number | undefined;
  /** Seconds since 1970. */
  readonly startedAt: number | undefined;
  readonly ails: string | undefined;
  /** Who has it stand still, and when in seconds since 1970. */
  readonly paused: Schemas["JobPause"] | undefined;
  /** The job of the API, where it can be taken back. */
  readonly cancels: ApiJob | undefined;
  /** The same, where it can stand still, or go on. */
  readonly waits: { readonly job: ApiJob; readonly verb: "pause" | "resume" } | undefined;
}

interface Store {
  readonly id: string;
  readonly node: string;
  readonly path: string;
}
interface Pool {
  readonly name: string;
  readonly groups: number;
  readonly group_counts: { readonly moving: number };
}
interface Policy {
  readonly name: string;
  readonly history?: { readonly running: boolean } | null;
}

const OF_STORES: readonly JobKind[] = ["drain", "recovery"];
const NOTHING_KNOWN = {
  query: {},
  state: "running",
  done: undefined,
  total: undefined,
  left: undefined,
  unit: undefined,
  bytesPerSecond: undefined,
  leftSeconds: undefined,
  startedAt: undefined,
  ails: undefined,
  paused: undefined,
  cancels: undefined,
  waits: undefined,
} as const;

/** What of standing still and going on can be done with it. */
function waitsOf(job: ApiJob): JobRow["waits"] {
  const verb = (["pause", "resume"] as const).find((one) => job.actions.includes(one));
  return verb === undefined ? undefined : { job, verb };
}

function rowOf(job: ApiJob, stores: ReadonlyMap<string, Store>): JobRow {
  const store = OF_STORES.includes(job.kind) ? stores.get(job.object) : undefined;
  const isOfStore = OF_STORES.includes(job.kind);
  return {
    id: job.id,
    kind: job.kind,
    object: store === undefined ? job.object : `${store.node} ${store.path}`,
    place: isOfStore ? ["nodes"] : ["volumes", job.object],
    query: isOfStore ? { tab: "stores", q: job.object } : { tab: "work" },
    state: job.state,
    done: job.done ?? undefined,
    total: job.total ?? undefined,
    left: job.left ?? undefined,
    unit: job.unit ?? undefined,
    bytesPerSecond: job.bytes_per_second ?? undefined,
    leftSeconds: job.left_s ?? undefined,
    startedAt: job.started_at ?? undefined,
    ails: job.ails ?? undefined,
    paused: job.paused ?? undefined,
    cancels: job.actions.includes("cancel") ? job : undefined,
    waits: waitsOf(job),
  };
}

interface Known {
  readonly jobs: readonly ApiJob[];
  readonly stores: readonly Store[];
  readonly pools: readonly Pool[];
  readonly policies: readonly Policy[];
}

/** All that is under way. */
export function jobRows({ jobs, stores, pools, policies }: Known): JobRow[] {
  const byId = new Map(stores.map((store) => [store.id, store]));
  const moving = pools.filter(({ group_counts }) => group_counts.moving > 0);
  const running = policies.filter(({ history }) => history?.running);
  return [
    ...jobs.map((job) => rowOf(job, byId)),
    ...moving.map(({ name, groups, group_counts }): JobRow => ({
      ...NOTHING_KNOWN,
      ...{ id: `groups ${name}`, kind: "groups", object: name, place: ["pools", name] },
      ...{ unit: "groups", done: groups - group_counts.moving, total: groups, left: group_counts.moving },
    })),
    ...running.map(({ name }): JobRow => ({
      ...NOTHING_KNOWN,
      ...{ id: `policy ${name}`, kind: "policy", object: name, place: ["schedules", name] },
    })),
  ];
}

/** What is being done to a volume. */
export function jobsOfVolume(jobs: readonly ApiJob[], volume: string): JobRow[] {
  const own = jobs.filter(({ kind, object }) => object === volume && !OF_STORES.includes(kind));
  return own.map((job) => rowOf(job, new Map()));
}

/** The recovery of a store, where there is one. */
export function recoveryOf(rows: readonly JobRow[], store: string): JobRow | undefined {
  return rows.find(({ kind, query }) => kind === "recovery" && query.q === store);
}

/** How many there are of each kind, in the order in which they come. */
export function countKinds(rows: readonly JobRow[]): (readonly [JobKind, number])[] {
  const counts = new Map<JobKind, number>();
  for (const { kind } of rows) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts];
}
