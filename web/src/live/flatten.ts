// Flattens the task tree to the lines of a list. Pure; only this module decides which tasks are shown.
import type { Status, Task } from "../api/types";
import { STATUSES, waitsForReply } from "./status";
import type { Tasks } from "./tasks";

export interface Filter {
  text: string;
  statuses: readonly Status[];
  /** Only tasks that wait for a reply. */
  needsYou: boolean;
  agent: string;
  session: string;
}

export interface Line {
  id: string;
  depth: number;
  children: number;
  open: boolean;
}

export const NO_FILTER: Filter = { text: "", statuses: [], needsYou: false, agent: "", session: "" };

/** Returns the filter as the query of an address with its question mark; empty without a filter. */
export function toQuery(filter: Filter): string {
  const query = new URLSearchParams();
  if (filter.text) query.set("q", filter.text);
  if (filter.statuses.length > 0) query.set("status", filter.statuses.join(","));
  if (filter.needsYou) query.set("needs", "you");
  if (filter.agent) query.set("agent", filter.agent);
  if (filter.session) query.set("session", filter.session);
  const text = query.toString();
  return text && `?${text}`;
}

/** Parses the filter of an address. Unknown statuses are ignored. */
export function fromQuery(search: string): Filter {
  const query = new URLSearchParams(search);
  const part = (name: string) => (query.get(name) ?? "").slice(0, 200);
  const statuses = part("status")
    .split(",")
    .filter((status): status is Status => (STATUSES as readonly string[]).includes(status));
  return {
    text: part("q"),
    statuses,
    needsYou: part("needs") === "you",
    agent: part("agent"),
    session: part("session"),
  };
}

export function isFiltered(filter: Filter): boolean {
  return toQuery(filter) !== "";
}

export function fits(task: Task, filter: Filter): boolean {
  if (filter.statuses.length > 0 && !filter.statuses.includes(task.status)) return false;
  if (filter.needsYou && !waitsForReply(task)) return false;
  if (filter.agent && task.agent.toLowerCase() !== filter.agent.toLowerCase()) return false;
  if (filter.session && task.session_id !== filter.session) return false;
  if (!filter.text) return true;
  const text = filter.text.toLowerCase();
  return (
    task.label.toLowerCase().includes(text) ||
    task.message.toLowerCase().includes(text) ||
    task.task_id.startsWith(text)
  );
}

/** Indentation stops at this depth. The server limits the depth of trees by `max_depth`. */
export const MAX_INDENT = 8;

/**
 * Returns the lines of the tree: the newest root first, children in order of creation.
 *
 * A task whose parent is unknown becomes a root. With a filter, matching tasks are shown with their ancestors.
 * `oldest` hides tasks beyond the loaded part of the list, which other requests brought in. `matched` are tasks
 * that the server found by text that a summary does not contain.
 */
export function flatten(
  tasks: Tasks,
  folded: ReadonlySet<string>,
  filter: Filter,
  oldest: string,
  matched: ReadonlySet<string> = NONE,
): Line[] {
  const kept = isFiltered(filter) ? keptBy(tasks, filter, matched) : null;
  const roots: string[] = [];
  for (const task of tasks.all()) {
    const { task_id: id, parent_id: parent } = task.peek();
    if (id < oldest) continue;
    const orphan = !parent || !tasks.get(parent) || parent < oldest;
    if (orphan && (!kept || kept.has(id))) roots.push(id);
  }
  roots.sort((a, b) => (a < b ? 1 : -1));
  const lines: Line[] = [];
  for (const root of roots) walk(tasks, root, folded, kept, lines);
  return lines;
}

const NONE: ReadonlySet<string> = new Set();

function keptBy(tasks: Tasks, filter: Filter, matched: ReadonlySet<string>): Set<string> {
  const others = { ...filter, text: "" };
  const kept = new Set<string>();
  for (const signal of tasks.all()) {
    let task: Task | undefined = signal.peek();
    if (!fits(task, filter) && !(matched.has(task.task_id) && fits(task, others))) continue;
    // Up to the root, or to an ancestor that is already kept.
    while (task && !kept.has(task.task_id)) {
      kept.add(task.task_id);
      task = task.parent_id ? tasks.get(task.parent_id)?.peek() : undefined;
    }
  }
  return kept;
}

/** Walks a tree without recursion: it may be deeper than the call stack of a browser. */
function walk(
  tasks: Tasks,
  root: string,
  folded: ReadonlySet<string>,
  kept: Set<string> | null,
  lines: Line[],
): void {
  const waiting: { id: string; depth: number }[] = [{ id: root, depth: 0 }];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const children = tasks.children(next.id).filter((child) => !kept || kept.has(child));
    const open = !folded.has(next.id);
    lines.push({ id: next.id, depth: next.depth, children: children.length, open });
    if (!open) continue;
    for (let at = children.length - 1; at >= 0; at--)
      waiting.push({ id: children[at]!, depth: next.depth + 1 });
  }
}
