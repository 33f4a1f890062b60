//! Authorisation inside a route: which tenant a caller sees, in which folders its runs may work, and
//! which runs it may drive. The role that a route needs is declared in `routes`.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use sortie_core::agent::ModelChoice;
use sortie_core::id::{MIN_PREFIX_CHARS, RunId, SessionKey, as_handle};
use sortie_core::policy::Mode;
use sortie_core::ports::store::{ListFilter, StoreError};
use sortie_core::request::OpenRequest;
use sortie_core::run::{RunRecord, RunSpec};
use sortie_core::tenant::Tenant;
use sortie_protocol::Role;

use crate::app::App;
use crate::guard::Caller;
use crate::problem::{Kind, Problem};

/// The limit of tasks that are counted for an ambiguous prefix.
const MAX_FITTING: u32 = 100;
/// The hexadecimal digits of an id.
const ID_DIGITS: usize = 32;

/// Returns whether a path belongs to the API, not to the page.
pub(crate) fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

impl App {
    /// Returns the task with this id or handle, or with an id that starts with this prefix.
    pub(crate) async fn task(&self, caller: &Caller, id: &str) -> Result<RunRecord, Problem> {
        let run = match id.parse::<RunId>() {
            Ok(run) => run,
            Err(_) => self.by_prefix(caller, id).await?,
        };
        let record = match self.runtime.get(run).await {
            Ok(record) if caller.sees(record.tenant.as_ref()) => record,
            // Must not reveal that another tenant has such a task.
            Ok(_) => return Err(no_task(id)),
            Err(sortie_runtime::RuntimeError::Store(StoreError::NotFound(_))) => {
                return Err(no_task(id));
            }
            Err(error) => return Err(error.into()),
        };
        Ok(record)
    }

    async fn by_prefix(&self, caller: &Caller, prefix: &str) -> Result<RunId, Problem> {
        if as_handle(prefix).is_some() {
            return match self.runtime.resolve(prefix).await {
                Err(sortie_runtime::RuntimeError::Store(StoreError::NotFound(_))) => {
                    Err(no_task(prefix))
                }
                found => Ok(found?),
            };
        }
        let is_prefix = prefix.len() >= MIN_PREFIX_CHARS
            && prefix
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if !is_prefix {
            return Err(no_task(prefix));
        }
        let prefix = prefix.to_ascii_lowercase();
        let Some(tenant) = caller.tenant() else {
            return match self.runtime.resolve(&prefix).await {
                Err(sortie_runtime::RuntimeError::Store(StoreError::NotFound(_))) => {
                    Err(no_task(&prefix))
                }
                found => Ok(found?),
            };
        };
        let Some((first, beyond)) = range(&prefix) else {
            return Err(no_task(&prefix));
        };
        let records = self
            .runtime
            .list(ListFilter {
                tenant: Some(tenant.clone()),
                before: beyond,
                archived: true,
                limit: MAX_FITTING,
                ..ListFilter::default()
            })
            .await?;
        // Newest first, so the matches come first.
        let mut fitting = records
            .iter()
            .map(|record| record.run_id)
            .take_while(|run| *run >= first);
        match (fitting.next(), fitting.count()) {
            (None, _) => Err(no_task(&prefix)),
            (Some(run), 0) => Ok(run),
            (Some(_), more) => Err(Problem::from(StoreError::Ambiguous {
                prefix,
                count: more + 1,
            })),
        }
    }

    /// Returns the request with this id.
    pub(crate) async fn request(&self, caller: &Caller, id: &str) -> Result<OpenRequest, Problem> {
        let missing = || {
            Problem::not_found(format!(
                "there is no request {id:?}; GET /api/approvals lists them"
            ))
        };
        match self.runtime.find_request(id).await {
            Ok(request) if caller.sees(request.tenant.as_ref()) => Ok(request),
            Ok(_)
            | Err(sortie_runtime::RuntimeError::Store(
                StoreError::NotFound(_) | StoreError::Ambiguous { .. },
            )) => Err(missing()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the workspace of a caller's run.
    pub(crate) fn workspace(
        &self,
        caller: &Caller,
        wanted: Option<&str>,
    ) -> Result<PathBuf, Problem> {
        let roots = self.roots(caller.tenant())?;
        let Some(wanted) = wanted else {
            return roots.into_iter().next().ok_or_else(|| {
                Problem::bad("[server] workspaces is empty; name a folder in `workspace`")
            });
        };
        let wanted = Path::new(wanted);
        if !wanted.is_absolute() {
            return Err(Problem::bad("`workspace` must be an absolute path"));
        }
        // The same error for a missing folder, or a caller could probe the file system.
        let outside = || {
            Problem::forbidden(
                "this key may not work in that folder; [server] workspaces lists the allowed ones",
            )
        };
        let real = match wanted.canonicalize() {
            Ok(real) if real.is_dir() => real,
            Ok(_) | Err(_) if caller.is_global_admin() => {
                return Err(Problem::bad(
                    "`workspace` is not a folder that can be opened",
                ));
            }
            Ok(_) | Err(_) => return Err(outside()),
        };
        let inside = roots.iter().any(|root| real.starts_with(root));
        if inside || caller.is_global_admin() {
            Ok(real)
        } else {
            Err(outside())
        }
    }

    /// Returns the folders in which a tenant may work, resolved.
    fn roots(&self, tenant: Option<&Tenant>) -> Result<Vec<PathBuf>, Problem> {
        let Some(tenant) = tenant else {
            return Ok(real(&self.config.workspaces));
        };
        let set = self.config.tenants.get(tenant);
        if let Some(set) = set.filter(|set| !set.workspaces.is_empty()) {
            return Ok(real(&set.workspaces));
        }
        let own = self.config.home.join("tenants").join(tenant.as_str());
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&own)
            .map_err(|error| crate::problem::internal(&error))?;
        Ok(real(&[own]))
    }

    /// Returns the mode of a caller's run.
    pub(crate) fn mode(&self, caller: &Caller, wanted: Option<Mode>) -> Result<Mode, Problem> {
        let free = caller.role() == Role::Admin;
        match wanted {
            None if free => Ok(self.config.default_mode),
            None => Ok(self.config.default_mode.within(Mode::Default)),
            Some(mode) if free || mode <= Mode::Default => Ok(mode),
            Some(mode) => Err(Problem::forbidden(format!(
                "the mode {mode} is for admins; use default, plan or dont-ask"
            ))),
        }
    }

    /// Checks whether a caller may control a run: only one that it could have created itself, or it
    /// would use the rights of the creator. The root of a tree determines its rights.
    pub(crate) async fn check_control(
        &self,
        caller: &Caller,
        record: &RunRecord,
    ) -> Result<(), Problem> {
        if caller.is_global_admin() {
            return Ok(());
        }
        self.check_creatable(caller, &self.runtime.spec(record.root).await?)
    }

    /// Returns the task with this id, if the caller may control it.
    pub(crate) async fn controlled(&self, caller: &Caller, id: &str) -> Result<RunId, Problem> {
        let record = self.task(caller, id).await?;
        self.check_control(caller, &record).await?;
        Ok(record.run_id)
    }

    /// Checks whether a caller may reply to a request: a reply controls the run too.
    pub(crate) async fn check_reply(
        &self,
        caller: &Caller,
        request: &OpenRequest,
    ) -> Result<(), Problem> {
        let record = self.runtime.get(request.task_id).await?;
        self.check_control(caller, &record).await
    }

    /// Checks whether a caller could have created this run.
    pub(crate) fn check_creatable(&self, caller: &Caller, spec: &RunSpec) -> Result<(), Problem> {
        let may = self.mode(caller, Some(spec.policy.mode));
        let problem = match may.and_then(|_| self.check_creatable_in_any_mode(caller, spec)) {
            Err(problem) if problem.kind() == Kind::Forbidden => problem,
            other => return other,
        };
        Err(Problem::forbidden(format!(
            "the task has rights that this key does not have, so only an admin may control it; create \
             one of your own ({})",
            problem.detail()
        )))
    }

    /// Like [`Self::check_creatable`], whatever the mode.
    pub(crate) fn check_creatable_in_any_mode(
        &self,
        caller: &Caller,
        spec: &RunSpec,
    ) -> Result<(), Problem> {
        if caller.is_global_admin() {
            return Ok(());
        }
        // The operator of the server chose the model of an agent.
        if spec.agent.model != ModelChoice::Named(spec.model.clone()) {
            self.check_model(caller, Some(&spec.model))?;
        }
        for model in &spec.fallbacks {
            self.check_model(caller, Some(model))?;
        }
        self.workspace(caller, Some(&spec.workspace.display().to_string()))?;
        if !spec.report_to.is_empty() {
            return Err(Problem::forbidden(
                "the task delivers to external destinations; only an admin without a tenant may do that",
            ));
        }
        Ok(())
    }

    /// Checks whether a caller may name this model: some kinds of models read files of this machine.
    pub(crate) fn check_model(&self, caller: &Caller, model: Option<&str>) -> Result<(), Problem> {
        let Some(model) = model else {
            return Ok(());
        };
        let is_local = sortie_runtime::MODELS_IN_FILES
            .iter()
            .any(|kind| model.starts_with(kind));
        if is_local && !caller.is_global_admin() && model != self.config.default_model {
            return Err(Problem::forbidden(
                "only an admin may name a model that is a file on this machine",
            ));
        }
        Ok(())
    }
}

/// Parses `channel:chat_id`, or an id of the channel `api`; without one, the caller has a session of
/// its own.
pub(crate) fn session(caller: &Caller, wanted: Option<&str>) -> Result<SessionKey, Problem> {
    /// The longest session key.
    const MAX_SESSION_CHARS: usize = 200;
    let text = match wanted {
        Some(text) => text.to_owned(),
        None => format!("api:{}", caller.key()),
    };
    if text.chars().count() > MAX_SESSION_CHARS || text.chars().any(char::is_control) {
        return Err(Problem::bad(format!(
            "a session key must have at most {MAX_SESSION_CHARS} characters and no control characters"
        )));
    }
    text.parse()
        .map_err(|error: sortie_core::id::BadSessionKey| Problem::bad(error.to_string()))
}

/// Returns the first id with these digits, and the first id after those that have them.
fn range(prefix: &str) -> Option<(RunId, Option<RunId>)> {
    let digits: String = prefix.chars().filter(|digit| *digit != '-').collect();
    if digits.is_empty() || digits.len() >= ID_DIGITS {
        return None;
    }
    let number = u128::from_str_radix(&digits, 16).ok()?;
    let unit = 1_u128 << (4 * (ID_DIGITS - digits.len()));
    let id = |number: u128| format!("{number:032x}").parse::<RunId>().ok();
    let beyond = (number + 1).checked_mul(unit);
    Some((id(number * unit)?, beyond.and_then(id)))
}

pub(crate) fn no_task(id: &str) -> Problem {
    Problem::new(
        Kind::NotFound,
        format!("there is no task {id:?}; GET /api/tasks lists them"),
    )
}

/// Resolves folders; those that do not exist are left out.
fn real(folders: &[PathBuf]) -> Vec<PathBuf> {
    folders
        .iter()
        .filter_map(|folder| folder.canonicalize().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_becomes_a_range_of_ids() {
        let id = |text: &str| text.parse::<RunId>().unwrap();
        let check = |prefix: &str, first: &str, beyond: Option<&str>| {
            assert_eq!(range(prefix), Some((id(first), beyond.map(id))), "{prefix}");
        };
        check(
            "0199c3ff",
            "0199c3ff-0000-0000-0000-000000000000",
            Some("0199c400-0000-0000-0000-000000000000"),
        );
        check(
            "0199c3f1-ab12-7000-8000-00000000000",
            "0199c3f1-ab12-7000-8000-000000000000",
            Some("0199c3f1-ab12-7000-8000-000000000010"),
        );
        check("ffffffff", "ffffffff-0000-0000-0000-000000000000", None);
        for prefix in ["", "----------", "0199c3f1ab127000800000000000000001"] {
            assert_eq!(range(prefix), None, "{prefix}");
        }
    }
}
