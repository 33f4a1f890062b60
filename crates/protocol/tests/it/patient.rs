//! A server that needs time: the client retries until it gets the outcome.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use sortie_base::secret::Secret;
use sortie_core::id::RunId;
use sortie_protocol::client::{Client, ClientError};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::support::PROOF;

/// The response to a repeated idempotency key while the first attempt executes. It asks for no
/// delay.
const UNDER_WAY: &str = "HTTP/1.1 409 Conflict\r\nretry-after: 0\r\n";
/// The response to an attempt that exceeds the server's handler timeout.
const OVERDUE: &str = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\n";

fn problem(status: u16, slug: &str) -> String {
    serde_json::json!({
        "type": format!("urn:sortie:problem:{slug}"), "title": slug, "status": status, "detail": slug,
    })
    .to_string()
}

/// A server on loopback that proves its identity and gives these responses to POST requests.
struct ScriptedServer {
    address: SocketAddr,
    /// The idempotency keys of the POST requests.
    keys: Arc<Mutex<Vec<String>>>,
}

impl ScriptedServer {
    async fn to_answer(answers: Vec<(&'static str, String)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let keys = Arc::new(Mutex::new(Vec::new()));
        let seen_keys = Arc::clone(&keys);
        tokio::spawn(async move {
            let mut answers = answers.into_iter();
            while let Ok((stream, _)) = listener.accept().await {
                answer_one(stream, &mut answers, &seen_keys).await;
            }
        });
        Self { address, keys }
    }

    fn client(&self) -> Client {
        Client::new(self.address, &Secret::new("sortie_aaaaaaaa_token"), PROOF).unwrap()
    }
}

/// Serves one request of one connection.
async fn answer_one(
    stream: TcpStream,
    answers: &mut impl Iterator<Item = (&'static str, String)>,
    keys: &Mutex<Vec<String>>,
) {
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    stream.read_line(&mut first).await.unwrap();
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        stream.read_line(&mut line).await.unwrap();
        let Some((name, value)) = line.trim().split_once(": ") else {
            break;
        };
        match name {
            "content-length" => length = value.parse().unwrap(),
            "idempotency-key" => keys.lock().unwrap().push(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let (head, body) = match first.split_once("nonce=") {
        Some((_, rest)) => {
            let nonce = rest.split(' ').next().unwrap();
            ("HTTP/1.1 200 OK\r\n", PROOF.answer(nonce).unwrap())
        }
        None => answers.next().unwrap(),
    };
    let length = body.len();
    let answer = format!("{head}connection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}

#[tokio::test]
async fn client_waits_while_the_first_attempt_executes() {
    let run: RunId = "0198b1d0-0000-7000-8000-000000000001".parse().unwrap();
    let mut answers = vec![(OVERDUE, problem(503, "timeout"))];
    // More attempts than the client makes for a broken connection.
    answers.extend((0..8).map(|_| (UNDER_WAY, problem(409, "under-way"))));
    let done = serde_json::json!({ "task_id": run }).to_string();
    answers.push(("HTTP/1.1 200 OK\r\n", done));
    let server = ScriptedServer::to_answer(answers).await;
    let steered = server.client().steer(run, "faster", "the-wish").await;
    assert_eq!(steered.unwrap().task_id, run);
    // All attempts had the same idempotency key.
    assert_eq!(*server.keys.lock().unwrap(), vec!["the-wish"; 10]);
}

#[tokio::test]
async fn conflict_is_not_retried() {
    let run: RunId = "0198b1d0-0000-7000-8000-000000000001".parse().unwrap();
    let server = ScriptedServer::to_answer(vec![(UNDER_WAY, problem(409, "conflict"))]).await;
    let refused = server.client().steer(run, "faster", "the-wish").await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, ClientError::Refused { .. }),
        "{refused:?}"
    );
    assert_eq!(server.keys.lock().unwrap().len(), 1);
}
