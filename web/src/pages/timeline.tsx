// The timeline of one task tree, with a menu of trees.
import { useEffect } from "preact/hooks";
import { getPage } from "../api/client";
import { moment } from "../format";
import { t, word } from "../i18n";
import { store } from "../live";
import { labelOf } from "../live/label";
import { go } from "../router";
import { useLoad, useTitle } from "../ui/hooks";
import { DemoButton } from "../ui/model";
import { Loading, ProblemNotice } from "../ui/parts";
import { TimelineView } from "../timeline/view";

export function TimelinePage({ id }: { id: string | null }) {
  const roots = useLoad(
    "roots",
    (signal) => getPage("/api/tasks", { query: { roots: true, summary: true, limit: 100 }, signal }),
    (event) => event.parent_id === null && event.type === "queued",
  );
  useTitle(t("timeline.title"));
  const list = roots.data?.items;
  useEffect(() => {
    if (list) store.tasks.put(list);
    if (!id && list?.[0]) go({ page: "timeline", id: list[0].task_id }, true);
  }, [list, id]);
  if (roots.problem)
    return (
      <div class="page">
        <ProblemNotice problem={roots.problem} again={roots.reload} />
      </div>
    );
  if (!list) return <Loading />;
  const chosen = id ? (store.tasks.get(id)?.value.root_id ?? id) : "";
  return (
    <div class="page" style={{ maxWidth: "none", height: "100%" }}>
      <div class="head">
        <h1>{t("timeline.title")}</h1>
        <label class="row grow">
          <span class="visually-hidden">{t("timeline.choose")}</span>
          <select
            class="field grow"
            style={{ maxWidth: "520px" }}
            value={chosen}
            onChange={(event) => go({ page: "timeline", id: event.currentTarget.value })}
          >
            {!list.some((task) => task.task_id === chosen) && chosen && (
              <option value={chosen}>{chosen}</option>
            )}
            {list.map((task) => (
              <option
                key={task.task_id}
                value={task.task_id}
              >{`${moment(task.created_at)}  ${labelOf(task)}  (${word("status", task.status)})`}</option>
            ))}
          </select>
        </label>
      </div>
      {id ? (
        <TimelineView key={id} id={id} tall />
      ) : (
        <div class="none">
          <p>{t("timeline.empty")}</p>
          <DemoButton />
        </div>
      )}
    </div>
  );
}
