// Monospaced content: code, diffs, JSON. All of it is bounded and drawn as text.
import { useMemo, useState } from "preact/hooks";
import { t } from "../i18n";
import { sanitize, escapeHidden } from "../markdown/sanitize";
import { Copy } from "./copy";

/** Characters of a long text that are shown at first; the user can load more. */
const FIRST = 12_000;
const STEP = 200_000;
const MAX_LINES = 800;

/** How text is sanitized: as prose, or with all hidden characters escaped where an approver decides by it. */
type Safe = (text: string) => string;

export function Pre({ text, safely = sanitize }: { text: string; safely?: Safe }) {
  const [limit, setLimit] = useState(FIRST);
  const part = text.length > limit ? text.slice(0, limit) : text;
  const safe = useMemo(() => safely(part), [part, safely]);
  return (
    <div class="block">
      <pre class="code" tabIndex={0}>
        {safe}
      </pre>
      <Copy what="text" text={() => safely(text)} />
      {text.length > limit && <More left={text.length - limit} onMore={() => setLimit(limit + STEP)} />}
    </div>
  );
}

function More({ left, onMore }: { left: number; onMore: () => void }) {
  return (
    <p class="row small">
      <button type="button" class="button small" onClick={onMore}>
        {t("app.more")}
      </button>
      <span class="quiet">{t("app.cut", { count: left })}</span>
    </p>
  );
}

/** Returns the CSS class of a line of a unified diff. */
export function diffKind(line: string): string {
  if (
    line.startsWith("+++") ||
    line.startsWith("---") ||
    line.startsWith("diff ") ||
    line.startsWith("index ")
  )
    return "file";
  if (line.startsWith("@@")) return "at";
  if (line.startsWith("+")) return "add";
  if (line.startsWith("-")) return "del";
  return "";
}

export function Diff({ text, safely = sanitize }: { text: string; safely?: Safe }) {
  const [limit, setLimit] = useState(MAX_LINES);
  const lines = useMemo(() => safely(text).replace(/\n$/, "").split("\n"), [text, safely]);
  return (
    <div class="block">
      <pre class="code diff" tabIndex={0}>
        {lines.slice(0, limit).map((line) => (
          <span class={diffKind(line)}>{line || " "}</span>
        ))}
      </pre>
      <Copy what="text" text={() => lines.join("\n")} />
      {lines.length > limit && (
        <button type="button" class="button small" onClick={() => setLimit(limit + MAX_LINES * 5)}>
          {t("app.more")} ({lines.length - limit})
        </button>
      )}
    </div>
  );
}

/** Returns whether a text looks like a unified diff. */
export function looksLikeDiff(text: string): boolean {
  return /^(diff --git |--- |@@ )/m.test(text) && /^[+-]/m.test(text);
}

/** Escapes hidden characters in each line of a diff after its sign: a tab behind the sign is indentation. */
export function escapeHiddenDiff(text: string): string {
  return text
    .split("\n")
    .map((line) => (/^[+\- ]/.test(line) ? line[0] + escapeHidden(line.slice(1)) : escapeHidden(line)))
    .join("\n");
}

/** Draws the preview that an approver decides by, with hidden characters escaped. */
export function Preview({ text }: { text: string }) {
  return looksLikeDiff(text) ? (
    <Diff text={text} safely={escapeHiddenDiff} />
  ) : (
    <Pre text={text} safely={escapeHidden} />
  );
}

const MAX_ENTRIES = 100;
const MAX_DEPTH = 12;

/** Draws a JSON value, folded below level `open`. */
export function Json({
  value,
  open = 1,
  safely = sanitize,
}: {
  value: unknown;
  open?: number;
  safely?: Safe;
}) {
  return (
    <div class="json">
      <Value value={value} open={open} depth={0} safely={safely} />
    </div>
  );
}

interface Shown {
  open: number;
  depth: number;
  safely: Safe;
}

function Value({ value, open, depth, safely }: Shown & { value: unknown }) {
  if (typeof value === "string") return <Text text={value} safely={safely} />;
  if (typeof value !== "object" || value === null) return <span class="n">{String(value)}</span>;
  if (depth >= MAX_DEPTH) return <Text text={JSON.stringify(value).slice(0, 4_000)} safely={safely} />;
  return <Group value={value} open={open} depth={depth} safely={safely} />;
}

function Text({ text, safely }: { text: string; safely: Safe }) {
  const [all, setAll] = useState(false);
  const long = text.length > 600 && !all;
  return (
    <span class="s">
      {safely(long ? text.slice(0, 600) : text) || '""'}
      {long && (
        <>
          {" "}
          …{" "}
          <button type="button" class="button small" onClick={() => setAll(true)}>
            {t("app.all")}
          </button>
        </>
      )}
    </span>
  );
}

function Group({ value, open, depth, safely }: Shown & { value: object }) {
  const [limit, setLimit] = useState(MAX_ENTRIES);
  const [shown, setShown] = useState(open > depth);
  const entries = Object.entries(value) as [string, unknown][];
  const brackets = Array.isArray(value) ? "[]" : "{}";
  if (entries.length === 0) return <span class="n">{brackets}</span>;
  return (
    <details open={shown} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary class="quiet">
        {brackets[0]}
        {entries.length}
        {brackets[1]}
      </summary>
      {shown && (
        <div>
          {entries.slice(0, limit).map(([key, entry]) => (
            <div>
              <span class="k">{safely(key)}</span>:{" "}
              <Value value={entry} open={open} depth={depth + 1} safely={safely} />
            </div>
          ))}
          {entries.length > limit && (
            <button type="button" class="button small" onClick={() => setLimit(limit * 5)}>
              {t("app.more")} ({entries.length - limit})
            </button>
          )}
        </div>
      )}
    </details>
  );
}
