//! The bare HTTP client that the benchmark compares with: the same conversations with the same
//! provider, the same files read, no runtime. It keeps its connections open and stores nothing.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::{Value, json};
use sortie_base::sse::{Limits, Reader};
use sortie_bench::http::{Address, Http};

use crate::provider::MAIN_MARK;

/// The size of the system prompt and tools of the main conversation: as large as a runtime's.
const MAIN_PROMPT_BYTES: usize = 9_500;
/// The same of a child's conversation.
const CHILD_PROMPT_BYTES: usize = 5_500;
/// The turns after which a conversation counts as endless.
const MAX_TURNS: u32 = 20_000;

/// The longest event of a stream.
const MAX_EVENT_BYTES: usize = 1 << 20;

/// Where the client works: `bare PORT MODEL FOLDER`.
#[derive(Clone, Debug)]
struct Site {
    address: Address,
    model: String,
    workspace: PathBuf,
}

/// Runs the main conversation, and those of its children, to their ends.
pub(crate) fn run(port: &str, model: &str, workspace: &str) -> Result<()> {
    let site = Site {
        address: Address {
            host: format!("127.0.0.1:{port}"),
            token: "none".to_owned(),
        },
        model: model.to_owned(),
        workspace: PathBuf::from(workspace),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let text = runtime.block_on(main_conversation(&site))?;
    println!("{text}");
    Ok(())
}

async fn main_conversation(site: &Site) -> Result<String> {
    let instruction = format!("{MAIN_MARK}: send them out");
    let mut main = Conversation::open(site, MAIN_PROMPT_BYTES, &instruction).await?;
    for _ in 0..MAX_TURNS {
        let reply = main.turn().await?;
        if reply.calls.is_empty() {
            return Ok(reply.text);
        }
        let children: FuturesUnordered<_> = reply
            .calls
            .into_iter()
            .map(|call| async move {
                let instruction = call.arguments["prompt"].as_str().unwrap_or_default();
                let report = child_conversation(site.clone(), instruction.to_owned());
                // A task of its own, so that the children use all cores.
                let report = tokio::spawn(report).await.context("a child panicked")??;
                anyhow::Ok((call.id, report))
            })
            .collect();
        let results: Vec<Result<(String, String)>> = children.collect().await;
        main.add_results(results.into_iter().collect::<Result<Vec<_>>>()?);
    }
    bail!("the main conversation does not end")
}

async fn child_conversation(site: Site, instruction: String) -> Result<String> {
    let mut child = Conversation::open(&site, CHILD_PROMPT_BYTES, &instruction).await?;
    for _ in 0..MAX_TURNS {
        let reply = child.turn().await?;
        if reply.calls.is_empty() {
            return Ok(reply.text);
        }
        let results = reply
            .calls
            .into_iter()
            .map(|call| Ok((call.id, read_file(&site, &call.arguments)?)));
        child.add_results(results.collect::<Result<Vec<_>>>()?);
    }
    bail!("a child's conversation does not end")
}

fn read_file(site: &Site, arguments: &Value) -> Result<String> {
    let path = arguments["path"]
        .as_str()
        .context("a call without a path")?;
    let text = std::fs::read_to_string(site.workspace.join(path)).context("read the note")?;
    let number = |name: &str| {
        arguments[name]
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
    };
    let first = number("offset").unwrap_or(1).max(1);
    let lines = text.lines().enumerate().skip(first - 1);
    Ok(lines
        .take(number("limit").unwrap_or(usize::MAX))
        .map(|(index, line)| format!("{}\t{line}\n", index + 1))
        .collect())
}

/// One conversation on one connection.
#[derive(Debug)]
struct Conversation {
    http: Http,
    model: String,
    system: String,
    messages: Vec<Value>,
}

/// A decoded completion.
#[derive(Debug, Default)]
struct Reply {
    text: String,
    calls: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    arguments: Value,
}

impl Conversation {
    async fn open(site: &Site, prompt_bytes: usize, instruction: &str) -> Result<Self> {
        Ok(Self {
            http: Http::connect(&site.address).await?,
            model: site.model.clone(),
            system: "Follow the instruction. ".repeat(prompt_bytes / 24),
            messages: vec![json!({"role": "user", "content": instruction})],
        })
    }

    async fn turn(&mut self) -> Result<Reply> {
        let body = json!({
            "model": self.model,
            "max_tokens": 4096,
            "stream": true,
            "system": self.system,
            "messages": self.messages,
        });
        let (status, bytes) = self.http.send("POST /v1/messages", Some(&body)).await?;
        ensure!(status == 200, "the provider responded with {status}");
        let reply = decode(&bytes)?;
        let calls = reply.calls.iter().map(|call| {
            json!({
                "type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments
            })
        });
        let mut content: Vec<Value> = calls.collect();
        if !reply.text.is_empty() {
            content.push(json!({"type": "text", "text": reply.text}));
        }
        self.messages
            .push(json!({"role": "assistant", "content": content}));
        Ok(reply)
    }

    fn add_results(&mut self, results: Vec<(String, String)>) {
        let content: Vec<Value> = results
            .into_iter()
            .map(|(id, text)| json!({"type": "tool_result", "tool_use_id": id, "content": text}))
            .collect();
        self.messages
            .push(json!({"role": "user", "content": content}));
    }
}

fn decode(mut stream: &[u8]) -> Result<Reply> {
    let mut reply = Reply::default();
    let mut raw = String::new();
    let mut reader = Reader::new(Limits {
        event_bytes: MAX_EVENT_BYTES,
        stream_bytes: None,
    });
    while let Some(event) = reader
        .next(&mut stream)
        .map_err(|error| anyhow!("the stream cannot be read: {error:?}"))?
    {
        let event: Value = serde_json::from_str(&event.data).context("read an event")?;
        let block = &event["content_block"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap_or_default() {
            "content_block_start" if block["type"] == "tool_use" => {
                raw.clear();
                reply.calls.push(Call {
                    id: text(&block["id"]),
                    name: text(&block["name"]),
                    arguments: Value::Null,
                });
            }
            "content_block_delta" => {
                reply.text += &text(&event["delta"]["text"]);
                raw += &text(&event["delta"]["partial_json"]);
            }
            "content_block_stop" => {
                if let Some(call) = reply.calls.last_mut()
                    && call.arguments.is_null()
                {
                    call.arguments = serde_json::from_str(&raw).context("read the arguments")?;
                }
            }
            "message_stop" => return Ok(reply),
            _ => {}
        }
    }
    bail!("the completion was cut off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{NOTE, Provider, tree};

    #[test]
    fn main_and_each_child_prompt_the_provider_in_turn() {
        let provider = Provider::start().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(NOTE), "one\ntwo\nthree\nfour\n").unwrap();
        let port = provider.port.to_string();
        run(&port, &tree(3, 2, 3), folder.path().to_str().unwrap()).unwrap();
        let log = provider.take_log();
        // Three prompts of the main conversation, and four of each of its two times three children.
        assert_eq!(log.requests, 3 + 2 * 3 * 4);
        assert!(log.main_bytes > log.child_bytes, "{log:?}");
        assert!(log.child_bytes.is_some(), "{log:?}");
    }

    #[test]
    fn a_child_reads_the_lines_that_the_model_names() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(NOTE), "one\ntwo\nthree\nfour\n").unwrap();
        let site = Site {
            address: Address {
                host: String::new(),
                token: String::new(),
            },
            model: String::new(),
            workspace: folder.path().to_owned(),
        };
        let arguments = json!({"path": NOTE, "offset": 2, "limit": 2});
        assert_eq!(read_file(&site, &arguments).unwrap(), "2\ttwo\n3\tthree\n");
    }
}
