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

export function hasEnded(task: Pick<Task, "status">): boolean {
  return ENDED[task.status];
}
