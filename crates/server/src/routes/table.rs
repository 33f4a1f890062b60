//! The table of routes: each route is added together with the access that it needs.

use std::collections::HashMap;

use axum::http::Method;
use sortie_protocol::Role;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::app::Shared;

/// What a route needs. The guard puts it into the extensions of every request that it admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// The lowest role that may use the route.
    pub(crate) role: Role,
    /// Whether the route creates a run under the id that is reserved for the request, so that a retry
    /// with the same idempotency key finds the run of the first attempt.
    pub(crate) creates_run: bool,
}

impl Access {
    pub(crate) const VIEWER: Self = Self::of(Role::Viewer);
    pub(super) const OPERATOR: Self = Self::of(Role::Operator);
    pub(super) const ADMIN: Self = Self::of(Role::Admin);
    /// An operator's route that creates a run.
    pub(super) const CREATES_RUN: Self = Self {
        role: Role::Operator,
        creates_run: true,
    };

    const fn of(role: Role) -> Self {
        Self {
            role,
            creates_run: false,
        }
    }
}

/// The access that each method of each path needs.
#[derive(Debug, Default)]
pub(crate) struct AccessTable(HashMap<(Method, String), Access>);

impl AccessTable {
    /// Returns the access that a route needs. A route that was added without a declaration is for
    /// admins only.
    pub(crate) fn needed(&self, method: &Method, path: &str) -> Access {
        // The router answers HEAD by the handler of GET.
        let method = match *method {
            Method::HEAD => Method::GET,
            _ => method.clone(),
        };
        let declared = self.0.get(&(method, path.to_owned()));
        declared.copied().unwrap_or(Access::ADMIN)
    }
}

/// The routes, the OpenAPI document that describes them, and the access that they need.
pub(crate) struct Routes {
    pub(crate) router: OpenApiRouter<Shared>,
    pub(crate) access: AccessTable,
}

impl Routes {
    pub(super) fn new(router: OpenApiRouter<Shared>) -> Self {
        Self {
            router,
            access: AccessTable::default(),
        }
    }

    /// Adds handlers that all need the same access.
    pub(super) fn add(mut self, access: Access, handlers: UtoipaMethodRouter<Shared>) -> Self {
        for (path, item) in &handlers.1.paths {
            let methods = [
                (Method::GET, &item.get),
                (Method::PUT, &item.put),
                (Method::POST, &item.post),
                (Method::PATCH, &item.patch),
                (Method::DELETE, &item.delete),
            ];
            for (method, operation) in methods {
                if operation.is_some() {
                    self.access.0.insert((method, path.clone()), access);
                }
            }
        }
        self.router = self.router.routes(handlers);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_is_found_by_method_and_path_and_missing_access_is_for_admins() {
        let table = crate::routes::all().access;
        let check = |method: Method, path: &str, access: Access| {
            assert_eq!(table.needed(&method, path), access, "{method} {path}");
        };
        check(Method::GET, "/api/tasks", Access::VIEWER);
        check(Method::HEAD, "/api/tasks", Access::VIEWER);
        check(Method::POST, "/api/tasks", Access::CREATES_RUN);
        check(Method::DELETE, "/api/tasks/{id}", Access::OPERATOR);
        check(Method::POST, "/api/tasks/{id}/fork", Access::CREATES_RUN);
        check(Method::GET, "/api/sessions/{id}/grants", Access::VIEWER);
        check(Method::DELETE, "/api/sessions/{id}/grants", Access::ADMIN);
        check(Method::POST, "/api/policy/explain", Access::VIEWER);
        check(Method::PUT, "/api/tasks", Access::ADMIN);
        check(Method::GET, "/api/added-without-access", Access::ADMIN);
    }
}
