// Each screen, in both themes and both languages: nothing goes wrong, nothing leaves the node, axe finds nothing.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessibility, expectWell, harm, NO_HARM, picture, slowestFrame, startBrowser, visit } from "./browser";
import { HOSTILE } from "./hostile";
import { startMock } from "./mock";
import type { Mock } from "./mock";

const SCREENS: Readonly<Record<string, string>> = {
  overview: "overview",
  topology: "topology",
  pools: "pools",
  pool: "pools/fast",
  groups: "pools/fast?tab=groups",
  "pool-limits": "pools/fast?tab=limits",
  volumes: "volumes",
  volume: "volumes/volume-0001",
  snapshots: "volumes/volume-0001?tab=snapshots",
  attach: "volumes/volume-0001?tab=attach",
  limits: "volumes/volume-0001?tab=limits",
  work: "volumes/volume-0003?tab=work",
  trash: "trash",
  nodes: "nodes",
  stores: "nodes?tab=stores",
  node: "nodes/node-003",
  subsystems: "hosts",
  subsystem: "hosts/volume-0001",
  hosts: "hosts?tab=hosts",
  targets: "hosts?tab=targets",
  target: "hosts/target/volume-0001",
  initiators: "hosts?tab=initiators",
  sessions: "hosts?tab=sessions",
  gateways: "hosts?tab=gateways",
  exports: "hosts?tab=nbd",
  policies: "schedules",
  policy: "schedules/policy-0000",
  sets: "schedules?tab=sets",
  backups: "backups",
  backup: "backups/backup-0003",
  tasks: "backups?tab=tasks",
  repositories: "backups?tab=repositories",
  mirrors: "mirrors",
  mirror: "mirrors/mirror-0000",
  "mirror-secondary": "mirrors/mirror-0007",
  "mirror-deposed": "mirrors/mirror-0002",
  inspection: "inspection",
  "inspection-blind": "inspection?tab=blind",
  "inspection-checks": "inspection?tab=checks",
  "inspection-links": "inspection?tab=links",
  jobs: "jobs",
  performance: "performance",
  "performance-heat": "performance?tab=heat&range=1d",
  "performance-top": "performance?tab=top",
  "performance-ios": "performance?tab=ios",
  alerts: "alerts",
  silences: "alerts?tab=silences",
  channels: "alerts?tab=channels",
  events: "events",
  settings: "settings",
  tokens: "tokens",
  certificates: "certificates",
  audit: "audit?since=all",
};

const HOSTILE_PART = encodeURIComponent(HOSTILE[0]!);

let browser: Browser;
let mock: Mock;
beforeAll(async () => {
  browser = await startBrowser();
  mock = await startMock();
});
afterAll(async () => {
  await browser.close();
  await mock.close();
});

describe.each([
  ["light", "en-US"],
  ["dark", "zh-CN"],
] as const)("%s, %s", (theme, language) => {
  it.each(Object.entries(SCREENS))("%s", async (name, place) => {
    const visited = await visit(browser, mock, place, { theme, language });
    await visited.page.waitForFunction(() => document.querySelector(".ant-spin-spinning") === null);
    await visited.page.waitForTimeout(300);
    await picture(visited.page, `${name}-${theme}`);
    expect(await accessibility(visited.page)).toEqual([]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("a phone", () => {
  it.each(Object.entries(SCREENS))("shows %s", async (name, place) => {
    const visited = await visit(browser, mock, place, { width: 390 });
    await visited.page.waitForFunction(() => document.querySelector(".ant-spin-spinning") === null);
    await picture(visited.page, `${name}-narrow`);
    expect(await harm(visited.page)).toEqual(NO_HARM);
    if (name === "overview") expect(await accessibility(visited.page)).toEqual([]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("names of strangers are text", () => {
  it.each([
    ["subsystems", "hosts?q=onerror"],
    ["subsystem", `hosts/${HOSTILE_PART}`],
    ["hosts", "hosts?tab=hosts&q=onerror"],
    ["target", `hosts/target/${HOSTILE_PART}`],
    ["targets", "hosts?tab=targets&q=onerror"],
    ["sessions", "hosts?tab=sessions&q=onerror"],
    ["exports", "hosts?tab=nbd&q=onerror"],
    ["policies", "schedules?q=onerror"],
    ["policy", `schedules/${HOSTILE_PART}`],
    ["sets", "schedules?tab=sets&q=onerror"],
    ["backups", "backups?q=onerror"],
    ["backup", `backups/${HOSTILE_PART}`],
    ["tasks", "backups?tab=tasks&q=onerror"],
    ["repositories", "backups?tab=repositories&q=onerror"],
    ["mirrors", "mirrors?q=onerror"],
    ["mirror", `mirrors/${HOSTILE_PART}`],
    ["jobs", "jobs?q=onerror"],
    ["inspection", "inspection?q=onerror"],
    ["inspection-blind", "inspection?tab=blind&q=onerror"],
    ["inspection-links", "inspection?tab=links"],
    ["alerts", "alerts?q=onerror"],
    ["silences", "alerts?tab=silences&q=onerror"],
    ["channels", "alerts?tab=channels&q=onerror"],
    ["settings", "settings"],
    ["tokens", "tokens?q=onerror"],
    ["certificates", "certificates?q=onerror"],
    ["audit", "audit?since=all&q=onerror"],
    ["attach", `volumes/${HOSTILE_PART}?tab=attach`],
    ["limits", "volumes/volume-0001?tab=limits"],
    ["work", `volumes/${HOSTILE_PART}?tab=work`],
  ])("in %s", async (_, place) => {
    const visited = await visit(browser, mock, place);
    await visited.page.locator("main").getByText("onerror=window.hacked").first().waitFor();
    expect(await harm(visited.page)).toEqual(NO_HARM);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("a thousand rows do not stutter", () => {
  it.each([
    ["subsystems", "hosts", 1_000],
    ["hosts", "hosts?tab=hosts", 1_000],
    ["targets", "hosts?tab=targets", 1_000],
    ["initiators", "hosts?tab=initiators", 1_000],
    ["sessions", "hosts?tab=sessions", 1_000],
    ["exports", "hosts?tab=nbd", 1_000],
    ["policies", "schedules", 1_000],
    ["sets", "schedules?tab=sets", 1_000],
    ["mirrors", "mirrors", 1_000],
    ["tokens", "tokens", 1_000],
    ["alerts", "alerts", 1_000],
    ["silences", "alerts?tab=silences", 1_000],
    ["audit", "audit?since=all", 1_250],
    ["groups", "pools/fast?tab=groups", 1_024],
  ])("%s", async (name, place, count) => {
    const visited = await visit(browser, mock, place);
    const all = count.toLocaleString("en-US");
    await visited.page.getByText(`${all} of ${all}`).waitFor();
    expect(await visited.page.locator(".ant-table-row").count()).toBeLessThan(80);
    const slowest = await slowestFrame(visited.page);
    console.log(`scrolling ${all} ${name}: 90 % of frames within ${slowest.toFixed(0)} ms`);
    expect(slowest).toBeLessThan(200);
    expectWell(visited, mock);
    await visited.close();
  });
});
