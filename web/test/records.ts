// Records for tests.
import { empty } from "../e2e/empty.mjs";
import type { Task } from "../src/api/types";

const EMPTY = empty("Task");

export function task(id: string, extra: Partial<Task> = {}): Task {
  return {
    ...EMPTY,
    task_id: id,
    label: `label ${id}`,
    session_id: "web:a",
    root_id: id,
    agent: "code",
    model: "m",
    status: "running",
    created_at: "2026-01-01T00:00:00Z",
    child_session: "s",
    lane: "subagent",
    priority: "normal",
    delivery: "pending",
    seq: 1,
    ...extra,
  };
}
