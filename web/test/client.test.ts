// A POST takes effect once, whatever happens to the connection.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { get, getAll, post, Problem } from "../src/api/client";

const problem = (status: number, slug: string, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify({ type: `urn:sortie:problem:${slug}`, title: slug, status, detail: slug }), {
    status,
    headers,
  });

describe("the API client", () => {
  let sent: RequestInit[];
  let urls: string[];
  const answers = (...list: (Response | Error)[]) => {
    vi.stubGlobal("fetch", (url: string, request: RequestInit) => {
      sent.push(request);
      urls.push(url);
      const next = list.shift();
      return next instanceof Response
        ? Promise.resolve(next)
        : Promise.reject(next ?? new Error("nothing left"));
    });
  };
  const key = (request: RequestInit) => (request.headers as Record<string, string>)["idempotency-key"];

  beforeEach(() => {
    sent = [];
    urls = [];
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("repeats a POST with the same idempotency key until its outcome is known", async () => {
    answers(
      new TypeError("broken"),
      problem(409, "under-way", { "retry-after": "1" }),
      problem(503, "timeout"),
      new Response('{"task_id":"t"}', { status: 201 }),
    );
    const made = post("/api/tasks", { body: { message: "x" } });
    await vi.runAllTimersAsync();
    expect(await made).toEqual({ task_id: "t" });
    expect(sent).toHaveLength(4);
    expect(new Set(sent.map(key)).size).toBe(1);
    expect(key(sent[0]!)).toBeTruthy();
  });

  it("carries escaped path parameters, the query and the body to the server", async () => {
    answers(new Response('{"task_id":"t","steered":false}', { status: 202 }), new Response("[]"));
    await post("/api/sessions/{id}/messages", { path: { id: "web:a/../x" }, body: { text: "hi" } });
    await get("/api/tasks", { query: { q: "a b", limit: 5, roots: false, agent: undefined } });
    expect(urls).toEqual(["/api/sessions/web%3Aa%2F..%2Fx/messages", "/api/tasks?q=a+b&limit=5"]);
    expect(sent[0]!.body).toBe('{"text":"hi"}');
  });

  it("collects all pages of a list", async () => {
    const page = (ids: string[], next?: string) =>
      new Response(JSON.stringify(ids.map((id) => ({ id }))), {
        headers: next ? { "sortie-next-cursor": next } : {},
      });
    answers(page(["a", "b"], "2"), page(["c"]));
    const all = await getAll("/api/approvals", "cursor", { query: { all: true } });
    expect(all.map((request) => request.id)).toEqual(["a", "b", "c"]);
    expect(urls).toEqual(["/api/approvals?all=true", "/api/approvals?all=true&cursor=2"]);
  });

  it("gives up after two broken connections, or when the outcome stays unknown for a minute", async () => {
    answers(new TypeError("broken"), new TypeError("broken"));
    const broken = expect(post("/api/logout")).rejects.toMatchObject({ status: 0, slug: "unreachable" });
    await vi.runAllTimersAsync();
    await broken;
    answers(...Array.from({ length: 100 }, () => problem(409, "under-way", { "retry-after": "5" })));
    sent = [];
    const never = expect(post("/api/logout")).rejects.toMatchObject({ status: 409, slug: "under-way" });
    await vi.runAllTimersAsync();
    await never;
    expect(sent.length).toBeGreaterThan(5);
    expect(sent.length).toBeLessThan(20);
  });

  it("repeats neither a rejected POST nor a GET", async () => {
    answers(problem(409, "conflict"), problem(503, "unavailable"), new TypeError("broken"));
    await expect(post("/api/logout")).rejects.toMatchObject({ slug: "conflict" });
    await expect(post("/api/logout")).rejects.toMatchObject({ slug: "unavailable" });
    await expect(get("/api/me")).rejects.toBeInstanceOf(Problem);
    expect(sent).toHaveLength(3);
  });
});
