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
          t("done.cancel", { count: done.cancelled.length }),
        );
      });
    case "pause":
    case "resume":
      void attempt(post(`/api/tasks/{id}/${action}`, { path: { id } }), () => t(`done.${action}`)).then(
        (task) => task && store.tasks.put([task]),
      );
      return;
    case "retry":
      void attempt(post("/api/tasks/{id}/retry", { path: { id } }), () => t("done.retry")).then((task) => {
        if (!task) return;
        store.tasks.put([task]);
        go({ page: "task", id: task.task_id, tab: "" });
      });
      return;
    case "delete":
      return confirm(t("do.delete.sure", { label }), t("do.delete"), t("do.delete.no"), () => {
        void attempt(remove("/api/tasks/{id}", { path: { id } }), () => t("done.delete")).then((done) => {
          if (done === undefined) return;
          store.tasks.remove([id]);
          if (location.pathname.includes(id)) go({ page: "tasks" });
        });
      });
  }
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
