//! A local provider that responds exactly as a test defines, byte by byte.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A step of a server on a connection after it has read the request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Send(String),
    /// Sends this repeatedly until the client disconnects.
    Endless(&'static str),
    After(std::time::Duration),
    /// Keeps the connection open and sends nothing more.
    Hang,
    Reset,
}

/// A server that sends its responses in order and repeats the last one.
#[derive(Debug)]
pub(crate) struct Server {
    /// Base URL, as `http://127.0.0.1:PORT`.
    pub url: String,
    seen: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(replies: Vec<Vec<Step>>) -> Self {
        let pick = move |count: usize, _: &str| replies[count.min(replies.len() - 1)].clone();
        Self::answering(pick).await
    }

    /// Starts a server that chooses its response by the number of the request and its text.
    pub(crate) async fn answering(
        pick: impl Fn(usize, &str) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (pick, noted) = (Arc::new(pick), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (pick, noted) = (Arc::clone(&pick), Arc::clone(&noted));
                connections.spawn(async move { serve(stream, &*pick, &noted).await });
            }
        });
        Self { url, seen, task }
    }

    /// Returns the requests so far, headers and body.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    pick: &(dyn Fn(usize, &str) -> Vec<Step> + Send + Sync),
    seen: &Mutex<Vec<String>>,
) -> Option<()> {
    let request = read(&mut stream).await?;
    let steps = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        pick(seen.len() - 1, &request)
    };
    for step in steps {
        match step {
            Step::Send(text) => stream.write_all(text.as_bytes()).await.ok()?,
            Step::Endless(text) => {
                let block = text.repeat(1 << 12);
                while stream.write_all(block.as_bytes()).await.is_ok() {}
            }
            Step::After(time) => tokio::time::sleep(time).await,
            Step::Hang => std::future::pending().await,
            Step::Reset => {
                stream.set_zero_linger().unwrap();
                return None;
            }
        }
    }
    stream.shutdown().await.ok()
}

async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = stream.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            (name.eq_ignore_ascii_case("content-length")).then(|| value.parse::<usize>().ok())?
        });
        if body.len() >= length.unwrap_or(0) {
            return Some(text.into_owned());
        }
    }
}

/// Returns a whole response with a body.
pub(crate) fn reply(status: &str, headers: &str, body: &str) -> Vec<Step> {
    vec![Step::Send(format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ))]
}

/// Returns the head of a response whose body ends with the connection.
pub(crate) fn open_head(kind: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n")
}

/// Returns a Chat stream with this text.
pub(crate) fn chat_stream(text: &str) -> String {
    format!(
        "data: {{\"model\":\"m-1\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{text:?}}}}}]}}\n\n\
         data: {{\"model\":\"m-1\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}],\
         \"usage\":{{\"prompt_tokens\":1000,\"completion_tokens\":100}}}}\n\n\
         data: [DONE]\n\n"
    )
}

/// Returns a successful response as a Chat stream.
pub(crate) fn good(text: &str) -> Vec<Step> {
    vec![Step::Send(
        open_head("text/event-stream") + &chat_stream(text),
    )]
}
