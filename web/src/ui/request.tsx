// Somebody asks: cards for approvals and questions, with all that a person needs to decide.
import { useState } from "preact/hooks";
import { get, path, post } from "../api/client";
import type { Approval, Question, Request } from "../api/types";
import { relative } from "../format";
import { t, word } from "../i18n";
import { mayAct, now, refreshRequests } from "../live";
import { clean, line } from "../markdown/clean";
import { Markdown } from "../markdown/lazy";
import { href } from "../router";
import { Json, Preview } from "./code";
import { useDraft, useLoad } from "./hooks";
import { AgentName, attempt, Loading, Trouble } from "./parts";

export function RequestCard({ request, linked = false }: { request: Request; linked?: boolean }) {
  const title = t(request.kind === "approval" ? "ask.approval" : "ask.question", { label: line(request.label) });
  return (
    <article class="card ask stack" aria-label={title}>
      <div class="row wrap">
        <h2 class="grow">{title}</h2>
        <AgentName name={request.agent} />
        <span class="quiet small">{t("ask.expires", { when: relative(request.expires_at, now.value) })}</span>
        {linked && <a class="button small" href={href({ page: "task", id: request.task_id, tab: "" })}>{t("ask.open")}</a>}
      </div>
      <Whole request={request} />
    </article>
  );
}

/** Lists have long texts cut. Nobody decides about what was not shown, so the whole is asked for first. */
function Whole({ request }: { request: Request }) {
  const url = request.kind === "approval" ? path`/api/approvals/${request.id}` : path`/api/questions/${request.id}`;
  const loaded = useLoad(request.cut ? url : null, (signal) => get<Request>(url, signal));
  if (request.cut && loaded.problem) return <Trouble problem={loaded.problem} again={loaded.reload} />;
  const whole = request.cut ? loaded.data : request;
  if (!whole) return <Loading />;
  return (
    <>
      {whole.approval && <ApprovalForm request={request} approval={whole.approval} />}
      {whole.question && <QuestionForm request={request} question={whole.question} />}
    </>
  );
}

interface Noted { noted?: boolean }

function useReply(request: Request, done: () => void): [boolean, (url: string, body: object) => void] {
  const [busy, setBusy] = useState(false);
  const reply = async (url: string, body: object) => {
    setBusy(true);
    const noted = await attempt(post<Noted | null>(url, body), (done) => t(done && done.noted === false ? "ask.earlier" : "ask.noted"));
    setBusy(false);
    // A draft is kept until its words arrived, and no longer.
    if (noted !== undefined) done();
    refreshRequests();
  };
  return [busy || request.reply !== null, (url, body) => void reply(url, body)];
}

function ApprovalForm({ request, approval }: { request: Request; approval: Approval }) {
  const [words, setWords] = useDraft(`words.${request.id}`);
  const [lasting, setLasting] = useState("");
  const [busy, reply] = useReply(request, () => setWords(""));
  const decide = (decision: "approve" | "deny") =>
    reply(path`/api/approvals/${request.id}`, { decision, ...(decision === "approve" ? (lasting ? { lasting } : {}) : words.trim() ? { words: words.trim() } : {}) });
  return (
    <>
      <dl class="facts">
        <dt>{t("ask.tool")}</dt><dd class="mono">{line(approval.tool)}</dd>
        <dt>{t("ask.reason")}</dt><dd>{clean(approval.reason)} <span class="tag">{t("ask.layer", { layer: word("layer", approval.layer) })}</span>{approval.rule && <> <code>{line(approval.rule)}</code></>}</dd>
        <dt>{t("ask.folder")}</dt><dd class="mono">{line(approval.folder)}</dd>
      </dl>
      {approval.preview && <div><h3>{t("ask.preview")}</h3><Preview text={approval.preview} /></div>}
      <details open={!approval.preview}><summary>{t("ask.arguments")}</summary><Json value={approval.arguments} open={2} /></details>
      {mayAct() && approval.lasting.length > 0 && (
        <label class="labelled">{t("ask.lasting")}
          <select class="field" value={lasting} onChange={(event) => setLasting(event.currentTarget.value)}>
            <option value="">{t("ask.lasting.once")}</option>
            {approval.lasting.map((rule) => <option key={rule} value={rule}>{line(rule)}</option>)}
          </select>
        </label>
      )}
      {mayAct() && <label class="labelled">{t("ask.words")}<input class="field" value={words} maxLength={2_000} onInput={(event) => setWords(event.currentTarget.value)} /></label>}
      {mayAct() && <div class="row">
        <button type="button" class="button primary" disabled={busy} onClick={() => decide("approve")}>{t("ask.approve")}</button>
        <button type="button" class="button danger" disabled={busy} onClick={() => decide("deny")}>{t("ask.deny")}</button>
      </div>}
    </>
  );
}

function QuestionForm({ request, question }: { request: Request; question: Question }) {
  const [text, setText] = useDraft(`answer.${request.id}`);
  const [busy, reply] = useReply(request, () => setText(""));
  const send = (answer: string) => answer.trim() && reply(path`/api/questions/${request.id}`, { text: answer.trim() });
  return (
    <>
      <Markdown text={question.text} />
      {question.to === "parent" && <p class="quiet small">{t("ask.toParent")}</p>}
      {mayAct() && question.options.length > 0 && (
        <div class="row wrap">{question.options.map((option) => <button type="button" key={option} class="button" disabled={busy} onClick={() => send(option)}>{line(option)}</button>)}</div>
      )}
      {mayAct() && <form class="row" onSubmit={(event) => (event.preventDefault(), send(text))}>
        <input class="field grow" aria-label={t("ask.answer")} placeholder={t("ask.answer")} value={text} maxLength={20_000} onInput={(event) => setText(event.currentTarget.value)} />
        <button type="submit" class="button primary" disabled={busy || !text.trim()}>{t("do.send")}</button>
      </form>}
      {question.default !== null && <p class="quiet small">{t("ask.answer.default", { text: line(question.default) })}</p>}
    </>
  );
}
