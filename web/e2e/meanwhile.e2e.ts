// Somebody is faster: what has become another is shown, and nothing that was typed is lost.
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { accessibility, expectWell, picture, startBrowser, visit } from "./browser";
import { startMock } from "./mock";
import type { Mock } from "./mock";

let browser: Browser;
let mock: Mock;
beforeAll(async () => void (browser = await startBrowser()));
afterAll(() => browser.close());
beforeEach(async () => void (mock = await startMock()));
afterEach(() => mock.close());

describe("what was changed meanwhile", () => {
  const dialog = (page: Page) => page.getByRole("dialog");

  it.each([
    ["en-US", /^Label$/, "Labels", "It was changed meanwhile", "I have seen it: go on with this"],
    ["zh-CN", /^标\s?签$/, "标签", "期间已被更改", "已查看：据此继续"],
  ] as const)("is shown, and nothing that was typed is lost (%s)", async (language, verb, field, said, goOn) => {
    const visited = await visit(browser, mock, "volumes/volume-0005", { language });
    const { page } = visited;
    await page.getByRole("button", { name: verb }).click();
    await dialog(page).getByLabel(field).fill("app=web");
    const volume = mock.world.volumes.find(({ name }) => name === "volume-0005")!;
    const before = volume.size_bytes;
    volume.size_bytes = before * 2;
    volume.protected = true;
    await dialog(page).getByRole("button", { name: verb }).click();
    await dialog(page).getByText(said).waitFor();
    const changes = dialog(page).getByRole("table").getByRole("row");
    expect((await changes.allInnerTexts()).slice(1).map((text) => text.split(/\s+/)[0])).toEqual([
      "size_bytes",
      "protected",
    ]);
    expect(await accessibility(page)).toEqual([]);
    await picture(page, `dialog-meanwhile-${language}`);
    expect(await dialog(page).getByLabel(field).inputValue()).toBe("app=web");
    expect(await dialog(page).getByRole("button", { name: verb }).isDisabled()).toBe(true);
    await dialog(page).getByRole("button", { name: goOn }).focus();
    await page.keyboard.press("Enter");
    await dialog(page).getByRole("button", { name: verb }).click();
    await dialog(page).waitFor({ state: "detached" });
    expect(volume.labels).toEqual({ app: "web" });
    const tags = mock.changes.map(({ headers }) => headers["if-match"]);
    expect(tags.length).toBe(2);
    expect(tags[0]).not.toBe(tags[1]);
    expectWell(visited, mock);
    await visited.close();
  });

  it("a name that was typed to destroy stays typed, and nothing goes before it was looked at again", async () => {
    const visited = await visit(browser, mock, "pools/fast");
    const { page } = visited;
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    const typed = dialog(page).getByLabel(/Type the name/);
    await typed.fill("fast");
    mock.world.pools.find(({ name }) => name === "fast")!.quota.volumes = 7;
    await dialog(page).getByRole("button", { name: "Delete", exact: true }).click();
    await dialog(page)
      .getByRole("row", { name: /quota\.volumes/ })
      .waitFor();
    expect(await typed.inputValue()).toBe("fast");
    await dialog(page).getByRole("button", { name: "I have seen it: go on with this" }).click();
    await dialog(page).getByRole("button", { name: "Delete", exact: true }).click();
    await dialog(page).waitFor({ state: "detached" });
    expect(mock.changes.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "DELETE /api/v1/pools/fast",
      "DELETE /api/v1/pools/fast",
    ]);
    expectWell(visited, mock);
    await visited.close();
  });

  it("a channel that was changed is removed only when that was seen", async () => {
    const visited = await visit(browser, mock, "alerts?tab=channels");
    const { page } = visited;
    const remove = dialog(page).getByRole("button", { name: "Remove", exact: true });
    await page.getByRole("button", { name: "Remove" }).first().click();
    await dialog(page)
      .getByLabel(/Type the name/)
      .fill("channel-0");
    await expect.poll(() => remove.isEnabled()).toBe(true);
    const channel = mock.world.channels.find(({ name }) => name === "channel-0")!;
    channel.target = "elsewhere";
    mock.failing.set("/api/v1/channels/channel-0", [503, "metadata-away"]);
    await remove.click();
    await dialog(page).getByText("metadata-away", { exact: true }).waitFor();
    expect(await remove.isDisabled()).toBe(true);
    mock.failing.clear();
    await dialog(page).getByRole("button", { name: "Look again" }).click();
    await dialog(page)
      .getByRole("row", { name: /target/ })
      .waitFor();
    expect(await remove.isDisabled()).toBe(true);
    await dialog(page).getByRole("button", { name: "I have seen it: go on with this" }).click();
    await remove.click();
    await dialog(page).waitFor({ state: "detached" });
    expect(mock.changes.map(({ headers }) => headers["if-match"])).toEqual([
      expect.stringMatching(/^"[0-9a-f]{32}"$/),
      expect.stringMatching(/^"[0-9a-f]{32}"$/),
    ]);
    expectWell(visited, mock);
    await visited.close();
  });

  it.each([
    ["internal", 500, true],
    ["denied", 403, false],
  ] as const)(
    "a channel that cannot be read (%s) is removed unseen where its record is damaged",
    async (code, status, goes) => {
      mock.failing.set("/api/v1/channels/channel-0", [status, code]);
      const visited = await visit(browser, mock, "alerts?tab=channels");
      const { page } = visited;
      const remove = dialog(page).getByRole("button", { name: "Remove", exact: true });
      await page.getByRole("button", { name: "Remove" }).first().click();
      await dialog(page)
        .getByLabel(/Type the name/)
        .fill("channel-0");
      if (goes) {
        // It is tried again before it is given up.
        await expect.poll(() => remove.isEnabled(), { timeout: 20_000 }).toBe(true);
        await remove.click();
        await dialog(page).waitFor({ state: "detached" });
        expect(mock.changes.map(({ method, headers }) => [method, headers["if-match"]])).toEqual([
          ["DELETE", undefined],
        ]);
      } else {
        await dialog(page).getByText("denied", { exact: true }).waitFor();
        expect(await remove.isDisabled()).toBe(true);
      }
      expect(mock.refused).toEqual([]);
      await visited.close();
    },
  );

  it("what is gone is said to be gone", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0005");
    const { page } = visited;
    await page.getByRole("button", { name: "Grow" }).click();
    await dialog(page).getByLabel("Size").fill("2T");
    mock.world.volumes = mock.world.volumes.filter(({ name }) => name !== "volume-0005");
    await dialog(page).getByRole("button", { name: "Grow", exact: true }).click();
    await dialog(page).getByText("there is none of that name").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });

  it("an action of a list is for what was read when its dialog opened, not for what an earlier dialog left", async () => {
    const visited = await visit(browser, mock, "nodes?q=node-004");
    const { page } = visited;
    await page.getByRole("button", { name: "Begin maintenance" }).click();
    await dialog(page).getByRole("button", { name: "Begin maintenance", exact: true }).click();
    await dialog(page).waitFor({ state: "detached" });
    mock.world.nodes.find(({ name }) => name === "node-004")!.maintenance = true;
    await page.getByRole("button", { name: "Place", exact: true }).click();
    await dialog(page).getByLabel("Rack").fill("rack-2");
    await dialog(page).getByRole("button", { name: "Place", exact: true }).click();
    await dialog(page).waitFor({ state: "detached" });
    expect(mock.changes.length).toBe(2);
    expectWell(visited, mock);
    await visited.close();
  });
});
