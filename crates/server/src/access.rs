//! Authorisation inside a route: which tenant a caller sees, in which folders its runs may work, and
//! which runs it may drive. The role that a route needs is declared in `routes`.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use sortie_core::{
    ListFilter, MIN_PREFIX_CHARS, Mode, ModelChoice, OpenRequest, RunId, RunRecord, RunSpec,
    SessionKey, StoreError, Tenant,
};
use sortie_protocol::Role;

use crate::app::App;
use crate::guard::Caller;
use crate::problem::{Kind, Problem};

/// Tasks that fit a prefix and are counted; more than one is too many in any case.
const MAX_FITTING: u32 = 100;
/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 32;

/// Whether a path belongs to the API and not to the page.
pub(crate) fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

impl App {
    /// The task that a caller means: by its whole id, or by a beginning that fits only one.
    pub(crate) async fn task(&self, caller: &Caller, id: &str) -> Result<RunRecord, Problem> {
        let run = match id.parse::<RunId>() {
            Ok(run) => run,
            Err(_) => self.by_prefix(caller, id).await?,
        };
        let record = match self.runtime.get(run).await {
            Ok(record) if caller.sees(record.tenant.as_ref()) => record,
            // Not a word about things of others, not even that they are there.
            Ok(_) => return Err(no_task(id)),
            Err(sortie_runtime::RuntimeError::Store(StoreError::NotFound(_))) => {
                return Err(no_task(id));
            }
            Err(error) => return Err(error.into()),
        };
        Ok(record)
    }

    async fn by_prefix(&self, caller: &Caller, prefix: &str) -> Result<RunId, Problem> {
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
        // Newest first, so those that fit are the first ones.
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

    /// The request that a caller means.
    pub(crate) async fn request(&self, caller: &Caller, id: &str) -> Result<OpenRequest, Problem> {
        let missing = || Problem::not_found(format!("nobody asks {id:?}; look in /api/approvals"));
        match self.runtime.find_request(id).await {
            Ok(request) if caller.sees(request.tenant.as_ref()) => Ok(request),
            Ok(_)
            | Err(sortie_runtime::RuntimeError::Store(
                StoreError::NotFound(_) | StoreError::Ambiguous { .. },
            )) => Err(missing()),
            Err(error) => Err(error.into()),
        }
    }

    /// The folder that a caller's run works in.
    pub(crate) fn workspace(
        &self,
        caller: &Caller,
        wanted: Option<&str>,
    ) -> Result<PathBuf, Problem> {
        let roots = self.roots(caller.tenant())?;
        let Some(wanted) = wanted else {
            return roots.into_iter().next().ok_or_else(|| {
                Problem::bad("no folder is set in [server] workspaces; name one in `workspace`")
            });
        };
        let wanted = Path::new(wanted);
        if !wanted.is_absolute() {
            return Err(Problem::bad("`workspace` has to be an absolute path"));
        }
        // The same words for a folder that is not there, or nobody could be kept from looking around.
        let outside = || {
            Problem::forbidden("this key may not work there; [server] workspaces says where it may")
        };
        let real = match wanted.canonicalize() {
            Ok(real) if real.is_dir() => real,
            Ok(_) | Err(_) if caller.rules_all() => {
                return Err(Problem::bad("`workspace` is no folder that can be opened"));
            }
            Ok(_) | Err(_) => return Err(outside()),
        };
        let inside = roots.iter().any(|root| real.starts_with(root));
        if inside || caller.rules_all() {
            Ok(real)
        } else {
            Err(outside())
        }
    }

    /// The folders that somebody may work in, as they really are.
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

    /// How calls that change something are treated in a caller's run.
    pub(crate) fn mode(&self, caller: &Caller, wanted: Option<Mode>) -> Result<Mode, Problem> {
        let free = caller.role() == Role::Admin;
        match wanted {
            None if free => Ok(self.config.default_mode),
            None => Ok(self.config.default_mode.within(Mode::Default)),
            Some(mode) if free || mode <= Mode::Default => Ok(mode),
            Some(mode) => Err(Problem::forbidden(format!(
                "only an admin may let runs be so free ({mode}); use default, plan or dont-ask"
            ))),
        }
    }

    /// Whether a caller may say what becomes of a run: only of one that it could have made itself, or
    /// it would borrow the rights of whoever made it. What a tree may do is said at its root.
    pub(crate) async fn may_drive(
        &self,
        caller: &Caller,
        record: &RunRecord,
    ) -> Result<(), Problem> {
        if caller.rules_all() {
            return Ok(());
        }
        self.could_make(caller, &self.runtime.spec(record.root).await?)
    }

    /// The task that a caller means and may drive.
    pub(crate) async fn driven(&self, caller: &Caller, id: &str) -> Result<RunId, Problem> {
        let record = self.task(caller, id).await?;
        self.may_drive(caller, &record).await?;
        Ok(record.run_id)
    }

    /// Whether a caller may reply to what a run asks: a reply drives it too.
    pub(crate) async fn may_reply(
        &self,
        caller: &Caller,
        request: &OpenRequest,
    ) -> Result<(), Problem> {
        let record = self.runtime.get(request.task_id).await?;
        self.may_drive(caller, &record).await
    }

    /// Whether a caller could have made a run of its own like this one.
    pub(crate) fn could_make(&self, caller: &Caller, spec: &RunSpec) -> Result<(), Problem> {
        let may = self.mode(caller, Some(spec.policy.mode));
        let problem = match may.and_then(|_| self.could_begin(caller, spec)) {
            Err(problem) if problem.kind() == Kind::Forbidden => problem,
            other => return other,
        };
        Err(Problem::forbidden(format!(
            "that task has rights which this key has not, so it is for an admin; make one of your own \
             ({})",
            problem.detail()
        )))
    }

    /// The same, whatever its mode.
    pub(crate) fn could_begin(&self, caller: &Caller, spec: &RunSpec) -> Result<(), Problem> {
        if caller.rules_all() {
            return Ok(());
        }
        // An agent's own model is the choice of whoever set up the server.
        if spec.agent.model != ModelChoice::Named(spec.model.clone()) {
            self.check_model(caller, Some(&spec.model))?;
        }
        for model in &spec.fallbacks {
            self.check_model(caller, Some(model))?;
        }
        self.workspace(caller, Some(&spec.workspace.display().to_string()))?;
        if !spec.report_to.is_empty() {
            return Err(Problem::forbidden(
                "the task reports to places outside; only an admin without a tenant may do that",
            ));
        }
        Ok(())
    }

    /// Whether a caller may name this model: some kinds of models read files of this machine.
    pub(crate) fn check_model(&self, caller: &Caller, model: Option<&str>) -> Result<(), Problem> {
        let Some(model) = model else {
            return Ok(());
        };
        let is_local = sortie_runtime::MODELS_IN_FILES
            .iter()
            .any(|kind| model.starts_with(kind));
        if is_local && !caller.rules_all() && model != self.config.default_model {
            return Err(Problem::forbidden(
                "only an admin may name a model that is a file of this machine",
            ));
        }
        Ok(())
    }
}

/// Reads `channel:chat_id`; a caller who names none has a session of its own.
pub(crate) fn session(caller: &Caller, wanted: Option<&str>) -> Result<SessionKey, Problem> {
    /// Longer keys are no names any more.
    const MAX_SESSION_CHARS: usize = 200;
    let text = match wanted {
        Some(text) => text.to_owned(),
        None => format!("api:{}", caller.key()),
    };
    if text.chars().count() > MAX_SESSION_CHARS || text.chars().any(char::is_control) {
        return Err(Problem::bad(format!(
            "a session is called by at most {MAX_SESSION_CHARS} characters, none of them a control \
             character"
        )));
    }
    text.parse()
        .map_err(|error: sortie_core::BadSessionKey| Problem::bad(error.to_string()))
}

/// The first id that begins with these digits, and the first beyond those that do, if there is one.
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
        format!("there is no task {id:?}; look in GET /api/tasks"),
    )
}

/// Folders as they really are; those that are not there are left out.
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
    fn a_prefix_is_all_ids_that_begin_with_it() {
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
