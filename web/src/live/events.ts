// Which parts of the page each live event changes. The only table of event names in the page.
import type { LiveEvent } from "../api/types";

/** A part of the page that events make outdated. */
export type Topic =
  /** The number of tasks per status, and the list of sessions. */
  | "status"
  /** A chat: its turns, their children, and what they ask. */
  | "chat"
  /** The transcript of the task. */
  | "transcript"
  /** Queues, slots and budgets. */
  | "load"
  /** The changes in the worktree of the task. */
  | "changes"
  /** The audit trail of the task. */
  | "audit"
  /** The usage over time. */
  | "usage"
  /** Streamed text, which is part of the transcript from here on. */
  | "stream"
  /** Open requests of the task: it has ended and waits for none of them. */
  | "requests";

const ENDED: readonly Topic[] = [
  "status",
  "chat",
  "transcript",
  "load",
  "changes",
  "usage",
  "stream",
  "requests",
];

/** A new event type of the API does not compile until it has its line here. */
const TOPICS: Record<LiveEvent["type"], readonly Topic[]> = {
  queued: ["status", "chat", "load"],
  started: ["status", "chat", "load", "transcript"],
  progress: ["transcript"],
  tool: ["chat", "transcript", "changes", "audit", "stream"],
  held: ["transcript", "load"],
  retrying: ["chat", "transcript", "stream"],
  compacted: ["chat", "transcript"],
  asked: ["chat", "transcript"],
  replied: ["chat", "transcript", "audit"],
  budget_low: ["load"],
  said: ["chat", "transcript", "stream"],
  // Not sent to clients: the server sends the changed record in a `tasks` message.
  changed: [],
  paused: ["load"],
  resumed: ["load"],
  completed: ENDED,
  failed: ENDED,
  timeout: ENDED,
  cancelled: ENDED,
  delivery: ["chat"],
  deleted: ["status", "chat", "load", "requests"],
};

/** Returns whether an event makes a part of the page outdated. A newer server may send types unknown here. */
export function affects(event: LiveEvent, topic: Topic): boolean {
  const topics: readonly Topic[] | undefined = TOPICS[event.type];
  return topics?.includes(topic) ?? false;
}
