// The label of a task. The runtime may store an automatic label as the beginning of the instruction; where there
// is more room than that, the page shows the first line of the instruction.
import { cut } from "../format";
import { sanitizeLine } from "../markdown/sanitize";
import type { Task } from "../api/types";

/** An automatic label of the runtime is cut at this number of characters. */
const AUTOMATIC = 30;
/** Enough for any line of the page; the style sheet truncates what does not fit. */
const MAX_CHARS = 160;

/** Returns the label in one line; the first line of the instruction if the label is its cut beginning. */
export function labelOf(task: Pick<Task, "label" | "message">): string {
  const label = sanitizeLine(task.label).trim();
  const message = task.message.trim();
  if (Array.from(label).length < AUTOMATIC - 2) return label;
  const first = sanitizeLine(message.split("\n", 1)[0]!).trim();
  const isBeginning = first.length > label.length && first.startsWith(label.replace(/…$/, ""));
  return cut(isBeginning ? first : label, MAX_CHARS);
}
