//! Properties of all requests and all streams.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use sortie_core::message::Message;
use sortie_core::ports::model::{ModelRequest, Wire};
use sortie_wire::{Decoder, Dialect, decode_whole, prefix_key};

use crate::support::{
    FORMATS, Recorder, assistant, body, call, chunks, request, result, shared, text, tools, user,
};

const STREAMS: [(Wire, &str); 8] = [
    (
        Wire::Anthropic,
        include_str!("fixtures/anthropic_tools.sse"),
    ),
    (Wire::Chat, include_str!("fixtures/openai_chat_tools.sse")),
    (
        Wire::Responses,
        include_str!("fixtures/responses_tools.sse"),
    ),
    (Wire::Gemini, include_str!("fixtures/gemini_tools.sse")),
    (Wire::Chat, include_str!("fixtures/deepseek_reasoning.sse")),
    (Wire::Chat, include_str!("fixtures/openrouter_details.sse")),
    (Wire::Chat, include_str!("fixtures/ollama_same_index.sse")),
    (Wire::Chat, include_str!("fixtures/kimi_usage.sse")),
];

/// Returns a turn of a conversation: a user message, a call with its result, a notice, or a reply.
fn turn(index: usize, kind: u8, words: &str) -> Vec<Message> {
    let id = format!("{index}-0");
    match kind % 4 {
        0 => vec![user(words)],
        1 => vec![
            assistant(vec![
                text(words),
                call(&id, None, "read_file", json!({"path": words})),
            ]),
            tools(vec![result(&id, None, words)]),
        ],
        2 => vec![Message::Notice {
            text: words.to_owned(),
        }],
        _ => vec![assistant(vec![text(words)])],
    }
}

fn conversation(turns: &[(u8, String)]) -> Vec<Message> {
    let turns = turns.iter().enumerate();
    turns
        .flat_map(|(index, (kind, words))| turn(index, *kind, words))
        .collect()
}

/// Returns a body without the cache marks, which move with its end.
fn unmarked(dialect: &Dialect, request: &ModelRequest) -> String {
    body(dialect, request).replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
}

proptest! {
    #[test]
    fn a_longer_conversation_begins_with_the_same_bytes(
        turns in prop::collection::vec((any::<u8>(), ".{0,20}"), 0..6),
        next in (any::<u8>(), ".{0,20}"),
    ) {
        let mut longer = turns.clone();
        longer.push(next);
        for format in FORMATS {
            let dialect = Dialect::new(format);
            let before = unmarked(&dialect, &request(conversation(&turns)));
            let after = unmarked(&dialect, &request(conversation(&longer)));
            // Everything except the end of the list and of the body.
            let shared = before.strip_suffix("]}").unwrap();
            prop_assert!(after.starts_with(shared), "{format:?}\n{before}\n{after}");
        }
    }

    #[test]
    fn siblings_share_all_but_their_messages(task in ".{1,20}", other in ".{1,20}") {
        for format in FORMATS {
            let dialect = Dialect::new(format);
            let first = request(vec![user(&task)]);
            let mut second = request(vec![user(&other)]);
            second.origin.task.clone_from(&other);
            prop_assert_eq!(prefix_key(&first), prefix_key(&second));
            let (first, second) = (body(&dialect, &first), body(&dialect, &second));
            let stable = ["\"messages\":[", "\"input\":[", "\"contents\":["]
                .iter()
                .find_map(|key| first.find(key))
                .unwrap();
            // The tools precede the messages in every format.
            prop_assert!(first[..stable].contains("list_files"));
            prop_assert_eq!(&first[..stable], &second[..stable]);
        }
    }

    #[test]
    fn streams_may_be_cut_anywhere(
        (format, text) in prop::sample::select(STREAMS.as_slice()),
        ends in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let stream = text.replace('\n', ends);
        let dialect = Dialect::new(format);
        let bytes = stream.as_bytes();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
        let whole = chunks(&dialect, &[text.as_bytes()]);
        prop_assert!(whole.0.is_ok());
        prop_assert_eq!(chunks(&dialect, &pieces), whole);
    }

    #[test]
    fn garbage_is_an_error_or_an_answer(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
        (_, real) in prop::sample::select(STREAMS.as_slice()),
        place in any::<prop::sample::Index>(),
        length in 0..30_usize,
    ) {
        for format in FORMATS {
            let dialect = Dialect::new(format);
            // Noise alone, and noise that replaces a part of a valid stream.
            let slices: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            survives(&dialect, &slices);
            let real = real.as_bytes();
            let at = place.index(real.len());
            let noise = pieces.concat();
            let rest = &real[(at + length).min(real.len())..];
            survives(&dialect, &[&real[..at], &noise, rest]);
        }
    }

    #[test]
    fn strange_json_is_an_error_or_an_answer(value in strange(), which in 0..4_usize) {
        let dialect = Dialect::new(FORMATS[which]);
        let recorder = Recorder::default();
        // Any result is fine as long as nothing panics.
        drop(decode_whole(&dialect, value.to_string().as_bytes(), &recorder));
        survives(&dialect, &[format!("data: {value}\n\n").as_bytes()]);
    }
}

fn survives(dialect: &Dialect, pieces: &[&[u8]]) {
    let recorder = Recorder::default();
    let mut decoder = Decoder::new(dialect);
    for piece in pieces {
        if decoder.bytes(piece, &recorder).is_err() {
            break;
        }
    }
    let shown = decoder.shown();
    assert_eq!(shown, !recorder.text().is_empty());
    if let Err(error) = decoder.end() {
        assert_eq!(error.shown, shown, "{error}");
    }
}

/// Generates JSON with the keys of the formats and arbitrary values.
fn strange() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<u64>().prop_map(|value| json!(value)),
        word().prop_map(|value| json!(value)),
    ];
    leaf.prop_recursive(6, 64, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::Array),
            prop::collection::vec((word(), inner), 0..6)
                .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn word() -> impl Strategy<Value = String> {
    const WORDS: [&str; 46] = [
        "type",
        "content_block_start",
        "content_block_delta",
        "content_block",
        "tool_use",
        "text",
        "delta",
        "index",
        "usage",
        "input_tokens",
        "cache_read_input_tokens",
        "choices",
        "message",
        "tool_calls",
        "function",
        "arguments",
        "reasoning_details",
        "finish_reason",
        "stop",
        "candidates",
        "content",
        "parts",
        "functionCall",
        "args",
        "usageMetadata",
        "promptTokenCount",
        "thoughtsTokenCount",
        "response",
        "output",
        "output_index",
        "item",
        "response.completed",
        "response.output_item.done",
        "response.output_text.delta",
        "function_call",
        "reasoning",
        "summary",
        "encrypted_content",
        "error",
        "details",
        "id",
        "status",
        "failed",
        "total_tokens",
        "prompt_tokens",
        "completion_tokens",
    ];
    prop::sample::select(WORDS.as_slice()).prop_map(str::to_owned)
}

#[test]
fn different_prefixes_have_different_keys() {
    let first = request(vec![user("a")]);
    let mut other = first.clone();
    other.system = Arc::from("You plan.");
    assert_ne!(prefix_key(&first), prefix_key(&other));
    let mut other = first.clone();
    other.tools = Arc::new([]);
    assert_ne!(prefix_key(&first), prefix_key(&other));
    let mut other = first.clone();
    other.messages = shared(vec![user("b")]);
    assert_eq!(prefix_key(&first), prefix_key(&other));
}
