// Backups: policies and repositories as dialogs hold them, the bodies and the commands that they come to, and how a run is.
import type { components } from "../api/schema";
import { amitaCommand } from "./command";
import { bytesArgument, parseRate } from "./format";
import { keepWords, rulesOf, scheduledChange, scheduledValues, targetOf, targetWords } from "./policies";
import type { ScheduledValues } from "./policies";

type Schemas = components["schemas"];
export type BackupPolicy = Schemas["BackupPolicy"];
export type BackupRun = Schemas["BackupRun"];
export type Verification = Schemas["RepositoryVerification"];
export type VerifyRun = Schemas["VerifyRun"];
export type BackupTask = Schemas["BackupTask"];
export type Repository = Schemas["BackupRepository"];

/** Which volumes a policy of backups may be for. */
export const BACKUP_TARGETS = ["volumes", "label"] as const;
/** A node takes no fewer bytes a second for a repository. */
export const LEAST_BACKUP_RATE = 1;

export interface BackupValues extends ScheduledValues {
  readonly repository: string;
  /** An attempt at a run ends after so many seconds. */
  readonly limit: number;
  /** When its repository is verified; empty: it is not. */
  readonly verify: string;
  /** So many percent of it are read each time. */
  readonly verifySample: number;
}

export const NEW_BACKUP: BackupValues = {
  name: "",
  target: "volumes",
  volumes: [],
  label: "",
  pool: "",
  repository: "",
  schedule: "30 2 * * *",
  zone: "UTC",
  keep: { last: 0, hourly: 0, daily: 14, weekly: 0, monthly: 12, yearly: 0 },
  together: false,
  limit: 86_400,
  verify: "",
  verifySample: 5,
};

/** What a policy is as the dialog holds it; `names`: volumes by their numbers. */
export function backupValues(policy: BackupPolicy, names: ReadonlyMap<number, string>): BackupValues {
  const { repository, limit_seconds: limit, verify } = policy;
  return {
    ...scheduledValues(policy, names),
    ...{ repository, limit },
    verify: verify?.schedule ?? "",
    verifySample: verify?.percent ?? NEW_BACKUP.verifySample,
  };
}

export function backupCreation(values: BackupValues): { body: Schemas["NewBackupPolicy"]; command: string } {
  const { name, repository, schedule, zone, together, limit, verifySample: percent } = values;
  const keep = rulesOf(values.keep);
  const verify = values.verify.trim();
  const words = [
    ...targetWords(values),
    ...["--to", repository, "--schedule", schedule, "--zone", zone],
    ...keepWords(keep),
    ...(together ? ["--together"] : []),
    ...["--time-limit", String(limit)],
    ...(verify === "" ? [] : ["--verify", verify, "--verify-sample", String(percent)]),
  ];
  return {
    body: {
      ...{ name, target: targetOf(values), repository, schedule, zone, keep, together, limit_seconds: limit },
      ...(verify === "" ? {} : { verify: { schedule: verify, percent } }),
    },
    command: amitaCommand("backup", "policy", "create", name, ...words),
  };
}

/** What makes a policy that is as `from` into one that is as `to`. */
export function backupChange(
  from: BackupValues,
  to: BackupValues,
): { body: Schemas["BackupPolicyChange"]; command: string } {
  const { body: common, words } = scheduledChange(from, to);
  const body: Schemas["BackupPolicyChange"] = { ...common };
  if (from.repository !== to.repository) {
    body.repository = to.repository;
    words.push("--to", to.repository);
  }
  if (from.limit !== to.limit) {
    body.limit_seconds = to.limit;
    words.push("--time-limit", String(to.limit));
  }
  const verify = to.verify.trim();
  if (verify === "" && from.verify !== "") {
    body.verify = { schedule: "" };
    words.push("--no-verify");
  } else if (verify !== "") {
    const schedule = verify === from.verify ? {} : { schedule: verify };
    const percent = from.verify !== "" && from.verifySample === to.verifySample ? {} : { percent: to.verifySample };
    const change = { ...schedule, ...percent };
    if (Object.keys(change).length > 0) body.verify = change;
    words.push(
      ...("schedule" in schedule ? ["--verify", verify] : []),
      ...("percent" in percent ? ["--verify-sample", String(to.verifySample)] : []),
    );
  }
  return { body, command: amitaCommand("backup", "policy", "set", from.name, ...words) };
}

/** Is something of its repository known to be damaged or missing? */
export function isDamaged({ verification }: Pick<BackupPolicy, "verification">): boolean {
  return verification != null && (verification.damaged_objects > 0 || verification.damaged_points > 0);
}

/** `left`: it was begun, and no node is at it. */
export type RunState = "none" | "running" | "waits" | "left";

/** How the run is that has begun. */
export function runState({ runner, history }: Pick<BackupPolicy, "runner" | "history">): RunState {
  const current = history?.current;
  if (current == null) return "none";
  if (runner != null) return "running";
  return current.again_at == null ? "left" : "waits";
}

/** The texts of a repository that may be taken away, and the options that set them; a text that is empty was never said, or is not to be. */
const TEXTS = [
  ["s3_endpoint", "--s3-endpoint"],
  ["s3_region", "--s3-region"],
  ["s3_credentials", "--s3-credentials"],
  ["s3_ca", "--s3-ca"],
  ["vault", "--vault"],
] as const;
type RepositoryText = (typeof TEXTS)[number][0];
/** The command checks what these are, and takes no empty one. */
const NEVER_EMPTY: readonly RepositoryText[] = ["s3_endpoint", "vault"];

export interface RepositoryValues extends Readonly<Record<RepositoryText, string>> {
  readonly name: string;
  readonly address: string;
  readonly key_file: string;
  /** None: all that have the key file. */
  readonly nodes: readonly string[];
  readonly rate: string;
  /** 0: nothing is locked. */
  readonly lockDays: number;
}

export const NEW_REPOSITORY: RepositoryValues = {
  ...{ name: "", address: "", key_file: "/etc/amita/backup.key", nodes: [], rate: "", lockDays: 0 },
  ...{ s3_endpoint: "", s3_region: "", s3_credentials: "", s3_ca: "", vault: "" },
};

export function repositoryValues(found: Repository): RepositoryValues {
  const { name, address, key_file, nodes, limit_bytes_per_second: rate, lock_days } = found;
  const texts = Object.fromEntries(TEXTS.map(([field]) => [field, found[field] ?? ""])) as Record<
    RepositoryText,
    string
  >;
  return {
    ...{ name, address, key_file, nodes, ...texts },
    ...{ rate: rate == null ? "" : bytesArgument(rate), lockDays: lock_days ?? 0 },
  };
}

function nodeWords(nodes: readonly string[]): string[] {
  return nodes.flatMap((name) => ["--node", name]);
}

export function repositoryCreation(values: RepositoryValues): {
  body: Schemas["NewBackupRepository"];
  command: string;
} {
  const { name, address, key_file, lockDays } = values;
  const said = TEXTS.filter(([field]) => values[field].trim() !== "");
  const rate = parseRate(values.rate, LEAST_BACKUP_RATE) ?? null;
  const words = [
    ...["--address", address, "--key-file", key_file],
    ...said.flatMap(([field, option]) => [option, values[field].trim()]),
    ...nodeWords(values.nodes),
    ...(rate === null ? [] : ["--limit-rate", bytesArgument(rate)]),
    ...(lockDays === 0 ? [] : ["--lock-days", String(lockDays)]),
  ];
  const body: Schemas["NewBackupRepository"] = {
    ...{ name, address, key_file },
    ...Object.fromEntries(said.map(([field]) => [field, values[field].trim()])),
    ...(values.nodes.length === 0 ? {} : { nodes: [...values.nodes] }),
    ...(rate === null ? {} : { limit_bytes_per_second: rate }),
    ...(lockDays === 0 ? {} : { lock_days: lockDays }),
  };
  return { body, command: amitaCommand("backup", "repository", "add", name, ...words) };
}

/** What makes a repository that is as `from` into one that is as `to`. No command takes an endpoint or a vault away: there is none then. */
export function repositoryChange(
  from: RepositoryValues,
  to: RepositoryValues,
): { body: Schemas["BackupRepositoryChange"]; command: string | undefined } {
  const body: Schemas["BackupRepositoryChange"] = {};
  const words: string[] = [];
  for (const [field, option] of [["address", "--address"], ["key_file", "--key-file"], ...TEXTS] as const) {
    if (from[field] === to[field].trim()) continue;
    body[field] = to[field].trim();
    words.push(option, to[field].trim());
  }
  if (JSON.stringify(from.nodes) !== JSON.stringify(to.nodes)) {
    body.nodes = [...to.nodes];
    words.push(...(to.nodes.length === 0 ? ["--any-node"] : nodeWords(to.nodes)));
  }
  const rate = parseRate(to.rate, LEAST_BACKUP_RATE) ?? 0;
  if (rate !== (parseRate(from.rate, LEAST_BACKUP_RATE) ?? 0)) {
    body.limit_bytes_per_second = rate;
    words.push(...(rate === 0 ? ["--no-limit"] : ["--limit-rate", bytesArgument(rate)]));
  }
  if (from.lockDays !== to.lockDays) {
    body.lock_days = to.lockDays;
    words.push(...(to.lockDays === 0 ? ["--no-lock"] : ["--lock-days", String(to.lockDays)]));
  }
  const isSaid = words.length > 0 && !NEVER_EMPTY.some((field) => body[field] === "");
  return { body, command: isSaid ? amitaCommand("backup", "repository", "set", from.name, ...words) : undefined };
}

/** What a task is for, and of what; `unknown`: nobody can read its record. */
export function taskOf({ backup, restore, forget }: Pick<BackupTask, "backup" | "restore" | "forget">): {
  readonly kind: "backup" | "restore" | "forget" | "unknown";
  readonly what: string;
} {
  if (backup != null) {
    const { volume, snapshot } = backup;
    return { kind: "backup", what: snapshot == null ? volume : `${volume}@${snapshot}` };
  }
  if (restore != null) return { kind: "restore", what: restore.to };
  if (forget != null) return { kind: "forget", what: String(forget.point) };
  return { kind: "unknown", what: "" };
}

/** Is there nothing of it that could be taken back? */
export function taskHasEnded({ state }: Pick<BackupTask, "state">): boolean {
  return state === "done" || state === "failed" || state === "cancelled" || state === "unreadable";
}
