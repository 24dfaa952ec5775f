// A browser for tests: Debian's Chromium, and what each page must never do.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import type { Browser, Locator, Page } from "playwright-core";
import { expect } from "vitest";
import type { Mock } from "./mock";

const CHROMIUM = process.env.AMITA_CHROMIUM ?? "/usr/bin/chromium";
/** Where pictures of the screens go; none: they are not taken. */
const PICTURES = process.env.AMITA_SCREENSHOTS;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export function startBrowser(): Promise<Browser> {
  const asRoot = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: CHROMIUM, args: [...asRoot, "--disable-dev-shm-usage"] });
}

export interface Looks {
  readonly theme?: "light" | "dark";
  readonly language?: "en-US" | "zh-CN";
  readonly width?: number;
}

export interface Visit {
  readonly page: Page;
  /** What went wrong in the page: errors, and what the policy of content has refused. */
  readonly wrongs: string[];
  close(): Promise<void>;
}

export async function visit(browser: Browser, mock: Mock, place: string, looks: Looks = {}): Promise<Visit> {
  const context = await browser.newContext({
    colorScheme: looks.theme ?? "light",
    locale: looks.language ?? "en-US",
    viewport: { width: looks.width ?? 1400, height: 900 },
  });
  const page = await context.newPage();
  const wrongs: string[] = [];
  page.on("pageerror", (error) => wrongs.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // What the mock refuses on purpose (401, 409) the browser says as well: those are looked at by the tests.
    const isStatus = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !isStatus) wrongs.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(mock.address)) wrongs.push(`asks another server: ${request.url()}`);
  });
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
    });
  });
  await page.goto(`${mock.address}/#/${place}`);
  await page.waitForSelector("main h1, main .ant-tabs");
  return { page, wrongs, close: () => context.close() };
}

interface Finding {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** What axe finds against WCAG 2.1 A and AA, and its best practices. */
export async function accessibility(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const findings = await page.evaluate(async () => {
    const axe = (window as unknown as { axe: { run: () => Promise<{ violations: Finding[] }> } }).axe;
    return (await axe.run()).violations;
  });
  return findings.flatMap(({ id, nodes }) =>
    nodes.slice(0, 3).map((node) => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary ?? ""}`),
  );
}

/** Presses keys (`g v`: one after the other) until what they bring is there: of what is pressed while a screen is drawn anew the page may hear nothing. */
export async function press(page: Page, keys: string, brought: Locator): Promise<void> {
  for (let attempt = 0; attempt < 10; attempt += 1) {
    for (const key of keys.split(" ")) await page.keyboard.press(key);
    const came = await brought.waitFor({ timeout: 3_000 }).then(
      () => true,
      () => false,
    );
    if (came) return;
  }
  throw new Error(`${keys} was pressed ten times and brought nothing`);
}

/** Where one searches on a screen, by its key. */
export function search(page: Page): Promise<void> {
  return press(page, "/", page.locator("input:focus"));
}

export async function picture(page: Page, name: string): Promise<void> {
  if (PICTURES === undefined) return;
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: `${PICTURES}/${name}.png` });
}

/** Scrolls a long table, and says within how many milliseconds 90 % of the frames came. */
export function slowestFrame(page: Page): Promise<number> {
  return page.evaluate(async () => {
    const body = document.querySelector(".ant-table-tbody-virtual-holder")!;
    const frames: number[] = [];
    let last = performance.now();
    for (let step = 0; step < 60; step += 1) {
      body.scrollTop += 400;
      await new Promise((next) => requestAnimationFrame(next));
      frames.push(performance.now() - last);
      last = performance.now();
    }
    return frames.sort((a, b) => a - b)[Math.floor(frames.length * 0.9)]!;
  });
}

/** What names of strangers would do if they could, and whether the page is wider than its window. */
export function harm(page: Page): Promise<unknown> {
  return page.evaluate(() => ({
    hacked: "hacked" in window,
    images: document.querySelectorAll("img").length,
    overflows: document.documentElement.scrollWidth > window.innerWidth,
    turns: document.body.innerText.includes("\u202e"),
  }));
}

export const NO_HARM = { hacked: false, images: 0, overflows: false, turns: false };

/** Nothing went wrong, and nothing was asked that the specification does not allow. */
export function expectWell({ wrongs }: Visit, mock: Mock): void {
  expect(wrongs).toEqual([]);
  expect(mock.refused).toEqual([]);
}
