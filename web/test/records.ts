// Records for tests.
import type { Task } from "../src/api/types";

const NOTHING = {
  input_tokens: null,
  output_tokens: null,
  cache_read_tokens: null,
  cache_write_tokens: null,
  cost_usd: null,
};

export function task(id: string, extra: Partial<Task> = {}): Task {
  return {
    task_id: id,
    label: `label ${id}`,
    message: "",
    session_id: "web:a",
    parent_id: null,
    root_id: id,
    agent: "code",
    model: "m",
    status: "running",
    reason: null,
    waiting_on: null,
    paused: false,
    progress: 0,
    result: null,
    error: null,
    created_at: "2026-01-01T00:00:00Z",
    started_at: null,
    completed_at: null,
    depth: 0,
    child_session: "s",
    lane: "subagent",
    priority: "normal",
    tool_calls: 0,
    usage: NOTHING,
    total_usage: NOTHING,
    delivery: "pending",
    verdict: null,
    queue_position: null,
    tenant: null,
    cancel_requested: false,
    seq: 1,
    ...extra,
  };
}
