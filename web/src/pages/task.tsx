// One task: result, transcript, children, timeline, changes, policy, audit, journal, details.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, getAll, getPage, post } from "../api/client";
import type { Task, TaskDetail } from "../api/types";
import { amount, clock, count, duration, money, moment, relative, shortId, tokens } from "../format";
import { t, word, type Key } from "../i18n";
import { connection, canAct, now, store } from "../live";
import { affects } from "../live/events";
import { labelOf } from "../live/label";
import { hasEnded, waitsForReply } from "../live/status";
import { sanitize, sanitizeLine } from "../markdown/sanitize";
import { Markdown } from "../markdown/lazy";
import { go, href } from "../router";
import { actionKeys, Actions } from "../ui/actions";
import { Diff, escapeHiddenDiff, Json } from "../ui/code";
import { Copy } from "../ui/copy";
import { useDraft, useEnd, useKeys, useLoad, useTitle } from "../ui/hooks";
import { Icon } from "../ui/icons";
import {
  Age,
  AgentName,
  attempt,
  Elapsed,
  Gauge,
  Loading,
  Progress,
  StatusText,
  confirm,
  ProblemNotice,
  waitingText,
} from "../ui/parts";
import { RequestCard, useRequestKeys } from "../ui/request";
import { RulingLine, Transcript, transcriptText } from "../ui/transcript";
import { Checklist } from "../ui/todos";
import { Lazy } from "../ui/lazy";
import { isOpen } from "../live/store";

const TABS = [
  "result",
  "transcript",
  "children",
  "timeline",
  "report",
  "diff",
  "policy",
  "audit",
  "verdict",
  "journal",
  "details",
] as const;
type Tab = (typeof TABS)[number];

export function TaskPage({ id, tab }: { id: string; tab: string }) {
  const detail = useLoad(
    `task/${id}`,
    (signal) => get("/api/tasks/{id}", { path: { id }, signal }),
    (event) => event.task_id === id || event.parent_id === id,
  );
  const known = store.tasks.read(id);
  const whole = detail.data;
  useEffect(() => {
    const end = connection.subscribe({ id: `text/${id}`, scope: "task", task_id: id, text: true });
    return end;
  }, [id]);
  useEffect(() => {
    // An id prefix is enough to open the page; events carry the whole id.
    if (whole && whole.task_id !== id) go({ page: "task", id: whole.task_id, tab }, true);
  }, [whole, id, tab]);
  useKeys({ Escape: () => go({ page: "tasks" }) });
  if (detail.problem)
    return (
      <div class="page">
        <Back />
        <ProblemNotice problem={detail.problem} again={detail.reload} />
      </div>
    );
  if (!whole) return <Loading />;
  // The newer record determines the state; only the detail contains long texts.
  const task: TaskDetail =
    known && known.seq >= whole.seq
      ? {
          ...whole,
          ...known,
          message: whole.message,
          result: known.status === whole.status ? whole.result : known.result,
          budget: known.budget ?? whole.budget,
        }
      : whole;
  return <View task={task} tab={tab} reload={detail.reload} />;
}

function Back() {
  return (
    <a class="row gap-s small" href={href({ page: "tasks" })}>
      <Icon name="back" size={12} />
      {t("task.back")}
    </a>
  );
}

function View({ task, tab, reload }: { task: TaskDetail; tab: string; reload: () => void }) {
  const tabs = TABS.filter(
    (name) =>
      (name !== "diff" || task.isolation === "worktree" || task.branch !== null) &&
      (name !== "verdict" || task.verdict !== null),
  );
  const running = !hasEnded(task);
  const shown: Tab = tabs.find((name) => name === tab) ?? (running ? "transcript" : "result");
  const requests = [...store.requests.value.values()].filter(
    (request) => request.task_id === task.task_id && isOpen(request),
  );
  const open = (to: Tab) => go({ page: "task", id: task.task_id, tab: to }, true);
  const step = (by: number) => open(tabs[(tabs.indexOf(shown) + by + tabs.length) % tabs.length]!);
  useTitle(labelOf(task));
  useKeys({ "]": () => step(1), "[": () => step(-1), ...actionKeys(() => task) });
  useRequestKeys();
  return (
    <div class="page">
      <Header task={task} />
      {requests.map((request) => (
        <RequestCard key={request.id} request={request} />
      ))}
      <div class="tabs" role="tablist" aria-label={t("task.tabs")}>
        {tabs.map((name) => (
          <button
            type="button"
            key={name}
            role="tab"
            id={`tab-${name}`}
            aria-selected={name === shown}
            aria-controls="panel"
            tabIndex={name === shown ? 0 : -1}
            onClick={() => open(name)}
            onKeyDown={(event) => {
              const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
              if (!by) return;
              event.preventDefault();
              step(by);
              requestAnimationFrame(() =>
                document.querySelector<HTMLElement>('[role="tab"][aria-selected="true"]')?.focus(),
              );
            }}
          >
            {t(`tab.${name}`)}
            {name === "children" && task.children > 0 ? ` ${task.children}` : ""}
          </button>
        ))}
      </div>
      <div id="panel" role="tabpanel" aria-labelledby={`tab-${shown}`} class="stack">
        <Panel name={shown} task={task} reload={reload} />
      </div>
      {running && canAct() && <Steer id={task.task_id} label={labelOf(task)} />}
    </div>
  );
}

function Header({ task }: { task: TaskDetail }) {
  const waiting = waitingText(task);
  const used = tokens(task.total_usage);
  return (
    <header class="stack">
      <div class="row wrap small">
        <Back />
        {task.parent_id && (
          <a href={href({ page: "task", id: task.parent_id, tab: "" })}>{t("task.parent")}</a>
        )}
        <a href={href({ page: "chat", session: task.session_id })} class="mono">
          {sanitizeLine(task.session_id)}
        </a>
        <span class="row gap-s quiet mono">
          {shortId(task.task_id)}
          <Copy what="id" text={() => task.task_id} />
        </span>
      </div>
      <div class="row wrap">
        <h1 class="grow">{labelOf(task)}</h1>
        <Actions task={task} />
      </div>
      <div class="row wrap">
        <span aria-live="polite">
          <StatusText task={task} />
        </span>
        {waiting && (
          <span class={`tag ${waitsForReply(task) ? "warn" : ""}`}>
            {hasEnded(task) ? "" : `${t("tasks.column.waiting")}: `}
            {waiting}
          </span>
        )}
        <AgentName name={task.agent} />
        <span class="quiet mono small">{sanitizeLine(task.model)}</span>
        <span class="quiet">
          <Age at={task.started_at} />
        </span>
        <span class="quiet">
          <Elapsed task={task} />
        </span>
        <span class="quiet">
          {t("task.budget.tool_calls")}: {count(task.tool_calls)}
        </span>
        {used !== null && (
          <span class="quiet">
            {t("tasks.column.tokens")}: {count(used)}
          </span>
        )}
        {task.total_usage.cost_usd !== null && <span class="quiet">{money(task.total_usage.cost_usd)}</span>}
      </div>
      <Progress task={task} />
      {task.delivery === "blocked" && <Blocked task={task} />}
      {task.budget && task.budget.length > 0 && (
        <div class="gauges" role="group" aria-label={t("task.budget")}>
          {task.budget.map((balance) => (
            <Gauge key={balance.kind} balance={balance} />
          ))}
        </div>
      )}
    </header>
  );
}

/** Shown when the result could not be delivered. */
function Blocked({ task }: { task: TaskDetail }) {
  const send = (action: "retry" | "dismiss") =>
    void attempt(post("/api/tasks/{id}/delivery", { path: { id: task.task_id }, body: { action } }), () =>
      t(`done.delivery.${action}`),
    );
  return (
    <div class="trouble">
      <span class="grow">
        {t("task.blocked")} {task.delivery_error && sanitizeLine(task.delivery_error)}
      </span>
      {canAct() && (
        <>
          <button type="button" class="button small" onClick={() => send("retry")}>
            {t("app.again")}
          </button>
          <button type="button" class="button small" onClick={() => send("dismiss")}>
            {t("task.dismiss")}
          </button>
        </>
      )}
    </div>
  );
}

function Panel({
  name,
  task,
  reload,
}: {
  name: Tab;
  task: TaskDetail;
  reload: () => void;
}): ComponentChildren {
  switch (name) {
    case "result":
      return <Result task={task} />;
    case "transcript":
      return <TranscriptTab task={task} />;
    case "children":
      return <Children task={task} />;
    case "timeline":
      return (
        <Lazy
          load={() => import("../timeline/view").then((loaded) => loaded.TimelineView)}
          props={{ id: task.task_id, tall: false }}
        />
      );
    case "report":
      return (
        <Lazy
          load={() => import("../ui/report").then((loaded) => loaded.ReportView)}
          props={{ id: task.task_id, root: task.root_id }}
        />
      );
    case "diff":
      return <Changes task={task} reload={reload} />;
    case "policy":
      return <Policy id={task.task_id} />;
    case "audit":
      return <Audit id={task.task_id} />;
    case "verdict":
      return <Verdict verdict={task.verdict} />;
    case "journal":
      return <Journal id={task.task_id} />;
    case "details":
      return <Details task={task} />;
  }
}

function Result({ task }: { task: TaskDetail }) {
  return (
    <>
      {task.error && (
        <div class="trouble" role="note">
          <div>
            <b>{t("task.error")}</b>
            <p>{sanitize(task.error)}</p>
          </div>
        </div>
      )}
      {task.result ? (
        <div class="card copied">
          <Copy what="result" text={() => sanitize(task.result ?? "")} />
          <Markdown text={task.result} />
        </div>
      ) : (
        !task.error && <p class="quiet">{t("task.noResult")}</p>
      )}
      {task.todos.length > 0 && (
        <div class="card">
          <h2>{t("task.todos")}</h2>
          <Checklist todos={task.todos} />
        </div>
      )}
      <details class="card" open={!task.result}>
        <summary>
          <b>{t("task.message")}</b>
        </summary>
        <Markdown text={task.message} />
      </details>
    </>
  );
}

function TranscriptTab({ task }: { task: TaskDetail }) {
  const id = task.task_id;
  const [unfolded, setUnfolded] = useState(false);
  const items = useLoad(
    `transcript/${id}`,
    (signal) => get("/api/tasks/{id}/transcript", { path: { id }, signal }),
    (event) => event.task_id === id && affects(event, "transcript"),
  );
  const spoken = store.streamedText(id).value;
  const area = useRef<HTMLDivElement>(null);
  useEnd(area, items.data !== undefined && !hasEnded(task));
  if (items.problem) return <ProblemNotice problem={items.problem} again={items.reload} />;
  if (!items.data) return <Loading />;
  return (
    <div ref={area} class="stack">
      {items.data.length > 0 && (
        <div class="row">
          <button type="button" class="button plain small" onClick={() => setUnfolded(!unfolded)}>
            {t(unfolded ? "item.fold" : "item.unfold")}
          </button>
          <Copy what="transcript" text={() => transcriptText(items.data ?? [])} named />
        </div>
      )}
      <Transcript key={String(unfolded)} task={id} items={items.data} unfolded={unfolded} />
      {spoken && !hasEnded(task) && (
        <div class="item assistant">
          <div class="who">
            <b>{t("task.speaking")}</b>
          </div>
          <div class="speaking">
            <Markdown text={spoken} />
          </div>
        </div>
      )}
    </div>
  );
}

function Children({ task }: { task: TaskDetail }) {
  const id = task.task_id;
  const tree = useLoad(
    `tree/${id}`,
    async (signal) => {
      // The first page is enough: each child is a card, and only so many are shown.
      const { items: list } = await getPage("/api/tasks/{id}/tree", {
        path: { id },
        query: { summary: true },
        signal,
      });
      store.tasks.put(list);
      return list.filter((other) => other.task_id !== id).map((other) => other.task_id);
    },
    (event) => event.root_id === task.root_id && event.type === "queued",
  );
  void store.tasks.structure.value;
  if (tree.problem) return <ProblemNotice problem={tree.problem} again={tree.reload} />;
  if (!tree.data) return <Loading />;
  if (tree.data.length === 0) return <p class="quiet">{t("task.noChildren")}</p>;
  return (
    <ul class="kids">
      {tree.data.slice(0, 500).map((child) => (
        <li key={child}>
          <ChildCard id={child} base={task.depth} />
        </li>
      ))}
    </ul>
  );
}

/** A link to a child task with its progress. The chat uses it too. */
export function ChildCard({ id, base = 0 }: { id: string; base?: number }) {
  const task = store.tasks.get(id)?.value;
  if (!task) return null;
  const waiting = waitingText(task);
  return (
    <a class="kid" href={href({ page: "task", id, tab: "" })}>
      <span class="row">
        <b class="grow cut" title={labelOf(task)}>
          {task.depth - base > 1 ? "↳ " : ""}
          {labelOf(task)}
        </b>
        <StatusText task={task} />
      </span>
      <Progress task={task} />
      <span class="row small quiet">
        <AgentName name={task.agent} />
        <span class="grow cut">{waiting}</span>
        <Elapsed task={task} />
      </span>
    </a>
  );
}

function Changes({ task, reload }: { task: TaskDetail; reload: () => void }) {
  const id = task.task_id;
  const diff = useLoad(
    `diff/${id}`,
    (signal) => get("/api/tasks/{id}/diff", { path: { id }, signal }),
    (event) => event.task_id === id && affects(event, "changes"),
  );
  const [busy, setBusy] = useState(false);
  const label = labelOf(task);
  const run = async <T,>(work: Promise<T>, told: (done: T) => string) => {
    setBusy(true);
    const done = await attempt(work, told);
    // After a success the buttons stay disabled until the reloaded task reports the outcome and hides them.
    if (done === undefined) setBusy(false);
    reload();
    diff.reload();
  };
  const apply = () =>
    run(post("/api/tasks/{id}/apply", { path: { id } }), (done) =>
      t("done.apply", { count: done.files.length, label }),
    );
  const discard = () =>
    confirm(
      t("do.discard.sure", { label }),
      t("do.discard"),
      t("do.discard.no"),
      () => void run(post("/api/tasks/{id}/discard", { path: { id } }), () => t("done.discard", { label })),
    );
  const outcome = task.changes_fate;
  const gone = diff.problem?.status === 404 || diff.problem?.status === 409;
  if (diff.problem && !gone) return <ProblemNotice problem={diff.problem} again={diff.reload} />;
  if (!diff.data && !gone) return <Loading />;
  const text = gone ? "" : diff.data!.diff;
  return (
    <>
      <div class="row wrap">
        <span class="grow">
          {task.changes && t("task.changes", { ...task.changes, count: task.changes.files })}{" "}
          {task.branch && <code>{sanitizeLine(task.branch)}</code>}
        </span>
        {hasEnded(task) && text && !outcome && canAct() && (
          <>
            <button type="button" class="button primary" disabled={busy} onClick={() => void apply()}>
              {t("do.apply")}
            </button>
            <button type="button" class="button danger" disabled={busy} onClick={discard}>
              {t("do.discard")}
            </button>
          </>
        )}
      </div>
      <p role="status" class={outcome ? "" : "quiet"}>
        {outcome ? t(`task.${outcome}`) : gone ? t("task.nothingLeft") : ""}
      </p>
      {text && outcome !== "discarded" ? (
        <Diff text={text} safely={escapeHiddenDiff} />
      ) : (
        !outcome && !gone && <p class="quiet">{t("task.noDiff")}</p>
      )}
    </>
  );
}

function Decision({ decision }: { decision: string }) {
  return (
    <span class={`tag ${decision === "deny" ? "bad" : decision === "ask" ? "warn" : "ok"}`}>
      {decision === "allow" ? "✓ " : decision === "deny" ? "✕ " : "? "}
      {word("decision", decision)}
    </span>
  );
}

function Policy({ id }: { id: string }) {
  const policy = useLoad(`policy/${id}`, (signal) => get("/api/tasks/{id}/policy", { path: { id }, signal }));
  if (policy.problem) return <ProblemNotice problem={policy.problem} again={policy.reload} />;
  if (!policy.data) return <Loading />;
  const list = (rules: readonly string[] | null) =>
    rules === null ? (
      t("policy.everything")
    ) : rules.length === 0 ? (
      <span class="quiet">–</span>
    ) : (
      rules.map((rule) => (
        <>
          <code>{sanitizeLine(rule)}</code>{" "}
        </>
      ))
    );
  return (
    <>
      <div class="row wrap">
        <span class="tag">{word("mode", policy.data.mode)}</span>
        {policy.data.read_only && <span class="tag warn">{t("agents.readOnly")}</span>}
        <span class="quiet mono small cut">{policy.data.hash}</span>
      </div>
      <div class="card table">
        <h2>{t("policy.tools")}</h2>
        <table>
          <thead>
            <tr>
              <th scope="col">{t("policy.tool")}</th>
              <th scope="col">{t("policy.decision")}</th>
              <th scope="col">{t("policy.layer")}</th>
              <th scope="col">{t("policy.rule")}</th>
              <th scope="col">{t("policy.why")}</th>
            </tr>
          </thead>
          <tbody>
            {policy.data.tools.map((tool) => (
              <tr key={tool.name}>
                <td class="mono whole">{sanitizeLine(tool.name)}</td>
                <td>
                  <Decision decision={tool.decision} />
                </td>
                <td>{word("layer", tool.layer)}</td>
                <td>{tool.rule ? <code>{sanitizeLine(tool.rule)}</code> : "–"}</td>
                <td>{sanitize(tool.why)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="card table">
        <h2>{t("policy.layers")}</h2>
        <table>
          <thead>
            <tr>
              {(["layer", "source", "allow", "deny", "except", "ask", "approve"] as const).map((name) => (
                <th scope="col" key={name}>
                  {t(`policy.${name}`)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {policy.data.layers.map((layer) => (
              <tr>
                <td>{word("layer", layer.layer)}</td>
                <td>{sanitizeLine(layer.source)}</td>
                <td>{list(layer.allow)}</td>
                <td>{list(layer.deny)}</td>
                <td>{list(layer.except)}</td>
                <td>{list(layer.ask)}</td>
                <td>{list(layer.approve)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Audit({ id }: { id: string }) {
  const audit = useLoad(
    `audit/${id}`,
    (signal) => getAll("/api/tasks/{id}/audit", "after", { path: { id }, signal }),
    (event) => event.task_id === id && affects(event, "audit"),
  );
  const [limit, setLimit] = useState(200);
  if (audit.problem) return <ProblemNotice problem={audit.problem} again={audit.reload} />;
  if (!audit.data) return <Loading />;
  if (audit.data.length === 0) return <p class="quiet">{t("audit.empty")}</p>;
  return (
    <div class="card table">
      <table>
        <thead>
          <tr>
            {(["at", "agent", "tool", "parameters", "ruling", "stage", "took"] as const).map((name) => (
              <th scope="col" key={name} class={name === "took" ? "num" : ""}>
                {t(`audit.${name}`)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {audit.data.slice(0, limit).map((at) => (
            <tr key={at.seq}>
              <td class="whole">
                <time dateTime={at.at}>{clock(at.at)}</time>
              </td>
              <td>
                <a href={href({ page: "task", id: at.task_id, tab: "" })}>{sanitizeLine(at.agent)}</a>
              </td>
              <td class="mono whole">{sanitizeLine(at.tool)}</td>
              <td>
                <Json value={at.parameters} open={0} />
              </td>
              <td>
                {at.ruling ? (
                  <>
                    <Decision decision={at.ruling.decision} />
                    <RulingLine ruling={at.ruling} />
                  </>
                ) : (
                  "–"
                )}
              </td>
              <td>
                {word("stage", at.stage)}
                {at.status ? `, ${word("outcome", at.status)}` : ""}
              </td>
              <td class="num">{duration(at.duration_ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {audit.data.length > limit && (
        <button type="button" class="button small" onClick={() => setLimit(limit * 4)}>
          {t("app.more")} ({audit.data.length - limit})
        </button>
      )}
    </div>
  );
}

function Verdict({ verdict }: { verdict: unknown }) {
  return (
    <div class="card">
      <h2>{t("verdict.evidence")}</h2>
      <Json value={verdict} open={3} />
    </div>
  );
}

function Journal({ id }: { id: string }) {
  const journal = useLoad(
    `journal/${id}`,
    (signal) => get("/api/tasks/{id}/events", { path: { id }, signal }),
    (event) => event.task_id === id,
  );
  const [limit, setLimit] = useState(200);
  if (journal.problem) return <ProblemNotice problem={journal.problem} again={journal.reload} />;
  if (!journal.data) return <Loading />;
  return (
    <div class="card stack gap-s">
      {journal.data.slice(0, limit).map((entry) => (
        <div key={entry.seq} class="row" style={{ alignItems: "baseline" }}>
          <span class="quiet num mono small" style={{ minWidth: "4ch" }}>
            {entry.seq}
          </span>
          <time class="quiet small">{clock(entry.at)}</time>
          <b class="mono small">{sanitizeLine(String(entry.event))}</b>
          <div class="grow">
            <Json value={entry} open={0} />
          </div>
        </div>
      ))}
      {journal.data.length > limit && (
        <button type="button" class="button small" onClick={() => setLimit(limit * 4)}>
          {t("app.more")} ({journal.data.length - limit})
        </button>
      )}
    </div>
  );
}

function usage(of: Task["usage"]): string {
  const parts: [Key, number | null][] = [
    ["usage.input", of.input_tokens],
    ["usage.output", of.output_tokens],
    ["usage.cacheRead", of.cache_read_tokens],
    ["usage.cacheWrite", of.cache_write_tokens],
  ];
  return `${
    parts
      .filter(([, value]) => value !== null)
      .map(([key, value]) => `${count(value)} ${t(key)}`)
      .join(", ") || "–"
  } · ${money(of.cost_usd)}`;
}

function Details({ task }: { task: TaskDetail }) {
  const facts: [Key, ComponentChildren][] = [
    [
      "detail.id",
      <>
        <code>{task.task_id}</code> <Copy what="id" text={() => task.task_id} />
      </>,
    ],
    ["detail.session", <code>{sanitizeLine(task.session_id)}</code>],
    ["detail.childSession", <code>{sanitizeLine(task.child_session)}</code>],
    ["detail.agent", sanitizeLine(task.agent)],
    ["detail.model", <code>{sanitizeLine(task.model)}</code>],
    ["detail.workspace", <code>{sanitizeLine(task.workspace)}</code>],
    ["detail.mode", word("mode", task.mode)],
    ["detail.sandbox", sanitizeLine(task.sandbox)],
    ["detail.network", t(task.network ? "app.yes" : "app.no")],
    ["detail.isolation", word("isolation", task.isolation)],
    ["detail.branch", task.branch && <code>{sanitizeLine(task.branch)}</code>],
    ["detail.policy", <code>{task.policy_hash}</code>],
    ["detail.thinking", task.thinking],
    [
      "detail.tools",
      task.tools.map((tool) => (
        <>
          <code>{sanitizeLine(tool)}</code>{" "}
        </>
      )),
    ],
    ["detail.skills", task.skills.length > 0 ? task.skills.map(sanitizeLine).join(", ") : null],
    ["detail.timeout", task.timeout_seconds === null ? null : duration(task.timeout_seconds * 1_000)],
    ["detail.deadline", task.deadline && `${moment(task.deadline)} (${relative(task.deadline, now.value)})`],
    [
      "detail.continues",
      task.continues && (
        <a href={href({ page: "task", id: task.continues, tab: "" })}>{shortId(task.continues)}</a>
      ),
    ],
    [
      "detail.delivery",
      task.delivery_error
        ? `${word("delivery", task.delivery)}: ${sanitizeLine(task.delivery_error)}`
        : word("delivery", task.delivery),
    ],
    ["detail.crashes", task.crashes],
    ["detail.created", moment(task.created_at)],
    ["detail.started", moment(task.started_at)],
    ["detail.completed", moment(task.completed_at)],
    ["detail.lane", word("lane", task.lane)],
    ["detail.priority", word("priority", task.priority)],
    ["detail.depth", task.depth],
    ["detail.tenant", task.tenant],
    ["detail.usage", usage(task.usage)],
    ["detail.total", usage(task.total_usage)],
    ...(task.budget ?? []).map((balance): [Key, ComponentChildren] => [
      `task.budget.${balance.kind}`,
      `${amount(balance.kind, balance.spent)} / ${amount(balance.kind, balance.limit)}`,
    ]),
  ];
  return (
    <dl class="card facts">
      {facts.map(([key, value]) => (
        <>
          <dt>{t(key)}</dt>
          <dd>{value === null || value === "" ? <span class="quiet">{t("app.none")}</span> : value}</dd>
        </>
      ))}
    </dl>
  );
}

function Steer({ id, label }: { id: string; label: string }) {
  const [text, setText] = useDraft(`steer.${id}`);
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!text.trim()) return;
    const done = await attempt(
      post("/api/tasks/{id}/steer", { path: { id }, body: { text: text.trim() } }),
      () => t("done.steer", { label }),
    );
    if (done !== undefined) setText("");
  };
  return (
    <form class="card stack gap-s" onSubmit={(event) => void send(event)}>
      <label class="labelled">
        {t("task.steer")}
        <textarea
          class="field"
          rows={2}
          value={text}
          placeholder={t("task.steer.hint")}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) =>
            event.key === "Enter" &&
            !event.shiftKey &&
            !event.isComposing &&
            (event.preventDefault(), event.currentTarget.form?.requestSubmit())
          }
        />
      </label>
      <div class="row">
        <button type="submit" class="button primary small" disabled={!text.trim()}>
          {t("do.send")}
        </button>
      </div>
    </form>
  );
}
