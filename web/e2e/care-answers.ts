// What the mock answers of that part.
import type { Answered, Items } from "./answers";
import { answerOf } from "./specification";
import type { Match } from "./specification";
import type { World } from "./world";

type Body = Record<string, unknown>;
const NOT_FOUND: Answered = { status: 404, problem: "not-found", detail: "there is none of that name" };

export function careList(world: World, { path }: Match): Items | undefined {
  const lists: Record<string, Items> = {
    "/api/v1/mirrors": world.mirrors,
    "/api/v1/backup-policies": world.backupPolicies,
    "/api/v1/backup-tasks": world.backupTasks,
    "/api/v1/backup-repositories": world.repositories,
  };
  return lists[path];
}

/** One thing; null: there is none; undefined: nobody knows of it here. */
export function careOne(world: World, { path, values }: Match): unknown {
  switch (path) {
    case "/api/v1/mirrors/{name}":
      return world.mirrors.find(({ name }) => name === values.name) ?? null;
    case "/api/v1/backup-policies/{name}":
      return world.backupPolicies.find(({ name }) => name === values.name) ?? null;
    case "/api/v1/backup-repositories/{name}":
      return world.repositories.find(({ name }) => name === values.name) ?? null;
    case "/api/v1/volumes/{name}/tenant":
      return { tenant: world.tenants[values.name ?? ""] ?? null };
    default:
      return LIMITS.test(path) ? (world.limits[limitsKey(path, values)] ?? { iops: {}, bandwidth: {} }) : undefined;
  }
}

const LIMITS = /^\/api\/v1\/(volumes|tenants|pools)\/\{name\}\/limits$/;

function limitsKey(path: string, { name = "" }: Match["values"]): string {
  return `${LIMITS.exec(path)?.[1]}/${name}`;
}

function changeMirror(world: World, method: string, found: Match, body: Body): Answered {
  const there = world.mirrors.find(({ name }) => name === found.values.name);
  if (there === undefined) return NOT_FOUND;
  switch (`${method} ${found.path.replace("/api/v1/mirrors/{name}", "")}`) {
    case "PATCH ":
      Object.assign(there, body);
      return { status: 200, body: there };
    case "DELETE ":
      world.mirrors = world.mirrors.filter((one) => one !== there);
      return answerOf(found.operation);
    case "POST /pause":
      there.paused = { by: world.self.name, at: 1 };
      return { status: 200, body: there };
    case "POST /resume":
      there.paused = null;
      return { status: 200, body: there };
    case "POST /resync":
      return { status: 202, body: { common: "2-116", dry_run: body.dry_run, mirror: there } };
    case "POST /demote":
      there.role = "demoting";
      return { status: 202, body: there };
    default:
      there.role = "promoting";
      return { status: 202, body: there };
  }
}

function changePolicy(world: World, method: string, found: Match, body: Body): Answered {
  const there = world.backupPolicies.find(({ name }) => name === found.values.name);
  if (there === undefined) return NOT_FOUND;
  if (method === "POST") {
    there.runner = "node-001";
    if (there.history != null) there.history.current = { ...there.history.last!, ended_at: null };
    return { status: 202, body: there };
  }
  if (method === "DELETE") {
    world.backupPolicies = world.backupPolicies.filter((one) => one !== there);
    return answerOf(found.operation);
  }
  const { keep, verify, ...rest } = body as { keep?: object; verify?: { schedule?: string } };
  Object.assign(there, rest);
  if (verify !== undefined) {
    there.verify = verify.schedule === "" ? null : { schedule: "@weekly", percent: 5, ...there.verify, ...verify };
  }
  Object.assign(there.keep, keep);
  return { status: 200, body: there };
}

function changeRepository(world: World, method: string, found: Match, body: Body): Answered {
  const there = world.repositories.find(({ name }) => name === found.values.name);
  if (there === undefined) return NOT_FOUND;
  if (method === "DELETE") {
    world.repositories = world.repositories.filter((one) => one !== there);
    return answerOf(found.operation);
  }
  Object.assign(there, body);
  return { status: 200, body: there };
}

/** A quarter of it is done at once. */
function migrate(world: World, found: Match): Answered {
  const volume = world.volumes.find(({ name }) => name === found.values.name);
  if (volume === undefined) return NOT_FOUND;
  const GIB = 2 ** 30;
  const job: World["jobs"][number] = {
    ...{ id: `migrate-${volume.id}`, kind: "migrate", object: volume.name, state: "running", unit: "bytes" },
    ...{ done: 2 * GIB, total: 8 * GIB, left: 6 * GIB, actions: ["cancel", "pause"] },
  };
  world.jobs.push(job);
  return { status: 202, body: job };
}

/** What is changed; undefined: it is none of this part. */
export function careChange(world: World, method: string, found: Match, body: Body): Answered | undefined {
  const { path } = found;
  if (LIMITS.test(path)) {
    const key = limitsKey(path, found.values);
    world.limits[key] = method === "PUT" ? body : { iops: {}, bandwidth: {} };
    return { status: 200, body: world.limits[key] };
  }
  if (path === "/api/v1/volumes/{name}/tenant") {
    const { name = "" } = found.values;
    if (method === "PUT") world.tenants[name] = String(body.tenant);
    else delete world.tenants[name];
    return { status: 200, body: { tenant: world.tenants[name] ?? null } };
  }
  if (path === "/api/v1/volumes/{name}/migrate") return migrate(world, found);
  if (path.startsWith("/api/v1/mirrors/{name}")) return changeMirror(world, method, found, body);
  if (path.startsWith("/api/v1/backup-policies/{name}")) return changePolicy(world, method, found, body);
  if (path.startsWith("/api/v1/backup-repositories/{name}")) return changeRepository(world, method, found, body);
  if (path !== "/api/v1/backup-repositories") return undefined;
  const made = { nodes: [], ...body } as unknown as World["repositories"][number];
  world.repositories.push(made);
  return { status: 201, body: made };
}
