// Cards for approval requests and questions, with everything the approver needs to decide.
import { useLayoutEffect, useState } from "preact/hooks";
import { get, post } from "../api/client";
import type { Approval, Question, Request } from "../api/types";
import { relative } from "../format";
import { t, word } from "../i18n";
import { canAct, labelFor, now, refreshRequests, store } from "../live";
import { sanitize, escapeHidden, escapeHiddenLine, sanitizeLine } from "../markdown/sanitize";
import { Markdown } from "../markdown/lazy";
import { href } from "../router";
import { Json, looksLikeDiff, Preview } from "./code";
import { useDraft, useKeys, useLoad } from "./hooks";
import { AgentName, attempt, Loading, notify, ProblemNotice } from "./parts";

/** The time of a double click, or of a user's reaction to a list that moves. */
const MOVED_MS = 700;
/** When a card was last removed: the next card moves to its place, under the pointer. */
let movedAt = -Infinity;

export function RequestCard({ request, linked = false }: { request: Request; linked?: boolean }) {
  useLayoutEffect(() => () => void (movedAt = performance.now()), []);
  const title = t(request.kind === "approval" ? "ask.approval" : "ask.question", {
    label: labelFor(request.task_id, request.label),
  });
  return (
    <article
      class={`card ask stack ${request.approval?.dangers.length ? "dangerous" : ""}`}
      aria-label={title}
    >
      <div class="row wrap">
        <h2 class="grow">{title}</h2>
        <AgentName name={request.agent} />
        <span class="quiet small">{t("ask.expires", { when: relative(request.expires_at, now.value) })}</span>
        {linked && (
          <a class="button small" href={href({ page: "task", id: request.task_id, tab: "" })}>
            {t("ask.open")}
          </a>
        )}
      </div>
      <Whole request={request} />
    </article>
  );
}

/** Loads the complete request first: lists truncate long texts, and the approver must see all of it. */
function Whole({ request }: { request: Request }) {
  const loaded = useLoad(request.cut ? `${request.kind}/${request.id}` : null, (signal) =>
    fetchWhole(request, signal),
  );
  if (request.cut && loaded.problem) return <ProblemNotice problem={loaded.problem} again={loaded.reload} />;
  const whole = request.cut ? loaded.data : request;
  if (!whole) return <Loading />;
  return (
    <>
      {whole.approval && <ApprovalForm request={request} approval={whole.approval} />}
      {whole.question && <QuestionForm request={request} question={whole.question} />}
    </>
  );
}

function fetchWhole({ kind, id }: Request, signal?: AbortSignal): Promise<Request> {
  const options = { path: { id }, signal };
  return kind === "approval" ? get("/api/approvals/{id}", options) : get("/api/questions/{id}", options);
}

/** Requests that this page replied to; it shows no notice for them. */
const mine = new Set<string>();

function useReply(
  request: Request,
  done: () => void,
): [boolean, (send: () => Promise<unknown>, words: string) => void] {
  const [busy, setBusy] = useState(false);
  const reply = async (send: () => Promise<unknown>, words: string) => {
    if (performance.now() - movedAt < MOVED_MS) return notify(t("ask.moved"));
    setBusy(true);
    mine.add(request.id);
    const noted = await attempt(send(), () => words);
    setBusy(false);
    // The draft is deleted only after the server has accepted it.
    if (noted !== undefined) done();
    refreshRequests();
  };
  return [busy || request.reply !== null, (send, words) => void reply(send, words)];
}

/** The length at which a notification truncates the text of a request. */
const MAX_NOTICE_CHARS = 80;

function shorten(text: string): string {
  const characters = [...escapeHiddenLine(text)];
  return characters.length > MAX_NOTICE_CHARS
    ? `${characters.slice(0, MAX_NOTICE_CHARS).join("")}…`
    : characters.join("");
}

/** Describes who replied to a request, and how. */
export function replied(request: Request): string {
  const reply = request.reply;
  const by = escapeHiddenLine(reply?.by ?? "");
  switch (reply?.reply) {
    case "approved":
      return t("ask.elsewhere.approved", { by });
    case "refused":
      return t("ask.elsewhere.refused", { by });
    case "answered":
      return t("ask.elsewhere.answered", { by, text: shorten(reply.text ?? "") });
    case "expired":
      return t("ask.elsewhere.expired");
    default:
      return t("ask.elsewhere.ended");
  }
}

/** Shows a notification when a request that is on screen was answered by another client. */
export function watchWithdrawn(): void {
  store.withdrawn.subscribe((request) => {
    if (!request || mine.delete(request.id)) return;
    const what = request.approval
      ? `${escapeHiddenLine(request.approval.tool)} ${shorten(request.approval.exact)}`
      : shorten(request.question?.text ?? "");
    // If this fails no notification is shown; the card is removed either way.
    void fetchWhole(request).then(
      (whole) => notify(t("ask.withdrawn", { what, reply: replied(whole) })),
      () => undefined,
    );
  });
}

/**
 * Lets `y` approve and `d` deny the request that has the focus. If none has it, the first press only selects the
 * first one: no key decides about a request that the user has not looked at, and none approves a dangerous call.
 */
export function useRequestKeys(): void {
  const decide = (decision: "approve" | "deny") => {
    const buttons = [...document.querySelectorAll<HTMLButtonElement>(`main article [data-${decision}]`)];
    const button = buttons.find((one) => one.closest("article")!.contains(document.activeElement));
    if (!button) {
      const first = buttons[0]?.closest("article")?.querySelector<HTMLElement>("[data-default]");
      first?.focus();
      if (first) notify(t("ask.key.again"));
    } else if (decision === "approve" && button.closest(".dangerous")) notify(t("ask.key.dangerous"), true);
    else button.click();
  };
  useKeys({ y: () => decide("approve"), d: () => decide("deny") });
}

function ApprovalForm({ request, approval }: { request: Request; approval: Approval }) {
  const [words, setWords] = useDraft(`words.${request.id}`);
  const [lasting, setLasting] = useState("");
  const [busy, reply] = useReply(request, () => setWords(""));
  const dangerous = approval.dangers.length > 0;
  const what = `${escapeHiddenLine(approval.tool)} ${shorten(approval.exact)}`;
  const approve = () =>
    reply(
      () =>
        post("/api/approvals/{id}", {
          path: { id: request.id },
          body: { decision: "approve", lasting: lasting || undefined },
        }),
      t("ask.approved", { what }),
    );
  const deny = () =>
    reply(
      () =>
        post("/api/approvals/{id}", {
          path: { id: request.id },
          body: { decision: "deny", words: words.trim() || undefined },
        }),
      t("ask.denied", { what }),
    );
  return (
    <>
      {dangerous && (
        <div class="dangers" role="note">
          <b>{t("ask.danger")}</b>
          <ul>
            {approval.dangers.map((danger) => (
              <li>
                <b>{sanitize(danger.why)}</b> <code>{escapeHiddenLine(danger.command)}</code>{" "}
                {t("ask.instead", { what: sanitize(danger.instead) })}
              </li>
            ))}
          </ul>
        </div>
      )}
      <div>
        <h3>{t("ask.exact", { tool: escapeHiddenLine(approval.tool) })}</h3>
        <pre class="code exact" tabIndex={0}>
          {escapeHidden(approval.exact)}
        </pre>
      </div>
      {approval.preview && (
        <div>
          <h3>{t(looksLikeDiff(approval.preview) ? "ask.preview.diff" : "ask.preview")}</h3>
          <Preview text={approval.preview} />
        </div>
      )}
      <dl class="facts">
        <dt>{t("ask.reason")}</dt>
        <dd>
          {sanitize(approval.reason)}{" "}
          <span class="tag">{t("ask.layer", { layer: word("layer", approval.layer) })}</span>
          {approval.rule && (
            <>
              {" "}
              <code>{escapeHiddenLine(approval.rule)}</code>
            </>
          )}
        </dd>
        <dt>{t("ask.folder")}</dt>
        <dd class="mono">{escapeHiddenLine(approval.folder)}</dd>
      </dl>
      <details open={hasMore(approval)}>
        <summary>{t("ask.arguments")}</summary>
        <Json value={approval.arguments} open={2} safely={escapeHidden} />
      </details>
      {canAct() && !dangerous && approval.lasting.length > 0 && (
        <label class="labelled">
          {t("ask.lasting")}
          <select class="field" value={lasting} onChange={(event) => setLasting(event.currentTarget.value)}>
            <option value="">{t("ask.lasting.once")}</option>
            {approval.lasting.map((rule) => (
              <option key={rule} value={rule}>
                {escapeHiddenLine(rule)}
              </option>
            ))}
          </select>
        </label>
      )}
      {canAct() && (
        <label class="labelled">
          {t("ask.words")}
          <input
            class="field"
            value={words}
            maxLength={2_000}
            onInput={(event) => setWords(event.currentTarget.value)}
          />
        </label>
      )}
      {canAct() && (
        <div class="row">
          <button
            type="button"
            class={`button ${dangerous ? "primary" : ""}`}
            data-default
            data-deny
            disabled={busy}
            onClick={deny}
          >
            {t("ask.deny")}
          </button>
          <button
            type="button"
            class={`button ${dangerous ? "danger" : "primary"}`}
            data-approve
            disabled={busy}
            onClick={approve}
          >
            {t("ask.approve")}
          </button>
        </div>
      )}
    </>
  );
}

/** Returns whether a call has arguments that neither the exact text nor the diff shows. */
function hasMore(approval: Approval): boolean {
  const all = approval.arguments;
  if (typeof all !== "object" || all === null) return true;
  const shown = (name: string, value: unknown) =>
    value === approval.exact ||
    (approval.preview !== null && ["content", "old_string", "new_string"].includes(name));
  return (
    approval.exact !== JSON.stringify(all) &&
    !Object.entries(all).every(([name, value]) => shown(name, value))
  );
}

function QuestionForm({ request, question }: { request: Request; question: Question }) {
  const [text, setText] = useDraft(`answer.${request.id}`);
  const [busy, reply] = useReply(request, () => setText(""));
  const send = (answer: string) =>
    answer.trim() &&
    reply(
      () => post("/api/questions/{id}", { path: { id: request.id }, body: { text: answer.trim() } }),
      t("ask.answered", { what: shorten(answer.trim()) }),
    );
  return (
    <>
      <Markdown text={question.text} />
      {question.to === "parent" && <p class="quiet small">{t("ask.toParent")}</p>}
      {canAct() && question.options.length > 0 && (
        <div class="row wrap">
          {question.options.map((option) => (
            <button type="button" key={option} class="button" disabled={busy} onClick={() => send(option)}>
              {sanitizeLine(option)}
            </button>
          ))}
        </div>
      )}
      {canAct() && (
        <form class="row" onSubmit={(event) => (event.preventDefault(), send(text))}>
          <input
            class="field grow"
            aria-label={t("ask.answer")}
            placeholder={t("ask.answer")}
            value={text}
            maxLength={20_000}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <button type="submit" class="button primary" disabled={busy || !text.trim()}>
            {t("do.send")}
          </button>
        </form>
      )}
      {question.default !== null && (
        <p class="quiet small">{t("ask.answer.default", { text: sanitizeLine(question.default) })}</p>
      )}
    </>
  );
}
