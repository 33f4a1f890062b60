//! What people look for: tenants, texts, pages, conversations, use over time; and requests that take
//! effect once.

use sortie_core::audit::*;
use sortie_core::id::*;
use sortie_core::ports::store::*;
use sortie_core::run::*;
use sortie_core::session::*;
use sortie_core::stats::*;
use sortie_core::tenant::*;

use crate::support::*;

fn tenant(name: &str) -> Option<Tenant> {
    Some(name.parse().unwrap())
}

fn of_tenant(name: &str, spec: RunSpec) -> RunSpec {
    RunSpec {
        tenant: tenant(name),
        ..spec
    }
}

async fn listed(store: &dyn Store, filter: ListFilter) -> Vec<u32> {
    let records = store.list(filter).await.unwrap();
    numbers(records.iter().map(|record| record.run_id))
}

pub(crate) async fn runs_are_found_by_agent_tenant_and_text(store: &dyn Store) {
    let all = ListFilter::default;
    running(store, 1, of_tenant("acme", spec(1))).await;
    admit(store, 2, of_tenant("acme", child(2, 1, 1))).await;
    let mut odd = of_tenant("other", spec(3));
    odd.label = "100% of_it!".to_owned();
    odd.agent.name = "explore".to_owned();
    odd.task = "查找 认证 文件".to_owned();
    admit(store, 3, odd).await;
    admit(store, 4, spec(4)).await;
    let record = store.get(run(2)).await.unwrap();
    assert_eq!(record.tenant, tenant("acme"));
    let text = |text: &str| ListFilter {
        text: Some(text.to_owned()),
        ..all()
    };
    for (filter, expected) in [
        (
            ListFilter {
                tenant: tenant("acme"),
                ..all()
            },
            vec![2, 1],
        ),
        (
            ListFilter {
                roots_only: true,
                ..all()
            },
            vec![4, 3, 1],
        ),
        (
            ListFilter {
                agent: Some("explore".to_owned()),
                ..all()
            },
            vec![3],
        ),
        (
            ListFilter {
                before: Some(run(3)),
                limit: 1,
                ..all()
            },
            vec![2],
        ),
        (
            ListFilter {
                after: Some(run(1)),
                oldest_first: true,
                limit: 2,
                ..all()
            },
            vec![2, 3],
        ),
        (
            ListFilter {
                runs: vec![run(1), run(4), run(9)],
                ..all()
            },
            vec![4, 1],
        ),
        (
            ListFilter {
                statuses: vec![Status::Running, Status::Pending],
                ..all()
            },
            vec![4, 3, 2, 1],
        ),
        (text("TASK 2"), vec![2]),
        (text("label"), vec![4, 2, 1]),
        (text("认证"), vec![3]),
        (text("100% of_it!"), vec![3]),
        (text("100_"), vec![]),
        (text("%%"), vec![]),
        (text("!"), vec![3]),
        (text(&run(4).to_string()[..36]), vec![4]),
        (text(""), vec![4, 3, 2, 1]),
    ] {
        assert_eq!(listed(store, filter.clone()).await, expected, "{filter:?}");
        if filter.limit == 0 {
            let total = store.stats(filter.clone()).await.unwrap().total;
            assert_eq!(total, expected.len() as u64, "{filter:?}");
        }
    }
}

pub(crate) async fn pages_have_no_gaps_and_no_duplicates(store: &dyn Store) {
    for number in 1..=25 {
        admit(store, number, spec(number)).await;
    }
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let filter = ListFilter {
            before,
            limit: 10,
            ..ListFilter::default()
        };
        let page = store.list(filter).await.unwrap();
        seen.extend(page.iter().map(|record| record.run_id));
        before = page.last().map(|record| record.run_id);
        if page.len() < 10 {
            break;
        }
    }
    let expected: Vec<u32> = (1..=25).rev().collect();
    assert_eq!(numbers(seen), expected);
}

pub(crate) async fn conversations_are_the_main_runs_of_a_session(store: &dyn Store) {
    let web: SessionKey = "web:1".parse().unwrap();
    let turn = |number: u32, name: Option<&str>| RunSpec {
        session: web.clone(),
        tenant: name.map(|name| name.parse().unwrap()),
        workspace: format!("/ws/{number}").into(),
        ..spec(number)
    };
    let first = running(store, 1, turn(1, None)).await;
    store
        .finish_next(finishing(first, 2, completed("done")))
        .await
        .unwrap();
    admit(store, 3, turn(3, None)).await;
    admit(store, 4, turn(4, Some("acme"))).await;
    // Neither a child nor a background task is a turn.
    running(store, 5, spec(5)).await;
    admit(store, 6, child(6, 5, 5)).await;
    admit(store, 7, background(7)).await;
    let sessions = async |filter| {
        let found = store.sessions(filter).await.unwrap();
        let shown = found.into_iter().map(|it: SessionSummary| {
            let tenant = it
                .tenant
                .map_or("-".to_owned(), |tenant| tenant.to_string());
            let last = numbers([it.last]);
            format!(
                "{} {tenant} {} {} {last:?} {} {}",
                it.session,
                it.turns,
                it.title,
                it.last_status,
                it.workspace.display()
            )
        });
        shown.collect::<Vec<_>>()
    };
    let all = SessionFilter::default;
    let expected = [
        "cli:direct - 1 task 5 [5] running project",
        "web:1 acme 1 task 4 [4] running /ws/4",
        "web:1 - 2 task 1 [3] running /ws/3",
    ];
    assert_eq!(sessions(all()).await, expected);
    let limited = SessionFilter { limit: 1, ..all() };
    assert_eq!(sessions(limited).await, expected[..1]);
    let first = store.sessions(all()).await.unwrap()[0].place();
    let after = SessionFilter {
        after: Some(first),
        ..all()
    };
    assert_eq!(sessions(after).await, expected[1..]);
    let of_one = SessionFilter {
        tenant: tenant("acme"),
        ..all()
    };
    assert_eq!(sessions(of_one).await, expected[1..2]);
    let named = SessionFilter {
        session: Some(web.clone()),
        ..all()
    };
    assert_eq!(sessions(named).await, expected[1..]);
    for (session, whose, expected) in [
        (&web, None, Some(3)),
        (&web, tenant("acme"), Some(4)),
        (&web, tenant("other"), None),
        (&SessionKey::cli(), None, Some(5)),
    ] {
        let last = store.last_turn(session.clone(), whose, None).await.unwrap();
        let last = last.map(|last| numbers([last.run_id])[0]);
        assert_eq!(last, expected, "{session}");
    }
}

pub(crate) async fn sessions_of_one_millisecond_are_paged_without_loss(store: &dyn Store) {
    let mut expected = Vec::new();
    for number in 1..=9 {
        let name = ["-", "acme", "other"][number as usize % 3];
        let mut turn = spec(number);
        turn.session = format!("web:{}", (number - 1) / 3).parse().unwrap();
        turn.tenant = (name != "-").then(|| name.parse().unwrap());
        expected.push(format!("{} {name}", turn.session));
        store.admit(asking(number, turn, 7)).await.unwrap();
    }
    expected.sort();
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let filter = SessionFilter {
            after,
            limit: 2,
            ..SessionFilter::default()
        };
        let page = store.sessions(filter).await.unwrap();
        seen.extend(page.iter().map(|it| {
            let tenant = it.tenant.as_ref().map_or("-", Tenant::as_str);
            format!("{} {tenant}", it.session)
        }));
        after = page.last().map(SessionSummary::place);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, expected);
}

pub(crate) async fn a_tenant_does_not_see_how_busy_others_are(store: &dyn Store) {
    for (number, name) in [
        (1, Some("acme")),
        (2, None),
        (3, Some("other")),
        (4, Some("acme")),
        (5, None),
    ] {
        let mut queued = spec(number);
        queued.tenant = name.map(|name| name.parse().unwrap());
        admit(store, number, queued).await;
    }
    let listed = store.list(ListFilter::default()).await.unwrap();
    for (number, expected) in [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)] {
        let record = store.get(run(number)).await.unwrap();
        assert_eq!(record.queue_position, Some(expected), "{number}");
        assert!(listed.contains(&record), "{number}");
    }
}

pub(crate) async fn usage_is_summed_by_interval(store: &dyn Store) {
    let first = running(store, 1, spec(1)).await;
    store
        .finish_next(finishing(first, 2, completed("done")))
        .await
        .unwrap();
    let second = running(store, 2, of_tenant("acme", spec(2))).await;
    store
        .finish_next(finishing(second, 3, failed()))
        .await
        .unwrap();
    store.admit(asking(3, spec(3), 3_000)).await.unwrap();
    let series = async |filter, since| {
        let points = store.usage_series(filter, 1_000, since).await.unwrap();
        let shown = points.into_iter().map(|point: UsagePoint| {
            (
                point.at.ms_since(at(0)),
                [
                    point.tasks,
                    point.completed,
                    point.failed,
                    point.input_tokens,
                ],
                point.cost_usd,
            )
        });
        shown.collect::<Vec<_>>()
    };
    let all = ListFilter::default;
    assert_eq!(
        series(all(), at(0)).await,
        [(0, [2, 1, 1, 14], None), (3_000, [1, 0, 0, 0], None)],
        "what nothing is known of costs an unknown amount"
    );
    assert_eq!(
        series(all(), at(1_000)).await,
        [(3_000, [1, 0, 0, 0], None)]
    );
    let of_one = ListFilter {
        tenant: tenant("acme"),
        ..all()
    };
    assert_eq!(series(of_one, at(0)).await, [(0, [1, 0, 1, 7], None)]);
    let all_together = store.used(all()).await.unwrap();
    assert_eq!(all_together.input_tokens, Some(14));
}

pub(crate) async fn lanes_count_claimed_and_queued_runs(store: &dyn Store) {
    running(store, 1, spec(1)).await;
    admit(store, 2, background(2)).await;
    admit(store, 3, background(3)).await;
    store.pause(run(3), at(4)).await.unwrap();
    let lanes = store.lanes().await.unwrap();
    let count = |lane, claimed, queued| LaneCount {
        lane,
        claimed,
        queued,
    };
    assert_eq!(
        lanes,
        [count(Lane::Main, 1, 0), count(Lane::Subagent, 0, 1)]
    );
}

pub(crate) async fn a_request_takes_effect_once(store: &dyn Store) {
    let begin = async |key: &str, fingerprint: &str, number: u32, millis| {
        store
            .begin(key, fingerprint, run(number), at(millis))
            .await
            .unwrap()
    };
    assert_eq!(begin("k", "a", 1, 1).await, Begun::Fresh);
    // The id that was set aside first stays.
    let under_way = Begun::Running {
        run: run(1),
        at: at(1),
    };
    assert_eq!(begin("k", "a", 2, 2).await, under_way);
    assert_eq!(begin("k", "b", 2, 2).await, Begun::Mismatch);
    assert_eq!(begin("l", "b", 3, 2).await, Begun::Fresh);
    store.complete("k", 201, b"made".to_vec()).await.unwrap();
    store.complete("k", 500, b"late".to_vec()).await.unwrap();
    let done = Begun::Done {
        status: 201,
        body: b"made".to_vec(),
        run: run(1),
    };
    assert_eq!(begin("k", "a", 4, 5).await, done);
    assert_eq!(begin("k", "b", 4, 5).await, Begun::Mismatch);
    // What was answered is not forgotten; what was not, is.
    store.forget("k").await.unwrap();
    assert_eq!(begin("k", "a", 4, 6).await, done);
    store.forget("l").await.unwrap();
    assert_eq!(begin("l", "c", 5, 6).await, Begun::Fresh);
    // After a day the key is free for another request.
    let next_day = ONCE_KEPT_MS + 10;
    assert_eq!(begin("k", "b", 6, next_day).await, Begun::Fresh);
}

pub(crate) async fn tenants_see_their_own_grants_and_audit(store: &dyn Store) {
    let call = CallId::new(1, 0);
    for (number, name) in [(1, "acme"), (2, "other")] {
        let fence = running(store, number, of_tenant(name, spec(number))).await;
        let mut append = appending(fence, 10, vec![note("step")]);
        append.audit.push(AuditEntry {
            run: run(number),
            parent: None,
            root: run(number),
            tenant: tenant(name),
            depth: 0,
            agent: "general".to_owned(),
            call: call.clone(),
            effect: EffectId::new(run(number), &call),
            tool: "read".to_owned(),
            parameters: serde_json::Value::Null,
            ruling: None,
            policy: String::new(),
            stage: AuditStage::Begun,
        });
        store.append_next(append).await.unwrap();
    }
    for (name, run_of, expected) in [
        (tenant("acme"), None, vec![1]),
        (tenant("other"), None, vec![2]),
        (tenant("other"), Some(run(1)), vec![]),
        (None, None, vec![1, 2]),
        (tenant("nobody"), None, vec![]),
    ] {
        let filter = AuditFilter {
            tenant: name,
            run: run_of,
            ..AuditFilter::default()
        };
        let lines = store.audit(filter).await.unwrap();
        assert_eq!(numbers(lines.iter().map(|line| line.entry.run)), expected);
    }
}
