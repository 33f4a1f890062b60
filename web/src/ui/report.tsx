// How the tree of a task was delegated: estimate, tasks, critical path, duplicate work.
import { get } from "../api/client";
import type { DelegationReport } from "../api/types";
import { count, cut, duration, money } from "../format";
import { t, word, type Key } from "../i18n";
import { sanitizeLine } from "../markdown/sanitize";
import { href } from "../router";
import { useLoad } from "./hooks";
import { Loading, ProblemNotice } from "./parts";

/** Rows of a table; the command line has all. */
const MAX_ROWS = 200;
/** Milliseconds from which a wait is shown. */
const LEAST_WAIT = 100;

type ReportTask = DelegationReport["tasks"][number];

export function ReportView({ id, root }: { id: string; root: string }) {
  const report = useLoad(
    `report/${id}`,
    (signal) => get("/api/tasks/{id}/report", { path: { id }, signal }),
    (event) => event.root_id === root && event.type !== "progress",
  );
  if (report.problem) return <ProblemNotice problem={report.problem} again={report.reload} />;
  if (!report.data) return <Loading />;
  return <Report report={report.data} />;
}

/** The parts of a report. Exported for tests. */
export function Report({ report }: { report: DelegationReport }) {
  const known = new Map(report.tasks.map((task) => [task.task_id, task]));
  const { estimate, context } = report;
  return (
    <>
      <div class="card stack gap-s">
        <h2>{t("report.estimate")}</h2>
        <p>
          <b>{t(`report.payoff.${estimate.payoff}`)}</b>
        </p>
        {!report.ended && <p>{t("report.soFar")}</p>}
        {estimate.payoff !== "no_children" && (
          <>
            <p>
              {t("report.time", {
                delegated: duration(estimate.delegated_ms),
                alone: duration(estimate.alone_ms),
              })}
            </p>
            <p>
              {t("report.text", {
                delegated: bytes(estimate.delegated_prompt_bytes),
                alone: bytes(estimate.alone_prompt_bytes),
              })}
            </p>
            <p>
              {t("report.saved", {
                children: bytes(context.children_bytes),
                parents: bytes(context.parents_bytes),
              })}
            </p>
            <p class="quiet small">{t("report.basis")}</p>
          </>
        )}
      </div>
      <Tasks report={report} />
      <div class="card table">
        <h2>{t("timeline.critical")}</h2>
        <table>
          <Head columns={["task", "waited", "elapsed"]} />
          <tbody>
            {report.critical_path.slice(0, MAX_ROWS).map((step, index) => (
              <tr key={index}>
                <td>
                  <Name task={known.get(step.task_id)} />
                </td>
                <td>{word("wait", step.kind)}</td>
                <td class="num">{duration(step.ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
        <More
          hidden={Math.max(0, report.critical_path.length - MAX_ROWS) + report.steps_left_out}
          id={report.task_id}
        />
      </div>
      <div class="card table">
        <h2>{t("report.duplicates")}</h2>
        {report.duplicates.length === 0 ? (
          <p class="quiet">{t("report.noDuplicates")}</p>
        ) : (
          <table>
            <Head columns={["what", "calls", "repeated", "by"]} />
            <tbody>
              {report.duplicates.map((duplicate) => (
                <tr key={`${duplicate.kind} ${duplicate.what}`}>
                  <td class="mono">{cut(sanitizeLine(duplicate.what), 100)}</td>
                  <td class="num">{duplicate.calls}</td>
                  <td class="num">{bytes(duplicate.repeated_bytes)}</td>
                  <td>
                    {duplicate.tasks.map((by) => (
                      <>
                        <Name task={known.get(by)} />{" "}
                      </>
                    ))}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        <More hidden={report.duplicates_left_out} id={report.task_id} />
      </div>
    </>
  );
}

function Tasks({ report }: { report: DelegationReport }) {
  return (
    <div class="card table">
      <h2>{t("report.tasks")}</h2>
      <table>
        <Head columns={["task", "elapsed", "critical", "waits", "tokens", "cost", "context", "announced"]} />
        <tbody>
          {report.tasks.slice(0, MAX_ROWS).map((task) => (
            <tr key={task.task_id}>
              <td style={{ paddingInlineStart: `${8 + task.depth * 16}px` }}>
                <Name task={task} />
              </td>
              <td class="num">{duration(task.elapsed_ms)}</td>
              <td class="num">{duration(task.critical_ms)}</td>
              <td>{waits(task)}</td>
              <td class="num">{count(task.tokens)}</td>
              <td class="num">{money(task.cost_usd)}</td>
              <td class="num">{task.parent_id ? bytes(task.context_bytes) : "–"}</td>
              <td class="num">{task.parent_id ? bytes(task.announced_bytes) : "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <More hidden={Math.max(0, report.tasks.length - MAX_ROWS) + report.left_out} id={report.task_id} />
    </div>
  );
}

function Head({ columns }: { columns: string[] }) {
  return (
    <thead>
      <tr>
        {columns.map((name) => (
          <th scope="col" key={name}>
            {t(`report.${name}` as Key)}
          </th>
        ))}
      </tr>
    </thead>
  );
}

function Name({ task }: { task: ReportTask | undefined }) {
  if (!task) return null;
  return (
    <a href={href({ page: "task", id: task.task_id, tab: "" })} title={sanitizeLine(task.label)}>
      <span class="quiet">[{sanitizeLine(task.agent)}]</span> {cut(sanitizeLine(task.label), 60)}
    </a>
  );
}

function More({ hidden, id }: { hidden: number; id: string }) {
  return hidden > 0 ? <p class="quiet small">{t("report.more", { count: hidden, id })}</p> : null;
}

/** Returns the waits that the task's own work does not explain. */
function waits(task: ReportTask): string {
  const { time } = task;
  const all: [string, number][] = [
    ["slot", time.slot_ms],
    ["rate_limit", time.rate_limit_ms],
    ["approval", time.approval_ms],
    ["question", time.question_ms],
    ["children", time.children_ms],
    ["paused", time.paused_ms],
  ];
  const shown = all.filter(([, ms]) => ms >= LEAST_WAIT);
  return shown.map(([kind, ms]) => `${word("wait", kind)} ${duration(ms)}`).join(", ") || "–";
}

function bytes(value: number): string {
  return value < 1_000 ? `${value} B` : `${count(value)}B`;
}
