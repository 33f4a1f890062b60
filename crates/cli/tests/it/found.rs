//! A model server on this machine is found and used without configuration.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::world::World;

/// Responds like Ollama: lists a model, reports that it supports tools, and completes prompts.
fn serve(listener: &TcpListener) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            return;
        };
        std::thread::spawn(move || answer(stream));
    }
}

fn answer(stream: TcpStream) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let (kind, words) = if first.contains("/api/tags") {
            (
                "application/json",
                r#"{"models":[{"name":"found:1b"}]}"#.to_owned(),
            )
        } else if first.contains("/api/show") {
            (
                "application/json",
                r#"{"capabilities":["completion","tools"]}"#.to_owned(),
            )
        } else if first.contains("/v1/chat/completions") {
            let chunk = r#"{"id":"c","object":"chat.completion.chunk","model":"found:1b","choices":[{"index":0,"delta":{"role":"assistant","content":"Here I am."},"finish_reason":"stop"}]}"#;
            (
                "text/event-stream",
                format!("data: {chunk}\n\ndata: [DONE]\n\n"),
            )
        } else {
            ("text/plain", String::new())
        };
        write!(
            reader.get_mut(),
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{words}",
            words.len()
        )
        .unwrap();
    }
}

#[test]
fn local_model_server_is_found_without_configuration() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || serve(&listener));
    let world = World::new().with("OLLAMA_HOST", &host);
    let output = world.ok(&["run", "Where are you?"]);
    assert_eq!(output.out, "Here I am.\n");
    assert!(
        output.err.contains("Using ollama/found:1b"),
        "it says what it found: {}",
        output.err
    );
    assert_eq!(world.task("Where are you?")["model"], "ollama/found:1b");
    let listed = world.json(&["models", "list", "--json"]);
    assert_eq!(listed["servers"][0]["models"][0]["name"], "ollama/found:1b");
    assert_eq!(listed["servers"][0]["models"][0]["tools"], true);
    let checked = world.json(&["models", "check", "--json"]);
    assert_eq!(checked["text"], "Here I am.");
    assert_eq!(checked["priced"], true, "what runs here costs nothing");
}
