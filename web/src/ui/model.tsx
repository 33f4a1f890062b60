// The choice of a model, and the demo, which needs none.
import { useState } from "preact/hooks";
import { post } from "../api/client";
import { cut } from "../format";
import { lang, t } from "../i18n";
import { canAct, freshSession, models, OFFLINE, store } from "../live";
import { sanitizeLine } from "../markdown/sanitize";
import { go } from "../router";
import { attempt, WithCode } from "./parts";

/** The value of the option for a model that is not listed; no name of a model has spaces. */
const OTHER = "another model";
const MAX_NAME = 60;

/** A menu of models. The empty value is the default of the server; without one the user has to choose. */
export function ModelSelect({ value, onChoose }: { value: string; onChoose: (model: string) => void }) {
  const [typing, setTyping] = useState(false);
  const choices = models.value;
  const standard = choices?.default ?? null;
  const listed = (choices?.models ?? []).filter((model) => model !== standard);
  const other = typing || (value !== "" && !listed.includes(value));
  const name = (model: string) => cut(sanitizeLine(model), MAX_NAME);
  return (
    <>
      <label class="labelled">
        {t("new.model")}
        <select
          class="field model"
          aria-label={t("new.model")}
          value={other ? OTHER : value}
          required={choices !== null && standard === null}
          onChange={(event) => {
            const chosen = event.currentTarget.value;
            setTyping(chosen === OTHER);
            onChoose(chosen === OTHER ? "" : chosen);
          }}
        >
          <option value="">
            {standard === null ? t("model.choose") : t("model.default", { name: name(standard) })}
          </option>
          {listed.map((model) => (
            <option key={model} value={model}>
              {model === OFFLINE ? t("model.offline") : name(model)}
            </option>
          ))}
          <option value={OTHER}>{t("model.other")}</option>
        </select>
      </label>
      {other && (
        <label class="labelled">
          {t("model.name")}
          <input
            class="field mono"
            placeholder="vendor/model"
            required
            value={value}
            onInput={(event) => (setTyping(true), onChoose(event.currentTarget.value.trim()))}
          />
        </label>
      )}
    </>
  );
}

/** Starts the demo, a main run with the built-in model, and shows it in a chat of its own. */
async function runDemo(): Promise<void> {
  const session = freshSession();
  const task = await attempt(
    post("/api/tasks", {
      body: {
        message: t("demo.message"),
        label: t("demo.label"),
        model: OFFLINE,
        main: true,
        session_id: session,
        lang: lang.value,
      },
    }),
    () => t("done.demo"),
  );
  if (!task) return;
  store.tasks.put([task]);
  go({ page: "chat", session });
}

export function DemoButton({ small = false }: { small?: boolean }) {
  const [busy, setBusy] = useState(false);
  if (!canAct()) return null;
  return (
    <button
      type="button"
      class={`button ${small ? "small" : ""}`}
      disabled={busy}
      onClick={() => (setBusy(true), void runDemo().finally(() => setBusy(false)))}
    >
      {t("demo.run")}
    </button>
  );
}

/** Shown while the server has no default model, so that the first message does not fail. */
export function NoModelNotice() {
  const choices = models.value;
  if (!choices || choices.default !== null || !canAct()) return null;
  return (
    <div class="old" role="status">
      <span>
        <WithCode text={t("model.none")} />
      </span>
      <DemoButton small />
    </div>
  );
}
