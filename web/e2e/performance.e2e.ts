// Figures over time: as lines, as a table, by latency; and one I/O's way.
import { gzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { accessibility, expectWell, harm, NO_HARM, startBrowser, visit } from "./browser";
import { startMock } from "./mock";
import type { Mock } from "./mock";

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

it("shows each figure as lines, and by the keyboard as a table", async () => {
  const visited = await visit(browser, mock, "performance?object=volume/volume-0001&range=1d");
  const { page } = visited;
  const chart = page.getByRole("region", { name: "Latency", exact: true });
  await chart.locator(".u-over").waitFor();
  expect(await page.locator(".chart .u-over").count()).toBe(4);
  expect(await chart.getByRole("img").getAttribute("aria-label")).toMatch(
    /^Latency of volume\/volume-0001\. Last: half/,
  );
  const button = chart.getByRole("button", { name: "As a table" });
  await button.focus();
  await page.keyboard.press("Enter");
  expect(await chart.getByRole("columnheader").allTextContents()).toEqual([
    "Time",
    "half (p50)",
    "99 % (p99)",
    "longest",
  ]);
  expect(await chart.getByRole("row").count()).toBeGreaterThan(300);
  expect(await accessibility(page)).toEqual([]);
  await chart.getByText("1 nodes are not in it").click();
  await chart.getByText("node-007: it is not alive").waitFor();
  expectWell(visited, mock);
  await visited.close();
});

it("says on the overview when the stores will be full", async () => {
  const visited = await visit(browser, mock, "overview");
  await visited.page.getByText("Full in about 40 d as it grows now: by 9.09 TiB a day.").waitFor();
  await visited.page.getByText("36 d at the soonest, 50 d at the latest").waitFor();
  expectWell(visited, mock);
  await visited.close();
});

it("asks for a longer time, and for another object, and the address says so", async () => {
  const visited = await visit(browser, mock, "performance");
  const { page } = visited;
  await page.locator(".chart .u-over").first().waitFor();
  await page.getByLabel("Time", { exact: true }).selectOption("30d");
  await page.getByLabel("Of what").selectOption("core");
  await page.getByText("Choose one above.").waitFor();
  await page.getByLabel("Node", { exact: true }).selectOption("node-003");
  await page.getByLabel("Core", { exact: true }).selectOption("5");
  await page.locator(".chart .u-over").first().waitFor();
  expect(decodeURIComponent(page.url())).toContain("object=core/node-003/5");
  expect(page.url()).toContain("range=30d");
  expectWell(visited, mock);
  await visited.close();
});

it("says what a field of the heat map is", async () => {
  const visited = await visit(browser, mock, "performance?tab=heat&range=5h");
  const { page } = visited;
  const picture = page.getByRole("img", { name: /How many I\/Os of cluster/ });
  await picture.waitFor();
  const box = (await picture.boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.8, box.y + box.height * 0.6);
  await page.locator(".heat-field", { hasText: "I/Os" }).waitFor();
  await page.getByRole("button", { name: "As a table" }).click();
  expect(await page.getByRole("row").count()).toBeGreaterThan(100);
  expectWell(visited, mock);
  await visited.close();
});

it("opens an I/O into its waterfall", async () => {
  const visited = await visit(browser, mock, "performance?tab=ios");
  const { page } = visited;
  const first = page.getByRole("button", { name: /^write 4 KiB, volume-0000/ });
  await first.click();
  expect(await first.getAttribute("aria-expanded")).toBe("true");
  const stages = await page.locator(".waterfall tbody td:first-child").allTextContents();
  expect(stages.slice(0, 5)).toEqual(["parse", "sequence", "stores", "00000001", "issue"]);
  await page.locator(".waterfall").getByText("no answer").waitFor();
  expect(await accessibility(page)).toEqual([]);
  expectWell(visited, mock);
  await visited.close();
});

it.each(["performance?tab=top", "performance?tab=ios"])("a stranger's name is text in %s", async (place) => {
  const visited = await visit(browser, mock, place);
  await visited.page.locator("main").getByText("onerror=window.hacked").first().waitFor();
  expect(await harm(visited.page)).toEqual(NO_HARM);
  expectWell(visited, mock);
  await visited.close();
});

/** What a browser has to fetch before the first screen is whole, as nodes send it: antd and the charts are most of it. */
const MOST_FIRST_BYTES = 400 * 1024;

it("the first screen fetches little", async () => {
  const visited = await visit(browser, mock, "overview");
  const { page } = visited;
  await page.locator(".chart .u-over").first().waitFor();
  const files = await page.evaluate(() =>
    performance
      .getEntriesByType("resource")
      .map(({ name }) => name)
      .filter((name) => name.includes("/assets/")),
  );
  expect(files.length).toBeGreaterThan(2);
  const sizes = await Promise.all(
    files.map(async (file) => gzipSync(Buffer.from(await (await fetch(file)).arrayBuffer())).length),
  );
  const all = sizes.reduce((sum, size) => sum + size, 0);
  console.log(`the first screen: ${files.length} files, ${(all / 1024).toFixed(0)} KiB compressed`);
  expect(all).toBeLessThan(MOST_FIRST_BYTES);
  await visited.close();
});
