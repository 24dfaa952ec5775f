// What people do who look for what is sick: findings, links, a node, the groups of a pool, in both languages and by keys.
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { accessibility, expectWell, picture, press, search, startBrowser, visit } from "./browser";
import { startMock } from "./mock";
import type { Mock } from "./mock";
import { event } from "./world";

let browser: Browser;
let mock: Mock;
beforeAll(async () => void (browser = await startBrowser()));
afterAll(() => browser.close());
beforeEach(async () => void (mock = await startMock()));
afterEach(() => mock.close());

describe("the inspection", () => {
  it("is reached by keys; its findings lead to what they are about", async () => {
    const visited = await visit(browser, mock, "overview");
    const { page } = visited;
    await press(page, "g x", page.getByRole("heading", { name: "Inspection" }));
    await page.getByText("4 of 4").waitFor();
    await page.getByText("1 critical, 2 warnings, 1 notice").waitFor();
    await search(page);
    await page.keyboard.type("nic-slow");
    await page.getByText("1 of 4").waitFor();
    await page.getByText("amita explain nic-slow").waitFor();
    await page.getByRole("link", { name: "nic node-003/eth0" }).click();
    await page.getByRole("heading", { name: "Nodes & stores / node-003" }).waitFor();
    expectWell(visited, mock);
    await visited.close();
  });

  it("says what was not looked at, and leads from a check to what it has found", async () => {
    const visited = await visit(browser, mock, "inspection?tab=blind");
    const { page } = visited;
    await page.getByText("the disk does not tell its health").waitFor();
    await page.getByRole("tab", { name: "Checks" }).click();
    const row = page.getByRole("row", { name: /Health of disks/ });
    expect(await row.getByRole("cell").allInnerTexts()).toEqual(["799", "1", "1"]);
    await row.getByRole("link").click();
    await page.getByText("1 of 4").waitFor();
    await page.getByText("The disk says that it fails.").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("links", () => {
  it("are told with their figures, the worst first, with who is to blame and who says nothing", async () => {
    const visited = await visit(browser, mock, "inspection?tab=links");
    const { page } = visited;
    await page.getByText("6 of 9,702 links that 99 nodes measure are bad").waitFor();
    await page.getByText("the network of node node-003: 4 of 98 links").waitFor();
    await page.getByText("have not told what they find, or not of late: node-042").waitFor();
    const rows = page.locator(".ant-table-row");
    expect(await rows.nth(0).innerText()).toMatch(
      /node-009\s+node-003\s+network 1\s+cut\s+nothing gets through\s+unknown/,
    );
    expect(await rows.nth(1).innerText()).toMatch(
      /node-001\s+node-003\s+network 1\s+loses\s+20 %: 800 of 4,000 segments\s+31\.5 ms/,
    );
    await page.getByText("2 more were left for the other network").waitFor();
    const left = page.getByRole("region", { name: "Left for the other network" });
    expect(await left.locator(".ant-table-row").allInnerTexts()).toEqual([
      expect.stringMatching(/node-005\s+node-003\s+network 2\s+loses/),
      expect.stringMatching(/node-006\s+node-003\s+network 2\s+late/),
    ]);
    await page.getByText("network 2: the network of node node-003: 2 of 98 links").waitFor();
    const matrix = page.getByRole("region", { name: "Who is bad to whom" });
    const row = matrix.getByRole("row", { name: /^node-002/ });
    expect(await row.getByRole("cell").allInnerTexts()).toEqual(["2.5 %", ""]);
    await picture(page, "links");
    expectWell(visited, mock);
    await visited.close();
  });

  it("are read again when the cluster tells that something of them has changed", async () => {
    const visited = await visit(browser, mock, "inspection?tab=links");
    const { page } = visited;
    await page.getByText("5 of 5").waitFor();
    await expect.poll(() => mock.listeners("changes")).toBe(1);
    mock.world.links = { ...mock.world.links, bad: 0, sick: [], links: [] };
    mock.tell("changes", { kinds: ["health"] });
    await page.getByText("0 of 0").waitFor({ timeout: 4_000 });
    expectWell(visited, mock);
    await visited.close();
  });

  it("mark the topology where it is to blame", async () => {
    const visited = await visit(browser, mock, "topology", { language: "zh-CN" });
    const { page } = visited;
    const node = page.locator(".node").filter({ has: page.getByRole("link", { name: "node-003", exact: true }) });
    await node.getByRole("link", { name: "网络异常" }).waitFor();
    expect(await page.locator(".node-sick").count()).toBe(1);
    expect(await page.locator(".rack-sick h3").allInnerTexts()).toEqual([expect.stringContaining("rack-5")]);
    await node.getByRole("link", { name: "网络异常" }).click();
    await page.getByRole("heading", { name: "链路" }).waitFor();
    await page.getByText("5 中的 5").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("a node", () => {
  it("has its addresses, also those that the page does not know by name; its links and its stores", async () => {
    Object.assign(mock.world.nodes[3]!, { fabric_more: ["10.9.0.4:7700", "10.9.1.4:7700"] });
    const visited = await visit(browser, mock, "nodes?q=node-003");
    const { page } = visited;
    await page.getByRole("link", { name: "node-003", exact: true }).click();
    await page.getByText("10.0.0.4:7700", { exact: true }).waitFor();
    const addresses = page.locator("section.card").filter({ has: page.getByRole("heading", { name: "Addresses" }) });
    await addresses.getByText("More: fabric_more").waitFor();
    await addresses.getByText("10.9.1.4:7700", { exact: true }).waitFor();
    await page.getByText("node-001 → node-003: loses, 20 %").waitFor();
    await page.getByText("node-003 → node-001").waitFor();
    expect(await page.locator(".ant-table-row").filter({ hasText: "/dev/nvme0n1" }).count()).toBe(1);
    await page.getByRole("button", { name: "Place", exact: true }).click();
    await page.getByRole("dialog").getByLabel("Rack").fill("rack-9");
    await page.getByRole("dialog").getByRole("button", { name: "Place", exact: true }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(mock.changes).toMatchObject([{ method: "PATCH", path: "/api/v1/nodes/node-003", body: { rack: "rack-9" } }]);
    expect(mock.changes[0]?.headers["if-match"]).toMatch(/^"[0-9a-f]{32}"$/);
    expect(await accessibility(page)).toEqual([]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("the stores of a node", () => {
  it("are drained together, and used again together", async () => {
    const visited = await visit(browser, mock, "nodes/node-004");
    const { page } = visited;
    const dialog = page.getByRole("dialog");
    const own = mock.world.stores.filter(({ node }) => node === "node-004");
    await page.getByRole("button", { name: "Drain all stores" }).click();
    expect((await dialog.locator("pre").first().innerText()).split("\n")).toEqual(
      own.map(({ id }) => `amita disk drain ${id}`),
    );
    expect(await accessibility(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Drain all stores", exact: true }).click();
    await dialog.getByText(own.at(-1)!.id, { exact: true }).waitFor();
    expect(await dialog.getByRole("listitem").count()).toBe(own.length);
    expect(await accessibility(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Close" }).last().click();
    await dialog.waitFor({ state: "detached" });
    expect(mock.changes.map(({ path, headers, body }) => [path, headers["if-match"], body])).toEqual(
      own.map(({ id }) => [`/api/v1/stores/${id}`, expect.stringMatching(/^"[0-9a-f]{32}"$/), { draining: true }]),
    );
    for (const store of own) store.draining = true;
    await expect.poll(() => mock.listeners("changes")).toBe(1);
    mock.tell("changes", { kinds: ["stores"] });
    await page.getByRole("button", { name: "Use all stores again" }).click();
    await dialog.getByText("The drains of 9 stores end.").waitFor();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("stores of a node, one of which was changed meanwhile", () => {
  it("are drained up to it; it is said which one it is, and only what is left is done then", async () => {
    const visited = await visit(browser, mock, "nodes/node-004");
    const { page } = visited;
    const dialog = page.getByRole("dialog");
    const own = mock.world.stores.filter(({ node }) => node === "node-004");
    const overtaken = own[2]!;
    await page.getByRole("button", { name: "Drain all stores" }).click();
    const drain = dialog.getByRole("button", { name: "Drain all stores", exact: true });
    await expect.poll(() => drain.isEnabled()).toBe(true);
    overtaken.weight += 1;
    await drain.click();
    await dialog.getByRole("row", { name: `${overtaken.id} weight` }).waitFor();
    expect(await drain.isDisabled()).toBe(true);
    expect((await dialog.locator("pre").first().innerText()).split("\n")).toEqual(
      own.slice(2).map(({ id }) => `amita disk drain ${id}`),
    );
    await dialog.getByText(`2 of ${own.length} are done.`).waitFor();
    expect(await accessibility(page)).toEqual([]);
    await dialog.getByRole("button", { name: "I have seen it: go on with this" }).click();
    await drain.click();
    await dialog.getByText(own.at(-1)!.id, { exact: true }).waitFor();
    expect(await dialog.getByRole("listitem").count()).toBe(own.length);
    const asked = [...own.slice(0, 3), ...own.slice(2)].map(({ id }) => `/api/v1/stores/${id}`);
    expect(mock.changes.map(({ path }) => path)).toEqual(asked);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("the groups of a pool", () => {
  it("are told with who holds them; those that are not whole are found", async () => {
    const visited = await visit(browser, mock, "pools/fast");
    const { page } = visited;
    await page.getByRole("tab", { name: "Groups" }).click();
    await page.getByText("1,024 of 1,024").waitFor();
    await page.getByLabel("Which groups").selectOption("lacking");
    await page.locator(".ant-table-row").filter({ hasText: "a copy lacks" }).first().waitFor();
    expect(page.url()).toContain("groups=lacking");
    const rows = await page.locator(".ant-table-row").allInnerTexts();
    expect(rows.every((text) => text.includes("a copy lacks") || text.includes("being brought up to date"))).toBe(true);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("events", () => {
  it("say what their kind means, and older ones are read when somebody asks", async () => {
    mock.world.events = Array.from({ length: 2_500 }, (_, index) => event(index));
    const visited = await visit(browser, mock, "events");
    const { page } = visited;
    await page.getByText("1,000 of 1,000").waitFor();
    await page.getByRole("button", { name: "What sync-finished means" }).first().press("Enter");
    await page.getByRole("dialog").getByText("A store holds all again.").waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Older ones" }).click();
    await page.getByText("2,000 of 2,000").waitFor();
    await page.getByRole("button", { name: "Older ones" }).click();
    await page.getByText("2,500 of 2,500").waitFor();
    expect(await page.getByRole("button", { name: "Older ones" }).isDisabled()).toBe(true);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("a copy of a store that is lost", () => {
  it("is adopted only when its number is typed, and only where the store is away", async () => {
    const id = "00000007-0000-4000-8000-000000000007";
    const visited = await visit(browser, mock, `nodes?tab=stores&q=${id}`);
    const { page } = visited;
    await page.getByRole("button", { name: "Adopt a copy" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("what was written since the copy was made is missing on it").waitFor();
    expect(await dialog.locator("pre").first().innerText()).toBe(`amita disk adopt ${id}`);
    await dialog.getByRole("button", { name: "Adopt a copy", exact: true }).click();
    await dialog.getByText("That is another name.").waitFor();
    await dialog.getByLabel(/Type the name/).fill("00000007");
    await dialog.getByRole("button", { name: "Adopt a copy", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    expect(mock.changes).toMatchObject([{ method: "POST", path: `/api/v1/stores/${id}/adopt` }]);
    await page.getByRole("searchbox").fill("00000008-");
    await page.locator(".ant-table-row").filter({ hasText: "serves" }).waitFor();
    expect(await page.getByRole("button", { name: "Adopt a copy" }).count()).toBe(0);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("a rebuild", () => {
  it("is on the overview with the time that it takes yet", async () => {
    // The second job is the recovery of a store that the list of stores has as syncing.
    mock.world.jobs = mock.world.jobs.map((job) =>
      job.kind === "recovery" ? { ...job, object: mock.world.stores[30]!.id } : job,
    );
    const visited = await visit(browser, mock, "overview");
    await visited.page.getByText("Left: 1 h 1 min, 256 MiB a second").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });
});
