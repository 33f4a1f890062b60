// The transcript of a run. A tool call and its result are one entry that can be expanded.
import { useMemo, useState } from "preact/hooks";
import { getText } from "../api/client";
import type { Ruling, TranscriptItem } from "../api/types";
import { clock, duration } from "../format";
import { t, word, type Key } from "../i18n";
import { sanitize, sanitizeLine } from "../markdown/sanitize";
import { Markdown } from "../markdown/lazy";
import { href } from "../router";
import { Diff, escapeHiddenDiff, Json, Pre } from "./code";
import { Icon, StatusIcon } from "./icons";
import { attempt } from "./parts";
import { Checklist, todosOf } from "./todos";

/** One entry: a text, or a tool call with its result. */
export type Entry =
  | { kind: "said"; item: TranscriptItem }
  | { kind: "call"; call: TranscriptItem; result: TranscriptItem | undefined; over: boolean };

/** Items that follow only when all earlier calls have their results: the next completion, or the end. */
const AFTER_CALLS: ReadonlySet<string> = new Set(["assistant", "reasoning", "call", "finished"]);

/**
 * Joins tool results to their calls, in any order. A call that waited for a child has no result: the child's
 * announcement answers it. `until` is the last sequence number of the transcript if `items` is a part of it.
 */
export function entries(items: readonly TranscriptItem[], until = 0): Entry[] {
  const results = new Map<string, TranscriptItem>();
  for (const item of items) if (item.result) results.set(item.result.call_id, item);
  const called = new Set(items.flatMap((item) => (item.call ? [item.call.id] : [])));
  const last = items.reduce(
    (last, item) => (AFTER_CALLS.has(item.kind) ? Math.max(last, item.seq) : last),
    until,
  );
  const list: Entry[] = [];
  for (const item of items) {
    if (item.call)
      list.push({ kind: "call", call: item, result: results.get(item.call.id), over: last > item.seq });
    else if (!item.result || !called.has(item.result.call_id)) list.push({ kind: "said", item });
  }
  return list;
}

/** Entries drawn at first, from the end; the user can load earlier ones. */
const SHOWN = 120;

export function Transcript({
  task,
  items,
  unfolded = false,
  until = 0,
}: {
  task: string;
  items: readonly TranscriptItem[];
  unfolded?: boolean;
  until?: number;
}) {
  const [limit, setLimit] = useState(SHOWN);
  const all = useMemo(() => entries(items, until), [items, until]);
  const hidden = Math.max(0, all.length - limit);
  return (
    <div class="items">
      {hidden > 0 && (
        <button type="button" class="button small" onClick={() => setLimit(limit + SHOWN * 4)}>
          {t("item.older", { count: hidden })}
        </button>
      )}
      {all
        .slice(hidden)
        .map((entry) =>
          entry.kind === "said" ? (
            <ItemView key={entry.item.seq} item={entry.item} />
          ) : (
            <Call
              key={entry.call.call!.id}
              task={task}
              call={entry.call}
              result={entry.result}
              over={entry.over}
              open={unfolded}
            />
          ),
        )}
      {all.length === 0 && <p class="quiet">{t("item.empty")}</p>}
    </div>
  );
}

function ItemHeader({ item }: { item: TranscriptItem }) {
  return (
    <div class="who">
      <b>{word("item", item.kind)}</b>
      <time dateTime={item.at}>{clock(item.at)}</time>
    </div>
  );
}

const PLAIN_TEXT: ReadonlySet<string> = new Set(["runtime", "notice", "finished", "asked", "reply"]);

/** Shortens the end of a completed run: its result is already shown above. A failure is not. */
function ending(text: string): string {
  return text.startsWith("completed:") ? "completed" : text.slice(0, 4_000);
}

export function ItemView({ item }: { item: TranscriptItem }) {
  return (
    <section class={`item ${/^[a-z_]+$/.test(item.kind) ? item.kind : ""}`}>
      <ItemHeader item={item} />
      {PLAIN_TEXT.has(item.kind) ? (
        <p class="quiet small">{sanitize(item.kind === "finished" ? ending(item.text) : item.text)}</p>
      ) : (
        <Markdown text={item.text} />
      )}
    </section>
  );
}

const SUMMARY_FIRST: readonly string[] = [
  "path",
  "file_path",
  "command",
  "pattern",
  "query",
  "url",
  "description",
];

/** Returns the beginning of the arguments, for the collapsed entry. */
export function summary(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object")
    return sanitizeLine(typeof value === "string" ? value : JSON.stringify(value));
  const fields = Object.entries(value);
  // The most telling arguments come first, whatever order the model wrote them in.
  const place = ([key]: [string, unknown]) =>
    SUMMARY_FIRST.includes(key) ? SUMMARY_FIRST.indexOf(key) : SUMMARY_FIRST.length;
  const parts = fields
    .sort((a, b) => place(a) - place(b))
    .map(([, part]) => (typeof part === "string" ? part.slice(0, 400) : JSON.stringify(part)));
  return sanitizeLine(parts.join("  ").slice(0, 400));
}

/** Splits the output of a tool into a diff and the rest. The server names the diff, or the first hunk marks it. */
export function outputOf(item: TranscriptItem): { diff: string; rest: string } {
  const diff = item.result?.diff;
  if (diff)
    return { diff, rest: item.text.endsWith(diff) ? item.text.slice(0, -diff.length).trim() : item.text };
  const hunk = /^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@/m.exec(item.text);
  if (!hunk) return { diff: "", rest: item.text };
  const lines = item.text.slice(0, hunk.index).split("\n");
  // File names precede the first hunk; the last of these lines is empty.
  let from = lines.length - 1;
  while (from > 0 && /^(?:--- |\+\+\+ |diff |index )/.test(lines[from - 1]!)) from--;
  const begin = lines.slice(0, from).reduce((sum, line) => sum + line.length + 1, 0);
  return { diff: item.text.slice(begin), rest: item.text.slice(0, begin).trim() };
}

/** Returns the change that a call to edit or write a file requests, as a diff; null for other calls. */
export function requestedChange(name: string, values: unknown): string | null {
  if (typeof values !== "object" || values === null) return null;
  const { path, old_string: before, new_string: after, content } = values as Record<string, unknown>;
  const lines = (sign: string, text: unknown) =>
    typeof text === "string" && text !== ""
      ? text
          .replace(/\n$/, "")
          .split("\n")
          .map((line) => sign + line)
      : [];
  const head = typeof path === "string" ? [`--- ${path.split("\n")[0]}`, `+++ ${path.split("\n")[0]}`] : [];
  if (name === "edit_file" && typeof before === "string" && typeof after === "string")
    return [...head, ...lines("-", before), ...lines("+", after)].join("\n");
  if (name === "write_file" && typeof content === "string")
    return [...head, ...lines("+", content)].join("\n");
  return null;
}

/** Returns a code block. Its fence is longer than any in the text. */
function fenced(text: string, language = ""): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text.replace(/\n$/, "")}\n${fence}`;
}

/** Returns a transcript as Markdown, to be copied. */
export function transcriptText(items: readonly TranscriptItem[]): string {
  const parts = items.map((item) => {
    const head = `## ${word("item", item.kind)} · ${clock(item.at)}`;
    const text = sanitize(item.text).trim();
    if (item.call) {
      const values = sanitize(JSON.stringify(item.call.arguments, null, 2) ?? "");
      return `${head} · ${sanitizeLine(item.call.name)}\n\n${fenced(values, "json")}`;
    }
    if (item.result) return `${head} · ${word("outcome", item.result.status)}\n\n${text ? fenced(text) : ""}`;
    return `${head}\n\n${text}`;
  });
  return `${parts.map((part) => part.trim()).join("\n\n")}\n`;
}

function Call({
  task,
  call,
  result,
  over,
  open,
}: {
  task: string;
  call: TranscriptItem;
  result: TranscriptItem | undefined;
  over: boolean;
  open: boolean;
}) {
  const [shown, setShown] = useState<boolean | null>(null);
  const outcome = result?.result;
  const good = outcome?.status === "ok";
  const todos = todosOf(call.call!.name, call.call!.arguments);
  const seen = shown ?? (open || todos !== null);
  const said = seen && result ? outputOf(result) : null;
  const change = seen ? said?.diff || requestedChange(call.call!.name, call.call!.arguments) : null;
  return (
    <section class="item call">
      <ItemHeader item={call} />
      <details
        class="call"
        open={seen}
        onToggle={(event) => event.currentTarget.open !== seen && setShown(event.currentTarget.open)}
      >
        <summary>
          <Icon name="chevron" size={12} />
          <b class="mono" title={sanitizeLine(call.call!.name)}>
            {sanitizeLine(call.call!.name)}
          </b>
          <span class={`quiet cut grow small ${todos ? "" : "mono"}`}>
            {todos
              ? t("todo.count", {
                  done: todos.filter((todo) => todo.status === "completed").length,
                  count: todos.length,
                })
              : summary(call.call!.arguments)}
          </span>
          {outcome ? (
            <span class={`status small ${good ? "s-completed" : "s-failed"}`}>
              <StatusIcon mark={good ? "completed" : "failed"} />
              {good ? "" : word("outcome", outcome.status)}{" "}
              <span class="quiet">{duration(outcome.elapsed_ms)}</span>
            </span>
          ) : over ? (
            <span class="status small quiet">{t("item.reported")}</span>
          ) : (
            <span class="status small s-running">
              <StatusIcon mark="running" />
              {t("item.running")}
            </span>
          )}
        </summary>
        {seen && (
          <div>
            {todos ? (
              <Checklist todos={todos} />
            ) : (
              <>
                <h3>{t("item.arguments")}</h3>
                <Json value={call.call!.arguments} open={change ? 0 : 2} />
              </>
            )}
            {outcome?.ruling && <RulingLine ruling={outcome.ruling} />}
            {change && (
              <>
                <h3>{t("item.change")}</h3>
                <Diff text={change} safely={escapeHiddenDiff} />
              </>
            )}
            {said?.rest && !(todos && good) && (
              <>
                <h3>{t("item.output")}</h3>
                <Pre text={said.rest} />
              </>
            )}
            {outcome?.full && <Whole task={task} blob={outcome.full} />}
            {outcome?.child && (
              <a class="button small" href={href({ page: "task", id: outcome.child, tab: "" })}>
                {t("item.child")}
              </a>
            )}
          </div>
        )}
      </details>
    </section>
  );
}

/** Returns the name of the approver, or the rule of the grant. */
function approver(approved: NonNullable<Ruling["approved"]>): string {
  return approved.kind === "person" ? approved.name : approved.rule;
}

export function RulingLine({ ruling }: { ruling: Ruling }) {
  const key = (ruling.decision === "allow" ? "item.ruling" : `item.ruling.${ruling.decision}`) as Key;
  return (
    <p class="small quiet">
      {t(key)}:{" "}
      <span class={`tag ${ruling.decision === "deny" ? "bad" : ""}`}>{word("layer", ruling.layer)}</span>{" "}
      {ruling.rule && <code>{sanitizeLine(ruling.rule)}</code>} {sanitize(ruling.why)}
      {ruling.approved && ` · ${t("item.approved", { who: approver(ruling.approved) })}`}
    </p>
  );
}

function Whole({ task, blob }: { task: string; blob: string }) {
  const [text, setText] = useState<string | null>(null);
  if (text !== null) return <Pre text={text} />;
  const load = async () => {
    const whole = await attempt(getText("/api/tasks/{id}/blobs/{blob}", { path: { id: task, blob } }));
    if (whole !== undefined) setText(whole);
  };
  return (
    <button type="button" class="button small" onClick={() => void load()}>
      {t("item.full")}
    </button>
  );
}
