// One door to the server: typed requests, problems as errors, and what happens without a login.
import { signal } from "@preact/signals";

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

/** Set by the first answer 401: the page then says how to log in. */
export const loggedOut = signal(false);

/** No answer is waited for longer than this; streams go over the WebSocket. */
const PATIENCE_MS = 35_000;

/** A server that starts again is back about then. */
const AGAIN_MS = 1_500;

type Query = Record<string, string | number | boolean | undefined | null>;

export interface Page<T> {
  items: T[];
  cursor: string | null;
}

export function address(path: string, query?: Query): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "" && value !== false) search.set(key, String(value));
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

/** A path with its parts escaped: ids of sessions hold colons, names of agents anything. */
export function path(strings: TemplateStringsArray, ...parts: string[]): string {
  return strings.reduce((whole, string, at) => whole + string + (at < parts.length ? encodeURIComponent(parts[at]!) : ""), "");
}

async function send(method: string, url: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  // The request is sent again after a broken connection, and must not act twice.
  if (method === "POST") headers["idempotency-key"] = crypto.randomUUID();
  const limit = AbortSignal.timeout(PATIENCE_MS);
  const request: RequestInit = { method, headers, credentials: "same-origin", signal: signal ? AbortSignal.any([signal, limit]) : limit };
  if (body !== undefined) request.body = JSON.stringify(body);
  const response = await attempt(url, request, method === "POST" ? 1 : 0, signal);
  if (response.ok) return response;
  if (response.status === 401) loggedOut.value = true;
  throw await refusal(response);
}

async function attempt(url: string, request: RequestInit, again: number, signal?: AbortSignal): Promise<Response> {
  try {
    return await fetch(url, request);
  } catch (error) {
    if (signal?.aborted) throw error;
    if (again === 0) throw new Problem(0, "unreachable", String(error));
    await new Promise((done) => setTimeout(done, AGAIN_MS));
    return attempt(url, request, again - 1, signal);
  }
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
