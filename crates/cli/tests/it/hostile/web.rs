//! P5: no address of this machine or its network is reached through the web tools, in any spelling.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::stage::{Answer, call, calls_in};
use crate::world::World;

/// A server on loopback that counts requests.
struct Site {
    port: u16,
    visits: Arc<AtomicUsize>,
}

impl Site {
    /// Starts a server that responds with this head and a word.
    fn open(head: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let visits = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&visits);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // Counts before it responds, so that every client that got a response was counted.
                count.fetch_add(1, Ordering::SeqCst);
                if let Ok(stream) = stream {
                    answer(stream, &head);
                }
            }
        });
        Self { port, visits }
    }

    fn plain() -> Self {
        Self::open("200 OK\r\nContent-Type: text/plain".to_owned())
    }

    fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream, head: &str) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while lines
        .next()
        .and_then(Result::ok)
        .is_some_and(|line| !line.is_empty())
    {}
    // A client that disconnects early has been counted already.
    write!(
        stream,
        "HTTP/1.1 {head}\r\nContent-Length: 7\r\nConnection: close\r\n\r\nvisited"
    )
    .ok();
}

/// Loopback addresses with a port, in every spelling that some program accepts.
const SPELLINGS: &[&str] = &[
    "http://127.0.0.1:{port}/",
    "http://localhost:{port}/",
    "http://LOCALHOST.:{port}/",
    "http://foo.localhost:{port}/",
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0x7f.0.0.1:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://017700000001:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://127.8.9.10:{port}/",
    "http://0.0.0.0:{port}/",
    "http://0:{port}/",
    "http://[::1]:{port}/",
    "http://[::]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[64:ff9b::7f00:1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://127\u{3002}0\u{3002}0\u{3002}1:{port}/",
    "http://\u{ff11}\u{ff12}\u{ff17}.0.0.1:{port}/",
    "http://\u{2460}\u{2461}\u{2466}.0.0.1:{port}/",
    "http://%31%32%37.0.0.1:{port}/",
    "http://user:word@127.0.0.1:{port}/",
    "http://example.com@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}#@example.com/",
    "http:\\\\127.0.0.1:{port}\\",
    "http:127.0.0.1:{port}/",
    "HTTP://127.0.0.1:{port}/",
    " http://127.0.0.1:{port}/ ",
    "http://127.0.0.1\t:{port}/",
    "https://127.0.0.1:{port}/",
    "ws://127.0.0.1:{port}/",
    "ftp://127.0.0.1:{port}/",
    "gopher://127.0.0.1:{port}/",
    "//127.0.0.1:{port}/",
    "127.0.0.1:{port}",
];
/// Addresses of services that give away keys or files.
const ELSEWHERE: &[&str] = &[
    "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://[fe80::1]/",
    "http://0xa9fea9fe/",
    "http://100.100.100.200/",
    "http://10.0.0.1/",
    "http://192.168.0.1/",
    "http://172.16.0.1/",
    "http://100.64.0.1/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "file:///etc/hostname",
    "data:text/plain,visited",
    "unix:///run/docker.sock",
];

fn fetch(world: &World, flags: &[&str], urls: &[String]) -> Vec<Answer> {
    let calls: Vec<Value> = urls
        .iter()
        .map(|url| call("web_fetch", json!({ "url": url })))
        .collect();
    calls_in(world, flags, &calls)
}

fn allowing(sites: &[&Site]) -> String {
    let hosts: Vec<String> = sites
        .iter()
        .map(|site| format!("127.0.0.1:{}", site.port))
        .collect();
    format!("web.allow_hosts={}", json!(hosts))
}

#[test]
fn no_spelling_reaches_this_machine() {
    let site = Site::plain();
    let world = World::new();
    let urls: Vec<String> = SPELLINGS
        .iter()
        .chain(ELSEWHERE)
        .map(|url| url.replace("{port}", &site.port.to_string()))
        .collect();
    for (url, answer) in urls.iter().zip(fetch(&world, &[], &urls)) {
        assert_ne!(answer.status, "ok", "{url}: {answer:?}");
        assert!(!answer.text.contains("visited\n"), "{url}: {answer:?}");
    }
    assert_eq!(site.visits(), 0);
    // The control: an address that the operator allowed is reached.
    let url = format!("http://127.0.0.1:{}/", site.port);
    let answers = fetch(&world, &["-c", &allowing(&[&site])], &[url]);
    assert!(answers[0].text.contains("visited"), "{answers:?}");
    assert_eq!(site.visits(), 1);
}

#[test]
fn a_redirect_is_judged_like_a_first_address() {
    let inner = Site::plain();
    for code in ["301", "302", "303", "307", "308"] {
        let target = format!("http://127.0.0.1:{}/", inner.port);
        let outer = Site::open(format!("{code} Moved\r\nLocation: {target}"));
        let world = World::new();
        let url = vec![format!("http://127.0.0.1:{}/", outer.port)];
        let before = inner.visits();
        let answers = fetch(&world, &["-c", &allowing(&[&outer])], &url);
        assert_eq!((outer.visits(), inner.visits()), (1, before), "{answers:?}");
        assert_ne!(answers[0].status, "ok", "{answers:?}");
        let answers = fetch(&world, &["-c", &allowing(&[&outer, &inner])], &url);
        assert_eq!(inner.visits(), before + 1, "the control: {answers:?}");
    }
}

/// Policy rules also apply to each redirect.
#[test]
fn a_redirect_to_a_host_that_policy_denies_is_not_followed() {
    let inner = Site::plain();
    let outer = Site::open(format!(
        "302 Found\r\nLocation: http://localhost:{}/",
        inner.port
    ));
    let world = World::new();
    let hosts = format!(
        "web.allow_hosts=[\"127.0.0.1:{}\", \"localhost:{}\"]",
        outer.port, inner.port
    );
    let url = vec![format!("http://127.0.0.1:{}/", outer.port)];
    let deny = "policy.deny=[\"web_fetch(domain:localhost)\"]";
    let answers = fetch(&world, &["-c", &hosts, "-c", deny], &url);
    assert_eq!((outer.visits(), inner.visits()), (1, 0), "{answers:?}");
    let answers = fetch(&world, &["-c", &hosts], &url);
    assert_eq!(inner.visits(), 1, "the control: {answers:?}");
}

#[test]
fn a_server_of_tools_does_not_lead_elsewhere() {
    for code in ["302", "307", "308"] {
        let inner = Site::plain();
        let outer = Site::open(format!(
            "{code} Moved\r\nLocation: http://127.0.0.1:{}/mcp",
            inner.port
        ));
        let world = World::new();
        let at = |site: &Site| format!("mcp_servers.srv.url=http://127.0.0.1:{}/mcp", site.port);
        world.sortie(&["mcp", "list", "-c", &at(&outer)]);
        assert!(outer.visits() > 0);
        assert_eq!(inner.visits(), 0);
        world.sortie(&["mcp", "list", "-c", &at(&inner)]);
        assert!(inner.visits() > 0, "the control");
    }
}
