//! What holds for a run, where several keys speak about the same thing.

use std::time::Duration;

use crate::{AgentConfig, Config, ModelConfig};

/// How a model is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    /// How freely it chooses its words.
    pub temperature: Option<f64>,
    /// The most tokens of one answer.
    pub max_tokens: Option<u64>,
    /// How hard it should think.
    pub thinking: Option<String>,
}

/// How long a run may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Answers with tool calls.
    pub max_iterations: u32,
    /// Running time; `None` is unlimited.
    pub timeout: Option<Duration>,
}

impl Config {
    /// The settings of an agent, whatever the case of its name.
    pub fn agent(&self, name: &str) -> Option<&AgentConfig> {
        self.agents.get(name).or_else(|| {
            let name = name.to_lowercase();
            let mut agents = self.agents.iter();
            agents.find_map(|(other, agent)| (other.to_lowercase() == name).then_some(agent))
        })
    }

    /// How a model is asked for an agent: the agent's settings, else the model's, else those of all.
    pub fn sampling(&self, agent: Option<&str>, model: &str) -> Sampling {
        let agent = agent.and_then(|name| self.agent(name));
        let model = self.models.get(model);
        Sampling {
            temperature: first(
                agent.and_then(|agent| agent.temperature),
                model.and_then(|model| model.temperature),
                self.temperature,
            ),
            max_tokens: first(
                agent.and_then(|agent| agent.max_tokens),
                model.and_then(|model| model.max_tokens),
                self.max_tokens,
            ),
            thinking: first(
                agent.and_then(|agent| agent.thinking.clone()),
                model.and_then(|model| model.thinking.clone()),
                self.thinking.clone(),
            ),
        }
    }

    /// The models to ask in turn when a model cannot answer; never the model itself.
    pub fn fallbacks(&self, agent: Option<&str>, model: &str) -> Vec<String> {
        let agent = agent.and_then(|name| self.agent(name));
        let named = agent
            .and_then(|agent| agent.fallbacks.as_ref())
            .or_else(|| self.models.get(model)?.fallbacks.as_ref())
            .unwrap_or(&self.fallbacks);
        let mut fallbacks: Vec<String> = Vec::new();
        for name in named {
            if name != model && !fallbacks.contains(name) {
                fallbacks.push(name.clone());
            }
        }
        fallbacks
    }

    /// How long the main agent may go on.
    pub fn main_limits(&self) -> RunLimits {
        RunLimits {
            max_iterations: self.main.max_iterations,
            timeout: timeout(self.main.timeout_seconds),
        }
    }

    /// How long a subagent may go on, when neither its definition nor its call says otherwise.
    pub fn child_limits(&self, agent: &str) -> RunLimits {
        let agent = self.agent(agent);
        let max_iterations = agent.and_then(|agent| agent.max_iterations);
        let seconds = agent.and_then(|agent| agent.timeout_seconds);
        RunLimits {
            max_iterations: max_iterations.unwrap_or(self.subagents.max_iterations),
            timeout: timeout(seconds.unwrap_or(self.subagents.timeout_seconds)),
        }
    }

    /// When finished tasks leave the lists; `None` is never.
    pub fn archive_after(&self) -> Option<Duration> {
        timeout(self.subagents.archive_after_minutes.saturating_mul(60))
    }

    /// The settings of a model.
    pub fn model_settings(&self, model: &str) -> Option<&ModelConfig> {
        self.models.get(model)
    }
}

fn first<T>(agent: Option<T>, model: Option<T>, all: Option<T>) -> Option<T> {
    agent.or(model).or(all)
}

fn timeout(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_agent_speaks_before_the_model_and_the_model_before_all() {
        let config = config(
            r#"
            temperature = 0.1
            max_tokens = 100
            thinking = "low"
            fallbacks = ["a/all", "b/b"]
            [models."a/m"]
            max_tokens = 200
            thinking = "medium"
            fallbacks = ["a/m", "a/model", "a/model"]
            [agents.Explore]
            thinking = "high"
            fallbacks = []
            "#,
        );
        let sampling = |agent, model| {
            let found = config.sampling(agent, model);
            let thinking = found.thinking.unwrap_or_default();
            (found.temperature, found.max_tokens, thinking)
        };
        let expected = (Some(0.1), Some(200), "high".to_owned());
        assert_eq!(sampling(Some("explore"), "a/m"), expected);
        let expected = (Some(0.1), Some(200), "medium".to_owned());
        assert_eq!(sampling(Some("code"), "a/m"), expected);
        let expected = (Some(0.1), Some(100), "low".to_owned());
        assert_eq!(sampling(None, "b/b"), expected);

        assert_eq!(config.fallbacks(None, "a/m"), ["a/model"]);
        assert_eq!(config.fallbacks(None, "b/b"), ["a/all"]);
        assert!(config.fallbacks(Some("EXPLORE"), "a/m").is_empty());
    }

    #[test]
    fn limits_of_an_agent_replace_those_of_all() {
        let config = config(
            "[subagents]\nmax_iterations = 9\n[agents.slow]\ntimeout_seconds = 0\n\
             [agents.quick]\nmax_iterations = 2\ntimeout_seconds = 60",
        );
        let minute = Some(Duration::from_secs(60));
        let half_hour = Some(Duration::from_secs(1800));
        for (agent, max_iterations, timeout) in [
            ("slow", 9, None),
            ("quick", 2, minute),
            ("other", 9, half_hour),
        ] {
            let expected = RunLimits {
                max_iterations,
                timeout,
            };
            assert_eq!(config.child_limits(agent), expected, "{agent}");
        }
        assert_eq!(config.main_limits().timeout, None);
        let week = Duration::from_secs(7 * 24 * 3600);
        assert_eq!(config.archive_after(), Some(week));
    }
}
