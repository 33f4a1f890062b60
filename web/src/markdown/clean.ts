// Text of others, made safe to look at: nothing in it may hide, reorder or restyle what a person reads.

/** Colours and cursor moves of terminals: CSI, OSC and the short forms. */
const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]{0,2000}(?:\u0007|\u001b\\)|[PX^_][^\u001b]{0,2000}\u001b\\|[ -/]*[0-~])|\u009b[0-?]*[ -/]*[@-~]/g;
/** Marks that turn the direction of a line, and characters that show nothing but can carry words. */
const HIDDEN = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u200b\u2060-\u2064\ufeff\u00ad\u180e\u{e0000}-\u{e007f}]/gu;
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]/g;

/** Removes sequences of terminals; shows other control and hidden characters by name. */
export function clean(text: string): string {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(ANSI, "")
    .replace(CONTROL, shown)
    .replace(HIDDEN, (character) => `⟨U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** Pictures of control characters have a block of their own. */
function shown(character: string): string {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "␡";
  return "�";
}

/** One line: for labels, where a line break would hide what follows. */
export function line(text: string): string {
  if (!/[\n\r]/.test(text)) return clean(text);
  const parts = text.split(/[\n\r]/).map((part) => part.trim());
  return clean(parts.filter((part, at) => part || at === 0).join(" ⏎ "));
}

const SCHEMES: ReadonlySet<string> = new Set(["http:", "https:", "mailto:"]);

/** An address that may be a link, with what a person should see of it; otherwise nothing. */
export function link(address: string): { href: string; host: string } | null {
  // Relative ones would be links into this page, chosen by a model.
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return null;
  try {
    const url = new URL(address);
    if (!SCHEMES.has(url.protocol) || url.username || url.password) return null;
    return { href: url.href, host: url.protocol === "mailto:" ? url.pathname : url.host };
  } catch {
    return null;
  }
}
