//! Agents, skills, models, and what they may do.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Map, Value};
use sortie_protocol::{
    Agent, ExplainBody, Explained, LayerOpinion, ModelChoices, ModelState, Skill,
};
use sortie_runtime::{NewRun, PolicySubject, View};
use utoipa::IntoParams;

use crate::app::Shared;
use crate::body::{JsonBody, PathParams, QueryParams};
use crate::guard::Caller;
use crate::problem::Problem;
use crate::routes::tasks::refused;

#[utoipa::path(get, path = "/api/agents", tag = "catalogue",
    responses((status = 200, body = Vec<Agent>)))]
/// Returns the agents, the main agent first.
pub(crate) async fn agents(State(Shared(app)): State<Shared>) -> Json<Vec<Agent>> {
    let agents = app.runtime.agents();
    let main = std::iter::once(Agent::of(agents.main(), true));
    let others = agents
        .children()
        .iter()
        .map(|agent| Agent::of(agent, false));
    Json(main.chain(others).collect())
}

#[utoipa::path(get, path = "/api/agents/{name}", tag = "catalogue",
    params(("name" = String, Path)), responses((status = 200, body = Agent)))]
/// Returns one agent.
pub(crate) async fn agent(
    State(Shared(app)): State<Shared>,
    PathParams(name): PathParams<String>,
) -> Result<Json<Agent>, Problem> {
    let agents = app.runtime.agents();
    let agent = agents.find(&name).ok_or_else(|| {
        Problem::not_found(format!(
            "there is no agent {name:?}; the agents are {}",
            agents.names()
        ))
    })?;
    let is_main = agent.name == agents.main().name;
    Ok(Json(Agent::of(agent, is_main)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FolderQuery {
    /// The folder; the default workspace if missing.
    #[param(min_length = 1)]
    workspace: Option<String>,
}

#[utoipa::path(get, path = "/api/skills", tag = "catalogue", params(FolderQuery),
    responses((status = 200, body = Vec<Skill>)))]
/// Returns the skills that runs in a folder can load.
pub(crate) async fn skills(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    QueryParams(place): QueryParams<FolderQuery>,
) -> Result<Json<Vec<Skill>>, Problem> {
    let workspace = app.workspace(&caller, place.workspace.as_deref())?;
    let skills = app.host.skills(&workspace).await?;
    Ok(Json(skills.iter().map(Skill::from).collect()))
}

#[utoipa::path(get, path = "/api/models", tag = "catalogue",
    responses((status = 200, body = Vec<ModelState>)))]
/// Returns the load of the models that were prompted so far. Empty for keys of a tenant, because
/// tenants share the models.
pub(crate) async fn models(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Json<Vec<ModelState>> {
    if caller.tenant().is_some() {
        return Json(Vec::new());
    }
    let states = app.runtime.models_state();
    Json(states.into_iter().map(ModelState::from).collect())
}

#[utoipa::path(get, path = "/api/models/choices", tag = "catalogue",
    responses((status = 200, body = ModelChoices)))]
/// Returns the models that a task can name, and the one of tasks that name none.
pub(crate) async fn choices(
    State(Shared(app)): State<Shared>,
) -> Result<Json<ModelChoices>, Problem> {
    let default = Some(app.config.default_model.clone()).filter(|name| !name.is_empty());
    let mut models = app.host.models().await?;
    if let Some(default) = &default {
        models.retain(|model| model != default);
        models.insert(0, default.clone());
    }
    Ok(Json(ModelChoices { default, models }))
}

#[utoipa::path(post, path = "/api/policy/explain", tag = "catalogue", request_body = ExplainBody,
    responses((status = 200, body = Explained)))]
/// Evaluates a call against the policy without running it: the decision, and the opinion of every
/// layer.
pub(crate) async fn explain(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    JsonBody(body): JsonBody<ExplainBody>,
) -> Result<Json<Explained>, Problem> {
    let workspace = app.workspace(&caller, body.workspace.as_deref())?;
    let new = NewRun {
        tenant: caller.tenant().cloned(),
        mode: body.mode.unwrap_or(app.config.default_mode),
        ..NewRun::in_checked_folder("explain", workspace, &app.config.default_model)
    };
    let name = match body.agent {
        Some(name) => name,
        None => app.runtime.agents().main().name.clone(),
    };
    let arguments = body.arguments.unwrap_or(Value::Object(Map::new()));
    let whose = PolicySubject::Agent {
        name,
        new: Box::new(new),
    };
    let explained = app
        .runtime
        .explain(whose, &body.tool, &arguments)
        .await
        .map_err(refused)?;
    let ruling = explained.explanation.ruling;
    let layers = explained.explanation.layers.iter();
    Ok(Json(Explained {
        decision: ruling.decision,
        layer: ruling.layer,
        rule: ruling.rule,
        why: ruling.why,
        layers: layers.flat_map(opinions).collect(),
    }))
}

fn opinions(view: &sortie_runtime::LayerView) -> Vec<LayerOpinion> {
    let line = |opinion: &str, rule: Option<String>| LayerOpinion {
        layer: view.layer,
        source: view.source.clone(),
        opinion: opinion.to_owned(),
        why: match &rule {
            Some(rule) => format!("{} {opinion} this: {rule}", view.source),
            None => format!("{} {opinion} this", view.source),
        },
        rule,
    };
    if view.opinions.is_empty() {
        return vec![LayerOpinion {
            why: format!("{} has no rule about this", view.source),
            ..line("nothing", None)
        }];
    }
    view.opinions
        .iter()
        .map(|opinion| {
            let word = match opinion.view {
                View::Denies => "denies",
                View::Lifts => "lifts",
                View::LeavesOut => "leaves_out",
                View::Allows => "allows",
                View::Asks => "asks",
                View::Approves => "approves",
            };
            line(word, opinion.rule.clone())
        })
        .collect()
}
