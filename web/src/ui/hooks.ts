// Hooks for loading data, following events, drafts, titles and keyboard shortcuts.
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

/** Delay before a reload, so that a burst of events causes one request. */
const DEBOUNCE_MS = 350;

/** Minimum delay before a retry, also after a rate limit. */
const MIN_RETRY_MS = 2_000;

/** Data that is shown although its reload failed, by key. The page shows a notice and retries. */
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

/** Returns the state after a failed load: the old data stays if a retry may succeed. Pure. */
export function afterFailure<T>(old: LoadState<T>, key: string, problem: Problem): LoadState<T> {
  return old.key === key && old.data !== undefined && isTransient(problem) ? old : { key, problem };
}

/**
 * Loads data, and reloads it when the server restarted, when events were missed, and after each event that
 * `follow` accepts. The old data stays visible until the new data arrives. Transient failures are retried with
 * growing delays.
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

/** Keeps the page scrolled to its end while content is added, if the user was there. */
export function useEnd(inner: { current: HTMLElement | null }, on: boolean): void {
  useEffect(() => {
    const area = inner.current?.closest("main");
    if (!on || !area || !inner.current) return;
    // Content may be added before the scroll event arrives, so the end is measured at the last resize.
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

/** The title of the window, without the number of open requests. */
export const title = signal("");
const MAX_TITLE = 80;

export function useTitle(text: string): void {
  useEffect(() => {
    title.value = cut(sanitizeLine(text), MAX_TITLE);
  }, [text]);
}

/** A draft that survives a reload of the page until it is sent. */
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
/** The second key of a two-key shortcut must follow within this time. */
const PREFIX_MS = 1_200;

/** Registers shortcuts such as `j` or `g t`. Later registrations win; keys typed into a field are ignored. */
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
      // A focused button or link handles Enter and Space itself.
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
