import { describe, expect, it } from "vitest";
import {
  backupChange,
  backupCreation,
  backupValues,
  isDamaged,
  NEW_BACKUP,
  NEW_REPOSITORY,
  repositoryChange,
  repositoryCreation,
  repositoryValues,
  runState,
  taskHasEnded,
  taskOf,
} from "../src/lib/backups";
import type { BackupPolicy, BackupRun, Repository, Verification } from "../src/lib/backups";
import { differencesOf } from "../src/lib/differences";

const RUN: BackupRun = {
  ...{ due_at: 1, began_at: 2, node: "n1", attempts: 1, volumes: 0, points: 0, forgotten: 0 },
  ...{ read_bytes: 0, sent_bytes: 0, failed: 0, why: [], notes: [] },
};

describe("policies of backups", () => {
  const nightly = {
    ...NEW_BACKUP,
    name: "nightly",
    target: "label" as const,
    label: "tier=gold",
    repository: "off-site",
  };
  it("are made with the rules for which something is kept", () => {
    expect(backupCreation({ ...nightly, together: true })).toEqual({
      body: {
        name: "nightly",
        target: { label: { key: "tier", value: "gold" } },
        repository: "off-site",
        schedule: "30 2 * * *",
        zone: "UTC",
        keep: { daily: 14, monthly: 12 },
        together: true,
        limit_seconds: 86_400,
      },
      command:
        "amita backup policy create nightly --label tier=gold --to off-site --schedule '30 2 * * *' --zone UTC " +
        "--keep-daily 14 --keep-monthly 12 --together --time-limit 86400",
    });
  });

  it("are changed in what is another", () => {
    const to = {
      ...nightly,
      repository: "tape",
      limit: 3_600,
      keep: { ...nightly.keep, monthly: 0 },
      zone: "Asia/Shanghai",
    };
    expect(backupChange(nightly, to)).toEqual({
      body: { zone: "Asia/Shanghai", keep: { monthly: 0 }, repository: "tape", limit_seconds: 3_600 },
      command: "amita backup policy set nightly --zone Asia/Shanghai --keep-monthly 0 --to tape --time-limit 3600",
    });
    expect(backupChange(nightly, nightly).body).toEqual({});
  });

  it("verify their repository where that is said", () => {
    const weekly = { ...nightly, verify: "@weekly" };
    const made = backupCreation({ ...weekly, verifySample: 7 });
    expect(made.body.verify).toEqual({ schedule: "@weekly", percent: 7 });
    expect(made.command).toContain("--verify @weekly --verify-sample 7");
    const set = "amita backup policy set nightly ";
    expect(backupChange(nightly, weekly)).toEqual({
      body: { verify: { schedule: "@weekly", percent: 5 } },
      command: `${set}--verify @weekly --verify-sample 5`,
    });
    expect(backupChange(weekly, { ...weekly, verifySample: 9 })).toEqual({
      body: { verify: { percent: 9 } },
      command: `${set}--verify-sample 9`,
    });
    expect(backupChange(weekly, { ...weekly, verify: " " })).toEqual({
      body: { verify: { schedule: "" } },
      command: `${set}--no-verify`,
    });
    expect(backupChange(weekly, weekly).body).toEqual({});
    const found = (damaged_objects: number) => ({
      verification: { damaged_objects, damaged_points: 0 } as Verification,
    });
    expect([isDamaged({ verification: null }), isDamaged(found(0)), isDamaged(found(1))]).toEqual([false, false, true]);
  });

  it("know volumes by their numbers", () => {
    const policy = {
      ...{ name: "p", target: { volume_ids: [1, 9] }, repository: "r", schedule: "@daily", zone: "UTC" },
      ...{ keep: NEW_BACKUP.keep, together: false, limit_seconds: 60 },
    } as unknown as BackupPolicy;
    expect(backupValues(policy, new Map([[9, "nine"]]))).toMatchObject({
      ...{ target: "volumes", volumes: ["nine"], repository: "r", limit: 60 },
    });
  });

  it("run at a node, wait to be tried again, or were left", () => {
    const history = (current: BackupRun | null) => ({ current }) as BackupPolicy["history"];
    expect(runState({ runner: "n1", history: history(RUN) })).toBe("running");
    expect(runState({ runner: null, history: history({ ...RUN, again_at: 9 }) })).toBe("waits");
    expect(runState({ runner: null, history: history(RUN) })).toBe("left");
    expect(runState({ runner: "n1", history: history(null) })).toBe("none");
    expect(runState({ runner: null, history: null })).toBe("none");
  });

  it("are not another because a run was made", () => {
    const from = { paused: false, history: { runs: 1 }, next_at: 5, runner: null, late_seconds: 0 };
    const to = { paused: true, history: { runs: 2 }, next_at: 9, runner: "n1", late_seconds: 3 };
    expect(differencesOf(from, to).map(({ field }) => field)).toEqual(["paused"]);
  });
});

describe("repositories", () => {
  const found: Repository = {
    ...{ name: "s3", address: "s3://b/p", key_file: "/k", nodes: ["n1"], limit_bytes_per_second: 20 * 2 ** 20 },
    ...{ s3_endpoint: "https://s3.example", s3_credentials: "/c", lock_days: 30 },
  };
  const values = repositoryValues(found);

  it("are made of what is said, and of nothing else", () => {
    expect(repositoryCreation({ ...NEW_REPOSITORY, name: "nfs", address: "/backup a" })).toEqual({
      body: { name: "nfs", address: "/backup a", key_file: "/etc/amita/backup.key" },
      command: "amita backup repository add nfs --address '/backup a' --key-file /etc/amita/backup.key",
    });
    const made = repositoryCreation({ ...values, name: "s4" });
    expect(made.command).toBe(
      "amita backup repository add s4 --address s3://b/p --key-file /k --s3-endpoint https://s3.example " +
        "--s3-credentials /c --node n1 --limit-rate 20M --lock-days 30",
    );
    expect(made.body).toEqual({
      ...{ name: "s4", address: "s3://b/p", key_file: "/k", nodes: ["n1"], limit_bytes_per_second: 20 * 2 ** 20 },
      ...{ s3_endpoint: "https://s3.example", s3_credentials: "/c", lock_days: 30 },
    });
  });

  it("are changed in what is another, and what is empty is taken away", () => {
    expect(repositoryChange(values, values)).toEqual({ body: {}, command: undefined });
    expect(repositoryChange(values, { ...values, nodes: [], rate: "", lockDays: 0, s3_credentials: " " })).toEqual({
      body: { s3_credentials: "", nodes: [], limit_bytes_per_second: 0, lock_days: 0 },
      command: "amita backup repository set s3 --s3-credentials '' --any-node --no-limit --no-lock",
    });
    expect(repositoryChange(values, { ...values, rate: "1", nodes: ["n1", "n2"], s3_region: "eu" }).command).toBe(
      "amita backup repository set s3 --s3-region eu --node n1 --node n2 --limit-rate 1",
    );
  });

  it("lose their endpoint by no command", () => {
    const change = repositoryChange(values, { ...values, s3_endpoint: "" });
    expect([change.body, change.command]).toEqual([{ s3_endpoint: "" }, undefined]);
  });
});

describe("tasks", () => {
  const none = { backup: null, restore: null, forget: null };

  it("are for one thing, or nobody can read for what", () => {
    const full = false;
    expect(taskOf({ ...none, backup: { volume: "db", snapshot: null, full } })).toEqual({ kind: "backup", what: "db" });
    expect(taskOf({ ...none, backup: { volume: "db", snapshot: "monday", full } }).what).toBe("db@monday");
    expect(taskOf({ ...none, restore: { point: 3, to: "new", pool: "main" } })).toEqual({
      kind: "restore",
      what: "new",
    });
    expect(taskOf({ ...none, forget: { point: 3 } })).toEqual({ kind: "forget", what: "3" });
    expect(taskOf(none)).toEqual({ kind: "unknown", what: "" });
  });

  it("are taken back before their end, and removed behind it", () => {
    const ended = (["waiting", "running", "cancelling", "done", "failed", "cancelled", "unreadable"] as const).filter(
      (state) => taskHasEnded({ state }),
    );
    expect(ended).toEqual(["done", "failed", "cancelled", "unreadable"]);
  });
});
