// Sanitizes untrusted text for display: nothing in it may hide, reorder or restyle what the user reads.
import { DRAWN, HIDDEN, JOINING, PICTOGRAPHS, SPACES, TAG_FLAGS } from "./hidden";

/** Escape sequences of terminals (colours, cursor moves): CSI, OSC and the short forms. */
const ANSI =
  /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]{0,2000}(?:\u0007|\u001b\\)|[PX^_][^\u001b]{0,2000}\u001b\\|[ -/]*[0-~])|\u009b[0-?]*[ -/]*[@-~]/g;

type Ranges = readonly (readonly [number, number])[];

function set(...all: Ranges[]): string {
  return all
    .flat()
    .map(([first, last]) => `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`)
    .join("");
}

/** A backslash before `u{` is escaped too, so that typed text cannot look like an escaped hidden character. */
const EXACT = new RegExp(`[${set(HIDDEN, SPACES)}]|\\\\(?=u\\{)`, "gu");
/** Hidden characters in prose. Line feeds and tabs are part of the layout. */
const IN_PROSE = new RegExp(`(?![\\n\\t])[${set(HIDDEN)}]`, "u");

function within(ranges: Ranges, character: string | undefined): boolean {
  const code = character?.codePointAt(0);
  return code !== undefined && ranges.some(([first, last]) => first <= code && code <= last);
}

function written(character: string): string {
  return `\\u{${character.codePointAt(0)!.toString(16)}}`;
}

/**
 * Escapes every hidden character and unusual space, for text that an approver decides by (commands, paths,
 * names). Two different texts never look alike.
 */
export function escapeHidden(text: string): string {
  return text.replace(EXACT, (character, at: number) => {
    if (character === "\n") return character;
    if (character === "\t" && /(?:^|\n)[ \t]*$/.test(text.slice(text.lastIndexOf("\n", at) + 1, at)))
      return character;
    return written(character);
  });
}

/** Like `escapeHidden`, on one line: line feeds and tabs are escaped too. */
export function escapeHiddenLine(text: string): string {
  return text.replace(EXACT, written);
}

/**
 * Sanitizes prose: removes escape sequences of terminals, and escapes hidden characters except those that
 * emoji and joining scripts are spelled with.
 */
export function sanitize(text: string): string {
  const plain = text.replace(/\r\n?/g, "\n").replace(ANSI, "");
  if (!IN_PROSE.test(plain)) return plain;
  const characters = [...plain];
  let out = "";
  let earlier: string | undefined;
  let before: string | undefined;
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at]!;
    const flag =
      character === "\u{1f3f4}" && TAG_FLAGS.find((flag) => characters.slice(at, at + 7).join("") === flag);
    if (flag) {
      out += flag;
      at += 6;
      earlier = before = undefined;
      continue;
    }
    if (
      !IN_PROSE.test(character) ||
      within(DRAWN, character) ||
      spells(earlier, before, character, characters[at + 1])
    ) {
      out += character;
      [earlier, before] = [before, character];
    } else {
      out += written(character);
    }
  }
  return out;
}

/** Returns whether an invisible character belongs to the spelling of its neighbours. */
function spells(
  earlier: string | undefined,
  before: string | undefined,
  character: string,
  after: string | undefined,
): boolean {
  const letter = (one: string | undefined) => within(JOINING, one) && !within(HIDDEN, one);
  switch (character) {
    case "\ufe0e":
    case "\ufe0f":
      return within(PICTOGRAPHS, before) || (/^[0-9#*]$/.test(before ?? "") && after === "\u20e3");
    case "\u200d":
      if (
        (within(PICTOGRAPHS, before) || (before === "\ufe0f" && within(PICTOGRAPHS, earlier))) &&
        within(PICTOGRAPHS, after)
      )
        return true;
      return letter(before) && letter(after);
    case "\u200c":
      return letter(before) && letter(after);
    default:
      return false;
  }
}

/** Sanitizes a label to one line: after a line break, the rest would be hidden. */
export function sanitizeLine(text: string): string {
  if (!/[\n\r]/.test(text)) return sanitize(text);
  const parts = text.split(/[\n\r]/).map((part) => part.trim());
  return sanitize(parts.filter((part, at) => part || at === 0).join(" ⏎ "));
}

const SCHEMES: ReadonlySet<string> = new Set(["http:", "https:", "mailto:"]);

/** Returns the target of a safe link and the host to show beside it, or null. */
export function link(address: string): { href: string; host: string } | null {
  // Relative addresses would be links into this page that a model chose.
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return null;
  try {
    const url = new URL(address);
    if (!SCHEMES.has(url.protocol) || url.username || url.password) return null;
    return { href: url.href, host: url.protocol === "mailto:" ? url.pathname : url.host };
  } catch {
    return null;
  }
}
