// The statuses of a task.
import type { Status, Task } from "../api/types";

/** A new status of the API does not compile until it has its line here. */
const ENDED: Record<Status, boolean> = {
  pending: false,
  running: false,
  completed: true,
  failed: true,
  timeout: true,
  cancelled: true,
};

export const STATUSES = Object.keys(ENDED) as readonly Status[];

/** Returns whether a task is stopped until an approval request or a question of it gets a reply. */
export function waitsForReply(task: Pick<Task, "status" | "waiting_on">): boolean {
  return !ENDED[task.status] && (task.waiting_on === "approval" || task.waiting_on === "question");
}

export function hasEnded(task: Pick<Task, "status">): boolean {
  return ENDED[task.status];
}
