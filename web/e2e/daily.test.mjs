// What a user does every day, against a mock server: the list, a task, the chat, approvals, keys and copies.
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { standIn } from "./stand-in.mjs";
import { buildPage, launch, open, settled, until } from "./tools.mjs";

let dist, browser;
before(async () => {
  [dist, browser] = await Promise.all([buildPage(), launch()]);
});
after(() => browser?.close());

const servers = [];
async function serve(options = {}) {
  const server = await standIn({ dist, ...options });
  servers.push(server);
  return server;
}
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close().catch(() => undefined);
});

/** Returns what sticks out of its box: texts that are clipped without an ellipsis, or broken into pieces. */
const clipped = (page, selector) =>
  page.evaluate(
    (selector) =>
      [...document.querySelectorAll(selector)]
        .filter((element) => element.getClientRects().length > 0)
        .filter((element) => {
          const box = element.getBoundingClientRect();
          const lines = parseFloat(getComputedStyle(element).lineHeight) * 1.5;
          return (
            element.scrollWidth > element.clientWidth + 1 ||
            box.height > lines ||
            box.right > document.documentElement.clientWidth
          );
        })
        .map((element) => element.outerHTML.slice(0, 160)),
    selector,
  );

const WIDTHS = [1440, 1024, 390];

describe("the task list", () => {
  it("shows when tasks began, who is needed, and no full bar, at every width", async () => {
    const server = await serve();
    for (const width of WIDTHS) {
      const at = await open(browser, server.url, { viewport: { width, height: 800 } });
      await at.go("/tasks");
      await settled(at.page);
      const needing = at.page.locator(".canvas .status", { hasText: "Needs you" });
      assert.equal(await needing.count(), 2);
      assert.ok(await needing.first().isVisible());
      const begun = await at.page.locator(".canvas .c-started").allTextContents();
      assert.ok(
        begun.some((text) => /min\. ago$/.test(text)),
        begun.join(),
      );
      const values = await at.page.locator("progress").evaluateAll((list) => list.map((one) => one.value));
      assert.ok(!values.includes(100), values.join());
      assert.deepEqual(await clipped(at.page, ".canvas .status, .c-started"), [], `${width}`);
      await at.shot(`daily-tasks-${width}`);
      assert.deepEqual(await at.done(), []);
    }
  });

  it("filters by who is needed, and opens the task of a clicked row", async () => {
    const server = await serve();
    const at = await open(browser, server.url);
    const { page } = at;
    await at.go("/tasks");
    await settled(page);
    await page.getByRole("button", { name: /^Needs you 2/ }).click();
    await until("in the address", () => new URL(page.url()).searchParams.get("needs") === "you");
    await until(
      "only these and their parents",
      async () => (await page.locator("[aria-level='2']").count()) === 2,
    );
    await page.locator("[aria-level='2']").first().locator(".c-tokens").click();
    await until("the task", () => /\/tasks\/[0-9a-f-]{36}$/.test(page.url()));
    await page.goBack();
    await settled(page);
    assert.equal(new URL(page.url()).search, "?needs=you");
    assert.deepEqual(await at.done(), []);
  });

  it("follows a typed address instead of remembered filters", async () => {
    const server = await serve();
    const at = await open(browser, server.url);
    const { page } = at;
    await at.go("/tasks?q=parser");
    await settled(page);
    await until("filtered", async () => (await page.locator("input[type=search]").inputValue()) === "parser");
    await at.go("/tasks");
    await settled(page);
    assert.equal(await page.locator("input[type=search]").inputValue(), "");
    assert.equal(new URL(page.url()).search, "");
    // Within the page the list stays as it was left.
    await page.locator("input[type=search]").fill("queues");
    await page.locator("[aria-level='2'] .name a").first().click();
    await settled(page);
    await page.getByRole("link", { name: "All tasks" }).click();
    await settled(page);
    assert.equal(await page.locator("input[type=search]").inputValue(), "queues");
    assert.deepEqual(await at.done(), []);
  });
});

describe("keys", () => {
  it("act on the task page too, and the notes say on what", async () => {
    const server = await serve();
    const at = await open(browser, server.url);
    const { page } = at;
    const running = server.tasks.findLast((task) => task.status === "running" && !task.parent_id);
    const ended = server.tasks.find((task) => task.status === "failed");
    const sent = (end) => () => server.posted.some((one) => one.path.endsWith(end));
    await at.go(`/tasks/${running.task_id}`);
    await settled(page);
    await page.keyboard.press("p");
    await until("paused", sent(`${running.task_id}/pause`));
    await page.locator(".note", { hasText: `Paused: ${running.label}` }).waitFor();
    await page.keyboard.press("x");
    await page.getByRole("dialog").getByRole("button", { name: "Cancel task" }).click();
    await until("cancelled", sent(`${running.task_id}/cancel`));
    await page.locator(".note", { hasText: `Cancelled 1 task: ${running.label}` }).waitFor();
    await at.go(`/tasks/${ended.task_id}`);
    await settled(page);
    await page.keyboard.press("Shift+D");
    await page.getByRole("dialog").getByRole("button", { name: "Keep task" }).click();
    await page.keyboard.press("r");
    await until("retried", sent(`${ended.task_id}/retry`));
    assert.deepEqual(await at.done(), []);
  });

  it("approve and deny the selected request, but never a dangerous one", async () => {
    const server = await serve({ shell: true });
    const at = await open(browser, server.url);
    const { page } = at;
    await at.go("/approvals");
    await settled(page);
    // The first press only selects.
    await page.keyboard.press("y");
    await page.locator(".note", { hasText: "Selected the first request" }).waitFor();
    assert.deepEqual(server.posted, []);
    const focused = () =>
      page.evaluate(() => document.activeElement.closest("article")?.getAttribute("aria-label"));
    for (let n = 0; n < 8 && !/install it/.test(await focused()); n++) await page.keyboard.press("j");
    assert.match(await focused(), /install it/);
    await page.keyboard.press("y");
    await page.locator(".note", { hasText: "No key approves a dangerous call" }).waitFor();
    assert.deepEqual(server.posted, []);
    await page.keyboard.press("d");
    await until("denied", () => server.posted.some((one) => one.path === "/api/approvals/req-4"));
    assert.equal(server.posted[0].body.decision, "deny");
    await page.locator(".note", { hasText: "Denied: exec curl" }).waitFor();
    await at.shot("daily-denied");
    // On the task page.
    const asked = server.asked.find((request) => request.id === "req-1");
    await at.go(`/tasks/${asked.task_id}`);
    await settled(page);
    await page.keyboard.press("y");
    await page.keyboard.press("y");
    await until("approved", () =>
      server.posted.some((one) => one.path === "/api/approvals/req-1" && one.body.decision === "approve"),
    );
    assert.deepEqual(await at.done(), []);
  });
});

describe("a task", () => {
  it("breaks no name of a tool and cuts no status, at every width", async () => {
    const server = await serve();
    const done = server.tasks.find((task) => task.status === "completed" && task.parent_id).task_id;
    for (const width of WIDTHS) {
      const at = await open(browser, server.url, { viewport: { width, height: 800 } });
      for (const path of [`/tasks/${done}/transcript`, "/chat/web:demo", `/tasks/${done}/audit`]) {
        await at.go(path);
        await settled(at.page);
        await at.page.evaluate(() => {
          for (const details of document.querySelectorAll("main details.steps")) details.open = true;
        });
        const parts = "details.call > summary > b, main .status, td.whole time";
        assert.deepEqual(await clipped(at.page, parts), [], `${path} ${width}`);
        await at.shot(`daily-${path.split("/").pop().replace(":", "-")}-${width}`);
      }
      assert.deepEqual(await at.done(), []);
    }
  });

  it("shows todo lists as checklists", async () => {
    const server = await serve();
    const done = server.tasks.find((task) => task.status === "completed" && task.parent_id).task_id;
    const at = await open(browser, server.url);
    await at.go(`/tasks/${done}/transcript`);
    await settled(at.page);
    const list = at.page.locator("details.call .todo");
    assert.deepEqual(await list.locator("li > span:nth-child(2)").allTextContents(), [
      "find the comparison",
      "write a test that fails without the change",
      "report",
    ]);
    await at.page.getByText("1 of 3 done").waitFor();
    // The running turn of a chat shows the latest list without unfolding its steps.
    await at.go("/chat/web:demo");
    await settled(at.page);
    await at.page.locator(".turn > .card .todo li").first().waitFor();
    assert.deepEqual(await at.done(), []);
  });

  it("copies result, code, id, transcript and answer", async () => {
    const server = await serve();
    const done = server.tasks.find((task) => task.status === "completed" && task.parent_id);
    const at = await open(browser, server.url, { permissions: ["clipboard-read", "clipboard-write"] });
    const { page } = at;
    const copied = async (name, note) => {
      await page.getByRole("button", { name, exact: true }).first().click();
      await page.locator(".note", { hasText: note }).first().waitFor();
      return page.evaluate(() => navigator.clipboard.readText());
    };
    await at.go(`/tasks/${done.task_id}/result`);
    await settled(page);
    assert.equal(await copied("Copy the result", "Copied the result"), done.result);
    assert.equal(await copied("Copy the ID", "Copied the ID"), done.task_id);
    await at.go(`/tasks/${done.task_id}/transcript`);
    await settled(page);
    const text = await copied("Copy the transcript", "Copied the transcript");
    assert.match(text, /^## Instruction/);
    assert.match(text, /· grep\n\n```json/);
    assert.equal(await copied("Copy the text", "Copied the text"), "given.ct_eq(kept).into()");
    await at.go("/chat/web:demo");
    await settled(page);
    assert.match(await copied("Copy the answer", "Copied the answer"), /^## What I found/);
    // An address without TLS on another machine has no clipboard API.
    await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
    await page.getByRole("button", { name: "Copy the text" }).first().click();
    await page.locator(".note", { hasText: "Copied the text" }).waitFor();
    assert.deepEqual(await at.done(), []);
  });
});

describe("new work", () => {
  const made = (server) =>
    until("created", () => server.posted.find((one) => one.path === "/api/tasks")).then((one) => one.body);

  it("starts a main run that delegates, unless another agent is chosen", async () => {
    const server = await serve();
    const at = await open(browser, server.url);
    const { page } = at;
    const create = async (agent, model) => {
      server.posted.length = 0;
      await at.go("/tasks");
      await settled(page);
      await page.getByRole("button", { name: "New task" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Instruction").fill("do a thing");
      if (agent) await dialog.getByLabel("Agent").selectOption(agent);
      if (model) await dialog.getByLabel("Model").selectOption(model);
      await at.shot(`daily-new-${agent ?? "main"}`);
      await dialog.getByRole("button", { name: "Start" }).click();
      return made(server);
    };
    const main = await create();
    assert.equal(main.main, true);
    assert.equal(main.agent, undefined);
    assert.equal(main.model, undefined);
    assert.match(main.session_id, /^web:/);
    const alone = await create("explore", "ollama/qwen3");
    assert.equal(alone.main, undefined);
    assert.equal(alone.agent, "explore");
    assert.equal(alone.model, "ollama/qwen3");
    assert.deepEqual(await at.done(), []);
  });

  it("sends the chosen or typed model with a message, and keeps it for the chat", async () => {
    const server = await serve();
    const at = await open(browser, server.url, { expected: ["404"] });
    const { page } = at;
    await at.go("/chat/web:fresh");
    await settled(page);
    await page.getByLabel("Model", { exact: true }).selectOption({ label: "Another model…" });
    await page.getByLabel("Name of the model").fill("acme/big");
    await page.getByLabel("Message", { exact: true }).fill("hello");
    await page.getByRole("button", { name: "Send" }).click();
    const sent = await until("sent", () => server.posted.find((one) => one.path.endsWith("/messages")));
    assert.equal(sent.body.model, "acme/big");
    await page.reload();
    await settled(page);
    assert.equal(await page.getByLabel("Name of the model").inputValue(), "acme/big");
    await at.shot("daily-chat-model");
    assert.deepEqual(await at.done(), []);
  });

  it("says that no model is configured, and runs the demo", async () => {
    const server = await serve({ model: null });
    for (const [width, colorScheme] of [
      [1440, "light"],
      [390, "dark"],
    ]) {
      const at = await open(browser, server.url, {
        viewport: { width, height: 800 },
        colorScheme,
        expected: ["404"],
      });
      const { page } = at;
      server.posted.length = 0;
      await at.go("/chat/web:fresh");
      await settled(page);
      const notice = page.locator(".old", { hasText: "No model is configured" });
      await notice.waitFor();
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
      await at.shot(`daily-no-model-${width}`);
      // A message without a model would fail, so the form asks for one.
      await page.getByLabel("Message", { exact: true }).fill("hello");
      await page.getByRole("button", { name: "Send" }).click();
      assert.ok(await page.getByLabel("Model", { exact: true }).evaluate((menu) => !menu.checkValidity()));
      assert.deepEqual(server.posted, []);
      await notice.getByRole("button", { name: "Run the demo" }).click();
      const body = await made(server);
      assert.deepEqual([body.model, body.main], ["offline", true]);
      await until("its chat", () => page.url().endsWith(`/chat/${encodeURIComponent(body.session_id)}`));
      assert.deepEqual(await at.done(), []);
    }
  });

  it("offers a first step where there is nothing yet", async () => {
    const server = await serve({ count: 0 });
    const at = await open(browser, server.url, { expected: ["404"] });
    const { page } = at;
    for (const [path, name] of [
      ["/tasks", "New task"],
      ["/chat", "Run the demo"],
      ["/timeline", "Run the demo"],
    ]) {
      await at.go(path);
      await settled(page);
      await page.locator("main").getByRole("button", { name }).first().waitFor();
      assert.ok(!(await page.locator("main").innerText()).includes("`"), path);
      await at.shot(`daily-empty${path.replace("/", "-")}`);
    }
    await at.go("/approvals");
    await page.getByRole("link", { name: "Go to tasks" }).click();
    await settled(page);
    await page.locator(".none code", { hasText: "sortie run" }).waitFor();
    await page.locator(".none").getByRole("button", { name: "New task" }).click();
    await page.getByRole("dialog").waitFor();
    assert.deepEqual(await at.done(), []);
  });
});
