// The todo list of a run, as a checklist.
import type { TaskDetail, TranscriptItem } from "../api/types";
import { word } from "../i18n";
import { sanitizeLine } from "../markdown/sanitize";

type Todo = TaskDetail["todos"][number];

const MAX_SHOWN = 200;
/** The tool that replaces the list, and its name in other systems. */
const TOOLS: ReadonlySet<string> = new Set(["todo_write", "TodoWrite"]);

/** Returns the list that a call writes; null for other calls, and for arguments that are not a list. */
export function todosOf(name: string, values: unknown): Todo[] | null {
  if (!TOOLS.has(name) || typeof values !== "object" || values === null) return null;
  const { todos, items } = values as Record<string, unknown>;
  const list = todos ?? items;
  if (!Array.isArray(list)) return null;
  const read = list.map((entry: unknown) => {
    if (typeof entry !== "object" || entry === null) return null;
    const { content, status } = entry as Record<string, unknown>;
    return typeof content === "string" ? { text: content, status: String(status) } : null;
  });
  return read.every((todo) => todo !== null) ? read : null;
}

/** Returns the list as it was written last. */
export function latestTodos(items: readonly TranscriptItem[]): Todo[] | null {
  const call = items.findLast((item) => item.call && todosOf(item.call.name, item.call.arguments));
  return call ? todosOf(call.call!.name, call.call!.arguments) : null;
}

const SIGNS: Record<string, string> = { completed: "☑", in_progress: "▸", pending: "☐" };

export function Checklist({ todos }: { todos: readonly Todo[] }) {
  return (
    <ul class="todo">
      {todos.slice(0, MAX_SHOWN).map((todo) => (
        <li class={/^[a-z_]+$/.test(todo.status) ? todo.status : ""}>
          <span aria-hidden="true">{SIGNS[todo.status] ?? "☐"}</span>
          <span>{sanitizeLine(todo.text)}</span>
          <span class="visually-hidden">{word("todo", todo.status)}</span>
        </li>
      ))}
    </ul>
  );
}
