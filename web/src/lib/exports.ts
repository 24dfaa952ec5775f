// What a volume is served as by NBD, as the command line says it.
import type { components } from "../api/schema";
import { amitaCommand } from "./command";

type Wanted = components["schemas"]["WantedExport"];

export function exportCommand(volume: string, wanted: Wanted): string {
  const { clients = [], tenants = [], any_client, read_only, shared } = wanted;
  return amitaCommand(
    ...["nbd", "export", volume],
    ...clients.flatMap((name) => ["--client", name]),
    ...tenants.flatMap((name) => ["--tenant", name]),
    any_client ? "--any-client" : undefined,
    read_only ? "--read-only" : undefined,
    shared ? "--shared" : undefined,
  );
}
