// The timeline chart of a task tree: what each task waited for, and the critical path.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../api/client";
import type { Timeline } from "../api/types";
import { clock, duration } from "../format";
import { t, word } from "../i18n";
import { labelFor } from "../live";
import { sanitizeLine } from "../markdown/sanitize";
import { go, href } from "../router";
import { memo } from "../ui/memo";
import { useLoad, type Loaded } from "../ui/hooks";
import { AgentName, Loading, ProblemNotice } from "../ui/parts";
import { visible } from "../ui/virtual";
import { bars, KINDS, pan, shares, ticks, tracks, whole, zoom, type Track, type View } from "./layout";

const ROW = 26;
const BAR = { y: 6, height: 14 };
/** Reload interval for a running tree while the page is visible. */
const LIVE_MS = 2_000;

export function TimelineView({ id, tall }: { id: string; tall: boolean }) {
  const loaded: Loaded<Timeline> = useLoad(
    `timeline/${id}`,
    (signal) => get("/api/tasks/{id}/timeline", { path: { id }, signal }),
    (event) => event.root_id === (loaded.data?.root_id ?? id),
  );
  const running = loaded.data?.tasks.some((task) => task.ended === null) ?? false;
  const { reload } = loaded;
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => !document.hidden && reload(), LIVE_MS);
    return () => clearInterval(timer);
  }, [running, reload]);
  if (loaded.problem) return <ProblemNotice problem={loaded.problem} again={reload} />;
  if (!loaded.data) return <Loading />;
  const left = loaded.data.left_out;
  return (
    <>
      {left > 0 && <p class="quiet small">{t("timeline.leftOut", { count: left })}</p>}
      <Chart timeline={loaded.data} tall={tall} />
    </>
  );
}

interface Choice {
  row: number;
  span: number;
}

function Chart({ timeline, tall }: { timeline: Timeline; tall: boolean }) {
  const list = useMemo(() => tracks(timeline), [timeline]);
  const all = whole(timeline);
  const [held, setView] = useState<View | null>(null);
  const view = held ? zoom(held, all, 1) : all;
  const [width, setWidth] = useState(600);
  const [box, setBox] = useState({ scroll: 0, height: 300 });
  const [choice, setChoice] = useState<Choice | null>(null);
  const [hover, setHover] = useState<Choice | null>(null);
  const area = useRef<HTMLDivElement>(null);
  const axis = useRef<HTMLDivElement>(null);
  const shown = visible(box.scroll, box.height, ROW, list.length);
  const marks = ticks(view, all.from, width);

  useLayoutEffect(() => {
    const measure = () => {
      if (axis.current) setWidth(axis.current.clientWidth);
      if (area.current) setBox((old) => ({ ...old, height: area.current!.clientHeight }));
    };
    const observer = new ResizeObserver(measure);
    if (area.current) observer.observe(area.current);
    measure();
    return () => observer.disconnect();
  }, []);

  const change = (to: View) => setView(to.from <= all.from && to.until >= all.until ? null : to);
  useWheel(
    area,
    axis,
    (factor, share) => change(zoom(view, all, factor, share)),
    (share) => change(pan(view, all, share)),
  );

  const pick = (row: number, span: number) => {
    const at = Math.max(0, Math.min(list.length - 1, row));
    const last = (list[at]?.spans.length ?? 1) - 1;
    setChoice({ row: at, span: Math.max(0, Math.min(last, span)) });
    const element = area.current;
    if (!element) return;
    if (at * ROW < element.scrollTop) element.scrollTop = at * ROW;
    else if ((at + 1) * ROW > element.scrollTop + element.clientHeight)
      element.scrollTop = (at + 1) * ROW - element.clientHeight;
  };
  const keys: Record<string, () => void> = {
    ArrowDown: () => pick((choice?.row ?? -1) + 1, choice?.span ?? 0),
    ArrowUp: () => pick((choice?.row ?? 1) - 1, choice?.span ?? 0),
    j: () => pick((choice?.row ?? -1) + 1, choice?.span ?? 0),
    k: () => pick((choice?.row ?? 1) - 1, choice?.span ?? 0),
    ArrowRight: () => pick(choice?.row ?? 0, (choice?.span ?? -1) + 1),
    ArrowLeft: () => pick(choice?.row ?? 0, (choice?.span ?? 1) - 1),
    "+": () => change(zoom(view, all, 0.6)),
    "=": () => change(zoom(view, all, 0.6)),
    "-": () => change(zoom(view, all, 1 / 0.6)),
    "0": () => setView(null),
    "<": () => change(pan(view, all, -0.25)),
    ">": () => change(pan(view, all, 0.25)),
    Enter: () => choice && list[choice.row] && go({ page: "task", id: list[choice.row]!.id, tab: "" }),
  };
  const told = hover ?? choice;
  const track = told ? list[told.row] : undefined;
  const span = told && track ? track.spans[told.span] : undefined;
  return (
    <>
      <div class="row wrap">
        <Legend />
        <div class="row gap-s" role="group">
          <button
            type="button"
            class="button small"
            aria-label={t("timeline.left")}
            title={t("timeline.left")}
            onClick={() => change(pan(view, all, -0.25))}
          >
            ←
          </button>
          <button
            type="button"
            class="button small"
            aria-label={t("timeline.out")}
            title={t("timeline.out")}
            onClick={() => change(zoom(view, all, 1 / 0.6))}
          >
            −
          </button>
          <button type="button" class="button small" onClick={() => setView(null)}>
            {t("timeline.fit")}
          </button>
          <button
            type="button"
            class="button small"
            aria-label={t("timeline.in")}
            title={t("timeline.in")}
            onClick={() => change(zoom(view, all, 0.6))}
          >
            +
          </button>
          <button
            type="button"
            class="button small"
            aria-label={t("timeline.right")}
            title={t("timeline.right")}
            onClick={() => change(pan(view, all, 0.25))}
          >
            →
          </button>
        </div>
      </div>
      <div
        class="gantt"
        style={
          tall
            ? { minHeight: "240px" }
            : { height: `${Math.min(560, list.length * ROW + 70)}px`, flex: "none" }
        }
      >
        <div class="axis">
          <span>{duration(all.until - all.from)}</span>
          <div ref={axis}>
            <svg aria-hidden="true" width={width} height={24}>
              {marks.map((mark) => (
                <text x={mark.x + 3} y={16}>
                  {mark.text}
                </text>
              ))}
            </svg>
          </div>
        </div>
        <div
          class="scroll"
          ref={area}
          tabIndex={0}
          role="application"
          aria-label={t("timeline.chart")}
          aria-describedby="timeline-told"
          onScroll={(event) => setBox({ ...box, scroll: event.currentTarget.scrollTop })}
          onMouseLeave={() => setHover(null)}
          onKeyDown={(event) => {
            const act = !event.ctrlKey && !event.metaKey && !event.altKey && keys[event.key];
            if (!act) return;
            event.preventDefault();
            event.stopPropagation();
            act();
          }}
        >
          <div class="canvas" style={{ height: `${list.length * ROW}px` }}>
            {list.slice(shown.first, shown.last).map((track, offset) => {
              const row = shown.first + offset;
              return (
                <TrackRow
                  key={track.id}
                  track={track}
                  row={row}
                  from={view.from}
                  until={view.until}
                  width={width}
                  chosen={choice?.row === row ? choice.span : -1}
                  marks={marks.map((mark) => Math.round(mark.x)).join(",")}
                  onHover={setHover}
                  onPick={pick}
                />
              );
            })}
          </div>
        </div>
        <div class="tip" id="timeline-told" role="status">
          {track && span ? (
            `${t("timeline.span", { label: labelFor(track.id, track.label), kind: `${word("wait", span.kind)}${span.name ? ` (${sanitizeLine(span.name)})` : ""}`, time: duration(span.until - span.from), from: clock(span.from) })}${span.critical ? ` · ${t("timeline.critical")}` : ""}`
          ) : (
            <span class="quiet">{t("timeline.chart")}</span>
          )}
        </div>
      </div>
      <AsTable list={list} />
    </>
  );
}

function Legend() {
  return (
    <ul class="legend grow" aria-label={t("timeline.legend")}>
      {KINDS.map((kind) => (
        <li key={kind}>
          <i class={`k-${kind}`} aria-hidden="true" />
          {word("wait", kind)}
        </li>
      ))}
      <li>
        <i class="way" aria-hidden="true" />
        {t("timeline.critical")}
      </li>
    </ul>
  );
}

interface RowProps {
  track: Track;
  row: number;
  from: number;
  until: number;
  width: number;
  chosen: number;
  marks: string;
  onHover: (choice: Choice | null) => void;
  onPick: (row: number, span: number) => void;
}

const TrackRow = memo(
  function TrackRow({ track, row, from, until, width, chosen, marks, onHover, onPick }: RowProps) {
    const list = useMemo(() => bars(track, { from, until }, width), [track, from, until, width]);
    return (
      <div class={`track ${chosen >= 0 ? "on" : ""}`} style={{ top: `${row * ROW}px` }}>
        <div style={{ paddingLeft: `${10 + Math.min(track.depth, 6) * 12}px` }}>
          <a
            class="cut"
            tabIndex={-1}
            href={href({ page: "task", id: track.id, tab: "" })}
            title={labelFor(track.id, track.label)}
          >
            {labelFor(track.id, track.label)}
          </a>
        </div>
        <svg aria-hidden="true" width={width} height={ROW}>
          {marks && marks.split(",").map((x) => <line class="gridline" x1={x} x2={x} y1={0} y2={ROW} />)}
          {list.map((bar) => (
            <rect
              key={bar.index}
              class={`k-${bar.kind} ${bar.critical ? "critical" : ""} ${bar.index === chosen ? "chosen" : ""}`}
              x={bar.x}
              y={BAR.y}
              width={bar.width}
              height={BAR.height}
              rx={bar.width > 5 ? 2 : 0}
              onMouseEnter={() => onHover({ row, span: bar.index })}
              onClick={() => onPick(row, bar.index)}
            />
          ))}
        </svg>
      </div>
    );
  },
  // The handlers are new on each render but equivalent.
  ["onHover", "onPick"],
);

const MAX_TABLE = 300;

/** The timeline as a table, for screen readers and for exact numbers. */
function AsTable({ list }: { list: Track[] }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{t("timeline.table")}</summary>
      {open && (
        <div class="card table">
          <table>
            <thead>
              <tr>
                <th scope="col">{t("tasks.column.task")}</th>
                <th scope="col">{t("tasks.column.agent")}</th>
                <th scope="col">{t("tasks.column.status")}</th>
                <th scope="col" class="num">
                  {t("timeline.total")}
                </th>
                <th scope="col">{t("timeline.column.share")}</th>
              </tr>
            </thead>
            <tbody>
              {list.slice(0, MAX_TABLE).map((track) => {
                const parts = shares(track);
                return (
                  <tr key={track.id}>
                    <td>
                      <a href={href({ page: "task", id: track.id, tab: "" })}>
                        {labelFor(track.id, track.label)}
                      </a>
                    </td>
                    <td>
                      <AgentName name={track.agent} />
                    </td>
                    <td>{word("status", track.status)}</td>
                    <td class="num">{duration(parts.reduce((sum, [, ms]) => sum + ms, 0))}</td>
                    <td>
                      {parts.map(([kind, ms]) => `${word("wait", kind)} ${duration(ms)}`).join(", ")}
                      {track.spans.some((span) => span.critical) ? ` · ${t("timeline.critical")}` : ""}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}

/** Zooms with Ctrl and the wheel, pans with Shift and the wheel or by dragging; the wheel alone scrolls. */
function useWheel(
  area: { current: HTMLElement | null },
  axis: { current: HTMLElement | null },
  onZoom: (factor: number, share: number) => void,
  onPan: (share: number) => void,
): void {
  const latest = useRef({ onZoom, onPan });
  latest.current = { onZoom, onPan };
  useEffect(() => {
    const element = area.current;
    if (!element) return;
    const wheel = (event: WheelEvent) => {
      const place = axis.current?.getBoundingClientRect();
      if (!place) return;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        latest.current.onZoom(
          Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200))),
          Math.max(0, Math.min(1, (event.clientX - place.left) / place.width)),
        );
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        latest.current.onPan((event.deltaX || event.deltaY) / place.width);
      }
    };
    let last: number | null = null;
    const down = (event: PointerEvent) =>
      (last =
        event.button === 0 && event.clientX > (axis.current?.getBoundingClientRect().left ?? 0)
          ? event.clientX
          : null);
    const moved = (event: PointerEvent) => {
      if (last === null || !axis.current) return;
      const by = event.clientX - last;
      if (Math.abs(by) < 3) return;
      last = event.clientX;
      latest.current.onPan(-by / axis.current.clientWidth);
    };
    const up = () => (last = null);
    element.addEventListener("wheel", wheel, { passive: false });
    element.addEventListener("pointerdown", down);
    element.addEventListener("pointermove", moved);
    addEventListener("pointerup", up);
    return () => {
      element.removeEventListener("wheel", wheel);
      element.removeEventListener("pointerdown", down);
      element.removeEventListener("pointermove", moved);
      removeEventListener("pointerup", up);
    };
  }, [area, axis]);
}
