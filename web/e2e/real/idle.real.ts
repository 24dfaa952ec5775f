// What pages cost that stay open: ten browsers look at the overview of a cluster that does nothing else. The figure is printed, and
// is the processors' time of all nodes and of the metadata; that of the browsers is not in it.
import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startBrowser } from "../browser";
import { startCluster } from "./cluster";
import type { Cluster } from "./cluster";

const PAGES = 10;
const SECONDS = 60;
/** Of /proc/PID/stat, a second: Linux says 100 to every program. */
const TICKS = 100;

let browser: Browser;
let cluster: Cluster;

beforeAll(async () => {
  cluster = await startCluster();
  browser = await startBrowser();
});

afterAll(async () => {
  await browser?.close();
  await cluster?.stop();
});

/** User and system time of a process so far, in seconds (proc(5), fields 14 and 15). */
function processorSeconds(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

/** Percent of one core that the cluster takes for a while. */
async function share(): Promise<number> {
  const pids = [...cluster.nodes.map(({ pid }) => pid), cluster.metadata.pid];
  const used = () => pids.reduce((sum, pid) => sum + processorSeconds(pid), 0);
  const [before, start] = [used(), performance.now()];
  await new Promise((resolve) => setTimeout(resolve, SECONDS * 1000));
  return (100 * (used() - before)) / ((performance.now() - start) / 1000);
}

async function open(): Promise<{ page: Page; asked: string[] }> {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, locale: "en-US" });
  const page = await context.newPage();
  const asked: string[] = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await page.goto(`${cluster.api}/#/overview`);
  await page.getByLabel("Token").fill(cluster.token);
  await page.keyboard.press("Enter");
  await page.locator(".health").getByText("ok", { exact: true }).waitFor();
  return { page, asked };
}

it("ten open pages cost a cluster next to nothing", async () => {
  const without = await share();
  const pages = [];
  for (let left = PAGES; left > 0; left -= 1) pages.push(await open());
  const begun = pages.map(({ asked }) => asked.length);
  const beside = await share();
  for (const [at, { page, asked }] of pages.entries()) {
    // They do look: each listens for changes, and has asked again meanwhile.
    expect(asked.some((path) => path.endsWith("/changes/watch"))).toBe(true);
    expect(asked.length).toBeGreaterThan(begun[at]!);
    await page.locator(".health").getByText("ok", { exact: true }).waitFor();
  }
  console.log(
    `${PAGES} open pages: ${(beside - without).toFixed(2)} % of a core (${without.toFixed(2)} % without them, ${beside.toFixed(2)} % with)`,
  );
});
