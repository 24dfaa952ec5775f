// What people do with targets, LUNs and initiators of iSCSI.
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { accessibility, expectWell, picture, startBrowser, visit } from "./browser";
import { iqn } from "./iscsi";
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
const encoded = (index: number) => encodeURIComponent(iqn(index));

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

describe("targets", () => {
  it("one is made, changed, given a LUN and an initiator, and deleted", async () => {
    const visited = await visit(browser, mock, "hosts?tab=targets");
    const { page } = visited;
    await page.getByRole("button", { name: "Create target" }).click();
    await dialog(page).getByLabel("Name", { exact: true }).fill("vms");
    await choose(page, "Gateways", "node-004");
    await dialog(page).getByLabel("Gateways", { exact: true }).press("Escape");
    expect(await command(page)).toBe("amita target create vms --gateway node-004");
    expect(await accessibility(page)).toEqual([]);
    await picture(page, "dialog-create-target");
    await confirm(page, "Create");
    await page.getByRole("heading", { name: "Targets / vms" }).waitFor();
    await page.getByText("Only node node-004 serves it").waitFor();
    await page.getByRole("button", { name: "Change", exact: true }).click();
    await dialog(page).getByLabel("Logins without CHAP are refused").check();
    await dialog(page).getByLabel("Initiators may have volumes moved to another gateway").check();
    await dialog(page).getByLabel("Initiators are told that space runs out").fill("80");
    expect(await command(page)).toBe("amita target set vms --require-chap --initiators-move --space-warning 80");
    await confirm(page, "Change");
    await page.getByText("at 80 % of a LUN's pool").waitFor();
    await page.getByRole("button", { name: "Add LUN" }).click();
    // It is encrypted, and that one is not: each has its own usual blocks.
    await choose(page, "Volume", "volume-0045");
    await dialog(page).getByText("Usual of the volume: 4096").waitFor({ state: "attached" });
    await choose(page, "Volume", "volume-0042");
    await dialog(page).getByText("Usual of the volume: 512").waitFor({ state: "attached" });
    await dialog(page).getByLabel("Number", { exact: true }).fill("16384");
    await dialog(page).getByRole("button", { name: "Add LUN", exact: true }).click();
    await dialog(page).getByText("A number from 0 to 16383, or nothing.").waitFor();
    await dialog(page).getByLabel("Number", { exact: true }).fill("7");
    expect(await command(page)).toBe("amita lun add vms volume-0042 --number 7");
    await confirm(page, "Add LUN");
    await page.getByText("portal group 5").waitFor();
    await page.getByRole("button", { name: "Allow initiator" }).click();
    await dialog(page).getByLabel("iSCSI name of the initiator").fill("IQN.1993-08.org.debian:01:NEW");
    await dialog(page).getByLabel("It sees").selectOption("these");
    await choose(page, "LUNs", "7");
    await dialog(page).getByLabel("LUNs", { exact: true }).press("Escape");
    expect(await command(page)).toBe("amita initiator allow vms iqn.1993-08.org.debian:01:new --lun 7");
    expect(await accessibility(page)).toEqual([]);
    await confirm(page, "Allow initiator");
    await page.getByText("LUN 7", { exact: true }).waitFor();
    await page.getByRole("button", { name: "LUNs", exact: true }).click();
    await dialog(page).getByLabel("It sees").selectOption("all");
    await confirm(page, "Change");
    await page.getByText("all LUNs, later ones too").waitFor();
    await picture(page, "target-made");
    await page.getByRole("button", { name: "Deny" }).click();
    await confirmByName(page, "Deny", "iqn.1993-08.org.debian:01:new");
    await page.getByText("Nobody may log in yet").waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    await dialog(page).getByText("its 1 LUNs are disks of theirs").waitFor();
    await dialog(page).getByLabel("Also while it has LUNs").check();
    expect(await command(page)).toBe("amita target delete vms --force");
    await confirmByName(page, "Delete", "vms");
    await page.getByText("1,000 of 1,000").waitFor();
    const initiator = "/api/v1/targets/vms/initiators/iqn.1993-08.org.debian%3A01%3Anew";
    expect(changes()).toEqual([
      "POST /api/v1/targets",
      "PATCH /api/v1/targets/vms",
      "POST /api/v1/targets/vms/luns",
      `PUT ${initiator}`,
      `PUT ${initiator}`,
      `DELETE ${initiator}`,
      "DELETE /api/v1/targets/vms",
    ]);
    expect(mock.changes.slice(1, 5).map(({ body }) => body)).toEqual([
      { chap_required: true, initiators_move: true, space_warning_percent: 80 },
      { volume: "volume-0042", lun: 7, block_bytes: 512, shared: false },
      { luns: [7] },
      { luns: null },
    ]);
    expect(mock.changes[1]?.headers["if-match"]).toMatch(/^"[0-9a-f]{32}"$/);
    expect(mock.changes[6]?.headers["if-match"]).toMatch(/^"[0-9a-f]{32}"$/);
    expectWell(visited, mock);
    await visited.close();
  }, 120_000);

  it("a LUN is taken out by the name of its volume, and what is lost is said", async () => {
    const visited = await visit(browser, mock, "hosts/target/volume-0001");
    const { page } = visited;
    await page.getByText("no LUN", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    await dialog(page).getByText("lose LUN 0 at once").waitFor();
    expect(await command(page)).toBe("amita lun remove volume-0001 0");
    await confirmByName(page, "Remove", "volume-0001");
    await page.getByText("initiators that log in find no disk").waitFor();
    expect(changes()).toEqual(["DELETE /api/v1/targets/volume-0001/luns/0"]);
    expectWell(visited, mock);
    await visited.close();
  });

  it("one without a gateway that speaks iSCSI says what to do", async () => {
    const visited = await visit(browser, mock, "hosts/target/volume-0004");
    await visited.page.getByText("None of its gateways speaks iSCSI").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });

  it.each([
    ["en-US", "No node speaks iSCSI", "No initiator is known yet"],
    ["zh-CN", "没有节点提供 iSCSI", "尚无已知的发起端"],
  ] as const)("where there is nothing it is said what to do first (%s)", async (language, gateways, initiators) => {
    mock.world.targets = [];
    mock.world.initiators = [];
    for (const node of mock.world.nodes) node.iscsi = [];
    const visited = await visit(browser, mock, "hosts?tab=targets", { language });
    const { page } = visited;
    await page.getByText(gateways).waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole("tab").nth(5).click();
    await page.getByText(gateways).waitFor();
    await page.getByRole("tab").nth(3).click();
    await page.getByText(initiators).waitFor();
    expect(await accessibility(page)).toEqual([]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("sessions", () => {
  it("of all gateways are shown, and who does not tell them is named", async () => {
    const visited = await visit(browser, mock, "hosts?tab=sessions&q=debian:01:0002");
    const { page } = visited;
    await page.getByText(iqn(2), { exact: true }).waitFor();
    await page.getByRole("link", { name: "volume-0002" }).waitFor();
    await page.getByRole("link", { name: "node-008" }).waitFor();
    await page.getByText("headers", { exact: true }).waitFor();
    await page.getByText("2 of 128").waitFor();
    expect(await accessibility(page)).toEqual([]);
    await picture(page, "sessions");
    await page.getByText(/it is not alive/).waitFor({ state: "attached" });
    expectWell(visited, mock);
    await visited.close();
  });

  it("one that is there to discover has no target", async () => {
    const visited = await visit(browser, mock, "hosts?tab=sessions&q=debian:01:0000");
    await visited.page.getByText("discovers", { exact: true }).waitFor();
    expectWell(visited, mock);
    await visited.close();
  });

  it("where there is none it is said", async () => {
    mock.world.sessions = [];
    const visited = await visit(browser, mock, "hosts?tab=sessions");
    await visited.page.getByText("No initiator is logged in.").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("initiators", () => {
  it("secrets are made, shown once, and never again; they stand in no command", async () => {
    const visited = await visit(browser, mock, "hosts?tab=initiators&q=debian:01:0001");
    const { page } = visited;
    await page.getByRole("button", { name: "Secrets" }).click();
    expect(await command(page)).toBe(`amita initiator key ${iqn(1)} --generate-chap`);
    expect(await dialog(page).locator("pre").nth(1).innerText()).toContain("--data @secrets.json");
    expect(await accessibility(page)).toEqual([]);
    await dialog(page).getByLabel("Name that targets give it").fill("amita");
    await picture(page, "dialog-secrets");
    await dialog(page).getByRole("button", { name: "Change", exact: true }).click();
    await dialog(page).getByText("These are shown this once").waitFor();
    const [own, targets] = await dialog(page).locator("pre").allInnerTexts();
    expect(mock.changes.map(({ method, body }) => [method, body])).toEqual([
      ["PATCH", { chap: own, chap_target: targets, chap_target_user: "amita" }],
    ]);
    expect(mock.changes[0]?.headers["if-match"]).toMatch(/^"[0-9a-f]{32}"$/);
    expect(own).toMatch(/^[A-Za-z0-9._]{16}$/);
    expect(targets).not.toBe(own);
    expect(await accessibility(page)).toEqual([]);
    // Neither a stray key nor a click beside it closes what is shown once.
    await page.keyboard.press("Escape");
    expect(await dialog(page).getByText("These are shown this once").isVisible()).toBe(true);
    await picture(page, "secrets-once");
    await dialog(page).getByRole("button", { name: "Close" }).last().click();
    await dialog(page).waitFor({ state: "detached" });
    await page.getByText("both ways").waitFor();
    await page.getByRole("button", { name: "Secrets" }).click();
    await dialog(page).getByLabel("Secrets", { exact: true }).waitFor();
    for (const secret of [own!, targets!]) expect(await page.content()).not.toContain(secret);
    expect(await dialog(page).getByLabel("Secrets", { exact: true }).inputValue()).toBe("keep");
    await dialog(page).getByLabel("Secrets", { exact: true }).selectOption("remove");
    expect(await command(page)).toBe(`amita initiator key ${iqn(1)} --remove-chap --remove-chap-target`);
    await confirm(page, "Change");
    await page.getByText("nothing", { exact: true }).waitFor();
    expect(changes()[1]).toBe(`PATCH /api/v1/initiators/${encoded(1)}/keys`);
    expectWell(visited, mock);
    await visited.close();
  });

  it("one is added and removed; a name that is none is said to be none", async () => {
    const visited = await visit(browser, mock, "hosts?tab=initiators&q=debian:01:0001");
    const { page } = visited;
    await page.getByRole("button", { name: "Add initiator" }).click();
    await dialog(page).getByLabel("iSCSI name of the initiator").fill("nqn.2014-08.org.example:a");
    await dialog(page).getByRole("button", { name: "Add initiator", exact: true }).click();
    await dialog(page).getByText("It begins as iqn.1993-08").waitFor();
    await dialog(page).getByLabel("iSCSI name of the initiator").fill("IQN.2008-11.org.linux-kvm:A");
    await dialog(page).getByLabel("iSCSI name of the initiator").press("Enter");
    await dialog(page).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Remove" }).click();
    await dialog(page).getByText("it loses the disks that it has of: volume-0001").waitFor();
    await dialog(page).getByLabel("Also where it is allowed").check();
    expect(await command(page)).toBe(`amita initiator remove ${iqn(1)} --force`);
    await confirmByName(page, "Remove", iqn(1));
    expect(changes()).toEqual(["POST /api/v1/initiators", `DELETE /api/v1/initiators/${encoded(1)}`]);
    expect(mock.changes[0]?.body).toEqual({ name: "iqn.2008-11.org.linux-kvm:a" });
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("a volume by iSCSI", () => {
  it("is attached: what is missing is made, and the commands are there", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0030?tab=attach");
    const { page } = visited;
    await page.getByText("no initiator has it by iSCSI").waitFor();
    await page.getByRole("button", { name: "Attach to an initiator" }).click();
    await dialog(page).getByLabel("iSCSI name of the initiator").fill("iqn.1998-01.com.vmware:esx-1");
    expect(await command(page)).toBe("amita volume attach volume-0030 --iscsi iqn.1998-01.com.vmware:esx-1");
    const calls = await dialog(page).locator("pre").nth(1).innerText();
    expect(calls.match(/^curl .*/gm)?.length).toBe(3);
    expect(await accessibility(page)).toEqual([]);
    await picture(page, "dialog-attach-iscsi");
    await confirm(page, "Attach to an initiator");
    expect(mock.changes.map(({ path, body }) => [path, body])).toEqual([
      ["/api/v1/targets", { name: "volume-0030" }],
      ["/api/v1/targets/volume-0030/luns", { volume: "volume-0030", lun: 0, block_bytes: 512 }],
      ["/api/v1/targets/volume-0030/initiators/iqn.1998-01.com.vmware%3Aesx-1", { luns: [0] }],
    ]);
    await page.getByText("esxcli iscsi software set --enabled=true").waitFor();
    await page.getByLabel("System of the host").selectOption("windows");
    await page.getByText("Connect-IscsiTarget -NodeAddress").waitFor();
    await page.getByLabel("System of the host").selectOption("linux");
    await page.getByText("Into /etc/multipath/conf.d/amita.conf").waitFor();
    await page.getByText("[fd00::1]:3260").waitFor();
    expect(await accessibility(page)).toEqual([]);
    await picture(page, "attached-iscsi");
    await page.getByRole("button", { name: "Take out of its target" }).click();
    await confirmByName(page, "Remove", "volume-0030");
    await page.getByText("no initiator has it by iSCSI").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });

  it("goes into a target that is there under the next number, beside what the initiator sees", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0030?tab=attach");
    const { page } = visited;
    await page.getByRole("button", { name: "Attach to an initiator" }).click();
    await dialog(page).getByLabel("iSCSI name of the initiator").fill(iqn(7));
    await dialog(page).getByLabel("Target", { exact: true }).fill("volume-0001");
    await dialog(page).getByText("It is there, with 1 LUNs.").waitFor();
    await expect
      .poll(() => dialog(page).locator("pre").nth(1).innerText())
      .toContain('"volume":"volume-0030","lun":1,');
    expect(await command(page)).toBe(`amita volume attach volume-0030 --iscsi ${iqn(7)} --target volume-0001`);
    await confirm(page, "Attach to an initiator");
    expect(mock.changes.map(({ path, body }) => [path, body])).toEqual([
      ["/api/v1/targets/volume-0001/luns", { volume: "volume-0030", lun: 1, block_bytes: 512 }],
      [`/api/v1/targets/volume-0001/initiators/${encoded(7)}`, { luns: [0, 1] }],
    ]);
    expectWell(visited, mock);
    await visited.close();
  });

  it("is shown to another initiator, whose commands are asked for", async () => {
    const visited = await visit(browser, mock, "volumes/volume-0001?tab=attach");
    const { page } = visited;
    await page.getByLabel("iSCSI name of the initiator").selectOption(iqn(7));
    await page.getByText("esxcli iscsi software set --enabled=true").waitFor();
    await page.getByRole("button", { name: "Show to another initiator" }).click();
    await dialog(page).getByLabel("iSCSI name of the initiator").fill(iqn(9));
    await confirm(page, "Attach to an initiator");
    expect(mock.changes.map(({ path, body }) => [path, body])).toEqual([
      [`/api/v1/targets/volume-0001/initiators/${encoded(9)}`, { luns: [0] }],
    ]);
    expectWell(visited, mock);
    await visited.close();
  });
});

describe("a node", () => {
  it("shows its portals", async () => {
    const visited = await visit(browser, mock, "nodes/node-004");
    const { page } = visited;
    await page.getByText("iSCSI", { exact: true }).waitFor();
    await page.getByText("10.1.0.5:3260").waitFor();
    await page.getByText("[fd00::5]:3260").waitFor();
    expectWell(visited, mock);
    await visited.close();
  });
});
