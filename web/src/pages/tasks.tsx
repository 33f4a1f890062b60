// The task list: a live tree that draws only its visible lines.
import { memo } from "../ui/memo";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Status, Task } from "../api/types";
import { get } from "../api/client";
import { count, money, tokens } from "../format";
import { t, word } from "../i18n";
import { agents, canAct, store } from "../live";
import { affects } from "../live/events";
import { labelOf } from "../live/label";
import { STATUSES, waitsForReply } from "../live/status";
import type { TaskList } from "../live/task-list";
import { fromQuery, isFiltered, MAX_INDENT, NO_FILTER, toQuery } from "../live/flatten";
import { sanitizeLine } from "../markdown/sanitize";
import { go, href, place } from "../router";
import { actionKeys, Actions } from "../ui/actions";
import { useKeys, useLoad, useTitle } from "../ui/hooks";
import { Icon, StatusIcon } from "../ui/icons";
import { DemoButton } from "../ui/model";
import {
  Age,
  AgentName,
  Elapsed,
  Progress,
  StatusText,
  ProblemNotice,
  waitingText,
  WithCode,
} from "../ui/parts";
import { intoView, visible } from "../ui/virtual";
import { NewTask } from "./new-task";

export function TasksPage({ list }: { list: TaskList }) {
  const [creating, setCreating] = useState(false);
  const area = useRef<HTMLDivElement>(null);
  const search = useRef<HTMLInputElement>(null);
  useTitle(t("tasks.title"));
  useState(() => location.search && (list.filter.value = fromQuery(location.search)));
  const set = list.filter.value;
  useEffect(() => {
    // The address links to the filtered list. It is replaced, so that each typed letter is not a step back.
    const address = href({ page: "tasks" }) + toQuery(set);
    if (address !== location.pathname + location.search) history.replaceState(null, "", address);
  }, [set]);
  useEffect(() => {
    const back = () => place.peek().page === "tasks" && (list.filter.value = fromQuery(location.search));
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, [list]);
  useEffect(() => () => list.stop(), [list]);
  const healed = store.resync.value;
  const { problem } = list.extent.value;
  useEffect(() => {
    const timer = setTimeout(() => void list.refresh(), set.text ? 200 : 0);
    return () => clearTimeout(timer);
  }, [list, set, healed]);
  useKeys({
    "/": () => search.current?.focus(),
    j: () => list.move(1),
    k: () => list.move(-1),
    ArrowDown: () => list.move(1),
    ArrowUp: () => list.move(-1),
    Home: () => list.select(0),
    End: () => list.select(list.lines.peek().length - 1),
    PageDown: () => list.move(15),
    PageUp: () => list.move(-15),
    Enter: () => list.selected.value && go({ page: "task", id: list.selected.value, tab: "" }),
    ArrowRight: () => list.fold(false),
    ArrowLeft: () => list.fold(true),
    l: () => list.fold(false),
    h: () => list.fold(true),
    n: () => canAct() && setCreating(true),
    ...actionKeys(() => {
      const id = list.selected.peek();
      return id ? store.tasks.get(id)?.peek() : undefined;
    }),
    Escape: () =>
      isFiltered(list.filter.value) ? (list.filter.value = NO_FILTER) : (list.selected.value = null),
  });
  return (
    <div class="page full">
      <h1 class="visually-hidden">{t("tasks.title")}</h1>
      <Filters
        list={list}
        search={search}
        onNew={() => setCreating(true)}
        onDown={() => (area.current?.focus(), list.move(0))}
      />
      {problem && <ProblemNotice problem={problem} again={() => void list.refresh()} />}
      <Tree list={list} area={area} onNew={() => setCreating(true)} />
      <Selected list={list} />
      {creating && <NewTask onClose={() => setCreating(false)} />}
    </div>
  );
}

function Filters({
  list,
  search,
  onNew,
  onDown,
}: {
  list: TaskList;
  search: { current: HTMLInputElement | null };
  onNew: () => void;
  onDown: () => void;
}) {
  const { filter } = list;
  const set = filter.value;
  const stats = useLoad(
    "stats",
    (signal) => get("/api/tasks/stats", { signal }),
    (event) => affects(event, "status"),
  ).data;
  const asking = new Set(Array.from(store.requests.value.values(), (request) => request.task_id)).size;
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
            {sanitizeLine(agent.name)}
          </option>
        ))}
      </select>
      <Sessions list={list} />
      {isFiltered(set) && (
        <button type="button" class="button plain small" onClick={() => (filter.value = NO_FILTER)}>
          {t("tasks.filter.clear")}
        </button>
      )}
      {canAct() && (
        <button type="button" class="button primary small" onClick={onNew}>
          <Icon name="plus" size={13} />
          {t("tasks.new")}
        </button>
      )}
      <div class="chips" role="group" aria-label={t("tasks.filter.status")}>
        <button
          type="button"
          class="chip"
          aria-pressed={set.needsYou}
          onClick={() => (filter.value = { ...set, needsYou: !set.needsYou })}
        >
          <span class="status s-needs_you">
            <StatusIcon mark="needs_you" />
          </span>
          {t("status.needs_you")} <b>{count(asking)}</b>
        </button>
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
    </div>
  );
}

const MAX_SESSIONS = 100;

function Sessions({ list }: { list: TaskList }) {
  void store.tasks.structure.value;
  const known = new Set<string>();
  for (const task of store.tasks.all()) {
    if (known.size >= MAX_SESSIONS) break;
    known.add(task.peek().session_id);
  }
  const { filter } = list;
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
          {sanitizeLine(session)}
        </option>
      ))}
    </select>
  );
}

function Tree({
  list,
  area,
  onNew,
}: {
  list: TaskList;
  area: { current: HTMLDivElement | null };
  onNew: () => void;
}) {
  const filtered = isFiltered(list.filter.value);
  const [view, setView] = useState({ scroll: list.scroll, height: 600, row: 34 });
  const all = list.lines.value;
  const extent = list.extent.value;
  const { first, last } = visible(view.scroll, view.height, view.row, all.length);
  const at = list.selected.value;
  const shown = at !== null && all.slice(first, last).some((line) => line.id === at);
  const heads = useRef<HTMLDivElement>(null);
  // The header is sticky and covers a part of the list.
  const head = () => heads.current?.offsetHeight ?? 0;

  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    const measure = () =>
      setView((old) => ({
        ...old,
        height: element.clientHeight - head(),
        row: parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 34,
      }));
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.scrollTop = list.scroll;
    return () => observer.disconnect();
  }, [list, area]);
  const drawn = useRef({ all, row: view.row });
  drawn.current = { all, row: view.row };
  useEffect(() => {
    // Only a new selection scrolls: a task that arrives above it does not move what the user reads.
    const { all, row } = drawn.current;
    const index = all.findIndex((line) => line.id === at);
    const element = area.current;
    if (element && index >= 0)
      element.scrollTop = intoView(index, element.scrollTop, element.clientHeight - head(), row);
  }, [at, area]);
  useEffect(() => {
    if (last >= all.length - 5) void list.loadMore();
  }, [list, last, all.length, extent]);

  return (
    <div class="grid">
      <div
        class="scroll"
        ref={area}
        role="treegrid"
        tabIndex={0}
        aria-label={t("tasks.tree")}
        aria-rowcount={all.length + 1}
        aria-colcount={10}
        aria-activedescendant={shown ? `row-${at}` : undefined}
        onScroll={(event) => setView({ ...view, scroll: (list.scroll = event.currentTarget.scrollTop) })}
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
              {t("tasks.column.detail")}
            </span>
            <span role="columnheader" class="c-started num">
              {t("tasks.column.started")}
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
              list={list}
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
        {all.length === 0 && extent.done && !extent.busy && !extent.problem && (
          <div class="none">
            <p>{t(filtered ? "tasks.empty.filter" : "tasks.empty")}</p>
            {filtered ? (
              <button type="button" class="button" onClick={() => (list.filter.value = NO_FILTER)}>
                {t("tasks.filter.clear")}
              </button>
            ) : (
              <>
                {canAct() && (
                  <div class="row wrap">
                    <button type="button" class="button primary" onClick={onNew}>
                      {t("tasks.new")}
                    </button>
                    <DemoButton />
                  </div>
                )}
                <p class="small">
                  <WithCode text={t("tasks.empty.hint")} />
                </p>
              </>
            )}
          </div>
        )}
      </div>
    </div>
  );
}

interface RowProps {
  list: TaskList;
  id: string;
  depth: number;
  kids: number;
  open: boolean;
  index: number;
  top: number;
  selected: boolean;
}

/** Drawn again only when its own task or its position changes. */
const Row = memo(function Row({ list, id, depth, kids, open, index, top, selected }: RowProps) {
  const task: Task | undefined = store.tasks.get(id)?.value;
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
      onClick={(event) => openRow(event, list, id)}
    >
      <div class="name" role="gridcell" style={{ paddingLeft: `${Math.min(depth, MAX_INDENT) * 18}px` }}>
        {kids > 0 ? (
          <button
            type="button"
            class="twist"
            tabIndex={-1}
            aria-expanded={open}
            aria-label={t(open ? "tasks.collapse" : "tasks.expand")}
            onClick={(event) => (event.stopPropagation(), list.setFolded(id, open))}
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
          title={sanitizeLine(task.message).slice(0, 300)}
        >
          {labelOf(task)}
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
        class={`c-waiting cut ${waitsForReply(task) ? "s-needs_you" : "quiet"}`}
        title={waitingText(task)}
      >
        {waitingText(task)}
      </span>
      <span role="gridcell" class="c-started num quiet">
        <Age at={task.started_at} />
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

/** Opens the task of a row. A click with a modifier is left to the browser, and one that ends a selection of text. */
function openRow(event: MouseEvent, list: TaskList, id: string): void {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (getSelection()?.isCollapsed === false) return;
  list.selected.value = id;
  go({ page: "task", id, tab: "" });
}

function Selected({ list }: { list: TaskList }) {
  const id = list.selected.value;
  const task = id ? store.tasks.get(id)?.value : undefined;
  const { busy, done } = list.extent.value;
  const shown = list.lines.value.length;
  return (
    <div class="foot">
      <span class="quiet small" role="status">
        {busy && shown > 0
          ? t("tasks.loading")
          : t("tasks.shown", { count: shown, shown: `${shown}${done ? "" : "+"}` })}
      </span>
      {task && (
        <div class="row wrap" role="group" aria-label={t("tasks.chosen", { label: labelOf(task) })}>
          <a class="button small" href={href({ page: "task", id: task.task_id, tab: "" })}>
            {t("do.open")}
          </a>
          <Actions task={task} small />
        </div>
      )}
    </div>
  );
}
