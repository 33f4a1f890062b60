//! What runs find around them on disk: worktrees of their own, skills, and agents in files.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use sortie_config::TrustStore;
use sortie_core::{BlobId, Changes, Collected, RunId, SkillRef, Worktree};
use sortie_definitions::{
    AgentFiles, Ceiling, Known, Where, agent_places, load_agents, skill_places,
    workspace_skill_places,
};
use sortie_runtime::{AgentSettings, Agents, AllowedModels};
use sortie_worktree::{Applied, Git, How};

use crate::settings::Settings;

/// The folder of worktrees in the home of the store.
const WORKTREES_FOLDER: &str = "worktrees";

/// Makes worktrees with the git of this system.
#[derive(Debug)]
pub(crate) struct GitWorktrees {
    folder: PathBuf,
    worktrees: Option<sortie_worktree::Worktrees>,
}

impl GitWorktrees {
    /// Worktrees in the home of the store; none can be made without git.
    pub(crate) fn of(settings: &Settings) -> Self {
        let folders = settings.safe_path();
        let git = folders
            .iter()
            .map(|folder| folder.join("git"))
            .find(|program| program.is_file());
        let path = std::env::join_paths(&folders).unwrap_or_default();
        let folder = settings.home.join(WORKTREES_FOLDER);
        Self {
            worktrees: git.map(|program| {
                // Without a path to this binary git is started as it is.
                let helper = std::env::current_exe().ok();
                let launcher = helper.map(|helper| sortie_sandbox::death_signal(&helper));
                let git = Git::new(program, path).through(launcher.unwrap_or_default());
                // What commands must not change is not changed by `apply` either. The names in a
                // `.git` are left out: no path through one is applied at all.
                let usual = sortie_sandbox::usual();
                let names = usual
                    .iter()
                    .filter(|one| one.path.components().count() == 1);
                let names: Vec<&str> = names.filter_map(|one| one.path.to_str()).collect();
                sortie_worktree::Worktrees::new(&folder, git).with_protected(&names)
            }),
            folder,
        }
    }

    fn get(&self) -> Result<&sortie_worktree::Worktrees, String> {
        self.worktrees.as_ref().ok_or_else(|| {
            "there is no git in PATH; install it, or work without isolation".to_owned()
        })
    }
}

#[async_trait]
impl sortie_core::Worktrees for GitWorktrees {
    async fn create(&self, run: RunId, workspace: &Path) -> Result<Worktree, String> {
        let made = self.get()?.create(&run.to_string(), workspace).await;
        let made = made.map_err(|error| sortie_core::with_causes(&error))?;
        Ok(Worktree {
            repository: made.repository,
            root: made.root,
            workspace: made.workspace,
            branch: made.branch,
            base: made.base,
            git_dirs: made.git_dirs.writable,
            git_reads: made.git_dirs.readable,
        })
    }

    async fn collect(&self, run: RunId) -> Result<Option<Collected>, String> {
        let collected = self.get()?.collect_run(&run.to_string()).await;
        match collected.map_err(|error| sortie_core::with_causes(&error))? {
            sortie_worktree::Collected::Untouched => Ok(None),
            sortie_worktree::Collected::Changed(changes) => {
                let diff = changes.diff.into_bytes();
                Ok(Some(Collected {
                    changes: Changes {
                        branch: changes.branch,
                        base: changes.base,
                        commit: changes.commit,
                        files: changes.file_count as u64,
                        insertions: changes.insertions,
                        deletions: changes.deletions,
                        diff: BlobId::of(&diff),
                    },
                    diff,
                }))
            }
        }
    }

    async fn apply(&self, worktree: &Worktree, changes: &Changes) -> Result<Vec<String>, String> {
        let applied = self
            .get()?
            .apply(
                &worktree.repository,
                &changes.branch,
                &changes.base,
                &changes.commit,
                How::Write,
            )
            .await;
        match applied.map_err(|error| sortie_core::with_causes(&error))? {
            Applied::Applied { files, .. } => Ok(files),
            Applied::Conflict { files } => Err(format!(
                "nothing was changed: these files were changed in another way since: {}. Merge branch {} by hand, or discard it",
                files.join(", "),
                changes.branch
            )),
            Applied::Refused(why) => Err(why),
        }
    }

    async fn discard(&self, worktree: &Worktree, changes: &Changes) -> Result<(), String> {
        let discarded = self
            .get()?
            .discard(&worktree.repository, &changes.branch)
            .await;
        discarded
            .map(drop)
            .map_err(|error| sortie_core::with_causes(&error))
    }

    async fn sweep(&self, known: &[RunId]) -> Result<(), String> {
        if !self.folder.is_dir() {
            return Ok(());
        }
        let known = known.iter().map(ToString::to_string).collect();
        let swept = self.get()?.sweep(&known).await;
        let swept = swept.map_err(|error| sortie_core::with_causes(&error))?;
        tracing::debug!(?swept, "old worktrees");
        Ok(())
    }
}

/// Finds skills in the folders of the workspace, the user and the operator.
#[derive(Clone, Debug)]
pub(crate) struct SkillFolders {
    home: Option<PathBuf>,
    trust_file: PathBuf,
}

impl SkillFolders {
    /// The folders that these settings know.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            home: settings.user_home.clone(),
            trust_file: settings.configuration.places.trust_file.clone(),
        }
    }

    /// All skills of a workspace, with what was wrong with others.
    pub(crate) fn find(&self, workspace: &Path) -> sortie_definitions::Skills {
        let is_trusted = |folder: &Path| is_trusted(&self.trust_file, folder);
        let places = skill_places(
            &Where {
                workspace,
                home: self.home.as_deref(),
                is_trusted: &is_trusted,
            },
            &[],
        );
        sortie_definitions::Skills::find(&places)
    }
}

impl sortie_core::Skills for SkillFolders {
    fn in_workspace(&self, workspace: &Path) -> Vec<SkillRef> {
        self.find(workspace).for_models()
    }

    fn in_folder(&self, workspace: &Path, folder: &str) -> Result<Vec<SkillRef>, String> {
        let places = workspace_skill_places(workspace, &[folder.to_owned()]);
        Ok(sortie_definitions::Skills::find(&places).for_models())
    }

    fn in_operators_folder(&self, workspace: &Path, folder: &str) -> Result<Vec<SkillRef>, String> {
        let places = match folder.strip_prefix("~/") {
            Some(below) => {
                let home = self.home.as_deref().ok_or("there is no home folder")?;
                operator_places(&home.join(below))
            }
            None if Path::new(folder).is_absolute() => operator_places(Path::new(folder)),
            None => workspace_skill_places(workspace, &[folder.to_owned()]),
        };
        Ok(sortie_definitions::Skills::find(&places).for_models())
    }
}

fn operator_places(folder: &Path) -> Vec<sortie_definitions::Place> {
    let nowhere = Where {
        workspace: Path::new("/nonexistent"),
        home: None,
        is_trusted: &|_| false,
    };
    let mut places = skill_places(&nowhere, &[folder.to_owned()]);
    places.retain(|place| place.scope == sortie_definitions::Scope::Extra);
    places
}

/// The agents in files around a workspace, with what was wrong with others.
pub(crate) fn agent_files(settings: &Settings, base: &Agents, tools: &[String]) -> AgentFiles {
    let trust_file = &settings.configuration.places.trust_file;
    let is_trusted = |folder: &Path| is_trusted(trust_file, folder);
    let places = agent_places(&Where {
        workspace: &settings.folder,
        home: settings.user_home.as_deref(),
        is_trusted: &is_trusted,
    });
    let mut known: Vec<_> = base.children().to_vec();
    known.push(base.main().clone());
    let models = sortie_models::vendor_names();
    let providers = &settings.configuration.config().providers;
    let is_model = |name: &str| {
        let vendor = name.split('/').next().unwrap_or_default();
        models.iter().any(|known| known == vendor) || providers.contains_key(vendor)
    };
    // A vendor of this build, or a server that happens to listen here, is not the operator's choice.
    let main = settings.configured_model();
    let available = AllowedModels::of(&crate::provider::runtime(settings), main.as_deref());
    let check_rule = |rule: &str| {
        rule.parse::<sortie_policy::Rule>()
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let limits = &settings.configuration.config().subagents;
    load_agents(
        &places,
        &Known {
            agents: &known,
            tools,
            check_rule: &check_rule,
            is_model: &is_model,
            is_available: &|name| available.contains(name),
            ceiling: Ceiling {
                max_iterations: Some(limits.max_iterations),
                timeout: Some(std::time::Duration::from_secs(limits.timeout_seconds))
                    .filter(|timeout| !timeout.is_zero()),
                budget: crate::freedom::budget(limits.budget),
            },
        },
    )
}

/// Puts the agents of files beside the built-in ones, and what the files say about them beneath
/// what was configured.
pub(crate) fn add_agents(
    files: &AgentFiles,
    agents: &mut Agents,
    settings: &mut sortie_runtime::Settings,
) {
    for loaded in &files.agents {
        agents.add(loaded.definition.clone());
        let name = loaded.definition.name.to_lowercase();
        let set = settings.agents.entry(name).or_default();
        from_file(set, loaded);
    }
}

fn from_file(set: &mut AgentSettings, loaded: &sortie_definitions::LoadedAgent) {
    set.rules.ask.extend(loaded.ask.iter().cloned());
    set.mode = set.mode.or(loaded.mode);
    set.timeout = set.timeout.or(loaded.timeout);
    set.budget = set.budget.or(loaded.budget);
    set.isolation = set.isolation.or(loaded.isolation);
    if set.asking.thinking.is_none() {
        set.asking.thinking.clone_from(&loaded.thinking);
    }
    set.asking.sampling.temperature = set.asking.sampling.temperature.or(loaded.temperature);
}

/// A trust file that cannot be read trusts nothing.
fn is_trusted(trust_file: &Path, folder: &Path) -> bool {
    TrustStore::open(trust_file).is_ok_and(|store| store.is_trusted(folder))
}
