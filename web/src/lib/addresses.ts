// Where a node is reached: what its record names, also what this page does not know by name yet.
import type { components } from "../api/schema";

type Node = components["schemas"]["Node"];

export interface Address {
  /** The field of the record. */
  readonly field: string;
  /** Each is HOST:PORT, or the path of a socket. */
  readonly where: readonly string[];
}

/** In this order; others follow by their names. */
const KNOWN = ["fabric", "nvme", "iscsi", "nbd", "nbd_socket", "api", "metrics"];
/** What is no address, however it is written. */
const NAMES = ["name", "site", "rack"];
/** What else is an address: a field that begins like one of these, or whose values look like HOST:PORT. */
const BEGINNINGS = /^(fabric|address)/;
const HOST_AND_PORT = /^(\[[0-9a-fA-F:.%]+\]|[^\s:/]+):\d{1,5}$/;

function textsOf(value: unknown): string[] {
  const values = Array.isArray(value) ? (value as unknown[]) : [value];
  return values.filter((one): one is string => typeof one === "string" && one !== "");
}

/** All addresses of a node, those that it does not have left out. */
export function addressesOf(node: Node): Address[] {
  const record = node as unknown as Readonly<Record<string, unknown>>;
  const others = Object.keys(record).filter((field) => {
    if (KNOWN.includes(field) || NAMES.includes(field)) return false;
    const texts = textsOf(record[field]);
    return BEGINNINGS.test(field) || (texts.length > 0 && texts.every((text) => HOST_AND_PORT.test(text)));
  });
  const all = [...KNOWN, ...others.sort()].map((field) => ({ field, where: textsOf(record[field]) }));
  return all.filter(({ where }) => where.length > 0);
}
