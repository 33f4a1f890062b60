// `marked` with limits: the time it spends on untrusted text is at most linear in the length of the text.
import { Lexer, Tokenizer, type Token, type Tokens } from "marked";

/** Nesting limit for quotes and lists; deeper ones become paragraphs. */
const MAX_NESTED = 12;
/**
 * The parser scans from each mark to the end of its paragraph, so the cost of a paragraph is the product of
 * both. This limit is a few milliseconds; a paragraph above it is shown as plain text.
 */
export const MAX_COST = 2_000_000;
/** The limit for all paragraphs of one text together. */
export const MAX_TOTAL = 24_000_000;

const MARKS: ReadonlySet<number> = new Set(Array.from("*_~`[]!<(\\@:", (mark) => mark.charCodeAt(0)));

/** Estimates what the parser would spend on the inline content of a paragraph, in one pass. */
export function cost(text: string): number {
  let marks = 0;
  for (let at = 0; at < text.length; at++) if (MARKS.has(text.charCodeAt(at))) marks++;
  return marks * text.length;
}

class Bounded extends Tokenizer {
  private nested = 0;

  override blockquote(source: string): Tokens.Blockquote | undefined {
    return this.within(() => super.blockquote(source));
  }

  override list(source: string): Tokens.List | undefined {
    return this.within(() => super.list(source));
  }

  private within<T>(work: () => T): T | undefined {
    if (this.nested >= MAX_NESTED) return undefined;
    this.nested++;
    try {
      return work();
    } finally {
      this.nested--;
    }
  }
}

class BoundedLexer extends Lexer {
  private spent = 0;

  override inlineTokens(source: string, tokens: Token[] = []): Token[] {
    const price = cost(source);
    if (price > MAX_COST || this.spent + price > MAX_TOTAL) {
      tokens.push({ type: "text", raw: source, text: source, escaped: false });
      return tokens;
    }
    this.spent += price;
    return super.inlineTokens(source, tokens);
  }
}

export function lex(text: string): Token[] {
  return new BoundedLexer({ gfm: true, breaks: false, tokenizer: new Bounded() }).lex(text);
}
