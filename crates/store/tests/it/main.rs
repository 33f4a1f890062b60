//! Tests of the store: one suite for both kinds, then what only files have.
#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test that cannot go on says so by panicking, and its helpers take what they get"
)]

mod accounts;
mod audit;
mod files;
mod looking;
mod mailbox;
mod pausing;
mod random;
mod random_accounts;
mod requests;
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
    ($($module:ident { $($name:ident),+ $(,)? })+) => {
        mod inline {
            $($(#[tokio::test]
            async fn $name() {
                let store = super::InlineStore::open_in_memory().unwrap();
                super::$module::$name(&store).await;
                super::support::sound(&store).await;
            })+)+
        }

        mod threaded {
            $($(#[tokio::test]
            async fn $name() {
                let home = tempfile::tempdir().unwrap();
                let store = super::SqliteStore::open(home.path(), &super::owner()).unwrap();
                super::$module::$name(&store).await;
                super::support::sound(&store).await;
            })+)+
        }

        #[test]
        fn every_case_of_the_suite_is_listed() {
            $(
                let listed = [$(stringify!($name)),+];
                let source = include_str!(concat!(stringify!($module), ".rs"));
                for line in source.lines() {
                    if let Some(rest) = line.strip_prefix("pub(crate) async fn ") {
                        let name = rest.split('(').next().unwrap();
                        assert!(listed.contains(&name), "{name} is in no list");
                    }
                }
            )+
        }
    };
}

conformance! {
    suite {
        admission_writes_run_edge_and_first_event,
        a_run_takes_its_messages_before_it_ends,
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
        writes_that_do_not_follow_the_head_are_refused,
        a_child_is_not_admitted_by_a_journal_that_lost_its_call,
        a_probe_is_a_write_without_a_change,
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
        recover_requeues_orphans_without_counting_a_death,
        suspects_are_claimed_alone_and_innocents_go_on,
        parked_runs_time_out,
        messages_wake_and_ended_runs_refuse_them,
        resolve_finds_by_prefix,
        list_and_stats_filter,
        next_due_is_the_earliest,
        archive_removes_transcripts_that_owe_nothing,
        clean_up_removes_whole_trees,
        delete_removes_a_subtree_or_nothing,
    }
    pausing {
        a_paused_run_is_not_claimed_until_it_may_go_on,
        a_pause_reaches_the_whole_subtree_and_what_it_is_yet_to_have,
        a_run_that_may_go_on_in_time_never_rests,
        what_arrives_for_a_run_at_rest_waits_for_it,
        a_pause_survives_the_death_of_whoever_held_the_run,
        cancel_beats_pause,
        the_deadline_of_a_run_at_rest_goes_on,
    }
    looking {
        runs_are_found_by_what_they_are,
        pages_are_without_gaps_and_doubles,
        conversations_are_the_main_runs_of_a_session,
        sessions_of_one_millisecond_are_on_one_page_each,
        a_tenant_does_not_see_how_busy_others_are,
        use_is_added_up_over_time,
        lanes_count_who_runs_and_who_waits,
        a_request_takes_effect_once,
        tenants_see_their_own_grants_and_audit,
    }
    requests {
        a_request_is_written_with_its_event_and_heard_once,
        only_a_reply_that_fits_the_question_is_taken,
        a_run_that_waits_for_a_person_holds_no_slot,
        a_lasting_yes_becomes_a_grant_of_the_roots_session,
        a_question_goes_to_a_listening_parent_or_to_a_person,
        a_question_that_a_parent_leaves_open_goes_to_a_person,
        requests_expire_and_wake_their_runs,
        the_end_of_a_run_closes_its_requests,
        a_call_that_has_its_answer_needs_no_reply,
        requests_are_found_by_prefix,
        a_prefix_that_fits_several_means_the_open_one,
        requests_go_with_the_transcript,
        requests_are_filtered_before_they_are_counted,
    }
    accounts {
        a_budget_is_carved_from_the_nearest_account_above,
        admission_is_refused_when_a_budget_is_spent,
        every_child_counts_where_children_are_limited,
        a_reservation_is_all_or_nothing,
        what_is_not_needed_comes_back,
        a_provider_that_takes_more_is_paid,
        a_reservation_of_the_dead_counts_as_spent,
        spending_stops_at_the_limit,
        an_account_closes_when_nobody_draws_from_it,
        a_wall_budget_ends_parked_runs,
        runs_without_accounts_are_not_limited,
    }
    audit {
        lines_are_chained_and_survive_their_runs,
        a_subtree_is_found_after_its_records_are_gone,
        every_journaled_answer_must_be_in_the_audit,
        what_a_worktree_left_is_announced,
    }
}
