// What all pages share: the store as it is, and the line to the server.
import { signal } from "@preact/signals";
import { get, getAll } from "../api/client";
import type { Agent } from "../api/types";
import { suggest } from "../i18n";
import { Connection } from "./connection";
import { isOpen, Store } from "./store";

export const store = new Store();
export const connection = new Connection(store, () => get("/api/me"));
/** Viewers may only look. */
export function canAct(): boolean {
  return store.me.value?.role !== "viewer";
}
export const agents = signal<Agent[]>([]);
/** Ticks once a second while the page is seen, for times that run. */
export const now = signal(Date.now());

export function start(): void {
  connection.open();
  // A device that wakes, or finds its network again, need not wait for the next try.
  addEventListener("online", () => connection.wake());
  addEventListener("offline", () => connection.offline());
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    now.value = Date.now();
    connection.wake();
  });
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1_000);
  void refreshMe();
  void refreshAgents();
  store.resync.subscribe((times) => {
    if (times === 0) return;
    void refreshAgents();
    refreshRequests();
  });
}

async function refreshMe(): Promise<void> {
  const me = await get("/api/me").catch(() => null);
  if (!me) return;
  store.me.value = me;
  suggest(me.lang);
}

async function refreshAgents(): Promise<void> {
  // Colours and lists of choices can wait for the next healing.
  const list = await get("/api/agents").catch(() => null);
  if (list) agents.value = list;
}

let asked: ReturnType<typeof setTimeout> | undefined;

/** Asks for the open requests, once for many wishes: after a healing, and after a reply of our own. */
export function refreshRequests(): void {
  clearTimeout(asked);
  asked = setTimeout(() => void loadRequests(), 120);
}

async function loadRequests(): Promise<void> {
  const [approvals, questions] = await Promise.all([
    getAll("/api/approvals", "cursor").catch(() => null),
    getAll("/api/questions", "cursor").catch(() => null),
  ]);
  if (!approvals || !questions) return;
  store.requests.value = new Map(
    [...approvals, ...questions].filter(isOpen).map((request) => [request.id, request]),
  );
}
