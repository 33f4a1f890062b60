import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { NO_FILTER } from "../src/live/flatten";
import { TaskList } from "../src/live/task-list";
import { Tasks } from "../src/live/tasks";
import { task } from "./records";

describe("the task list", () => {
  let stored: string[];
  let asked: URLSearchParams[];
  let status: number;

  /** Answers like the server: the newest tasks first, `limit` at a time. */
  const answer = (url: string) => {
    const query = new URL(url, "http://localhost").searchParams;
    asked.push(query);
    if (status !== 200) return new Response("{}", { status });
    const cursor = query.get("cursor") ?? "~";
    const left = stored.filter((id) => id < cursor).sort((a, b) => (a < b ? 1 : -1));
    const page = left.slice(0, Number(query.get("limit")));
    const headers = page.length < left.length ? { "sortie-next-cursor": page.at(-1)! } : undefined;
    return new Response(JSON.stringify(page.map((id) => task(id))), { headers });
  };
  const ids = (count: number) => Array.from({ length: count }, (_, n) => String(n).padStart(5, "0"));

  beforeEach(() => {
    vi.useFakeTimers();
    sessionStorage.clear();
    stored = [];
    asked = [];
    status = 200;
    vi.stubGlobal("fetch", (url: string) => Promise.resolve(answer(url)));
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("shows a small first page, then loads larger ones until the list is complete", async () => {
    stored = ids(700);
    const list = new TaskList(new Tasks());
    await list.refresh();
    expect(list.lines.value).toHaveLength(100);
    expect(list.extent.value).toMatchObject({ oldest: "00600", done: false, busy: false });
    await list.loadMore();
    await list.loadMore();
    await list.loadMore();
    expect(list.lines.value).toHaveLength(700);
    expect(asked.map((query) => query.get("limit"))).toEqual(["100", "500", "500"]);
  });

  it("removes deleted tasks on a refresh, but none beyond the range of the answer", async () => {
    stored = ids(150);
    const tasks = new Tasks();
    const list = new TaskList(tasks);
    await list.refresh();
    await list.loadMore();
    stored = stored.filter((id) => id !== "00140");
    await list.refresh();
    expect(tasks.get("00140")).toBeUndefined();
    expect(tasks.size).toBe(149);
    expect(list.extent.value.done).toBe(true);
  });

  it("keeps tasks that a filter hides", async () => {
    stored = ["a", "b"];
    const tasks = new Tasks();
    const list = new TaskList(tasks);
    await list.refresh();
    stored = ["b"];
    list.filter.value = { ...NO_FILTER, text: "far below" };
    await list.refresh();
    expect(tasks.size).toBe(2);
    expect(list.lines.value.map((line) => line.id)).toEqual(["b"]);
    expect(asked.at(-1)!.get("q")).toBe("far below");
  });

  it("retries after a server error, but not after a refusal or once it is stopped", async () => {
    stored = ["a"];
    const list = new TaskList(new Tasks());
    status = 503;
    await list.refresh();
    expect(list.extent.value.problem?.status).toBe(503);
    status = 200;
    await vi.runAllTimersAsync();
    expect(list.lines.value).toHaveLength(1);
    status = 403;
    await list.refresh();
    await vi.runAllTimersAsync();
    expect(asked).toHaveLength(3);
    status = 503;
    await list.refresh();
    list.stop();
    await vi.runAllTimersAsync();
    expect(asked).toHaveLength(4);
  });

  it("restores filter, folds and selection after a reload of the page", async () => {
    stored = ["a", "b"];
    const list = new TaskList(new Tasks());
    await list.refresh();
    list.move(0);
    list.move(1);
    list.setFolded("b", true);
    list.filter.value = { ...NO_FILTER, agent: "code" };
    const next = new TaskList(new Tasks());
    expect(next.selected.value).toBe("a");
    expect([...next.folded.value]).toEqual(["b"]);
    expect(next.filter.value.agent).toBe("code");
    sessionStorage.setItem("sortie.tasks", "broken{");
    expect(new TaskList(new Tasks()).filter.value).toEqual(NO_FILTER);
  });

  it("folds the selected line, and selects the parent of a leaf", () => {
    const tasks = new Tasks();
    tasks.put([task("a"), task("b", { parent_id: "a", root_id: "a" })]);
    const list = new TaskList(tasks);
    list.extent.value = { ...list.extent.value, done: true };
    list.select(1);
    list.fold(true);
    expect(list.selected.value).toBe("a");
    list.fold(true);
    expect(list.lines.value).toHaveLength(1);
    list.fold(false);
    expect(list.lines.value).toHaveLength(2);
  });
});
