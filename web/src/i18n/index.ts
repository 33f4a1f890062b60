// The language of the page, and its texts.
import { signal } from "@preact/signals";
import { en, type Key, type Text } from "./en";
import { zh } from "./zh";
import { sanitizeLine } from "../markdown/sanitize";

export type { Key };
export type Lang = "en" | "zh";

const KEPT = "sortie.lang";
const chosen = localStorage.getItem(KEPT);

/** The choice of the user; without one, the language of the browser, until the server reports its own. */
export const lang = signal<Lang>(
  chosen === "en" || chosen === "zh"
    ? chosen
    : navigator.language.toLowerCase().startsWith("zh")
      ? "zh"
      : "en",
);

export function choose(to: Lang): void {
  localStorage.setItem(KEPT, to);
  lang.value = to;
}

/** Follows the language of the server, unless the user has chosen one here. */
export function suggest(to: Lang): void {
  if (!localStorage.getItem(KEPT) && to === "zh") lang.value = to;
}

const PLURALS: Record<Lang, Intl.PluralRules> = {
  en: new Intl.PluralRules("en"),
  zh: new Intl.PluralRules("zh"),
};

/** Returns a text with its gaps filled. Values may come from agents, so they are sanitized. */
export function t(key: Key, values?: Record<string, string | number>): string {
  const texts: Record<Key, Text> = lang.value === "zh" ? zh : en;
  const text = texts[key];
  const form =
    typeof text === "string" ? text : (text[PLURALS[lang.value].select(Number(values?.count))] ?? text.other);
  return values
    ? form.replace(/\{(\w+)\}/g, (whole, name: string) => sanitizeLine(String(values[name] ?? whole)))
    : form;
}

/** Returns the text for a value of the API, or the value itself if the page does not know it. */
export function word(family: string, value: string): string {
  const key = `${family}.${value}`;
  return key in en ? t(key as Key) : sanitizeLine(value);
}
