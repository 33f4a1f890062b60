// A request that acts does so once, whatever happens on the way.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { get, post, Problem } from "../src/api/client";

const problem = (status: number, slug: string, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify({ type: `urn:sortie:problem:${slug}`, title: slug, status, detail: slug }), {
    status,
    headers,
  });

describe("requests", () => {
  let sent: RequestInit[];
  const answers = (...list: (Response | Error)[]) => {
    vi.stubGlobal("fetch", (_: string, request: RequestInit) => {
      sent.push(request);
      const next = list.shift();
      return next instanceof Response
        ? Promise.resolve(next)
        : Promise.reject(next ?? new Error("nothing left"));
    });
  };
  const key = (request: RequestInit) => (request.headers as Record<string, string>)["idempotency-key"];

  beforeEach(() => {
    sent = [];
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("are told of again with the same key until it is known what came of them", async () => {
    answers(
      new TypeError("broken"),
      problem(409, "under-way", { "retry-after": "1" }),
      problem(503, "timeout"),
      new Response('{"task_id":"t"}', { status: 201 }),
    );
    const made = post("/api/tasks", { message: "x" });
    await vi.runAllTimersAsync();
    expect(await made).toEqual({ task_id: "t" });
    expect(sent).toHaveLength(4);
    expect(new Set(sent.map(key)).size).toBe(1);
    expect(key(sent[0]!)).toBeTruthy();
  });

  it("are given up when nobody answers twice, or nothing is known for long", async () => {
    answers(new TypeError("broken"), new TypeError("broken"));
    const nobody = expect(post("/x")).rejects.toMatchObject({ status: 0, slug: "unreachable" });
    await vi.runAllTimersAsync();
    await nobody;
    answers(...Array.from({ length: 100 }, () => problem(409, "under-way", { "retry-after": "5" })));
    sent = [];
    const never = expect(post("/x")).rejects.toMatchObject({ status: 409, slug: "under-way" });
    await vi.runAllTimersAsync();
    await never;
    expect(sent.length).toBeGreaterThan(5);
    expect(sent.length).toBeLessThan(20);
  });

  it("are not repeated when they were refused, or only look", async () => {
    answers(problem(409, "conflict"), problem(503, "unavailable"), new TypeError("broken"));
    await expect(post("/x")).rejects.toMatchObject({ slug: "conflict" });
    await expect(post("/x")).rejects.toMatchObject({ slug: "unavailable" });
    await expect(get("/x")).rejects.toBeInstanceOf(Problem);
    expect(sent).toHaveLength(3);
  });
});
