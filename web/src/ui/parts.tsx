// Components that every page uses.
import { computed, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Problem } from "../api/client";
import type { Balance, Task } from "../api/types";
import { age, amount, DASH, duration, elapsed, moment } from "../format";
import { lang, t, word } from "../i18n";
import { agents, needsYou, now } from "../live";
import { hasEnded } from "../live/status";
import { sanitizeLine } from "../markdown/sanitize";
import { StatusIcon, type Mark } from "./icons";

export function markOf(task: Task): Mark {
  if (task.paused && !hasEnded(task)) return "paused";
  return needsYou(task) ? "needs_you" : task.status;
}

export function StatusText({ task }: { task: Task }) {
  const mark = markOf(task);
  const cancelling = task.cancel_requested && !hasEnded(task);
  return (
    <span class={`status s-${mark}`}>
      <StatusIcon mark={mark} />
      <span>{cancelling ? t("status.cancelling") : word("status", mark)}</span>
    </span>
  );
}

/** Shows the progress of a running task. The status says more than an empty or a full bar. */
export function Progress({ task }: { task: Task }) {
  if (hasEnded(task) || task.progress <= 0 || task.progress >= 100) return null;
  return (
    <span class="meter">
      <progress class={`s-${task.status}`} max={100} value={task.progress} aria-label={t("task.progress")} />
      <span>{task.progress}%</span>
    </span>
  );
}

export function AgentName({ name }: { name: string }) {
  const color = agents.value.find((agent) => agent.name === name)?.color;
  const known = color && /^[a-z]+$/.test(color) ? `c-${color}` : "";
  return (
    <span class="agent">
      <i class={known} aria-hidden="true" />
      <span class="cut">{sanitizeLine(name)}</span>
    </span>
  );
}

/** Returns what a task waits for, or why it ended. */
export function waitingText(task: Task): string {
  // The reason "error" says no more than the status.
  if (hasEnded(task)) return task.reason && task.reason !== "error" ? word("reason", task.reason) : "";
  if (task.queue_position !== null) return t("wait.queue", { place: task.queue_position });
  return task.waiting_on ? word("wait", task.waiting_on) : "";
}

/** Shows the elapsed time. Only a running task subscribes to the clock. */
export function Elapsed({ task }: { task: Task }) {
  const running = task.started_at !== null && !hasEnded(task);
  return <>{duration(elapsed(task, running ? now.value : 0))}</>;
}

/** Shows how long ago something was. Drawn again only when the words change. */
export function Age({ at }: { at: string | null }) {
  const words = useMemo(() => computed(() => age(at, now.value)), [at]);
  if (!at) return <>{DASH}</>;
  return (
    <time dateTime={at} title={moment(at)}>
      {words.value}
    </time>
  );
}

export function Gauge({ balance }: { balance: Balance }) {
  const used = balance.spent + balance.reserved;
  const level = balance.limit > 0 ? used / balance.limit : 1;
  const name = word("task.budget", balance.kind);
  return (
    <div class={`gauge ${level >= 1 ? "over" : level >= 0.8 ? "high" : ""}`}>
      <span>{name}</span>
      <progress max={balance.limit || 1} value={Math.min(used, balance.limit || 1)} aria-label={name} />
      <span class="quiet">
        {t("task.budget.of", {
          spent: amount(balance.kind, balance.spent),
          limit: amount(balance.kind, balance.limit),
        })}
        {balance.reserved > 0 &&
          ` · ${t("task.budget.reserved", { reserved: amount(balance.kind, balance.reserved) })}`}
      </span>
    </div>
  );
}

/** Draws a text of the page; what is between backquotes becomes code. */
export function WithCode({ text }: { text: string }) {
  return (
    <>{text.split("`").map((part, index) => (index % 2 === 0 ? part : <code key={index}>{part}</code>))}</>
  );
}

export function Loading() {
  return (
    <p class="none" role="status">
      {t("app.loading")}
    </p>
  );
}

/** Describes a problem in the language of the page. The detail of the server is English and is appended in others. */
export function describeProblem(problem: unknown): string {
  if (!(problem instanceof Problem))
    return sanitizeLine(problem instanceof Error ? problem.message : String(problem));
  const slug =
    problem.status === 0 ? "unreachable" : problem.slug || (problem.status === 404 ? "not-found" : "");
  const words = slug ? word("problem", slug) : "";
  if (problem.status === 0 || problem.status === 404) return words;
  return lang.value === "en" || !words || words === slug
    ? sanitizeLine(problem.message)
    : `${words} ${sanitizeLine(problem.message)}`;
}

export function ProblemNotice({ problem, again }: { problem: Problem; again?: () => void }) {
  return (
    <div class="trouble" role="alert">
      <span class="grow">{describeProblem(problem)}</span>
      {again && (
        <button type="button" class="button small" onClick={again}>
          {t("app.again")}
        </button>
      )}
    </div>
  );
}

interface Note {
  id: number;
  text: string;
  bad: boolean;
}
const notes = signal<Note[]>([]);
let noted = 0;
const NOTE_MS = 5_000;
const MAX_NOTES = 4;

export function notify(text: string, bad = false): void {
  const note = { id: ++noted, text, bad };
  notes.value = [...notes.value, note].slice(-MAX_NOTES);
  setTimeout(
    () => (notes.value = notes.value.filter((other) => other !== note)),
    bad ? NOTE_MS * 2 : NOTE_MS,
  );
}

/** Awaits an action and notifies the user of its success or failure. Returns undefined on failure. */
export async function attempt<T>(work: Promise<T>, done?: (result: T) => string): Promise<T | undefined> {
  try {
    const result = await work;
    if (done) notify(done(result));
    return result;
  } catch (error) {
    notify(t("app.error", { what: describeProblem(error) }), true);
    return undefined;
  }
}

export function Notifications() {
  return (
    <div class="notes" role="status" aria-live="polite">
      {notes.value.map((note) => (
        <div key={note.id} class={`note ${note.bad ? "bad" : ""}`}>
          {note.text}
        </div>
      ))}
    </div>
  );
}

export function Dialog({
  title,
  onClose,
  children,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const held = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = held.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={held}
      aria-label={title}
      onCancel={(event) => (event.preventDefault(), onClose())}
      onClick={(event) => event.target === held.current && onClose()}
    >
      <h1>{title}</h1>
      {children}
    </dialog>
  );
}

interface Confirmation {
  text: string;
  yes: string;
  no: string;
  act: () => void;
}
const doubt = signal<Confirmation | null>(null);

/** Asks the user to confirm an irreversible action. `no` names the alternative, which is the default. */
export function confirm(text: string, yes: string, no: string, act: () => void): void {
  doubt.value = { text, yes, no, act };
}

export function ConfirmDialog() {
  const asked = doubt.value;
  if (!asked) return null;
  const close = () => (doubt.value = null);
  return (
    <Dialog title={asked.yes} onClose={close}>
      <p>{asked.text}</p>
      <div class="row end">
        <button type="button" class="button" autofocus onClick={close}>
          {asked.no}
        </button>
        <button type="button" class="button danger" onClick={() => (close(), asked.act())}>
          {asked.yes}
        </button>
      </div>
    </Dialog>
  );
}
