//! Tests of the store: one suite for both kinds, then what only files have.
#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test that cannot go on says so by panicking, and its helpers take what they get"
)]

mod files;
mod random;
mod suite;
mod support;

use sortie_core::Timestamp;
use sortie_store::{InlineStore, Owner, SqliteStore};

fn owner() -> Owner {
    Owner {
        pid: 123,
        command: "sortie run check".to_owned(),
        since: Timestamp(support::T0),
    }
}

macro_rules! conformance {
    ($($name:ident),+ $(,)?) => {
        mod inline {
            $(#[tokio::test]
            async fn $name() {
                let store = super::InlineStore::open_in_memory().unwrap();
                super::suite::$name(&store).await;
                super::support::sound(&store).await;
            })+
        }

        mod threaded {
            $(#[tokio::test]
            async fn $name() {
                let home = tempfile::tempdir().unwrap();
                let store = super::SqliteStore::open(home.path(), &super::owner()).unwrap();
                super::suite::$name(&store).await;
                super::support::sound(&store).await;
            })+
        }

        #[test]
        fn every_case_of_the_suite_is_listed() {
            let listed = [$(stringify!($name)),+];
            let source = include_str!("suite.rs");
            for line in source.lines() {
                if let Some(rest) = line.strip_prefix("pub(crate) async fn ") {
                    let name = rest.split('(').next().unwrap();
                    assert!(listed.contains(&name), "{name} is in no list");
                }
            }
        }
    };
}

conformance!(
    admission_writes_run_edge_and_first_event,
    the_same_call_gets_the_same_child,
    admission_refuses_over_caps_and_for_ending_parents,
    a_wait_for_the_provider_shows_in_the_record,
    what_descendants_used_is_added_to_all_their_ancestors,
    admission_checks_the_parents_fence,
    claim_leases_and_journals,
    claim_respects_lane_limits,
    claim_respects_parent_and_tree_caps_without_starving_others,
    priority_is_worth_a_minute_of_waiting,
    a_queued_run_can_be_renamed_and_moved,
    a_woken_run_keeps_its_place,
    a_released_run_keeps_its_place,
    append_stores_events_summary_and_blobs,
    progress_never_goes_back,
    old_fences_are_refused_everywhere,
    inbox_moves_into_the_journal_once,
    a_full_inbox_is_taken_in_portions,
    park_is_refused_when_there_is_a_reason_to_go_on,
    heartbeat_tells_lost_cancelled_and_waiting,
    finish_ends_and_announces,
    delivery_happens_exactly_once,
    delivery_to_an_ended_parent_is_blocked_and_visible,
    a_blocked_delivery_can_be_tried_again_or_dismissed,
    outside_deliveries_are_settled,
    several_deliveries_are_one_state,
    cancel_ends_queued_and_parked_and_signals_leased,
    cancel_reaches_every_level,
    cancel_of_an_ended_run_changes_nothing,
    a_cancelled_child_still_tells_its_parent,
    the_end_of_a_parent_ends_its_children,
    a_completed_parent_leaves_silent_children_alone,
    a_signalled_child_owes_nothing,
    recover_requeues_and_marks_the_next_claim,
    recover_gives_up_without_progress,
    recover_gives_up_after_too_many_deaths,
    recover_takes_only_expired_leases,
    recover_ends_cancelled_runs,
    parked_runs_time_out,
    messages_wake_and_ended_runs_refuse_them,
    resolve_finds_by_prefix,
    list_and_stats_filter,
    next_due_is_the_earliest,
    archive_removes_transcripts_that_owe_nothing,
    clean_up_removes_whole_trees,
    delete_removes_a_subtree_or_nothing,
);
