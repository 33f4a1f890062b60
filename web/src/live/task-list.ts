// The state of the task list: filter, folded rows, selection, and how much of the list is loaded. The
// application owns one, so that a user who opens a task and comes back finds the list as it was.
import { computed, effect, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { getPage, isTransient, Problem } from "../api/client";
import type { TaskQuery } from "../api/types";
import { backOff } from "./connection";
import { flatten, isFiltered, NO_FILTER, type Filter, type Line } from "./flatten";
import type { Tasks } from "./tasks";

/** The first page is small, so that it arrives at once. */
const FIRST_PAGE = 100;
const PAGE = 500;
/** Loaded again after an interruption; older tasks are loaded when the user scrolls to them. */
const REFRESHED = 1_000;
const MIN_RETRY_MS = 2_000;
const STORAGE_KEY = "sortie.tasks";
const MAX_STORED_FOLDS = 500;
/** Sorts after every task id: nothing is loaded yet. */
const AFTER_ALL_IDS = "~";

/** The part of the state that survives a reload of the page. */
interface Stored {
  filter: Filter;
  folded: string[];
  chosen: string | null;
  scroll: number;
}

function restore(): Stored {
  const none: Stored = { filter: NO_FILTER, folded: [], chosen: null, scroll: 0 };
  try {
    const stored = JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "{}") as Partial<Stored>;
    return { ...none, ...stored, filter: { ...NO_FILTER, ...stored.filter } };
  } catch {
    return none;
  }
}

/** How much of the list is loaded for the current filter. */
export interface Extent {
  /** The oldest task id that is loaded. */
  oldest: string;
  /** Where the next page begins. */
  cursor: string | null;
  done: boolean;
  busy: boolean;
  problem: Problem | null;
  /** Tasks that the server found by the text of the filter. */
  matched: ReadonlySet<string>;
}

export class TaskList {
  readonly filter: Signal<Filter>;
  readonly folded: Signal<ReadonlySet<string>>;
  readonly selected: Signal<string | null>;
  readonly extent = signal<Extent>({
    oldest: AFTER_ALL_IDS,
    cursor: null,
    done: false,
    busy: false,
    problem: null,
    matched: new Set(),
  });
  readonly lines: ReadonlySignal<Line[]>;
  /** The scroll position in pixels. Not a signal: nothing is drawn again when it changes. */
  scroll: number;
  private loading: AbortController | null = null;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;

  constructor(private readonly tasks: Tasks) {
    const stored = restore();
    this.filter = signal(stored.filter);
    this.folded = signal(new Set(stored.folded));
    this.selected = signal(stored.chosen);
    this.scroll = stored.scroll;
    this.lines = computed(() => this.flatten());
    effect(() => this.save());
  }

  private flatten(): Line[] {
    const filter = this.filter.value;
    void this.tasks.structure.value;
    // Only filters by status or text depend on records that change; others depend on which tasks exist.
    if (filter.statuses.length > 0 || filter.needsYou || filter.text) void this.tasks.states.value;
    const { done, oldest, matched } = this.extent.value;
    const from = done || isFiltered(filter) ? "" : oldest;
    return flatten(this.tasks, this.folded.value, filter, from, matched);
  }

  private save(): void {
    const state: Stored = {
      filter: this.filter.value,
      folded: [...this.folded.value].slice(-MAX_STORED_FOLDS),
      chosen: this.selected.value,
      scroll: this.scroll,
    };
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(state));
  }

  /** Loads the list from its beginning, as far as it was loaded before. Failures that may pass are retried. */
  refresh(): Promise<void> {
    return this.load(true);
  }

  /** Loads the next page, unless a page is being loaded or the list is complete. */
  async loadMore(): Promise<void> {
    const { busy, done, problem, cursor } = this.extent.peek();
    if (!busy && !done && !problem && cursor) await this.load(false);
  }

  /** Aborts loading and retries. */
  stop(): void {
    this.loading?.abort();
    clearTimeout(this.retry);
    if (this.extent.peek().busy) this.extent.value = { ...this.extent.peek(), busy: false };
  }

  private async load(fromStart: boolean): Promise<void> {
    this.stop();
    const abort = (this.loading = new AbortController());
    const filter = this.filter.peek();
    const before = this.extent.peek();
    this.extent.value = { ...before, busy: true, problem: null };
    try {
      const known = new Set(Array.from(this.tasks.all(), (task) => task.peek().task_id));
      const { ids, cursor } = await (fromStart
        ? this.fetchFromStart(filter, abort.signal)
        : this.fetchPage(filter, PAGE, before.cursor, abort.signal));
      if (abort.signal.aborted) return;
      const last = fromStart ? AFTER_ALL_IDS : before.oldest;
      const oldest = ids.reduce((oldest, id) => (id < oldest ? id : oldest), last);
      const matched = new Set(filter.text ? [...(fromStart ? [] : before.matched), ...ids] : []);
      if (fromStart && !isFiltered(filter)) this.removeMissing(known, new Set(ids), cursor ? oldest : "");
      this.failures = 0;
      this.extent.value = { oldest, cursor, done: cursor === null, busy: false, problem: null, matched };
    } catch (error) {
      if (abort.signal.aborted) return;
      const problem = error instanceof Problem ? error : new Problem(0, "unreachable", String(error));
      this.extent.value = { ...this.extent.peek(), busy: false, problem };
      if (!isTransient(problem)) return;
      const wait = Math.max(MIN_RETRY_MS, backOff(this.failures++));
      this.retry = setTimeout(() => void this.refresh(), wait);
    }
  }

  private async fetchFromStart(filter: Filter, signal: AbortSignal): Promise<Fetched> {
    const ids: string[] = [];
    let cursor: string | null = null;
    do {
      const limit = ids.length > 0 ? REFRESHED : FIRST_PAGE;
      const page: Fetched = await this.fetchPage(filter, limit, cursor, signal);
      ids.push(...page.ids);
      cursor = page.cursor;
    } while (cursor && ids.length < Math.min(REFRESHED, this.tasks.size));
    return { ids, cursor };
  }

  private async fetchPage(
    filter: Filter,
    limit: number,
    cursor: string | null,
    signal: AbortSignal,
  ): Promise<Fetched> {
    const query: TaskQuery = {
      q: filter.text || undefined,
      // Only running tasks wait for replies; the server has no filter for them.
      status: filter.statuses.join(",") || (filter.needsYou ? "running" : undefined),
      agent: filter.agent || undefined,
      session_id: filter.session || undefined,
      summary: true,
      limit,
      cursor: cursor ?? undefined,
    };
    const page = await getPage("/api/tasks", { query, signal });
    if (!signal.aborted) this.tasks.put(page.items);
    return { ids: page.items.map((task) => task.task_id), cursor: page.cursor };
  }

  /** Removes tasks that were known before the request, lie in the range of the answer, and are not in it. */
  private removeMissing(known: ReadonlySet<string>, found: ReadonlySet<string>, oldest: string): void {
    this.tasks.remove([...known].filter((id) => id >= oldest && !found.has(id)));
  }

  /** Selects a line by its index, limited to those that exist. */
  select(index: number): void {
    const lines = this.lines.peek();
    const line = lines[Math.max(0, Math.min(lines.length - 1, index))];
    if (line) this.selected.value = line.id;
  }

  /** Moves the selection; without one, selects the first line. */
  move(by: number): void {
    const at = this.lines.peek().findIndex((line) => line.id === this.selected.peek());
    this.select(at < 0 ? 0 : at + by);
  }

  /** Folds or unfolds the selected line. Folding a folded line or a leaf selects its parent. */
  fold(close: boolean): void {
    const line = this.lines.peek().find((line) => line.id === this.selected.peek());
    if (!line) return;
    if (!close || (line.open && line.children > 0)) return this.setFolded(line.id, close);
    const parent = this.tasks.get(line.id)?.peek().parent_id;
    if (parent && this.tasks.get(parent)) this.selected.value = parent;
  }

  setFolded(id: string, close: boolean): void {
    const next = new Set(this.folded.peek());
    if (close) next.add(id);
    else next.delete(id);
    this.folded.value = next;
  }
}

interface Fetched {
  ids: string[];
  cursor: string | null;
}
