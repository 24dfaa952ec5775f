// Each screen, in both themes and both languages: nothing goes wrong, nothing leaves the node, axe finds nothing.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessibility, expectWell, picture, startBrowser, visit } from "./browser";
import { startMock } from "./mock";
import type { Mock } from "./mock";

const SCREENS: Readonly<Record<string, string>> = {
  overview: "overview",
  topology: "topology",
  pools: "pools",
  pool: "pools/fast",
  volumes: "volumes",
  volume: "volumes/volume-0001",
  snapshots: "volumes/volume-0001?tab=snapshots",
  trash: "trash",
  nodes: "nodes",
  stores: "nodes?tab=stores",
  events: "events",
};

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

it("shows all on a narrow screen", async () => {
  const visited = await visit(browser, mock, "overview", { width: 390 });
  const overflows = await visited.page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  await picture(visited.page, "overview-narrow");
  expect(overflows).toBe(false);
  expectWell(visited, mock);
  await visited.close();
});
