// What components share: loading, following, drafts and keys.
import { effect, signal } from "@preact/signals";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { isTransient, Problem } from "../api/client";
import { cut } from "../format";
import { store } from "../live";
import { backOff } from "../live/connection";
import type { LiveEvent } from "../api/types";
import { sanitizeLine } from "../markdown/sanitize";

export interface Loaded<T> {
  data: T | undefined;
  problem: Problem | undefined;
  reload: () => void;
}

/** Many events make one request: after the first, this long is waited for others. */
const DEBOUNCE_MS = 350;

/** Nobody is asked again sooner than this after "too many requests". */
const MIN_RETRY_MS = 2_000;

/** What is shown although asking for it again failed, by what it is: the page says so and goes on trying. */
export const stale = signal<ReadonlyMap<string, Problem>>(new Map());

function mark(key: string, problem: Problem | null): void {
  if (!problem && !stale.peek().has(key)) return;
  const next = new Map(stale.peek());
  if (problem) next.set(key, problem);
  else next.delete(key);
  stale.value = next;
}

export interface LoadState<T> {
  key: string | null;
  data?: T;
  problem?: Problem;
}

/** What is shown after a failure: what was shown before, if the trouble may pass. Pure. */
export function afterFailure<T>(old: LoadState<T>, key: string, problem: Problem): LoadState<T> {
  return old.key === key && old.data !== undefined && isTransient(problem) ? old : { key, problem };
}

/**
 * Loads something, and loads it again when the server lived anew, when events were missed, and
 * after each event that `follow` wants. What was shown stays until its successor is there; trouble
 * that may pass is tried again, less and less often.
 */
export function useLoad<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  follow?: (event: LiveEvent) => boolean,
): Loaded<T> {
  const [state, setState] = useState<LoadState<T>>({ key: null });
  const held = useRef(state);
  held.current = state;
  const latest = useRef({ load, follow, tries: 0 });
  latest.current.load = load;
  latest.current.follow = follow;
  const [turn, setTurn] = useState(0);

  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    let again: ReturnType<typeof setTimeout> | undefined;
    latest.current.load(abort.signal).then(
      (data) => {
        if (abort.signal.aborted) return;
        latest.current.tries = 0;
        mark(key, null);
        setState({ key, data });
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        const problem = error instanceof Problem ? error : new Problem(0, "unreachable", String(error));
        const passing = isTransient(problem);
        const next = afterFailure(held.current, key, problem);
        mark(key, next.data !== undefined ? problem : null);
        setState(next);
        if (passing)
          again = setTimeout(
            () => setTurn((turn) => turn + 1),
            Math.max(MIN_RETRY_MS, backOff(latest.current.tries++)),
          );
      },
    );
    return () => (abort.abort(), clearTimeout(again));
  }, [key, turn]);
  useEffect(() => () => void (key !== null && mark(key, null)), [key]);

  useEffect(() => {
    if (key === null) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let healed = store.resync.peek();
    const soon = () =>
      (timer ??= setTimeout(() => ((timer = undefined), setTurn((turn) => turn + 1)), DEBOUNCE_MS));
    const stop = effect(() => {
      const event = store.event.value;
      const heal = store.resync.value;
      if (heal !== healed) {
        healed = heal;
        soon();
      } else if (event && latest.current.follow?.(event)) soon();
    });
    return () => (stop(), clearTimeout(timer));
  }, [key]);

  const fresh = state.key === key;
  return {
    data: fresh ? state.data : undefined,
    problem: fresh ? state.problem : undefined,
    reload: useCallback(() => setTurn((turn) => turn + 1), []),
  };
}

/** Keeps the end of the page in sight while something is added, if the reader was there. */
export function useEnd(inner: { current: HTMLElement | null }, on: boolean): void {
  useEffect(() => {
    const area = inner.current?.closest("main");
    if (!on || !area || !inner.current) return;
    // More may have come before the event of a scroll: the end is where it was when it was last seen.
    let height = area.scrollHeight;
    const atEnd = () => height - area.scrollTop - area.clientHeight < 60;
    let stick = atEnd();
    const scrolled = () => void (stick = atEnd());
    const observer = new ResizeObserver(() => {
      height = area.scrollHeight;
      if (stick) area.scrollTop = height;
    });
    observer.observe(inner.current);
    area.addEventListener("scroll", scrolled, { passive: true });
    return () => (observer.disconnect(), area.removeEventListener("scroll", scrolled));
  }, [on, inner]);
}

/** What the window is called, besides how many wait for a person. */
export const title = signal("");
const MAX_TITLE = 80;

export function useTitle(text: string): void {
  useEffect(() => {
    title.value = cut(sanitizeLine(text), MAX_TITLE);
  }, [text]);
}

/** A text that survives a reload, until it is sent. */
export function useDraft(key: string): [string, (text: string) => void] {
  const name = `sortie.draft.${key}`;
  const [drafts, setDrafts] = useState<Record<string, string>>({});
  const text = drafts[name] ?? sessionStorage.getItem(name) ?? "";
  const write = (to: string) => {
    if (to) sessionStorage.setItem(name, to.slice(0, 100_000));
    else sessionStorage.removeItem(name);
    setDrafts((old) => ({ ...old, [name]: to }));
  };
  return [text, write];
}

type Keys = Record<string, (event: KeyboardEvent) => void>;
const keymaps: { current: Keys }[] = [];
let prefix: { key: string; at: number } | null = null;
/** Two keys of one command are handleKey within this time. */
const PREFIX_MS = 1_200;

/** Keys of a page, as `j` or `g t`. Later ones win; nothing is taken from who types. */
export function useKeys(keys: Keys): void {
  const held = useRef(keys);
  held.current = keys;
  useEffect(() => {
    keymaps.push(held);
    return () => void keymaps.splice(keymaps.indexOf(held), 1);
  }, []);
}

export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

export function handleKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector("dialog[open]")) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") (event.target as HTMLElement).blur();
    return;
  }
  const late = !prefix || Date.now() - prefix.at > PREFIX_MS;
  const names = late ? [event.key] : [`${prefix!.key} ${event.key}`, event.key];
  prefix = null;
  for (const name of names) {
    for (const keymap of keymaps.toReversed()) {
      const act = keymap.current[name];
      if (!act) continue;
      // A button or link that has the focus takes Enter and Space itself.
      if (
        (event.key === "Enter" || event.key === " ") &&
        event.target instanceof Element &&
        event.target.closest("a,button,summary,[role=tab]")
      )
        return;
      event.preventDefault();
      act(event);
      return;
    }
  }
  if (event.key === "g") prefix = { key: "g", at: Date.now() };
}
