// The journeys of a day, at a real cluster: the page as a node serves it, in Chromium, and what it does looked at with stock tools.
// Each one says how long it took. AMITA_SCREENSHOTS names a folder for pictures (docs/operating/images).
import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { picture, startBrowser } from "../browser";
import { startCluster } from "./cluster";
import type { Cluster } from "./cluster";

const VOLUME = "orders";
const CLONE = "orders-before";
/** What a person sees, they see within so long; it is no measure of speed, only the end of waiting. */
const PATIENCE = 60_000;
const MIB = 2 ** 20;

let browser: Browser;
let cluster: Cluster;
let page: Page;
/** What went wrong in the page: errors, and what the policy of content has refused. */
const wrongs: string[] = [];
const times: [journey: string, milliseconds: number][] = [];

beforeAll(async () => {
  cluster = await startCluster();
  browser = await startBrowser();
  // The node's own certificate is one that no browser can check.
  const context = await browser.newContext({
    ignoreHTTPSErrors: true,
    locale: "en-US",
    viewport: { width: 1200, height: 760 },
  });
  page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.on("pageerror", (error) => wrongs.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // What the API answers rightly the browser repeats: before there is a token 401, of what is not there (yet, or any more) 404.
    const { url } = message.location();
    const isStatus =
      message.text().startsWith("Failed to load resource") &&
      (message.text().includes("401") || (message.text().includes("404") && url.startsWith(`${cluster.api}/api/v1/`)));
    if (message.type() === "error" && !isStatus) wrongs.push(`console: ${message.text()} (${url})`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(`${cluster.api}/`)) wrongs.push(`asks another server: ${request.url()}`);
  });
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
    });
  });
});

afterAll(async () => {
  await browser?.close();
  await cluster?.stop();
  for (const [journey, milliseconds] of times) console.log(`${journey}: ${(milliseconds / 1000).toFixed(1)} s`);
});

/** Does something, and writes down how long it took until it was seen. */
async function journey(name: string, walk: () => Promise<void>): Promise<void> {
  const start = performance.now();
  await walk();
  times.push([name, performance.now() - start]);
  expect(wrongs).toEqual([]);
}

const dialog = () => page.getByRole("dialog");

/** Presses the button of the dialog, and waits until it is gone. */
async function confirm(name: string): Promise<void> {
  await dialog().getByRole("button", { name, exact: true }).click();
  await dialog().waitFor({ state: "detached" });
}

async function visit(place: string): Promise<void> {
  await page.goto(`${cluster.api}/#/${place}`);
}

/** The first volume by NBD, at the first node. */
const uri = (volume: string) => `nbd://${cluster.nodes[0]!.nbd}/${volume}`;

function file(name: string, bytes?: Buffer): string {
  const path = join(cluster.folder, name);
  if (bytes !== undefined) writeFileSync(path, bytes);
  return path;
}

/** Serves a volume to every program of this machine by NBD, by the page. */
async function exportByPage(volume: string): Promise<void> {
  await visit(`volumes/${volume}?tab=attach`);
  const card = page.locator("section.card", { has: page.getByRole("heading", { name: "NBD" }) });
  await card.getByRole("button", { name: "Export", exact: true }).click();
  await dialog().getByLabel("Any client").check();
  await confirm("Export");
  await page.getByText(`/${volume}`).first().waitFor();
}

describe("a day with a cluster", () => {
  it("the page is opened with a token", async () => {
    await journey("open the page and log in", async () => {
      await visit("overview");
      await page.getByLabel("Token").fill(cluster.token);
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Overview" }).waitFor();
      await page.locator(".health").getByText("ok", { exact: true }).waitFor();
    });
    await picture(page, "overview");
    const paint = await page.evaluate(
      () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.POSITIVE_INFINITY,
    );
    times.push(["first contentful paint", paint]);
  });

  it("a volume is created", async () => {
    await journey("create a volume", async () => {
      await visit("volumes");
      await page.getByRole("button", { name: "Create volume" }).click();
      await dialog().getByLabel("Name").fill(VOLUME);
      await dialog().getByLabel("Pool").click();
      await page.locator(".ant-select-item-option").first().click();
      await dialog().getByLabel("Size").fill("64M");
      await picture(page, "create-volume");
      await confirm("Create");
      await page.getByRole("link", { name: VOLUME, exact: true }).waitFor();
    });
    expect(JSON.parse(await cluster.amita("volume", "show", VOLUME, "--json"))).toMatchObject({ size_bytes: 64 * MIB });
  });

  it("it is attached, by the commands that the page shows", async () => {
    await journey("export and show the host's commands", async () => {
      await exportByPage(VOLUME);
      await page.getByText("nbd-client").first().waitFor();
    });
    await picture(page, "attach");
    const source = file("source", randomBytes(16 * MIB));
    expect((await cluster.tool("nbdinfo", "--size", uri(VOLUME))).trim()).toBe(String(64 * MIB));
    await cluster.tool("nbdcopy", source, uri(VOLUME));
  });

  it("a snapshot is taken", async () => {
    await journey("take a snapshot", async () => {
      await visit(`volumes/${VOLUME}?tab=snapshots`);
      await page.getByRole("button", { name: "Take snapshot" }).click();
      await dialog().getByLabel("Name of the snapshot").fill("monday");
      await confirm("Take snapshot");
      await page.locator(".tree").getByText("monday").waitFor();
    });
  });

  it("what was there before a mistake is had back, as a clone", async () => {
    await cluster.tool("nbdcopy", file("mistake", randomBytes(16 * MIB)), uri(VOLUME));
    await journey("restore to a clone and export it", async () => {
      await page.getByRole("button", { name: "Clone", exact: true }).click();
      await dialog().getByLabel("Name of the new volume").fill(CLONE);
      await confirm("Clone");
      await page.getByRole("heading", { name: `Volumes / ${CLONE}` }).waitFor();
      await exportByPage(CLONE);
    });
    await visit(`volumes/${VOLUME}?tab=snapshots`);
    await page.locator(".tree").getByRole("link", { name: CLONE }).waitFor();
    await picture(page, "snapshots");
    await cluster.tool("nbdcopy", uri(CLONE), file("back"));
    const [back, source] = [readFileSync(file("back")), readFileSync(file("source"))];
    expect(back.subarray(0, source.length).equals(source)).toBe(true);
  });

  it("a node is killed, and the page says so by itself", async () => {
    await visit("nodes");
    await page.getByText("alive", { exact: true }).nth(2).waitFor();
    const victim = cluster.nodes[2]!.name;
    await journey("a killed node is seen", async () => {
      cluster.kill(victim);
      await page.getByText("gone", { exact: true }).first().waitFor();
      await page.locator(".health").getByText("degraded", { exact: true }).waitFor();
    });
    await picture(page, "node-killed");
    await visit("overview");
    await page.locator("main").getByText(victim).first().waitFor();
    await picture(page, "overview-degraded");
    // The volume serves, and has what was written.
    await cluster.tool("nbdcopy", uri(VOLUME), file("now"));
    const [now, mistake] = [readFileSync(file("now")), readFileSync(file("mistake"))];
    expect(now.subarray(0, mistake.length).equals(mistake)).toBe(true);
  });

  it("a volume is grown meanwhile", async () => {
    await journey("grow a volume", async () => {
      await visit(`volumes/${VOLUME}`);
      await page.getByRole("button", { name: "Grow" }).click();
      await dialog().getByLabel("Size").fill("128M");
      await confirm("Grow");
      await page.getByText("128 MiB (").waitFor();
    });
    await expect
      .poll(async () => (await cluster.tool("nbdinfo", "--size", uri(VOLUME))).trim())
      .toBe(String(128 * MIB));
  });

  it("its disk is replaced by a new one", async () => {
    const victim = cluster.nodes[2]!.name;
    const store = await cluster.format("new-disk.store");
    cluster.startWith(victim, store);
    await visit(`nodes?tab=stores&q=${victim}`);
    const row = (path: string) => page.locator(".ant-table-row").filter({ hasText: path });
    const old = row(`${victim}.store`);
    await row("new-disk.store").getByText("serves").waitFor();
    await picture(page, "replace-disk");
    await journey("replace a disk, until all copies are there and the old one is forgotten", async () => {
      await old.getByRole("button", { name: "Replace", exact: true }).click();
      const choice = dialog().getByLabel("The store that takes its place");
      const option = choice.locator("option", { hasText: "new-disk.store" });
      await choice.selectOption((await option.getAttribute("value"))!);
      await confirm("Replace");
      await row("new-disk.store").getByText("32/32", { exact: true }).waitFor();
      await old.getByText("0/0", { exact: true }).waitFor();
      const number = (await old.locator("[title]").first().getAttribute("title"))!;
      await old.getByRole("button", { name: "Forget", exact: true }).click();
      await dialog()
        .getByLabel(/Type the name/)
        .fill(number.slice(0, 8));
      await confirm("Forget");
      await old.waitFor({ state: "detached" });
      await page.locator(".health").getByText("ok", { exact: true }).waitFor();
    });
  });

  it("the cluster is made larger by a node", async () => {
    await visit("nodes?tab=stores");
    await journey("add a node, until it has its share", async () => {
      await cluster.add("n4", await cluster.format("n4.store"));
      const row = page.locator(".ant-table-row").filter({ hasText: "n4.store" });
      await row.getByText("serves").waitFor();
      await row.getByText(/^([1-9]\d*)\/\1$/).waitFor();
      await visit("overview");
      await page.getByText("4 / 4").first().waitFor();
      await page.getByText("Nothing: all stores hold what they should.").waitFor();
      await page.locator(".health").getByText("ok", { exact: true }).waitFor();
    });
    await picture(page, "expanded");
    // What the clients have is what it was.
    await cluster.tool("nbdcopy", uri(VOLUME), file("after"));
    const [after, mistake] = [readFileSync(file("after")), readFileSync(file("mistake"))];
    expect(after.subarray(0, mistake.length).equals(mistake)).toBe(true);
  });

  it("what was done is in the audit log under the token's name", async () => {
    const log = await cluster.amita("audit", "list");
    for (const action of ["volume.create", "snapshot.create", "volume.clone", "volume.resize"]) {
      expect(log.split("\n").some((line) => line.includes(action) && line.includes("token "))).toBe(true);
    }
    expect(wrongs).toEqual([]);
  });
});
