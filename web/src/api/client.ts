// One door to the server: typed requests, problems as errors, and what happens without a login.
import { signal } from "@preact/signals";
import { pageKey } from "./page-key";

/** What the server says when it refuses (RFC 9457). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly slug: string,
    message: string,
  ) {
    super(message);
  }
}

/** It may well go by itself: nobody answered, too many asked, or the server is in trouble. */
export function passes(problem: Problem): boolean {
  return problem.status === 0 || problem.status === 408 || problem.status === 429 || problem.status >= 500;
}

/** Why the page asks for a login: the login ended, or the page no longer has its half of it. */
export type LoggedOut = "ended" | "no-page-key";

/** Set by the first answer 401: the page then says how to log in. */
export const loggedOut = signal<LoggedOut | null>(null);

/** No answer is waited for longer than this; streams go over the WebSocket. */
const PATIENCE_MS = 35_000;

/** A server that starts again is back about then. */
const AGAIN_MS = 1_500;

/** How long a request that acts is sent again, with the same key, until the server knows what came of it. */
const PERSISTENCE_MS = 60_000;

type Query = Record<string, string | number | boolean | undefined | null>;

export interface Page<T> {
  items: T[];
  cursor: string | null;
}

export function address(path: string, query?: Query): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "" && value !== false)
      search.set(key, String(value));
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

/** A path with its parts escaped: ids of sessions hold colons, names of agents anything. */
export function path(strings: TemplateStringsArray, ...parts: string[]): string {
  return strings.reduce(
    (whole, string, at) => whole + string + (at < parts.length ? encodeURIComponent(parts[at]!) : ""),
    "",
  );
}

async function send(method: string, url: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  const key = pageKey();
  if (key) headers["sortie-page-key"] = key;
  // The request is sent again after a broken connection, and must not act twice.
  if (method === "POST") headers["idempotency-key"] = crypto.randomUUID();
  const request: RequestInit = { method, headers, credentials: "same-origin" };
  if (body !== undefined) request.body = JSON.stringify(body);
  const response = await (method === "POST" ? persist(url, request, signal) : attempt(url, request, signal));
  if (response.ok) return response;
  if (response.status === 401) loggedOut.value = key ? "ended" : "no-page-key";
  throw await refusal(response);
}

async function attempt(url: string, request: RequestInit, signal?: AbortSignal): Promise<Response> {
  const limit = AbortSignal.timeout(PATIENCE_MS);
  try {
    return await fetch(url, { ...request, signal: signal ? AbortSignal.any([signal, limit]) : limit });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "unreachable", String(error));
  }
}

/** Sends a request that acts until its outcome is known: a second wish of a person would be a second act. */
async function persist(url: string, request: RequestInit, signal?: AbortSignal): Promise<Response> {
  const until = Date.now() + PERSISTENCE_MS;
  for (let broken = false; ;) {
    let wait = AGAIN_MS;
    try {
      const response = await attempt(url, request, signal);
      if (Date.now() > until || !(await isUnderWay(response))) return response;
      wait = Math.min(5, Number(response.headers.get("retry-after")) || 1) * 1_000;
    } catch (error) {
      if (broken || !(error instanceof Problem)) throw error;
      broken = true;
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

/** Whether the server is still at it: it says so, or did not get ready in time. */
async function isUnderWay(response: Response): Promise<boolean> {
  if (response.status !== 409 && response.status !== 503) return false;
  const { slug } = await refusal(response.clone());
  return slug === "under-way" || slug === "timeout";
}

async function refusal(response: Response): Promise<Problem> {
  try {
    const problem = (await response.json()) as { type?: string; title?: string; detail?: string };
    const slug = (problem.type ?? "").split(":").pop() ?? "";
    return new Problem(response.status, slug, problem.detail ?? problem.title ?? response.statusText);
  } catch {
    return new Problem(response.status, "", `${response.status} ${response.statusText}`);
  }
}

export async function get<T>(url: string, signal?: AbortSignal): Promise<T> {
  return (await send("GET", url, undefined, signal)).json() as Promise<T>;
}

export async function getPage<T>(url: string, signal?: AbortSignal): Promise<Page<T>> {
  const response = await send("GET", url, undefined, signal);
  return { items: (await response.json()) as T[], cursor: response.headers.get("sortie-next-cursor") };
}

/** All pages of a list, one after the other; `go` is the name of what goes on. */
export async function getAll<T>(url: string, go: "cursor" | "after", signal?: AbortSignal): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | null = null;
  do {
    const page: Page<T> = await getPage<T>(address(url, { [go]: cursor }), signal);
    all.push(...page.items);
    cursor = page.cursor;
  } while (cursor !== null);
  return all;
}

export async function getText(url: string, signal?: AbortSignal): Promise<string> {
  return (await send("GET", url, undefined, signal)).text();
}

export async function post<T>(url: string, body: unknown = {}): Promise<T> {
  const response = await send("POST", url, body);
  const text = await response.text();
  return (text ? JSON.parse(text) : null) as T;
}

export async function remove<T>(url: string): Promise<T> {
  const text = await (await send("DELETE", url, undefined)).text();
  return (text ? JSON.parse(text) : null) as T;
}
