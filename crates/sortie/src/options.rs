//! What a caller hands over: folders, configuration, environment.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use sortie_base::{private_files, regular_file};
use sortie_config::{Config, Secret, TrustStore};
use sortie_core::ports::store::{LeaveControl, LeftControl, Replied, StoreError, StoreResult};
use sortie_core::request::{Reply, RequestId};
use sortie_core::time::{Clock as _, Timestamp};
use sortie_core::words::Lang;
use sortie_models::Directory;
use sortie_runtime::ProcessClock;
use sortie_sandbox::{Offer, Places, probe};
use sortie_store::{CopyProgress, CopyReport, DurableStore, Fold, Owner, ReadStore};
#[cfg(feature = "postgres")]
use sortie_store::{CopyStores, CopyTo, Target};

use crate::{Environment, settings};

/// The file in the configuration folder that lists trusted folders.
pub const TRUST_FILE: &str = "trust.json";
/// More than any password.
const MAX_PASSWORD_BYTES: u64 = 64 * 1024;

/// What a caller hands over: folders, configuration, environment.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of the store. One process at a time can run tasks in it.
    pub home: PathBuf,
    /// The folder in which tasks work, unless their request names another. Relative paths in the
    /// configuration begin here; agents, skills and `.mcp.json` are looked for here.
    pub workspace: PathBuf,
    /// The operator's configuration: what `sortie.toml` can set.
    pub config: Config,
    /// The environment: keys of providers, `PATH`, `HOME`.
    pub environment: Environment,
    /// The user's configuration folder. No agent can see it; [`TRUST_FILE`] in it lists the folders
    /// whose files may do more than narrow.
    pub config_folder: Option<PathBuf>,
    /// The language of messages and of built-in prompts.
    pub lang: Lang,
    /// The name of this program for other processes that find the store in use.
    pub command: String,
    /// The name of this machine, in the list of workers.
    pub host: String,
    /// Proof that the program's binary serves as the helper of sandboxed commands; see
    /// [`sandbox_helper`]. Without it no command runs in a sandbox.
    pub helper: Option<SandboxHelper>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            home: PathBuf::new(),
            workspace: PathBuf::new(),
            config: Config::default(),
            environment: Environment::default(),
            config_folder: None,
            lang: Lang::En,
            command: "sortie".to_owned(),
            host: "localhost".to_owned(),
            helper: None,
        }
    }
}

/// Proof that this binary serves as the helper of sandboxed commands.
#[derive(Clone, Debug)]
pub struct SandboxHelper(PathBuf);

impl SandboxHelper {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

/// Serves as the helper of a sandboxed command, if this process was started as one.
///
/// A sandboxed command is started through the program's own binary, which takes rights away from
/// itself before it becomes the command. Call this first in `main`, before any thread starts: `Err`
/// is the exit code of such a process, `Ok` is the proof that [`Options::helper`] needs.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     let helper = match sortie::sandbox_helper() {
///         Ok(helper) => helper,
///         Err(exit) => return exit,
///     };
///     let builder = sortie::Sortie::builder().home("state").sandbox_helper(helper);
///     # drop(builder);
///     ExitCode::SUCCESS
/// }
/// ```
pub fn sandbox_helper() -> Result<Option<SandboxHelper>, ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words
        .next()
        .is_some_and(|word| word == sortie_sandbox::HELPER_COMMAND)
    {
        return Err(sortie_sandbox::run_helper(words));
    }
    // A process that cannot find its own binary has no helper, and so no sandbox.
    Ok(std::env::current_exe().ok().map(SandboxHelper))
}

/// A store that this process has locked, with what its runtime needs besides.
#[derive(Debug)]
pub struct OpenStore {
    pub store: DurableStore,
    /// This process, as the lock file names it.
    pub owner: Owner,
    /// The clock that the lock was taken by.
    pub clock: ProcessClock,
}

/// The database of the tasks.
enum Database {
    /// A file in the home folder.
    File,
    #[cfg(feature = "postgres")]
    Postgres(Box<Target>),
}

fn unusable(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Failed {
        doing: "use the configured database",
        source: why.into(),
    }
}

/// Reads the password of a database from a file that only its owner and its group may read.
pub(crate) fn read_password(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let unread = |error: std::io::Error| format!("cannot read {shown}: {error}");
    let file = regular_file::open_followed(path).map_err(unread)?;
    let metadata = file.metadata().map_err(unread)?;
    if private_files::everybody_may_read(&metadata) || private_files::others_may_write(&metadata) {
        return Err(format!(
            "other users can read or change the secret in {shown}; \
             change the secret, and run: chmod 600 {shown}"
        ));
    }
    let bytes = regular_file::read_all(file, MAX_PASSWORD_BYTES).map_err(unread)?;
    String::from_utf8(bytes).map_err(|_| format!("the password in {shown} is not UTF-8"))
}

impl Options {
    /// Locks the store for this process. Fails with `StoreError::Locked` while another process holds
    /// it.
    pub fn open_store(&self) -> StoreResult<OpenStore> {
        let clock = ProcessClock::start();
        let owner = self.owner(&clock);
        let store = match self.database()? {
            Database::File => DurableStore::open(&self.home, &owner)?,
            #[cfg(feature = "postgres")]
            Database::Postgres(target) => DurableStore::connect(&self.home, &target, &owner)?,
        };
        Ok(OpenStore {
            store,
            owner,
            clock,
        })
    }

    /// Opens the store as one of any number of workers. Fails if it is a file, which has one owner.
    pub fn open_worker_store(&self) -> StoreResult<OpenStore> {
        match self.database()? {
            Database::File => Err(unusable(
                "workers need a database: set store = \"postgres://…\"",
            )),
            #[cfg(feature = "postgres")]
            Database::Postgres(target) => {
                let clock = ProcessClock::start();
                let owner = self.owner(&clock);
                let store = DurableStore::connect_worker(&self.home, &target, &owner)?;
                Ok(OpenStore {
                    store,
                    owner,
                    clock,
                })
            }
        }
    }

    /// Opens the store read-only, alongside the process that holds the lock.
    pub fn read_store(&self) -> StoreResult<ReadStore> {
        match self.database()? {
            Database::File => DurableStore::open_read_only(&self.home),
            #[cfg(feature = "postgres")]
            Database::Postgres(target) => DurableStore::connect_read_only(&target),
        }
    }

    /// Leaves a reply for the process that holds the lock of the store.
    pub fn leave_reply(
        &self,
        request: &RequestId,
        reply: Reply,
        at: Timestamp,
    ) -> StoreResult<Replied> {
        match self.database()? {
            Database::File => DurableStore::leave_reply(&self.home, request, reply, at),
            #[cfg(feature = "postgres")]
            Database::Postgres(target) => DurableStore::leave_reply_at(&target, request, reply, at),
        }
    }

    /// Leaves an operation on a run for the process that holds the lock of the store.
    pub fn leave_control(&self, left: &LeaveControl) -> StoreResult<LeftControl> {
        match self.database()? {
            Database::File => DurableStore::leave_control(&self.home, left),
            #[cfg(feature = "postgres")]
            Database::Postgres(target) => DurableStore::leave_control_at(&target, left),
        }
    }

    /// Returns the version of the tables of the store; `None` if there are none yet.
    pub fn store_version(&self) -> StoreResult<Option<i64>> {
        match self.database()? {
            Database::File => DurableStore::version(&self.home),
            #[cfg(feature = "postgres")]
            Database::Postgres(target) => DurableStore::version_at(&target),
        }
    }

    /// Writes all tasks into a new file, and checks it. Another process may be writing the store.
    /// Blocks, so an async thread must not call it.
    pub fn back_up_store(
        &self,
        file: &Path,
        fold: Fold,
        progress: &mut dyn FnMut(CopyProgress),
    ) -> StoreResult<CopyReport> {
        match self.database()? {
            Database::File => {
                progress(CopyProgress::Checking);
                DurableStore::back_up(&self.home, file, fold)
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(target) => {
                sortie_store::back_up_database(&target, file, fold, progress)
            }
        }
    }

    /// Copies all tasks between the file in the home folder and the configured database. Fails
    /// while another process owns one of them. Blocks, so an async thread must not call it.
    #[cfg(feature = "postgres")]
    pub fn copy_store(
        &self,
        to: CopyTo,
        fold: Fold,
        progress: &mut dyn FnMut(CopyProgress),
    ) -> StoreResult<CopyReport> {
        let Database::Postgres(target) = self.database()? else {
            return Err(unusable(
                "no database is configured: set store = \"postgres://…\"",
            ));
        };
        let stores = CopyStores {
            home: &self.home,
            target: &target,
            owner: &self.owner(&ProcessClock::start()),
            fold,
        };
        sortie_store::copy(stores, to, progress)
    }

    /// Describes this process for others that find the store in use.
    fn owner(&self, clock: &ProcessClock) -> Owner {
        Owner {
            pid: std::process::id(),
            command: self.command.clone(),
            since: clock.now(),
        }
    }

    /// Returns the configured database.
    fn database(&self) -> StoreResult<Database> {
        match &self.config.store {
            None => Ok(Database::File),
            Some(address) => self.postgres(address.expose()),
        }
    }

    #[cfg(feature = "postgres")]
    fn postgres(&self, address: &str) -> StoreResult<Database> {
        let target: Target = address.parse().map_err(unusable)?;
        let Some(password) = self.store_password()? else {
            return Ok(Database::Postgres(Box::new(target)));
        };
        Ok(Database::Postgres(Box::new(
            target.with_password(&password),
        )))
    }

    /// Returns the password of the database from its variable or its file.
    fn store_password(&self) -> StoreResult<Option<String>> {
        if let Some(name) = &self.config.store_password_env {
            let missing = || unusable(format!("the environment variable {name} is not set"));
            let value = self.environment.text(name).ok_or_else(missing)?;
            return Ok(Some(value.to_owned()));
        }
        let Some(path) = &self.config.store_password_file else {
            return Ok(None);
        };
        let path = self.workspace.join(path);
        let text = read_password(&path).map_err(unusable)?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// Returns the passwords of the database, in the address and beside it, for the redactor.
    pub(crate) fn store_passwords(&self) -> Vec<String> {
        let address = self.config.store.as_ref().map(Secret::expose);
        #[cfg(feature = "postgres")]
        let decoded = address
            .and_then(|address| address.parse::<Target>().ok())
            .and_then(|target| target.password());
        #[cfg(not(feature = "postgres"))]
        let decoded = None;
        // As the address spells it, percent-encoded.
        let spelled = address
            .and_then(|address| address.split_once("://")?.1.split_once('@'))
            .and_then(|(user, _)| user.split_once(':'))
            .map(|(_, password)| password.to_owned());
        let beside = self.store_password().ok().flatten();
        [decoded, spelled, beside].into_iter().flatten().collect()
    }

    #[cfg(not(feature = "postgres"))]
    #[expect(clippy::unused_self, reason = "with the feature it reads the password")]
    fn postgres(&self, _address: &str) -> StoreResult<Database> {
        Err(unusable(
            "this program was built without support for PostgreSQL",
        ))
    }

    /// Returns the directory of models that the configuration and the environment describe. `pace`
    /// slows the offline model down; `record` is the folder of a recording.
    pub fn model_directory(&self, pace: Duration, record: Option<PathBuf>) -> Arc<Directory> {
        Arc::new(Directory::new(settings::directory(self, pace, record)))
    }

    /// Returns a model's name that means the same in every folder: paths in it become absolute.
    pub fn absolute_model(&self, name: &str) -> String {
        match name.split_once(':') {
            Some((kind @ ("script" | "replay"), path)) if !path.is_empty() => {
                format!("{kind}:{}", self.workspace.join(path).display())
            }
            Some(_) | None => name.to_owned(),
        }
    }

    /// Returns the configured model of requests that name none.
    pub fn configured_model(&self) -> Option<String> {
        Some(self.absolute_model(self.config.model.as_deref()?))
    }

    /// Probes which sandbox backends work on this machine; `None` without a helper.
    pub fn probe_sandbox(&self) -> Option<Offer> {
        let helper = self.helper.as_ref()?;
        Some(probe(&self.places(), helper.path()))
    }

    /// Returns the folders of `PATH` that no agent of this project can write to. Programs that run
    /// outside a sandbox are looked for only there.
    pub fn safe_path(&self) -> Vec<PathBuf> {
        let here = self.workspace.canonicalize();
        let here = here.unwrap_or_else(|_| self.workspace.clone());
        let repository = here.ancestors().find(|folder| folder.join(".git").exists());
        let project = repository.unwrap_or(&here);
        let mut path = self.environment.search_path();
        path.retain(|folder| {
            let real = folder.canonicalize();
            folder.is_absolute() && real.is_ok_and(|real| !real.starts_with(project))
        });
        path
    }

    /// Returns the places of this machine that the sandbox and the file tools treat in a special way.
    pub(crate) fn places(&self) -> Places {
        let mut own = vec![self.home.clone()];
        own.extend(self.config_folder.clone());
        Places {
            home: self.environment.user_home(),
            path: self.safe_path(),
            scratch: self.environment.scratch(),
            own,
        }
    }

    /// Returns whether the user trusts a folder. If the trust file cannot be read, no folder is
    /// trusted.
    pub(crate) fn is_trusted(&self, folder: &Path) -> bool {
        let config_folder = self.config_folder.as_deref();
        config_folder.is_some_and(|config_folder| is_trusted(config_folder, folder))
    }
}

/// Returns whether the trust file of a configuration folder lists a folder.
pub(crate) fn is_trusted(config_folder: &Path, folder: &Path) -> bool {
    TrustStore::open(&config_folder.join(TRUST_FILE)).is_ok_and(|store| store.is_trusted(folder))
}
