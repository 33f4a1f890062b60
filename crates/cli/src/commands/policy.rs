//! `sortie policy`: what a run may do, which layer decides it, and why. Uses the same planner as an
//! admission, without a store and without executing anything.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use sortie_base::hidden::write_out_line;
use sortie_core::event::Event;
use sortie_core::id::Seq;
use sortie_core::policy::{Mode, PolicyLayer};
use sortie_core::run::RunSpec;
use sortie_core::words::Lang;
use sortie_models::suggest_default;
use sortie_runtime::{Explained, LayerView, NewRun, Planner};
use sortie_text::t;

use super::tasks;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::report::indented;
use crate::run_flags::mode_parser;
use crate::settings::Settings;
use crate::table;

/// The prefix of the names of MCP tools.
const SERVER_TOOL: &str = "mcp__";

/// Shows what agents may do, and which layer decides; runs nothing.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    Explain(Explain),
    Show(Show),
}

/// Explains whether a tool call would run, which layer decides, and the ruling of every layer
///
/// The first line is the decision. Without --task, the decision is for a run that would be admitted
/// now: of the main agent, or of a subagent of it. Grants of a session are not considered.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    who: PolicySubject,
    /// Name of the tool
    #[arg(long, value_name = "TOOL")]
    tool: String,
    /// Arguments of the call, as a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// Shows the policy of a run: its layers with their rules, its mode and its tools
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    who: PolicySubject,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// Selects the policy: that of an agent now, or the recorded one of a task.
#[derive(Debug, Args)]
struct PolicySubject {
    /// Agent whose policy is used; required without --task
    #[arg(long, value_name = "NAME", required_unless_present = "task")]
    agent: Option<String>,
    /// Task whose recorded policy is used instead of the current one
    #[arg(long, value_name = "ID", conflicts_with_all = ["agent", "mode", "model"])]
    task: Option<String>,
    /// When calls that change something need an approval [default: approvals.mode]
    #[arg(long, value_parser = mode_parser(), value_name = "MODE")]
    mode: Option<Mode>,
    /// Model of the run, because rules can apply to one vendor [default: the configured model]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
}

impl PolicyCommand {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        match self {
            Self::Explain(explain) => explain.run(settings).await,
            Self::Show(show) => show.run(settings).await,
        }
    }
}

impl Explain {
    async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let lang = settings.lang;
        let arguments: Value = serde_json::from_str(&self.args)
            .ok()
            .filter(Value::is_object)
            .ok_or_else(|| Problem::Typed(t!(lang, "policy-bad-args")))?;
        #[cfg_attr(
            not(feature = "mcp"),
            expect(unused_mut, reason = "only MCP servers change it")
        )]
        let mut assembly = settings.builder().assemble()?;
        #[cfg(feature = "mcp")]
        let servers = if self.tool.starts_with(SERVER_TOOL) {
            assembly.add_mcp_servers().await?
        } else {
            None
        };
        let planner = assembly.into_planner()?;
        let spec = self.who.spec(settings, &planner).await?;
        let explained = planner.explained(spec, &self.tool, &arguments)?;
        #[cfg(feature = "mcp")]
        drop(servers);
        let spec = &explained.spec;
        if self.json {
            output::json(&json!({
                "agent": spec.agent.name,
                "tool": self.tool,
                "arguments": arguments,
                "policy_hash": spec.policy_hash,
                "ruling": explained.explanation.ruling,
                "taken_away_by": explained.removed_by,
                "layers": explained.explanation.layers,
            }))?;
        } else {
            output::text(&explanation(lang, &self.tool, &explained))?;
        }
        Ok(Exit::Ok)
    }
}

impl Show {
    async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        #[cfg_attr(
            not(feature = "mcp"),
            expect(unused_mut, reason = "only MCP servers change it")
        )]
        let mut assembly = settings.builder().assemble()?;
        #[cfg(feature = "mcp")]
        let servers = assembly.add_mcp_servers().await?;
        let planner = assembly.into_planner()?;
        let spec = self.who.spec(settings, &planner).await?;
        #[cfg(feature = "mcp")]
        drop(servers);
        if self.json {
            output::json(&json!({
                "agent": spec.agent.name,
                "model": spec.model,
                "mode": spec.policy.mode,
                "read_only": spec.policy.read_only,
                "allow_dangerous": spec.policy.allow_dangerous,
                "sandbox": spec.confinement.sandbox,
                "network": spec.confinement.network,
                "isolation": spec.isolation,
                "tools": spec.tools,
                "policy_hash": spec.policy_hash,
                "layers": spec.policy.layers,
            }))?;
        } else {
            output::text(&page(settings.lang, &spec))?;
        }
        Ok(Exit::Ok)
    }
}

impl PolicySubject {
    /// Returns the spec that the run was admitted with, or would be admitted with now.
    async fn spec(&self, settings: &Settings, planner: &Planner) -> Result<RunSpec, Problem> {
        if let Some(id) = &self.task {
            return recorded(settings, id).await;
        }
        settings.check_configuration()?;
        let agent = self.agent.as_deref().unwrap_or_default();
        let mode = settings.configuration.config().approvals.mode;
        let new = NewRun {
            mode: self.mode.unwrap_or(mode),
            lang: settings.lang,
            ..NewRun::new("-", settings.workspace(None)?, &self.model(settings))
        };
        Ok(planner.preview(agent, new)?)
    }

    /// Returns the model, because rules can apply to one vendor. No model is called.
    fn model(&self, settings: &Settings) -> String {
        let named = self
            .model
            .as_deref()
            .map(|name| settings.options.absolute_model(name));
        let variables = &settings.options.environment.variables();
        named
            .or_else(|| settings.options.configured_model())
            .or_else(|| suggest_default(variables).map(|found| found.model))
            .unwrap_or_else(|| sortie_models::OFFLINE_MODEL.to_owned())
    }
}

/// Returns the recorded spec of a task.
async fn recorded(settings: &Settings, id: &str) -> Result<RunSpec, Problem> {
    let (store, record) = tasks::open(settings, id).await?;
    let entries = store.read(record.run_id, Seq(0)).await?;
    let first = entries.into_iter().next().map(|entry| entry.event);
    match first {
        Some(Event::Admitted { spec }) => Ok(*spec),
        Some(_) | None => Err(Problem::Nothing(t!(
            settings.lang,
            "policy-no-journal",
            id = &record.handle
        ))),
    }
}

fn explanation(lang: Lang, tool: &str, explained: &Explained) -> String {
    let spec = &explained.spec;
    let ruling = &explained.explanation.ruling;
    let mut rows = vec![
        (t!(lang, "field-layer"), ruling.layer.to_string()),
        (
            t!(lang, "field-rule"),
            ruling.rule.as_deref().map_or_else(dash, write_out_line),
        ),
    ];
    if !ruling.why.is_empty() {
        rows.push((t!(lang, "field-why"), write_out_line(&ruling.why)));
    }
    if let Some(words) = &explained.removed_by {
        rows.push((t!(lang, "field-taken-away-by"), write_out_line(words)));
    }
    rows.push((t!(lang, "field-mode"), spec.policy.mode.to_string()));
    rows.push((t!(lang, "field-policy"), spec.policy_hash.clone()));
    let first = t!(
        lang,
        "policy-ruling",
        decision = ruling.decision.as_str(),
        agent = write_out_line(&spec.agent.name),
        tool = write_out_line(tool)
    );
    let layers: Vec<Vec<String>> = explained
        .explanation
        .layers
        .iter()
        .flat_map(views)
        .collect();
    let head = vec![
        t!(lang, "column-layer"),
        t!(lang, "column-source"),
        t!(lang, "column-says"),
        t!(lang, "column-rule"),
    ];
    format!(
        "{first}\n{}\n\n{}",
        table::pairs(&rows),
        table::rows(head, layers, None)
    )
}

/// Returns a row for each rule of a layer that matched, or one row if none did.
fn views(layer: &LayerView) -> Vec<Vec<String>> {
    let line = |view: &str, rule: Option<&String>| {
        vec![
            layer.layer.to_string(),
            write_out_line(&layer.source),
            view.to_owned(),
            rule.map_or_else(dash, |rule| write_out_line(rule)),
        ]
    };
    if layer.opinions.is_empty() {
        return vec![line("-", None)];
    }
    layer
        .opinions
        .iter()
        .map(|opinion| line(opinion.view.as_str(), opinion.rule.as_ref()))
        .collect()
}

fn page(lang: Lang, spec: &RunSpec) -> String {
    let policy = &spec.policy;
    let yes_no = |yes: bool| {
        if yes {
            t!(lang, "word-yes")
        } else {
            t!(lang, "word-no")
        }
    };
    let rows = [
        (t!(lang, "field-agent"), write_out_line(&spec.agent.name)),
        (t!(lang, "field-model"), write_out_line(&spec.model)),
        (t!(lang, "field-mode"), policy.mode.to_string()),
        (t!(lang, "field-read-only"), yes_no(policy.read_only)),
        (t!(lang, "field-dangerous"), yes_no(policy.allow_dangerous)),
        (
            t!(lang, "field-sandbox"),
            spec.confinement.sandbox.to_string(),
        ),
        (t!(lang, "field-network"), yes_no(spec.confinement.network)),
        (t!(lang, "field-isolation"), spec.isolation.to_string()),
        (t!(lang, "field-tools"), spec.tools.join(", ")),
        (t!(lang, "field-policy"), spec.policy_hash.clone()),
    ];
    let mut parts = vec![table::pairs(&rows)];
    parts.extend(policy.layers.iter().map(rules));
    parts.join("\n\n")
}

/// Formats a layer with its rules as they were written.
fn rules(layer: &PolicyLayer) -> String {
    let mut lines = Vec::new();
    let mut add = |word: &str, rules: &[String]| {
        if !rules.is_empty() {
            let rules: Vec<String> = rules.iter().map(|rule| write_out_line(rule)).collect();
            lines.push(format!("{word}: {}", rules.join(", ")));
        }
    };
    match &layer.allow {
        None => {}
        Some(none) if none.is_empty() => add("allow", &["-".to_owned()]),
        Some(some) => add("allow", some),
    }
    add("deny", &layer.deny);
    add("except", &layer.except);
    add("ask", &layer.ask);
    add("approve", &layer.approve);
    if lines.is_empty() {
        lines.push("-".to_owned());
    }
    format!(
        "{} ({})\n{}",
        layer.layer,
        write_out_line(&layer.source),
        indented(&lines.join("\n"))
    )
}

fn dash() -> String {
    "-".to_owned()
}
