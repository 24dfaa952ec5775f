// What a Linux host has to do to use a volume: the commands that `amita volume attach` prints (crates/amita, guide.rs),
// and those of docs/operating/nbd.md. A test holds the settings to those of the command.
import type { components } from "../api/schema";
import { shellQuote } from "./command";
import { escapeHidden } from "./visible";

/** Where a host connects by NVMe/TCP: as the API says it. */
type Gateway = components["schemas"]["AttachmentGateway"];

/** What a host has to prove. */
export interface Proofs {
  readonly dhchap: boolean;
  readonly dhchap_controller: boolean;
  readonly tls: boolean;
}

interface Server {
  readonly name: string;
  readonly alive: boolean;
  readonly nbd?: string | null;
}

export interface Guide {
  /** What is run once before: the kernel's module, keys. */
  readonly prepare: readonly string[];
  /** What connects: one command for each gateway. */
  readonly connect: readonly string[];
  /** Connects everything that the host may use, by discovery; none where the host has something to prove. */
  readonly connectAll: string | undefined;
  /** What makes it permanent, and the lines of it; `prepare` writes the file where keys belong into it. */
  readonly permanentFile: string;
  readonly permanent: readonly string[];
}

/** How a host connects: in seconds, but for the last; docs/operating/nvme.md says why. */
export const SETTINGS = {
  keep_alive_tmo: 5,
  reconnect_delay: 2,
  ctrl_loss_tmo: -1,
  fast_io_fail_tmo: 600,
  nr_io_queues: 8,
} as const;

const CONFIG_FILE = "/etc/nvme/config.json";
/** What stands for keys: a shell reads them from the host's files, and nobody sees them in a list of processes. */
const HOST_KEY = "$(cat /etc/nvme/dhchap.key)";
const CONTROLLER_KEY = "$(cat /etc/nvme/dhchap-ctrl.key)";

/** `[2001:db8::1]:4420` and `192.0.2.1:4420`, taken apart; undefined where it has no port. */
export function splitAddress(address: string): { host: string; port: string } | undefined {
  const found = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/.exec(address);
  return found === null ? undefined : { host: (found[1] ?? found[2])!, port: found[3]! };
}

function portal({ traddr, trsvcid }: Gateway): string {
  return `--transport=tcp --traddr=${shellQuote(traddr)} --trsvcid=${trsvcid}`;
}

function options(): string {
  return [
    `--nr-io-queues=${SETTINGS.nr_io_queues}`,
    `--keep-alive-tmo=${SETTINGS.keep_alive_tmo}`,
    `--reconnect-delay=${SETTINGS.reconnect_delay}`,
    `--ctrl-loss-tmo=${SETTINGS.ctrl_loss_tmo}`,
    `--fast_io_fail_tmo=${SETTINGS.fast_io_fail_tmo}`,
  ].join(" ");
}

/** The lines of libnvme's own file of settings; what names hold ends no line of it, and turns none. */
function configFile(subsystem: string, host: string, gateways: readonly Gateway[], proofs: Proofs): string[] {
  const ports = gateways.map((gateway) => ({
    transport: "tcp",
    traddr: gateway.traddr,
    trsvcid: String(gateway.trsvcid),
    ...SETTINGS,
    ...(proofs.dhchap ? { dhchap_key: HOST_KEY } : {}),
    ...(proofs.dhchap_controller ? { dhchap_ctrl_key: CONTROLLER_KEY } : {}),
    ...(proofs.tls ? { tls: true } : {}),
  }));
  const settings = [{ hostnqn: host, subsystems: [{ nqn: subsystem, ports }] }];
  return JSON.stringify(settings, null, 2).split("\n").map(escapeHidden);
}

/** A command that writes these lines, with the keys in them, into a new file that only root reads. */
function configScript(lines: readonly string[]): string {
  // A shell expands the keys' places, and nothing else: what names hold is escaped.
  const escape = (line: string) => {
    const escaped = line.replace(/[\\`$]/g, "\\$&");
    return [HOST_KEY, CONTROLLER_KEY].reduce((text, key) => text.replace(`\\${key}`, () => key), escaped);
  };
  const keep = `[ ! -e ${CONFIG_FILE} ] || mv --backup=numbered ${CONFIG_FILE} ${CONFIG_FILE}.old`;
  return `(umask 077; ${keep}; cat > ${CONFIG_FILE} <<END\n${lines.map(escape).join("\n")}\nEND\n)`;
}

/** What the host of this name does as root to connect to a subsystem, by their NVMe qualified names. */
export function nvmeGuide(subsystem: string, host: string, gateways: readonly Gateway[], proofs: Proofs): Guide {
  const names = `--nqn=${shellQuote(subsystem)} --hostnqn=${shellQuote(host)}`;
  const proves = proofs.dhchap || proofs.dhchap_controller || proofs.tls;
  const permanent = proves
    ? configFile(subsystem, host, gateways, proofs)
    : gateways.map((gateway) => `${portal(gateway)} ${options()}`);
  const prepare = ["modprobe nvme-tcp"];
  if (proofs.dhchap) prepare.push(configScript(permanent));
  if (proofs.tls) {
    const pair = `--subsysnqn=${shellQuote(subsystem)} --hostnqn=${shellQuote(host)}`;
    prepare.push(
      "systemctl enable --now tlshd",
      `nvme check-tls-key --insert --identity=1 --keydata="$(cat /etc/nvme/tls.key)" ${pair}`,
    );
  }
  const byTls = proofs.tls ? " --tls" : "";
  const [first] = gateways;
  return {
    prepare,
    connect: gateways.map((gateway) => `nvme connect ${portal(gateway)} ${names} ${options()}${byTls}`),
    connectAll:
      proves || first === undefined
        ? undefined
        : `nvme connect-all ${portal(first)} --hostnqn=${shellQuote(host)} ${options()}`,
    permanentFile: proves ? CONFIG_FILE : "/etc/nvme/discovery.conf",
    permanent,
  };
}

/** The path of the disk on the host, by the namespace's UUID. */
export function diskPath(uuid: string): string {
  return `/dev/disk/by-id/nvme-uuid.${uuid}`;
}

export interface NbdGuide {
  /** Is it there? */
  readonly look: string;
  /** Makes it a block device of the host, as root. */
  readonly connect: string;
}

/** What a client does with the export of a volume, at each node that serves NBD; those that live first. */
export function nbdGuides(volume: string, nodes: readonly Server[]): (NbdGuide & { readonly node: string })[] {
  const serving = nodes.filter(({ nbd }) => nbd != null).sort((a, b) => Number(b.alive) - Number(a.alive));
  return serving.flatMap(({ name, nbd }) => {
    const place = splitAddress(nbd ?? "");
    if (place === undefined) return [];
    const host = place.host.includes(":") ? `[${place.host}]` : place.host;
    return [
      {
        node: name,
        look: `nbdinfo ${shellQuote(`nbd://${host}:${place.port}/${encodeURIComponent(volume)}`)}`,
        connect: `nbd-client -N ${shellQuote(volume)} -C 4 ${shellQuote(place.host)} ${place.port} /dev/nbd0`,
      },
    ];
  });
}
