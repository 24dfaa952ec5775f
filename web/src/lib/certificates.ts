// Certificates that are in use, as rows of one table: the first that ends first.
import type { components } from "../api/schema";

type Schemas = components["schemas"];
type ApiCertificate = Schemas["Certificate"];

export interface CertificateRow {
  readonly id: string;
  readonly use: Schemas["CertificateUse"];
  readonly state: Schemas["CertificateState"];
  /** Whom it names; where that is not known, its node. */
  readonly name: string;
  /** The nodes that have it or trust it, and how many are not named. */
  readonly nodes: readonly string[];
  readonly more: number;
  readonly role: string | undefined;
  readonly issuer: string | undefined;
  readonly serial: string | undefined;
  readonly fingerprint: string | undefined;
  /** Seconds since 1970. */
  readonly beginsAt: number;
  readonly endsAt: number;
  readonly leftDays: number;
  readonly renew: string | undefined;
}

function rowOf(found: ApiCertificate): CertificateRow {
  const node = found.nodes[0] ?? "";
  return {
    id: `${found.use} ${node} ${found.fingerprint ?? ""}`,
    use: found.use,
    state: found.state,
    name: found.name ?? node,
    nodes: found.nodes,
    more: Math.max(0, found.node_count - found.nodes.length),
    role: found.role ?? undefined,
    issuer: found.issuer ?? undefined,
    serial: found.serial ?? undefined,
    fingerprint: found.fingerprint ?? undefined,
    beginsAt: found.begins_at,
    endsAt: found.ends_at,
    leftDays: found.left_days,
    renew: found.renew ?? undefined,
  };
}

/** All of them, the first that ends first. */
export function certificateRows(certificates: readonly ApiCertificate[]): CertificateRow[] {
  return certificates.map(rowOf).sort((a, b) => a.endsAt - b.endsAt || a.id.localeCompare(b.id));
}
