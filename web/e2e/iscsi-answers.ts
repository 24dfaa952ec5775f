// What the mock answers of iSCSI: targets, LUNs and initiators, and what is changed in them.
import type { Answered, Items } from "./answers";
import { answerOf } from "./specification";
import type { Match } from "./specification";
import type { World } from "./world";

type Body = Record<string, unknown>;
const NOT_FOUND: Answered = { status: 404, problem: "not-found", detail: "there is none of that name" };

export function iscsiList(world: World, { path, values }: Match): Items | undefined {
  const lists: Record<string, () => Items> = {
    "/api/v1/targets": () => world.targets,
    "/api/v1/targets/{name}/luns": () => world.luns[values.name ?? ""] ?? [],
    "/api/v1/initiators": () => world.initiators,
  };
  return lists[path]?.();
}

/** Of what a volume is a LUN, by which portals, and by which commands initiators have it. */
function attachment(world: World, volume: string, asked: string | null): unknown {
  const found = Object.values(world.luns)
    .flat()
    .find((one) => one.volume === volume && one.snapshot === null);
  const target = world.targets.find((one) => one.name === found?.target);
  if (found === undefined || target === undefined) return null;
  const { lun, naa, block_bytes } = found;
  const serving = world.nodes.filter(
    ({ name, iscsi }) => iscsi.length > 0 && (target.gateways.length === 0 || target.gateways.includes(name)),
  );
  const portals = serving.flatMap(({ name, id, alive, iscsi }) =>
    iscsi.map((place) => {
      const at = place.lastIndexOf(":");
      const address = place.slice(0, at).replace(/^\[|\]$/g, "");
      return { node: name, address, port: Number(place.slice(at + 1)), tag: id, owner: name === "node-000", alive };
    }),
  );
  const initiators = target.initiators.filter(({ luns }) => luns == null || luns.includes(lun));
  const initiator = asked ?? initiators[0]?.initiator;
  const nothing = { prepare: [], connect: [], file: null, lines: [], disk: "" };
  const commands =
    initiator === undefined || portals.length === 0
      ? null
      : {
          initiator,
          linux: {
            prepare: ["systemctl enable --now iscsid multipathd"],
            connect: [`iscsiadm -m node -T ${target.iqn} --login`],
            file: "/etc/multipath/conf.d/amita.conf",
            lines: ["devices {", "}"],
            disk: `/dev/disk/by-id/dm-uuid-mpath-3${naa}`,
          },
          esxi: {
            ...nothing,
            prepare: ["esxcli iscsi software set --enabled=true"],
            connect: [`esxcli storage nmp device list --device=naa.${naa}`],
            disk: `/vmfs/devices/disks/naa.${naa}`,
          },
          windows: {
            ...nothing,
            prepare: ["Enable-MSDSMAutomaticClaim -BusType iSCSI"],
            connect: [`Connect-IscsiTarget -NodeAddress '${target.iqn}'`],
            disk: `Get-Disk | Where-Object UniqueId -eq '${naa.toUpperCase()}'`,
          },
        };
  const { name, iqn, any_initiator } = target;
  return { volume, target: name, iqn, lun, naa, block_bytes, any_initiator, initiators, portals, commands };
}

/** One thing; null: there is none; undefined: nobody knows of it here. */
export function iscsiOne(world: World, { path, values }: Match, query: URLSearchParams): unknown {
  const { name = "" } = values;
  switch (path) {
    case "/api/v1/iscsi/sessions":
      return { items: world.sessions, missing: [{ node: "node-016", why: "it is not alive" }], next: null };
    case "/api/v1/volumes/{name}/iscsi-attachment":
      return attachment(world, name, query.get("initiator"));
    case "/api/v1/targets/{name}":
      return world.targets.find((one) => one.name === name) ?? null;
    case "/api/v1/initiators/{name}":
      return world.initiators.find((one) => one.name === name) ?? null;
    default:
      return undefined;
  }
}

function known(world: World, name: string): World["initiators"][number] {
  const there = world.initiators.find((one) => one.name === name);
  if (there !== undefined) return there;
  const made = { name, chap_user: name, chap_target_user: null, chap: false, chap_target: false, targets: [] };
  world.initiators.push(made);
  return made;
}

function allow(world: World, there: World["targets"][number], initiator: string, luns: number[] | null): Answered {
  const isKnown = (luns ?? []).every((lun) => world.luns[there.name]?.some((one) => one.lun === lun));
  if (!isKnown) return { status: 404, problem: "not-found", detail: "there is no such LUN" };
  there.initiators = [...there.initiators.filter((one) => one.initiator !== initiator), { initiator, luns }];
  const { targets } = known(world, initiator);
  if (!targets.includes(there.name)) targets.push(there.name);
  return { status: 200, body: there };
}

function addLun(world: World, there: World["targets"][number], body: Body): Answered {
  const luns = (world.luns[there.name] ??= []);
  const number = body.lun == null ? Math.max(-1, ...luns.map(({ lun }) => lun)) + 1 : Number(body.lun);
  if (luns.some(({ lun }) => lun === number)) return { status: 400, problem: "bad-setting", detail: "it has that LUN" };
  const [volume, snapshot = null] = String(body.volume).split("@");
  const made = {
    ...{ target: there.name, lun: number, volume: volume!, snapshot, read_only: snapshot !== null },
    ...{ size_bytes: 2 ** 34, block_bytes: Number(body.block_bytes ?? 512), shared: body.shared === true },
    naa: "602414d1111111111111111111111111",
  };
  luns.push(made);
  there.luns = luns.length;
  return { status: 201, body: made };
}

function removeLun(world: World, there: World["targets"][number], number: string): void {
  const left = (world.luns[there.name] ?? []).filter(({ lun }) => String(lun) !== number);
  world.luns[there.name] = left;
  there.luns = left.length;
  for (const access of there.initiators) {
    if (access.luns != null) access.luns = access.luns.filter((lun) => String(lun) !== number);
  }
}

function changeTarget(world: World, found: Match, method: string, body: Body): Answered {
  const { name = "", initiator = "", lun = "" } = found.values;
  const there = world.targets.find((one) => one.name === name);
  if (there === undefined) return NOT_FOUND;
  switch (`${method} ${found.path}`) {
    case "PATCH /api/v1/targets/{name}":
      Object.assign(there, body);
      return { status: 200, body: there };
    case "DELETE /api/v1/targets/{name}":
      world.targets = world.targets.filter((one) => one !== there);
      delete world.luns[name];
      return answerOf(found.operation);
    case "POST /api/v1/targets/{name}/luns":
      return addLun(world, there, body);
    case "DELETE /api/v1/targets/{name}/luns/{lun}":
      removeLun(world, there, lun);
      return answerOf(found.operation);
    case "PUT /api/v1/targets/{name}/initiators/{initiator}":
      return allow(world, there, initiator, (body.luns ?? null) as number[] | null);
    default:
      there.initiators = there.initiators.filter((one) => one.initiator !== initiator);
      return { status: 200, body: there };
  }
}

function changeKeys(world: World, name: string, body: Body): Answered {
  const there = world.initiators.find((one) => one.name === name);
  if (there === undefined) return NOT_FOUND;
  if (body.chap !== undefined) there.chap = body.chap !== null;
  if (body.chap_target !== undefined) there.chap_target = body.chap_target !== null;
  if (body.chap_user !== undefined) there.chap_user = (body.chap_user as string | null) ?? name;
  if (body.chap_target_user !== undefined) there.chap_target_user = body.chap_target_user as string | null;
  return { status: 200, body: there };
}

/** What is changed; undefined: it is none of this part. */
export function iscsiChange(world: World, method: string, found: Match, body: Body): Answered | undefined {
  const { path, values } = found;
  const { name = "" } = values;
  if (path.startsWith("/api/v1/targets/{name}")) return changeTarget(world, found, method, body);
  switch (`${method} ${path}`) {
    case "POST /api/v1/targets": {
      const rest = {
        gateways: [],
        any_initiator: false,
        chap_required: false,
        initiators_move: false,
        space_warning_percent: null,
      };
      const iqn = body.iqn ?? `iqn.2026-11.io.amita:5d1c8f0e:${String(body.name)}`;
      const made = { ...rest, ...body, iqn, initiators: [], luns: 0 };
      world.targets.push(made as unknown as World["targets"][number]);
      return { status: 201, body: made };
    }
    case "POST /api/v1/initiators":
      return { status: 201, body: known(world, String(body.name)) };
    case "DELETE /api/v1/initiators/{name}":
      world.initiators = world.initiators.filter((one) => one.name !== name);
      return answerOf(found.operation);
    case "PATCH /api/v1/initiators/{name}/keys":
      return changeKeys(world, name, body);
    default:
      return undefined;
  }
}
