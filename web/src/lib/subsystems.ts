// Subsystems: what of one is to be another, as a body and as a command; and the name that `amita volume attach` gives one.
import type { components } from "../api/schema";
import { amitaCommand } from "./command";

type Schemas = components["schemas"];

export type Doors = Pick<Schemas["Subsystem"], "gateways" | "any_host" | "tls_required">;

interface Changed {
  readonly body: Schemas["SubsystemChange"];
  /** None where nothing is to be another. */
  readonly command: string | undefined;
}

/** What makes the subsystem of this name, which is as `from`, into one that is as `to`. */
export function subsystemChange(name: string, from: Doors, to: Doors): Changed {
  const { gateways, any_host, tls_required } = to;
  const isSame = from.gateways.length === gateways.length && gateways.every((node) => from.gateways.includes(node));
  const body: Schemas["SubsystemChange"] = {};
  const words: string[] = [];
  if (!isSame) {
    body.gateways = gateways;
    words.push(...(gateways.length === 0 ? ["--all-gateways"] : gateways.flatMap((node) => ["--gateway", node])));
  }
  if (from.any_host !== any_host) {
    body.any_host = any_host;
    words.push(any_host ? "--any-host" : "--listed-hosts");
  }
  if (from.tls_required !== tls_required) {
    body.tls_required = tls_required;
    words.push(tls_required ? "--require-tls" : "--allow-plain");
  }
  return { body, command: words.length === 0 ? undefined : amitaCommand("subsystem", "set", name, ...words) };
}

/** What the subsystem of a volume, or of VOLUME@SNAPSHOT alone, is called where nobody says it. */
export function ownSubsystem(name: string): string {
  const mark = name.lastIndexOf("@");
  // Names of snapshots may have what those of subsystems have not.
  return mark < 0 ? name : `${name.slice(0, mark)}.${name.slice(mark + 1).replace(/[:+]/g, "-")}`;
}
