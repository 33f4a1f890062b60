// Which language, and a text in it.
import { signal } from "@preact/signals";
import { en, type Key } from "./en";
import { zh } from "./zh";
import { line } from "../markdown/clean";

export type { Key };
export type Lang = "en" | "zh";

const KEPT = "sortie.lang";
const chosen = localStorage.getItem(KEPT);

/** A choice made here holds; else what the browser prefers, until the server says what it knows. */
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

/** What the server is set to: it speaks Chinese to those who set it so, unless they chose otherwise here. */
export function suggest(to: Lang): void {
  if (!localStorage.getItem(KEPT) && to === "zh") lang.value = to;
}

/** Values may be words of others, and are made safe to look at. */
export function t(key: Key, values?: Record<string, string | number>): string {
  const text: string = (lang.value === "zh" ? zh : en)[key];
  return values
    ? text.replace(/\{(\w+)\}/g, (whole, name: string) => line(String(values[name] ?? whole)))
    : text;
}

/** A text for a word of the API; a word this page does not know is shown itself. */
export function word(family: string, value: string): string {
  const key = `${family}.${value}`;
  return key in en ? t(key as Key) : line(value);
}
