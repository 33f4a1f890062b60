// The chat with the main agent: streamed text, subagents, approval requests and questions.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, getPage, post, Problem, remove } from "../api/client";
import type { Mode, Session, SessionDetail, Task, TranscriptItem, Turn } from "../api/types";
import { moment, money, relative } from "../format";
import { lang, t, word } from "../i18n";
import { connection, canAct, freshSession, now, store } from "../live";
import { affects } from "../live/events";
import { hasEnded } from "../live/status";
import { sanitize, escapeHiddenLine, sanitizeLine } from "../markdown/sanitize";
import { Markdown } from "../markdown/lazy";
import { go, href } from "../router";
import { Copy } from "../ui/copy";
import { field } from "../ui/form";
import { useDraft, useKeys, useLoad, useTitle, type Loaded } from "../ui/hooks";
import { Icon } from "../ui/icons";
import { ModelSelect, DemoButton } from "../ui/model";
import { attempt, Elapsed, Loading, notify, StatusText, ProblemNotice, waitingText } from "../ui/parts";
import { RequestCard, useRequestKeys } from "../ui/request";
import { Checklist, latestTodos } from "../ui/todos";
import { ItemView, Transcript } from "../ui/transcript";
import { AgentSelect, ModeSelect } from "./new-task";
import { ChildCard } from "./task";

const SESSIONS = 50;

export function ChatPage({ session }: { session: string | null }) {
  const [listed, setListed] = useState(false);
  const sessions = useLoad(
    "sessions",
    (signal) => getPage("/api/sessions", { query: { limit: SESSIONS }, signal }),
    (event) => affects(event, "status") && event.parent_id === null,
  );
  const first = sessions.data?.items;
  const [earlier, setEarlier] = useState<{ items: Session[]; cursor: string | null } | null>(null);
  const list = [
    ...(first ?? []),
    ...(earlier?.items ?? []).filter((old) => !first?.some((one) => one.session_id === old.session_id)),
  ];
  // Active sessions move to the front meanwhile; the cursor of the earlier ones stays valid.
  const next = earlier ? earlier.cursor : (sessions.data?.cursor ?? null);
  const more = async () => {
    const page = await attempt(
      getPage("/api/sessions", { query: { limit: SESSIONS, cursor: next ?? undefined } }),
    );
    if (page) setEarlier({ items: [...(earlier?.items ?? []), ...page.items], cursor: page.cursor });
  };
  useEffect(() => setListed(false), [session]);
  useEffect(() => {
    if (session !== null || !first) return;
    const to = first[0]?.session_id ?? (canAct() ? freshSession() : null);
    if (to) go({ page: "chat", session: to }, true);
  }, [session, first]);
  const move = (by: number) => {
    const next =
      list[
        Math.max(0, Math.min(list.length - 1, list.findIndex((other) => other.session_id === session) + by))
      ];
    if (next) go({ page: "chat", session: next.session_id });
  };
  useKeys({
    n: () => canAct() && go({ page: "chat", session: freshSession() }),
    j: () => move(1),
    k: () => move(-1),
    "/": () => document.querySelector<HTMLElement>(".compose textarea")?.focus(),
    i: () => document.querySelector<HTMLElement>(".compose textarea")?.focus(),
  });
  return (
    <div class={`chat ${listed ? "listed" : ""}`}>
      <aside class="sessions" aria-label={t("chat.sessions")}>
        <div class="row">
          <h2 class="grow">{t("chat.sessions")}</h2>
          {canAct() && (
            <button
              type="button"
              class="button small primary"
              onClick={() => (go({ page: "chat", session: freshSession() }), setListed(false))}
            >
              <Icon name="plus" size={13} />
              {t("chat.new")}
            </button>
          )}
        </div>
        <ul>
          {list.map((other) => (
            <li key={other.session_id}>
              <a
                href={href({ page: "chat", session: other.session_id })}
                aria-current={other.session_id === session ? "page" : undefined}
              >
                <div class="cut">{sanitizeLine(other.title) || sanitizeLine(other.session_id)}</div>
                <span>
                  <span class="grow cut">
                    {relative(other.last_at, now.value)} · {t("chat.turns", { count: other.turns })}
                  </span>
                  {other.running ? <b class="s-running">{t("chat.running")}</b> : money(other.cost_usd)}
                </span>
              </a>
            </li>
          ))}
          {next !== null && (
            <li>
              <button type="button" class="button small" onClick={() => void more()}>
                {t("chat.earlier")}
              </button>
            </li>
          )}
          {first?.length === 0 && <li class="none small">{t("chat.none")}</li>}
        </ul>
        {sessions.problem && <ProblemNotice problem={sessions.problem} again={sessions.reload} />}
      </aside>
      {session ? (
        <Conversation key={session} id={session} onList={() => setListed(true)} />
      ) : sessions.data && !canAct() ? (
        <p class="none">{t("chat.readOnly")}</p>
      ) : (
        <Loading />
      )}
    </div>
  );
}

/** A message that was sent and is not part of a loaded turn yet. */
interface Sent {
  text: string;
  task: string;
  steered: boolean;
}

function Conversation({ id, onList }: { id: string; onList: () => void }) {
  const [older, setOlder] = useState<Turn[]>([]);
  const [sent, setSent] = useState<Sent[]>([]);
  const detail: Loaded<SessionDetail | null> = useLoad<SessionDetail | null>(
    `session/${id}`,
    async (signal) => {
      try {
        const session = await get("/api/sessions/{id}", { path: { id }, signal });
        store.tasks.put(session.turns_list.flatMap((turn) => [turn.task, ...turn.children]));
        return session;
      } catch (error) {
        // A session exists from its first message on.
        if (error instanceof Problem && error.status === 404) return null;
        throw error;
      }
    },
    (event) =>
      event.session_id === id
        ? affects(event, "chat")
        : turns.some((turn) => turn.task.task_id === event.root_id) &&
          (event.type === "queued" || event.type === "delivery"),
  );
  const turns: Turn[] = [...older, ...(detail.data?.turns_list ?? [])];
  const last = turns.at(-1);
  const current = last && (store.tasks.get(last.task.task_id)?.value ?? last.task);
  // A message that the loaded turns contain is not shown a second time.
  const isShown = (one: Sent) =>
    turns.some(
      (turn) =>
        turn.task.task_id === one.task &&
        (!one.steered || turn.items.some((item) => item.text.includes(one.text))),
    );
  const pending = sent.filter((one) => !isShown(one));
  const running = (current && !hasEnded(current)) || pending.some((one) => !one.steered);
  // Forget delivered messages for good: their turn may be deleted later.
  useEffect(() => {
    if (pending.length < sent.length) setSent(pending);
  }, [pending, sent.length]);
  useEffect(
    () => connection.subscribe({ id: `text/${id}`, scope: "session", session_id: id, text: true }),
    [id],
  );
  useTitle(detail.data ? detail.data.title : t("chat.title"));
  useRequestKeys();
  const more = async () => {
    const before = turns[0]?.task.task_id;
    const page = await attempt(get("/api/sessions/{id}", { path: { id }, query: { before } }));
    if (page) setOlder([...page.turns_list, ...older]);
  };
  return (
    <section class="talk" aria-label={t("chat.title")}>
      <p class="visually-hidden" role="status">
        {current ? word("status", current.status) : ""}
      </p>
      <Scroller text={current && running ? current.task_id : null}>
        <div class="row narrow">
          <button type="button" class="button small" onClick={onList}>
            <Icon name="list" />
            {t("chat.list")}
          </button>
        </div>
        <h1 class="visually-hidden">{detail.data ? sanitizeLine(detail.data.title) : t("chat.new")}</h1>
        {detail.problem && <ProblemNotice problem={detail.problem} again={detail.reload} />}
        {detail.data === undefined && !detail.problem && <Loading />}
        {detail.data === null && pending.length === 0 && (
          <div class="none">
            <p>{t(canAct() ? "chat.empty" : "chat.readOnly")}</p>
            <DemoButton />
          </div>
        )}
        {detail.data && detail.data.turns > turns.length && (
          <button type="button" class="button small" onClick={() => void more()}>
            {t("chat.older")}
          </button>
        )}
        {turns.map((turn) => (
          <TurnView key={turn.task.task_id} turn={turn} />
        ))}
        {pending.map((one) => (
          <div class="mine" key={one.task + one.text}>
            {sanitize(one.text)}
          </div>
        ))}
        {detail.data && detail.data.grants.length > 0 && (
          <Grants session={id} grants={detail.data.grants} onGone={detail.reload} />
        )}
        <Requests roots={turns.map((turn) => turn.task.task_id)} />
      </Scroller>
      <Compose
        id={id}
        running={running ? (current?.task_id ?? null) : null}
        first={turns.length === 0}
        onSent={(one) => (setSent([...pending, one]), detail.reload())}
      />
    </section>
  );
}

/** Stays scrolled to the end while content is added, unless the user scrolled up. */
function Scroller({ text, children }: { text: string | null; children: preact.ComponentChildren }) {
  const area = useRef<HTMLDivElement>(null);
  const stick = useRef(true);
  const top = useRef(0);
  if (text) void store.streamedText(text).value;
  useLayoutEffect(() => {
    if (area.current && stick.current) area.current.scrollTop = area.current.scrollHeight;
  });
  useEffect(() => {
    // Texts grow after they were drawn, once the Markdown parser is loaded.
    const inner = area.current?.firstElementChild;
    if (!inner) return;
    const observer = new ResizeObserver(
      () => stick.current && area.current && (area.current.scrollTop = area.current.scrollHeight),
    );
    observer.observe(inner);
    return () => observer.disconnect();
  }, []);
  const scrolled = (event: Event) => {
    const element = event.currentTarget as HTMLElement;
    const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 60;
    // Content may be added before the event of our own scroll arrives: only scrolling up leaves the end.
    stick.current = atEnd || (stick.current && element.scrollTop >= top.current);
    top.current = element.scrollTop;
  };
  return (
    <div class="said" ref={area} onScroll={scrolled} tabIndex={0} role="group" aria-label={t("chat.title")}>
      <div>{children}</div>
    </div>
  );
}

const FROM_USER: ReadonlySet<string> = new Set(["user", "steer"]);

/** A part of a turn: a message of the user, text of the agent, a child's announcement, or collapsed steps. */
export type Part =
  { kind: "mine" | "said" | "report"; item: TranscriptItem } | { kind: "work"; items: TranscriptItem[] };

/** Returns the parts of a turn in order. A tool result goes to the group of its call. */
export function partsOf(items: readonly TranscriptItem[]): Part[] {
  const parts: Part[] = [];
  const called = new Map<string, TranscriptItem[]>();
  for (const item of items) {
    if (item.kind === "finished") continue;
    if (FROM_USER.has(item.kind)) parts.push({ kind: "mine", item });
    else if (item.kind === "assistant" && !item.call) {
      if (item.text.trim()) parts.push({ kind: "said", item });
    } else if (item.kind === "announcement") parts.push({ kind: "report", item });
    else {
      const home = item.result && called.get(item.result.call_id);
      if (home) {
        home.push(item);
        continue;
      }
      const last = parts.at(-1);
      const group = last?.kind === "work" ? last.items : [];
      if (last?.kind !== "work") parts.push({ kind: "work", items: group });
      group.push(item);
      if (item.call) called.set(item.call.id, group);
    }
  }
  return parts;
}

/** Returns where the children are drawn: before the first announcement, otherwise before the final text. */
export function childrenAt(parts: readonly Part[]): number {
  const report = parts.findIndex((part) => part.kind === "report");
  if (report >= 0) return report;
  const last = parts.at(-1);
  return last?.kind === "said" ? parts.length - 1 : parts.length;
}

function TurnView({ turn }: { turn: Turn }) {
  const task: Task = store.tasks.get(turn.task.task_id)?.value ?? turn.task;
  const parts = useMemo(() => partsOf(turn.items), [turn.items]);
  const spoken = store.streamedText(task.task_id).value;
  const running = !hasEnded(task);
  const waiting = waitingText(task);
  const until = turn.items.reduce(
    (last, item) => (item.kind === "assistant" || item.kind === "finished" ? Math.max(last, item.seq) : last),
    0,
  );
  const place = childrenAt(parts);
  const todos = useMemo(() => latestTodos(turn.items), [turn.items]);
  const last = parts.findLast((part) => part.kind === "said");
  const answer = last?.kind === "said" ? last.item.text : "";
  const draw = (part: Part, at: number) => {
    switch (part.kind) {
      case "mine":
        return (
          <div class="mine" key={part.item.seq}>
            {sanitize(part.item.text)}
          </div>
        );
      case "said":
        return <Markdown key={part.item.seq} text={part.item.text} />;
      case "report":
        return <ItemView key={part.item.seq} item={part.item} />;
      case "work":
        return (
          <details class="steps" key={`work-${at}`}>
            <summary>{t("chat.work", { count: part.items.length })}</summary>
            <Transcript task={task.task_id} items={part.items} until={until} />
          </details>
        );
    }
  };
  return (
    <article class="turn">
      {!parts.some((part) => part.kind === "mine") && <div class="mine">{sanitize(turn.task.message)}</div>}
      {parts.slice(0, place).map(draw)}
      {turn.children.length > 0 && (
        <div>
          <h2 class="quiet small">{t("chat.children")}</h2>
          <ul class="kids">
            {turn.children.slice(0, 200).map((child) => (
              <li key={child.task_id}>
                <ChildCard id={child.task_id} base={task.depth} />
              </li>
            ))}
          </ul>
        </div>
      )}
      {parts.slice(place).map((part, at) => draw(part, at + place))}
      {spoken && running && (
        <div class="speaking">
          <Markdown text={spoken} />
        </div>
      )}
      {running && todos && (
        <div class="card">
          <h2>{t("task.todos")}</h2>
          <Checklist todos={todos} />
        </div>
      )}
      <p class="row wrap small quiet">
        <StatusText task={task} />
        {waiting && <span>{waiting}</span>}
        <Elapsed task={task} />
        {task.total_usage.cost_usd !== null && <span>{money(task.total_usage.cost_usd)}</span>}
        <a href={href({ page: "task", id: task.task_id, tab: "" })}>{t("do.open")}</a>
        {answer && <Copy what="answer" text={() => sanitize(answer)} />}
      </p>
      {task.error && <p class="trouble">{sanitize(task.error)}</p>}
    </article>
  );
}

/** The grants of the session; an administrator can revoke them. */
function Grants({
  session,
  grants,
  onGone,
}: {
  session: string;
  grants: SessionDetail["grants"];
  onGone: () => void;
}) {
  const revoke = (rule: string) =>
    void attempt(remove("/api/sessions/{id}/grants", { path: { id: session }, query: { rule } }), () =>
      t("done.revoke", { rule: escapeHiddenLine(rule) }),
    ).then(onGone);
  return (
    <details class="card">
      <summary>
        {t("chat.grants")} ({grants.length})
      </summary>
      <ul class="todo">
        {grants.map((grant) => (
          <li key={grant.rule}>
            <code class="grow">{sanitizeLine(grant.rule)}</code>
            <span class="quiet small">
              {sanitizeLine(grant.by)}, {moment(grant.at)}
            </span>
            {store.me.value?.role === "admin" && (
              <button type="button" class="button small" onClick={() => revoke(grant.rule)}>
                {t("chat.revoke")}
              </button>
            )}
          </li>
        ))}
      </ul>
    </details>
  );
}

/** The open requests of the turns. Not found by session id: another tenant may use the same one. */
function Requests({ roots }: { roots: string[] }) {
  const open = [...store.requests.value.values()].filter((request) => roots.includes(request.root_id));
  return (
    <>
      {open.map((request) => (
        <RequestCard key={request.id} request={request} linked />
      ))}
    </>
  );
}

function Compose({
  id,
  running,
  first,
  onSent,
}: {
  id: string;
  running: string | null;
  first: boolean;
  onSent: (sent: Sent) => void;
}) {
  const [text, setText] = useDraft(`chat.${id}`);
  const [model, setModel] = useDraft(`model.${id}`);
  const [busy, setBusy] = useState(false);
  if (!canAct()) return null;
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    const words = text.trim();
    if (!words || busy) return;
    const form = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    const done = await attempt(
      post("/api/sessions/{id}/messages", {
        path: { id },
        body: {
          text: words,
          agent: field(form, "agent"),
          model: model || undefined,
          mode: field(form, "mode") as Mode | undefined,
          workspace: field(form, "workspace"),
          lang: lang.value,
        },
      }),
    );
    setBusy(false);
    if (!done) return;
    setText("");
    if (done.steered) notify(t("chat.steered"));
    onSent({ text: words, task: done.task_id, steered: done.steered });
  };
  const stop = () =>
    running &&
    void attempt(post("/api/tasks/{id}/cancel", { path: { id: running } }), (done) =>
      t("done.stop", { count: done.cancelled.length }),
    );
  return (
    <div class="compose">
      <form onSubmit={(event) => void send(event)}>
        <textarea
          class="field"
          rows={2}
          aria-label={t("chat.message")}
          placeholder={t(running ? "chat.steer.hint" : "chat.hint")}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) =>
            event.key === "Enter" &&
            !event.shiftKey &&
            !event.isComposing &&
            (event.preventDefault(), event.currentTarget.form?.requestSubmit())
          }
        />
        <div class="row wrap">
          <button type="submit" class="button primary" disabled={busy || !text.trim()}>
            {t("do.send")}
          </button>
          {running && (
            <button type="button" class="button danger" onClick={stop}>
              {t("do.stop")}
            </button>
          )}
          {!running && <ModelSelect value={model} onChoose={setModel} />}
          {!running && (
            <details class="grow" key={String(first)}>
              <summary class="small quiet">{t("chat.options")}</summary>
              <div class="row wrap">
                <label class="labelled">
                  {t("new.agent")}
                  <AgentSelect main />
                </label>
                <label class="labelled">
                  {t("new.mode")}
                  <ModeSelect />
                </label>
                <label class="labelled grow">
                  {t("new.workspace")}
                  <input class="field mono" name="workspace" placeholder={t("new.workspace.hint")} />
                </label>
              </div>
            </details>
          )}
          {running && (
            <span class="small quiet" role="status">
              {word("status", "running")}
            </span>
          )}
        </div>
      </form>
    </div>
  );
}
