//! The routes, one file for each family. A handler reads, calls one function of the runtime, converts.
#![expect(
    unused_qualifications,
    reason = "the macro that documents a path writes them"
)]

mod audit;
mod catalogue;
mod diagnosis;
mod events;
mod keys;
mod live;
pub(crate) mod login;
pub(crate) mod page;
mod requests;
mod sessions;
pub(crate) mod sse;
mod task;
pub(crate) mod tasks;
mod usage;
mod views;
mod ws;

use axum::Router;
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;
use crate::guard::{LOGIN, PROOF};

/// The routes that the document tells of.
pub(crate) fn documented(router: OpenApiRouter<Shared>) -> OpenApiRouter<Shared> {
    router
        .routes(routes!(diagnosis::healthz))
        .routes(routes!(diagnosis::readyz))
        .routes(routes!(diagnosis::metrics))
        .routes(routes!(diagnosis::openapi))
        .routes(routes!(diagnosis::state))
        .routes(routes!(diagnosis::config))
        .routes(routes!(diagnosis::doctor))
        .routes(routes!(tasks::list, tasks::create))
        .routes(routes!(tasks::stats))
        .routes(routes!(task::get, task::patch, task::delete))
        .routes(routes!(task::cancel))
        .routes(routes!(task::retry))
        .routes(routes!(task::fork))
        .routes(routes!(task::pause))
        .routes(routes!(task::resume))
        .routes(routes!(task::steer))
        .routes(routes!(task::answer))
        .routes(routes!(task::apply))
        .routes(routes!(task::discard))
        .routes(routes!(task::delivery))
        .routes(routes!(views::diff))
        .routes(routes!(views::result))
        .routes(routes!(views::transcript))
        .routes(routes!(views::tree))
        .routes(routes!(views::timeline))
        .routes(routes!(views::policy))
        .routes(routes!(views::audit))
        .routes(routes!(views::blob))
        .routes(routes!(events::of_task))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::get))
        .routes(routes!(sessions::message))
        .routes(routes!(sessions::grants, sessions::revoke))
        .routes(routes!(catalogue::agents))
        .routes(routes!(catalogue::agent))
        .routes(routes!(catalogue::skills))
        .routes(routes!(catalogue::models))
        .routes(routes!(catalogue::explain))
        .routes(routes!(requests::approvals))
        .routes(routes!(requests::approval, requests::approve))
        .routes(routes!(requests::questions))
        .routes(routes!(requests::question, requests::answer))
        .routes(routes!(usage::budgets))
        .routes(routes!(usage::usage))
        .routes(routes!(usage::series))
        .routes(routes!(audit::list))
        .routes(routes!(audit::verify))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(keys::rotate))
        .routes(routes!(keys::link))
        .routes(routes!(keys::me))
        .routes(routes!(keys::logout))
        .routes(routes!(live::events))
        .routes(routes!(ws::connect))
}

/// The few that are for browsers and not for clients.
pub(crate) fn outside_the_document() -> Router<Shared> {
    Router::new()
        .route(LOGIN, get(login::form).post(login::submit))
        .route(PROOF, get(login::proof))
}
