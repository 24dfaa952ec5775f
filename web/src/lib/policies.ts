// Policies of snapshots, and what they have in common with those of backups: what a dialog holds, and the body and the command that it
// comes to.
import type { components } from "../api/schema";
import { amitaCommand } from "./command";

type Schemas = components["schemas"];
export type Policy = Schemas["SnapshotPolicy"];

export const RULES = ["last", "hourly", "daily", "weekly", "monthly", "yearly"] as const;
export type Rule = (typeof RULES)[number];
export const TARGETS = ["volumes", "label", "pool"] as const;
export type TargetKind = (typeof TARGETS)[number];

/** What the dialog of any policy holds. */
export interface ScheduledValues {
  readonly name: string;
  readonly target: TargetKind;
  readonly volumes: readonly string[];
  /** KEY=VALUE. */
  readonly label: string;
  readonly pool: string;
  readonly schedule: string;
  readonly zone: string;
  readonly keep: Readonly<Record<Rule, number>>;
  readonly together: boolean;
}

export interface PolicyValues extends ScheduledValues {
  readonly template: string;
}

/** What any policy is, as the API tells it. */
type Scheduled = Pick<Policy, "name" | "target" | "schedule" | "zone" | "keep" | "together">;

/** `KEY=VALUE`; undefined where it has no key. */
export function readLabel(text: string): Schemas["Label"] | undefined {
  const mark = text.indexOf("=");
  return mark < 1 ? undefined : { key: text.slice(0, mark).trim(), value: text.slice(mark + 1).trim() };
}

export const NEW_POLICY: PolicyValues = {
  name: "",
  target: "volumes",
  volumes: [],
  label: "",
  pool: "",
  schedule: "30 2 * * *",
  zone: "UTC",
  template: "{policy}-{time}",
  keep: { last: 0, hourly: 0, daily: 7, weekly: 4, monthly: 0, yearly: 0 },
  together: false,
};

/** What a policy is as the dialog holds it; `names`: volumes by their numbers. */
export function scheduledValues(policy: Scheduled, names: ReadonlyMap<number, string>): ScheduledValues {
  const { volume_ids: ids, label, pool } = policy.target;
  return {
    name: policy.name,
    target: label != null ? "label" : pool != null ? "pool" : "volumes",
    volumes: (ids ?? []).map((id) => names.get(id)).filter((name) => name !== undefined),
    label: label == null ? "" : `${label.key}=${label.value}`,
    pool: pool ?? "",
    schedule: policy.schedule,
    zone: policy.zone,
    keep: policy.keep,
    together: policy.together,
  };
}

export function valuesOf(policy: Policy, names: ReadonlyMap<number, string>): PolicyValues {
  return { ...scheduledValues(policy, names), template: policy.template };
}

export function targetOf(values: ScheduledValues): Schemas["WantedTarget"] {
  if (values.target === "pool") return { pool: values.pool };
  if (values.target === "label") return { label: readLabel(values.label) ?? { key: values.label, value: "" } };
  return { volumes: [...values.volumes] };
}

export function targetWords(values: ScheduledValues): string[] {
  if (values.target === "pool") return ["--pool", values.pool];
  if (values.target === "label") return ["--label", values.label];
  return values.volumes.flatMap((name) => ["--volume", name]);
}

export function keepWords(keep: Partial<Record<Rule, number>>): string[] {
  return RULES.flatMap((rule) => (keep[rule] === undefined ? [] : [`--keep-${rule}`, String(keep[rule])]));
}

/** The rules for which something is kept. */
export function rulesOf(keep: ScheduledValues["keep"]): Partial<Record<Rule, number>> {
  return Object.fromEntries(RULES.filter((rule) => keep[rule] > 0).map((rule) => [rule, keep[rule]]));
}

export function creation(values: PolicyValues): { body: Schemas["NewPolicy"]; command: string } {
  const { name, schedule, zone, template, together } = values;
  const keep = rulesOf(values.keep);
  const words = [
    ...targetWords(values),
    ...["--schedule", schedule, "--zone", zone, "--template", template],
    ...keepWords(keep),
    ...(together ? ["--together"] : []),
  ];
  return {
    body: { name, target: targetOf(values), schedule, zone, template, keep, together },
    command: amitaCommand("snapshot-policy", "create", name, ...words),
  };
}

/** What makes a policy of any kind that is as `from` into one that is as `to`. */
export function scheduledChange(from: ScheduledValues, to: ScheduledValues) {
  const body: Pick<Schemas["PolicyChange"], "target" | "schedule" | "zone" | "keep" | "together"> = {};
  const words: string[] = [];
  const before = JSON.stringify(targetOf(from));
  if (JSON.stringify(targetOf(to)) !== before) {
    body.target = targetOf(to);
    words.push(...targetWords(to));
  }
  for (const field of ["schedule", "zone"] as const) {
    if (from[field] === to[field]) continue;
    body[field] = to[field];
    words.push(`--${field}`, to[field]);
  }
  const rules = RULES.filter((rule) => from.keep[rule] !== to.keep[rule]);
  if (rules.length > 0) {
    const keep = Object.fromEntries(rules.map((rule) => [rule, to.keep[rule]]));
    body.keep = keep;
    words.push(...keepWords(keep));
  }
  if (from.together !== to.together) {
    body.together = to.together;
    words.push(to.together ? "--together" : "--one-by-one");
  }
  return { body, words };
}

export function policyChange(from: PolicyValues, to: PolicyValues): { body: Schemas["PolicyChange"]; command: string } {
  const { body, words } = scheduledChange(from, to);
  const isCalled = from.template === to.template;
  return {
    body: isCalled ? body : { ...body, template: to.template },
    command: amitaCommand(
      ...["snapshot-policy", "set", from.name, ...words],
      ...(isCalled ? [] : ["--template", to.template]),
    ),
  };
}
