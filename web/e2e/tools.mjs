// Shared by all browser tests.
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";
import { build } from "vite";

const here = new URL(".", import.meta.url).pathname;
export const ARTEFACTS = join(here, "artefacts");
mkdirSync(ARTEFACTS, { recursive: true });

/** Builds the page into a temporary folder. */
export async function buildPage() {
  const dist = await mkdtemp(join(tmpdir(), "sortie-e2e-"));
  await build({ root: join(here, ".."), logLevel: "error", build: { outDir: dist, emptyOutDir: true } });
  return dist;
}

export function launch(more = []) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      ...more,
    ],
  });
}

/**
 * Opens a page that records every violation: errors, dialogs, requests to other hosts, violations of the
 * content security policy. `expected` are parts of messages that a test provokes.
 */
export async function open(browser, url, options = {}) {
  const { expected = [], ...rest } = options;
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    locale: "en-US",
    ...rest,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(12_000);
  const wrong = [];
  const note = (text) => expected.some((part) => text.includes(part)) || wrong.push(text);
  const origin = new URL(url).origin;
  page.on(
    "console",
    (message) => message.type() === "error" && note(`console: ${message.text()} ${message.location().url}`),
  );
  page.on("pageerror", (error) => note(`error: ${error.stack || `${error.name}: ${error.message}`}`));
  page.on("dialog", (dialog) => (wrong.push(`dialog: ${dialog.message()}`), void dialog.dismiss()));
  page.on("popup", () => wrong.push("popup"));
  page.on("request", (request) => request.url().startsWith(origin) || note(`request: ${request.url()}`));
  page.on(
    "websocket",
    (socket) => socket.url().replace(/^ws/, "http").startsWith(origin) || note(`socket: ${socket.url()}`),
  );
  await page.addInitScript(() => {
    globalThis.violations = [];
    document.addEventListener("securitypolicyviolation", (event) =>
      globalThis.violations.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`),
    );
  });
  return {
    page,
    context,
    wrong,
    go: (path) => page.goto(new URL(path, url).href),
    shot: (name) => page.screenshot({ path: join(ARTEFACTS, `${name}.png`) }),
    async done() {
      const violations = await page.evaluate(() => globalThis.violations).catch(() => []);
      await context.close();
      return [...wrong, ...violations];
    },
  };
}

/** Polls until a condition is true. */
export async function until(what, check, seconds = 15) {
  const end = Date.now() + seconds * 1_000;
  let last;
  for (;;) {
    try {
      last = await check();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end)
      throw new Error(
        `in ${seconds} s it did not happen: ${what} (last: ${last instanceof Error ? last.message : JSON.stringify(last)})`,
      );
    await new Promise((next) => setTimeout(next, 50));
  }
}

/** Waits until the page has loaded everything and shows it. */
export async function settled(page) {
  await page.waitForSelector("main h1", { state: "attached" });
  await until("nothing is loading", () =>
    page.evaluate(() => ![...document.querySelectorAll("main .none[role=status]")].length),
  );
  await page.waitForLoadState("networkidle");
}
