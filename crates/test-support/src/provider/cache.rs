//! A simulated prompt cache: the prefix that a prompt shares with an earlier one is not charged as
//! fresh input.

use std::sync::Arc;

use super::answer::{Tokens, tokens};
use super::{ReceivedPrompt, Wire};

/// Shorter prefixes are not cached, as with real providers.
const SHORTEST_BYTES: usize = 4096;

/// The prompts so far.
#[derive(Debug, Default)]
pub(super) struct Cache {
    prompts: Vec<CachedPrompt>,
}

#[derive(Debug)]
struct CachedPrompt {
    model: String,
    text: Arc<str>,
    /// Whether its completion has begun: before that the cache cannot serve it.
    is_warm: bool,
}

impl Cache {
    /// Looks up a prompt and stores it; returns its usage and its place.
    pub(super) fn charge(&mut self, prompt: &ReceivedPrompt) -> (Tokens, usize) {
        let shared = self
            .prompts
            .iter()
            .filter(|kept| kept.is_warm && kept.model == prompt.model)
            .map(|kept| common(&kept.text, &prompt.text))
            .filter(|bytes| *bytes >= SHORTEST_BYTES)
            .max()
            .unwrap_or(0);
        self.prompts.push(CachedPrompt {
            model: prompt.model.clone(),
            text: Arc::clone(&prompt.text),
            is_warm: false,
        });
        (charged(prompt, shared), self.prompts.len() - 1)
    }

    /// Marks the completion of the prompt at this place as begun.
    pub(super) fn begun(&mut self, place: usize) {
        if let Some(kept) = self.prompts.get_mut(place) {
            kept.is_warm = true;
        }
    }
}

/// Returns the usage of a prompt of which so many bytes are cached.
pub(super) fn charged(prompt: &ReceivedPrompt, shared: usize) -> Tokens {
    let rest = tokens(prompt.text.len() - shared);
    // Only one wire format charges for writing, and only if the client asks for it.
    let writes = prompt.wire == Wire::Anthropic;
    if writes && !prompt.is_marked {
        return Tokens {
            fresh: tokens(prompt.text.len()),
            ..Tokens::default()
        };
    }
    Tokens {
        cache_read: tokens(shared),
        cache_write: if writes { rest } else { 0 },
        fresh: if writes { 0 } else { rest },
        output: 0,
    }
}

fn common(left: &str, right: &str) -> usize {
    let pairs = left.bytes().zip(right.bytes());
    pairs.take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prompt(model: &str, system: &str, task: &str, marked: bool) -> ReceivedPrompt {
        let mut system = json!([{"type": "text", "text": system}]);
        if marked {
            system[0]["cache_control"] = json!({"type": "ephemeral"});
        }
        let content = json!([{"type": "text", "text": task}]);
        let body = json!({"model": model, "system": system, "messages": [
            {"role": "user", "content": content}
        ]});
        ReceivedPrompt::read(Wire::Anthropic, "/v1/messages", body)
    }

    #[test]
    fn a_prompt_is_read_from_the_cache_once_its_answer_has_begun() {
        let long = "x".repeat(8000);
        let mut cache = Cache::default();
        let (first, place) = cache.charge(&prompt("a", &long, "one", true));
        assert!(
            first.cache_read == 0 && first.cache_write > 2000,
            "{first:?}"
        );
        let mut reads = |model: &str, system: &str, marked: bool, begun: Option<usize>| {
            if let Some(place) = begun {
                cache.begun(place);
            }
            cache
                .charge(&prompt(model, system, "two", marked))
                .0
                .cache_read
                > 2000
        };
        assert!(
            !reads("a", &long, true, None),
            "before the answer has begun"
        );
        assert!(reads("a", &long, true, Some(place)));
        assert!(!reads("a", &long, false, None), "without a mark");
        assert!(!reads("b", &long, true, None), "another model");
        assert!(!reads("a", "short", true, None), "another beginning");
    }
}
