// Renders Markdown of agents to vnodes: `marked` yields tokens, the renderer is our own, no HTML is produced.
import type { Token, Tokens } from "marked";
import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { t } from "../i18n";
import { lex } from "./bounded";
import { sanitize, link } from "./sanitize";
import { entities } from "./entities";
import { Pre } from "../ui/code";

/** Characters that are parsed and drawn at first; the user can load more. */
const FIRST = 24_000;
const STEP = 96_000;
/** Nesting limit of tokens; deeper content is shown as text. */
const MAX_DEPTH = 24;
const MAX_ROWS = 200;

export function Markdown({ text }: { text: string }) {
  const [limit, setLimit] = useState(FIRST);
  const part = text.length > limit ? cutAtLine(text, limit) : text;
  const body = useMemo(() => render(part), [part]);
  return (
    <div class="md">
      {body}
      {part.length < text.length && (
        <p>
          <button type="button" class="button small" onClick={() => setLimit(limit + STEP)}>
            {t("app.more")}
          </button>{" "}
          <span class="quiet small">{t("app.cut", { count: text.length - part.length })}</span>
        </p>
      )}
    </div>
  );
}

/** Truncates at the end of a line if one is near, and never inside a character. */
function cutAtLine(text: string, limit: number): string {
  const end = text.lastIndexOf("\n", limit);
  if (end > limit / 2) return text.slice(0, end);
  const code = text.charCodeAt(limit - 1);
  return text.slice(0, code >= 0xd800 && code <= 0xdbff ? limit - 1 : limit);
}

export function render(text: string): ComponentChildren {
  const safe = sanitize(text);
  try {
    return blocks(ordered(lex(safe)), 0);
  } catch {
    // If the parser fails, the text is shown as it is.
    return <Pre text={safe} />;
  }
}

/** Renumbers headings: they begin below the heading of the page and never skip a level. */
function ordered(tokens: Token[]): Token[] {
  let before = 1;
  return tokens.map((token) => {
    if (token.type !== "heading") return token;
    before = Math.max(2, Math.min(before + 1, (token as Tokens.Heading).depth + 1, 4));
    return { ...token, depth: before };
  });
}

function blocks(tokens: readonly Token[], depth: number): ComponentChildren {
  return tokens.map((token) => block(token, depth));
}

function block(token: Token, depth: number): ComponentChildren {
  if (depth > MAX_DEPTH) return token.raw;
  switch (token.type) {
    case "space":
      return null;
    // Leaving out definitions would hide text from the reader.
    case "def":
      return <p class="quiet small">{token.raw.trim()}</p>;
    case "heading":
      return heading(token as Tokens.Heading, depth);
    case "paragraph":
      return <p>{inlines((token as Tokens.Paragraph).tokens, depth + 1)}</p>;
    case "code":
      return <Pre text={(token as Tokens.Code).text} />;
    case "blockquote":
      return <blockquote>{blocks((token as Tokens.Blockquote).tokens, depth + 1)}</blockquote>;
    case "hr":
      return <hr />;
    case "list":
      return <List list={token as Tokens.List} depth={depth} />;
    case "table":
      return <Table table={token as Tokens.Table} depth={depth} />;
    case "text": {
      const { tokens } = token as Tokens.Text;
      return tokens ? inlines(tokens, depth + 1) : entities((token as Tokens.Text).text);
    }
    // HTML is shown as text.
    case "html":
      return <p class="mono">{token.raw.trim()}</p>;
    default:
      return inline(token, depth);
  }
}

function heading(token: Tokens.Heading, depth: number): JSX.Element {
  const content = inlines(token.tokens, depth + 1);
  // A heading inside a list or quote is not part of the outline.
  if (depth > 0)
    return (
      <p>
        <strong>{content}</strong>
      </p>
    );
  if (token.depth <= 2) return <h2>{content}</h2>;
  return token.depth === 3 ? <h3>{content}</h3> : <h4>{content}</h4>;
}

function List({ list, depth }: { list: Tokens.List; depth: number }) {
  const [rows, setRows] = useState(MAX_ROWS);
  const items = list.items.slice(0, rows).map((item) => (
    <li>
      {item.task && (
        <span aria-label={item.checked ? t("app.yes") : t("app.no")}>{item.checked ? "☑ " : "☐ "}</span>
      )}
      {blocks(
        item.tokens.filter((token) => token.type !== "checkbox"),
        depth + 1,
      )}
    </li>
  ));
  const start = typeof list.start === "number" ? list.start : 1;
  return (
    <>
      {list.ordered ? <ol start={start}>{items}</ol> : <ul>{items}</ul>}
      {list.items.length > rows && (
        <More left={list.items.length - rows} onMore={() => setRows(rows + MAX_ROWS)} />
      )}
    </>
  );
}

const MAX_COLUMNS = 40;

/** Returns the class for the alignment of a column. */
function alignment({ align }: Tokens.TableCell): string | undefined {
  return align === "right" || align === "center" ? align : undefined;
}

function Table({ table, depth }: { table: Tokens.Table; depth: number }) {
  const [rows, setRows] = useState(MAX_ROWS);
  const cell = (at: Tokens.TableCell) => inlines(at.tokens, depth + 1);
  return (
    <>
      <div class="table">
        <table>
          <thead>
            <tr>
              {table.header.slice(0, MAX_COLUMNS).map((at) => (
                <th scope="col" class={alignment(at)}>
                  {cell(at)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {table.rows.slice(0, rows).map((row) => (
              <tr>
                {row.slice(0, MAX_COLUMNS).map((at) => (
                  <td class={alignment(at)}>{cell(at)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {table.header.length > MAX_COLUMNS && (
        <p class="quiet small">{t("md.columns", { count: table.header.length - MAX_COLUMNS })}</p>
      )}
      {table.rows.length > rows && (
        <More left={table.rows.length - rows} onMore={() => setRows(rows + MAX_ROWS)} />
      )}
    </>
  );
}

function More({ left, onMore }: { left: number; onMore: () => void }) {
  return (
    <p>
      <button type="button" class="button small" onClick={onMore}>
        {t("app.more")} ({left})
      </button>
    </p>
  );
}

function inlines(tokens: readonly Token[] | undefined, depth: number): ComponentChildren {
  return (tokens ?? []).map((token) => inline(token, depth));
}

function inline(token: Token, depth: number): ComponentChildren {
  if (depth > MAX_DEPTH) return token.raw;
  const inner = "tokens" in token && token.tokens ? token.tokens : undefined;
  switch (token.type) {
    case "strong":
      return <strong>{inlines(inner, depth + 1)}</strong>;
    case "em":
      return <em>{inlines(inner, depth + 1)}</em>;
    case "del":
      return <del>{inlines(inner, depth + 1)}</del>;
    case "codespan":
      return <code>{(token as Tokens.Codespan).text}</code>;
    case "br":
      return <br />;
    case "escape":
      return (token as Tokens.Escape).text;
    case "link":
      return (
        <Link address={entities((token as Tokens.Link).href)} text={(token as Tokens.Link).text}>
          {inlines(inner, depth + 1)}
        </Link>
      );
    case "image":
      return (
        <Link
          address={entities((token as Tokens.Image).href)}
          text={(token as Tokens.Image).text}
        >{`${t("md.image")}: ${entities((token as Tokens.Image).text) || "–"}`}</Link>
      );
    case "text":
      return inner ? inlines(inner, depth + 1) : entities((token as Tokens.Text).text);
    default:
      return token.raw;
  }
}

/** Draws a link with its host. Targets other than web and mail stay text, with their address. */
function Link({ address, text, children }: { address: string; text: string; children: ComponentChildren }) {
  const target = link(address);
  if (!target)
    return (
      <span title={t("md.link.bad")}>
        {children} <span class="host">({address.slice(0, 200)})</span>
      </span>
    );
  const named = text === address || text === target.href;
  return (
    <>
      <a href={target.href} target="_blank" rel="noopener noreferrer nofollow">
        {children}
      </a>
      {!named && <span class="host"> ({target.host})</span>}
    </>
  );
}
