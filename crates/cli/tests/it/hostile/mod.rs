//! A model that is fully hostile, through the real binary.
//!
//! A script plays the model: it calls whatever it likes, in one answer if that does not blur the
//! result. Each attack of the shell is tried with the filter of dangerous commands and without it
//! ([`stage::both_ways`]), and where it is cheap once more without a sandbox, where it must work: a
//! test whose attack cannot succeed shows nothing.
//!
//! | promise | here |
//! | --- | --- |
//! | P1 file tools stay in the workspace | `files`; races in `sortie-tools`, `confine::tests` |
//! | P2 the shell stays in the sandbox | `shell` |
//! | P3 no sandbox, no exec | `shell::without_a_sandbox_nothing_is_started`, on a machine that can hold nothing (`bare_machine`) |
//! | P4 processes end | `processes`; a thousand tries in `sortie-sandbox`, `endings` |
//! | P5 one guard for what goes out | `web`, `servers` |
//! | P6 no route without a token | belongs to the server, which does not exist yet |
//! | P7 deny wins, a child has no more | `children`; a million checks in `sortie-policy`, `properties` |
//! | P8 trust | `folder`, `causes::trust_ends_at_the_folder` |
//! | P9 names and changes of tools | `servers` |
//! | P10 secrets | `secrets` |
//! | P11 bounds | `bounds`, `endless` |
//! | P12 framing | `children`, `servers` |
//! | P13 the web page | belongs to the server, which does not exist yet |
//! | P14 audit | `audit` |
//! | P15 protected files | `protected` |
//!
//! The ten root causes, each with the test of its class; where a checker and an executor are a pair,
//! both are given the same random input.
//!
//! | root cause | class test |
//! | --- | --- |
//! | 1 check and use differ | the view of the sandbox: `race`; the workspace itself: `swap`; paths: `causes::what_a_rule_allows_is_what_is_written`, `sortie-tools` `confine::tests::swapping_folders_does_not_get_past_policy`; commands: `sortie-shell` `real_runs::what_is_allowed_runs_only_what_is_allowed` (bash is the executor); names: `sortie-fetch` `names`; approvals: `sortie-policy` `at_use::a_yes_to_one_thing_is_no_yes_to_another` |
//! | 2 `starts_with` | `causes::a_name_that_begins_alike_is_another_name`, `causes::trust_ends_at_the_folder` |
//! | 3 deny by enumeration | `children::a_child_spawns_nobody_by_any_name`, `web::no_spelling_reaches_this_machine`, `sortie-shell` `real_runs::what_is_clear_of_a_denied_program_does_not_run_it` |
//! | 4 absent means safe | `protected` (absent places), `causes::a_limit_that_cannot_be_read_stops_everything`, `sortie-policy` `admission::an_empty_list_means_none_and_says_why` |
//! | 5 a second way without the guard | `protected` and `files` (shell and tools agree), `web` (pages, redirects, servers of tools) |
//! | 6 the child's own policy | `sortie-policy` `properties::a_million_random_checks`, `children::a_child_gets_no_more_than_its_parent_and_its_agent_have` |
//! | 7 localhost is trusted | `web::no_spelling_reaches_this_machine`, `shell::nobody_is_reached` |
//! | 8 authority that a caller declares | `causes::a_call_that_declares_its_own_authority_has_none`, `folder` |
//! | 9 limits that fail open | `shell::without_a_sandbox_nothing_is_started`, `bounds`, `causes::a_limit_that_cannot_be_read_stops_everything`, `sortie-store` `random_accounts` |
//! | 10 side channels | `secrets::no_secret_is_in_any_sink` |
//!
//! `benign` is the other side: what must not be blocked.

mod audit;
mod bare_machine;
mod benign;
mod bounds;
mod causes;
mod children;
mod endless;
mod files;
mod folder;
mod processes;
mod protected;
mod race;
mod secrets;
mod server;
mod servers;
mod shell;
mod stage;
mod swap;
mod web;
