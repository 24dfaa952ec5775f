// What an inspection has found, as rows of tables, and where more of it is seen.
import type { components } from "../api/schema";
import { placeHref } from "./router";

type Schemas = components["schemas"];
type Place = Schemas["InspectedPlace"];

export interface FindingRow {
  readonly id: string;
  readonly severity: Schemas["FindingSeverity"];
  readonly code: string;
  readonly check: string;
  readonly place: Place;
  readonly reason: string;
  readonly mend: string;
}

export interface BlindRow {
  readonly id: string;
  readonly check: string;
  readonly place: Place;
  readonly why: string;
}

export function findingRows(findings: readonly Schemas["Finding"][]): FindingRow[] {
  return findings.map((found, index) => ({ ...found, id: `${index} ${found.code}` }));
}

export function blindRows(places: readonly Schemas["NotLookedAt"][]): BlindRow[] {
  return places.map((blind, index) => ({ ...blind, id: `${index} ${blind.check}` }));
}

/** The screen of what has this place; undefined: there is none. */
export function placeOf({ kind, name }: Place): string | undefined {
  switch (kind) {
    case "node":
      return placeHref(["nodes", name]);
    case "nic":
    case "disk":
      // They are named behind their node.
      return placeHref(["nodes", name.split("/")[0] ?? ""]);
    case "store":
      return placeHref(["nodes"], { tab: "stores", q: name });
    case "pool":
      return placeHref(["pools", name]);
    case "subsystem":
      return placeHref(["hosts", name]);
    default:
      return undefined;
  }
}
