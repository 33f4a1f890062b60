// The frame around all pages: navigation, theme, language, connection status.
import { effect } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { loggedOut, post } from "./api/client";
import { forgetPageKey } from "./api/page-key";
import { choose, lang, t, word, type Key } from "./i18n";
import { connection, now, store } from "./live";
import { fromQuery } from "./live/flatten";
import { TaskList } from "./live/task-list";
import { go, href, place, type Place } from "./router";
import { ApprovalsPage } from "./pages/approvals";
import { TasksPage } from "./pages/tasks";
import { TaskPage } from "./pages/task";
import { Pre } from "./ui/code";
import { handleKey, stale, title, useKeys, useTitle } from "./ui/hooks";
import { Icon, Logo, type IconName } from "./ui/icons";
import { Lazy } from "./ui/lazy";
import { NoModelNotice } from "./ui/model";
import { Dialog, ConfirmDialog, Loading, Notifications, notify, describeProblem } from "./ui/parts";
import { cycle, theme } from "./ui/theme";

const PAGES: readonly { key: string; icon: IconName; name: Key; to: Place; pages: readonly string[] }[] = [
  { key: "t", icon: "tasks", name: "nav.tasks", to: { page: "tasks" }, pages: ["tasks", "task"] },
  { key: "c", icon: "chat", name: "nav.chat", to: { page: "chat", session: null }, pages: ["chat"] },
  {
    key: "l",
    icon: "timeline",
    name: "nav.timeline",
    to: { page: "timeline", id: null },
    pages: ["timeline"],
  },
  { key: "a", icon: "approvals", name: "nav.approvals", to: { page: "approvals" }, pages: ["approvals"] },
  { key: "e", icon: "agents", name: "nav.agents", to: { page: "agents", name: null }, pages: ["agents"] },
  { key: "s", icon: "stats", name: "nav.stats", to: { page: "stats" }, pages: ["stats"] },
];

export function App() {
  const at = place.value;
  const subject = "id" in at ? at.id : "session" in at ? at.session : null;
  const main = useRef<HTMLElement>(null);
  const [taskList] = useState(newTaskList);
  const [helping, setHelping] = useState(false);
  useEffect(() => {
    addEventListener("keydown", handleKey);
    return () => removeEventListener("keydown", handleKey);
  }, []);
  useEffect(() => {
    // A new page starts at its top.
    if (document.activeElement === document.body || document.activeElement?.closest("nav"))
      main.current?.focus({ preventScroll: true });
    main.current?.scrollTo(0, 0);
  }, [at.page, subject]);
  useKeys({
    "?": () => setHelping(true),
    T: cycle,
    ...Object.fromEntries(PAGES.map((page) => [`g ${page.key}`, () => go(page.to)])),
  });
  if (loggedOut.value) return <LoggedOut />;
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        {t("app.skip")}
      </a>
      <Bar onHelp={() => setHelping(true)} />
      <ConnectionNotice />
      <StaleNotice />
      <NoModelNotice />
      <main id="main" ref={main} tabIndex={-1}>
        {connection.status.value.state === "connecting" && !store.me.value ? (
          <Loading />
        ) : (
          <Current at={at} taskList={taskList} />
        )}
      </main>
      <Notifications />
      <ConfirmDialog />
      {helping && <Help onClose={() => setHelping(false)} />}
    </div>
  );
}

/** Creates the task list. An address that was typed or reloaded determines the filter, also if it has none. */
function newTaskList(): TaskList {
  const list = new TaskList(store.tasks);
  if (place.peek().page === "tasks") list.filter.value = fromQuery(location.search);
  return list;
}

function Current({ at, taskList }: { at: Place; taskList: TaskList }) {
  switch (at.page) {
    case "tasks":
      return <TasksPage list={taskList} />;
    case "task":
      return <TaskPage key={at.id} id={at.id} tab={at.tab} />;
    case "approvals":
      return <ApprovalsPage />;
    case "timeline":
      return (
        <Lazy
          key="timeline"
          load={() => import("./pages/timeline").then((loaded) => loaded.TimelinePage)}
          props={{ id: at.id }}
        />
      );
    case "chat":
      return (
        <Lazy
          key="chat"
          load={() => import("./pages/chat").then((loaded) => loaded.ChatPage)}
          props={{ session: at.session }}
        />
      );
    case "agents":
      return (
        <Lazy
          key="agents"
          load={() => import("./pages/agents").then((loaded) => loaded.AgentsPage)}
          props={{ name: at.name }}
        />
      );
    case "unknown":
      return <Unknown />;
    case "stats":
      return (
        <Lazy
          key="stats"
          load={() => import("./pages/stats").then((loaded) => loaded.StatsPage)}
          props={{}}
        />
      );
  }
}

function Unknown() {
  useTitle(t("app.unknown"));
  return (
    <div class="page">
      <h1>{t("app.unknown")}</h1>
      <p>
        <a href={href({ page: "tasks" })}>{t("app.unknown.go")}</a>
      </p>
    </div>
  );
}

function Bar({ onHelp }: { onHelp: () => void }) {
  const waiting = store.requests.value.size;
  const page = place.value.page;
  const me = store.me.value;
  return (
    <header class="bar">
      <a class="brand" href="/tasks">
        <Logo />
        <span>Sortie</span>
      </a>
      <nav aria-label={t("nav.label")}>
        {PAGES.map((entry) => (
          <a
            key={entry.key}
            href={href(entry.to)}
            aria-current={entry.pages.includes(page) ? "page" : undefined}
          >
            <Icon name={entry.icon} size={15} />
            <span>{t(entry.name)}</span>
            {entry.key === "a" && waiting > 0 && (
              <span class="badge" aria-label={t("approvals.count", { count: waiting })}>
                {waiting > 99 ? "99+" : waiting}
              </span>
            )}
          </a>
        ))}
      </nav>
      <div class="tools">
        <Live />
        <button
          type="button"
          class="button plain"
          aria-label={`${t("app.theme")}: ${t(`app.theme.${theme.value}`)}`}
          title={t(`app.theme.${theme.value}`)}
          onClick={cycle}
        >
          <Icon name={theme.value === "light" ? "sun" : theme.value === "dark" ? "moon" : "half"} />
        </button>
        <button
          type="button"
          class="button plain"
          lang={lang.value === "en" ? "zh" : "en"}
          aria-label={`${t("app.language")}: ${lang.value === "en" ? "中文" : "English"}`}
          onClick={() => choose(lang.value === "en" ? "zh" : "en")}
        >
          {lang.value === "en" ? "中文" : "English"}
        </button>
        <button
          type="button"
          class="button plain"
          aria-label={t("app.keys")}
          title={me ? t("app.role", { name: me.name, role: word("role", me.role) }) : undefined}
          onClick={onHelp}
        >
          <Icon name="help" />
        </button>
      </div>
    </header>
  );
}

function Live() {
  const { state } = connection.status.value;
  return (
    <span class="live" data-state={state}>
      <i aria-hidden="true" />
      <span>{state === "on" ? t("live.on") : state === "connecting" ? t("live.connecting") : ""}</span>
    </span>
  );
}

/** Shown while a reload fails: the old data stays visible and the load is retried. */
function StaleNotice() {
  const [problem] = stale.value.values();
  if (!problem || connection.status.value.state === "lost") return null;
  return (
    <div class="old" role="status">
      {t("app.old", { what: describeProblem(problem) })}
    </div>
  );
}

/** Shown while the connection is lost, with the time to the next attempt and a button to retry at once. */
function ConnectionNotice() {
  const status = connection.status.value;
  const wasLost = useRef(false);
  useEffect(() => {
    if (status.state === "on" && wasLost.current) notify(t("live.back"));
    if (status.state !== "connecting") wasLost.current = status.state === "lost";
  }, [status.state]);
  if (status.state !== "lost") return <div role="status" hidden />;
  const seconds = Math.max(0, Math.ceil((status.until - now.value) / 1_000));
  return (
    <div class="lost">
      <span role="status">{t(navigator.onLine ? "live.lost" : "live.offline")}</span>
      <span>{t("live.lost.again", { seconds })}</span>
      <button type="button" class="button small" onClick={() => connection.open()}>
        {t("live.now")}
      </button>
    </div>
  );
}

function LoggedOut() {
  return (
    <main class="login card">
      <span class="brand">
        <Logo />
        <span>Sortie</span>
      </span>
      <h1>{t("login.title")}</h1>
      {loggedOut.value === "no-page-key" && <p>{t("login.no-page-key")}</p>}
      <p>{t("login.open")}</p>
      <Pre text="sortie open" />
      <p class="quiet small">{t("login.why")}</p>
      <p>
        <a
          class="button"
          href={`/login?next=${encodeURIComponent(location.pathname + location.search)}`}
          target="_self"
        >
          {t("login.paste")}
        </a>
      </p>
    </main>
  );
}

/** The shortcuts by the page on which they work. */
const KEYS: readonly { on: Key; keys: readonly [string, Key][] }[] = [
  {
    on: "keys.everywhere",
    keys: [
      ["?", "keys.help"],
      ["g t, c, l, a, e, s", "keys.page"],
      ["Shift T", "keys.theme"],
      ["Esc", "keys.back"],
    ],
  },
  {
    on: "nav.tasks",
    keys: [
      ["/", "keys.search"],
      ["j k", "keys.next"],
      ["Enter", "keys.open"],
      ["h l", "keys.fold"],
      ["n", "keys.new"],
    ],
  },
  {
    on: "keys.task",
    keys: [
      ["x", "keys.cancel"],
      ["p", "keys.pause"],
      ["r", "keys.retry"],
      ["Shift D", "keys.delete"],
      ["[ ]", "keys.tab"],
    ],
  },
  {
    on: "keys.requests",
    keys: [
      ["j k", "keys.next"],
      ["y", "keys.approve"],
      ["d", "keys.deny"],
    ],
  },
  {
    on: "nav.chat",
    keys: [
      ["n", "keys.newChat"],
      ["j k", "keys.next"],
      ["/", "keys.write"],
    ],
  },
];

function Help({ onClose }: { onClose: () => void }) {
  const me = store.me.value;
  const logout = () =>
    void post("/api/logout").finally(() => {
      forgetPageKey();
      loggedOut.value = "ended";
    });
  return (
    <Dialog title={t("keys.title")} onClose={onClose}>
      <div class="shortcuts">
        {KEYS.map(({ on, keys }) => (
          <section key={on}>
            <h2>{t(on)}</h2>
            <dl class="facts">
              {keys.map(([key, text]) => (
                <>
                  <dt>
                    <kbd>{key}</kbd>
                  </dt>
                  <dd>{t(text)}</dd>
                </>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <div class="row end">
        {me && (
          <span class="quiet small grow">
            {t("app.role", { name: me.name, role: word("role", me.role) })} · {store.version.value}
          </span>
        )}
        {me?.via === "browser" && (
          <button type="button" class="button" onClick={logout}>
            {t("app.logout")}
          </button>
        )}
        <button type="button" class="button primary" autofocus onClick={onClose}>
          {t("app.close")}
        </button>
      </div>
    </Dialog>
  );
}

effect(() => {
  const waiting = store.requests.value.size;
  document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${title.value ? `${title.value} – ` : ""}Sortie`;
  document.documentElement.lang = lang.value;
});
