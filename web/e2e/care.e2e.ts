// What people do with mirrors, backups, limits, and volumes that are copied and moved.
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

const dialog = (page: Page) => page.getByRole("dialog");
const command = (page: Page) => dialog(page).locator("pre").first().innerText();
const changes = () => mock.changes.map(({ method, path }) => `${method} ${path}`);

async function confirm(page: Page, name: string): Promise<void> {
  await dialog(page).getByRole("button", { name, exact: true }).click();
  await dialog(page).waitFor({ state: "detached" });
}

/** A destructive action does nothing until the name is typed. */
async function confirmByName(page: Page, verb: string, name: string): Promise<void> {
  const before = mock.changes.length;
  await dialog(page).getByRole("button", { name: verb, exact: true }).click();
  await dialog(page).getByText("That is another name.").waitFor();
  expect(mock.changes.length).toBe(before);
  await dialog(page)
    .getByLabel(/Type the name/)
    .fill(name);
  await confirm(page, verb);
}

async function choose(page: Page, label: string, name: string): Promise<void> {
  await dialog(page).getByLabel(label, { exact: true }).click();
  await dialog(page).getByLabel(label, { exact: true }).fill(name);
  await page.locator(".ant-select-item-option", { hasText: name }).first().click();
}

describe("mirrors", () => {
  it("a primary is changed, paused and resumed, and demoted by force with its name typed", async () => {
    const visited = await visit(browser, mock, "mirrors");
    const { page } = visited;
    await page.getByRole("link", { name: "mirror-0000" }).click();
    await page.getByRole("heading", { name: "Mirrors / mirror-0000" }).waitFor();
    await page.getByRole("button", { name: "Change", exact: true }).click();
    await dialog(page).getByLabel("Interval of points in seconds").fill("30");
    await dialog(page)
      .getByLabel(/Read and send at most/)
      .fill("");
    expect(await command(page)).toBe("amita mirror set mirror-0000 --interval 30s --limit-rate 0");
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Change");
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await confirm(page, "Pause");
    await page.getByRole("button", { name: "Resume", exact: true }).click();
    await confirm(page, "Resume");
    await page.getByRole("button", { name: "Demote", exact: true }).click();
    expect(await command(page)).toBe("amita mirror demote mirror-0000 --no-wait");
    expect(
      await dialog(page)
        .getByLabel(/Type the name/)
        .count(),
    ).toBe(0);
    await dialog(page).getByLabel("Also while hosts use its volumes").check();
    expect(await command(page)).toBe("amita mirror demote mirror-0000 --force --no-wait");
    expect(await accessibility(page)).toEqual([]);
    await picture(page, "dialog-demote-mirror");
    await confirmByName(page, "Demote", "mirror-0000");
    await page.getByText("being demoted").first().waitFor();
    expect(changes()).toEqual([
      "PATCH /api/v1/mirrors/mirror-0000",
      "POST /api/v1/mirrors/mirror-0000/pause",
      "POST /api/v1/mirrors/mirror-0000/resume",
      "POST /api/v1/mirrors/mirror-0000/demote",
    ]);
    expect(mock.changes[0]?.body).toEqual({ interval_s: 30, limit_bytes_per_second: null });
    expect(mock.changes[3]?.body).toEqual({ force: true });
    expectWell(visited, mock);
    await visited.close();
  });

  it("a secondary is promoted by force: what is lost is said, and the name is sent", async () => {
    const visited = await visit(browser, mock, "mirrors/mirror-0006");
    const { page } = visited;
    await page.getByText("amita mirror remove mirror-0006 --delete").waitFor();
    await page.getByRole("button", { name: "Promote by force" }).click();
    await dialog(page)
      .getByText(/It is promoted at point 2-117, .* has acknowledged since is lost\./)
      .waitFor();
    expect(await accessibility(page)).toEqual([]);
    await confirmByName(page, "Promote by force", "mirror-0006");
    expect(mock.changes.map(({ body }) => body)).toEqual([{ force: true, confirm: "mirror-0006" }]);
    expectWell(visited, mock);
    await visited.close();
  });

  it("a deposed end says where it would go back to, and goes back", async () => {
    const visited = await visit(browser, mock, "mirrors/mirror-0002");
    const { page } = visited;
    await page.getByText("Mirror mirror-0002 was deposed here.").waitFor();
    await page.getByRole("button", { name: "Where would it go back to?" }).click();
    await dialog(page).getByRole("button", { name: "Where would it go back to?", exact: true }).click();
    await dialog(page)
      .getByText(/The newest point that both ends have is 2-116/)
      .waitFor();
    await dialog(page).getByRole("button", { name: "Close" }).last().click();
    await page.getByRole("button", { name: "Resync", exact: true }).click();
    expect(await command(page)).toBe("amita mirror resync mirror-0002 --no-wait");
    await dialog(page).getByRole("button", { name: "Resync", exact: true }).click();
    await dialog(page).getByText("It is begun").waitFor();
    await dialog(page).getByRole("button", { name: "Close" }).last().click();
    expect(mock.changes.map(({ body }) => body)).toEqual([{ dry_run: true }, { dry_run: false }]);
    expectWell(visited, mock);
    await visited.close();
  });

  it("a primary is removed by its name", async () => {
    const visited = await visit(browser, mock, "mirrors/mirror-0000");
    const { page } = visited;
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    await confirmByName(page, "Remove", "mirror-0000");
    await page.getByText("999 of 999").waitFor();
    expect(changes()).toEqual(["DELETE /api/v1/mirrors/mirror-0000"]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("backups", () => {
  it("a policy is changed, run now, paused and deleted", async () => {
    const visited = await visit(browser, mock, "backups");
    const { page } = visited;
    await page.getByRole("button", { name: "Create policy" }).click();
    await dialog(page).getByLabel("Name", { exact: true }).fill("hourly");
    await dialog(page).getByLabel("When").fill("@hourly");
    expect(await command(page)).toBe(
      "amita backup policy create hourly --to '' --schedule @hourly --zone UTC --keep-daily 14 --keep-monthly 12 " +
        "--time-limit 86400",
    );
    expect(await accessibility(page)).toEqual([]);
    await picture(page, "dialog-create-backup-policy");
    await dialog(page).getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("link", { name: "backup-0000" }).click();
    await page.getByRole("heading", { name: "Backup policies / backup-0000" }).waitFor();
    await page.getByRole("button", { name: "Change", exact: true }).click();
    await dialog(page).getByLabel("monthly", { exact: true }).fill("0");
    expect(await command(page)).toBe("amita backup policy set backup-0000 --keep-monthly 0");
    await confirm(page, "Change");
    await page.getByRole("button", { name: "Run now" }).click();
    expect(await command(page)).toBe("amita backup policy run backup-0000");
    await confirm(page, "Run now");
    await page.getByRole("heading", { name: "Run under way" }).waitFor();
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await confirm(page, "Pause");
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await confirmByName(page, "Delete", "backup-0000");
    await page.getByText("255 of 255").waitFor();
    expect(changes()).toEqual([
      "PATCH /api/v1/backup-policies/backup-0000",
      "POST /api/v1/backup-policies/backup-0000/runs",
      "PATCH /api/v1/backup-policies/backup-0000",
      "DELETE /api/v1/backup-policies/backup-0000",
    ]);
    expect(mock.changes[0]?.body).toEqual({ keep: { monthly: 0 } });
    expectWell(visited, mock);
    await visited.close();
  });

  it("a repository is added, changed and forgotten", async () => {
    const visited = await visit(browser, mock, "backups?tab=repositories&q=spare");
    const { page } = visited;
    await page.getByRole("button", { name: "Add repository" }).click();
    await dialog(page).getByLabel("Name", { exact: true }).fill("nfs");
    await dialog(page).getByLabel("Address", { exact: true }).fill("/mnt/backup");
    expect(await command(page)).toBe(
      "amita backup repository add nfs --address /mnt/backup --key-file /etc/amita/backup.key",
    );
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Add repository");
    await page.getByRole("button", { name: "Change", exact: true }).click();
    await dialog(page)
      .getByLabel(/At most so many bytes a second/)
      .fill("20M");
    await confirm(page, "Change");
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    await confirmByName(page, "Remove", "spare");
    expect(changes()).toEqual([
      "POST /api/v1/backup-repositories",
      "PATCH /api/v1/backup-repositories/spare",
      "DELETE /api/v1/backup-repositories/spare",
    ]);
    expect(mock.changes[1]?.body).toEqual({ limit_bytes_per_second: 20 * 2 ** 20 });
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("limits", () => {
  it("of a volume, of its tenant and of a pool are set, with what is used, and cleared", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0002?tab=limits");
    const { page } = visited;
    const card = (heading: string) =>
      page.locator("section.card").filter({ has: page.getByRole("heading", { name: heading, exact: true }) });
    await card("Limits").getByText("Its hosts may do as much as there is.").waitFor();
    await card("Limits").getByRole("button", { name: "Set limits" }).click();
    await dialog(page).getByLabel("Reads a second", { exact: true }).fill("100000");
    await dialog(page).getByLabel("At once after a pause (burst)").nth(1).fill("5000");
    expect(await command(page)).toBe("amita volume limit set volume-0002 --read-iops 100000 --burst 5000");
    expect(await accessibility(page)).toEqual([]);
    await picture(page, "dialog-limits");
    await confirm(page, "Set limits");
    await card("Limits")
      .getByText(/^100,000\/s, burst 5,000, used [\d,]+\/s within the last minute/)
      .waitFor();
    await page.getByRole("button", { name: "Set tenant" }).click();
    await dialog(page).getByLabel("Name of the tenant").fill("acme");
    expect(await command(page)).toBe("amita tenant add acme volume-0002");
    await confirm(page, "Set tenant");
    await card("Limits of tenant acme").getByRole("button", { name: "Set limits" }).click();
    await dialog(page).getByLabel("Bytes a second, reads and writes together").fill("800M");
    expect(await command(page)).toBe("amita tenant limit set acme --bandwidth 800M");
    await confirm(page, "Set limits");
    await card("Limits of pool fast").getByRole("button", { name: "Clear limits" }).click();
    expect(await command(page)).toBe("amita pool limit clear fast");
    await confirm(page, "Clear limits");
    await card("Limits of pool fast").getByText("Its volumes together may do as much as there is.").waitFor();
    await page.getByRole("button", { name: "Take from tenant" }).click();
    await confirm(page, "Take from tenant");
    expect(changes()).toEqual([
      "PUT /api/v1/volumes/volume-0002/limits",
      "PUT /api/v1/volumes/volume-0002/tenant",
      "PUT /api/v1/tenants/acme/limits",
      "DELETE /api/v1/pools/fast/limits",
      "DELETE /api/v1/volumes/volume-0002/tenant",
    ]);
    expect(mock.changes[0]?.body).toEqual({ iops: { read: { rate: 100_000, burst: 5_000 } }, bandwidth: {} });
    expect(mock.changes[2]?.body).toEqual({ iops: {}, bandwidth: { both: { rate: 800 * 2 ** 20 } } });
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("a volume", () => {
  it("moves to another pool: how far it is is seen at it, and it is taken back there", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0002");
    const { page } = visited;
    await page.getByRole("button", { name: "Migrate", exact: true }).click();
    await choose(page, "To pool", "archive");
    await dialog(page)
      .getByLabel(/Read at most/)
      .fill("50M");
    expect(await command(page)).toBe("amita volume migrate volume-0002 --pool archive --limit-rate 50M --no-wait");
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Migrate");
    await page.getByText("volume moves to another pool").waitFor();
    await page.getByText("2 GiB of 8 GiB").waitFor();
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    expect(await command(page)).toBe("amita job cancel migrate-3");
    await dialog(page).getByRole("button", { name: "Cancel", exact: true }).last().click();
    await dialog(page).waitFor({ state: "detached" });
    expect(changes()).toEqual(["POST /api/v1/volumes/volume-0002/migrate", "POST /api/v1/jobs/migrate-3/cancel"]);
    expect(mock.changes[0]?.body).toEqual({ pool: "archive", limit_bytes_per_second: 50 * 2 ** 20 });
    expectWell(visited, mock);
    await visited.close();
  });

  it("is copied as one of its snapshots was", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0001?tab=snapshots");
    const { page } = visited;
    const row = page.locator("li", { hasText: "second" });
    await row.getByRole("button", { name: "Copy", exact: true }).click();
    await dialog(page).getByLabel("Name of the copy").fill("db2");
    await choose(page, "Pool", "archive");
    expect(await command(page)).toBe("amita volume copy volume-0001@second db2 --pool archive --no-wait");
    await confirm(page, "Copy");
    expect(mock.changes[0]?.body).toEqual({
      ...{ name: "db2", pool: "archive", snapshot: "second", snapshots: false, encrypted: false },
    });
    expectWell(visited, mock);
    await visited.close();
  });
});
