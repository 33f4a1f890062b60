//! A fully hostile model, tested through the real binary.
//!
//! A script plays the model: it makes arbitrary calls, in one completion where that does not blur
//! the result. Each attack on the shell is tried with and without the filter of dangerous commands
//! ([`stage::both_ways`]), and, where that is cheap, once more without a sandbox, where it must
//! succeed: an attack that cannot succeed proves nothing.
//!
//! | promise | here |
//! | --- | --- |
//! | P1 file tools stay in the workspace | `files`; races in `sortie-tools`, `confine::tests` |
//! | P2 the shell stays in the sandbox | `shell` |
//! | P3 no sandbox, no exec | `shell::without_a_sandbox_nothing_is_started`, on a machine without any sandbox (`bare_machine`) |
//! | P4 processes end | `processes`; a thousand tries in `sortie-sandbox`, `endings` |
//! | P5 one guard for what goes out | `web`, `servers` |
//! | P6 no route without a token | `sortie-server`, `matrix` |
//! | P7 deny wins, a child has no more authority | `children`; a million checks in `sortie-policy`, `properties` |
//! | P8 trust | `folder`, `causes::trust_does_not_match_folders_by_prefix` |
//! | P9 names and changes of tools | `servers` |
//! | P10 secrets | `secrets` |
//! | P11 bounds | `bounds`, `endless` |
//! | P12 framing | `children`, `servers` |
//! | P13 the web page | `web/e2e/story.test.mjs` |
//! | P14 audit | `audit` |
//! | P15 protected files | `protected` |
//!
//! The ten root causes, each with the test of its class; where a checker and an executor form a
//! pair, both get the same random input.
//!
//! | root cause | class test |
//! | --- | --- |
//! | 1 check and use differ | the view of the sandbox: `race`; the workspace itself: `swap`; paths: `causes::what_a_rule_allows_is_what_is_written`, `sortie-tools` `confine::tests::swapping_folders_does_not_get_past_policy`; commands: `sortie-shell` `real_runs::what_is_allowed_runs_only_what_is_allowed` (bash is the executor); names: `sortie-fetch` `names`; approvals: `sortie-policy` `at_use::a_yes_to_one_thing_is_no_yes_to_another` |
//! | 2 `starts_with` | `causes::rules_do_not_match_names_by_prefix`, `causes::trust_does_not_match_folders_by_prefix` |
//! | 3 deny by enumeration | `children::child_cannot_spawn_by_any_tool_name`, `web::no_spelling_reaches_this_machine`, `sortie-shell` `real_runs::what_is_clear_of_a_denied_program_does_not_run_it` |
//! | 4 absent means safe | `protected` (absent places), `causes::invalid_limit_stops_the_program`, `sortie-policy` `admission::an_empty_list_means_none_and_says_why` |
//! | 5 a second way without the guard | `protected` and `files` (shell and tools agree), `web` (pages, redirects, MCP servers) |
//! | 6 the child's own policy | `sortie-policy` `properties::a_million_random_checks`, `children::a_child_gets_no_more_than_its_parent_and_its_agent_have` |
//! | 7 localhost is trusted | `web::no_spelling_reaches_this_machine`, `shell::commands_reach_no_listener` |
//! | 8 authority that a caller declares | `causes::a_call_that_declares_its_own_authority_has_none`, `folder` |
//! | 9 limits that fail open | `shell::without_a_sandbox_nothing_is_started`, `bounds`, `causes::invalid_limit_stops_the_program`, `sortie-store` `random_accounts` |
//! | 10 side channels | `secrets::no_secret_is_in_any_sink` |
//!
//! `benign` is the counterpart: what must not be blocked.

mod audit;
pub(crate) mod bare_machine;
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
