// Things in a fixed width: code, diffs, JSON. All bounded, all text.
import { useMemo, useState } from "preact/hooks";
import { t } from "../i18n";
import { clean } from "../markdown/clean";

/** Shown at once of a long text; more on demand. */
const FIRST = 12_000;
const STEP = 200_000;
const MAX_LINES = 800;

export function Pre({ text }: { text: string }) {
  const [limit, setLimit] = useState(FIRST);
  const part = text.length > limit ? text.slice(0, limit) : text;
  const safe = useMemo(() => clean(part), [part]);
  return (
    <div class="block">
      <pre class="code" tabIndex={0}>{safe}</pre>
      {text.length > limit && <More left={text.length - limit} onMore={() => setLimit(limit + STEP)} />}
    </div>
  );
}

function More({ left, onMore }: { left: number; onMore: () => void }) {
  return (
    <p class="row small">
      <button type="button" class="button small" onClick={onMore}>{t("app.more")}</button>
      <span class="quiet">{t("app.cut", { count: left })}</span>
    </p>
  );
}

/** The class of a line of a unified diff. */
export function diffKind(line: string): string {
  if (line.startsWith("+++") || line.startsWith("---") || line.startsWith("diff ") || line.startsWith("index ")) return "file";
  if (line.startsWith("@@")) return "at";
  if (line.startsWith("+")) return "add";
  if (line.startsWith("-")) return "del";
  return "";
}

export function Diff({ text }: { text: string }) {
  const [limit, setLimit] = useState(MAX_LINES);
  const lines = useMemo(() => clean(text).replace(/\n$/, "").split("\n"), [text]);
  return (
    <div class="block">
      <pre class="code diff" tabIndex={0}>
        {lines.slice(0, limit).map((line) => <span class={diffKind(line)}>{line || " "}</span>)}
      </pre>
      {lines.length > limit && (
        <button type="button" class="button small" onClick={() => setLimit(limit + MAX_LINES * 5)}>{t("app.more")} ({lines.length - limit})</button>
      )}
    </div>
  );
}

/** What looks like a unified diff is drawn as one. */
export function looksLikeDiff(text: string): boolean {
  return /^(diff --git |--- |@@ )/m.test(text) && /^[+-]/m.test(text);
}

export function Preview({ text }: { text: string }) {
  return looksLikeDiff(text) ? <Diff text={text} /> : <Pre text={text} />;
}

const MAX_ENTRIES = 100;
const MAX_DEPTH = 12;

/** A value of JSON, folded below its first level. */
export function Json({ value, open = 1 }: { value: unknown; open?: number }) {
  return <div class="json"><Value value={value} open={open} depth={0} /></div>;
}

function Value({ value, open, depth }: { value: unknown; open: number; depth: number }) {
  if (typeof value === "string") return <Text text={value} />;
  if (typeof value !== "object" || value === null) return <span class="n">{String(value)}</span>;
  if (depth >= MAX_DEPTH) return <Text text={JSON.stringify(value).slice(0, 4_000)} />;
  return <Group value={value} open={open} depth={depth} />;
}

function Text({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const long = text.length > 600 && !all;
  return (
    <span class="s">
      {clean(long ? text.slice(0, 600) : text) || '""'}
      {long && <> … <button type="button" class="button small" onClick={() => setAll(true)}>{t("app.all")}</button></>}
    </span>
  );
}

function Group({ value, open, depth }: { value: object; open: number; depth: number }) {
  const [limit, setLimit] = useState(MAX_ENTRIES);
  const [shown, setShown] = useState(open > depth);
  const entries = Object.entries(value);
  const brackets = Array.isArray(value) ? "[]" : "{}";
  if (entries.length === 0) return <span class="n">{brackets}</span>;
  return (
    <details open={shown} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary class="quiet">{brackets[0]}{entries.length}{brackets[1]}</summary>
      {shown && (
        <div>
          {entries.slice(0, limit).map(([key, entry]) => (
            <div><span class="k">{clean(key)}</span>: <Value value={entry} open={open} depth={depth + 1} /></div>
          ))}
          {entries.length > limit && <button type="button" class="button small" onClick={() => setLimit(limit * 5)}>{t("app.more")} ({entries.length - limit})</button>}
        </div>
      )}
    </details>
  );
}
