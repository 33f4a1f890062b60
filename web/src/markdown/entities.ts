// Decodes HTML entities in text, as a browser would. No other HTML is interpreted.
import { sanitize } from "./sanitize";

const NAMED: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  copy: "©",
  reg: "®",
  trade: "™",
  hellip: "…",
  mdash: "—",
  ndash: "–",
  lsquo: "‘",
  rsquo: "’",
  ldquo: "“",
  rdquo: "”",
  larr: "←",
  rarr: "→",
  uarr: "↑",
  darr: "↓",
  times: "×",
  divide: "÷",
  plusmn: "±",
  middot: "·",
  bull: "•",
  deg: "°",
  micro: "µ",
  para: "¶",
  sect: "§",
  euro: "€",
  le: "≤",
  ge: "≥",
  ne: "≠",
  laquo: "«",
  raquo: "»",
  check: "✓",
};

/** Decodes entities. The result is untrusted: hidden characters are escaped. */
export function entities(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(
    /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/g,
    (whole, decimal?: string, hex?: string, name?: string) => {
      if (name !== undefined) return Object.hasOwn(NAMED, name) ? NAMED[name]! : whole;
      const code = decimal !== undefined ? Number(decimal) : parseInt(hex!, 16);
      // Not a character, or one half of a surrogate pair.
      if (code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return "�";
      return sanitize(String.fromCodePoint(code));
    },
  );
}
