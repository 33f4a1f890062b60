import { describe, expect, it } from "vitest";
import type { LiveEvent, Request, ServerMessage, Task } from "../src/api/types";
import { backOff } from "../src/live/connection";
import { affects } from "../src/live/events";
import { fits, flatten, NO_FILTER } from "../src/live/flatten";
import { Store } from "../src/live/store";
import { Tasks } from "../src/live/tasks";
import { task } from "./records";

function lines(tasks: Tasks, folded: string[] = [], filter = NO_FILTER, oldest = ""): string {
  return flatten(tasks, new Set(folded), filter, oldest)
    .map((line) => `${"  ".repeat(line.depth)}${line.id}${line.children ? (line.open ? "-" : "+") : ""}`)
    .join("\n");
}

function forest(): Tasks {
  const tasks = new Tasks();
  tasks.put([
    task("a"),
    task("b", { parent_id: "a", root_id: "a", status: "failed" }),
    task("c", { parent_id: "b", root_id: "a", agent: "plan" }),
    task("d", { parent_id: "a", root_id: "a" }),
    task("e"),
  ]);
  return tasks;
}

describe("the tree as lines", () => {
  it("lists the newest root first and children in order of creation", () => {
    expect(lines(forest())).toBe("e\na-\n  b-\n    c\n  d");
  });
  it("hides the children of folded tasks", () => {
    expect(lines(forest(), ["b"])).toBe("e\na-\n  b+\n  d");
  });
  it("shows the ancestors of matching tasks", () => {
    expect(lines(forest(), [], { ...NO_FILTER, agent: "PLAN" })).toBe("a-\n  b-\n    c");
    expect(lines(forest(), [], { ...NO_FILTER, statuses: ["failed"] })).toBe("a-\n  b");
  });
  it("shows tasks that the server matched by text that summaries do not contain", () => {
    const found = (statuses: Task["status"][]) =>
      flatten(forest(), new Set(), { ...NO_FILTER, text: "far below", statuses }, "", new Set(["d"])).map(
        (line) => line.id,
      );
    expect(found([])).toEqual(["a", "d"]);
    expect(found(["failed"])).toEqual([]);
  });
  it("shows a task with an unknown parent as a root", () => {
    const tasks = new Tasks();
    tasks.put([task("x", { parent_id: "gone" })]);
    expect(lines(tasks)).toBe("x");
  });
  it("hides tasks older than the loaded part of the list", () => {
    expect(lines(forest(), [], NO_FILTER, "c")).toBe("e\nd\nc");
  });
  it("does not depend on the order in which records arrive", () => {
    const tasks = new Tasks();
    tasks.put([
      task("d", { parent_id: "a", root_id: "a" }),
      task("b", { parent_id: "a", root_id: "a" }),
      task("c", { parent_id: "a", root_id: "a" }),
    ]);
    tasks.put([task("a")]);
    expect(lines(tasks)).toBe("a-\n  b\n  c\n  d");
  });
  it("handles a chain of ten thousand tasks", () => {
    const tasks = new Tasks();
    const id = (n: number) => String(n).padStart(6, "0");
    tasks.put(
      Array.from({ length: 10_000 }, (_, n) =>
        task(id(n), { parent_id: n === 0 ? null : id(n - 1), root_id: id(0) }),
      ),
    );
    expect(flatten(tasks, new Set(), NO_FILTER, "")).toHaveLength(10_000);
  });
  it("matches by label, text and id prefix", () => {
    const one = task("abc", { label: "Läbel", message: "do it" });
    for (const text of ["läb", "DO", "ab"]) expect(fits(one, { ...NO_FILTER, text })).toBe(true);
    expect(fits(one, { ...NO_FILTER, text: "bc" })).toBe(false);
  });
});

describe("records", () => {
  it("updates one signal, and the structure only when a task is added or removed", () => {
    const tasks = forest();
    const structure = tasks.structure.value;
    tasks.put([task("d", { parent_id: "a", root_id: "a", progress: 50, seq: 2 })]);
    expect(tasks.structure.value).toBe(structure);
    expect(tasks.get("d")!.value.progress).toBe(50);
    tasks.remove(["d"]);
    expect(tasks.structure.value).toBe(structure + 1);
    expect(lines(tasks)).toBe("e\na-\n  b-\n    c");
  });
  it("ignores a record older than the known one", () => {
    const tasks = new Tasks();
    tasks.put([task("a", { seq: 5, status: "completed" })]);
    tasks.put([task("a", { seq: 4, status: "running" })]);
    expect(tasks.get("a")!.value.status).toBe("completed");
  });
});

const ME = {
  name: "local",
  role: "admin",
  tenant: null,
  via: "browser",
  expires_at: null,
  lang: "en",
} as const;
const hello = (epoch: string, seq: number): ServerMessage => ({
  type: "hello",
  epoch,
  seq,
  heartbeat_ms: 15_000,
  version: "1",
  me: ME,
});
const snapshot = (seq: number, extra: object = {}): ServerMessage => ({
  type: "snapshot",
  id: "all",
  seq,
  tasks: [],
  requests: [],
  truncated: false,
  ...extra,
});
/** An event with the fields that the page reads. */
const event = (type: LiveEvent["type"], seq: number, extra: Partial<LiveEvent> = {}) =>
  ({
    type,
    seq,
    task_seq: 1,
    task_id: "a",
    session_id: "web:a",
    root_id: "a",
    parent_id: null,
    at: "",
    ...extra,
  }) as LiveEvent;
/** An event type of a newer server. */
const UNKNOWN = "something_new" as LiveEvent["type"];
const request = (id: string, task_id = "a"): Request => ({
  id,
  kind: "question",
  task_id,
  root_id: "a",
  session_id: "s",
  agent: "x",
  label: "l",
  depth: 1,
  asked_at: "",
  expires_at: "",
  cut: false,
  reply: null,
  replied_at: null,
});

describe("the store", () => {
  it("starts without a resync and remembers where to resume", () => {
    const store = new Store();
    store.receive(hello("e1", 10));
    store.receive(snapshot(10, { tasks: [task("a")] }));
    store.receive(event("progress", 11));
    expect(store.resync.value).toBe(0);
    expect(store.resume).toEqual({ epoch: "e1", seq: 11 });
    expect(store.tasks.size).toBe(1);
  });
  it("resyncs after a restart of the server", () => {
    const store = new Store();
    store.receive(hello("e1", 10));
    store.receive(hello("e2", 0));
    expect(store.resync.value).toBe(1);
    expect(store.resume).toEqual({ epoch: "e2", seq: 0 });
    store.receive(event("said", 1));
    expect(store.event.value?.seq).toBe(1);
  });
  it("resyncs after missed events", () => {
    const store = new Store();
    store.receive(hello("e1", 10));
    store.receive(snapshot(10));
    store.receive(snapshot(500, { missed: 400 }));
    expect(store.resync.value).toBe(1);
    expect(store.resume?.seq).toBe(500);
  });
  it("resyncs after a resumed connection, which does not replay records", () => {
    const store = new Store();
    store.receive(hello("e1", 10));
    store.receive({ type: "subscribed", id: "all", resumed: false });
    store.receive(hello("e1", 20));
    store.receive({ type: "subscribed", id: "all", resumed: true });
    expect(store.resync.value).toBe(1);
    expect(store.resume?.seq).toBe(10);
  });
  it("applies an event once if two subscriptions deliver it", () => {
    const store = new Store();
    store.receive(hello("e1", 0));
    let seen = 0;
    store.event.subscribe(() => seen++);
    store.receive(event("tool", 1));
    store.receive(event("tool", 1));
    expect(seen).toBe(2);
  });
  it("neither skips events nor resyncs after the snapshot of a partial subscription", () => {
    const store = new Store();
    store.receive(hello("e1", 5));
    store.receive(snapshot(9, { id: "text/a" }));
    store.receive(event("tool", 6));
    expect(store.event.value?.seq).toBe(6);
    expect(store.resync.value).toBe(0);
  });
  it("joins streamed text, and drops it once it is part of the transcript", () => {
    const store = new Store();
    const text = (part: string): ServerMessage => ({
      type: "text",
      task_id: "a",
      session_id: "s",
      root_id: "a",
      text: part,
    });
    store.receive(text("Hel"));
    store.receive(text("lo"));
    expect(store.streamedText("a").value).toBe("Hello");
    store.receive(event("said", 1));
    expect(store.streamedText("a").value).toBe("");
    store.receive(text("x".repeat(300_000)));
    expect(store.streamedText("a").value).toHaveLength(200_000);
  });
  it("keeps a request open until it is replied to or its task ends", () => {
    const store = new Store();
    store.receive(event("asked", 1, { request: request("r1") }));
    store.receive(event("asked", 2, { request: request("r2", "b") }));
    expect([...store.requests.value.keys()]).toEqual(["r1", "r2"]);
    store.receive(event("replied", 3, { request_id: "r1" }));
    expect(store.withdrawn.value?.id).toBe("r1");
    expect([...store.requests.value.keys()]).toEqual(["r2"]);
    store.receive(event("cancelled", 4, { task_id: "b" }));
    expect(store.requests.value.size).toBe(0);
  });
  it("removes deleted tasks", () => {
    const store = new Store();
    store.receive(snapshot(0, { tasks: [task("a"), task("b")] }));
    store.receive(event("deleted", 1));
    expect(store.tasks.get("a")).toBeUndefined();
    expect(store.tasks.get("b")).toBeDefined();
  });
  it("passes on events of unknown type", () => {
    expect(affects(event(UNKNOWN, 1), "transcript")).toBe(false);
    expect(affects(event("said", 1), "transcript")).toBe(true);
    const store = new Store();
    store.receive(event(UNKNOWN, 3));
    expect(store.resume).toBeUndefined();
    expect(store.event.value?.type).toBe(UNKNOWN);
  });
});

describe("reconnecting", () => {
  it("waits longer after each attempt, up to a limit, with jitter", () => {
    const waits = [0, 1, 2, 3, 50].map((tries) => backOff(tries, 0.5));
    expect(waits).toEqual([500, 1_000, 2_000, 4_000, 15_000]);
    expect(backOff(3, 0)).toBeLessThan(backOff(3, 1));
  });
});
