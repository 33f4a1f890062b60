// End-to-end tests against the real server: a chat with subagents, progress, an approval, a cancel, the
// result, a reload, a killed server, and hostile text.
//
// Requires SORTIE_BIN, the path of the binary. With SORTIE_PAGE=sources the page is built from these sources
// instead of taken from the binary.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { CSP } from "./stand-in.mjs";
import { buildPage, launch, open, until } from "./tools.mjs";

const BIN = process.env.SORTIE_BIN;
const SOURCES = process.env.SORTIE_PAGE === "sources";
// Chromium counts an intercepted page as public network, which may not send requests to this machine.
const LOCAL = ["--disable-features=LocalNetworkAccessChecks"];
const EVIL = `<script>alert(1)</script><img src=https://evil.example/x onerror=alert(1)> [go](javascript:alert(1)) ![p](https://evil.example/p.png) \u202Eesrever`;

/** JSON is YAML too. */
const SCRIPT = {
  version: 1,
  defaults: {
    latency_ms: 150,
    usage: { input_tokens: 900, output_tokens: 80 },
    price: { input: 3, output: 15 },
  },
  rules: [
    { when: { task: "hostile*" }, say: EVIL },
    { when: { task: "sleep until*" }, fault: { kind: "hang" } },
    { when: { task: "slow words*", turn: 1 }, latency_ms: 2500, say: "slow and steady" },
    {
      when: { agent: "main", task: "survey*", turn: 1 },
      say: "I send three out.",
      calls: [
        {
          tool: "task",
          args: { description: "count files", prompt: "count the files", subagent_type: "explore" },
        },
        {
          tool: "task",
          args: { description: "write notes", prompt: "write the notes", subagent_type: "code" },
        },
        {
          tool: "task",
          args: { description: "sleep long", prompt: "sleep for ever", subagent_type: "explore" },
        },
      ],
    },
    { when: { label: "count files", turn: 1 }, calls: [{ tool: "grep", args: { pattern: "hello" } }] },
    { when: { label: "count files", turn: "2.." }, say: "There is **one** file." },
    {
      when: { label: "write notes", turn: 1 },
      calls: [{ tool: "write_file", args: { path: "notes.md", content: "# Notes\n" } }],
    },
    { when: { label: "write notes", turn: "2.." }, say: "The notes are written." },
    { when: { label: "sleep long" }, fault: { kind: "hang" } },
    {
      when: { agent: "main", task: "survey*", turn: "2.." },
      say: "## Survey\n\nAll three came back.\n\n- counted\n- written\n- stopped",
    },
    {
      when: { task: "ask me*", turn: 1 },
      calls: [{ tool: "write_file", args: { path: "asked.md", content: "x\n" } }],
    },
    { when: { task: "ask me*", turn: "2.." }, say: "asked and done" },
    { say: "Done: {{task}}" },
  ],
};

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

class Daemon {
  constructor(folder, port) {
    this.folder = folder;
    this.home = join(folder, "home");
    this.workspace = join(folder, "workspace");
    this.listen = `127.0.0.1:${port}`;
    this.url = `http://${this.listen}`;
  }

  static async make() {
    const folder = await mkdtemp(join(tmpdir(), "sortie-story-"));
    const daemon = new Daemon(folder, await freePort());
    await mkdir(daemon.workspace);
    await writeFile(join(daemon.workspace, "hello.txt"), "hello\n");
    await writeFile(join(folder, "script.json"), JSON.stringify(SCRIPT));
    return daemon;
  }

  get environment() {
    return {
      PATH: process.env.PATH,
      HOME: this.folder,
      LANG: "C.UTF-8",
      SORTIE_HOME: this.home,
      // The story is about the calls of subagents, not about the approval of their start.
      SORTIE__SUBAGENTS__APPROVE_SPAWN: "never",
    };
  }

  async start({ model = `script:${join(this.folder, "script.json")}` } = {}) {
    this.process = spawn(
      BIN,
      ["serve", "--listen", this.listen, ...(model ? ["-c", `model=${model}`] : [])],
      { cwd: this.workspace, env: this.environment, stdio: ["ignore", "ignore", "pipe"] },
    );
    this.said = "";
    this.process.stderr.on("data", (part) => (this.said += part));
    await until(
      "the server listens",
      async () => {
        assert.equal(this.process.exitCode, null, this.said);
        return (await fetch(`${this.url}/login`)).ok;
      },
      30,
    );
  }

  async command(...args) {
    const { stdout } = await promisify(execFile)(BIN, args, { cwd: this.workspace, env: this.environment });
    return stdout;
  }

  async link() {
    return JSON.parse(await this.command("open", "--json")).url;
  }

  async api(method, path, body) {
    const token = (await readFile(join(this.home, "token"), "utf8")).trim();
    const response = await fetch(this.url + path, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body ? { "content-type": "application/json" } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.clone().text()}`);
    return response.json();
  }

  async end(signal) {
    const over = new Promise((done) => this.process.once("exit", done));
    if (this.process.exitCode === null && this.process.signalCode === null) this.process.kill(signal);
    else return;
    await over;
  }
}

describe("the real server", { skip: BIN ? false : "SORTIE_BIN is not set" }, () => {
  let browser, daemon, dist;
  before(async () => {
    assert.ok(existsSync(BIN), BIN);
    [browser, daemon, dist] = await Promise.all([
      launch(SOURCES ? LOCAL : []),
      Daemon.make(),
      SOURCES ? buildPage() : null,
    ]);
    await daemon.start();
  });
  after(async () => {
    await browser?.close();
    await daemon?.end("SIGKILL");
    if (daemon) await rm(daemon.folder, { recursive: true, force: true });
  });

  /** A logged-in page. */
  async function enter(options = {}) {
    const at = await open(browser, daemon.url, options);
    if (dist)
      await at.context.route(
        (url) => !url.pathname.startsWith("/api") && !url.pathname.startsWith("/login"),
        fromSources,
      );
    await at.page.goto(await daemon.link());
    await at.page.waitForSelector("main h1", { state: "attached" });
    return at;
  }

  async function fromSources(route) {
    const { pathname } = new URL(route.request().url());
    const file = join(dist, pathname.slice(1));
    const isFile = extname(pathname) && existsSync(file);
    // Redirects are not intercepted: the first page after the login comes from the binary.
    if (extname(pathname) && !isFile) return route.continue();
    const type =
      { ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" }[extname(pathname)] ??
      "text/html; charset=utf-8";
    await route.fulfill({
      body: await readFile(isFile ? file : join(dist, "index.html")),
      headers: { "content-type": type, "content-security-policy": CSP },
    });
  }

  const talk = async (page, text) => {
    await page.getByLabel("Message", { exact: true }).fill(text);
    await page.getByRole("button", { name: "Send" }).click();
  };

  it("explains how to log in", async () => {
    const at = await open(browser, daemon.url, { expected: ["401"] });
    const answer = await at.page.goto(daemon.url);
    assert.equal(answer.status(), 401);
    assert.match(await at.page.locator("body").textContent(), /sortie open/);
    assert.deepEqual(await at.done(), []);
  });

  it("has a designed login page, light and dark, wide and narrow, in the language of the browser", async () => {
    for (const [colorScheme, width, locale, ground] of [
      ["light", 1280, "en-US", "rgb(246, 246, 244)"],
      ["dark", 390, "zh-CN", "rgb(20, 22, 24)"],
    ]) {
      const viewport = { width, height: 800 };
      const at = await open(browser, daemon.url, { colorScheme, locale, viewport, expected: ["401"] });
      const { page } = at;
      await at.go("/tasks/0199");
      assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), ground);
      assert.equal(await page.evaluate(() => document.documentElement.lang), locale.slice(0, 2));
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
      assert.ok(!(await page.locator("body").innerText()).includes("`"));
      await at.shot(`story-login-${colorScheme}`);
      await at.go("/login?code=never");
      await page.locator("[role=alert]").waitFor();
      await at.shot(`story-login-refused-${colorScheme}`);
      assert.deepEqual(await at.done(), []);
    }
  });

  it("returns to the address that was asked for, and accepts a used link", async () => {
    const wanted = "/tasks?q=nothing&status=failed";
    // With a link, opened in another tab.
    let at = await open(browser, daemon.url, { expected: ["401"] });
    await at.go(wanted);
    const link = await daemon.link();
    const tab = await at.context.newPage();
    await tab.goto(link);
    await tab.waitForSelector("main h1", { state: "attached" });
    assert.equal(new URL(tab.url()).pathname + new URL(tab.url()).search, wanted);
    // Again with the same link, which a restored tab does.
    await tab.goto(link);
    await tab.waitForSelector(".frame main h1", { state: "attached" });
    assert.equal(new URL(tab.url()).pathname, "/tasks");
    assert.deepEqual(await at.done(), []);
    // With a token.
    at = await open(browser, daemon.url, { expected: ["401"] });
    await at.go(wanted);
    await at.page
      .locator("input[name=token]")
      .fill((await readFile(join(daemon.home, "token"), "utf8")).trim());
    await at.page.locator("form button").click();
    await at.page.waitForSelector("main h1", { state: "attached" });
    assert.equal(new URL(at.page.url()).search, "?q=nothing&status=failed");
    assert.deepEqual(await at.done(), []);
  });

  it("accepts a pasted token", async () => {
    const at = await open(browser, daemon.url, { expected: ["401"] });
    const { page } = at;
    await page.goto(`${daemon.url}/login`);
    await page.locator("input[name=token]").fill("sortie_aaaaaaaa_" + "a".repeat(43));
    await page.locator("form button").click();
    await page.locator("input[name=token]").waitFor();
    assert.equal(new URL(page.url()).pathname, "/login");
    await page.locator("input[name=token]").fill((await readFile(join(daemon.home, "token"), "utf8")).trim());
    await page.locator("form button").click();
    await page.waitForSelector("main h1", { state: "attached" });
    assert.deepEqual(await at.done(), []);
  });

  it("runs a chat with subagents, an approval and a cancelled child", async () => {
    const at = await enter({ expected: ["404"] });
    const { page } = at;
    await at.go("/chat/web:story");
    await page.waitForSelector(".compose textarea");
    await talk(page, "survey the folder");
    await page.locator(".mine", { hasText: "survey the folder" }).waitFor();
    const kid = (name) => page.locator(".kid", { hasText: name });
    await kid("count files").getByText("Completed").waitFor();
    await kid("sleep long").getByText("Running").waitFor();
    const card = page.getByRole("article", { name: /write notes.* requests approval/ });
    await card.waitFor();
    assert.match(await page.title(), /^\(1\)/);
    await at.shot("story-chat-waits");
    assert.match(await card.textContent(), /write_file/);
    await card.getByRole("button", { name: "Approve" }).click();
    await kid("write notes").getByText("Completed").waitFor();
    assert.equal(await readFile(join(daemon.workspace, "notes.md"), "utf8"), "# Notes\n");
    // Cancel the sleeping child on its own page.
    await kid("sleep long").click();
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.locator("dialog").getByRole("button", { name: "Cancel task" }).click();
    await page.locator("header .status").getByText("Cancelled").waitFor();
    await page.goBack();
    await page.locator(".md h2", { hasText: "Survey" }).waitFor();
    await page.locator(".turn .status", { hasText: "Completed" }).first().waitFor();
    await at.shot("story-chat-done");
    await page.reload();
    await page.locator(".md h2", { hasText: "Survey" }).waitFor();
    assert.equal(await page.locator(".kid").count(), 3);
    assert.deepEqual(await at.done(), []);
  });

  it('starts a main run from "New task", which delegates', async () => {
    const at = await enter();
    const { page } = at;
    await at.go("/tasks");
    await page.getByRole("search").getByRole("button", { name: "New task" }).click();
    await page.getByRole("dialog").getByLabel("Instruction").fill("survey by the button");
    await page.getByRole("dialog").getByRole("button", { name: "Start" }).click();
    await page.getByRole("tab", { name: /^Children/ }).click();
    await page.locator(".kid", { hasText: "count files" }).getByText("Completed").waitFor();
    await page.locator(".kid", { hasText: "write notes" }).getByText("Needs you").waitFor();
    await at.shot("story-new-task");
    assert.deepEqual(await at.done(), []);
    const [task] = await daemon.api("GET", "/api/tasks?roots=true&limit=1");
    await daemon.api("POST", `/api/tasks/${task.task_id}/cancel`, {});
  });

  it("sends its files and lists compressed", async () => {
    const at = await enter();
    const coded = [];
    at.page.on("response", async (response) => {
      const length = Number((await response.allHeaders())["content-length"] ?? 0);
      coded.push([new URL(response.url()).pathname, response.headers()["content-encoding"], length]);
    });
    await at.go("/tasks");
    await at.page.locator(".canvas [role=row]").first().waitFor();
    await at.page.waitForLoadState("networkidle");
    const list = coded.find(([path]) => path === "/api/tasks");
    assert.equal(list[1], "gzip", JSON.stringify(coded));
    if (!dist) {
      const script = coded.find(([path]) => path.endsWith(".js"));
      assert.equal(script[1], "gzip", JSON.stringify(coded));
    }
    assert.deepEqual(await at.done(), []);
  });

  it("sends a message to a running task and stops it", async () => {
    const at = await enter({ expected: ["404"] });
    const { page } = at;
    await at.go("/chat/web:steer");
    await page.waitForSelector(".compose textarea");
    await talk(page, "slow words please");
    await page.getByRole("button", { name: "Stop" }).waitFor();
    await talk(page, "and be brief");
    await page.locator(".note", { hasText: "Sent to the running task" }).waitFor();
    await page.locator(".turn .status", { hasText: "Completed" }).waitFor();
    assert.equal(await page.locator(".turn").count(), 1);
    assert.equal(await page.locator(".mine", { hasText: "and be brief" }).count(), 1);
    await talk(page, "sleep until stopped");
    await page.getByRole("button", { name: "Stop" }).click();
    await page.locator(".turn .status", { hasText: "Cancelled" }).waitFor();
    assert.equal(await page.locator(".turn").count(), 2);
    assert.deepEqual(await at.done(), []);
  });

  it("shows the same task on every tab", async () => {
    const at = await enter();
    const { page } = at;
    await at.go("/tasks");
    await page.getByRole("link", { name: "survey the folder" }).click();
    await page.getByRole("tab", { name: "Result" }).waitFor();
    const tabs = {
      Result: "All three came back",
      Transcript: "I send three out",
      Children: "count files",
      Timeline: "critical path",
      Policy: "write_file",
      Audit: "task",
      Journal: "admitted",
      Details: "web:story",
    };
    for (const [name, text] of Object.entries(tabs)) {
      await page.getByRole("tab", { name: new RegExp(`^${name}`) }).click();
      await page
        .getByRole("tabpanel")
        .getByText(text, { exact: false })
        .first()
        .waitFor()
        .catch((error) => assert.fail(`${name}: ${error.message}`));
      await at.shot(`story-task-${name.toLowerCase()}`);
    }
    for (const path of ["/timeline", "/agents/explore", "/approvals", "/stats"]) {
      await at.go(path);
      await page.waitForSelector("main h1");
      await page.waitForLoadState("networkidle");
      assert.equal(await page.locator(".trouble").count(), 0, path);
      await at.shot(`story${path.replaceAll("/", "-")}`);
    }
    assert.deepEqual(await at.done(), []);
  });

  it("steers, pauses, resumes, retries and deletes", async () => {
    const at = await enter();
    const { page } = at;
    const made = await daemon.api("POST", "/api/tasks", { message: "slow words please", label: "slow one" });
    await at.go(`/tasks/${made.task_id}`);
    await page.getByLabel("Message to the agent").fill("be brief");
    await page.keyboard.press("Enter");
    await page.locator(".note", { hasText: "Sent to “slow one”" }).waitFor();
    await page.locator("header .status").getByText("Completed").waitFor();
    await page.getByRole("button", { name: "Retry" }).click();
    await until("another task", () => /\/tasks\//.test(page.url()) && !page.url().includes(made.task_id));
    await page.getByRole("button", { name: "Pause" }).click();
    await page.locator("header .status").getByText("Paused").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.locator("header .status").getByText("Completed").waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.locator("dialog").getByRole("button", { name: "Delete" }).click();
    await until("the list", () => page.url().endsWith("/tasks"));
    assert.deepEqual(await at.done(), []);
  });

  it("recovers after the server was killed", async () => {
    const at = await enter({ expected: ["WebSocket", "ERR_CONNECTION", "Failed to load resource"] });
    const { page } = at;
    const made = await daemon.api("POST", "/api/tasks", { message: "ask me before", label: "asker" });
    await at.go(`/tasks/${made.task_id}`);
    const card = page.getByRole("article", { name: /asker requests approval/ });
    await card.waitFor();
    await card.getByLabel(/Message to the agent/).fill("a draft");
    await daemon.end("SIGKILL");
    await page.waitForSelector(".lost");
    await at.shot("story-lost");
    await daemon.start();
    await page.waitForSelector(".lost", { state: "detached", timeout: 40_000 });
    await card.waitFor();
    assert.equal(await card.getByLabel(/Message to the agent/).inputValue(), "a draft");
    // The card may have been drawn again: a decision counts only after the list has been stable.
    await page.waitForTimeout(800);
    await card.getByRole("button", { name: "Approve" }).click();
    await page.locator("header .status").getByText("Completed").waitFor();
    await page.getByRole("tab", { name: "Result" }).click();
    await page.getByText("asked and done").first().waitFor();
    assert.equal(await readFile(join(daemon.workspace, "asked.md"), "utf8"), "x\n");
    // The login survives a restart of the server.
    await page.reload();
    await page.getByText("asked and done").first().waitFor();
    assert.deepEqual(await at.done(), []);
  });

  it("shows hostile text of a model without effect", async () => {
    const at = await enter({ expected: ["404"] });
    const { page } = at;
    await at.go("/chat/web:hostile");
    await page.waitForSelector(".compose textarea");
    await talk(page, `hostile ${EVIL}`);
    await page.locator(".turn .status", { hasText: "Completed" }).waitFor();
    await page.locator(".turn .md", { hasText: "evil.example" }).waitFor();
    assert.equal(
      await page.evaluate(
        () => document.querySelectorAll("main img, main script, main iframe, a[href^='javascript']").length,
      ),
      0,
    );
    assert.ok(!/\u202e/.test(await page.evaluate(() => document.body.innerText)));
    await at.shot("story-hostile");
    await at.go("/tasks");
    await page.locator(".canvas [role=row]").first().waitFor();
    assert.equal(await page.evaluate(() => document.querySelectorAll("main img, main script").length), 0);
    assert.deepEqual(await at.done(), []);
  });

  it("explains how to log in again after a logout", async () => {
    const at = await enter({ expected: ["401", "WebSocket"] });
    const { page } = at;
    await page.keyboard.press("?");
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { name: "You are not logged in" }).waitFor();
    assert.match(await page.locator("main").textContent(), /sortie open/);
    await at.shot("story-logged-out");
    assert.deepEqual(await at.done(), []);
  });

  it("requires the page key besides the cookie, which other ports of the host receive too", async () => {
    const at = await enter({ expected: ["401", "WebSocket"] });
    const { page } = at;
    await at.go("/tasks");
    await page.locator(".live[data-state=on]").waitFor();
    assert.equal(new URL(page.url()).hash, "");
    // Another web server on the same host receives the cookie when the browser visits it.
    const seen = [];
    const thief = createHttpServer((request, response) => {
      seen.push(request.headers.cookie ?? "");
      response.setHeader("content-type", "text/html").end("<title>other</title>");
    });
    await new Promise((done) => thief.listen(0, "127.0.0.1", done));
    const tab = await at.context.newPage();
    await tab.goto(`http://127.0.0.1:${thief.address().port}/`);
    assert.equal(await tab.evaluate(() => localStorage.length), 0, "storage belongs to one port");
    await tab.close();
    thief.close();
    const stolen = seen.find((cookie) => cookie.includes("sortie_session_"));
    assert.ok(stolen, `the browser sends the cookie to other ports: ${seen}`);
    for (const path of ["/api/me", "/api/tasks", "/api/keys", "/metrics"]) {
      const answer = await fetch(daemon.url + path, { headers: { cookie: stolen } });
      assert.equal(answer.status, 401, path);
    }
    // A second tab and a reload work without another login.
    const second = await at.context.newPage();
    await second.goto(`${daemon.url}/tasks`);
    await second.locator(".live[data-state=on]").waitFor();
    await second.reload();
    await second.locator(".live[data-state=on]").waitFor();
    await second.close();
    // Without its storage the page shows the reason and how to log in.
    await page.evaluate(() => localStorage.clear());
    await page.reload();
    await page.getByRole("heading", { name: "You are not logged in" }).waitFor();
    assert.match(await page.locator("main").textContent(), /lost its half of the login.*sortie open/s);
    await at.shot("story-no-page-key");
    await page.goto(await daemon.link());
    await page.locator(".live[data-state=on]").waitFor();
    assert.deepEqual(await at.done(), []);
  });

  it("works in Chinese with the dark theme on a phone screen", async () => {
    const at = await enter({ locale: "zh-CN", colorScheme: "dark", viewport: { width: 390, height: 800 } });
    const { page } = at;
    await at.go("/tasks");
    await page.getByRole("link", { name: "任务" }).waitFor();
    await page.locator(".canvas").getByText("已完成").first().waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
    await at.shot("story-zh-phone");
    assert.deepEqual(await at.done(), []);
  });

  it("leads a newcomer without a model to the demo", async () => {
    const bare = await Daemon.make();
    try {
      await bare.start({ model: null });
      const at = await open(browser, bare.url, { expected: ["404"] });
      if (dist)
        await at.context.route(
          (url) => !url.pathname.startsWith("/api") && !url.pathname.startsWith("/login"),
          fromSources,
        );
      const { page } = at;
      await page.goto(await bare.link());
      await at.go("/tasks");
      await page.locator(".old", { hasText: "No model is configured" }).waitFor();
      await at.shot("story-no-model");
      await page.locator(".none").getByRole("button", { name: "Run the demo" }).click();
      await page.locator(".turn > p .status", { hasText: "Completed" }).waitFor();
      assert.equal(await page.locator(".kid").count(), 3);
      await page.getByLabel("Model", { exact: true }).waitFor();
      assert.deepEqual(await page.getByLabel("Model", { exact: true }).locator("option").allTextContents(), [
        "Choose a model",
        "offline (demo, no key needed)",
        "Another model…",
      ]);
      await at.shot("story-demo");
      assert.deepEqual(await at.done(), []);
    } finally {
      await bare.end("SIGKILL");
      await rm(bare.folder, { recursive: true, force: true });
    }
  });
});
