import { describe, expect, it } from "vitest";
import { isTransient, Problem } from "../src/api/client";
import type { Timeline, TranscriptItem } from "../src/api/types";
import { age, amount, count, cut, duration, elapsed, money, relative, tokens } from "../src/format";
import { en, type Text } from "../src/i18n/en";
import { zh } from "../src/i18n/zh";
import { choose, t, word, type Key } from "../src/i18n";
import { childrenAt, partsOf } from "../src/pages/chat";
import { filled, named, unknownCost } from "../src/pages/stats";
import { href, parse, type Place } from "../src/router";
import { bars, pan, shares, ticks, tracks, whole, zoom } from "../src/timeline/layout";
import { fromQuery, NO_FILTER, toQuery, type Filter } from "../src/live/flatten";
import { diffKind, looksLikeDiff } from "../src/ui/code";
import { afterFailure } from "../src/ui/hooks";
import { describeProblem } from "../src/ui/parts";
import { entries, outputOf, summary, requestedChange } from "../src/ui/transcript";
import { intoView, visible } from "../src/ui/virtual";

describe("texts", () => {
  const forms = (text: Text) => (typeof text === "string" ? [text] : Object.values(text));

  it("exist in both languages with the same gaps", () => {
    expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort());
    const gaps = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(String).sort();
    for (const [key, text] of Object.entries(en) as [Key, Text][]) {
      const all = [...forms(text), ...forms(zh[key])];
      for (const form of all) {
        expect(gaps(form), key).toEqual(gaps(all[0]!));
        expect(form.trim(), key).not.toBe("");
      }
    }
  });
  it("have the plural forms of their language", () => {
    choose("en");
    expect(t("chat.turns", { count: 1 })).toBe("1 turn");
    expect(t("chat.turns", { count: 2 })).toBe("2 turns");
    expect(t("chat.turns", { count: 0 })).toBe("0 turns");
    expect(t("tasks.shown", { count: 100, shown: "100+" })).toBe("100+ tasks");
    choose("zh");
    expect(t("chat.turns", { count: 1 })).toBe("1 轮");
    choose("en");
  });
  it("fall back to the value for values of the API that the page does not know", () => {
    expect(word("status", "running")).toBe("Running");
    expect(word("status", "someday")).toBe("someday");
    choose("zh");
    expect(word("status", "running")).toBe("运行中");
    choose("en");
  });
});

describe("ages", () => {
  it("are in minutes, hours and days, and dates after a month", () => {
    const now = Date.parse("2026-03-31T12:00:00Z");
    const before = (seconds: number) => age(new Date(now - seconds * 1_000).toISOString(), now);
    expect(before(-5)).toBe("just now");
    expect(before(59)).toBe("just now");
    expect(before(61)).toBe("1 min. ago");
    expect(before(3_600)).toBe("60 min. ago");
    expect(before(7_200)).toBe("2 hr. ago");
    expect(before(2 * 86_400)).toBe("2 days ago");
    expect(before(40 * 86_400)).toMatch(/^2026-02-1\d$/);
    expect(age(null)).toBe("–");
  });
});

describe("problems", () => {
  it.each([
    [0, true],
    [429, true],
    [500, true],
    [503, true],
    [408, true],
    [404, false],
    [403, false],
    [409, false],
  ])("with status %s are transient: %s", (status, may) => {
    const problem = new Problem(status, "", "");
    expect(isTransient(problem)).toBe(may);
    const old = { key: "a", data: 1 };
    expect(afterFailure(old, "a", problem)).toEqual(may ? old : { key: "a", problem });
    expect(afterFailure(old, "b", problem)).toEqual({ key: "b", problem });
  });
  it("are described in the language of the page", () => {
    choose("zh");
    expect(describeProblem(new Problem(0, "unreachable", "TypeError: Failed to fetch"))).toBe(
      "服务器无响应。",
    );
    expect(describeProblem(new Problem(429, "too-many-requests", "Wait."))).toBe("请求过多。 Wait.");
    choose("en");
    expect(describeProblem(new Problem(0, "", "TypeError: Failed to fetch"))).toBe(
      "The server did not respond.",
    );
    expect(describeProblem(new Problem(409, "conflict", "It ended."))).toBe("It ended.");
    expect(describeProblem(new Problem(418, "teapot", "No coffee."))).toBe("No coffee.");
  });
});

describe("numbers", () => {
  it.each([
    [0, "0"],
    [999, "999"],
    [1_000, "1k"],
    [1_234, "1.2k"],
    [9_960, "10k"],
    [84_200, "84k"],
    [999_499, "999k"],
    [999_500, "1M"],
    [12_345_678, "12M"],
    [null, "–"],
  ])("count %s as %s", (value, text) => expect(count(value)).toBe(text));
  it.each([
    [null, "–"],
    [0, "$0"],
    [0.0042, "$0.0042"],
    [0.5, "$0.50"],
    [12.345, "$12.35"],
    [1234, "$1234"],
  ])("money %s as %s", (value, text) => expect(money(value)).toBe(text));
  it.each([
    [null, "–"],
    [12, "12 ms"],
    [1_240, "1.2 s"],
    [59_400, "59 s"],
    [61_000, "1:01"],
    [3_661_000, "1:01:01"],
    [200_000_000, "2 d 7 h"],
    [-5, "0 ms"],
  ])("duration %s as %s", (value, text) => expect(duration(value)).toBe(text));
  it("distinguish unknown from zero", () => {
    expect(tokens({ input_tokens: null, output_tokens: null })).toBeNull();
    expect(tokens({ input_tokens: 1, output_tokens: null })).toBe(1);
    expect(elapsed({ started_at: null, completed_at: null }, 5)).toBeNull();
    expect(amount("usd", 1_500_000)).toBe("$1.50");
    expect(amount("tokens", 1_500_000)).toBe("1.5M");
  });
  it("show relative times", () => {
    choose("en");
    expect(relative("2026-01-01T00:05:00Z", Date.parse("2026-01-01T00:00:00Z"))).toBe("in 5 min.");
    expect(relative(null)).toBe("–");
  });
  it("truncate between characters", () => {
    expect(cut("中文字", 2)).toBe("中文…");
    expect(cut("👍👍👍", 2)).toBe("👍👍…");
    expect(cut("ab", 2)).toBe("ab");
  });
});

describe("addresses", () => {
  const places: Place[] = [
    { page: "tasks" },
    { page: "task", id: "01a", tab: "" },
    { page: "task", id: "01a", tab: "policy" },
    { page: "timeline", id: null },
    { page: "timeline", id: "x" },
    { page: "chat", session: "web:a/b ?" },
    { page: "agents", name: "a%b" },
    { page: "approvals" },
    { page: "stats" },
  ];
  it.each(places)("survive a round trip: %j", (place) => expect(parse(href(place))).toEqual(place));
  it("that are invalid still open a page", () => {
    expect(parse("/tasks/%E0%A4%A")).toEqual({ page: "task", id: "%E0%A4%A", tab: "" });
    expect(parse("/nowhere")).toEqual({ page: "unknown", path: "/nowhere" });
    expect(parse("/")).toEqual({ page: "tasks" });
  });
  it("carry filters; unknown ones are ignored", () => {
    const filters: Filter[] = [
      NO_FILTER,
      {
        text: "a&b =",
        statuses: ["failed", "timeout"],
        needsYou: true,
        agent: "explore",
        session: "web:a/b",
      },
    ];
    for (const filter of filters) expect(fromQuery(toQuery(filter))).toEqual(filter);
    expect(toQuery(NO_FILTER)).toBe("");
    expect(fromQuery("?status=failed,nonsense&x=1")).toEqual({ ...NO_FILTER, statuses: ["failed"] });
    expect(fromQuery(`?q=${"x".repeat(5_000)}`).text).toHaveLength(200);
  });
});

const AT = Date.parse("2026-01-01T00:00:00Z");
const iso = (ms: number) => new Date(AT + ms).toISOString();

function timeline(rows: number, spans: number): Timeline {
  return {
    root_id: "00000",
    from: iso(0),
    until: iso(spans * 1_000),
    left_out: 0,
    critical_path: [],
    tasks: Array.from({ length: rows }, (_, row) => ({
      task_id: String(row).padStart(5, "0"),
      parent_id: row === 0 ? null : "00000",
      label: `row ${row}`,
      agent: "code",
      status: "running" as const,
      depth: row === 0 ? 0 : 1,
      started: iso(0),
      ended: null,
      spans: Array.from({ length: spans }, (_, n) => ({
        from: iso(n * 1_000),
        until: iso(n * 1_000 + 900),
        kind: n % 2 ? ("tool" as const) : ("model" as const),
        critical: n === 3,
      })),
    })),
  };
}

describe("timeline", () => {
  it("orders children below their parents", () => {
    const source = timeline(4, 1);
    source.tasks.reverse();
    source.tasks[0]!.parent_id = "00001";
    expect(tracks(source).map((track) => track.id)).toEqual(["00000", "00001", "00003", "00002"]);
  });
  it("positions bars by time", () => {
    const [track] = tracks(timeline(1, 10));
    const list = bars(track!, { from: AT, until: AT + 10_000 }, 1_000);
    expect(list).toHaveLength(10);
    expect(list[1]).toEqual({ x: 100, width: 90, kind: "tool", critical: false, index: 1 });
    expect(list[3]!.critical).toBe(true);
    expect(bars(track!, { from: AT + 2_500, until: AT + 3_500 }, 1_000).map((bar) => bar.index)).toEqual([
      2, 3,
    ]);
  });
  it("never draws more bars than there are pixels", () => {
    const [track] = tracks(timeline(1, 20_000));
    const list = bars(track!, { from: AT, until: AT + 20_000_000 }, 800);
    expect(list.length).toBeLessThan(800);
    expect(list.some((bar) => bar.critical)).toBe(true);
  });
  it("zooms around a position and stays within the timeline", () => {
    const all = { from: 0, until: 1_000 };
    expect(zoom(all, all, 0.5, 0)).toEqual({ from: 0, until: 500 });
    expect(zoom(all, all, 0.5, 1)).toEqual({ from: 500, until: 1_000 });
    expect(zoom({ from: 0, until: 500 }, all, 4)).toEqual(all);
    expect(zoom({ from: 10, until: 30 }, all, 0.001).until - 10).toBeGreaterThanOrEqual(20);
    expect(pan({ from: 0, until: 500 }, all, 5)).toEqual({ from: 500, until: 1_000 });
    expect(pan({ from: 0, until: 500 }, all, -1)).toEqual({ from: 0, until: 500 });
  });
  it("marks the axis at round times", () => {
    expect(ticks({ from: AT, until: AT + 10_000 }, AT, 500).map((tick) => tick.text)).toEqual([
      "0",
      "2 s",
      "4 s",
      "6 s",
      "8 s",
      "10 s",
    ]);
    expect(ticks({ from: AT, until: AT + 30 * 86_400_000 }, AT, 500).length).toBeLessThan(12);
  });
  it("sums time by kind, and handles an empty tree", () => {
    expect(shares(tracks(timeline(1, 3))[0]!)).toEqual([
      ["model", 1_800],
      ["tool", 900],
    ]);
    const empty = { ...timeline(0, 0), until: iso(0) };
    expect(whole(empty).until).toBeGreaterThan(whole(empty).from);
  });
});

describe("transcripts", () => {
  const call = (id: string): TranscriptItem => ({
    seq: 1,
    at: "",
    kind: "call",
    text: "",
    call: { id, name: "exec", arguments: {} },
  });
  const result = (id: string): TranscriptItem => ({
    seq: 2,
    at: "",
    kind: "result",
    text: "out",
    result: { call_id: id, status: "ok", elapsed_ms: 1 },
  });
  const said = (text: string, kind = "assistant"): TranscriptItem => ({ seq: 3, at: "", kind, text });
  it("join a call with its result in any order", () => {
    const list = entries([call("a"), call("b"), result("b"), said("x"), result("a")]);
    expect(
      list.map((entry) =>
        entry.kind === "call" ? `${entry.call.call!.id}:${entry.result ? "done" : "open"}` : entry.item.text,
      ),
    ).toEqual(["a:done", "b:done", "x"]);
    expect(entries([call("a")])).toMatchObject([{ kind: "call", result: undefined, over: false }]);
    expect(entries([call("a"), said("report", "announcement")])).toMatchObject([{ over: false }, {}]);
    expect(entries([call("a"), said("report", "announcement"), said("so")])).toMatchObject([
      { result: undefined, over: true },
      {},
      {},
    ]);
    expect(entries([result("lost")])).toMatchObject([{ kind: "said" }]);
  });
  it("show a turn in order, with each result at its call", () => {
    const items = [
      said("do", "user"),
      said("first"),
      call("a"),
      said("report", "announcement"),
      said("and this", "steer"),
      call("b"),
      result("a"),
      result("b"),
      said("end"),
      said("completed: end", "finished"),
    ];
    const parts = partsOf(items);
    expect(
      parts.map((part) =>
        part.kind === "work" ? `work ${part.items.length}` : `${part.kind} ${part.item.text}`,
      ),
    ).toEqual(["mine do", "said first", "work 2", "report report", "mine and this", "work 2", "said end"]);
    expect(childrenAt(parts)).toBe(3);
    expect(childrenAt(partsOf([said("do", "user"), call("a"), said("end")]))).toBe(2);
    expect(childrenAt(partsOf([said("do", "user"), call("a")]))).toBe(2);
    expect(partsOf([result("lost")])).toMatchObject([{ kind: "work", items: { length: 1 } }]);
    expect(entries([call("a")], 9)).toMatchObject([{ over: true }]);
  });
  it("find the diff in the output or arguments of a tool", () => {
    const text = "edited one place\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n";
    const of = (text: string, diff?: string): TranscriptItem => ({
      ...result("a"),
      text,
      result: { call_id: "a", status: "ok", elapsed_ms: 1, ...(diff ? { diff } : {}) },
    });
    expect(outputOf(of(text))).toEqual({
      diff: "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n",
      rest: "edited one place",
    });
    expect(outputOf(of("@@ -1 +1 @@\n-a"))).toEqual({ diff: "@@ -1 +1 @@\n-a", rest: "" });
    expect(outputOf(of("- a list\n--- and more"))).toEqual({ diff: "", rest: "- a list\n--- and more" });
    expect(outputOf(of("done\nD", "D"))).toEqual({ diff: "D", rest: "done" });
    expect(requestedChange("edit_file", { path: "x", old_string: "a\nb", new_string: "c" })).toBe(
      "--- x\n+++ x\n-a\n-b\n+c",
    );
    expect(requestedChange("edit_file", { path: "x", old_string: "a", new_string: "" })).toBe(
      "--- x\n+++ x\n-a",
    );
    expect(requestedChange("write_file", { path: "x", content: "a\nb\n" })).toBe("--- x\n+++ x\n+a\n+b");
    expect(requestedChange("exec", { content: "a" })).toBeNull();
    expect(requestedChange("edit_file", { old_string: 3 })).toBeNull();
  });
  it("summarize arguments on one line", () => {
    expect(summary({ command: "ls\n-la", n: 3 })).toBe("ls ⏎ -la  3");
    expect(summary("x".repeat(9_000)).length).toBeLessThan(9_001);
    expect(summary({ content: "long", path: "src/a.rs" })).toBe("src/a.rs  long");
    expect(summary(null)).toBe("");
  });
  it("recognize a diff", () => {
    expect(["+++ b", "--- a", "@@ -1 +1 @@", "+x", "-x", " x"].map(diffKind)).toEqual([
      "file",
      "file",
      "at",
      "add",
      "del",
      "",
    ]);
    expect(looksLikeDiff("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y")).toBe(true);
    expect(looksLikeDiff("- a list\n- of things")).toBe(false);
  });
});

describe("lists and charts", () => {
  it("label days by their UTC date in every time zone", () => {
    expect(named("2026-03-04T00:00:00Z", "day")).toBe("2026-03-04");
  });
  it("draw the visible lines and a few more", () => {
    expect(visible(0, 340, 34, 10_000)).toEqual({ first: 0, last: 22 });
    expect(visible(170_000, 340, 34, 10_000)).toEqual({ first: 4_988, last: 5_022 });
    expect(visible(1e9, 340, 34, 10)).toEqual({ first: 0, last: 10 });
    expect(visible(0, 340, 34, 0)).toEqual({ first: 0, last: 0 });
  });
  it("scroll only as far as needed", () => {
    expect(intoView(0, 100, 340, 34)).toBe(0);
    expect(intoView(5, 0, 340, 34)).toBe(0);
    expect(intoView(20, 0, 340, 34)).toBe(374);
  });
  it("keep empty buckets", () => {
    const until = Date.parse("2026-01-02T10:30:00Z");
    const list = filled(
      [
        {
          at: "2026-01-02T09:00:00Z",
          tasks: 4,
          completed: 1,
          failed: 0,
          input_tokens: 1,
          output_tokens: 1,
          unpriced: 0,
          cost_usd: 0,
        },
      ],
      "hour",
      until,
    );
    expect(list).toHaveLength(48);
    expect(list.at(-2)!.tasks).toBe(4);
    expect(list.at(-1)!).toMatchObject({ at: "2026-01-02T10:00:00.000Z", tasks: 0 });
  });
  it("do not show an unknown cost as zero", () => {
    const point = (tasks: number, unpriced: number, cost_usd: number | null) => ({
      at: "",
      tasks,
      completed: 0,
      failed: 0,
      input_tokens: 0,
      output_tokens: 0,
      unpriced,
      cost_usd,
    });
    expect(unknownCost([point(0, 0, null)])).toBe("nothing");
    expect(unknownCost([point(2, 2, null), point(0, 0, null)])).toBe("all");
    expect(unknownCost([point(2, 1, 0.5)])).toBe("some");
    expect(unknownCost([point(2, 0, 0.5), point(0, 0, null)])).toBe("nothing");
  });
});
