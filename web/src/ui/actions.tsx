// The actions on a task, for all pages.
import { post, remove } from "../api/client";
import type { Task } from "../api/types";
import { t, type Key } from "../i18n";
import { canAct, store } from "../live";
import { labelOf } from "../live/label";
import { hasEnded } from "../live/status";
import { go } from "../router";
import { attempt, confirm } from "./parts";

export type Action = "cancel" | "pause" | "resume" | "retry" | "delete";

/** Returns the actions that the state of a task permits; none for viewers. */
export function possible(task: Task): Action[] {
  if (!canAct()) return [];
  if (hasEnded(task)) return ["retry", "delete"];
  return [task.paused ? "resume" : "pause", "cancel", "delete"];
}

export function act(task: Task, action: Action): void {
  const label = labelOf(task);
  const id = task.task_id;
  switch (action) {
    case "cancel":
      return confirm(t("do.cancel.sure", { label }), t("do.cancel"), t("do.cancel.no"), () => {
        void attempt(post("/api/tasks/{id}/cancel", { path: { id } }), (done) =>
          t("done.cancel", { count: done.cancelled.length, label }),
        );
      });
    case "pause":
    case "resume":
      void attempt(post(`/api/tasks/{id}/${action}`, { path: { id } }), () =>
        t(`done.${action}`, { label }),
      ).then((task) => task && store.tasks.put([task]));
      return;
    case "retry":
      void attempt(post("/api/tasks/{id}/retry", { path: { id } }), () => t("done.retry", { label })).then(
        (task) => {
          if (!task) return;
          store.tasks.put([task]);
          go({ page: "task", id: task.task_id, tab: "" });
        },
      );
      return;
    case "delete":
      return confirm(t("do.delete.sure", { label }), t("do.delete"), t("do.delete.no"), () => {
        void attempt(remove("/api/tasks/{id}", { path: { id } }), () => t("done.delete", { label })).then(
          (done) => {
            if (done === undefined) return;
            store.tasks.remove([id]);
            if (location.pathname.includes(id)) go({ page: "tasks" });
          },
        );
      });
  }
}

/** Returns the shortcuts of the actions. `task` is read when a key is pressed. */
export function actionKeys(task: () => Task | undefined): Record<string, () => void> {
  const key = (action: Action) => () => {
    const on = task();
    if (!on) return;
    const wanted = action === "pause" && on.paused ? "resume" : action;
    if (possible(on).includes(wanted)) act(on, wanted);
  };
  return { x: key("cancel"), p: key("pause"), r: key("retry"), D: key("delete") };
}

export function Actions({ task, small = false }: { task: Task; small?: boolean }) {
  return (
    <>
      {possible(task).map((action) => (
        <button
          type="button"
          key={action}
          class={`button ${small ? "small" : ""} ${action === "delete" || action === "cancel" ? "danger" : ""}`}
          onClick={() => act(task, action)}
        >
          {t((action === "cancel" ? "do.cancel.short" : `do.${action}`) as Key)}
        </button>
      ))}
    </>
  );
}
