import { describe, expect, it } from "vitest";
import { byUrgency, isEmpty, matchOf, matchText, silence } from "../src/lib/alerts";
import { foldAudit } from "../src/lib/audit";
import type { AuditRecord } from "../src/lib/audit";
import { certificateRows } from "../src/lib/certificates";
import { countKinds, jobRows, jobsOfVolume } from "../src/lib/jobs";
import { creation, NEW_POLICY, policyChange, readLabel, valuesOf } from "../src/lib/policies";
import type { Policy } from "../src/lib/policies";
import { poolChange } from "../src/lib/pools";
import { changeLimits, changeManner, changeSlowStores, readPercents } from "../src/lib/recovery";

const NO_KEEP = { last: 0, hourly: 0, daily: 0, weekly: 0, monthly: 0, yearly: 0 };

describe("policies", () => {
  it("are made with the rules for which something is kept", () => {
    const made = creation({ ...NEW_POLICY, name: "nightly", volumes: ["a b", "c"], together: true });
    expect(made.command).toBe(
      "amita snapshot-policy create nightly --volume 'a b' --volume c --schedule '30 2 * * *' --zone UTC " +
        "--template '{policy}-{time}' --keep-daily 7 --keep-weekly 4 --together",
    );
    expect(made.body).toEqual({
      name: "nightly",
      target: { volumes: ["a b", "c"] },
      schedule: "30 2 * * *",
      zone: "UTC",
      template: "{policy}-{time}",
      keep: { daily: 7, weekly: 4 },
      together: true,
    });
  });

  it("are for a label or a pool", () => {
    expect(creation({ ...NEW_POLICY, target: "label", label: "app=db=1" }).body.target).toEqual({
      label: { key: "app", value: "db=1" },
    });
    expect(creation({ ...NEW_POLICY, target: "pool", pool: "fast" }).command).toContain(" --pool fast ");
    expect([readLabel("=x"), readLabel("x"), readLabel("x=")]).toEqual([undefined, undefined, { key: "x", value: "" }]);
  });

  it("are changed in what is another; 0 takes a rule away", () => {
    const to = { ...NEW_POLICY, schedule: "@hourly", keep: { ...NEW_POLICY.keep, daily: 0, hourly: 24 } };
    expect(policyChange({ ...NEW_POLICY, name: "p" }, { ...to, name: "p" })).toEqual({
      body: { schedule: "@hourly", keep: { hourly: 24, daily: 0 } },
      command: "amita snapshot-policy set p --schedule @hourly --keep-hourly 24 --keep-daily 0",
    });
    const from = { ...NEW_POLICY, name: "p", together: true };
    expect(policyChange(from, { ...from, target: "pool", pool: "x", together: false }).command).toBe(
      "amita snapshot-policy set p --pool x --one-by-one",
    );
  });

  it("know volumes by their numbers", () => {
    const policy = {
      name: "p",
      target: { volume_ids: [1, 9] },
      schedule: "@daily",
      zone: "UTC",
      template: "{time}",
      keep: NO_KEEP,
      together: false,
    } as unknown as Policy;
    expect(valuesOf(policy, new Map([[1, "one"]]))).toMatchObject({ target: "volumes", volumes: ["one"] });
  });
});

describe("recovery", () => {
  const limits = { bytes_per_second: 2 ** 30, iops: 0, windows: 8 };
  it("is told its limits for one level", () => {
    expect(changeLimits("degraded", limits, { bytes_per_second: 0, iops: 500, windows: 8 })).toEqual({
      body: { degraded: { bytes_per_second: 0, iops: 500 } },
      command: "amita recovery set --level degraded --bandwidth 0 --iops 500",
    });
    expect(changeLimits("scrub", limits, limits)).toEqual({ body: { scrub: {} }, command: undefined });
  });

  it("is told how to give way, and what becomes of slow stores", () => {
    const from = { automatic: true, p99_percent: 200, iops_percent: 80, least_bytes_per_second: 0 };
    expect(changeManner(from, { ...from, automatic: false, p99_percent: 150 }).command).toBe(
      "amita recovery set --mode limits --p99 150",
    );
    const least = { ...from, least_bytes_per_second: 20 * 2 ** 20 };
    expect(changeManner(from, least)).toEqual({
      body: { least_bytes_per_second: 20_971_520 },
      command: "amita recovery set --least-bandwidth 20M",
    });
    expect(changeManner(least, from).command).toBe("amita recovery set --least-bandwidth 0");
    expect(changeManner(least, least)).toEqual({ body: {}, command: undefined });
    const slow = { policy: "propose", after_seconds: 60, rest_seconds: 600, per_hour: 1 } as const;
    expect(changeSlowStores(slow, { ...slow, policy: "evict", rest_seconds: 60 })).toEqual({
      body: { slow_stores: { policy: "evict", rest_seconds: 60 } },
      command: "amita recovery set --slow-stores evict --slow-rest 60",
    });
  });

  it.each([
    ["75, 85,95", [75, 85, 95]],
    ["75,85", undefined],
    ["85,75,95", undefined],
    ["75,85,101", undefined],
    ["75,,95", undefined],
    ["a,b,c", undefined],
  ])("%j are percents: %j", (text, percents) => expect(readPercents(text)).toEqual(percents));
});

it("the audit log has one row for what has begun and has ended, the newest first", () => {
  const record = (number: number, outcome: string, begun_by: number | null, at_ms: number) =>
    ({ number, outcome, begun_by, at_ms }) as AuditRecord;
  const rows = foldAudit([
    record(1, "begun", null, 100),
    record(2, "begun", null, 110),
    record(3, "done", 1, 150),
    record(4, "refused", null, 160),
    record(5, "failed", 99, 170),
    record(5, "failed", 99, 170),
  ]);
  expect(rows.map(({ number, took_ms }) => [number, took_ms])).toEqual([
    [5, undefined],
    [4, undefined],
    [3, 50],
    [2, undefined],
  ]);
});

describe("what is under way", () => {
  const known = {
    ...{
      state: "running" as const,
      unit: null,
      done: null,
      total: null,
      left: null,
      moved_bytes: null,
      left_bytes: null,
    },
    ...{ bytes_per_second: null, left_s: null, started_at: null, paused: null, ails: null, actions: [] },
  } as const;
  const rows = jobRows({
    jobs: [
      {
        ...known,
        id: "flatten-3",
        kind: "flatten",
        object: "v",
        unit: "chunks",
        done: 1,
        total: 4,
        actions: ["cancel", "pause"],
      },
      { ...known, id: "recovery-s1", kind: "recovery", object: "s1", bytes_per_second: 1024, left_s: 60 },
      {
        ...known,
        ...{ id: "drain-s9", kind: "drain", object: "s9", unit: "groups", left: 2 },
        ...{ state: "paused", paused: { by: "operator ann", at: 5 }, actions: ["cancel", "resume"] },
      },
    ],
    stores: [{ id: "s1", node: "n1", path: "/dev/a" }],
    pools: [
      { name: "p", groups: 32, group_counts: { moving: 2 } },
      { name: "q", groups: 32, group_counts: { moving: 0 } },
    ],
    policies: [
      { name: "r", history: { running: true } },
      { name: "t", history: null },
    ],
  });

  it("is the API's jobs, pools whose groups move, and policies that run", () => {
    expect(rows.map(({ kind, object, done, total, left }) => [kind, object, done, total, left])).toEqual([
      ["flatten", "v", 1, 4, undefined],
      ["recovery", "n1 /dev/a", undefined, undefined, undefined],
      ["drain", "s9", undefined, undefined, 2],
      ["groups", "p", 30, 32, 2],
      ["policy", "r", undefined, undefined, undefined],
    ]);
  });
  it("leads to where more is seen, and is taken back only where the API says so", () => {
    expect(rows.map(({ place, cancels }) => [place[0], cancels?.id])).toEqual([
      ["volumes", "flatten-3"],
      ["nodes", undefined],
      ["nodes", "drain-s9"],
      ["pools", undefined],
      ["schedules", undefined],
    ]);
    expect([rows[1]?.leftSeconds, rows[1]?.bytesPerSecond, rows[0]?.leftSeconds]).toEqual([60, 1024, undefined]);
  });
  it("is paused and resumed only where the API says so", () => {
    expect(rows.map(({ waits, paused }) => [waits?.verb, waits?.job.id, paused?.by])).toEqual([
      ["pause", "flatten-3", undefined],
      [undefined, undefined, undefined],
      ["resume", "drain-s9", "operator ann"],
      [undefined, undefined, undefined],
      [undefined, undefined, undefined],
    ]);
  });
  it("is a volume's where it is done to that, and to no store of that name", () => {
    const jobs = [
      { ...known, id: "migrate-3", kind: "migrate" as const, object: "v", unit: "bytes" as const, done: 5, total: 9 },
      { ...known, id: "recovery-v", kind: "recovery" as const, object: "v" },
      { ...known, id: "copy-4", kind: "copy" as const, object: "w" },
    ].map((job) => ({ ...job, actions: ["cancel" as const] }));
    expect(jobsOfVolume(jobs, "v").map(({ id, done, total, cancels }) => [id, done, total, cancels?.id])).toEqual([
      ["migrate-3", 5, 9, "migrate-3"],
    ]);
  });
  it("is counted by kind", () =>
    expect(countKinds([rows[1]!, rows[0]!, rows[1]!])).toEqual([
      ["recovery", 2],
      ["flatten", 1],
    ]));
});

describe("certificates", () => {
  const known = {
    ...{
      use: "identity" as const,
      state: "well" as const,
      nodes: ["n1"],
      node_count: 1,
      name: null,
      role: null,
      issuer: null,
    },
    ...{ serial: null, fingerprint: null, begins_at: 1, ends_at: 9, left_days: 2, told_at: 3, renew: null },
  } as const;
  const rows = certificateRows([
    { ...known, nodes: [...known.nodes] },
    { ...known, nodes: ["n2"], ends_at: 5, state: "ended", name: "amita://c/node/n2", role: "node", renew: "do" },
    { ...known, nodes: ["n1", "n2"], use: "authority", node_count: 40, ends_at: 99, fingerprint: "ab" },
  ]);
  it("come with the one first that ends first", () =>
    expect(rows.map(({ name, state, endsAt }) => [name, state, endsAt])).toEqual([
      ["amita://c/node/n2", "ended", 5],
      ["n1", "well", 9],
      ["n1", "well", 99],
    ]));
  it("have a row each, and say what is not known", () => {
    expect(new Set(rows.map(({ id }) => id)).size).toBe(3);
    expect(rows.map(({ role, renew, more }) => [role, renew, more])).toEqual([
      ["node", "do", 0],
      [undefined, undefined, 0],
      [undefined, undefined, 38],
    ]);
  });
});

describe("silences", () => {
  const values = { codes: "copies-*  node-down", objects: "", labels: "pool=fast", hours: 2, why: "new switches" };
  it("are made for a time from now on", () => {
    expect(silence(values, 1_000)).toEqual({
      body: {
        matches: { codes: ["copies-*", "node-down"], objects: [], labels: { pool: "fast" } },
        until: 8_200,
        why: "new switches",
      },
      command:
        "amita alert silence add --code 'copies-*' --code node-down --label pool=fast --for 2h --why 'new switches'",
    });
  });
  it("say which alerts they are for", () => {
    expect(matchText(matchOf(values))).toBe("code copies-*, code node-down, pool=fast");
    expect([isEmpty(matchOf(values)), isEmpty({}), isEmpty({ objects: ["x"] })]).toEqual([false, true, false]);
  });
});

it("alerts that fire come first, the worst of them first", () => {
  const alert = (state: string, severity: string, since: number) => ({ state, severity, since });
  const sorted = [
    alert("resolved", "critical", 9),
    alert("firing", "warning", 1),
    alert("pending", "critical", 9),
    alert("firing", "critical", 1),
    alert("firing", "critical", 2),
  ].sort(byUrgency);
  expect(sorted.map(({ state, severity, since }) => `${state} ${severity} ${since}`)).toEqual([
    "firing critical 2",
    "firing critical 1",
    "firing warning 1",
    "pending critical 9",
    "resolved critical 9",
  ]);
});

it("a pool's rule is changed in what is another", () => {
  const from = { copies: 3, level: "node", class: "nvme" } as const;
  expect(poolChange(from, { copies: 2, level: "rack", class: "" })).toEqual({
    body: { copies: 2, level: "rack", class: null },
    words: ["--copies", "2", "--failure-domain", "rack", "--any-class"],
  });
  expect(poolChange(from, from)).toEqual({ body: {}, words: [] });
});
