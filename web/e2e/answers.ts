// What the mock answers: the recorded world where it has something, else a body that the specification allows.
import { accessChange, accessList, accessOne } from "./access-answers";
import { careChange, careList, careOne } from "./care-answers";
import { figuresOf } from "./figures";
import { iscsiChange, iscsiList, iscsiOne } from "./iscsi-answers";
import { answerOf } from "./specification";
import type { Match } from "./specification";
import type { World } from "./world";

export interface Answered {
  readonly status: number;
  readonly body?: unknown;
  readonly problem?: string;
  readonly detail?: string;
}

export type Items = readonly object[];

/** What was changed, in two pieces: the second goes on with the last extent of the first. */
function differences(found: Match, query: URLSearchParams): object {
  const isFirst = query.get("after") === null;
  const data = { kind: "data", length: 65_536 };
  return {
    volume: found.values.name,
    from: query.get("from"),
    to: query.get("to"),
    from_size_bytes: 2 ** 30,
    size_bytes: 2 ** 30,
    items: isFirst
      ? [
          { ...data, offset: 0, kind: "zero" },
          { ...data, offset: 131_072 },
        ]
      : [{ ...data, offset: 196_608 }],
    next: isFirst ? "196608" : null,
  };
}

function storesOf({ stores }: World, query: URLSearchParams): Items {
  const node = query.get("node");
  return node === null ? stores : stores.filter((one) => one.node === node);
}

/** The newest first, of these kinds. */
function eventsOf({ events }: World, query: URLSearchParams): Items {
  const kinds = query.getAll("kind");
  return [...events].reverse().filter(({ kind }) => kinds.length === 0 || kinds.includes(kind));
}

/** The lists of the world, by their paths. */
function listOf(world: World, found: Match, query: URLSearchParams): Items | undefined {
  const lists: Record<string, Items> = {
    "/api/v1/nodes": world.nodes,
    "/api/v1/stores": storesOf(world, query),
    "/api/v1/pools": world.pools,
    "/api/v1/pools/{name}/groups": world.groups,
    "/api/v1/volumes": world.volumes,
    "/api/v1/deleted-volumes": world.deleted,
    "/api/v1/events": eventsOf(world, query),
    "/api/v1/event-kinds": [
      { kind: "store-full", severity: "error", meaning: "A store is full.", advice: "Add stores." },
      { kind: "sync-finished", severity: "info", meaning: "A store holds all again.", advice: "Nothing." },
    ],
    "/api/v1/volumes/{name}/snapshots": world.snapshots[found.values.name ?? ""] ?? [],
  };
  return lists[found.path] ?? iscsiList(world, found) ?? careList(world, found) ?? accessList(world, found, query);
}

function oneOf(world: World, found: Match, query: URLSearchParams): unknown {
  const { path, values } = found;
  const name = values.name ?? "";
  switch (path) {
    case "/api/v1/health":
      return world.health;
    case "/api/v1/self":
      return world.self;
    case "/api/v1/volumes/{name}":
      return world.volumes.find((one) => one.name === name) ?? null;
    case "/api/v1/pools/{name}":
      return world.pools.find((one) => one.name === name) ?? null;
    case "/api/v1/inspect":
      return world.inspection;
    case "/api/v1/links":
      return world.links;
    case "/api/v1/stores/{id}":
      return world.stores.find((one) => one.id === values.id) ?? null;
    case "/api/v1/nodes/{name}":
      return world.nodes.find((one) => one.name === name) ?? null;
    case "/api/v1/volumes/{name}/snapshots/{snapshot}":
      return world.snapshots[name]?.find((one) => one.name === values.snapshot) ?? null;
    case "/api/v1/volumes/{name}/diff":
      return differences(found, query);
    case "/api/v1/deleted-volumes/{id}":
      return world.deleted.find((one) => String(one.id) === values.id) ?? null;
    default: {
      for (const find of [iscsiOne, careOne, accessOne]) {
        const one = find(world, found, query);
        if (one !== undefined) return one;
      }
      return undefined;
    }
  }
}

/** Pieces are counted here, not named: the page takes `next` as it comes. */
function cut(items: readonly unknown[], query: URLSearchParams): unknown {
  const limit = Number(query.get("limit") ?? 100);
  const begin = Number(query.get("after") ?? 0);
  const next = begin + limit < items.length ? String(begin + limit) : null;
  return { items: items.slice(begin, begin + limit), next };
}

function read(world: World, found: Match, query: URLSearchParams): Answered {
  const figures = figuresOf(found.path, query);
  if (figures !== undefined) return { status: 200, body: figures };
  const list = listOf(world, found, query);
  if (list !== undefined) return { status: 200, body: cut(list, query) };
  const one = oneOf(world, found, query);
  if (one === null) return { status: 404, problem: "not-found", detail: "there is none of that name" };
  return one === undefined ? answerOf(found.operation) : { status: 200, body: one };
}

function changeVolume(world: World, found: Match, body: Record<string, unknown>): Answered {
  const volume = world.volumes.find((one) => one.name === found.values.name);
  if (volume === undefined) return { status: 404, problem: "not-found", detail: "there is no such volume" };
  const { labels, ...rest } = body as { labels?: Record<string, string | null> };
  Object.assign(volume, rest);
  for (const [key, value] of Object.entries(labels ?? {})) {
    if (value === null) delete volume.labels[key];
    else volume.labels[key] = value;
  }
  return { status: 200, body: volume };
}

function change(world: World, method: string, found: Match, body: Record<string, unknown>): Answered {
  const name = found.values.name ?? "";
  switch (`${method} ${found.path}`) {
    case "POST /api/v1/volumes": {
      if (world.volumes.some((one) => one.name === body.name)) {
        return {
          status: 409,
          problem: "exists",
          detail: `there is a volume ${String(body.name)} already; take another name`,
        };
      }
      const made = {
        ...world.volumes[0]!,
        parent: null,
        owner: null,
        protected: false,
        ...body,
      } as World["volumes"][number];
      world.volumes.push(made);
      return { status: 201, body: made };
    }
    case "PATCH /api/v1/volumes/{name}":
      return changeVolume(world, found, body);
    case "POST /api/v1/volumes/{name}/rename":
      return changeVolume(world, found, { name: body.name });
    case "DELETE /api/v1/volumes/{name}":
      world.volumes = world.volumes.filter((one) => one.name !== name);
      return answerOf(found.operation);
    case "DELETE /api/v1/volumes/{name}/snapshots/{snapshot}":
      world.snapshots[name] = (world.snapshots[name] ?? []).filter((one) => one.name !== found.values.snapshot);
      return answerOf(found.operation);
    default:
      return answerOf(found.operation);
  }
}

export function answer(world: World, method: string, found: Match, query: URLSearchParams, body: unknown): Answered {
  if (method === "GET") return read(world, found, query);
  const given = (body ?? {}) as Record<string, unknown>;
  return (
    iscsiChange(world, method, found, given) ??
    careChange(world, method, found, given) ??
    accessChange(world, method, found, query, given) ??
    change(world, method, found, given)
  );
}
