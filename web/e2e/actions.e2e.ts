// What people do: look for a volume, make one, snapshot it, delete it; by keys; with a token; with strangers' names.
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  accessibility,
  expectWell,
  harm,
  NO_HARM,
  picture,
  press,
  search,
  slowestFrame,
  startBrowser,
  visit,
} from "./browser";
import { HOSTILE } from "./hostile";
import { startMock } from "./mock";
import type { Mock } from "./mock";
import { event } from "./world";

let browser: Browser;
let mock: Mock;
beforeAll(async () => void (browser = await startBrowser()));
afterAll(() => browser.close());
beforeEach(async () => void (mock = await startMock()));
afterEach(() => mock.close());

const dialog = (page: Page) => page.getByRole("dialog");

/** Presses the button of the dialog, and waits until it is gone. */
async function confirm(page: Page, name: string): Promise<void> {
  await dialog(page).getByRole("button", { name, exact: true }).click();
  await dialog(page).waitFor({ state: "detached" });
}

describe("volumes", () => {
  it("a thousand are there, of which few are in the page", async () => {
    const visited = await visit(browser, mock, "volumes");
    const { page } = visited;
    await page.getByText("1,000 of 1,000").waitFor();
    expect(await page.locator(".ant-table-row").count()).toBeLessThan(80);
    await search(page);
    await page.keyboard.type("volume-0777");
    await page.getByText("1 of 1,000").waitFor();
    expect(await page.locator(".ant-table-row").count()).toBe(1);
    expect(page.url()).toContain("q=volume-0777");
    expectWell(visited, mock);
    await visited.close();
  });

  it("scrolls through all of them without stutter", async () => {
    const visited = await visit(browser, mock, "volumes");
    const { page } = visited;
    await page.getByText("1,000 of 1,000").waitFor();
    const slowest = await slowestFrame(page);
    console.log(`scrolling 1,000 volumes: 90 % of frames within ${slowest.toFixed(0)} ms`);
    expect(slowest).toBeLessThan(200);
    expectWell(visited, mock);
    await visited.close();
  });

  it("one is made, and the dialog says how else", async () => {
    const visited = await visit(browser, mock, "volumes");
    const { page } = visited;
    await page.getByRole("button", { name: "Create volume" }).click();
    await dialog(page).getByLabel("Name").fill("it's mine");
    await dialog(page).getByLabel("Pool").click();
    await page.locator(".ant-select-item-option", { hasText: "fast" }).click();
    await dialog(page).getByLabel("Size").fill("1.5T");
    await dialog(page).getByLabel("Labels").fill("app=db\nnote=two words");
    const shown = await dialog(page).locator("pre").allInnerTexts();
    expect(shown[0]).toBe(
      "amita volume create 'it'\\''s mine' --pool fast --size 1536G\n" +
        "amita volume label 'it'\\''s mine' app=db 'note=two words'",
    );
    expect(shown[1]).toContain(`curl -X POST ${mock.address}/api/v1/volumes`);
    expect(await accessibility(page)).toEqual([]);
    await picture(page, "dialog-create-volume");
    await confirm(page, "Create");
    const body = {
      name: "it's mine",
      pool: "fast",
      size_bytes: 1.5 * 2 ** 40,
      labels: { app: "db", note: "two words" },
    };
    expect(mock.changes).toMatchObject([{ method: "POST", path: "/api/v1/volumes", body }]);
    expect(mock.changes[0]?.headers["idempotency-key"]).toMatch(/^[0-9a-f-]{36}$/);
    await page.getByText("1,001 of 1,001").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });

  it("a refusal is shown with its code and what to do, and the dialog stays", async () => {
    const visited = await visit(browser, mock, "volumes");
    const { page } = visited;
    await page.getByRole("button", { name: "Create volume" }).click();
    await dialog(page).getByLabel("Name").fill("volume-0001");
    await dialog(page).getByLabel("Pool").click();
    await page.locator(".ant-select-item-option", { hasText: "fast" }).click();
    await dialog(page).getByRole("button", { name: "Create", exact: true }).click();
    const alert = dialog(page).getByRole("alert").filter({ hasText: "exists" });
    await alert.waitFor();
    expect(await alert.innerText()).toContain("take another name");
    expect(await accessibility(page)).toEqual([]);
    expectWell(visited, mock);
    await visited.close();
  });

  it("is renamed, labelled, grown, and deleted only when its name is typed", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0005");
    const { page } = visited;
    await page.getByRole("button", { name: "Rename" }).click();
    await dialog(page).getByLabel("New name").fill("moved");
    await confirm(page, "Rename");
    await page.getByRole("heading", { name: "Volumes / moved" }).waitFor();
    await page.getByRole("button", { name: "Label", exact: true }).click();
    await dialog(page).getByLabel("Labels").fill("app=web");
    await confirm(page, "Label");
    await page.getByRole("button", { name: "Grow" }).click();
    await dialog(page).getByLabel("Size").fill("1T");
    await confirm(page, "Grow");
    await page.getByText("1 TiB (").waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    expect(await dialog(page).locator("pre").first().innerText()).toBe("amita volume delete moved");
    await dialog(page).getByRole("button", { name: "Delete", exact: true }).click();
    await dialog(page).getByText("That is another name.").waitFor();
    await picture(page, "dialog-delete-volume");
    await dialog(page)
      .getByLabel(/Type the name/)
      .fill("moved");
    await confirm(page, "Delete");
    await page.getByText("999 of 999").waitFor();
    expect(mock.changes.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "POST /api/v1/volumes/volume-0005/rename",
      "PATCH /api/v1/volumes/moved",
      "PATCH /api/v1/volumes/moved",
      "DELETE /api/v1/volumes/moved",
    ]);
    expect(mock.changes.slice(1).every(({ headers }) => /^"[0-9a-f]{32}"$/.test(headers["if-match"] ?? ""))).toBe(true);
    expect(mock.changes[2]?.body).toEqual({ size_bytes: 2 ** 40 });
    expectWell(visited, mock);
    await visited.close();
  });

  it("snapshots are a tree; one is taken, cloned, deleted", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0001?tab=snapshots");
    const { page } = visited;
    await page.getByText("volume-0002").waitFor();
    await page.getByRole("button", { name: "Take snapshot" }).click();
    await dialog(page).getByLabel("Name of the snapshot").fill("fourth");
    await confirm(page, "Take snapshot");
    await page.getByRole("button", { name: "Clone" }).first().click();
    await dialog(page).getByLabel("Name of the new volume").fill("copy");
    expect(await dialog(page).locator("pre").first().innerText()).toBe("amita volume clone volume-0001@first copy");
    await dialog(page).getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).nth(2).click();
    await dialog(page)
      .getByLabel(/Type the name/)
      .fill("second");
    await confirm(page, "Delete");
    await page.getByText("second").waitFor({ state: "detached" });
    expect(mock.changes.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "POST /api/v1/volumes/volume-0001/snapshots",
      "DELETE /api/v1/volumes/volume-0001/snapshots/second",
    ]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("the data of a volume", () => {
  it("is reverted when its name is typed, and what is lost is said", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0001?tab=snapshots");
    const { page } = visited;
    await page.getByRole("button", { name: "Revert" }).nth(1).click();
    await dialog(page).getByText("everything that was written since goes from it").waitFor();
    const command = dialog(page).locator("pre").first();
    expect(await command.innerText()).toBe("amita volume revert volume-0001@second");
    await dialog(page).getByLabel("Keep what it is now").uncheck();
    await dialog(page).getByText("cannot be had back").waitFor();
    expect(await command.innerText()).toBe("amita volume revert volume-0001@second --no-snapshot");
    expect(await accessibility(page)).toEqual([]);
    await dialog(page).getByRole("button", { name: "Revert", exact: true }).click();
    await dialog(page).getByText("That is another name.").waitFor();
    await dialog(page)
      .getByLabel(/Type the name/)
      .fill("volume-0001");
    await confirm(page, "Revert");
    expect(mock.changes).toMatchObject([
      { method: "POST", path: "/api/v1/volumes/volume-0001/snapshots/second/revert", body: { keep_snapshot: false } },
    ]);
    expect(mock.changes[0]?.headers["if-match"]).toMatch(/^"[0-9a-f]{32}"$/);
    expectWell(visited, mock);
    await visited.close();
  });

  it("is compared in pieces, which are one list", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0001?tab=snapshots");
    const { page } = visited;
    await page.getByRole("button", { name: "Compare" }).first().click();
    expect(await dialog(page).locator("pre").first().innerText()).toBe("amita volume diff volume-0001@first");
    await dialog(page).getByRole("button", { name: "Compare", exact: true }).click();
    await dialog(page).getByText("2 extents: 64 KiB of data, 64 KiB that are zeros now. There are more.").waitFor();
    await dialog(page).getByRole("button", { name: "More" }).click();
    await dialog(page).getByText("2 extents: 128 KiB of data, 64 KiB that are zeros now.").waitFor();
    expect(await dialog(page).locator(".ant-table-row").count()).toBe(2);
    expect(await accessibility(page)).toEqual([]);
    expectWell(visited, mock);
    await visited.close();
  });

  it("is copied out by a command, and by a link where nobody needs a token", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0001?tab=snapshots");
    const { page } = visited;
    await page.getByRole("button", { name: "Export" }).nth(1).click();
    const shown = await dialog(page).locator("pre").allInnerTexts();
    expect(shown[0]).toBe("amita volume export volume-0001@first volume-0001@first.raw");
    expect(shown[1]).toContain("/api/v1/volumes/volume-0001/export?snapshot=first");
    expect(shown[1]).toContain("-o volume-0001@first.raw");
    const link = dialog(page).getByRole("link", { name: "Save" });
    expect(await link.getAttribute("href")).toBe("/api/v1/volumes/volume-0001/export?snapshot=first");
    expect(await accessibility(page)).toEqual([]);
    expectWell(visited, mock);
    await visited.close();
  });

  it("is written over by a file", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0001?tab=snapshots");
    const { page } = visited;
    await page.getByRole("button", { name: "Import" }).click();
    const file = { name: "my disk.raw", mimeType: "application/octet-stream", buffer: Buffer.from("an image") };
    await dialog(page).getByLabel("Image").setInputFiles(file);
    const shown = await dialog(page).locator("pre").allInnerTexts();
    expect(shown[0]).toBe("amita volume import 'my disk.raw' volume-0001 --force");
    expect(shown[1]).toContain("--upload-file 'my disk.raw'");
    await dialog(page)
      .getByLabel(/Type the name/)
      .fill("volume-0001");
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Import");
    expect(mock.changes).toMatchObject([{ method: "PUT", path: "/api/v1/volumes/volume-0001/data", body: "an image" }]);
    expect(mock.changes[0]?.headers["if-match"]).toMatch(/^"[0-9a-f]{32}"$/);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("nodes and stores", () => {
  it("maintenance, drain and weight say what they do", async () => {
    const visited = await visit(browser, mock, "nodes?q=node-003");
    const { page } = visited;
    await page.getByRole("button", { name: "Begin maintenance" }).click();
    expect(await dialog(page).locator("pre").first().innerText()).toBe("amita node maintenance on node-003");
    await confirm(page, "Begin maintenance");
    await page.getByRole("tab", { name: "Stores" }).click();
    await page.getByRole("button", { name: "Drain" }).first().click();
    await confirm(page, "Drain");
    await page.getByRole("button", { name: "Set weight" }).first().click();
    await dialog(page).getByLabel("By its size").check();
    await confirm(page, "Set weight");
    expect(mock.changes.map(({ body }) => body)).toEqual([{ maintenance: true }, { draining: true }, { weight: null }]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("what goes", () => {
  it("a disk is replaced and forgotten, and a node that is gone is removed", async () => {
    const visited = await visit(browser, mock, "nodes?tab=stores&q=node-007");
    const { page } = visited;
    const first = "00000007-0000-4000-8000-000000000007";
    const second = "00000008-0000-4000-8000-000000000008";
    await page.getByRole("button", { name: "Replace" }).first().click();
    await dialog(page).getByLabel("The store that takes its place").selectOption(second);
    expect(await dialog(page).locator("pre").first().innerText()).toBe(`amita disk replace ${first} ${second}`);
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Replace");
    await page.getByRole("button", { name: "Forget" }).first().click();
    await dialog(page)
      .getByLabel(/Type the name/)
      .fill("00000007");
    await confirm(page, "Forget");
    await page.getByRole("tab", { name: "Nodes" }).click();
    await search(page);
    await page.getByRole("searchbox").fill("node-007");
    await page.getByRole("button", { name: "Remove" }).click();
    await dialog(page)
      .getByLabel(/Type the name/)
      .fill("node-007");
    await confirm(page, "Remove");
    expect(mock.changes.map(({ method, path }) => `${method} ${path}`)).toEqual([
      `POST /api/v1/stores/${first}/replace`,
      `DELETE /api/v1/stores/${first}`,
      "DELETE /api/v1/nodes/node-007",
    ]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("pools", () => {
  it("have another rule, and are deleted only when their name is typed", async () => {
    const visited = await visit(browser, mock, "pools/fast");
    const { page } = visited;
    await page.getByRole("button", { name: "Set rule" }).click();
    await dialog(page).getByLabel("Copies").fill("2");
    expect(await dialog(page).locator("pre").first().innerText()).toBe("amita pool set fast --copies 2");
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Set rule");
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await dialog(page).getByRole("button", { name: "Delete", exact: true }).click();
    await dialog(page).getByText("That is another name.").waitFor();
    await dialog(page)
      .getByLabel(/Type the name/)
      .fill("fast");
    await confirm(page, "Delete");
    expect(mock.changes.map(({ method, body }) => [method, body])).toEqual([
      ["PATCH", { copies: 2 }],
      ["DELETE", undefined],
    ]);
    expectWell(visited, mock);
    await visited.close();
  });

  it("keep deleted volumes for a time, and have quotas", async () => {
    const visited = await visit(browser, mock, "pools/fast");
    const { page } = visited;
    await page.getByRole("button", { name: "Keep deleted volumes" }).click();
    await dialog(page).getByLabel(/^Days/).fill("14");
    expect(await dialog(page).locator("pre").first().innerText()).toBe("amita pool recycle fast --keep 1209600s");
    await confirm(page, "Keep deleted volumes");
    await page.getByRole("button", { name: "Set quota" }).click();
    await dialog(page).getByLabel("Provisioned").fill("");
    await dialog(page).getByLabel("Volumes").fill("50");
    expect(await dialog(page).locator("pre").first().innerText()).toBe(
      "amita pool quota fast --volumes 50 --snapshots 5000 --none",
    );
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Set quota");
    await page.getByRole("link", { name: "Pools" }).first().click();
    await page.getByRole("button", { name: "Create pool" }).click();
    await dialog(page).getByLabel("Name").fill("new");
    await dialog(page).getByLabel("Failure domain").selectOption("rack");
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Create");
    expect(mock.changes.map(({ body }) => body)).toEqual([
      { recycle_seconds: 14 * 86_400 },
      { quota: { provisioned_bytes: null, volumes: 50, snapshots: 5000 } },
      { name: "new", copies: 3, min_copies: 2, groups: 32, level: "rack", class: null },
    ]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("who looks", () => {
  it("shows a token where one is wanted, and is a stranger again without it", async () => {
    mock.token = "secret";
    const visited = await visit(browser, mock, "volumes");
    const { page } = visited;
    await page.getByRole("heading", { name: "Log in" }).waitFor();
    expect(await accessibility(page)).toEqual([]);
    await picture(page, "login");
    await page.getByLabel("Token").fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("unauthenticated", { exact: true }).waitFor();
    await page.getByLabel("Token").fill("secret");
    await page.keyboard.press("Enter");
    await page.getByText("1,000 of 1,000").waitFor();
    expect(
      await page.evaluate(() => [localStorage.getItem("amita-token"), sessionStorage.getItem("amita-token")]),
    ).toEqual([null, "secret"]);
    await page.getByRole("button", { name: "Create volume" }).click();
    expect(await dialog(page).innerText()).not.toContain("secret");
    await dialog(page).getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { name: "Log in" }).waitFor();
    expectWell(visited, mock);
    await visited.close();
  });

  it("finds off what they may not do", async () => {
    mock.world.self.may = [];
    const visited = await visit(browser, mock, "volumes/volume-0001");
    const button = visited.page.getByRole("button", { name: "Delete" });
    await visited.page.waitForFunction(() => document.querySelectorAll("main button[disabled]").length >= 5);
    expect(await button.isDisabled()).toBe(true);
    expectWell(visited, mock);
    await visited.close();
  });

  it("finds the way by keys, and sets theme and language for good", async () => {
    const visited = await visit(browser, mock, "overview");
    const { page } = visited;
    await press(page, "g v", page.getByRole("heading", { name: "Volumes" }));
    await press(page, "?", dialog(page).getByText("Search on this screen"));
    expect(await accessibility(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await dialog(page).waitFor({ state: "detached" });
    await page.getByLabel("Theme").selectOption("dark");
    await page.getByLabel("Language").selectOption("zh");
    await page.getByRole("heading", { name: "卷" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "卷" }).waitFor();
    expect(await page.evaluate(() => [document.documentElement.lang, document.documentElement.dataset.theme])).toEqual([
      "zh-CN",
      "dark",
    ]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("strangers' names", () => {
  it.each(HOSTILE.map((name, index) => [index, name] as const))(
    "%i is text, and breaks nothing",
    async (index, name) => {
      const visited = await visit(browser, mock, `volumes/${encodeURIComponent(name)}`, { width: 900 });
      const { page } = visited;
      await page.getByRole("button", { name: "Delete" }).click();
      await dialog(page).waitFor();
      await picture(page, `hostile-${index}`);
      expect(await harm(page)).toEqual(NO_HARM);
      expect(await dialog(page).locator("pre").first().innerText()).toMatch(/^amita volume delete /);
      expectWell(visited, mock);
      await visited.close();
    },
  );
});

describe("what happens meanwhile", () => {
  it("is shown when the API tells of it", async () => {
    const visited = await visit(browser, mock, "events");
    const { page } = visited;
    await page.getByText("live", { exact: true }).waitFor();
    await expect.poll(() => mock.listeners("events")).toBe(1);
    mock.tell("events", event(1000, "A thing that has just happened."));
    await page.getByText("A thing that has just happened.").waitFor();
    await press(page, "g v", page.getByText("1,000 of 1,000"));
    mock.world.volumes.pop();
    mock.tell("changes", { kinds: ["volumes"] });
    await page.getByText("999 of 999").waitFor({ timeout: 4_000 });
    await expect.poll(() => mock.listeners("events")).toBe(0);
    expectWell(visited, mock);
    await visited.close();
  });

  it("a screen is there within a second", async () => {
    const visited = await visit(browser, mock, "overview");
    const { page } = visited;
    const first: number[] = [];
    for (let time = 0; time < 5; time += 1) {
      await page.reload();
      await page.waitForSelector("main h1");
      first.push(
        await page.evaluate(
          () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.POSITIVE_INFINITY,
        ),
      );
    }
    const median = first.sort((a, b) => a - b)[2]!;
    console.log(`first contentful paint: ${median.toFixed(0)} ms (median of 5)`);
    expect(median).toBeLessThan(1_000);
    await visited.close();
  });
});
