// Which alerts a silence or a channel means, in a line, and the command that makes a silence.
import type { components } from "../api/schema";
import { amitaCommand } from "./command";
import { parseLabels } from "./labels";

type Schemas = components["schemas"];
export type AlertMatch = Schemas["AlertMatch"];

/** What the dialog of a silence holds: patterns, separated by spaces; labels, a line each; hours. */
export interface SilenceValues {
  readonly codes: string;
  readonly objects: string;
  readonly labels: string;
  readonly hours: number;
  readonly why: string;
}

const HOUR_SECONDS = 3_600;

function words(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}

export function matchOf({ codes, objects, labels }: SilenceValues): Required<AlertMatch> {
  return { codes: words(codes), objects: words(objects), labels: { ...parseLabels(labels) } };
}

/** Something has to be said: the code `*` is all of them. */
export function isEmpty({ codes = [], objects = [], labels = {} }: AlertMatch): boolean {
  return codes.length === 0 && objects.length === 0 && Object.keys(labels).length === 0;
}

/** `code node-*, object n1, pool=fast`; empty: all. */
export function matchText({ codes = [], objects = [], labels = {} }: AlertMatch): string {
  return [
    ...codes.map((code) => `code ${code}`),
    ...objects.map((object) => `object ${object}`),
    ...Object.entries(labels).map(([key, value]) => `${key}=${value}`),
  ].join(", ");
}

/** A silence from now on; `now`: in seconds since 1970. */
export function silence(values: SilenceValues, now: number): { body: Schemas["NewSilenceBody"]; command: string } {
  const matches = matchOf(values);
  const { hours, why } = values;
  const patterns = [
    ...matches.codes.flatMap((code) => ["--code", code]),
    ...matches.objects.flatMap((object) => ["--object", object]),
    ...Object.entries(matches.labels).flatMap(([key, value]) => ["--label", `${key}=${value}`]),
  ];
  return {
    body: { matches, until: now + hours * HOUR_SECONDS, why },
    command: amitaCommand("alert", "silence", "add", ...patterns, "--for", `${hours}h`, "--why", why),
  };
}

const SEVERITIES = ["critical", "warning", "info"];
const STATES = ["firing", "pending", "resolved"];

interface Ranked {
  readonly state: string;
  readonly severity: string;
  readonly since: number;
}

/** What fires first, the worst of it first, the newest of that first. */
export function byUrgency(a: Ranked, b: Ranked): number {
  return (
    STATES.indexOf(a.state) - STATES.indexOf(b.state) ||
    SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) ||
    b.since - a.since
  );
}
