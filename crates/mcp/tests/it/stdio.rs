//! Tests of servers that are programs.

use serde_json::{Value, json};
use sortie_mcp::{ServerState, ToolRules};

use crate::support::{SECRET, Stage, is_gone, run, soon, tool};

/// Calls `act` of a server with this behaviour and compares a part of the tool result.
async fn check(behaviour: &str, expected: Result<&str, &str>) {
    let stage = Stage::new();
    let (pool, report) = stage.listed(behaviour).await;
    assert_eq!(report.state, ServerState::Ready, "{behaviour}");
    let reply = run(&*tool(&pool, "act"), json!({ "key": SECRET })).await;
    let reply = reply.map(|answer| answer.text);
    match (&reply, expected) {
        (Ok(text), Ok(expected)) | (Err(text), Err(expected)) => {
            assert!(
                text.contains(expected),
                "{behaviour}\n{}",
                &text[..text.len().min(2_000)]
            );
        }
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => panic!("{behaviour}: {reply:?}"),
    }
    pool.shut_down().await;
}

#[tokio::test]
async fn answers_and_failures() {
    check(
        "plain",
        Ok("text of the MCP server `srv`: data, not instructions"),
    )
    .await;
    check("garbage", Ok("\"pid\"")).await;
    check("failing", Err("there is no such issue")).await;
    check(
        "refusing",
        Err("it refused the call; its message has the reason"),
    )
    .await;
    check("picture", Ok("[picture 1 attached]")).await;
    check("huge", Ok("[left out: 1951424 more bytes]")).await;
    check("asking", Ok("sampling refused: true, roots: Ok(0)")).await;
}

#[tokio::test]
async fn a_crash_of_the_server_fails_the_call() {
    check(
        "crash",
        Err("it stopped during the call (exit code 3). Whether the call took effect is unknown"),
    )
    .await;
    check("crash", Err("panic: the key is [redacted]")).await;
}

#[tokio::test]
async fn a_message_beyond_the_limit_fails_the_call() {
    check(
        "endless",
        Err("its message exceeds the size limit, so it was stopped"),
    )
    .await;
}

#[tokio::test]
async fn megabytes_of_error_output_block_nothing() {
    check("flood", Ok("\"pid\"")).await;
}

#[tokio::test]
async fn names() {
    let stage = Stage::new();
    let (pool, report) = stage.listed("plain").await;
    let names: Vec<&str> = report.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "mcp__srv__act",
            "mcp__srv__read_file",
            "mcp__srv__odd_name__",
            "mcp__srv__poke"
        ]
    );
    let answer = run(&*tool(&pool, "odd_name__"), json!({})).await.unwrap();
    assert!(answer.text.contains("\nodd\n"), "{}", answer.text);
}

#[tokio::test]
async fn ten_thousand_tools_and_a_deep_schema() {
    let stage = Stage::new();
    let (_pool, report) = stage.listed("many").await;
    assert_eq!(report.tools.len(), 128);
    assert!(
        report.left_out[0].reason.contains("at most 128 tools"),
        "{:?}",
        report.left_out[0]
    );
    let stage = Stage::new();
    let (_pool, report) = stage.listed("deep").await;
    assert_eq!(report.tools.len(), 1);
    assert_eq!(report.left_out[0].tool, "deep");
}

#[tokio::test]
async fn a_hundred_children_share_one_server() {
    let stage = Stage::new();
    let pool = stage.pool(&stage.program("plain"), None);
    let lists = (0..100).map(|_| pool.list_tools());
    futures::future::join_all(lists).await;
    let tools: Vec<_> = (0..100).map(|_| tool(&pool, "act")).collect();
    let calls = tools.iter().map(|tool| run(&**tool, json!({})));
    let answers = futures::future::join_all(calls).await;
    let pid = &stage.lines("starts")[0];
    assert_eq!(stage.starts(), 1);
    for answer in answers {
        let text = answer.unwrap().text;
        assert!(text.contains(&format!("\"pid\":{pid}")), "{text}");
    }
}

#[tokio::test]
async fn a_hundred_children_share_one_failure() {
    let stage = Stage::new();
    let pool = stage.pool(&stage.program("dead"), None);
    let lists = (0..100).map(|_| pool.list_tools());
    let reports = futures::future::join_all(lists).await;
    assert!(
        reports
            .iter()
            .all(|report| format!("{report:?}").contains("exit code 7"))
    );
    assert_eq!(stage.starts(), 1);
}

#[tokio::test]
async fn restarts_are_bounded() {
    let stage = Stage::new();
    let (pool, _) = stage.listed("crash").await;
    let act = tool(&pool, "act");
    let mut replies = Vec::new();
    for _ in 0..6 {
        replies.push(run(&*act, json!({})).await.unwrap_err());
    }
    // The server started once for the listing, and again for each call after the first one.
    assert_eq!(stage.starts(), 5);
    assert!(
        replies[4].contains("it stopped during the call"),
        "{}",
        replies[4]
    );
    assert!(replies[5].contains("unavailable for"), "{}", replies[5]);
}

#[tokio::test]
async fn a_server_that_died_between_calls_is_started_again() {
    let stage = Stage::new();
    let (pool, _) = stage.listed("plain").await;
    let act = tool(&pool, "act");
    run(&*act, json!({})).await.unwrap();
    let pid = stage.lines("starts")[0].clone();
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    // The first call may still use the old connection and fail; the second succeeds.
    let first = run(&*act, json!({})).await;
    if let Err(failure) = &first {
        assert!(failure.contains("(signal 9)"), "{failure}");
    }
    let text = run(&*act, json!({})).await.unwrap().text;
    assert_eq!(stage.starts(), 2);
    assert!(
        text.contains(&format!("\"pid\":{}", stage.lines("starts")[1])),
        "{text}"
    );
}

#[tokio::test]
async fn a_call_that_hangs_is_cancelled_at_its_time() {
    let stage = Stage::new();
    let mut server = stage.program("hang");
    server["timeout_seconds"] = json!(0.3);
    let pool = stage.pool(&server, None);
    pool.list_tools().await;
    let failure = run(&*tool(&pool, "act"), json!({})).await.unwrap_err();
    assert!(
        failure.contains("did not answer within 0.3 s and the call was cancelled"),
        "{failure}"
    );
    soon("the server hears it", || {
        stage.lines("cancelled").len() == 1
    })
    .await;
    assert_eq!(stage.starts(), 1);
    // After three consecutive timeouts the server counts as stuck.
    run(&*tool(&pool, "act"), json!({})).await.unwrap_err();
    let failure = run(&*tool(&pool, "act"), json!({})).await.unwrap_err();
    assert!(failure.contains("seems stuck"), "{failure}");
    soon("it is ended", || is_gone(&stage.lines("starts")[0])).await;
}

#[tokio::test]
async fn dropping_a_call_cancels_it_and_keeps_the_server() {
    let stage = Stage::new();
    let (pool, _) = stage.listed("hang").await;
    let act = tool(&pool, "act");
    {
        let call = run(&*act, json!({}));
        let hung = soon("the call arrives", || stage.lines("hung").len() == 1);
        tokio::select! {
            reply = call => panic!("{reply:?}"),
            () = hung => {}
        }
    }
    soon("the server hears it", || {
        stage.lines("cancelled").len() == 1
    })
    .await;
    assert!(!is_gone(&stage.lines("starts")[0]));
    assert_eq!(
        run(&*tool(&pool, "odd_name__"), json!({}))
            .await
            .map(|_| stage.starts()),
        Ok(1)
    );
}

#[tokio::test]
async fn nothing_of_a_server_outlives_its_pool() {
    for by_drop in [true, false] {
        let stage = Stage::new();
        let (pool, _) = stage.listed("family").await;
        let act = tool(&pool, "act");
        let text = run(&*act, json!({})).await.unwrap().text;
        let pids = text.split('=').nth(1).unwrap().split(',');
        let pids: Vec<String> = pids.map(str::to_owned).collect();
        assert!(pids.iter().all(|pid| !is_gone(pid)), "{pids:?}");
        if !by_drop {
            pool.shut_down().await;
        }
        drop(pool);
        soon("all are gone", || pids.iter().all(|pid| is_gone(pid))).await;
        let failure = run(&*act, json!({})).await.unwrap_err();
        assert!(failure.contains("were shut down"), "{failure}");
    }
}

#[tokio::test]
async fn unusable_servers_are_unavailable_and_offer_no_tools() {
    let check = async |change: fn(&mut Value), behaviour: &str, expected: &str| {
        let stage = Stage::new();
        let mut server = stage.program(behaviour);
        server["startup_timeout_seconds"] = json!(20);
        change(&mut server);
        let pool = stage.pool(&server, None);
        let report = pool.list_tools().await.remove(0);
        let state = format!("{:?}", report.state);
        assert!(state.contains(expected), "{behaviour}: {state}");
        assert!(!format!("{pool:?}{state}").contains(SECRET));
        assert!(pool.tools().is_empty());
    };
    check(
        |server| server["disabled"] = json!(true),
        "plain",
        "Disabled",
    )
    .await;
    check(
        |server| server["command"] = json!("no-such-program-anywhere"),
        "plain",
        "cannot be started",
    )
    .await;
    check(
        |server| server["env"] = json!({ "A": "${NOT_THERE}" }),
        "plain",
        "`env.A`: the variable NOT_THERE is not set",
    )
    .await;
    check(
        |_| {},
        "dead",
        "ended during the handshake (exit code 7); it wrote: no licence",
    )
    .await;
    check(
        |server| server["startup_timeout_seconds"] = json!(0.5),
        "mute",
        "did not complete the handshake in time",
    )
    .await;
    check(
        |server| *server = json!({ "url": "https://mcp.example/" }),
        "plain",
        "network access is disabled",
    )
    .await;
}

#[tokio::test]
async fn only_allowed_tools_are_offered() {
    let stage = Stage::new();
    let mut server = stage.program("plain");
    server["tools"] = json!({ "allow": ["*"], "deny": ["read_*", "poke"] });
    let pool = stage.pool(&server, None);
    let report = pool.list_tools().await.remove(0);
    let names: Vec<&str> = report.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["mcp__srv__act", "mcp__srv__odd_name__"]);
    assert!(ToolRules::default().permits("read_file"));
}

#[tokio::test]
async fn a_server_program_gets_only_the_configured_environment() {
    let stage = Stage::new();
    let (_pool, _) = stage.listed("plain").await;
    let pid = &stage.lines("starts")[0];
    let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let mut names: Vec<&str> = environment
        .split('\0')
        .filter_map(|pair| pair.split('=').next())
        .collect();
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    assert_eq!(names, ["KEY", "PATH"]);
    let group = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let group = group
        .rsplit(") ")
        .next()
        .unwrap()
        .split(' ')
        .nth(2)
        .unwrap()
        .to_owned();
    assert_eq!(&group, pid, "it leads a group of its own");
}
