// The live state that all pages share, and the connection that updates it.
import { signal } from "@preact/signals";
import { get, getAll } from "../api/client";
import type { Agent, ModelChoices, Task } from "../api/types";
import { suggest } from "../i18n";
import { Connection } from "./connection";
import { labelOf } from "./label";
import { waitsForReply } from "./status";
import { isOpen, Store } from "./store";

export const store = new Store();
export const connection = new Connection(store, () => get("/api/me"));
/** Returns whether the user may change anything; viewers may not. */
export function canAct(): boolean {
  return store.me.value?.role !== "viewer";
}
/** Returns whether a task waits for the user: for an approval, or for an answer that its parent does not owe. */
export function needsYou(task: Pick<Task, "task_id" | "status" | "waiting_on">): boolean {
  if (!waitsForReply(task)) return false;
  if (task.waiting_on === "approval") return true;
  const asked = [...store.requests.value.values()].find((request) => request.task_id === task.task_id);
  return asked?.question?.to !== "parent";
}
/** Returns the label of a task whose record the page may not know. */
export function labelFor(id: string, label: string): string {
  const known = store.tasks.get(id)?.value;
  return labelOf(known?.label === label ? known : { label, message: "" });
}
export const agents = signal<Agent[]>([]);
/** The models that tasks can name; null until they are loaded. */
export const models = signal<ModelChoices | null>(null);
/** The built-in model of the demo. */
export const OFFLINE = "offline";
/** Returns the id of a new chat. */
export function freshSession(): string {
  return `web:${crypto.randomUUID().slice(0, 8)}`;
}
/** The current time, updated once a second while the page is visible. */
export const now = signal(Date.now());

export function start(): void {
  connection.open();
  // A device that wakes up or regains its network reconnects at once.
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
  void refreshModels();
  store.resync.subscribe((times) => {
    if (times === 0) return;
    void refreshAgents();
    void refreshModels();
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
  // On failure, colours and menus wait for the next resync.
  const list = await get("/api/agents").catch(() => null);
  if (list) agents.value = list;
}

async function refreshModels(): Promise<void> {
  // On failure, the menu offers only the default of the server.
  const choices = await get("/api/models/choices").catch(() => null);
  if (choices) models.value = choices;
}

let asked: ReturnType<typeof setTimeout> | undefined;

/** Reloads the open requests after a resync or a reply. Calls in quick succession cause one reload. */
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
