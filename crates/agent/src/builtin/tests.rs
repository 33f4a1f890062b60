//! The built-in agents are a contract, and their prompts are paid for on every call.

use std::fmt::Write as _;

use sortie_core::agent::{AgentDefinition, AgentSource, ModelChoice};
use sortie_core::id::RunId;
use sortie_core::words::Lang;

use super::{builtin_agents, delegating, main_agent};
use crate::prompt::{PromptContext, system_prompt};

/// Bytes of a child's prompt. In Chinese this is about as many tokens as in English.
const MAX_CHILD_PROMPT_BYTES: usize = 1_500;
/// Bytes of the main prompt, which also explains delegating.
const MAX_MAIN_PROMPT_BYTES: usize = 2_200;
/// Characters of a line in the list of agents that the main prompt ends with.
const MAX_WHEN_CHARS: usize = 140;

/// Returns all agents; the main one with its chapter about delegating.
fn all(lang: Lang) -> Vec<AgentDefinition> {
    let mut agents = builtin_agents(lang);
    let main = main_agent(lang);
    let prompt = format!("{}\n{}", main.prompt, delegating(lang));
    agents.push(AgentDefinition { prompt, ..main });
    agents
}

/// Returns the prompt of an agent that may send these agents out.
fn composed(agent: &AgentDefinition, lang: Lang, agents: &[AgentDefinition]) -> String {
    let context = PromptContext {
        lang,
        agents,
        skills: &[],
        result_schema: None,
    };
    system_prompt(agent, &context)
}

#[test]
fn only_a_run_that_may_delegate_reads_about_delegating() {
    for (lang, words) in [
        (Lang::En, ["# Delegating", "subagent", "spawn_subagent"]),
        (Lang::Zh, ["# 委派", "子 Agent", "spawn_subagent"]),
    ] {
        let with = composed(&main_agent(lang), lang, &builtin_agents(lang));
        let without = composed(&main_agent(lang), lang, &[]);
        for word in words {
            assert!(with.contains(word), "{lang} {word}: {with}");
            assert!(!without.contains(word), "{lang} {word}: {without}");
        }
        let own = AgentDefinition {
            prompt: "Be brief.".to_owned(),
            source: AgentSource::User,
            ..main_agent(lang)
        };
        let own = composed(&own, lang, &builtin_agents(lang));
        assert!(!own.contains(words[0]), "{lang}: {own}");
    }
}

/// `exec` and `ask` are offered to all of them: a prompt that denies commands or questions makes the
/// model doubt its tools.
#[test]
fn no_prompt_denies_a_tool_that_is_offered() {
    for lang in Lang::ALL {
        for agent in builtin_agents(*lang) {
            let has = |tool: &str| {
                let allow = agent.tools.allow.as_ref();
                allow.is_none_or(|tools| tools.iter().any(|name| name == tool))
            };
            assert!(has("exec") && has("ask"), "{}", agent.name);
            for denial in [
                "run commands, message",
                "no questions",
                "运行命令、给",
                "不提问",
            ] {
                let prompt = &agent.prompt;
                assert!(!prompt.contains(denial), "{lang} {}: {denial}", agent.name);
            }
        }
    }
}

#[test]
fn the_agents_are_these() {
    let mut table = String::new();
    for agent in all(Lang::En) {
        let model = match &agent.model {
            ModelChoice::Inherit => "inherit",
            ModelChoice::Small => "small",
            ModelChoice::Plan => "plan",
            ModelChoice::Named(name) => name,
        };
        let tools = agent
            .tools
            .allow
            .as_ref()
            .map_or("*".to_owned(), |tools| tools.join(" "));
        let color = agent.color.as_deref().unwrap_or("-");
        let access = if agent.read_only { "reads" } else { "writes" };
        writeln!(
            table,
            "{} | {model} | {color} | {access} | {tools}",
            agent.name
        )
        .unwrap();
    }
    let expected = "\
explore | small | blue | reads | read_file list_dir glob grep exec todo_write skill ask web_fetch web_search
plan | plan | purple | reads | read_file list_dir glob grep exec todo_write skill ask web_fetch web_search
code | inherit | green | writes | *
general | inherit | cyan | writes | *
main | inherit | - | writes | *
";
    assert_eq!(table, expected);
}

#[test]
fn prompts_are_small() {
    for lang in Lang::ALL {
        for agent in all(*lang) {
            let max = if agent.name == "main" {
                MAX_MAIN_PROMPT_BYTES
            } else {
                MAX_CHILD_PROMPT_BYTES
            };
            let bytes = agent.prompt.len();
            assert!(
                bytes <= max,
                "{lang} {}: {bytes} bytes, at most {max}",
                agent.name
            );
            let when = agent.when_to_use.chars().count();
            assert!(
                when <= MAX_WHEN_CHARS,
                "{lang} {}: {when} characters",
                agent.name
            );
        }
    }
}

#[test]
fn languages_differ_only_in_texts() {
    let structure = |lang| {
        all(lang).into_iter().map(|agent| AgentDefinition {
            prompt: String::new(),
            when_to_use: String::new(),
            ..agent
        })
    };
    assert!(structure(Lang::En).eq(structure(Lang::Zh)));
    let han = |text: &str| {
        text.chars()
            .any(|letter| ('\u{4e00}'..='\u{9fff}').contains(&letter))
    };
    for (english, chinese) in all(Lang::En).iter().zip(all(Lang::Zh)) {
        let name = &english.name;
        assert!(
            !han(&english.prompt) && !han(&english.when_to_use),
            "{name} in English"
        );
        assert!(
            han(&chinese.prompt) && han(&chinese.when_to_use),
            "{name} in Chinese"
        );
        assert_eq!(
            english.prompt.lines().count(),
            chinese.prompt.lines().count(),
            "{name}"
        );
    }
}

#[test]
fn prompts_contain_their_required_phrases() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "explore",
            &[
                "never change",
                "quick",
                "medium",
                "very thorough",
                "concise",
                "data",
            ],
            &[
                "绝不修改",
                "quick",
                "medium",
                "very thorough",
                "简洁",
                "数据",
            ],
        ),
        (
            "plan",
            &["never change", "numbered plan", "verify", "data"],
            &["绝不修改", "带编号的计划", "验证", "数据"],
        ),
        (
            "code",
            &["efficiently", "paths", "data"],
            &["高效", "路径", "数据"],
        ),
        (
            "general",
            &["side quests", "concise", "data"],
            &["副任务", "简洁", "数据"],
        ),
        (
            "main",
            &[
                "task ",
                "spawn_subagent",
                "subagents",
                "parallel",
                "2-3 files",
                "Never poll",
                "invent",
                "data",
            ],
            &[
                "task ",
                "spawn_subagent",
                "subagents",
                "并行",
                "2-3 个文件",
                "绝不轮询",
                "编造",
                "数据",
            ],
        ),
    ];
    for (name, english, chinese) in cases {
        for (lang, words) in [(Lang::En, english), (Lang::Zh, chinese)] {
            let agents = all(lang);
            let agent = agents.iter().find(|agent| agent.name == *name).unwrap();
            for word in *words {
                assert!(agent.prompt.contains(word), "{lang} {name} lacks {word:?}");
            }
        }
    }
}

/// Anything that differs between two runs would spoil the provider's cache.
#[test]
fn prompts_are_constant() {
    for lang in Lang::ALL {
        assert_eq!(all(*lang), all(*lang));
        for agent in all(*lang) {
            let prompt = &agent.prompt;
            assert!(
                !prompt.contains(['{', '}', '\r']),
                "{lang} {}: a placeholder",
                agent.name
            );
            assert!(
                prompt.ends_with('\n') && !prompt.ends_with("\n\n"),
                "{lang} {}",
                agent.name
            );
            let id = prompt
                .split_whitespace()
                .find(|word| word.parse::<RunId>().is_ok());
            assert_eq!(id, None, "{lang} {}: an id", agent.name);
        }
    }
}
