import { describe, expect, it } from "vitest";
import type { TranscriptItem } from "../src/api/types";
import { choose } from "../src/i18n";
import { latestTodos, todosOf } from "../src/ui/todos";
import { transcriptText } from "../src/ui/transcript";

const item = (seq: number, kind: string, text: string, more: object = {}): TranscriptItem => ({
  seq,
  at: "2026-01-01T12:00:00Z",
  kind,
  text,
  ...more,
});
const todo = (content: string, status: string) => ({ content, status });

describe("todo lists", () => {
  const todos = [todo("read", "completed"), todo("write", "pending")];
  it("are read from the calls that write them", () => {
    const read = [
      { text: "read", status: "completed" },
      { text: "write", status: "pending" },
    ];
    expect(todosOf("todo_write", { todos })).toEqual(read);
    expect(todosOf("TodoWrite", { items: todos })).toEqual(read);
  });
  it.each([
    ["another tool", "exec", { todos }],
    ["no list", "todo_write", { todos: "all of it" }],
    ["odd entries", "todo_write", { todos: [{ status: "pending" }] }],
    ["no object", "todo_write", null],
  ])("are null for %s", (_, name, values) => {
    expect(todosOf(name, values)).toBeNull();
  });
  it("are shown as they were written last", () => {
    const call = (seq: number, list: object[]) =>
      item(seq, "call", "", { call: { id: `c${seq}`, name: "todo_write", arguments: { todos: list } } });
    expect(
      latestTodos([call(1, todos), call(2, [todo("end", "pending")]), item(3, "assistant", "x")]),
    ).toEqual([{ text: "end", status: "pending" }]);
    expect(latestTodos([item(1, "user", "x")])).toBeNull();
  });
});

describe("a copied transcript", () => {
  it("is Markdown with calls, results and fences that the text cannot close", () => {
    choose("en");
    const text = transcriptText([
      item(1, "user", "Do it.\n"),
      item(2, "call", "", { call: { id: "c1", name: "exec", arguments: { command: "ls" } } }),
      item(3, "result", "```\nb\n```\n", { result: { call_id: "c1", status: "ok", elapsed_ms: 1 } }),
      item(4, "assistant", "Done\u202e."),
    ]);
    expect(text).toMatch(/^## Instruction · \d\d:\d\d:\d\d\n\nDo it\.\n\n## Tool call/);
    expect(text).toContain('· exec\n\n```json\n{\n  "command": "ls"\n}\n```');
    expect(text).toContain("· ok\n\n````\n```\nb\n```\n````");
    expect(text).not.toContain("\u202e");
    expect(text.endsWith("\n")).toBe(true);
  });
});
