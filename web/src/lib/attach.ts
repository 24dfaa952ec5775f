// What a client has to do to use a volume by NBD: the commands of docs/operating/nbd.md. Those for NVMe/TCP the API tells.
import { shellQuote } from "./command";

interface Server {
  readonly name: string;
  readonly alive: boolean;
  readonly nbd?: string | null;
}

/** `[2001:db8::1]:4420` and `192.0.2.1:4420`, taken apart; undefined where it has no port. */
export function splitAddress(address: string): { host: string; port: string } | undefined {
  const found = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/.exec(address);
  return found === null ? undefined : { host: (found[1] ?? found[2])!, port: found[3]! };
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
