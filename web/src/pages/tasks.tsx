// The list of all tasks: a live tree of which only what is seen is drawn.
import { computed, effect, signal } from "@preact/signals";
import { memo } from "../ui/memo";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Status, Task } from "../api/types";
import { get, isTransient, Problem } from "../api/client";
import { count, money, tokens } from "../format";
import { t, word } from "../i18n";
import { agents, loadTasks, mayAct, world } from "../live";
import { backOff } from "../live/connection";
import { affects } from "../live/events";
import { STATUSES } from "../live/status";
import {
  flatten,
  fromQuery,
  isFiltered,
  MAX_INDENT,
  NO_FILTER,
  toQuery,
  type Filter,
  type Line,
} from "../live/flatten";
import { line } from "../markdown/clean";
import { go, href, place } from "../router";
import { act, Actions, possible, type Action } from "../ui/actions";
import { useKeys, useLoad, useTitle } from "../ui/hooks";
import { Icon, StatusIcon } from "../ui/icons";
import { AgentName, Elapsed, Progress, StatusText, Trouble, waits } from "../ui/parts";
import { intoView, visible } from "../ui/virtual";
import { NewTask } from "./new-task";

/** The first page is small, so that it is there at once. */
const FIRST_PAGE = 100;
const PAGE = 500;
/** Loaded again after an interruption; what is older is asked for when somebody scrolls there. */
const REFRESHED = 1_000;
const KEPT = "sortie.tasks";

interface Kept {
  filter: Filter;
  folded: string[];
  chosen: string | null;
  scroll: number;
}

function kept(): Kept {
  const none: Kept = { filter: NO_FILTER, folded: [], chosen: null, scroll: 0 };
  try {
    return { ...none, ...(JSON.parse(sessionStorage.getItem(KEPT) ?? "{}") as Partial<Kept>) };
  } catch {
    return none;
  }
}

const first = kept();
const filter = signal<Filter>(first.filter);
const folded = signal<ReadonlySet<string>>(new Set(first.folded));
const chosen = signal<string | null>(first.chosen);
let scrolled = first.scroll;

interface Reach {
  oldest: string;
  cursor: string | null;
  done: boolean;
  busy: boolean;
  problem: Problem | null;
  /** What the server found by the text of the filter. */
  matched: ReadonlySet<string>;
}

/** How far the list is loaded for the filter that is set: the oldest id, and where to go on. */
const reach = signal<Reach>({
  oldest: "~",
  cursor: null,
  done: false,
  busy: false,
  problem: null,
  matched: new Set(),
});

/** Filters that look at what changes need the list again when it does; without them only comings and goings matter. */
const lines = computed<Line[]>(() => {
  void world.tasks.structure.value;
  if (filter.value.statuses.length > 0 || filter.value.text) void world.tasks.states.value;
  const { done, oldest, matched } = reach.value;
  return flatten(
    world.tasks,
    folded.value,
    filter.value,
    done || isFiltered(filter.value) ? "" : oldest,
    matched,
  );
});

effect(() => {
  const state: Kept = {
    filter: filter.value,
    folded: [...folded.value].slice(-500),
    chosen: chosen.value,
    scroll: scrolled,
  };
  sessionStorage.setItem(KEPT, JSON.stringify(state));
});

let loading: AbortController | null = null;
let retry: ReturnType<typeof setTimeout> | undefined;
let tries = 0;

async function load(again: boolean): Promise<void> {
  if (!again && (reach.peek().busy || reach.peek().done)) return;
  loading?.abort();
  clearTimeout(retry);
  const abort = (loading = new AbortController());
  const set = filter.peek();
  const query = {
    q: set.text || undefined,
    status: set.statuses.join(",") || undefined,
    agent: set.agent || undefined,
    session_id: set.session || undefined,
  };
  let { cursor, oldest } = again ? { cursor: null, oldest: "~" } : reach.peek();
  reach.value = { ...reach.peek(), busy: true, problem: null };
  try {
    const before = new Set(Array.from(world.tasks.all(), (task) => task.peek().task_id));
    const seen = new Set<string>();
    do {
      const limit = !again ? PAGE : seen.size > 0 ? REFRESHED : FIRST_PAGE;
      const page = await loadTasks({ ...query, limit, cursor: cursor ?? undefined }, abort.signal);
      if (abort.signal.aborted) return;
      cursor = page.cursor;
      for (const id of page.ids) {
        seen.add(id);
        if (id < oldest) oldest = id;
      }
    } while (again && cursor && seen.size < Math.min(REFRESHED, world.tasks.size));
    const matched = set.text ? new Set([...(again ? [] : reach.peek().matched), ...seen]) : new Set<string>();
    if (again && !isFiltered(set)) forget(before, seen, cursor ? oldest : "");
    tries = 0;
    reach.value = { oldest, cursor, done: cursor === null, busy: false, problem: null, matched };
  } catch (error) {
    if (abort.signal.aborted) return;
    const problem = error instanceof Problem ? error : new Problem(0, "unreachable", String(error));
    reach.value = { ...reach.peek(), busy: false, problem };
    if (isTransient(problem)) retry = setTimeout(() => void load(true), Math.max(2_000, backOff(tries++)));
  }
}

/** What was here before the question, is in the range of the answer and not in it, is gone. */
function forget(before: ReadonlySet<string>, seen: ReadonlySet<string>, oldest: string): void {
  world.tasks.remove([...before].filter((id) => id >= oldest && !seen.has(id)));
}

export function TasksPage() {
  const [creating, setCreating] = useState(false);
  const list = useRef<HTMLDivElement>(null);
  const search = useRef<HTMLInputElement>(null);
  useTitle(t("tasks.title"));
  useState(() => location.search && (filter.value = fromQuery(location.search)));
  const set = filter.value;
  useEffect(() => {
    // A link to what is seen; going back is for pages, not for each letter of a search.
    const address = href({ page: "tasks" }) + toQuery(set);
    if (address !== location.pathname + location.search) history.replaceState(null, "", address);
  }, [set]);
  useEffect(() => {
    const back = () => place.peek().page === "tasks" && (filter.value = fromQuery(location.search));
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, []);
  const healed = world.heal.value;
  useEffect(() => {
    const timer = setTimeout(() => void load(true), set.text ? 200 : 0);
    return () => clearTimeout(timer);
  }, [set, healed]);
  useKeys({
    "/": () => search.current?.focus(),
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Home: () => choose(0),
    End: () => choose(lines.peek().length - 1),
    PageDown: () => move(15),
    PageUp: () => move(-15),
    Enter: () => chosen.value && go({ page: "task", id: chosen.value, tab: "" }),
    ArrowRight: () => fold(false),
    ArrowLeft: () => fold(true),
    l: () => fold(false),
    h: () => fold(true),
    n: () => mayAct() && setCreating(true),
    x: () => doIt("cancel"),
    p: () => doIt("pause"),
    r: () => doIt("retry"),
    D: () => doIt("delete"),
    Escape: () => (isFiltered(filter.value) ? (filter.value = NO_FILTER) : (chosen.value = null)),
  });
  return (
    <div class="page full">
      <h1 class="visually-hidden">{t("tasks.title")}</h1>
      <Filters
        search={search}
        onNew={() => setCreating(true)}
        onDown={() => (list.current?.focus(), move(0))}
      />
      {reach.value.problem && <Trouble problem={reach.value.problem} again={() => void load(true)} />}
      <Tree list={list} />
      <Chosen />
      {creating && <NewTask onClose={() => setCreating(false)} />}
    </div>
  );
}

function choose(index: number): void {
  const at = lines.peek()[Math.max(0, Math.min(lines.peek().length - 1, index))];
  if (at) chosen.value = at.id;
}

function move(by: number): void {
  const at = lines.peek().findIndex((line) => line.id === chosen.peek());
  choose(at < 0 ? 0 : at + by);
}

/** Folds or unfolds; folding what is folded, or has nothing below, goes up. */
function fold(close: boolean): void {
  const at = lines.peek().find((line) => line.id === chosen.peek());
  if (!at) return;
  if (close && (!at.open || at.children === 0)) {
    const parent = world.tasks.get(at.id)?.peek().parent_id;
    if (parent && world.tasks.get(parent)) chosen.value = parent;
    return;
  }
  twist(at.id, close);
}

function twist(id: string, close: boolean): void {
  const next = new Set(folded.peek());
  if (close) next.add(id);
  else next.delete(id);
  folded.value = next;
}

function doIt(action: Action): void {
  const task = chosen.peek() ? world.tasks.get(chosen.peek()!)?.peek() : undefined;
  if (!task) return;
  const wanted = action === "pause" && task.paused ? "resume" : action;
  if (possible(task).includes(wanted)) act(task, wanted);
}

function Filters({
  search,
  onNew,
  onDown,
}: {
  search: { current: HTMLInputElement | null };
  onNew: () => void;
  onDown: () => void;
}) {
  const set = filter.value;
  const stats = useLoad(
    "stats",
    (signal) => get("/api/tasks/stats", { signal }),
    (event) => affects(event, "status"),
  ).data;
  const toggle = (status: Status) => {
    const statuses = set.statuses.includes(status)
      ? set.statuses.filter((other) => other !== status)
      : [...set.statuses, status];
    filter.value = { ...set, statuses };
  };
  return (
    <div class="filters" role="search">
      <input
        ref={search}
        type="search"
        class="field search"
        aria-label={t("tasks.search")}
        placeholder={`${t("tasks.search.hint")}  /`}
        value={set.text}
        maxLength={200}
        onInput={(event) => (filter.value = { ...set, text: event.currentTarget.value })}
        onKeyDown={(event) =>
          (event.key === "Enter" || event.key === "ArrowDown") &&
          !event.isComposing &&
          (event.preventDefault(), onDown())
        }
      />
      <div class="chips" role="group" aria-label={t("tasks.filter.status")}>
        {STATUSES.map((status) => (
          <button
            type="button"
            key={status}
            class="chip"
            aria-pressed={set.statuses.includes(status)}
            onClick={() => toggle(status)}
          >
            <span class={`status s-${status}`}>
              <StatusIcon mark={status} />
            </span>
            {word("status", status)} <b>{stats ? count(stats[status]) : ""}</b>
          </button>
        ))}
      </div>
      <select
        class="field menu"
        aria-label={t("tasks.filter.agent")}
        value={set.agent}
        onChange={(event) => (filter.value = { ...set, agent: event.currentTarget.value })}
      >
        <option value="">
          {t("tasks.filter.agent")}: {t("tasks.filter.any")}
        </option>
        {agents.value.map((agent) => (
          <option key={agent.name} value={agent.name}>
            {line(agent.name)}
          </option>
        ))}
      </select>
      <Sessions />
      {isFiltered(set) && (
        <button type="button" class="button plain small" onClick={() => (filter.value = NO_FILTER)}>
          {t("tasks.filter.clear")}
        </button>
      )}
      {mayAct() && (
        <button type="button" class="button primary small" onClick={onNew}>
          <Icon name="plus" size={13} />
          {t("tasks.new")}
        </button>
      )}
    </div>
  );
}

const MAX_SESSIONS = 100;

function Sessions() {
  void world.tasks.structure.value;
  const known = new Set<string>();
  for (const task of world.tasks.all()) {
    if (known.size >= MAX_SESSIONS) break;
    known.add(task.peek().session_id);
  }
  const set = filter.value;
  if (set.session) known.add(set.session);
  return (
    <select
      class="field menu"
      aria-label={t("tasks.filter.session")}
      value={set.session}
      onChange={(event) => (filter.value = { ...set, session: event.currentTarget.value })}
    >
      <option value="">
        {t("tasks.filter.session")}: {t("tasks.filter.any")}
      </option>
      {[...known].sort().map((session) => (
        <option key={session} value={session}>
          {line(session)}
        </option>
      ))}
    </select>
  );
}

function Tree({ list }: { list: { current: HTMLDivElement | null } }) {
  const [view, setView] = useState({ scroll: scrolled, height: 600, row: 34 });
  const all = lines.value;
  const { first, last } = visible(view.scroll, view.height, view.row, all.length);
  const at = chosen.value;
  const shown = at !== null && all.slice(first, last).some((line) => line.id === at);
  const heads = useRef<HTMLDivElement>(null);
  // The head stays in sight, and hides as much of the list.
  const head = () => heads.current?.offsetHeight ?? 0;

  useLayoutEffect(() => {
    const element = list.current;
    if (!element) return;
    const measure = () =>
      setView((old) => ({
        ...old,
        height: element.clientHeight - head(),
        row: parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 34,
      }));
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.scrollTop = scrolled;
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const index = all.findIndex((line) => line.id === at);
    const element = list.current;
    if (element && index >= 0)
      element.scrollTop = intoView(index, element.scrollTop, element.clientHeight - head(), view.row);
  }, [at]);
  useEffect(() => {
    if (
      last >= all.length - 5 &&
      !reach.value.done &&
      !reach.value.busy &&
      !reach.value.problem &&
      reach.value.cursor
    )
      void load(false);
  }, [last, all.length, reach.value]);

  return (
    <div class="grid">
      <div
        class="scroll"
        ref={list}
        role="treegrid"
        tabIndex={0}
        aria-label={t("tasks.tree")}
        aria-rowcount={all.length + 1}
        aria-colcount={9}
        aria-activedescendant={shown ? `row-${at}` : undefined}
        onScroll={(event) => setView({ ...view, scroll: (scrolled = event.currentTarget.scrollTop) })}
      >
        <div role="rowgroup" ref={heads} class="heads">
          <div class="line" role="row" aria-rowindex={1}>
            <span role="columnheader">{t("tasks.column.task")}</span>
            <span role="columnheader" class="c-status">
              {t("tasks.column.status")}
            </span>
            <span role="columnheader" class="c-progress">
              {t("tasks.column.progress")}
            </span>
            <span role="columnheader" class="c-agent">
              {t("tasks.column.agent")}
            </span>
            <span role="columnheader" class="c-waiting">
              {t("tasks.column.waiting")}
            </span>
            <span role="columnheader" class="c-elapsed num">
              {t("tasks.column.elapsed")}
            </span>
            <span role="columnheader" class="c-tools num">
              {t("tasks.column.tools")}
            </span>
            <span role="columnheader" class="c-tokens num">
              {t("tasks.column.tokens")}
            </span>
            <span role="columnheader" class="c-cost num">
              {t("tasks.column.cost")}
            </span>
          </div>
        </div>
        <div class="canvas" role="rowgroup" style={{ height: `${all.length * view.row}px` }}>
          {all.slice(first, last).map((line, offset) => (
            <Row
              key={line.id}
              id={line.id}
              depth={line.depth}
              kids={line.children}
              open={line.open}
              index={first + offset}
              top={(first + offset) * view.row}
              selected={line.id === at}
            />
          ))}
        </div>
        {all.length === 0 && !reach.value.busy && !reach.value.problem && (
          <div class="none">
            <p>{isFiltered(filter.value) ? t("tasks.empty.filter") : t("tasks.empty")}</p>
            {!isFiltered(filter.value) && <p class="small">{t("tasks.empty.hint")}</p>}
          </div>
        )}
      </div>
    </div>
  );
}

interface RowProps {
  id: string;
  depth: number;
  kids: number;
  open: boolean;
  index: number;
  top: number;
  selected: boolean;
}

/** Drawn again when its own task changes, or its place. */
const Row = memo(function Row({ id, depth, kids, open, index, top, selected }: RowProps) {
  const task: Task | undefined = world.tasks.get(id)?.value;
  if (!task) return null;
  return (
    <div
      id={`row-${id}`}
      class="line"
      role="row"
      aria-level={depth + 1}
      aria-rowindex={index + 2}
      aria-expanded={kids > 0 ? open : undefined}
      aria-selected={selected}
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => (chosen.value = id)}
      onDblClick={() => go({ page: "task", id, tab: "" })}
    >
      <div class="name" role="gridcell" style={{ paddingLeft: `${Math.min(depth, MAX_INDENT) * 18}px` }}>
        {kids > 0 ? (
          <button
            type="button"
            class="twist"
            tabIndex={-1}
            aria-expanded={open}
            aria-label={t(open ? "tasks.collapse" : "tasks.expand")}
            onClick={(event) => (event.stopPropagation(), twist(id, open))}
          >
            <Icon name="chevron" size={12} />
          </button>
        ) : (
          <span class="twist" aria-hidden="true" />
        )}
        <a
          class="cut"
          tabIndex={-1}
          href={href({ page: "task", id, tab: "" })}
          title={line(task.message).slice(0, 300)}
        >
          {line(task.label)}
        </a>
        {kids > 0 && !open && <span class="tag">{kids}</span>}
      </div>
      <span role="gridcell" class="c-status">
        <StatusText task={task} />
      </span>
      <span role="gridcell" class="c-progress">
        <Progress task={task} />
      </span>
      <span role="gridcell" class="c-agent cut">
        <AgentName name={task.agent} />
      </span>
      <span
        role="gridcell"
        class={`c-waiting cut ${task.waiting_on === "approval" || task.waiting_on === "question" ? "s-timeout" : "quiet"}`}
        title={waits(task)}
      >
        {waits(task)}
      </span>
      <span role="gridcell" class="c-elapsed num quiet">
        <Elapsed task={task} />
      </span>
      <span role="gridcell" class="c-tools num quiet">
        {count(task.tool_calls)}
      </span>
      <span role="gridcell" class="c-tokens num quiet">
        {count(tokens(task.total_usage))}
      </span>
      <span role="gridcell" class="c-cost num quiet">
        {money(task.total_usage.cost_usd)}
      </span>
    </div>
  );
});

function Chosen() {
  const task = chosen.value ? world.tasks.get(chosen.value)?.value : undefined;
  return (
    <div class="foot">
      <span class="quiet small" role="status">
        {reach.value.busy && lines.value.length > 0
          ? t("tasks.loading")
          : t("tasks.shown", { count: `${lines.value.length}${reach.value.done ? "" : "+"}` })}
      </span>
      {task && (
        <div class="row wrap" role="group" aria-label={t("tasks.chosen", { label: line(task.label) })}>
          <a class="button small" href={href({ page: "task", id: task.task_id, tab: "" })}>
            {t("do.open")}
          </a>
          <Actions task={task} small />
        </div>
      )}
    </div>
  );
}
