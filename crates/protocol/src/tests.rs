use sortie_core::budget::{Balance, BudgetKind};
use sortie_core::id::{RunId, Seq, SessionKey};
use sortie_core::message::Usage;
use sortie_core::notification::{Notification, NotificationKind};
use sortie_core::run::{Delivery, Lane, Outcome, Priority, RunRecord, Summary};
use sortie_core::time::Timestamp;
use sortie_test_support::stage::Play;

use crate::{Budget, LiveEvent, NewTask, SUMMARY_CHARS, ServerMessage, Task};

fn run(digit: u128) -> RunId {
    RunId::from_uuid(uuid::Uuid::from_u128(digit))
}

/// Returns the record of a run that ended, with the fields that the tests name.
async fn record() -> RunRecord {
    let stage = Play::new("- say: found\n").begin().await;
    let played = stage.play("look").await;
    RunRecord {
        run_id: run(2),
        handle: "k7q2".to_owned(),
        child_session: SessionKey::of_child(run(2), "look"),
        session: "web:one".parse().unwrap(),
        tenant: Some("acme".parse().unwrap()),
        parent: Some(run(1)),
        root: run(1),
        depth: 1,
        agent: "explore".to_owned(),
        lane: Lane::Subagent,
        priority: Priority::High,
        label: "look".to_owned(),
        summary: Summary {
            tool_calls: 3,
            usage: Usage {
                input_tokens: Some(7),
                ..Usage::default()
            },
            unpriced: 1,
            model: "script:x".to_owned(),
            ..played.summary
        },
        delivery: Delivery::Delivered,
        created_at: Timestamp(0),
        started_at: Some(Timestamp(1_500)),
        ended_at: Some(Timestamp(2_000)),
        head: Seq(9),
        budget: vec![Balance {
            kind: BudgetKind::Usd,
            limit: 1_000_000,
            spent: 1,
            reserved: 2,
        }],
        ..played
    }
}

#[tokio::test]
async fn task_serialises_to_the_documented_json() {
    insta::assert_json_snapshot!(Task::from(&record().await), @r#"
    {
      "task_id": "00000000-0000-0000-0000-000000000002",
      "handle": "k7q2",
      "label": "look",
      "message": "look",
      "session_id": "web:one",
      "parent_id": "00000000-0000-0000-0000-000000000001",
      "root_id": "00000000-0000-0000-0000-000000000001",
      "agent": "explore",
      "model": "script:x",
      "status": "completed",
      "reason": null,
      "waiting_on": null,
      "paused": false,
      "progress": 100,
      "result": "found",
      "error": null,
      "created_at": "1970-01-01T00:00:00.000Z",
      "started_at": "1970-01-01T00:00:01.500Z",
      "completed_at": "1970-01-01T00:00:02.000Z",
      "depth": 1,
      "child_session": "subagent:00000000-0000-0000-0000-000000000002:3c01eba119e00d79",
      "lane": "subagent",
      "priority": "high",
      "tool_calls": 3,
      "usage": {
        "input_tokens": 7,
        "output_tokens": null,
        "cache_read_tokens": null,
        "cache_write_tokens": null,
        "cost_usd": null
      },
      "total_usage": {
        "input_tokens": 7,
        "output_tokens": null,
        "cache_read_tokens": null,
        "cache_write_tokens": null,
        "cost_usd": null
      },
      "delivery": "delivered",
      "verdict": null,
      "queue_position": null,
      "tenant": "acme",
      "cancel_requested": false,
      "seq": 9,
      "budget": [
        {
          "kind": "usd",
          "limit": 1000000,
          "spent": 1,
          "reserved": 2
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn summary_truncates_between_characters() {
    let mut long = record().await;
    long.task = "é".repeat(SUMMARY_CHARS + 1);
    long.outcome = Some(Outcome::Completed {
        text: "字".repeat(SUMMARY_CHARS),
        checked: None,
    });
    let task = Task::from(&long).summary();
    assert_eq!(task.message.chars().count(), SUMMARY_CHARS + 1);
    assert!(task.message.ends_with("é…"));
    assert_eq!(task.result, Some("字".repeat(SUMMARY_CHARS)));
}

#[test]
fn live_event_round_trips_through_json() {
    let event = Notification {
        task_id: run(2),
        session_id: "web:one".parse().unwrap(),
        root_id: run(1),
        parent_id: Some(run(1)),
        tenant: None,
        seq: Seq(4),
        at: Timestamp(0),
        kind: NotificationKind::Tool {
            tool: "exec".to_owned(),
            tool_calls: 2,
        },
    };
    let event = LiveEvent { seq: 7, event };
    let text = serde_json::to_string(&event).unwrap();
    insta::assert_snapshot!(text, @r#"{"seq":7,"task_id":"00000000-0000-0000-0000-000000000002","session_id":"web:one","root_id":"00000000-0000-0000-0000-000000000001","parent_id":"00000000-0000-0000-0000-000000000001","tenant":null,"task_seq":4,"at":"1970-01-01T00:00:00.000Z","type":"tool","tool":"exec","tool_calls":2}"#);
    let back: ServerMessage = serde_json::from_str(&text).unwrap();
    assert_eq!(back, ServerMessage::Event(Box::new(event)));
}

#[test]
fn invalid_amounts_of_money_become_a_budget_of_zero() {
    let check = |usd: f64, micros: u64| {
        let budget = Budget {
            usd: Some(usd),
            ..Budget::default()
        };
        assert_eq!(
            sortie_core::budget::Budget::from(budget).usd_micros,
            Some(micros),
            "{usd}"
        );
    };
    check(1.5, 1_500_000);
    check(0.000_000_4, 0);
    check(-1.0, 0);
    check(f64::NAN, 0);
    check(f64::INFINITY, u64::MAX);
}

#[test]
fn unknown_fields_and_modes_are_refused_by_name() {
    let check = |body: &str, expected: &str| {
        let error = serde_json::from_str::<NewTask>(body).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    check(
        r#"{"message":"x","modle":"y"}"#,
        "unknown field `modle`, expected one of `message`",
    );
    check(
        r#"{"message":"x","mode":"accept_edits"}"#,
        "unknown variant `accept_edits`, expected one of `plan`, `dont-ask`, `default`, \
         `accept-edits`, `yolo`",
    );
}

#[test]
fn request_summary_truncates_between_characters_and_is_marked() {
    let request = |text: String| {
        let question =
            sortie_core::request::RequestKind::Question(sortie_core::request::Question {
                to: sortie_core::request::Addressee::Person,
                text,
                options: Vec::new(),
                default: None,
            });
        let open = sortie_core::request::OpenRequest {
            request: sortie_core::request::Request {
                id: sortie_core::request::RequestId::from_text("abcd"),
                expires_at: Timestamp(9),
                kind: question,
            },
            task_id: run(2),
            root_id: run(1),
            session_id: "web:one".parse().unwrap(),
            tenant: None,
            agent: "code".to_owned(),
            label: "look".to_owned(),
            depth: 1,
            asked_at: Timestamp(1),
            reply: None,
            replied_at: None,
        };
        crate::Request::from(&open)
    };
    let fits = request("é".repeat(sortie_core::request_view::REQUEST_CHARS));
    assert_eq!(fits.clone().summary(), fits);
    // The removed text is as long as the mark that replaces it.
    let long = request("…".repeat(sortie_core::request_view::REQUEST_CHARS + 1)).summary();
    assert!(long.cut);
    let text = long.question.unwrap().text;
    assert_eq!(
        text.chars().count(),
        sortie_core::request_view::REQUEST_CHARS + 1
    );
}
