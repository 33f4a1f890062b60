// Statistics: tasks, usage over time, queues, models, budgets.
import { useState } from "preact/hooks";
import { get } from "../api/client";
import type { LiveEvent, ServerState, UsagePoint } from "../api/types";
import { count, DASH, duration, moment, money, relative } from "../format";
import { t, word } from "../i18n";
import { now } from "../live";
import { affects } from "../live/events";
import { STATUSES } from "../live/status";
import { sanitizeLine } from "../markdown/sanitize";
import { href } from "../router";
import { useLoad, useTitle } from "../ui/hooks";
import { Gauge, Loading, ProblemNotice } from "../ui/parts";
import { StatusIcon } from "../ui/icons";

type Bucket = "hour" | "day";
const SPAN: Record<Bucket, { ms: number; buckets: number }> = {
  hour: { ms: 3_600_000, buckets: 48 },
  day: { ms: 86_400_000, buckets: 30 },
};

export function StatsPage() {
  const [bucket, setBucket] = useState<Bucket>("hour");
  useTitle(t("stats.title"));
  const follow = (event: LiveEvent) => affects(event, "load");
  const stats = useLoad("stats", (signal) => get("/api/tasks/stats", { signal }), follow);
  const state = useLoad("state", (signal) => get("/api/state", { signal }), follow);
  const budgets = useLoad("budgets", (signal) => get("/api/budgets", { signal }), follow);
  const since = new Date(Date.now() - SPAN[bucket].ms * SPAN[bucket].buckets).toISOString();
  const series = useLoad(
    `series/${bucket}`,
    (signal) => get("/api/usage/series", { query: { bucket, since }, signal }),
    (event) => affects(event, "usage"),
  );
  const problem = stats.problem ?? state.problem;
  if (problem)
    return (
      <div class="page">
        <ProblemNotice problem={problem} again={() => (stats.reload(), state.reload())} />
      </div>
    );
  if (!stats.data || !state.data) return <Loading />;
  return (
    <div class="page">
      <h1>{t("stats.title")}</h1>
      <section class="figures" aria-label={t("stats.tasks")}>
        <div class="figure">
          <b>{count(stats.data.total)}</b>
          <span class="quiet">{t("stats.total")}</span>
        </div>
        {STATUSES.map((status) => (
          <div class="figure" key={status}>
            <b>{count(stats.data![status])}</b>
            <span class={`status s-${status}`}>
              <StatusIcon mark={status} />
              {word("status", status)}
            </span>
          </div>
        ))}
      </section>
      <section class="stack" aria-label={t("stats.series")}>
        <div class="row">
          <h2 class="grow">{t("stats.series")}</h2>
          {(["hour", "day"] as const).map((name) => (
            <button
              type="button"
              key={name}
              class="chip"
              aria-pressed={bucket === name}
              onClick={() => setBucket(name)}
            >
              {t(`stats.${name}`)}
            </button>
          ))}
        </div>
        {series.problem ? (
          <ProblemNotice problem={series.problem} again={series.reload} />
        ) : (
          series.data && <Series points={series.data} bucket={bucket} />
        )}
      </section>
      <div class="columns">
        <Lanes state={state.data} />
        <Models state={state.data} />
        <section class="card">
          <h2>{t("stats.budgets")}</h2>
          {budgets.data?.length ? (
            budgets.data.slice(0, 50).map((at) => (
              <div key={at.task_id} class="stack gap-s">
                <a href={href({ page: "task", id: at.task_id, tab: "" })}>{sanitizeLine(at.label)}</a>
                <div class="gauges">
                  {at.balances.map((balance) => (
                    <Gauge key={balance.kind} balance={balance} />
                  ))}
                </div>
              </div>
            ))
          ) : (
            <p class="quiet">{t("stats.budgets.none")}</p>
          )}
        </section>
        <section class="card">
          <h2>{t("stats.server")}</h2>
          <dl class="facts">
            <dt>{t("stats.version")}</dt>
            <dd>{state.data.version}</dd>
            <dt>{t("stats.uptime")}</dt>
            <dd>{duration(now.value - Date.parse(state.data.started_at))}</dd>
            <dt>{t("stats.clients")}</dt>
            <dd>{state.data.connections.websocket + state.data.connections.sse}</dd>
          </dl>
        </section>
      </div>
    </div>
  );
}

function Lanes({ state }: { state: ServerState }) {
  return (
    <section class="card table">
      <h2>{t("stats.lanes")}</h2>
      <table>
        <thead>
          <tr>
            <th scope="col">{t("stats.lane")}</th>
            <th scope="col">{t("stats.used")}</th>
            <th scope="col" class="num">
              {t("stats.queued")}
            </th>
          </tr>
        </thead>
        <tbody>
          {state.lanes.map((lane) => (
            <tr key={lane.lane}>
              <td>{word("lane", lane.lane)}</td>
              <td>
                <span class="meter">
                  <progress
                    class="s-running"
                    max={lane.limit || 1}
                    value={lane.claimed}
                    aria-label={`${t("stats.used")} ${word("lane", lane.lane)}`}
                  />
                  <span style={{ width: "auto" }}>
                    {lane.claimed}/{lane.limit}
                  </span>
                </span>
              </td>
              <td class="num">{lane.queued}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Models({ state }: { state: ServerState }) {
  return (
    <section class="card table">
      <h2>{t("stats.models")}</h2>
      {state.models.length === 0 ? (
        <p class="quiet">{t("stats.models.none")}</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">{t("stats.model")}</th>
              <th scope="col">{t("stats.state")}</th>
              <th scope="col" class="num">
                {t("stats.inFlight")}
              </th>
              <th scope="col" class="num">
                {t("stats.queued")}
              </th>
            </tr>
          </thead>
          <tbody>
            {state.models.map((model) => (
              <tr key={model.model}>
                <td class="mono">{sanitizeLine(model.model)}</td>
                <td>
                  {word("state", model.state)}
                  {model.paused_until ? ` (${relative(model.paused_until, now.value)})` : ""}
                </td>
                <td class="num">
                  {model.in_flight}
                  {model.limit === null ? "" : `/${model.limit}`}
                </td>
                <td class="num">{model.queued}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

/** Adds empty buckets for periods without data, so that the time axis stays linear. */
export function filled(points: readonly UsagePoint[], bucket: Bucket, until: number): UsagePoint[] {
  const { ms, buckets } = SPAN[bucket];
  const byTime = new Map(points.map((point) => [Math.floor(Date.parse(point.at) / ms), point]));
  const last = Math.floor(until / ms);
  return Array.from({ length: buckets }, (_, at) => {
    const time = last - buckets + 1 + at;
    return (
      byTime.get(time) ?? {
        at: new Date(time * ms).toISOString(),
        tasks: 0,
        completed: 0,
        failed: 0,
        input_tokens: 0,
        output_tokens: 0,
        unpriced: 0,
        cost_usd: null,
      }
    );
  });
}

/** Labels a bucket: days begin at midnight UTC and carry their UTC date; hours are local time. */
export function named(at: string, bucket: Bucket): string {
  return bucket === "day" ? at.slice(0, 10) : moment(at);
}

function Series({ points, bucket }: { points: UsagePoint[]; bucket: Bucket }) {
  const list = filled(points, bucket, Date.now());
  return (
    <div class="columns">
      <Bars
        bucket={bucket}
        title={t("stats.started")}
        points={list}
        value={(point) => point.tasks}
        second={(point) => point.failed}
        text={count}
      />
      <Bars
        bucket={bucket}
        title={t("stats.tokens")}
        points={list}
        value={(point) => point.input_tokens + point.output_tokens}
        text={count}
      />
      <Bars
        bucket={bucket}
        title={t("stats.cost")}
        points={list}
        value={(point) => point.cost_usd ?? 0}
        text={money}
        unknown={unknownCost}
      />
    </div>
  );
}

interface BarsProps {
  bucket: Bucket;
  title: string;
  points: UsagePoint[];
  value: (point: UsagePoint) => number;
  second?: (point: UsagePoint) => number;
  text: (value: number) => string;
  unknown?: (points: readonly UsagePoint[]) => Unknown;
}

/** Which part of a sum is unknown. */
type Unknown = "nothing" | "some" | "all";

/** Returns which part of the cost is unknown: a partly known sum is a lower bound, an unknown one is a dash. */
export function unknownCost(points: readonly UsagePoint[]): Unknown {
  if (points.every((point) => point.cost_usd === null))
    return points.some((point) => point.tasks > 0) ? "all" : "nothing";
  return points.some((point) => point.unpriced > 0) ? "some" : "nothing";
}

function Bars({ bucket, title, points, value, second, text, unknown }: BarsProps) {
  const most = Math.max(...points.map(value));
  const sum = points.reduce((sum, point) => sum + value(point), 0);
  const known = unknown?.(points) ?? "nothing";
  const total = known === "all" ? DASH : known === "some" ? `≥ ${text(sum)}` : text(sum);
  const width = 300 / points.length;
  const height = (amount: number) => (most > 0 && amount > 0 ? Math.max(1.5, (amount / most) * 88) : 0);
  return (
    <figure class="card">
      <div class="row">
        <h3 class="grow">{title}</h3>
        <b>{total}</b>
      </div>
      <svg
        class="chart"
        viewBox="0 0 300 96"
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: ${total}`}
      >
        <line x1="0" x2="300" y1="95.500" y2="95.500" />
        {points.map(
          (point, at) =>
            value(point) > 0 && (
              <g key={point.at}>
                <title>{`${named(point.at, bucket)}: ${text(value(point))}`}</title>
                <rect
                  x={at * width + 0.5}
                  width={width - 1}
                  y={95 - height(value(point))}
                  height={height(value(point))}
                />
                {second && second(point) > 0 && (
                  <rect
                    class="second"
                    x={at * width + 0.5}
                    width={width - 1}
                    y={95 - height(second(point))}
                    height={height(second(point))}
                  />
                )}
              </g>
            ),
        )}
      </svg>
      <div class="row small quiet">
        <span class="grow">
          {named(points[0]!.at, bucket)}
          {bucket === "day" && ` (${t("stats.utc")})`}
        </span>
        <span>{most > 0 ? t("stats.most", { amount: text(most) }) : t("stats.empty")}</span>
      </div>
    </figure>
  );
}
