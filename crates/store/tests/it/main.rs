//! Tests of the store: one suite for SQLite, inline and threaded, and for PostgreSQL; then tests of
//! what only one of them has.
#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test that cannot go on says so by panicking, and its helpers take what they get"
)]

mod accounts;
mod audit;
mod copying;
mod failover;
mod files;
mod growth;
mod letters;
mod looking;
mod lost;
mod mailbox;
mod pausing;
mod random;
mod random_accounts;
mod requests;
mod server;
mod sharing;
mod suite;
mod support;
mod tenants;

use sortie_core::time::Timestamp;
use sortie_store::{DurableStore, InlineStore, Owner};

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
                let store = super::DurableStore::open(home.path(), &super::owner()).unwrap();
                super::$module::$name(&store).await;
                super::support::sound(&store).await;
            })+)+
        }

        mod postgres {
            $($(#[tokio::test]
            async fn $name() {
                let store = super::lost::open(&super::server::schema());
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
    growth {
        handles_and_missing_ids_are_found,
        runs_with_the_same_short_handle_get_different_ones,
        claim_passes_by_long_queues_that_are_at_a_limit,
        a_deleted_child_still_counts_in_its_tree,
        queue_positions_end_at_a_thousand,
        undelivered_results_are_counted,
        a_snapshot_is_kept_for_a_session_until_a_turn_is_deleted,
        a_snapshot_survives_archiving,
        a_snapshot_must_follow_the_one_it_was_folded_from,
        active_runs_of_a_tree_are_listed_alone,
        usage_is_the_same_before_and_after_runs_end,
    }
    letters {
        a_run_writes_a_letter_for_each_event_that_a_hook_observes,
        a_cancelled_queued_run_reports_its_end,
        a_refused_write_leaves_no_letter,
        letters_of_one_queue_wait_for_each_other,
        dead_letters_are_retried_or_dropped,
    }
    suite {
        admission_writes_run_and_first_event,
        a_run_reads_its_messages_before_it_ends,
        the_same_call_gets_the_same_child,
        admission_is_rejected_over_limits_and_for_ending_parents,
        a_rate_limit_wait_shows_in_the_record,
        usage_of_descendants_is_added_to_all_ancestors,
        admission_checks_the_parents_fence,
        claim_leases_and_journals,
        claim_respects_lane_limits,
        claim_respects_parent_and_tree_caps_without_starving_others,
        priority_is_worth_a_minute_of_waiting,
        label_and_priority_of_a_queued_run_can_be_changed,
        a_woken_run_keeps_its_place_in_the_queue,
        a_released_run_keeps_its_place_in_the_queue,
        append_stores_events_summary_and_blobs,
        progress_never_goes_back,
        stale_fences_are_rejected_by_every_write,
        writes_that_do_not_follow_the_head_are_rejected,
        admission_is_rejected_if_the_parents_journal_lost_the_call,
        a_probe_is_a_write_without_a_change,
        inbox_moves_into_the_journal_once,
        a_full_inbox_is_taken_in_several_events,
        park_is_rejected_with_inbox_items_or_a_cancellation,
        heartbeat_reports_lost_cancelled_and_waiting_runs,
        finish_ends_and_announces,
        delivery_happens_exactly_once,
        delivery_to_an_ended_parent_is_blocked_and_visible,
        a_blocked_delivery_can_be_tried_again_or_dismissed,
        attempts_to_deliver_to_sinks_are_recorded,
        delivery_combines_the_states_of_several_sinks,
        cancel_ends_queued_and_parked_and_signals_leased,
        cancel_reaches_every_level,
        cancel_of_an_ended_run_changes_nothing,
        a_cancelled_child_is_announced_to_its_parent,
        the_end_of_a_parent_ends_its_children,
        silent_children_continue_after_their_parent_completes,
        background_children_outlive_a_turn_that_fails,
        a_result_whose_turn_ended_before_the_delivery_waits,
        a_background_task_is_announced_to_its_session,
        a_child_cancelled_with_its_parent_has_no_delivery,
        recover_requeues_and_marks_the_next_claim,
        recover_ends_runs_that_make_no_progress,
        recover_ends_runs_after_too_many_deaths,
        recover_can_free_only_expired_leases,
        recover_ends_cancelled_runs,
        recover_requeues_orphans_without_counting_a_death,
        suspects_are_claimed_alone_and_innocent_runs_continue,
        parked_runs_time_out,
        messages_wake_parked_runs_and_are_rejected_by_ended_ones,
        resolve_finds_by_prefix,
        list_and_stats_filter,
        next_due_is_the_earliest,
        transcripts_are_deleted_after_the_delivery,
        archived_runs_stay_readable,
        delete_before_removes_whole_trees,
        delete_removes_a_subtree_or_nothing,
    }
    pausing {
        a_paused_run_is_not_claimed_until_it_is_resumed,
        a_pause_reaches_the_whole_subtree_and_later_children,
        a_run_resumed_before_its_next_step_journals_no_pause,
        messages_for_a_paused_run_stay_in_its_inbox,
        a_pause_survives_the_death_of_the_executor,
        cancel_beats_pause,
        the_deadline_of_a_paused_run_still_passes,
    }
    looking {
        runs_are_found_by_agent_tenant_and_text,
        pages_have_no_gaps_and_no_duplicates,
        conversations_are_the_main_runs_of_a_session,
        sessions_of_one_millisecond_are_paged_without_loss,
        a_tenant_does_not_see_how_busy_others_are,
        usage_is_summed_by_interval,
        lanes_count_claimed_and_queued_runs,
        a_request_takes_effect_once,
        tenants_see_their_own_grants_and_audit,
    }
    requests {
        a_request_is_written_with_its_event_and_replied_to_once,
        a_reply_of_the_wrong_kind_is_rejected,
        a_run_that_waits_for_a_person_holds_no_slot,
        a_lasting_approval_becomes_a_grant_of_the_roots_session,
        a_question_goes_to_a_parent_that_can_answer_or_to_a_person,
        an_unanswered_question_is_escalated_to_a_person,
        requests_expire_and_wake_their_runs,
        the_end_of_a_run_closes_its_requests,
        a_tool_result_closes_the_request_of_its_call,
        requests_are_found_by_prefix,
        a_prefix_of_several_requests_means_the_open_one,
        requests_are_deleted_with_the_transcript,
        requests_are_filtered_before_they_are_counted,
    }
    accounts {
        a_budget_is_carved_from_the_nearest_account_above,
        admission_is_rejected_when_an_account_is_empty,
        every_child_counts_where_children_are_limited,
        a_reservation_is_all_or_nothing,
        an_unused_reservation_is_refunded,
        a_cost_above_the_reservation_is_charged,
        the_reservation_of_a_dead_process_is_charged,
        charges_stop_at_the_limit,
        an_account_closes_when_no_run_draws_from_it,
        a_wall_budget_ends_parked_runs,
        runs_without_accounts_are_not_limited,
    }
    tenants {
        queued_runs_of_a_tenant_are_limited,
        running_tasks_of_a_tenant_are_limited_in_all_lanes,
        spending_is_limited_by_day_and_month,
        storage_counts_ended_tasks_until_they_are_deleted,
        priority_counts_among_the_runs_of_one_tenant,
        alone_a_tenant_has_all_slots,
        a_greedy_tenant_does_not_delay_one_with_a_larger_weight,
        a_greedy_tenant_takes_no_more_than_its_share,
        a_tenant_at_its_quota_does_not_block_others,
        ended_tasks_are_exported_by_the_day_of_their_end,
    }
    audit {
        audit_lines_are_chained_and_survive_their_runs,
        the_audit_of_a_subtree_is_found_after_its_records_are_deleted,
        every_journaled_answer_must_be_in_the_audit,
        changes_of_a_worktree_are_announced,
    }
}
