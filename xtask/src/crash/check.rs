//! What has to be true after any number of kills, whatever they hit.

use std::collections::BTreeMap;

use super::observed::{Observed, Run};
use super::scenario::{ExpectedRun, MAIN, Scenario};

/// Returns every broken promise, one sentence each.
pub(crate) fn problems(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    let mut problems = Vec::new();
    let tree = match the_expected_runs(scenario, observed) {
        Ok(tree) => tree,
        Err(wrong) => return wrong,
    };
    for run in tree.values() {
        one_end(run, &mut problems);
        one_result_for_each_call(run, &mut problems);
        announcements_of_known_runs(run, &tree, &mut problems);
    }
    for (expected, run) in scenario.runs.iter().zip(in_order(scenario, &tree)) {
        announced_once(expected, run, &tree, &mut problems);
        effects_in_the_ledger(expected, run, &observed.ledger, &mut problems);
    }
    no_other_lines(scenario, &observed.ledger, &mut problems);
    if let Some(main) = tree.get(MAIN)
        && main.result.as_deref() != Some(scenario.final_text)
    {
        problems.push(format!(
            "main ended with {:?}, not {:?}",
            main.result.as_deref().unwrap_or_default(),
            scenario.final_text
        ));
    }
    problems
}

type Tree<'a> = BTreeMap<&'static str, &'a Run>;

/// Checks that no run is lost or duplicated, and that each is under its parent.
fn the_expected_runs<'a>(
    scenario: &Scenario,
    observed: &'a Observed,
) -> Result<Tree<'a>, Vec<String>> {
    let mut wrong = Vec::new();
    let mut tree = Tree::new();
    for expected in scenario.runs {
        let found: Vec<&Run> = observed
            .runs
            .iter()
            .filter(|run| name(scenario, run) == expected.label)
            .collect();
        match found.as_slice() {
            [] => wrong.push(format!("lost: there is no run {:?}", expected.label)),
            [run] => {
                tree.insert(expected.label, *run);
            }
            runs => wrong.push(format!(
                "duplicated: there are {} runs {:?}",
                runs.len(),
                expected.label
            )),
        }
    }
    let known = |run: &&Run| {
        let name = name(scenario, run);
        scenario.runs.iter().any(|expected| expected.label == name)
    };
    for run in observed.runs.iter().filter(|run| !known(run)) {
        wrong.push(format!("unexpected run {:?}", run.label));
    }
    if wrong.is_empty() {
        Ok(tree)
    } else {
        Err(wrong)
    }
}

fn name<'a>(scenario: &Scenario, run: &'a Run) -> &'a str {
    if run.parent.is_none() && run.label.starts_with(prefix(scenario.prompt)) {
        MAIN
    } else {
        &run.label
    }
}

/// A main run's label is the beginning of its prompt; this many characters identify it.
fn prefix(prompt: &str) -> &str {
    prompt.get(..12).unwrap_or(prompt)
}

fn in_order<'a>(scenario: &'a Scenario, tree: &'a Tree<'a>) -> impl Iterator<Item = &'a Run> + 'a {
    scenario
        .runs
        .iter()
        .filter_map(|expected| tree.get(expected.label).copied())
}

fn one_end(run: &Run, problems: &mut Vec<String>) {
    let label = &run.label;
    if run.status != "completed" {
        problems.push(format!("{label:?} is {}, not completed", run.status));
    }
    let ends = run.events("finished").count();
    let wanted = usize::from(run.is_terminal());
    if ends != wanted {
        problems.push(format!(
            "{label:?} has {ends} ends in its journal, not {wanted}"
        ));
    }
    if let Some(end) = run.entries.last()
        && run.is_terminal()
        && end["outcome"]["status"] != run.status.as_str()
    {
        problems.push(format!(
            "{label:?} is {} in its record, and its journal ends with {end}",
            run.status
        ));
    }
    for (index, entry) in run.entries.iter().enumerate() {
        if entry["seq"].as_u64() != Some(index as u64 + 1) {
            problems.push(format!("{label:?} has a gap in its journal before {entry}"));
        }
    }
    if run.events("admitted").count() != 1 {
        problems.push(format!("{label:?} was not admitted exactly once"));
    }
}

fn one_result_for_each_call(run: &Run, problems: &mut Vec<String>) {
    for (id, call) in run.calls() {
        if call.answers != 1 {
            problems.push(format!(
                "call {id} of {:?} has {} results",
                run.label, call.answers
            ));
        }
    }
}

fn announcements_of_known_runs(run: &Run, tree: &Tree<'_>, problems: &mut Vec<String>) {
    for child in run.announced().keys() {
        if !tree.values().any(|other| other.id == *child) {
            problems.push(format!(
                "{:?} has an announcement of an unknown run {child}",
                run.label
            ));
        }
    }
}

fn announced_once(expected: &ExpectedRun, run: &Run, tree: &Tree<'_>, problems: &mut Vec<String>) {
    let label = expected.label;
    for (name, other) in tree {
        let is_parent = expected.parent == Some(name);
        let times = other.announced().get(run.id.as_str()).copied().unwrap_or(0);
        if times != u32::from(is_parent) {
            problems.push(format!("{label:?} was announced {times} times to {name:?}"));
        }
        if is_parent && run.parent.as_ref() != Some(&other.id) {
            problems.push(format!("{label:?} is not a child of {name:?}"));
        }
    }
    if matches!(run.delivery.as_str(), "pending" | "blocked") {
        problems.push(format!("the result of {label:?} is {}", run.delivery));
    }
}

/// Checks that a line exists once, or more often only if the model got "outcome unknown" each time.
fn effects_in_the_ledger(
    expected: &ExpectedRun,
    run: &Run,
    ledger: &[String],
    problems: &mut Vec<String>,
) {
    for line in expected.lines() {
        let times = ledger.iter().filter(|found| **found == line).count();
        let reported = reported_unknown(run, &line);
        if times == 0 {
            problems.push(format!("the effect {line:?} is lost"));
        } else if times > 1 + reported {
            problems.push(format!(
                "the effect {line:?} happened {times} times, and the model got \"unknown\" {reported} times"
            ));
        }
    }
}

/// Returns how often the model got the result that the outcome of this line is unknown.
pub(crate) fn reported_unknown(run: &Run, line: &str) -> usize {
    let calls = run.calls();
    let about_it = |command: &Option<String>| {
        let command = command.as_deref();
        command.is_some_and(|command| command.contains(line))
    };
    calls
        .values()
        .filter(|call| call.interrupted && about_it(&call.command))
        .count()
}

fn no_other_lines(scenario: &Scenario, ledger: &[String], problems: &mut Vec<String>) {
    let known: Vec<String> = scenario.runs.iter().flat_map(ExpectedRun::lines).collect();
    for line in ledger.iter().filter(|line| !known.contains(line)) {
        problems.push(format!("unexpected line {line:?} in the ledger"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::scenario::SMALL;
    use super::*;

    /// Returns the journal with numbered entries.
    fn journal(events: &[Value]) -> Vec<Value> {
        let numbered = events.iter().zip(1..);
        numbered
            .map(|(event, seq)| {
                let mut event = event.clone();
                event["seq"] = seq.into();
                event
            })
            .collect()
    }

    fn answered(calls: &Value) -> Value {
        json!({"event": "answered", "blocks": calls})
    }

    fn exec(id: &str) -> Value {
        json!({"type": "call", "id": id, "name": "exec",
            "arguments": {"json": {"command": "echo effect worker alpha 1 >> ledger.txt"}}})
    }

    fn tool_finished(call: &str, status: &str) -> Value {
        json!({"event": "tool_finished", "result": {"call": call, "status": status}})
    }

    fn finished() -> Value {
        json!({"event": "finished", "outcome": {"status": "completed"}})
    }

    fn run(id: &str, label: &str, parent: Option<&str>, events: &[Value]) -> Run {
        Run {
            id: id.into(),
            label: label.into(),
            parent: parent.map(str::to_owned),
            status: "completed".into(),
            result: Some(SMALL.final_text.into()),
            delivery: "delivered".into(),
            entries: journal(events),
        }
    }

    fn announcement() -> Value {
        json!({"event": "inbox_taken", "items": [
            {"kind": "announcement", "child": "B", "call": "1-0", "mode": "blocking"}]})
    }

    /// The small scenario as it should end.
    fn good() -> Observed {
        let main = run(
            "A",
            "Carry out the small scenario.",
            None,
            &[
                json!({"event": "admitted"}),
                answered(&json!([{"type": "call", "id": "1-0", "name": "task"}])),
                announcement(),
                answered(&json!([{"type": "text", "text": "done"}])),
                finished(),
            ],
        );
        let child = run(
            "B",
            "worker alpha",
            Some("A"),
            &[
                json!({"event": "admitted"}),
                answered(&json!([exec("1-0")])),
                tool_finished("1-0", "ok"),
                finished(),
            ],
        );
        Observed {
            runs: vec![main, child],
            ledger: vec!["effect worker alpha 1".into()],
        }
    }

    fn check(change: impl FnOnce(&mut Observed), expected: &[&str]) {
        let mut observed = good();
        change(&mut observed);
        assert_eq!(problems(&SMALL, &observed), expected);
    }

    #[test]
    fn a_good_end_has_no_problems() {
        check(|_| {}, &[]);
    }

    #[test]
    fn lost_duplicated_and_unexpected_runs_are_detected() {
        check(
            |observed| {
                observed.runs.pop();
            },
            &["lost: there is no run \"worker alpha\""],
        );
        check(
            |observed| observed.runs.push(run("C", "worker alpha", Some("A"), &[])),
            &["duplicated: there are 2 runs \"worker alpha\""],
        );
        check(
            |observed| observed.runs.push(run("C", "stray", Some("A"), &[])),
            &["unexpected run \"stray\""],
        );
    }

    #[test]
    fn a_run_that_has_not_ended_is_detected() {
        check(
            |observed| {
                let child = &mut observed.runs[1];
                child.status = "running".into();
                child.delivery = "pending".into();
                child.entries.pop();
            },
            &[
                "\"worker alpha\" is running, not completed",
                "the result of \"worker alpha\" is pending",
            ],
        );
    }

    #[test]
    fn a_second_end_is_detected() {
        check(
            |observed| {
                let mut end = finished();
                end["seq"] = 5.into();
                observed.runs[1].entries.push(end);
            },
            &["\"worker alpha\" has 2 ends in its journal, not 1"],
        );
    }

    #[test]
    fn a_second_and_a_missing_announcement_are_detected() {
        check(
            |observed| {
                let main = &mut observed.runs[0].entries;
                main.insert(3, announcement());
                *main = journal(main);
            },
            &[
                "call 1-0 of \"Carry out the small scenario.\" has 2 results",
                "\"worker alpha\" was announced 2 times to \"main\"",
            ],
        );
        check(
            |observed| {
                let main = &mut observed.runs[0].entries;
                main.remove(2);
                *main = journal(main);
            },
            &[
                "call 1-0 of \"Carry out the small scenario.\" has 0 results",
                "\"worker alpha\" was announced 0 times to \"main\"",
            ],
        );
    }

    #[test]
    fn an_effect_may_repeat_only_after_outcome_unknown() {
        check(
            |observed| observed.ledger.push("effect worker alpha 1".into()),
            &[
                "the effect \"effect worker alpha 1\" happened 2 times, and the model got \"unknown\" 0 times",
            ],
        );
        check(
            |observed| observed.ledger.clear(),
            &["the effect \"effect worker alpha 1\" is lost"],
        );
        check(
            |observed| observed.ledger.push("something".into()),
            &["unexpected line \"something\" in the ledger"],
        );
        check(
            |observed| {
                observed.ledger.push("effect worker alpha 1".into());
                observed.runs[1].entries = journal(&[
                    json!({"event": "admitted"}),
                    answered(&json!([exec("1-0")])),
                    tool_finished("1-0", "interrupted"),
                    answered(&json!([exec("2-0")])),
                    tool_finished("2-0", "ok"),
                    finished(),
                ]);
            },
            &[],
        );
    }

    #[test]
    fn a_wrong_final_text_is_detected() {
        check(
            |observed| observed.runs[0].result = Some("no".into()),
            &["main ended with \"no\", not \"The small scenario is complete.\""],
        );
    }
}
