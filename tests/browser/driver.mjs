// Drives one Chromium for the tests: a JSON line in, a JSON line out, until standard input ends.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const ARGS = [
  "--no-sandbox", "--headless", "--disable-background-networking", "--disable-component-update",
  "--disable-sync", "--no-first-run", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf-8");
const PATIENCE_MS = 15_000;

const pages = new Map();
let browser;
let numbers = 0;

async function launched() {
  const where = process.env.UNDERSTUDY_CHROMIUM ?? "";
  if (/^(ws|http)s?:/.test(where)) return chromium.connectOverCDP(where);
  if (where) return chromium.launch({ executablePath: where, args: ARGS });
  const carried = (await import("@sparticuz/chromium")).default;
  carried.setGraphicsMode = false;
  return chromium.launch({
    executablePath: await carried.executablePath(),
    args: [...new Set([...carried.args.filter((each) => !each.startsWith("--headless=")), ...ARGS])],
  });
}

const CALLS = {
  async open({ dark, javascript = true, width = 1280, height = 800, reduced = true }) {
    const context = await browser.newContext({
      colorScheme: dark ? "dark" : "light",
      javaScriptEnabled: javascript,
      viewport: { width, height },
      reducedMotion: reduced ? "reduce" : "no-preference",
      acceptDownloads: true,
    });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    const seen = { page, context, problems: [], requests: [] };
    page.on("console", (said) => {
      if (said.type() === "error") seen.problems.push(`console: ${said.text()} ${said.location().url}`);
    });
    page.on("pageerror", (error) => seen.problems.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => {
      seen.problems.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on("response", (answer) => seen.requests.push([answer.url(), answer.status()]));
    pages.set(++numbers, seen);
    return numbers;
  },
  goto: async ({ page }, { url }) => (await page.goto(url, { waitUntil: "load" }))?.status() ?? 0,
  click: ({ page }, { selector }) => page.click(selector),
  fill: ({ page }, { selector, text }) => page.fill(selector, text),
  press: ({ page }, { key }) => page.keyboard.press(key),
  text: ({ page }, { selector }) => page.innerText(selector),
  count: ({ page }, { selector }) => page.locator(selector).count(),
  url: ({ page }) => page.url(),
  reload: async ({ page }) => (await page.reload({ waitUntil: "load" }))?.status() ?? 0,
  wait: ({ page }, { selector }) => page.waitForSelector(selector).then(() => null),
  // Not by Playwright's own waiting, which would need `unsafe-eval` in the page's policy.
  async until({ page }, { script, ms = PATIENCE_MS }) {
    const giveUp = Date.now() + ms;
    while (Date.now() < giveUp) {
      if (await page.evaluate(script).catch(() => false)) return;
      await new Promise((wake) => setTimeout(wake, 50));
    }
    throw new Error(`Timeout of ${ms} ms: ${(await page.innerText("body")).slice(0, 2000)}`);
  },
  evaluate: ({ page }, { script }) => page.evaluate(script),
  cookies: ({ context }) => context.cookies(),
  screenshot: ({ page }, { path, whole }) => page.screenshot({ path, fullPage: whole }).then(() => null),
  problems: ({ problems }) => problems.splice(0),
  requests: ({ requests }) => requests.splice(0),
  async metrics({ page, context }) {
    const session = await context.newCDPSession(page);
    await session.send("HeapProfiler.collectGarbage");
    await session.send("Performance.enable");
    const { metrics } = await session.send("Performance.getMetrics");
    await session.detach();
    return Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
  },
  // By the debugger, so that a page's own policy about scripts need not be bent.
  async axe({ page, context }) {
    const session = await context.newCDPSession(page);
    await session.send("Runtime.evaluate", { expression: AXE });
    const { result, exceptionDetails } = await session.send("Runtime.evaluate", {
      expression: "axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations"
        + ".map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((n) => n.target).join(' ')}`))",
      awaitPromise: true,
      returnByValue: true,
    });
    await session.detach();
    if (exceptionDetails) throw new Error(exceptionDetails.text);
    return result.value;
  },
  async close({ context }, _, number) {
    pages.delete(number);
    await context.close();
  },
};

async function answered({ call, page: number, ...given }) {
  if (call === "open") return CALLS.open(given);
  const seen = pages.get(number);
  if (!seen || !(call in CALLS)) throw new Error(`no page ${number}, or no call ${call}`);
  return CALLS[call](seen, given, number);
}

try {
  browser = await launched();
  console.log(JSON.stringify({ ready: browser.version() }));
} catch (error) {
  console.log(JSON.stringify({ error: String(error) }));
  process.exit(1);
}
for await (const line of createInterface({ input: process.stdin })) {
  try {
    console.log(JSON.stringify({ result: (await answered(JSON.parse(line))) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error.message ?? error) }));
  }
}
await browser.close();
