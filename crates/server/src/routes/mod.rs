//! The routes, one file for each family. A handler reads the request, calls one function of the
//! runtime and converts the result.
#![expect(
    unused_qualifications,
    reason = "the macro that documents a path writes them"
)]

mod audit;
mod catalogue;
mod diagnosis;
mod events;
mod hooks;
mod keys;
mod live;
pub(crate) mod login;
pub(crate) mod page;
mod requests;
mod sessions;
pub(crate) mod sse;
mod table;
mod task;
pub(crate) mod tasks;
mod usage;
mod views;
mod ws;

use axum::Router;
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use table::{Access, AccessTable, Routes};

use crate::app::Shared;
use crate::guard::{LOGIN, PROOF, STYLE};
use crate::openapi;

/// All routes of the API, each with the access that it needs.
pub(crate) fn all() -> Routes {
    Routes::new(OpenApiRouter::with_openapi(openapi::outline()))
        .add(Access::VIEWER, routes!(diagnosis::healthz))
        .add(Access::VIEWER, routes!(diagnosis::readyz))
        .add(Access::VIEWER, routes!(diagnosis::metrics))
        .add(Access::VIEWER, routes!(diagnosis::openapi))
        .add(Access::VIEWER, routes!(diagnosis::state))
        .add(Access::VIEWER, routes!(diagnosis::workers))
        .add(Access::ADMIN, routes!(diagnosis::config))
        .add(Access::ADMIN, routes!(diagnosis::doctor))
        .add(Access::VIEWER, routes!(tasks::list))
        .add(Access::CREATES_RUN, routes!(tasks::create))
        .add(Access::VIEWER, routes!(tasks::stats))
        .add(Access::ADMIN, routes!(tasks::clean))
        .add(Access::VIEWER, routes!(task::get))
        .add(Access::OPERATOR, routes!(task::patch, task::delete))
        .add(Access::OPERATOR, routes!(task::cancel))
        .add(Access::CREATES_RUN, routes!(task::retry))
        .add(Access::CREATES_RUN, routes!(task::fork))
        .add(Access::OPERATOR, routes!(task::pause))
        .add(Access::OPERATOR, routes!(task::resume))
        .add(Access::OPERATOR, routes!(task::steer))
        .add(Access::OPERATOR, routes!(task::answer))
        .add(Access::OPERATOR, routes!(task::apply))
        .add(Access::OPERATOR, routes!(task::discard))
        .add(Access::OPERATOR, routes!(task::delivery))
        .add(Access::VIEWER, routes!(views::diff))
        .add(Access::VIEWER, routes!(views::result))
        .add(Access::VIEWER, routes!(views::transcript))
        .add(Access::VIEWER, routes!(views::tree))
        .add(Access::VIEWER, routes!(views::timeline))
        .add(Access::VIEWER, routes!(views::report))
        .add(Access::VIEWER, routes!(views::policy))
        .add(Access::VIEWER, routes!(views::audit))
        .add(Access::VIEWER, routes!(views::blob))
        .add(Access::VIEWER, routes!(events::of_task))
        .add(Access::VIEWER, routes!(sessions::list))
        .add(Access::VIEWER, routes!(sessions::get))
        .add(Access::OPERATOR, routes!(sessions::message))
        .add(Access::VIEWER, routes!(sessions::grants))
        .add(Access::ADMIN, routes!(sessions::revoke))
        .add(Access::VIEWER, routes!(catalogue::agents))
        .add(Access::VIEWER, routes!(catalogue::agent))
        .add(Access::VIEWER, routes!(catalogue::skills))
        .add(Access::VIEWER, routes!(catalogue::models))
        .add(Access::VIEWER, routes!(catalogue::choices))
        .add(Access::VIEWER, routes!(catalogue::explain))
        .add(Access::VIEWER, routes!(requests::approvals))
        .add(Access::VIEWER, routes!(requests::approval))
        .add(Access::OPERATOR, routes!(requests::approve))
        .add(Access::VIEWER, routes!(requests::questions))
        .add(Access::VIEWER, routes!(requests::question))
        .add(Access::OPERATOR, routes!(requests::answer))
        .add(Access::VIEWER, routes!(usage::budgets))
        .add(Access::VIEWER, routes!(usage::usage))
        .add(Access::VIEWER, routes!(usage::tenants))
        .add(Access::VIEWER, routes!(usage::export))
        .add(Access::VIEWER, routes!(usage::series))
        .add(Access::VIEWER, routes!(audit::list))
        .add(Access::ADMIN, routes!(audit::verify))
        .add(Access::ADMIN, routes!(hooks::list))
        .add(Access::ADMIN, routes!(hooks::dead, hooks::unblock))
        .add(Access::ADMIN, routes!(keys::list, keys::create))
        .add(Access::ADMIN, routes!(keys::revoke))
        .add(Access::ADMIN, routes!(keys::rotate))
        .add(Access::ADMIN, routes!(keys::link))
        .add(Access::VIEWER, routes!(keys::me))
        .add(Access::VIEWER, routes!(keys::logout))
        .add(Access::VIEWER, routes!(live::events))
        .add(Access::VIEWER, routes!(ws::connect))
}

/// The routes for browsers: they answer without credentials and are not in the document.
pub(crate) fn outside_the_document() -> Router<Shared> {
    Router::new()
        .route(LOGIN, get(login::form).post(login::submit))
        .route(STYLE, get(login::style))
        .route(PROOF, get(login::proof))
}
