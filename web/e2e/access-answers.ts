// What the mock answers of that part: lists, single things, and what is changed in them.
import type { Answered, Items } from "./answers";
import { answerOf } from "./specification";
import type { Match } from "./specification";
import type { World } from "./world";

type Body = Record<string, unknown>;
const NOT_FOUND: Answered = { status: 404, problem: "not-found", detail: "there is none of that name" };

/** The log as the API filters it. */
function audit({ audit }: World, query: URLSearchParams): World["audit"] {
  const who = query.get("who") ?? "";
  const action = query.get("action") ?? "";
  const since = Number(query.get("since_ms") ?? 0);
  return audit.filter(
    (record) =>
      record.at_ms >= since &&
      record.action.startsWith(action) &&
      (record.who.includes(who) || record.role.includes(who)),
  );
}

export function accessList(world: World, { path, values }: Match, query: URLSearchParams): Items | undefined {
  const lists: Record<string, () => Items> = {
    "/api/v1/subsystems": () => world.subsystems,
    "/api/v1/subsystems/{name}/namespaces": () => world.namespaces[values.name ?? ""] ?? [],
    "/api/v1/hosts": () => world.hosts,
    "/api/v1/nbd-exports": () => world.exports,
    "/api/v1/snapshot-policies": () => world.policies,
    "/api/v1/snapshot-sets": () => world.sets,
    "/api/v1/tokens": () => world.tokens,
    "/api/v1/jobs": () => world.jobs,
    "/api/v1/alerts": () => world.alerts,
    "/api/v1/silences": () => world.silences,
    "/api/v1/channels": () => world.channels,
    "/api/v1/audit": () => audit(world, query),
  };
  return lists[path]?.();
}

/** Where a volume is a namespace, and by which gateways and which commands hosts come to it. */
function attachment(world: World, volume: string, asked: string | null): unknown {
  const all = Object.values(world.namespaces).flat();
  const found = all.find((one) => one.volume === volume && one.snapshot === null);
  const subsystem = world.subsystems.find((one) => one.name === found?.subsystem);
  if (found === undefined || subsystem === undefined) return null;
  const gateways = world.nodes.flatMap(({ name, nvme, alive }) => {
    const [traddr, trsvcid] = (nvme ?? "").split(":");
    const isOne = subsystem.gateways.length === 0 || subsystem.gateways.includes(name);
    return traddr && isOne ? [{ node: name, traddr, trsvcid: Number(trsvcid), owner: false, alive }] : [];
  });
  const { nqn, any_host, hosts } = subsystem;
  const { nsid, uuid, block_bytes } = found;
  const host = asked ?? hosts[0];
  const portals = gateways.map(({ traddr, trsvcid }) => `--transport=tcp --traddr=${traddr} --trsvcid=${trsvcid}`);
  const commands =
    host === undefined || portals.length === 0
      ? null
      : {
          host,
          prepare: ["modprobe nvme-tcp"],
          connect: portals.map((portal) => `nvme connect ${portal} --nqn=${nqn} --hostnqn=${host} --keep-alive-tmo=5`),
          connect_all: `nvme connect-all ${portals[0]} --hostnqn=${host} --keep-alive-tmo=5`,
          permanent_file: "/etc/nvme/discovery.conf",
          permanent: portals,
          disk: `/dev/disk/by-id/nvme-uuid.${uuid}`,
        };
  return { volume, subsystem: subsystem.name, nqn, nsid, uuid, block_bytes, any_host, hosts, gateways, commands };
}

/** Who has reserved a volume: of every tenth somebody has. */
function reservation(volume: string): unknown {
  const isHeld = volume.endsWith("0") || volume.endsWith("3");
  const registrant = { host_id: "4c4c4544-0051-3510-8052-b4c04f4e3732", key: "0x000000000000abcd", holder: true };
  const kind = isHeld ? "write-exclusive" : null;
  const port = { initiator: "iqn.1993-08.org.debian:01:0000,i,0x00023d000001", tag: 2 };
  const registrants = isHeld
    ? [
        { ...registrant, port: null },
        { ...registrant, port, holder: false },
      ]
    : [];
  return { volume, kind, generation: 1, persist: false, registrants, locked: volume.endsWith("5") };
}

/** One thing; null: there is none; undefined: nobody knows of it here. */
export function accessOne(world: World, { path, values }: Match, query: URLSearchParams): unknown {
  const { name = "", nqn = "", volume = "" } = values;
  switch (path) {
    case "/api/v1/volumes/{name}/attachment":
      return attachment(world, name, query.get("host"));
    case "/api/v1/volumes/{name}/reservation":
      return reservation(name);
    case "/api/v1/channels/{name}":
      return world.channels.find((one) => one.name === name) ?? null;
    case "/api/v1/cluster":
      return world.cluster;
    case "/api/v1/certificates":
      return world.certificates;
    case "/api/v1/settings/thresholds":
      return world.thresholds;
    case "/api/v1/settings/recovery":
      return world.recovery;
    case "/api/v1/subsystems/{name}":
      return world.subsystems.find((one) => one.name === name) ?? null;
    case "/api/v1/hosts/{nqn}":
      return world.hosts.find((one) => one.nqn === nqn) ?? null;
    case "/api/v1/nbd-exports/{volume}":
      return world.exports.find((one) => one.volume === volume) ?? null;
    case "/api/v1/snapshot-policies/{name}":
      return world.policies.find((one) => one.name === name) ?? null;
    default:
      return undefined;
  }
}

function changeSubsystem(world: World, found: Match, method: string, body: Body): Answered {
  const { name = "", nqn = "", nsid = "" } = found.values;
  const there = world.subsystems.find((one) => one.name === name);
  if (there === undefined) return NOT_FOUND;
  const namespaces = (world.namespaces[name] ??= []);
  switch (`${method} ${found.path}`) {
    case "PATCH /api/v1/subsystems/{name}":
      Object.assign(there, body);
      return { status: 200, body: there };
    case "DELETE /api/v1/subsystems/{name}":
      world.subsystems = world.subsystems.filter((one) => one !== there);
      return answerOf(found.operation);
    case "PUT /api/v1/subsystems/{name}/hosts/{nqn}":
      there.hosts = [...there.hosts, nqn];
      return { status: 200, body: there };
    case "DELETE /api/v1/subsystems/{name}/hosts/{nqn}":
      there.hosts = there.hosts.filter((one) => one !== nqn);
      return { status: 200, body: there };
    case "POST /api/v1/subsystems/{name}/namespaces": {
      const [volume, snapshot = null] = String(body.volume).split("@");
      const made = {
        ...{ subsystem: name, nsid: namespaces.length + 1, block_bytes: Number(body.block_bytes), size_bytes: 2 ** 34 },
        ...{ volume: volume!, snapshot, read_only: snapshot !== null, uuid: "11111111-0000-4000-8000-000000000000" },
      };
      namespaces.push(made);
      there.namespaces = namespaces.length;
      return { status: 201, body: made };
    }
    default:
      world.namespaces[name] = namespaces.filter((one) => String(one.nsid) !== nsid);
      there.namespaces = world.namespaces[name].length;
      return answerOf(found.operation);
  }
}

function changePolicy(world: World, found: Match, method: string, query: URLSearchParams, body: Body): Answered {
  const there = world.policies.find((one) => one.name === found.values.name);
  if (there === undefined) return NOT_FOUND;
  if (method === "POST") {
    const kept = { volume: "volume-0001", taken_at: 1, protected: false };
    const snapshots = [
      { ...kept, snapshot: "old", goes: true, kept_by: [] },
      { ...kept, snapshot: "new", goes: false, kept_by: ["daily"] },
    ];
    const isDry = query.get("dry_run") === "true";
    return {
      status: 200,
      body: { policy: there.name, dry_run: isDry, deleted: isDry ? 0 : 1, left: [], snapshots },
    };
  }
  if (method === "DELETE") {
    world.policies = world.policies.filter((one) => one !== there);
    return answerOf(found.operation);
  }
  const { keep, ...rest } = body as { keep?: object };
  Object.assign(there, rest);
  Object.assign(there.keep, keep);
  return { status: 200, body: there };
}

function changeExport(world: World, found: Match, method: string, body: Body): Answered {
  const volume = found.values.volume ?? "";
  world.exports = world.exports.filter((one) => one.volume !== volume);
  const there = world.volumes.find((one) => one.name === volume);
  if (there !== undefined) there.exported = method === "PUT";
  if (method === "DELETE") return answerOf(found.operation);
  const nothing = { clients: [], tenants: [], any_client: false, read_only: false, shared: false };
  const made = { ...nothing, ...body, volume };
  world.exports.push(made);
  return { status: 200, body: made };
}

function madeToken(world: World, body: Body): Answered {
  const made = { ...world.tokens[0]!, id: "feedd9cb469fa16570867728950e0000", name: String(body.name) };
  world.tokens.push(made);
  return { status: 201, body: { ...made, role: body.role, secret: "amita_THE-SECRET" } };
}

/** What is changed; undefined: it is none of this part. */
export function accessChange(
  world: World,
  method: string,
  found: Match,
  query: URLSearchParams,
  body: Body,
): Answered | undefined {
  const { path, values } = found;
  if (path.startsWith("/api/v1/subsystems/{name}")) return changeSubsystem(world, found, method, body);
  if (path.startsWith("/api/v1/snapshot-policies/{name}")) return changePolicy(world, found, method, query, body);
  if (path.startsWith("/api/v1/nbd-exports/{volume}")) return changeExport(world, found, method, body);
  switch (`${method} ${path}`) {
    case "POST /api/v1/subsystems": {
      const rest = { gateways: [], any_host: false, hosts: [], namespaces: 0, tls_required: false, serial: "AM" };
      const made = { ...rest, ...body, nqn: `nqn.2026-11.io.amita:5d1c8f0e:${String(body.name)}` };
      world.subsystems.push(made as unknown as World["subsystems"][number]);
      return { status: 201, body: made };
    }
    case "POST /api/v1/hosts": {
      const made = { nqn: String(body.nqn), dhchap: false, dhchap_controller: false, tls: false, subsystems: [] };
      world.hosts.push(made);
      return { status: 201, body: made };
    }
    case "DELETE /api/v1/hosts/{nqn}":
      world.hosts = world.hosts.filter((one) => one.nqn !== values.nqn);
      return answerOf(found.operation);
    case "POST /api/v1/tokens":
      return madeToken(world, body);
    case "DELETE /api/v1/tokens/{id}":
      world.tokens = world.tokens.filter((one) => one.id !== values.id);
      return answerOf(found.operation);
    case "POST /api/v1/jobs/{id}/cancel":
      world.jobs = world.jobs.filter((one) => one.id !== values.id);
      return answerOf(found.operation);
    case "POST /api/v1/jobs/{id}/pause":
    case "POST /api/v1/jobs/{id}/resume": {
      const there = world.jobs.find((one) => one.id === values.id);
      if (there === undefined) return NOT_FOUND;
      const isPaused = found.path.endsWith("/pause");
      there.state = isPaused ? "paused" : "running";
      there.paused = isPaused ? { by: world.self.name, at: 1 } : null;
      there.actions = ["cancel", isPaused ? "resume" : "pause"];
      return { status: 200, body: there };
    }
    case "POST /api/v1/alerts/{id}/acknowledge": {
      const there = world.alerts.find((one) => one.id === values.id);
      if (there === undefined) return NOT_FOUND;
      there.acknowledged = { by: world.self.name, at: 1, note: String(body.note) };
      return { status: 200, body: there };
    }
    case "POST /api/v1/silences": {
      const made = { ...world.silences[0]!, ...body, id: "ffff1c55d9a0" };
      world.silences.push(made);
      return { status: 201, body: made };
    }
    case "DELETE /api/v1/silences/{id}":
      world.silences = world.silences.filter((one) => one.id !== values.id);
      return answerOf(found.operation);
    case "POST /api/v1/channels/{name}/test":
      return { status: 200, body: { taken: false, said: "connection refused", took_ms: 1_200, node: "node-001" } };
    case "DELETE /api/v1/channels/{name}":
      world.channels = world.channels.filter((one) => one.name !== values.name);
      return answerOf(found.operation);
    case "PATCH /api/v1/settings/thresholds":
      Object.assign(world.thresholds, body);
      return { status: 200, body: world.thresholds };
    case "PATCH /api/v1/settings/recovery":
      for (const [field, value] of Object.entries(body)) {
        const known = world.recovery as unknown as Record<string, unknown>;
        known[field] = typeof value === "object" ? { ...(known[field] as object), ...value } : value;
      }
      return { status: 200, body: world.recovery };
    default:
      return undefined;
  }
}
