//! Quotas of tenants in a running runtime.

use sortie_core::config::TenantLimits;
use sortie_core::run::{Status, WaitingOn};
use sortie_core::tenant::{Tenant, TenantRules};
use sortie_runtime::{NewRun, RefusalReason, RuntimeError};
use sortie_test_support::stage::{Play, Stage};

const TWO_TURNS: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
    usage: { input_tokens: 10, output_tokens: 2 }
  - say: "done"
    usage: { input_tokens: 20, output_tokens: 2 }
"#;

fn acme() -> Tenant {
    "acme".parse().expect("a tenant")
}

fn limited(limits: TenantLimits) -> TenantRules {
    TenantRules {
        named: [(acme(), limits)].into(),
        others: None,
    }
}

fn of_acme(stage: &Stage, label: &str) -> NewRun {
    NewRun {
        tenant: Some(acme()),
        ..stage.new_task("explore", label)
    }
}

#[tokio::test]
async fn a_run_over_quota_waits_in_the_queue_and_continues_when_the_quota_allows_it() {
    let one_token = TenantLimits {
        tokens_per_day: Some(1),
        ..TenantLimits::default()
    };
    let stage = Play::new(TWO_TURNS)
        .set(|settings| settings.tenants = limited(one_token))
        .begin()
        .await;
    let run = stage.create(of_acme(&stage, "first")).await;
    stage
        .until_record(run, "the run waits for a slot", |record| {
            record.queue_position == Some(1)
                && record.summary.waiting_on == Some(WaitingOn::Slot)
                && stage.model().requests_of("first").len() == 1
        })
        .await;
    // Runs without a tenant do not wait for it, and the tenant gets no more.
    let other = stage.create(stage.new_task("explore", "other")).await;
    assert_eq!(stage.end_of(other).await.status, Status::Completed);
    let refused = stage.runtime().create(of_acme(&stage, "second")).await;
    let Err(RuntimeError::Refused(refusal)) = refused else {
        panic!("{refused:?}");
    };
    let RefusalReason::QuotaReached {
        resets_at: Some(resets_at),
    } = refusal.reason
    else {
        panic!("{refusal:?}");
    };
    for part in ["tokens_per_day = 1", "acme", &resets_at.to_rfc3339()] {
        assert!(refusal.message.contains(part), "{}", refusal.message);
    }
    assert_eq!(stage.record(run).await.queue_position, Some(1));

    let stage = stage
        .restart_as(|play| play.set(|settings| settings.tenants = TenantRules::default()))
        .await;
    assert_eq!(stage.end_of(run).await.status, Status::Completed);
    let log = stage.log(run).await;
    for turn in ["answered 1", "answered 2"] {
        assert_eq!(log.matches(turn).count(), 1, "{log}");
    }
}

#[tokio::test]
async fn a_final_answer_over_quota_ends_its_run() {
    let one_token = TenantLimits {
        tokens_per_day: Some(1),
        ..TenantLimits::default()
    };
    let stage =
        Play::new("\n  - say: \"done\"\n    usage: { input_tokens: 10, output_tokens: 2 }\n")
            .set(|settings| settings.tenants = limited(one_token))
            .begin()
            .await;
    let run = stage.create(of_acme(&stage, "only")).await;
    assert_eq!(stage.end_of(run).await.status, Status::Completed);
    let used = stage.runtime().tenants(Some(acme())).await.unwrap();
    assert!(used[0].tokens_today > 1);
}
