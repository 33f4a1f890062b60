//! Tests of typical journals and their spans.

use insta::assert_snapshot;
use serde_json::json;
use sortie_core::event::{ChildWait, Event};
use sortie_core::id::{CallId, Epoch};
use sortie_core::inbox::{Announcement, InboxItem};
use sortie_core::message::{ChildRef, ResultStatus, ToolResult, Usage};
use sortie_core::policy::{ApprovedBy, Decision, Layer, Ruling};
use sortie_core::ports::model::Fault;
use sortie_core::request::{Question, RequestId};
use sortie_core::run::{Cancellation, CancelledBy, EdgeMode, Outcome, Reason};
use sortie_telemetry::{Capture, SpanId, TraceId, Value, spans};

use crate::journal::{PRIVATE, Pen, lines, run_id, spec};

const CALL: &[&str] = &[
    "gen_ai.tool.call.id",
    "sortie.tool.status",
    "sortie.policy.layer",
    "sortie.tool.waited_for",
];

fn announcement(child: u128, call: Option<CallId>, mode: EdgeMode) -> InboxItem {
    InboxItem::Announcement(Box::new(Announcement {
        child: run_id(child),
        call,
        mode,
        agent: "explore".to_owned(),
        label: "child".to_owned(),
        task: "look".to_owned(),
        outcome: Outcome::Completed {
            text: "found".to_owned(),
            checked: None,
        },
        tool_calls: 1,
        elapsed_ms: 10,
        usage: Usage::default(),
        changes: None,
    }))
}

fn child(number: u128) -> ChildRef {
    ChildRef {
        run: run_id(number),
        agent: "explore".to_owned(),
        label: "child".to_owned(),
    }
}

fn ruling(layer: Layer) -> Option<Ruling> {
    Some(Ruling::new(Decision::Allow, layer, None, "because"))
}

#[test]
fn a_run_with_a_call() {
    let mut pen = Pen::new(spec(|_| {}));
    pen.claimed(1_200)
        .answered(2_000, 1, &["read_file"])
        .tool_finished(2_500, &CallId::new(1, 0), 300)
        .answered(4_000, 2, &[])
        .completed(4_010);
    let spans = spans(&pen.entries, Capture::Facts);
    assert_snapshot!(lines(&spans, &["gen_ai.usage.input_tokens", "sortie.task.status", "sortie.task.queued_ms", "gen_ai.response.finish_reasons", "sortie.tool.elapsed_ms", "sortie.usage.cost_usd"]), @r#"
    1000..4010 invoke_agent main < - gen_ai.usage.input_tokens=200 sortie.task.status=completed sortie.task.queued_ms=200 sortie.usage.cost_usd=0.5
    1200..2000 chat anthropic/big < invoke_agent main gen_ai.usage.input_tokens=100 gen_ai.response.finish_reasons=tool_call sortie.usage.cost_usd=0.25
    2200..2500 execute_tool read_file < invoke_agent main sortie.tool.elapsed_ms=300
    2500..4000 chat anthropic/big < invoke_agent main gen_ai.usage.input_tokens=100 gen_ai.response.finish_reasons=stop sortie.usage.cost_usd=0.25
    "#);
    assert_eq!(spans[0].trace, TraceId::of(run_id(1)));
    assert_eq!(spans[0].trace.0[15], 1);
}

#[test]
fn a_blocking_child_is_waited_for_and_a_wait_ends_with_the_last() {
    let blocking = CallId::new(1, 0);
    let background = CallId::new(1, 1);
    let mut pen = Pen::new(spec(|_| {}));
    pen.claimed(1_000)
        .answered(2_000, 1, &["task", "spawn_subagent"])
        .write(
            2_050,
            Event::ToolFinished {
                result: ToolResult {
                    call: background,
                    provider_id: None,
                    text: "started".to_owned(),
                    status: ResultStatus::Ok,
                    full: None,
                    images: Vec::new(),
                },
                elapsed_ms: 1,
                spawned: Some(child(3)),
                todos: None,
                ruling: ruling(Layer::Mode),
                sandbox: None,
            },
        )
        .write(
            2_060,
            Event::Delegated {
                call: blocking.clone(),
                wait: ChildWait::Result { child: child(2) },
                ruling: ruling(Layer::Subagent),
            },
        )
        .claimed(6_000)
        .write(
            6_000,
            Event::InboxTaken {
                unread: false,
                items: vec![announcement(2, Some(blocking), EdgeMode::Blocking)],
            },
        )
        .answered(7_000, 2, &["subagents"])
        .write(
            7_010,
            Event::Delegated {
                call: CallId::new(2, 0),
                wait: ChildWait::Finished {
                    children: vec![run_id(2), run_id(3)],
                },
                ruling: None,
            },
        )
        .claimed(9_000)
        .write(
            9_001,
            Event::InboxTaken {
                unread: false,
                items: vec![announcement(
                    3,
                    Some(CallId::new(1, 1)),
                    EdgeMode::Background,
                )],
            },
        )
        .answered(9_500, 3, &[])
        .completed(9_500);
    let made = spans(&pen.entries, Capture::Facts);
    assert_snapshot!(lines(&made, &[CALL, &["sortie.tool.child"]].concat()), @r#"
    1000..9500 invoke_agent main < -
    1000..2000 chat anthropic/big < invoke_agent main
    2000..2050 execute_tool spawn_subagent < invoke_agent main gen_ai.tool.call.id=1-1 sortie.tool.status=ok sortie.policy.layer=mode sortie.tool.child=00000000-0000-0000-0000-000000000003
    2000..6000 execute_tool task < invoke_agent main gen_ai.tool.call.id=1-0 sortie.tool.status=ok sortie.policy.layer=subagent sortie.tool.waited_for=children sortie.tool.child=00000000-0000-0000-0000-000000000002
    6000..7000 chat anthropic/big < invoke_agent main
    7000..9001 execute_tool subagents < invoke_agent main gen_ai.tool.call.id=2-0 sortie.tool.status=ok sortie.tool.waited_for=children
    9001..9500 chat anthropic/big < invoke_agent main
    "#);
}

#[test]
fn a_child_hangs_under_the_call_that_made_it() {
    let call = CallId::new(4, 2);
    let mut pen = Pen::new(spec(|spec| {
        spec["parent"] = json!({"run": run_id(7), "call": call, "mode": "blocking"});
        spec["root"] = json!(run_id(5));
        spec["depth"] = json!(2);
    }));
    pen.claimed(1_001).answered(1_100, 1, &[]).completed(1_100);
    let spans = spans(&pen.entries, Capture::Facts);
    assert_eq!(spans[0].parent, Some(SpanId::of_call(run_id(7), &call)));
    assert!(
        spans
            .iter()
            .all(|span| span.trace == TraceId::of(run_id(5)))
    );
}

#[test]
fn approvals_failures_and_calls_that_never_ran_have_spans() {
    let call_id = CallId::new(1, 0);
    let request = sortie_core::request::Request {
        id: RequestId::from_text("abc"),
        expires_at: sortie_core::time::Timestamp(9_000),
        kind: sortie_core::request::RequestKind::Question(
            serde_json::from_value::<Question>(json!({
                "to": "person", "text": PRIVATE, "options": [], "default": null,
            }))
            .expect("a question"),
        ),
    };
    let approved = Ruling {
        approved: Some(ApprovedBy::Grant {
            rule: "exec".to_owned(),
        }),
        ..Ruling::new(Decision::Ask, Layer::Mode, None, "")
    };
    let mut pen = Pen::new(spec(|_| {}));
    pen.claimed(1_000)
        .write(
            1_500,
            Event::ModelFailed {
                model: "anthropic/big".to_owned(),
                fault: Fault::Transient,
                message: format!("broken {PRIVATE}"),
                shown: false,
            },
        )
        .answered(2_000, 1, &["exec", "write_file"])
        .write(
            2_010,
            Event::Asked {
                call: call_id.clone(),
                request: Box::new(request),
            },
        )
        .write(2_020, Event::Paused)
        .write(2_500, Event::Resumed)
        .write(
            3_000,
            Event::Intended {
                call: call_id,
                fingerprint: json!(PRIVATE),
                ruling: Some(approved),
            },
        )
        .write(
            3_100,
            Event::Claimed {
                epoch: Epoch(2),
                recovered: true,
            },
        )
        .write(
            3_200,
            Event::Finished {
                outcome: Outcome::Cancelled {
                    cancellation: Cancellation {
                        by: CancelledBy::Person,
                        reason: PRIVATE.to_owned(),
                    },
                    partial: None,
                },
            },
        );
    let made = spans(&pen.entries, Capture::Facts);
    assert_snapshot!(lines(&made, &[CALL, &["error.type", "sortie.task.claims"]].concat()), @r#"
    1000..3200 invoke_agent main < - FAILED error.type=cancelled sortie.task.claims=2
    1000..1500 chat anthropic/big < invoke_agent main FAILED error.type=transient
    1500..2000 chat anthropic/big < invoke_agent main
    2010..3200 execute_tool exec < invoke_agent main FAILED gen_ai.tool.call.id=1-0 sortie.tool.status=cancelled sortie.policy.layer=mode sortie.tool.waited_for=question error.type=cancelled
    3200..3200 execute_tool write_file < invoke_agent main FAILED gen_ai.tool.call.id=1-1 sortie.tool.status=cancelled error.type=cancelled
    "#);
    let events: Vec<&str> = made[0].events.iter().map(|event| event.name).collect();
    assert_eq!(
        events,
        [
            "sortie.claimed",
            "sortie.paused",
            "sortie.resumed",
            "sortie.claimed"
        ]
    );
}

#[test]
fn calls_that_never_ran_end_where_they_began() {
    let mut pen = Pen::new(spec(|_| {}));
    pen.claimed(1_000)
        .answered(2_000, 1, &["read_file"])
        .answered(3_000, 2, &[])
        .write(
            3_100,
            Event::Finished {
                outcome: Outcome::Failed {
                    reason: Reason::MaxIterations,
                    message: PRIVATE.to_owned(),
                    partial: None,
                },
            },
        );
    assert_snapshot!(lines(&spans(&pen.entries, Capture::Facts), &[CALL, &["error.type"]].concat()), @r#"
    1000..3100 invoke_agent main < - FAILED error.type=max_iterations
    1000..2000 chat anthropic/big < invoke_agent main
    2000..2000 execute_tool read_file < invoke_agent main FAILED gen_ai.tool.call.id=1-0 sortie.tool.status=not_run error.type=not_run
    2000..3000 chat anthropic/big < invoke_agent main
    "#);
}

#[test]
fn content_is_sent_only_if_enabled() {
    let mut pen = Pen::new(spec(|_| {}));
    pen.claimed(1_200)
        .answered(2_000, 1, &["read_file"])
        .tool_finished(2_500, &CallId::new(1, 0), 300)
        .answered(4_000, 2, &[])
        .completed(4_010);
    let facts = spans(&pen.entries, Capture::Facts);
    assert!(!format!("{facts:?}").contains(PRIVATE));
    let content = spans(&pen.entries, Capture::Content);
    assert_snapshot!(lines(&content[..3], &["gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.system_instructions", "sortie.task.label"]), @r#"
    1000..4010 invoke_agent main < - gen_ai.input.messages=[{"parts":[{"content":"task private-words","type":"text"}],"role":"user"}] gen_ai.output.messages=[{"parts":[{"content":"done private-words","type":"text"}],"role":"assistant"}] gen_ai.system_instructions=[{"content":"prompt private-words","type":"text"}] sortie.task.label=label private-words
    1200..2000 chat anthropic/big < invoke_agent main gen_ai.output.messages=[{"finish_reason":"tool_call","parts":[{"arguments":"{\"words\":\"private-words\"}","id":"1-0","name":"read_file","type":"tool_call"},{"content":"answer private-words","type":"text"}],"role":"assistant"}]
    2200..2500 execute_tool read_file < invoke_agent main gen_ai.tool.call.arguments={"words":"private-words"} gen_ai.tool.call.result=result private-words
    "#);
}

#[test]
fn names_of_models_and_vendors() {
    let mut pen = Pen::new(spec(|spec| spec["model"] = json!("gemini/flash")));
    pen.claimed(1_200).answered(2_000, 1, &[]).completed(2_001);
    let made = spans(&pen.entries, Capture::Facts);
    assert_snapshot!(lines(&made, &["gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model"]), @r#"
    1000..2001 invoke_agent main < - gen_ai.provider.name=gcp.gemini gen_ai.request.model=gemini/flash
    1200..2000 chat gemini/flash < invoke_agent main gen_ai.provider.name=gcp.gemini gen_ai.request.model=gemini/flash gen_ai.response.model=anthropic/big
    "#);
    let status = made[0].attribute("sortie.task.status");
    assert_eq!(status, Some(&Value::Text("completed".to_owned())));
}

#[test]
fn a_run_that_has_not_ended_has_no_spans() {
    let mut pen = Pen::new(spec(|_| {}));
    pen.claimed(1_200).answered(2_000, 1, &["read_file"]);
    assert_eq!(spans(&pen.entries, Capture::Facts), []);
    assert_eq!(spans(&[], Capture::Facts), []);
}
