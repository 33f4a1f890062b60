// Formats numbers and times. An unknown value is a dash, never zero.
import { lang, t } from "./i18n";

export const DASH = "–";

export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return DASH;
  if (value < 1_000) return String(value);
  if (value < 999_500) return `${trim(value / 1_000)}k`;
  return `${trim(value / 1_000_000)}M`;
}

function trim(value: number): string {
  return value < 9.95 ? value.toFixed(1).replace(/\.0$/, "") : String(Math.round(value));
}

export function money(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return DASH;
  if (usd === 0) return "$0";
  if (usd < 0.01) return `$${usd.toPrecision(2).replace(/0+$/, "")}`.replace(/\.$/, "");
  return `$${usd.toFixed(usd < 100 ? 2 : 0)}`;
}

export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return DASH;
  const past = Math.max(0, ms);
  if (past < 1_000) return `${Math.round(past)} ms`;
  if (past < 10_000) return `${(past / 1_000).toFixed(1)} s`;
  const seconds = Math.round(past / 1_000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${two(seconds % 60)}`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}:${two(minutes % 60)}:${two(seconds % 60)}`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

export function clock(at: string | number | null): string {
  if (at === null) return DASH;
  const date = new Date(at);
  return Number.isNaN(date.getTime())
    ? DASH
    : `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function moment(at: string | null, now = Date.now()): string {
  if (!at) return DASH;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return DASH;
  const sameDay = new Date(now).toDateString() === date.toDateString();
  return sameDay
    ? clock(at)
    : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** Formats a time relative to now in the language of the page: "in 5 min.", "3 hr. ago". */
export function relative(at: string | null, now = Date.now()): string {
  if (!at) return DASH;
  const seconds = (Date.parse(at) - now) / 1_000;
  if (!Number.isFinite(seconds)) return DASH;
  const format = new Intl.RelativeTimeFormat(lang.value, { numeric: "auto", style: "short" });
  const size = Math.abs(seconds);
  if (size < 90) return format.format(Math.round(seconds), "second");
  if (size < 5_400) return format.format(Math.round(seconds / 60), "minute");
  if (size < 129_600) return format.format(Math.round(seconds / 3_600), "hour");
  return format.format(Math.round(seconds / 86_400), "day");
}

/** Formats the time since a moment in minutes, hours or days; the date after a month. */
export function age(at: string | null, now = Date.now()): string {
  if (!at) return DASH;
  const seconds = (now - Date.parse(at)) / 1_000;
  if (!Number.isFinite(seconds)) return DASH;
  if (seconds < 60) return t("age.now");
  if (seconds > 30 * 86_400) return moment(at, now).slice(0, 10);
  const format = new Intl.RelativeTimeFormat(lang.value, { style: "short" });
  if (seconds < 5_400) return format.format(-Math.round(seconds / 60), "minute");
  if (seconds < 129_600) return format.format(-Math.round(seconds / 3_600), "hour");
  return format.format(-Math.round(seconds / 86_400), "day");
}

/** Truncates by characters, never inside one. */
export function cut(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const parts = Array.from(text.slice(0, characters * 2));
  return parts.length <= characters && text.length <= characters * 2
    ? text
    : `${parts.slice(0, characters).join("")}…`;
}

export function shortId(id: string): string {
  return id.slice(0, 13);
}

/** Returns the run time of a task so far, or in total once it has ended. */
export function elapsed(
  task: { started_at: string | null; completed_at: string | null },
  now: number,
): number | null {
  if (!task.started_at) return null;
  const until = task.completed_at ? Date.parse(task.completed_at) : now;
  return until - Date.parse(task.started_at);
}

/** Returns input plus output tokens, or null if both are unknown. */
export function tokens(usage: { input_tokens: number | null; output_tokens: number | null }): number | null {
  if (usage.input_tokens === null && usage.output_tokens === null) return null;
  return (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
}

/** Formats an amount of a budget. Balances in `usd` count millionths of a dollar. */
export function amount(kind: string, value: number): string {
  return kind === "usd" ? money(value / 1_000_000) : count(value);
}
