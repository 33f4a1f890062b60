// The form for a background task.
import { useState } from "preact/hooks";
import { post } from "../api/client";
import type { Mode, Priority, Task } from "../api/types";
import { lang, t, word } from "../i18n";
import { agents, freshSession, store } from "../live";
import { labelOf } from "../live/label";
import { sanitizeLine } from "../markdown/sanitize";
import { go } from "../router";
import { field } from "../ui/form";
import { useDraft } from "../ui/hooks";
import { ModelSelect } from "../ui/model";
import { Dialog, notify, describeProblem } from "../ui/parts";

/** Returns the modes that the role may choose; the server enforces them. */
export function modes(): Mode[] {
  return store.me.value?.role === "admin"
    ? ["default", "plan", "accept-edits", "dont-ask", "yolo"]
    : ["default", "plan", "dont-ask"];
}

export function NewTask({ onClose }: { onClose: () => void }) {
  const [message, setMessage] = useDraft("new");
  const [model, setModel] = useDraft("new.model");
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState("");
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    if (!message.trim()) return;
    setBusy(true);
    setWrong("");
    const agent = field(form, "agent");
    // A main run delegates to subagents and is a chat of its own; other agents work alone, in the background.
    const main = !agent || agents.peek().some((one) => one.main && one.name === agent);
    let task: Task;
    try {
      task = await post("/api/tasks", {
        body: {
          message,
          label: field(form, "label"),
          agent,
          main: main || undefined,
          session_id: main ? freshSession() : undefined,
          model: model || undefined,
          mode: field(form, "mode") as Mode | undefined,
          priority: field(form, "priority") as Priority | undefined,
          workspace: field(form, "workspace"),
          isolation: form.get("isolation") ? "worktree" : undefined,
          lang: lang.value,
        },
      });
    } catch (error) {
      // Shown in the form: a notification would be behind the dialog.
      setBusy(false);
      setWrong(describeProblem(error));
      return;
    }
    setBusy(false);
    notify(t("done.create", { label: labelOf(task) }));
    setMessage("");
    store.tasks.put([task]);
    onClose();
    go({ page: "task", id: task.task_id, tab: "" });
  };
  return (
    <Dialog title={t("new.title")} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <label class="labelled">
          {t("new.message")}
          <textarea
            class="field"
            rows={5}
            required
            autofocus
            value={message}
            onInput={(event) => setMessage(event.currentTarget.value)}
            onKeyDown={(event) =>
              event.key === "Enter" &&
              (event.ctrlKey || event.metaKey) &&
              event.currentTarget.form?.requestSubmit()
            }
          />
        </label>
        <div class="row wrap">
          <label class="labelled">
            {t("new.agent")}
            <AgentSelect />
          </label>
          <ModelSelect value={model} onChoose={setModel} />
          <label class="labelled">
            {t("new.mode")}
            <ModeSelect />
          </label>
          <label class="labelled">
            {t("new.priority")}
            <select class="field" name="priority">
              {["normal", "high", "low"].map((priority) => (
                <option key={priority} value={priority}>
                  {word("priority", priority)}
                </option>
              ))}
            </select>
          </label>
        </div>
        <details>
          <summary>{t("new.options")}</summary>
          <div class="stack">
            <label class="labelled">
              {t("new.label")}
              <input class="field" name="label" maxLength={200} />
            </label>
            <label class="labelled">
              {t("new.workspace")}
              <input class="field mono" name="workspace" placeholder={t("new.workspace.hint")} />
            </label>
            <label class="check">
              <input type="checkbox" name="isolation" />
              {t("new.isolation")}
            </label>
          </div>
        </details>
        {wrong && (
          <div class="trouble" role="alert">
            {t("app.error", { what: wrong })}
          </div>
        )}
        <div class="row end">
          <button type="button" class="button" onClick={onClose}>
            {t("app.cancel")}
          </button>
          <button type="submit" class="button primary" disabled={busy || !message.trim()}>
            {t("new.start")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** A menu of agents, the main one first: it delegates to the others, and is the default. */
export function AgentSelect({ main = false }: { main?: boolean }) {
  const shown = agents.value.filter((agent) => agent.main || !main);
  return (
    <select class="field" name="agent">
      {shown.length === 0 && <option value="">{t("new.agent.main", { name: "main" })}</option>}
      {shown
        .toSorted((a, b) => Number(b.main) - Number(a.main))
        .map((agent) => (
          <option key={agent.name} value={agent.main ? "" : agent.name}>
            {agent.main ? t("new.agent.main", { name: agent.name }) : sanitizeLine(agent.name)}
          </option>
        ))}
    </select>
  );
}

export function ModeSelect() {
  return (
    <select class="field" name="mode">
      {modes().map((mode) => (
        <option key={mode} value={mode}>
          {word("mode", mode)}
        </option>
      ))}
    </select>
  );
}
