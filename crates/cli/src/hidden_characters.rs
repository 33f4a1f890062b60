//! Tests every place where this program shows untrusted text against the one table of hidden
//! characters.
//!
//! Callers in other crates (MCP descriptions and results, fetched pages, names of models, paths of
//! worktrees) use the same table in their own tests; `crates/base/tests` compares the page's copy
//! of the table with it.

use serde_json::json;
use sortie_base::hidden::{self, write_out_json};
use sortie_config::KeyPath;
use sortie_core::id::{CallId, EffectId, SessionKey};
use sortie_core::policy::Layer;
use sortie_core::request::{ApprovalRequest, OpenRequest, Request, RequestId, RequestKind};
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_text::{one_line, strip_sequences};

use crate::{approval, output};

/// How a caller treats a hidden character.
#[derive(Clone, Copy)]
enum Treatment {
    /// Writes it out as `\u{…}`, without exceptions: a person decides by this text.
    WritesOut,
    /// Removes it, writes it out or escapes it; prose keeps the format characters that fonts draw.
    Prose,
}
use Treatment::{Prose, WritesOut};

type Caller = (&'static str, Treatment, fn(&str) -> String);

const CALLERS: [Caller; 9] = [
    ("approval: command", WritesOut, |text| {
        prompt("code", "label", "exec", text)
    }),
    ("approval: agent", WritesOut, |text| {
        prompt(text, "label", "exec", "ls")
    }),
    ("approval: label", WritesOut, |text| {
        prompt("code", text, "exec", "ls")
    }),
    ("approval: tool", WritesOut, |text| {
        prompt("code", "label", text, "ls")
    }),
    ("approval: list", WritesOut, approval::shown),
    ("terminal output", Prose, output::for_terminal),
    ("one line of text", Prose, one_line),
    ("lines of text", Prose, strip_sequences),
    ("configuration key", Prose, |text| {
        KeyPath::from_iter([text]).to_string()
    }),
];

fn prompt(agent: &str, label: &str, tool: &str, command: &str) -> String {
    approval::question(
        Lang::En,
        &request(
            agent,
            label,
            RequestKind::Approval(Box::new(ApprovalRequest {
                tool: tool.to_owned(),
                exact: command.to_owned(),
                arguments: json!({ "command": command }),
                dangers: Vec::new(),
                preview: None,
                layer: Layer::Mode,
                rule: None,
                reason: "mode: it runs programs".to_owned(),
                folder: "/ws".into(),
                lasting: Vec::new(),
            })),
        ),
    )
}

fn request(agent: &str, label: &str, kind: RequestKind) -> OpenRequest {
    let run = "0190f3a8-1111-7000-8000-000000000001".parse().unwrap();
    OpenRequest {
        request: Request {
            id: RequestId::of(&EffectId::new(run, &CallId::new(1, 0))),
            expires_at: Timestamp(0),
            kind,
        },
        task_id: run,
        root_id: run,
        session_id: SessionKey::cli(),
        tenant: None,
        agent: agent.to_owned(),
        label: label.to_owned(),
        depth: 1,
        asked_at: Timestamp(0),
        reply: None,
        replied_at: None,
    }
}

#[test]
fn no_caller_shows_a_hidden_character_unseen() {
    let is_drawn = |c: char| {
        let mut drawn = hidden::DRAWN.iter();
        drawn.any(|(first, last)| (*first..=*last).contains(&c))
    };
    for character in hidden::all().filter(|c| !matches!(c, '\n' | '\t')) {
        let text = format!("a{character}b");
        let written = format!("a{}b", character.escape_unicode());
        for (name, treatment, show) in CALLERS {
            let shown = show(&text);
            match treatment {
                WritesOut => assert!(shown.contains(&written), "{name}: {shown:?}"),
                Prose if is_drawn(character) => {}
                Prose => assert!(!shown.contains(character), "{name}: {shown:?}"),
            }
        }
        let json = write_out_json(&serde_json::to_string(&text).unwrap());
        assert!(json.is_ascii(), "{json}");
    }
}

/// Variation selectors and Hangul fillers spell whole sentences that a reader does not see.
#[test]
fn a_sentence_in_variation_selectors_reaches_the_approver_written_out() {
    let command = "./build.sh\u{e0100}\u{e0101}\u{ffa0}\u{115f}";
    let shown = prompt("code", "label", "exec", command);
    let expected = "./build.sh\\u{e0100}\\u{e0101}\\u{ffa0}\\u{115f}";
    assert!(shown.contains(expected), "{shown}");
}
