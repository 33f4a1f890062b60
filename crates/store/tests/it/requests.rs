//! Approval requests, questions and replies.

use serde_json::json;
use sortie_core::event::*;
use sortie_core::id::*;
use sortie_core::inbox::*;
use sortie_core::policy::*;
use sortie_core::ports::store::*;
use sortie_core::request::*;
use sortie_core::run::*;
use sortie_core::tenant::*;

use crate::support::*;

pub(crate) fn call(number: u32) -> CallId {
    CallId::new(number, 0)
}

pub(crate) fn request_id(number: u32) -> RequestId {
    RequestId::of(&EffectId::new(run(number), &call(1)))
}

/// Whether a call of this run may happen.
pub(crate) fn approval(number: u32, expires: i64) -> Event {
    asked(
        number,
        expires,
        RequestKind::Approval(Box::new(ApprovalRequest {
            tool: "shell".to_owned(),
            exact: String::new(),
            dangers: Vec::new(),
            arguments: json!({"command": "make"}),
            preview: None,
            layer: Layer::Mode,
            rule: None,
            reason: "it changes something".to_owned(),
            folder: "/ws".into(),
            lasting: vec!["shell(make)".to_owned()],
        })),
    )
}

pub(crate) fn question(number: u32, expires: i64, to: Addressee) -> Event {
    asked(
        number,
        expires,
        RequestKind::Question(Question {
            to,
            text: "which one?".to_owned(),
            options: Vec::new(),
            default: None,
        }),
    )
}

fn asked(number: u32, expires: i64, kind: RequestKind) -> Event {
    Event::Asked {
        call: call(1),
        request: Box::new(Request {
            id: request_id(number),
            expires_at: at(expires),
            kind,
        }),
    }
}

pub(crate) fn approved(lasting: Option<&str>) -> Reply {
    Reply::Approved {
        by: "ada".to_owned(),
        lasting: lasting.map(str::to_owned),
    }
}

pub(crate) fn refused() -> Reply {
    Reply::Refused {
        by: "bob".to_owned(),
        words: None,
    }
}

pub(crate) fn answered() -> Reply {
    Reply::Answered {
        by: Answerer::Person,
        name: None,
        text: "the first".to_owned(),
    }
}

pub(crate) fn replying(number: u32, reply: Reply, millis: i64) -> ReplyTo {
    ReplyTo {
        request: request_id(number),
        reply,
        at: at(millis),
    }
}

pub(super) async fn say(store: &dyn Store, number: u32, reply: Reply, millis: i64) -> Replied {
    store.reply(replying(number, reply, millis)).await.unwrap()
}

/// A run that has asked and waits.
pub(super) async fn waiting(store: &dyn Store, number: u32, spec: RunSpec, event: Event) -> Fence {
    let fence = running(store, number, spec).await;
    store
        .append_next(appending(fence, 100, vec![event]))
        .await
        .unwrap();
    let park = Park {
        waiting_on: WaitingOn::Approval,
        ..parking(fence, 100)
    };
    assert!(store.park_next(park).await.unwrap());
    fence
}

/// `run: kind addressee` of each open request, by run.
async fn open(store: &dyn Store) -> Vec<String> {
    let found = store.requests(RequestFilter::default()).await.unwrap();
    let mut described: Vec<_> = found.iter().map(describe).collect();
    described.sort();
    described
}

fn describe(request: &OpenRequest) -> String {
    let number = numbers([request.task_id])[0];
    let to = match &request.request.kind {
        RequestKind::Approval(_) => "person",
        RequestKind::Question(question) => match question.to {
            Addressee::Parent => "parent",
            Addressee::Person => "person",
        },
    };
    format!("{number}: {} {to}", request.request.kind.name())
}

/// What a run takes from its inbox.
async fn take(store: &dyn Store, fence: Fence) -> Vec<InboxItem> {
    let taken = store.take_next(fence, at(900)).await.unwrap();
    let Some(Event::InboxTaken { items, .. }) = taken.map(|entry| entry.event) else {
        return Vec::new();
    };
    items
}

pub(crate) async fn a_request_is_written_with_its_event_and_replied_to_once(store: &dyn Store) {
    running(store, 1, spec(1)).await;
    let fence = waiting(store, 2, child(2, 1, 1), approval(2, 5_000)).await;
    let found = store.find_request(request_id(2).as_str()).await.unwrap();
    assert_eq!(
        (found.task_id, found.root_id, found.depth, found.asked_at),
        (run(2), run(1), 1, at(100))
    );
    assert_eq!(
        (found.agent.as_str(), found.label.as_str()),
        ("general", "label 2")
    );
    assert_eq!(found.session_id, SessionKey::cli());
    assert_eq!(found.reply, None);

    assert_eq!(
        say(store, 2, approved(None), 200).await,
        Replied::Accepted { run: run(2) }
    );
    let again = Replied::TooLate {
        earlier: Some(approved(None)),
    };
    assert_eq!(say(store, 2, refused(), 201).await, again);
    assert_eq!(open(store).await, [] as [String; 0]);
    let all = RequestFilter {
        replied: true,
        ..RequestFilter::default()
    };
    let replied = store.requests(all).await.unwrap();
    assert_eq!(replied[0].reply, Some(approved(None)));
    assert_eq!(replied[0].replied_at, Some(at(200)));

    let new = claim_all(store, 300).await[0];
    assert!(new.epoch > fence.epoch);
    assert_eq!(
        take(store, new).await,
        [InboxItem::Reply {
            request: request_id(2),
            call: call(1),
            reply: approved(None)
        }]
    );
    // A replayed call makes the same request, and no second one is shown.
    let replayed = appending(new, 400, vec![approval(2, 9_000)]);
    store.append_next(replayed).await.unwrap();
    assert_eq!(open(store).await, [] as [String; 0]);
    // What was refused with its fence was not asked either.
    let stale = appending(fence, 401, vec![question(2, 9_000, Addressee::Person)]);
    assert_fenced(store.append_next(stale).await);
}

pub(crate) async fn a_reply_of_the_wrong_kind_is_rejected(store: &dyn Store) {
    waiting(store, 1, spec(1), approval(1, 5_000)).await;
    waiting(store, 2, spec(2), question(2, 5_000, Addressee::Person)).await;
    for (number, reply, what) in [
        (
            1,
            answered(),
            "it waits for an approval, so approve or deny it",
        ),
        (
            2,
            approved(None),
            "it asks a question, so answer it with text",
        ),
        (2, refused(), "it asks a question, so answer it with text"),
    ] {
        let error = store.reply(replying(number, reply, 200)).await.unwrap_err();
        let expected = format!("task {} is running: {what}", run(number));
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(
        open(store).await,
        ["1: approval person", "2: question person"]
    );
    let unknown = store.reply(replying(9, answered(), 200)).await.unwrap_err();
    assert_eq!(
        unknown.to_string(),
        format!("there is no task with the request {}", request_id(9))
    );
    assert_eq!(
        say(store, 1, refused(), 201).await,
        Replied::Accepted { run: run(1) }
    );
    assert_eq!(
        say(store, 2, answered(), 201).await,
        Replied::Accepted { run: run(2) }
    );
}

pub(crate) async fn a_run_that_waits_for_a_person_holds_no_slot(store: &dyn Store) {
    let narrow = |millis| {
        let mut claim = claiming(millis);
        claim.lanes[0].max_concurrent = 1;
        claim
    };
    waiting(store, 1, spec(1), approval(1, 50_000)).await;
    assert_eq!(state(store, 1).await, "running approval not_required");
    admit(store, 2, spec(2)).await;
    let claimed = store.claim(narrow(200)).await.unwrap();
    assert_eq!(
        numbers(claimed.iter().map(|claimed| claimed.fence.run)),
        [2]
    );
    // The crash of another run does not affect it.
    let report = store
        .recover(recovering(RecoverScope::All, 300))
        .await
        .unwrap();
    assert_eq!(numbers(report.resumed), [2]);
    assert_eq!(state(store, 1).await, "running approval not_required");
    say(store, 1, approved(None), 400).await;
    assert_eq!(state(store, 1).await, "running slot not_required");
    // It was there first, so it goes before the other.
    let claimed = store.claim(narrow(500)).await.unwrap();
    assert_eq!(
        numbers(claimed.iter().map(|claimed| claimed.fence.run)),
        [1]
    );
}

pub(crate) async fn a_lasting_approval_becomes_a_grant_of_the_roots_session(store: &dyn Store) {
    let asker = RunSpec {
        session: "subagent:somebody:else".parse().unwrap(),
        ..child(2, 1, 1)
    };
    running(store, 1, spec(1)).await;
    waiting(store, 2, asker, approval(2, 5_000)).await;
    say(store, 2, approved(Some("shell(make)")), 200).await;
    let session = SessionKey::cli().in_folder(std::path::Path::new("/ws"));
    let grant = SessionGrant {
        session: session.clone(),
        tenant: None,
        rule: "shell(make)".to_owned(),
        by: "ada".to_owned(),
        at: at(200),
    };
    assert_eq!(store.grants(None, &session).await.unwrap(), [grant]);
    let tenant: Tenant = "acme".parse().unwrap();
    assert_eq!(store.grants(Some(&tenant), &session).await.unwrap(), []);
    assert_eq!(
        store.revoke(Some(&tenant), &session, None).await.unwrap(),
        0
    );
    let other: SessionKey = "web:other".parse().unwrap();
    assert_eq!(store.grants(None, &other).await.unwrap(), []);
    assert_eq!(
        store.revoke(None, &session, Some("other")).await.unwrap(),
        0
    );
    assert_eq!(
        store
            .revoke(None, &session, Some("shell(make)"))
            .await
            .unwrap(),
        1
    );
    assert_eq!(store.revoke(None, &session, None).await.unwrap(), 0);
    assert_eq!(store.grants(None, &session).await.unwrap(), []);
}

pub(crate) async fn a_question_goes_to_a_parent_that_can_answer_or_to_a_person(store: &dyn Store) {
    let parent = running(store, 1, spec(1)).await;
    assert!(store.park_next(parking(parent, 50)).await.unwrap());
    // In the background: the question reaches the parent and wakes it.
    let ask = question(2, 5_000, Addressee::Parent);
    waiting(store, 2, child(2, 1, 1), ask).await;
    assert_eq!(state(store, 1).await, "running slot not_required");
    assert_eq!(open(store).await, ["2: question parent"]);
    let parent = claim_all(store, 300).await[0];
    let items = take(store, parent).await;
    let [
        InboxItem::Question {
            request,
            child: asker,
            label,
            question: heard,
        },
    ] = items.as_slice()
    else {
        panic!("one question, got {items:?}");
    };
    assert_eq!((request, *asker), (&request_id(2), run(2)));
    assert_eq!(
        (label.as_str(), heard.text.as_str()),
        ("label 2", "which one?")
    );
    // Its call waits for the child, so it cannot answer.
    let mut blocking = child(3, 1, 1);
    blocking.parent.as_mut().unwrap().mode = EdgeMode::Blocking;
    waiting(store, 3, blocking, question(3, 5_000, Addressee::Parent)).await;
    // There is no parent at all.
    waiting(store, 4, spec(4), question(4, 5_000, Addressee::Parent)).await;
    assert_eq!(
        open(store).await,
        [
            "2: question parent",
            "3: question person",
            "4: question person"
        ]
    );
    assert_eq!(take(store, parent).await, []);
}

pub(crate) async fn an_unanswered_question_is_escalated_to_a_person(store: &dyn Store) {
    running(store, 1, spec(1)).await;
    let ask = question(2, 1_100, Addressee::Parent);
    waiting(store, 2, child(2, 1, 1), ask).await;
    assert_eq!(store.next_due().await.unwrap(), Some(at(600)));
    assert_eq!(store.reconcile(at(599)).await.unwrap().replied, []);
    assert_eq!(open(store).await, ["2: question parent"]);
    assert_eq!(store.reconcile(at(600)).await.unwrap().replied, []);
    assert_eq!(open(store).await, ["2: question person"]);
    assert_eq!(store.next_due().await.unwrap(), Some(at(1_100)));

    // By hand, and twice.
    let ask = question(3, 9_000, Addressee::Parent);
    waiting(store, 3, child(3, 1, 1), ask).await;
    for _ in 0..2 {
        store.escalate(&request_id(3)).await.unwrap();
    }
    assert_eq!(open(store).await.last().unwrap(), "3: question person");

    // A silent child outlives its parent, and so does its question.
    let silent = RunSpec {
        announce: Announce::Silent,
        ..child(5, 4, 4)
    };
    let parent = running(store, 4, spec(4)).await;
    waiting(store, 5, silent, question(5, 9_000, Addressee::Parent)).await;
    assert_eq!(open(store).await.last().unwrap(), "5: question parent");
    let finish = finishing(parent, 800, completed("done"));
    store.finish_next(finish).await.unwrap();
    assert_eq!(open(store).await.last().unwrap(), "5: question person");
}

pub(crate) async fn requests_expire_and_wake_their_runs(store: &dyn Store) {
    waiting(store, 1, spec(1), approval(1, 1_000)).await;
    assert_eq!(store.next_due().await.unwrap(), Some(at(1_000)));
    // The request is past its time although nothing has expired it yet: the reply is too late.
    let late = Replied::TooLate {
        earlier: Some(Reply::Expired),
    };
    assert_eq!(say(store, 1, approved(Some("*")), 1_000).await, late);
    assert_eq!(store.reconcile(at(999)).await.unwrap().replied, []);
    assert_eq!(
        store.reconcile(at(1_000)).await.unwrap().replied,
        [(run(1), request_id(1))]
    );
    assert_eq!(store.reconcile(at(1_001)).await.unwrap().replied, []);
    assert_eq!(say(store, 1, approved(None), 1_002).await, late);
    assert_eq!(store.grants(None, &SessionKey::cli()).await.unwrap(), []);
    let fence = claim_all(store, 1_100).await[0];
    assert_eq!(
        take(store, fence).await,
        [InboxItem::Reply {
            request: request_id(1),
            call: call(1),
            reply: Reply::Expired
        }]
    );
}

pub(crate) async fn the_end_of_a_run_closes_its_requests(store: &dyn Store) {
    for number in 1..=3 {
        let timed = RunSpec {
            limits: Limits {
                timeout_ms: Some(1_000),
                ..spec(number).limits
            },
            ..spec(number)
        };
        waiting(store, number, timed, approval(number, 90_000)).await;
    }
    assert_eq!(open(store).await.len(), 3);
    store.cancel(run(1), by_person(), at(200)).await.unwrap();
    assert_eq!(open(store).await.len(), 2);
    say(store, 2, refused(), 300).await;
    let fence = claim_all(store, 400).await[0];
    let finish = finishing(fence, 500, completed("done"));
    store.finish_next(finish).await.unwrap();
    let ended = store.expire_parked(at(5_000)).await.unwrap().ended;
    assert_eq!(of_ended(&ended), [3]);
    assert_eq!(open(store).await, [] as [String; 0]);
    for number in [1, 3] {
        assert_eq!(
            say(store, number, approved(None), 6_000).await,
            Replied::TooLate { earlier: None }
        );
    }
    assert_eq!(store.reconcile(at(100_000)).await.unwrap().replied, []);
    assert_eq!(store.next_due().await.unwrap(), None);
}

pub(crate) async fn a_tool_result_closes_the_request_of_its_call(store: &dyn Store) {
    let fence = running(store, 1, spec(1)).await;
    let events = vec![approval(1, 5_000)];
    store
        .append_next(appending(fence, 10, events))
        .await
        .unwrap();
    let other = crate::audit::finished(call(2), "another call");
    store
        .append_next(appending(fence, 20, vec![other]))
        .await
        .unwrap();
    assert_eq!(open(store).await, ["1: approval person"]);
    let same = crate::audit::finished(call(1), "interrupted");
    store
        .append_next(appending(fence, 30, vec![same]))
        .await
        .unwrap();
    assert_eq!(open(store).await, [] as [String; 0]);
}

pub(crate) async fn requests_are_found_by_prefix(store: &dyn Store) {
    for number in 1..=40 {
        waiting(store, number, spec(number), approval(number, 90_000)).await;
    }
    let id = request_id(7);
    let found = store.find_request(id.as_str()).await.unwrap();
    assert_eq!(found.request.id, id);
    let upper = id.as_str()[..8].to_uppercase();
    assert_eq!(store.find_request(&upper).await.unwrap().request.id, id);
    for (typed, expected) in [
        (
            &id.as_str()[..3],
            "there is no task with the request {}: at least 4 characters of its id are needed",
        ),
        ("nothing", "there is no task with the request {}"),
        ("00000000", "there is no task with the request {}"),
        ("%%%%", "there is no task with the request {}"),
    ] {
        let error = store.find_request(typed).await.unwrap_err();
        assert_eq!(error.to_string(), expected.replace("{}", typed));
    }
    let limited = RequestFilter {
        run: Some(run(3)),
        limit: 5,
        ..RequestFilter::default()
    };
    assert_eq!(store.requests(limited).await.unwrap().len(), 1);
    let limited = RequestFilter {
        limit: 5,
        ..RequestFilter::default()
    };
    assert_eq!(store.requests(limited).await.unwrap().len(), 5);
}

pub(crate) async fn a_prefix_of_several_requests_means_the_open_one(store: &dyn Store) {
    let with_id = |number, id| {
        let mut event = approval(number, 90_000);
        if let Event::Asked { request, .. } = &mut event {
            request.id = RequestId::from_text(id);
        }
        event
    };
    waiting(store, 1, spec(1), with_id(1, "abcd11111111")).await;
    waiting(store, 2, spec(2), with_id(2, "abcd22222222")).await;
    let error = store.find_request("ABCD").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the request ABCD matches 2 tasks; give more characters of the id"
    );
    store.cancel(run(1), by_person(), at(200)).await.unwrap();
    assert_eq!(store.find_request("abcd").await.unwrap().task_id, run(2));
    // One of the past is found where it cannot be mistaken.
    assert_eq!(store.find_request("abcd1").await.unwrap().task_id, run(1));
    // Two calls never wait for one reply.
    let fence = running(store, 3, spec(3)).await;
    let append = appending(fence, 300, vec![with_id(3, "abcd22222222")]);
    let error = store.append_next(append).await.unwrap_err();
    assert_eq!(
        chain_of(&error),
        "the store could not write to a journal: two requests have the same id"
    );
    assert_eq!(story(store, 3).await, "admitted claimed");
}

pub(crate) async fn requests_are_deleted_with_the_transcript(store: &dyn Store) {
    for number in 1..=2 {
        let passing = RunSpec {
            cleanup: Cleanup::Delete,
            ..spec(number)
        };
        waiting(store, number, passing, approval(number, 90_000)).await;
        say(store, number, refused(), 200).await;
        let fence = claim_all(store, 300).await[0];
        let finish = finishing(fence, 400, completed("done"));
        store.finish_next(finish).await.unwrap();
    }
    assert!(store.find_request(request_id(1).as_str()).await.is_ok());
    store.delete(run(1)).await.unwrap();
    assert!(store.find_request(request_id(1).as_str()).await.is_err());
    // An archived run keeps its requests.
    store.archive(at(10_000), at(20_000)).await.unwrap();
    assert!(store.find_request(request_id(2).as_str()).await.is_ok());
    store.clean(at(20_000)).await.unwrap();
    assert!(store.find_request(request_id(2).as_str()).await.is_err());
}

pub(crate) async fn requests_are_filtered_before_they_are_counted(store: &dyn Store) {
    // Two trees of two sessions, approvals and questions in turn, two in each millisecond.
    for number in 1..=8 {
        let mut asking = spec(number);
        asking.session = format!("web:{}", number % 2).parse().unwrap();
        let event = if number <= 4 {
            approval(number, 90_000)
        } else {
            question(number, 90_000, Addressee::Person)
        };
        waiting(store, number, asking, event).await;
    }
    say(store, 1, approved(None), 200).await;
    let listed = async |filter: RequestFilter| {
        let found = store.requests(filter).await.unwrap();
        numbers(found.iter().map(|request| request.task_id))
    };
    let sorted = async |filter| {
        let mut found = listed(filter).await;
        found.sort_unstable();
        found
    };
    let all = RequestFilter::default;
    for (filter, expected) in [
        (all(), vec![2, 3, 4, 5, 6, 7, 8]),
        (
            RequestFilter {
                kind: Some(AskedFor::Approval),
                limit: 3,
                ..all()
            },
            vec![2, 3, 4],
        ),
        (
            RequestFilter {
                kind: Some(AskedFor::Question),
                limit: 4,
                ..all()
            },
            vec![5, 6, 7, 8],
        ),
        (
            RequestFilter {
                root: Some(run(7)),
                limit: 1,
                ..all()
            },
            vec![7],
        ),
        (
            RequestFilter {
                session: Some("web:0".parse().unwrap()),
                kind: Some(AskedFor::Question),
                limit: 2,
                ..all()
            },
            vec![6, 8],
        ),
        (
            RequestFilter {
                replied: true,
                kind: Some(AskedFor::Approval),
                ..all()
            },
            vec![1, 2, 3, 4],
        ),
    ] {
        assert_eq!(sorted(filter.clone()).await, expected, "{filter:?}");
    }
    for replied in [false, true] {
        let whole = RequestFilter { replied, ..all() };
        let places: Vec<_> = store.requests(whole.clone()).await.unwrap();
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let filter = RequestFilter {
                after,
                limit: 2,
                ..whole.clone()
            };
            let page = store.requests(filter).await.unwrap();
            after = page.last().map(OpenRequest::place);
            if after.is_none() {
                break;
            }
            seen.extend(page);
        }
        assert_eq!(seen, places, "each once, in one order");
        let times: Vec<_> = seen.iter().map(|request| request.asked_at).collect();
        assert!(if replied {
            times.is_sorted_by(|one, next| one >= next)
        } else {
            times.is_sorted()
        });
    }
}
