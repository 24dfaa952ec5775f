// What people do with hosts, schedules, jobs, settings, tokens and the log.
import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { nqn } from "./access";
import { accessibility, expectWell, harm, NO_HARM, picture, startBrowser, visit } from "./browser";
import { HOSTILE } from "./hostile";
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

/** Closes the list of a field that takes several names. */
async function chosen(page: Page, label: string): Promise<void> {
  await dialog(page).getByLabel(label, { exact: true }).press("Escape");
}

describe("a volume is attached", () => {
  it("to a host: what is missing is made, and the host's commands are there", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0030?tab=attach");
    const { page } = visited;
    await page.getByText("no host has it by NVMe").waitFor();
    await page.getByRole("button", { name: "Attach to a host" }).click();
    await dialog(page).getByLabel("Host", { exact: true }).fill("nqn.2014-08.org.example:new");
    expect(await command(page)).toBe("amita volume attach volume-0030 --host nqn.2014-08.org.example:new");
    const calls = await dialog(page).locator("pre").nth(1).innerText();
    expect(calls.match(/^curl .*/gm)?.length).toBe(4);
    expect(await accessibility(page)).toEqual([]);
    await picture(page, "dialog-attach");
    await confirm(page, "Attach to a host");
    expect(changes()).toEqual([
      "POST /api/v1/subsystems",
      "POST /api/v1/subsystems/volume-0030/namespaces",
      "POST /api/v1/hosts",
      "PUT /api/v1/subsystems/volume-0030/hosts/nqn.2014-08.org.example%3Anew",
    ]);
    expect(mock.changes.slice(0, 3).map(({ body }) => body)).toEqual([
      { name: "volume-0030" },
      { volume: "volume-0030", block_bytes: 4096 },
      { nqn: "nqn.2014-08.org.example:new" },
    ]);
    const connect = page.locator("pre").nth(1);
    await connect.waitFor();
    expect(await connect.innerText()).toMatch(
      /^nvme connect --transport=tcp --traddr=10\.1\.\d+\.\d+ --trsvcid=4420 --nqn=nqn\.2026-11\.io\.amita:5d1c8f0e:volume-0030 --hostnqn=nqn\.2014-08\.org\.example:new /,
    );
    await picture(page, "attached");
    await page.getByRole("button", { name: "Detach" }).click();
    await confirmByName(page, "Remove", "volume-0030");
    await page.getByText("no host has it by NVMe").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });

  it("by NBD, to a client that is named", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0001?tab=attach");
    const { page } = visited;
    await page.getByRole("button", { name: "Export", exact: true }).click();
    await dialog(page).getByLabel("Clients", { exact: true }).fill("db1");
    await page.keyboard.press("Enter");
    expect(await command(page)).toBe("amita nbd export volume-0001 --client db1");
    await dialog(page).getByLabel("To be read only").check();
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Export");
    await page.getByText("nbd-client -N volume-0001 -C 4").first().waitFor();
    expect(mock.changes[0]?.body).toMatchObject({ clients: ["db1"], read_only: true, any_client: false });
    await page.getByRole("button", { name: "End export" }).click();
    await confirmByName(page, "End export", "volume-0001");
    expect(changes()).toEqual(["PUT /api/v1/nbd-exports/volume-0001", "DELETE /api/v1/nbd-exports/volume-0001"]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("hosts and subsystems", () => {
  it("a subsystem is made, changed, given a volume and a host, and deleted", async () => {
    const visited = await visit(browser, mock, "hosts");
    const { page } = visited;
    await page.getByRole("button", { name: "Create subsystem" }).click();
    await dialog(page).getByLabel("Name", { exact: true }).fill("web");
    await choose(page, "Gateways", "node-004");
    await chosen(page, "Gateways");
    expect(await command(page)).toBe("amita subsystem create web --gateway node-004");
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Create");
    await page.getByRole("heading", { name: "Subsystems / web" }).waitFor();
    await page.getByRole("button", { name: "Change", exact: true }).click();
    await dialog(page).getByLabel("Connections without TLS are refused").check();
    expect(await command(page)).toBe("amita subsystem set web --require-tls");
    await confirm(page, "Change");
    await page.getByText("TLS only").waitFor();
    await page.getByRole("button", { name: "Add namespace" }).click();
    await choose(page, "Volume", "volume-0042");
    await confirm(page, "Add namespace");
    await page.getByRole("button", { name: "Allow host" }).click();
    await choose(page, "NVMe qualified name", "host-0007");
    expect(await command(page)).toBe(`amita host allow web ${nqn(7)}`);
    await confirm(page, "Allow host");
    await page.getByRole("button", { name: "Deny" }).click();
    await confirmByName(page, "Deny", nqn(7));
    await page.getByRole("button", { name: "Delete" }).click();
    await dialog(page).getByLabel("Also while it has namespaces").check();
    expect(await command(page)).toBe("amita subsystem delete web --force");
    await confirmByName(page, "Delete", "web");
    expect(changes()).toEqual([
      "POST /api/v1/subsystems",
      "PATCH /api/v1/subsystems/web",
      "POST /api/v1/subsystems/web/namespaces",
      `PUT /api/v1/subsystems/web/hosts/${encodeURIComponent(nqn(7))}`,
      `DELETE /api/v1/subsystems/web/hosts/${encodeURIComponent(nqn(7))}`,
      "DELETE /api/v1/subsystems/web",
    ]);
    expect(mock.changes[1]?.body).toEqual({ tls_required: true });
    expect(mock.changes[1]?.headers["if-match"]).toMatch(/^"[0-9a-f]{32}"$/);
    expectWell(visited, mock);
    await visited.close();
  });

  it("a host is added and removed; its keys are never in the page, the commands for them are", async () => {
    const visited = await visit(browser, mock, "hosts?tab=hosts&q=host-0000");
    const { page } = visited;
    await page.getByRole("button", { name: "Keys" }).click();
    expect(await command(page)).toBe(`amita host key ${nqn(0)} --generate-dhchap`);
    expect(await accessibility(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await dialog(page).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Add host" }).click();
    await dialog(page).getByLabel("NVMe qualified name").fill("nonsense");
    await dialog(page).getByRole("button", { name: "Add host", exact: true }).click();
    await dialog(page).getByText("It begins as nqn.2014-08").waitFor();
    await dialog(page).getByLabel("NVMe qualified name").fill("nqn.2014-08.org.example:it's");
    expect(await command(page)).toBe("amita host add 'nqn.2014-08.org.example:it'\\''s'");
    await confirm(page, "Add host");
    await page.getByRole("button", { name: "Remove" }).click();
    await confirmByName(page, "Remove", nqn(0));
    expect(changes()).toEqual(["POST /api/v1/hosts", `DELETE /api/v1/hosts/${encodeURIComponent(nqn(0))}`]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("schedules", () => {
  it("a policy is made, changed, paused, pruned and deleted", async () => {
    const visited = await visit(browser, mock, "schedules");
    const { page } = visited;
    await page.getByRole("button", { name: "Create policy" }).click();
    await dialog(page).getByLabel("Name", { exact: true }).fill("nightly");
    await choose(page, "Volumes", "volume-0007");
    await chosen(page, "Volumes");
    await dialog(page).getByLabel("hourly", { exact: true }).fill("24");
    expect(await command(page)).toBe(
      "amita snapshot-policy create nightly --volume volume-0007 --schedule '30 2 * * *' --zone UTC " +
        "--template '{policy}-{time}' --keep-hourly 24 --keep-daily 7 --keep-weekly 4",
    );
    expect(await accessibility(page)).toEqual([]);
    await picture(page, "dialog-create-policy");
    await dialog(page).getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("link", { name: "policy-0000" }).click();
    await page.getByRole("heading", { name: "Snapshot policies / policy-0000" }).waitFor();
    await page.getByRole("button", { name: "Change", exact: true }).click();
    await dialog(page).getByLabel("When").fill("@hourly");
    expect(await command(page)).toBe("amita snapshot-policy set policy-0000 --schedule @hourly");
    await confirm(page, "Change");
    await page.getByText("@hourly").waitFor();
    await page.getByRole("button", { name: "Pause" }).click();
    await confirm(page, "Pause");
    await page.getByRole("button", { name: "What would go?" }).click();
    await dialog(page).getByRole("button", { name: "What would go?", exact: true }).click();
    await dialog(page).getByText("1 of 2 snapshots would go.").waitFor();
    expect(await accessibility(page)).toEqual([]);
    await dialog(page).getByRole("button", { name: "Close" }).last().click();
    await page.getByRole("button", { name: "Delete" }).click();
    await confirmByName(page, "Delete", "policy-0000");
    await page.getByText("999 of 999").waitFor();
    expect(mock.changes.map(({ body }) => body).slice(0, 2)).toEqual([{ schedule: "@hourly" }, { paused: true }]);
    expect(changes().slice(2)).toEqual([
      "POST /api/v1/snapshot-policies/policy-0000/prune",
      "DELETE /api/v1/snapshot-policies/policy-0000",
    ]);
    expectWell(visited, mock);
    await visited.close();
  });

  it("a set of several volumes is taken", async () => {
    const visited = await visit(browser, mock, "schedules?tab=sets");
    const { page } = visited;
    await page.getByRole("button", { name: "Take a set" }).click();
    await dialog(page).getByLabel("Name of the snapshot").fill("before");
    await choose(page, "Volumes", "volume-0007");
    await choose(page, "Volumes", "volume-0008");
    await chosen(page, "Volumes");
    expect(await command(page)).toBe("amita volume snapshot create-set before volume-0007 volume-0008");
    await confirm(page, "Take a set");
    expect(mock.changes[0]?.body).toEqual({ name: "before", volumes: ["volume-0007", "volume-0008"], labels: {} });
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("certificates", () => {
  it("come with the one first that ends first, in words, and with what renews them", async () => {
    const visited = await visit(browser, mock, "certificates");
    const { page } = visited;
    const rows = page.locator(".ant-table-row");
    await rows.nth(5).waitFor();
    const texts = await rows.allInnerTexts();
    const words = ["has ended", "ends soon", "to be renewed", "good", "to be renewed", "good"];
    expect(texts.map((text, index) => text.includes(words[index]!))).toEqual(words.map(() => true));
    expect(texts[0]).toContain("amita node token node-0005");
    expect(texts[1]).toContain("amita cert renew --identity /etc/amita/identity --ca-server HOST:7600");
    await page.getByText("docs/operating/day2/expired-certificate.md").waitFor();
    await page.getByText("Node node-0007: the node has no identity").waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("node-0003");
    await page.getByText("1 of 6").waitFor();
    expect(changes()).toEqual([]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("works", () => {
  it("are shown together with the time that they take yet, and one is taken back", async () => {
    const visited = await visit(browser, mock, "jobs");
    const { page } = visited;
    await page.getByText("1 h 1 min, 256 MiB a second").waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("volume-0003");
    await page.getByText("1 of 9").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    expect(await command(page)).toBe("amita volume flatten volume-0003 --cancel");
    expect(await accessibility(page)).toEqual([]);
    await dialog(page).getByRole("button", { name: "Cancel", exact: true }).last().click();
    await dialog(page).waitFor({ state: "detached" });
    expect(changes()).toEqual(["POST /api/v1/jobs/flatten-4/cancel"]);
    await page.getByText("0 of 8").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });

  it("stand still and go on", async () => {
    const visited = await visit(browser, mock, "jobs?q=volume-0003");
    const { page } = visited;
    await page.getByRole("button", { name: "Pause" }).click();
    expect(await command(page)).toBe("amita job pause flatten-4");
    expect(await accessibility(page)).toEqual([]);
    await dialog(page).getByRole("button", { name: "Pause", exact: true }).last().click();
    await dialog(page).waitFor({ state: "detached" });
    await page.getByText("stands still").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    expect(await command(page)).toBe("amita job resume flatten-4");
    await dialog(page).getByRole("button", { name: "Resume", exact: true }).last().click();
    await dialog(page).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Pause" }).waitFor();
    expect(changes()).toEqual(["POST /api/v1/jobs/flatten-4/pause", "POST /api/v1/jobs/flatten-4/resume"]);
    expectWell(visited, mock);
    await visited.close();
  });

  it("are on the overview, with when redundancy is back", async () => {
    const visited = await visit(browser, mock, "overview");
    await visited.page.getByText("Stores are up to date in 1 h 1 min, if it goes on as so far.").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });

  it("of a volume begin on its page", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0005?tab=work");
    const { page } = visited;
    await page.getByRole("button", { name: "Scrub" }).click();
    expect(await command(page)).toBe("amita volume scrub volume-0005 --no-wait");
    await confirm(page, "Scrub");
    await page.getByRole("button", { name: "Move" }).click();
    await choose(page, "To node", "node-003");
    expect(await command(page)).toBe("amita volume move volume-0005 --to node-003");
    await confirm(page, "Move");
    await page.getByRole("button", { name: "Clear reservation" }).click();
    await confirmByName(page, "Clear reservation", "volume-0005");
    expect(changes()).toEqual([
      "POST /api/v1/volumes/volume-0005/scrub",
      "POST /api/v1/volumes/volume-0005/move",
      "DELETE /api/v1/volumes/volume-0005/reservation",
    ]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("settings", () => {
  it("say what they mean, and are changed by what is another", async () => {
    const visited = await visit(browser, mock, "settings");
    const { page } = visited;
    await page.getByText("Percent of a store's capacity at which writes will fail soon.").waitFor();
    await page.getByRole("button", { name: "Change", exact: true }).first().click();
    await dialog(page).getByLabel("Near full").fill("80");
    expect(await command(page)).toBe("amita pool thresholds --near-full 80");
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Change");
    await page.getByText("80 %", { exact: true }).first().waitFor();
    const row = page.getByRole("row", { name: /A copy is lacking/ });
    await row.getByRole("button", { name: "Change" }).click();
    await dialog(page).getByLabel("Bytes a second").fill("100M");
    expect(await command(page)).toBe("amita recovery set --level degraded --bandwidth 100M");
    await confirm(page, "Change");
    await page.getByText("100 MiB a second").waitFor();
    expect(mock.changes.map(({ body }) => body)).toEqual([
      { near_full_percent: 80 },
      { degraded: { bytes_per_second: 100 * 2 ** 20 } },
    ]);
    const manner = page.locator("section.card").filter({ has: page.getByRole("heading", { name: "Recovery beside" }) });
    await manner.getByText("what it keeps by itself", { exact: true }).waitFor();
    await manner.getByRole("button", { name: "Change" }).click();
    await dialog(page).getByLabel("Least that lost copies are brought back at").fill("20M");
    expect(await command(page)).toBe("amita recovery set --least-bandwidth 20M");
    await confirm(page, "Change");
    await manner.getByText("20 MiB a second").waitFor();
    expect(mock.changes.at(-1)?.body).toEqual({ least_bytes_per_second: 20 * 2 ** 20 });
    await page.getByRole("link", { name: "Who changed recovery" }).click();
    await page.getByText("625 of 625").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });

  it("say what becomes of sick networks and disks, and what would be done at this moment", async () => {
    const visited = await visit(browser, mock, "settings");
    const { page } = visited;
    const networks = page.locator("section.card").filter({ has: page.getByRole("heading", { name: "Sick networks" }) });
    await networks.getByText("a person is told what would be done").waitFor();
    await networks.getByText("The network of node node-003 is sick").waitFor();
    await networks.getByText("its stores would get no more groups, and would be evicted").waitFor();
    await networks.getByRole("button", { name: "Change" }).click();
    await dialog(page).getByLabel("What becomes of such nodes").selectOption("isolate");
    await dialog(page).getByLabel("After (s)", { exact: true }).fill("120");
    expect(await command(page)).toBe("amita recovery set --sick-networks isolate --sick-after 120");
    expect(await accessibility(page)).toEqual([]);
    await picture(page, "dialog-sick-networks");
    await confirm(page, "Change");
    await networks.getByText("its stores are evicted where there are copies enough").waitFor();
    const disks = page.locator("section.card").filter({ has: page.getByRole("heading", { name: "Sick disks" }) });
    await disks.getByText("the coordinator would drain it").waitFor();
    await disks.getByRole("button", { name: "Change" }).click();
    await dialog(page).getByLabel("What becomes of their stores").selectOption("drain");
    expect(await command(page)).toBe("amita recovery set --sick-disks drain");
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Change");
    await disks.getByText("it is drained by itself").waitFor();
    expect(mock.changes.map(({ body }) => body)).toEqual([
      { sick_networks: { policy: "isolate", after_seconds: 120 } },
      { sick_disks: "drain" },
    ]);
    await networks.getByRole("link", { name: "All bad links with their figures" }).click();
    await page.getByText("5 of 5").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });

  it("the version is raised only when the cluster's number is typed", async () => {
    const visited = await visit(browser, mock, "settings");
    const { page } = visited;
    await page.getByRole("button", { name: "Raise the version" }).click();
    expect(await command(page)).toBe("amita cluster finalize");
    await confirmByName(page, "Raise the version", "5d1c8f0e");
    expect(changes()).toEqual(["POST /api/v1/cluster/finalize"]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("alerts", () => {
  it("are acknowledged and silenced; the silence is ended", async () => {
    const visited = await visit(browser, mock, "alerts?q=node-0");
    const { page } = visited;
    await page.getByRole("button", { name: "Show" }).first().click();
    await dialog(page).getByText("docs/operating/runbooks/AmitaNodeDown.md").waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await dialog(page).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Acknowledge" }).first().click();
    await dialog(page).getByLabel("What others should know").fill("disk ordered");
    expect(await command(page)).toBe("amita alert ack 00000c9a4be1 --note 'disk ordered'");
    await confirm(page, "Acknowledge");
    await page.getByText("looked after").waitFor();
    await page.getByRole("button", { name: "Silence" }).first().click();
    await dialog(page).getByLabel("Why").fill("new switches");
    expect(await command(page)).toBe(
      "amita alert silence add --code node-down --object node-0 --for 4h --why 'new switches'",
    );
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Silence");
    await page.getByRole("tab", { name: "Silences" }).click();
    await page.getByText("1,001 of 1,001").waitFor();
    await page.getByRole("button", { name: "End", exact: true }).first().click();
    expect(await command(page)).toBe("amita alert silence remove 00001c55d9a0");
    await confirm(page, "End");
    expect(changes()).toEqual([
      "POST /api/v1/alerts/00000c9a4be1/acknowledge",
      "POST /api/v1/silences",
      "DELETE /api/v1/silences/00001c55d9a0",
    ]);
    expectWell(visited, mock);
    await visited.close();
  });

  it("a channel is tested and removed; how one is made is said, and no secret is asked for", async () => {
    const visited = await visit(browser, mock, "alerts?tab=channels");
    const { page } = visited;
    await page.getByRole("button", { name: "Add channel" }).click();
    expect(await command(page)).toContain("--secret-file FILE");
    await page.keyboard.press("Escape");
    await dialog(page).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Test" }).first().click();
    await dialog(page).getByRole("button", { name: "Test", exact: true }).click();
    await dialog(page).getByText("connection refused").waitFor();
    await dialog(page).getByRole("button", { name: "Close" }).last().click();
    await page.getByRole("button", { name: "Remove" }).first().click();
    await confirmByName(page, "Remove", "channel-0");
    expect(changes()).toEqual(["POST /api/v1/channels/channel-0/test", "DELETE /api/v1/channels/channel-0"]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("tokens", () => {
  it("a secret is shown once, and is nowhere when the dialog is closed", async () => {
    const visited = await visit(browser, mock, "tokens");
    const { page } = visited;
    await page.getByRole("button", { name: "Create token" }).click();
    await dialog(page).getByLabel("Held by").fill("ci");
    await dialog(page).getByLabel("Role").selectOption("operator");
    expect(await command(page)).toBe("amita token create ci --role operator --life 30d");
    expect(await accessibility(page)).toEqual([]);
    await dialog(page).getByRole("button", { name: "Create", exact: true }).click();
    await dialog(page).getByText("amita_THE-SECRET").waitFor();
    expect(await accessibility(page)).toEqual([]);
    await picture(page, "dialog-token-made");
    expect(mock.changes[0]?.body).toEqual({ name: "ci", role: "operator", life_s: 30 * 86_400 });
    await dialog(page).getByRole("button", { name: "Close" }).last().click();
    await dialog(page).waitFor({ state: "detached" });
    await page.getByText("1,001 of 1,001").waitFor();
    const left = await page.evaluate(() => document.documentElement.outerHTML + JSON.stringify(localStorage));
    expect(left).not.toContain("THE-SECRET");
    expectWell(visited, mock);
    await visited.close();
  });

  it("one is revoked, whatever it is called", async () => {
    const visited = await visit(browser, mock, "tokens?q=onerror");
    const { page } = visited;
    await page.getByRole("button", { name: "Revoke" }).first().click();
    await confirmByName(page, "Revoke", HOSTILE[0]!);
    expect(changes()).toEqual(["DELETE /api/v1/tokens/00000001d9cb469fa16570867728950e"]);
    expect(await harm(page)).toEqual(NO_HARM);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("the log", () => {
  it("is filtered where it is kept, and saved as it is", async () => {
    const visited = await visit(browser, mock, "audit?since=all&q=");
    const { page } = visited;
    await page.getByText("1,250 of 1,250").waitFor();
    await page.getByLabel("Who").fill("robot");
    await page.getByLabel("Action", { exact: true }).fill("volume.");
    await page.getByText("312 of 312").waitFor();
    const [saved] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Export as JSON" }).click(),
    ]);
    const records = JSON.parse(readFileSync(await saved.path(), "utf8")) as { who: string; action: string }[];
    expect(saved.suggestedFilename()).toBe("amita-audit.json");
    expect(records.length).toBe(624);
    expect(records.every(({ who, action }) => who === "robot" && action === "volume.create")).toBe(true);
    expectWell(visited, mock);
    await visited.close();
  });

  it("is not asked for by whoever may not read it", async () => {
    mock.world.self.may = ["cluster.view"];
    const visited = await visit(browser, mock, "audit");
    await visited.page.getByText("Your role may not do this (audit.read).").waitFor();
    expect(mock.asked("/api/v1/audit")).toBe(0);
    expectWell(visited, mock);
    await visited.close();
  });
});
