// Computes where each span of a timeline is drawn. Pure; the number of bars is bounded by the width in pixels.
import type { SpanKind, Timeline, TimelineTask } from "../api/types";

export interface View {
  from: number;
  until: number;
}
export interface Bar {
  x: number;
  width: number;
  kind: SpanKind;
  critical: boolean;
  index: number;
}
export interface Tick {
  x: number;
  text: string;
}
/** A task with times as numbers, and its spans sorted by start. */
export interface Track {
  id: string;
  parent: string | null;
  label: string;
  agent: string;
  status: string;
  depth: number;
  spans: { from: number; until: number; kind: SpanKind; name: string; critical: boolean }[];
}

export const KINDS: readonly SpanKind[] = [
  "slot",
  "model",
  "rate_limit",
  "tool",
  "approval",
  "question",
  "children",
  "paused",
  "other",
];
/** The shortest period that can be shown. */
export const SHORTEST_MS = 20;
/** Bars thinner than this, in pixels, are joined with their neighbours. */
const THIN = 1.5;

export function tracks(timeline: Timeline): Track[] {
  const list = timeline.tasks.map(track);
  const byParent = new Map<string, Track[]>();
  const ids = new Set(list.map((at) => at.id));
  for (const at of list) {
    const parent = at.parent !== null && ids.has(at.parent) ? at.parent : "";
    byParent.set(parent, [...(byParent.get(parent) ?? []), at]);
  }
  // Depth first, children below their parent; ids sort by time of creation.
  const ordered: Track[] = [];
  const waiting = (byParent.get("") ?? []).sort(byId).reverse();
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    ordered.push(next);
    waiting.push(...(byParent.get(next.id) ?? []).sort(byId).reverse());
  }
  return ordered;
}

function byId(a: Track, b: Track): number {
  return a.id < b.id ? -1 : 1;
}

function track(task: TimelineTask): Track {
  const spans = task.spans
    .map((span) => ({
      from: Date.parse(span.from),
      until: Date.parse(span.until),
      kind: known(span.kind),
      name: span.name ?? "",
      critical: span.critical,
    }))
    .filter((span) => Number.isFinite(span.from) && span.until >= span.from)
    .sort((a, b) => a.from - b.from);
  return {
    id: task.task_id,
    parent: task.parent_id,
    label: task.label,
    agent: task.agent,
    status: task.status,
    depth: task.depth,
    spans,
  };
}

function known(kind: string): SpanKind {
  return (KINDS as readonly string[]).includes(kind) ? (kind as SpanKind) : "other";
}

/** Returns the period of the whole timeline; never empty, so that division by its length is safe. */
export function whole(timeline: Timeline): View {
  const from = Date.parse(timeline.from);
  const until = Date.parse(timeline.until);
  return { from, until: Math.max(until, from + SHORTEST_MS) };
}

/** Returns the visible bars of one track. Neighbours too thin to see are joined and take the longest kind. */
export function bars(track: Track, view: View, width: number): Bar[] {
  const scale = width / (view.until - view.from);
  const list: Bar[] = [];
  let longest = 0;
  for (let index = 0; index < track.spans.length; index++) {
    const span = track.spans[index]!;
    if (span.until < view.from || span.from > view.until) continue;
    const x = Math.max(0, (span.from - view.from) * scale);
    const end = Math.min(width, (span.until - view.from) * scale);
    const last = list.at(-1);
    if (last && end - x < THIN && x - (last.x + last.width) < THIN && last.width < THIN * 2) {
      last.width = Math.max(last.width, end - last.x);
      last.critical ||= span.critical;
      if (span.until - span.from > longest) {
        last.kind = span.kind;
        last.index = index;
        longest = span.until - span.from;
      }
      continue;
    }
    longest = span.until - span.from;
    list.push({ x, width: Math.max(THIN, end - x), kind: span.kind, critical: span.critical, index });
  }
  return list;
}

/** Zooms by a factor around a relative position in the view, and stays within the timeline. */
export function zoom(view: View, all: View, factor: number, at = 0.5): View {
  const length = Math.min(all.until - all.from, Math.max(SHORTEST_MS, (view.until - view.from) * factor));
  const middle = view.from + (view.until - view.from) * at;
  return within({ from: middle - length * at, until: middle + length * (1 - at) }, all);
}

export function pan(view: View, all: View, share: number): View {
  const by = (view.until - view.from) * share;
  return within({ from: view.from + by, until: view.until + by }, all);
}

function within(view: View, all: View): View {
  const length = view.until - view.from;
  const from = Math.max(all.from, Math.min(view.from, all.until - length));
  return { from, until: from + length };
}

const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000,
  600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
];
const TICK_PX = 90;

/** Returns the marks of the axis, relative to the start of the tree. */
export function ticks(view: View, start: number, width: number): Tick[] {
  const length = view.until - view.from;
  const wanted = length / Math.max(1, width / TICK_PX);
  const step = STEPS.find((step) => step >= wanted) ?? Math.ceil(wanted / 86_400_000) * 86_400_000;
  const list: Tick[] = [];
  for (let at = Math.ceil((view.from - start) / step) * step; at <= view.until - start; at += step) {
    list.push({ x: ((at + start - view.from) / length) * width, text: tickText(at, step) });
  }
  return list;
}

function tickText(ms: number, step: number): string {
  if (ms === 0) return "0";
  if (step < 1_000) return `${(ms / 1_000).toFixed(step < 10 ? 3 : step < 100 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 120 && step < 60_000) return `${seconds} s`;
  const hours = Math.floor(seconds / 3_600);
  const minutes = Math.floor((seconds % 3_600) / 60);
  const rest = seconds % 60;
  const two = (value: number) => String(value).padStart(2, "0");
  return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** Returns the time a track spent on each kind, longest first. */
export function shares(track: Track): [SpanKind, number][] {
  const sums = new Map<SpanKind, number>();
  for (const span of track.spans) sums.set(span.kind, (sums.get(span.kind) ?? 0) + span.until - span.from);
  return [...sums].sort((a, b) => b[1] - a[1]);
}
