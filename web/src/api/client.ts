// The HTTP client of the page. The compiler checks path, parameters, body and answer of each call against
// `schema.ts`, which is generated from the server's OpenAPI document.
import { signal } from "@preact/signals";
import { pageKey } from "./page-key";
import type { paths } from "./schema";

/** An error answer of the server (RFC 9457). Status 0 means that no answer arrived. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly slug: string,
    message: string,
  ) {
    super(message);
  }
}

/** Returns whether a retry may succeed: no answer arrived, a rate limit applies, or the server failed. */
export function isTransient(problem: Problem): boolean {
  return problem.status === 0 || problem.status === 408 || problem.status === 429 || problem.status >= 500;
}

/** Why the page shows the login screen: the login has ended, or the page has lost its half of it. */
export type LoggedOut = "ended" | "no-page-key";

/** Set by the first answer 401; the page then explains how to log in. */
export const loggedOut = signal<LoggedOut | null>(null);

/** Time limit for one answer. Streams use the WebSocket. */
const TIMEOUT_MS = 35_000;

/** Delay before a retry after a broken connection: a restarting server is back about then. */
const RETRY_DELAY_MS = 1_500;

/** How long a POST is repeated, with the same idempotency key, until the server reports its outcome. */
const RETRY_LIMIT_MS = 60_000;

type Method = "get" | "post" | "delete";

/** The paths that have an operation for a method. */
type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, object> ? P : never;
}[keyof paths];

type Operation<M extends Method, P extends PathOf<M>> = paths[P][M & keyof paths[P]];

/** The parameters of an operation, required where the document requires them. */
type Parameters<O> = O extends { parameters: infer All extends { path?: unknown; query?: unknown } }
  ? Pick<All, "path" | "query">
  : never;

type Body<O> = O extends { requestBody?: never }
  ? { body?: never }
  : O extends { requestBody: { content: { "application/json": infer Value } } }
    ? { body: Value }
    : O extends { requestBody?: { content: { "application/json": infer Value } } }
      ? { body?: Value }
      : never;

type Options<O> = Parameters<O> & Body<O> & { signal?: AbortSignal };

/** The options of a call; they may be left out where nothing in them is required. */
type Arguments<O> = Record<string, never> extends Options<O> ? [options?: Options<O>] : [options: Options<O>];

type Content<O> = O extends { responses: infer All }
  ? All[keyof All & (200 | 201 | 202)] extends infer One
    ? One extends { content: infer Types }
      ? Types
      : never
    : never
  : never;

type Answer<O> =
  Content<O> extends infer One ? (One extends { "application/json": infer Value } ? Value : never) : never;

/** The paths whose answer is a list; a list that continues names its next page in a header. */
type ListPath = {
  [P in PathOf<"get">]: Answer<Operation<"get", P>> extends readonly unknown[] ? P : never;
}[PathOf<"get">];

type Item<P extends ListPath> = Answer<Operation<"get", P>> extends readonly (infer One)[] ? One : never;

/** The paths whose answer is plain text. */
type TextPath = {
  [P in PathOf<"get">]: Content<Operation<"get", P>> extends { "text/plain": string } ? P : never;
}[PathOf<"get">];

export interface Page<T> {
  items: T[];
  cursor: string | null;
}

/** The options of any call, after the compiler has checked those of the given path. */
interface Call {
  path?: Record<string, string>;
  query?: Record<string, string | number | boolean | null | undefined>;
  body?: unknown;
  signal?: AbortSignal;
}

/** Fills in path parameters, escaped, and appends the query without its empty values. */
function address(path: string, { path: parts, query }: Pick<Call, "path" | "query"> = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parts?.[name] ?? ""));
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "" && value !== false)
      search.set(key, String(value));
  }
  const text = search.toString();
  return text ? `${filled}?${text}` : filled;
}

async function send(method: Method, path: string, call: Call = {}): Promise<Response> {
  const url = address(path, call);
  const headers: Record<string, string> = { accept: "application/json" };
  const key = pageKey();
  if (key) headers["sortie-page-key"] = key;
  const request: RequestInit = { method: method.toUpperCase(), headers, credentials: "same-origin" };
  if (method === "post") {
    headers["content-type"] = "application/json";
    // A retry after a broken connection carries the same key and does not act twice.
    headers["idempotency-key"] = crypto.randomUUID();
    request.body = JSON.stringify(call.body ?? {});
  }
  const attempt = method === "post" ? fetchUntilKnown : fetchOnce;
  const response = await attempt(url, request, call.signal);
  if (response.ok) return response;
  if (response.status === 401) loggedOut.value = key ? "ended" : "no-page-key";
  throw await problemOf(response);
}

async function fetchOnce(url: string, request: RequestInit, signal?: AbortSignal): Promise<Response> {
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  try {
    return await fetch(url, { ...request, signal: signal ? AbortSignal.any([signal, limit]) : limit });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "unreachable", String(error));
  }
}

/** Repeats a POST until its outcome is known, so that the user need not send it a second time. */
async function fetchUntilKnown(url: string, request: RequestInit, signal?: AbortSignal): Promise<Response> {
  const until = Date.now() + RETRY_LIMIT_MS;
  for (let broken = false; ;) {
    let wait = RETRY_DELAY_MS;
    try {
      const response = await fetchOnce(url, request, signal);
      if (Date.now() > until || !(await isInProgress(response))) return response;
      wait = Math.min(5, Number(response.headers.get("retry-after")) || 1) * 1_000;
    } catch (error) {
      if (broken || !(error instanceof Problem)) throw error;
      broken = true;
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

/** Returns whether the server still executes the request: it reports so, or it was not ready in time. */
async function isInProgress(response: Response): Promise<boolean> {
  if (response.status !== 409 && response.status !== 503) return false;
  const { slug } = await problemOf(response.clone());
  return slug === "under-way" || slug === "timeout";
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const problem = (await response.json()) as { type?: string; title?: string; detail?: string };
    const slug = (problem.type ?? "").split(":").pop() ?? "";
    return new Problem(response.status, slug, problem.detail ?? problem.title ?? response.statusText);
  } catch {
    return new Problem(response.status, "", `${response.status} ${response.statusText}`);
  }
}

export async function get<P extends PathOf<"get">>(
  path: P,
  ...[options]: Arguments<Operation<"get", P>>
): Promise<Answer<Operation<"get", P>>> {
  return (await send("get", path, options)).json() as Promise<Answer<Operation<"get", P>>>;
}

export async function post<P extends PathOf<"post">>(
  path: P,
  ...[options]: Arguments<Operation<"post", P>>
): Promise<Answer<Operation<"post", P>>> {
  return (await send("post", path, options)).json() as Promise<Answer<Operation<"post", P>>>;
}

export async function remove<P extends PathOf<"delete">>(
  path: P,
  ...[options]: Arguments<Operation<"delete", P>>
): Promise<Answer<Operation<"delete", P>>> {
  return (await send("delete", path, options)).json() as Promise<Answer<Operation<"delete", P>>>;
}

export async function getText<P extends TextPath>(
  path: P,
  ...[options]: Arguments<Operation<"get", P>>
): Promise<string> {
  return (await send("get", path, options)).text();
}

/** Returns one page of a list, and where the next one begins. */
export async function getPage<P extends ListPath>(
  path: P,
  ...[options]: Arguments<Operation<"get", P>>
): Promise<Page<Item<P>>> {
  const response = await send("get", path, options);
  return { items: (await response.json()) as Item<P>[], cursor: response.headers.get("sortie-next-cursor") };
}

/** Returns all pages of a list. `parameter` is the query parameter that continues it. */
export async function getAll<P extends ListPath>(
  path: P,
  parameter: "cursor" | "after",
  ...[options]: Arguments<Operation<"get", P>>
): Promise<Item<P>[]> {
  const call: Call = options ?? {};
  const all: Item<P>[] = [];
  let cursor: string | null = null;
  do {
    const response = await send("get", path, { ...call, query: { ...call.query, [parameter]: cursor } });
    all.push(...((await response.json()) as Item<P>[]));
    cursor = response.headers.get("sortie-next-cursor");
  } while (cursor !== null);
  return all;
}
