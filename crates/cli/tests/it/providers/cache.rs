//! The prompt cache: siblings read what the first of them wrote, and prompts only grow at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sortie_test_support::provider::{
    Call, Provider, ReceivedPrompt, Recorded, Reply, Settings, Tokens, Wire,
};

use super::site::{Site, model};

const SIBLINGS: usize = 8;
/// Children that may send out children have more tools, and so a prompt that is worth caching.
const LONG_PROMPT: &str = "[subagents.tools]\nallow_nested_subagents = true\n";

/// The main run sends siblings out; each answers at once, or looks around first.
fn siblings(turns: usize) -> impl Fn(&ReceivedPrompt) -> Reply + Send + Sync + 'static {
    move |prompt| match (prompt.task.starts_with("Sibling"), prompt.turn) {
        (false, 1) => Reply::Calls((0..SIBLINGS).map(sibling).collect()),
        (false, _) => Reply::text("All is done."),
        (true, turn) if turn < turns => Reply::call("list_dir", json!({"path": "."})),
        (true, _) => Reply::text("I am back."),
    }
}

fn sibling(number: usize) -> Call {
    let arguments = json!({
        "description": format!("sibling {number}"),
        "prompt": format!("Sibling {number}: look around."),
        "subagent_type": "general"
    });
    Call::new("task", arguments)
}

fn run(site: &Site, model: &str) -> Value {
    let (output, task) = site.run(
        model,
        &[
            "--max-concurrent",
            "8",
            "-c",
            "subagents.approve_spawn=never",
        ],
    );
    assert_eq!(
        task["result"],
        "All is done.",
        "{output:#?} {:#?}",
        site.summary()
    );
    task
}

fn of_siblings(site: &Site) -> Vec<Recorded> {
    let mut requests = site.provider.requests();
    requests.retain(|request| request.prompt.task.starts_with("Sibling"));
    requests
}

/// How many of the siblings read what they share from the cache.
fn readers(config: &str) -> usize {
    let settings = Settings {
        cache: true,
        first_byte_after: Duration::from_millis(500),
        ..Settings::default()
    };
    let site = Site::new(
        Provider::start(settings, siblings(1)),
        &format!("{LONG_PROMPT}{config}"),
    );
    run(&site, &model(Wire::Anthropic));
    let shared = shared_bytes(&of_siblings(&site)) as u64;
    assert!(shared > 4096, "{shared} bytes are not worth caching");
    let tasks = site.world.tasks();
    let reads = |task: &&Value| {
        let read = task["usage"]["cache_read_tokens"].as_u64().unwrap();
        // A token is four bytes here; the marks are not counted.
        task["depth"] == 1 && read * 4 + 512 > shared
    };
    tasks.iter().filter(reads).count()
}

/// The bytes that all requests begin with.
fn shared_bytes(requests: &[Recorded]) -> usize {
    let first = &requests[0].raw;
    let common = |other: &Recorded| {
        let pairs = first.iter().zip(&other.raw);
        pairs.take_while(|(left, right)| left == right).count()
    };
    requests[1..].iter().map(common).min().unwrap()
}

#[test]
fn all_siblings_but_the_first_read_the_cache() {
    assert_eq!(readers(""), SIBLINGS - 1);
}

#[test]
fn without_the_warm_up_every_sibling_writes_the_cache() {
    assert_eq!(readers("[providers.anthropic]\nwarm_cache = false\n"), 0);
}

#[test]
fn prompts_only_grow_at_the_end() {
    for &wire in Wire::ALL {
        let provider = Provider::start(Settings::default(), siblings(3));
        let site = Site::new(provider, "");
        run(&site, &model(wire));
        let mut runs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for request in of_siblings(&site) {
            let task = request.prompt.task.clone();
            runs.entry(task).or_default().push(unmarked(&request.raw));
        }
        assert_eq!(runs.len(), SIBLINGS);
        let first = runs.values().next().unwrap()[0].clone();
        let before_the_task = first.find("Sibling ").unwrap();
        for turns in runs.values() {
            assert_eq!(turns.len(), 3, "{wire:?}");
            assert_eq!(
                turns[0][..before_the_task],
                first[..before_the_task],
                "{wire:?}"
            );
            for pair in turns.windows(2) {
                let grown = pair[0].trim_end_matches(['}', ']']);
                assert!(pair[1].starts_with(grown), "{wire:?}\n{grown}\n{}", pair[1]);
            }
        }
    }
}

/// The main run looks around, and then forks a child with its own prompt.
fn forks(prompt: &ReceivedPrompt) -> Reply {
    if prompt.last.contains("Look at it once more.") {
        return Reply::text("I am back.");
    }
    let arguments = json!({
        "description": "again", "prompt": "Look at it once more.", "subagent_type": "explore",
        "fork": "cached"
    });
    match prompt.turn {
        1 => Reply::call("list_dir", json!({"path": "."})),
        2 => Reply::call("task", arguments),
        _ => Reply::text("All is done."),
    }
}

#[test]
fn cached_fork_begins_with_the_bytes_of_its_parents_prompt() {
    for &wire in Wire::ALL {
        let settings = Settings {
            cache: true,
            ..Settings::default()
        };
        let site = Site::new(Provider::start(settings, forks), "");
        run(&site, &model(wire));
        let requests = site.provider.requests();
        assert_eq!(requests.len(), 4, "{:#?}", site.summary());
        let parent = unmarked(&requests[1].raw);
        let child = unmarked(&requests[2].raw);
        let prefix = parent.trim_end_matches(['}', ']']);
        assert!(child.starts_with(prefix), "{wire:?}\n{prefix}\n{child}");
        let added = child.strip_prefix(prefix).unwrap();
        assert!(added.contains("subagent explore"), "{wire:?} {added}");
        // A token is four bytes here, and a cache needs 4,096 of them.
        let read = requests[2].tokens.unwrap().cache_read as usize * 4;
        assert!(
            read + 512 > prefix.len(),
            "{wire:?}: {read} of {}",
            prefix.len()
        );
    }
}

/// A body without the marks of what to cache, which move with the end.
fn unmarked(raw: &[u8]) -> String {
    let text = String::from_utf8(raw.to_vec()).unwrap();
    text.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
}

#[test]
fn a_tree_costs_what_its_runs_cost() {
    let settings = Settings {
        cache: true,
        ..Settings::default()
    };
    let site = Site::new(Provider::start(settings, siblings(2)), "");
    let main = run(&site, &model(Wire::Anthropic));
    let all: f64 = site.provider.requests().iter().map(price).sum();
    assert_cost(&main["total_usage"]["cost_usd"], all);
    for task in site.world.tasks() {
        let message = task["message"].as_str().unwrap();
        let requests = site.provider.requests();
        let own = requests.iter().filter(|one| one.prompt.task == message);
        assert_cost(&task["usage"]["cost_usd"], own.map(price).sum());
    }
}

/// What a request costs on `claude-sonnet-4-5`, by the vendor's list.
fn price(request: &Recorded) -> f64 {
    let Tokens {
        fresh,
        cache_read,
        cache_write,
        output,
    } = request.tokens.unwrap();
    let cost = [
        (fresh, 3.0),
        (cache_read, 0.3),
        (cache_write, 3.75),
        (output, 15.0),
    ];
    cost.iter()
        .map(|(tokens, dollars)| *tokens as f64 * dollars)
        .sum::<f64>()
        / 1e6
}

fn assert_cost(cost: &Value, expected: f64) {
    let cost = cost.as_f64().unwrap();
    assert!(
        (cost - expected).abs() < 1e-9,
        "{cost} instead of {expected}"
    );
}

#[test]
fn a_model_without_a_price_has_no_cost() {
    let provider = Provider::start(Settings::default(), siblings(1));
    let site = Site::new(provider, "");
    let main = run(&site, "anthropic/mystery-1");
    assert_eq!(main["usage"]["cost_usd"], Value::Null);
    assert_eq!(main["total_usage"]["cost_usd"], Value::Null);
    assert!(main["total_usage"]["input_tokens"].as_u64() > main["usage"]["input_tokens"].as_u64());
}
