// What was said and done in a run. A call and its result are one thing that unfolds.
import { useMemo, useState } from "preact/hooks";
import { getText, path } from "../api/client";
import type { Ruling, TranscriptItem } from "../api/types";
import { clock, duration } from "../format";
import { t, word, type Key } from "../i18n";
import { clean, line } from "../markdown/clean";
import { Markdown } from "../markdown/lazy";
import { href } from "../router";
import { Diff, Json, Pre } from "./code";
import { Icon, StatusIcon } from "./icons";
import { attempt } from "./parts";

/** One entry: something said, or a call with what came of it. */
export type Entry = { kind: "said"; item: TranscriptItem } | { kind: "call"; call: TranscriptItem; result: TranscriptItem | undefined; over: boolean };

/** What comes only after every call before it was answered: the next words of the model, or the end. */
const AFTER: ReadonlySet<string> = new Set(["assistant", "reasoning", "call", "finished"]);

/**
 * Joins results to their calls, wherever they stand. A call that waited for a child has none: the child's
 * report answers it.
 */
export function entries(items: readonly TranscriptItem[]): Entry[] {
  const results = new Map<string, TranscriptItem>();
  for (const item of items) if (item.result) results.set(item.result.call_id, item);
  const called = new Set(items.flatMap((item) => (item.call ? [item.call.id] : [])));
  const last = Math.max(0, ...items.filter((item) => AFTER.has(item.kind)).map((item) => item.seq));
  const list: Entry[] = [];
  for (const item of items) {
    if (item.call) list.push({ kind: "call", call: item, result: results.get(item.call.id), over: last > item.seq });
    else if (!item.result || !called.has(item.result.call_id)) list.push({ kind: "said", item });
  }
  return list;
}

/** Drawn at once, from the end; earlier ones on demand. */
const SHOWN = 120;

export function Transcript({ task, items, unfolded = false }: { task: string; items: readonly TranscriptItem[]; unfolded?: boolean }) {
  const [limit, setLimit] = useState(SHOWN);
  const all = useMemo(() => entries(items), [items]);
  const hidden = Math.max(0, all.length - limit);
  return (
    <div class="items">
      {hidden > 0 && <button type="button" class="button small" onClick={() => setLimit(limit + SHOWN * 4)}>{t("item.older", { count: hidden })}</button>}
      {all.slice(hidden).map((entry) => (entry.kind === "said" ? <Said key={entry.item.seq} item={entry.item} /> : <Call key={entry.call.call!.id} task={task} call={entry.call} result={entry.result} over={entry.over} open={unfolded} />))}
      {all.length === 0 && <p class="quiet">{t("item.empty")}</p>}
    </div>
  );
}

function Who({ item }: { item: TranscriptItem }) {
  return <div class="who"><b>{word("item", item.kind)}</b><time dateTime={item.at}>{clock(item.at)}</time></div>;
}

const PLAIN: ReadonlySet<string> = new Set(["runtime", "notice", "finished", "asked", "reply"]);

/** The result stands above already, as the last words; a failure does not. */
function ending(text: string): string {
  return text.startsWith("completed:") ? "completed" : text.slice(0, 4_000);
}

function Said({ item }: { item: TranscriptItem }) {
  return (
    <section class={`item ${/^[a-z_]+$/.test(item.kind) ? item.kind : ""}`}>
      <Who item={item} />
      {PLAIN.has(item.kind) ? <p class="quiet small">{clean(item.kind === "finished" ? ending(item.text) : item.text)}</p> : <Markdown text={item.text} />}
    </section>
  );
}

/** The first words of the arguments, for the folded line. */
export function summary(value: unknown): string {
  if (typeof value !== "object" || value === null) return line(String(value ?? ""));
  const parts = Object.values(value).map((part) => (typeof part === "string" ? part : JSON.stringify(part)));
  return line(parts.join("  ").slice(0, 400));
}

/** What a tool said besides the diff that is drawn already. */
function rest(item: TranscriptItem): string {
  const diff = item.result?.diff;
  return diff && item.text.endsWith(diff) ? item.text.slice(0, -diff.length).trim() : item.text;
}

const GOOD: ReadonlySet<string> = new Set(["ok"]);

function Call({ task, call, result, over, open }: { task: string; call: TranscriptItem; result: TranscriptItem | undefined; over: boolean; open: boolean }) {
  const [shown, setShown] = useState<boolean | null>(null);
  const outcome = result?.result;
  const good = outcome && GOOD.has(outcome.status);
  const seen = shown ?? open;
  return (
    <section class="item call">
      <Who item={call} />
      <details class="call" open={seen} onToggle={(event) => event.currentTarget.open !== seen && setShown(event.currentTarget.open)}>
        <summary>
          <Icon name="chevron" size={12} />
          <b class="mono">{line(call.call!.name)}</b>
          <span class="quiet mono cut grow small">{summary(call.call!.arguments)}</span>
          {outcome
            ? <span class={`status small ${good ? "s-completed" : "s-failed"}`}><StatusIcon mark={good ? "completed" : "failed"} />{good ? "" : word("outcome", outcome.status)} <span class="quiet">{duration(outcome.elapsed_ms)}</span></span>
            : over ? <span class="status small quiet">{t("item.reported")}</span>
            : <span class="status small s-running"><StatusIcon mark="running" />{t("item.running")}</span>}
        </summary>
        {seen && (
          <div>
            <h3>{t("item.arguments")}</h3>
            <Json value={call.call!.arguments} open={2} />
            {outcome?.ruling && <RulingLine ruling={outcome.ruling} />}
            {outcome?.diff && <Diff text={outcome.diff} />}
            {result && rest(result) && <><h3>{t("item.output")}</h3><Pre text={rest(result)} /></>}
            {outcome?.full && <Whole task={task} blob={outcome.full} />}
            {outcome?.child && <a class="button small" href={href({ page: "task", id: outcome.child, tab: "" })}>{t("item.child")}</a>}
          </div>
        )}
      </details>
    </section>
  );
}

/** A person by name, or the rule that one allowed before. */
function approver(approved: NonNullable<Ruling["approved"]>): string {
  return approved.kind === "person" ? approved.name : approved.rule;
}

export function RulingLine({ ruling }: { ruling: Ruling }) {
  const key = (ruling.decision === "allow" ? "item.ruling" : `item.ruling.${ruling.decision}`) as Key;
  return (
    <p class="small quiet">
      {t(key)}: <span class={`tag ${ruling.decision === "deny" ? "bad" : ""}`}>{word("layer", ruling.layer)}</span> {ruling.rule && <code>{line(ruling.rule)}</code>} {clean(ruling.why)}
      {ruling.approved && ` · ${t("item.approved", { who: approver(ruling.approved) })}`}
    </p>
  );
}

function Whole({ task, blob }: { task: string; blob: string }) {
  const [text, setText] = useState<string | null>(null);
  if (text !== null) return <Pre text={text} />;
  const load = async () => {
    const whole = await attempt(getText(path`/api/tasks/${task}/blobs/${blob}`));
    if (whole !== undefined) setText(whole);
  };
  return <button type="button" class="button small" onClick={() => void load()}>{t("item.full")}</button>;
}
