//! A stage for scenarios: a workspace, a store, the real tools and a scripted model go in; the
//! events come out as readable text.
//!
//! Tests do not sleep and hope: a test holds back the completions for a label, waits until they are
//! requested, and releases them.

mod backstage;
mod shown;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sortie_base::redact::Redactor;
use sortie_core::id::RunId;
use sortie_core::notification::Notification;
use sortie_core::policy::{ApproveSpawn, Mode};
use sortie_core::ports::hooks::{Hooks, NoHooks};
use sortie_core::ports::store::{ListFilter, StoreError};
use sortie_core::ports::tool::Tool;
use sortie_core::ports::workspace::{NoSkills, NoWorktrees, Skills, Worktrees};
use sortie_core::run::{Confinement, RunRecord, SandboxMode};
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_protocol::Task;
use sortie_runtime::{Agents, FileSink, NewRun, Parts, ProcessClock, Runtime, Settings};
use sortie_store::{DurableStore, Owner};
use sortie_tools::{ExecSettings, ToolSettings, standard_tools};
use tempfile::TempDir;
use tokio::sync::broadcast;

use backstage::Voices;
pub use backstage::{Prompter, Request};
pub use shown::{Notes, task_lines};

/// How long a test waits for an expected state.
pub const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(3);
/// The name of the scripted model, unless a run asks for another.
pub const MODEL: &str = "script";

/// The parts of a stage.
#[derive(Debug)]
pub struct Play {
    rules: String,
    pub settings: Settings,
    pub agents: Agents,
    /// Additional tools; one with the name of a standard tool replaces it.
    pub more_tools: Vec<Arc<dyn Tool>>,
    pub worktrees: Arc<dyn Worktrees>,
    pub hooks: Arc<dyn Hooks>,
    pub skills: Arc<dyn Skills>,
    pub redactor: Redactor,
    pub lang: Lang,
}

impl Play {
    /// Returns a play with these scenario rules, in English.
    pub fn new(rules: &str) -> Self {
        Self::speaking(Lang::En, rules)
    }

    /// Returns a play in a language.
    pub fn speaking(lang: Lang, rules: &str) -> Self {
        Self {
            rules: rules.to_owned(),
            settings: Settings {
                lang,
                shutdown_grace: Duration::from_millis(50),
                // A test's temporary folder replaces the sandbox, and is faster.
                confinement: Confinement {
                    sandbox: SandboxMode::Off,
                    network: false,
                },
                // Tests of approvals for new subagents say so.
                approve_spawn: ApproveSpawn::Never,
                ..Settings::default()
            },
            agents: Agents::built_in(lang),
            more_tools: Vec::new(),
            worktrees: Arc::new(NoWorktrees),
            hooks: Arc::new(NoHooks),
            skills: Arc::new(NoSkills),
            redactor: Redactor::default(),
            lang,
        }
    }

    #[must_use]
    pub fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Opens the store in a temporary folder and starts the runtime.
    pub async fn begin(self) -> Stage {
        let workspace = TempDir::new().expect("a folder for the workspace");
        let home = TempDir::new().expect("a folder for the store");
        let prompter = Prompter::new(&self.rules);
        let runtime = start(&self, home.path(), &prompter).await;
        Stage {
            play: self,
            workspace,
            home,
            prompter,
            runtime: Arc::new(runtime),
        }
    }
}

/// A runtime with its surroundings.
#[derive(Debug)]
pub struct Stage {
    play: Play,
    workspace: TempDir,
    home: TempDir,
    prompter: Arc<Prompter>,
    runtime: Arc<Runtime>,
}

impl Stage {
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns the runtime, for a server beside the stage. The caller must drop it before a
    /// restart.
    pub fn shared_runtime(&self) -> Arc<Runtime> {
        Arc::clone(&self.runtime)
    }

    /// Returns the model, which records its prompts and can hold back completions.
    pub fn model(&self) -> &Prompter {
        &self.prompter
    }

    /// Returns the workspace of the agents.
    pub fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    /// Writes a file into the workspace.
    pub fn put(&self, path: &str, content: &str) {
        std::fs::write(self.workspace().join(path), content).expect("a file for the workspace");
    }

    /// Returns the content of a file in the workspace, if it exists.
    pub fn file(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.workspace().join(path)).ok()
    }

    /// Returns options for a main run without restrictions.
    pub fn new_run(&self, task: &str) -> NewRun {
        NewRun {
            lang: self.play.lang,
            label: Some("main".to_owned()),
            mode: Mode::Yolo,
            ..NewRun::new(task, self.workspace(), MODEL)
        }
    }

    /// Returns options for a background task of an agent.
    pub fn new_task(&self, agent: &str, label: &str) -> NewRun {
        NewRun {
            agent: Some(agent.to_owned()),
            label: Some(label.to_owned()),
            ..self.new_run("do it").in_background()
        }
    }

    /// Admits a main run.
    pub async fn start(&self, task: &str) -> RunId {
        self.create(self.new_run(task)).await
    }

    pub async fn create(&self, new: NewRun) -> RunId {
        self.runtime.create(new).await.expect("an admitted run")
    }

    /// Waits until a run has ended.
    pub async fn end_of(&self, run: RunId) -> RunRecord {
        let ended = tokio::time::timeout(PATIENCE, self.runtime.wait_for(run)).await;
        match ended {
            Ok(record) => record.expect("the record of an ended run"),
            Err(_) => panic!("it does not end:\n{}", self.log(run).await),
        }
    }

    /// Runs a main run to its end and returns its record.
    pub async fn play(&self, task: &str) -> RunRecord {
        let run = self.start(task).await;
        self.end_of(run).await
    }

    pub async fn record(&self, run: RunId) -> RunRecord {
        self.runtime.get(run).await.expect("a record")
    }

    /// Returns all records, oldest first.
    pub async fn records(&self) -> Vec<RunRecord> {
        let mut records = self
            .runtime
            .list(ListFilter {
                archived: true,
                ..ListFilter::default()
            })
            .await
            .expect("the list");
        records.reverse();
        records
    }

    /// Returns the run with this label.
    pub async fn run_of(&self, label: &str) -> RunId {
        let records = self.records().await;
        let found = records.iter().find(|record| record.label == label);
        found
            .unwrap_or_else(|| panic!("no run is called {label}"))
            .run_id
    }

    /// Waits until `look` returns a value.
    pub async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        until(what, look).await
    }

    /// Waits until a record matches.
    pub async fn until_record(
        &self,
        run: RunId,
        what: &str,
        fits: impl Fn(&RunRecord) -> bool,
    ) -> RunRecord {
        self.until(what, async || {
            Some(self.record(run).await).filter(|record| fits(record))
        })
        .await
    }

    /// Waits until the run with this label has prompted the model at this turn.
    pub async fn until_prompted(&self, label: &str, turn: u32) {
        self.until(&format!("turn {turn} of {label}"), async || {
            self.prompter.request(label, turn)
        })
        .await;
    }

    /// Returns the journal of a run, one line for each event, with labels for ids and without
    /// times.
    pub async fn log(&self, run: RunId) -> String {
        let entries = self
            .runtime
            .events(run, sortie_core::id::Seq(0))
            .await
            .expect("a journal");
        self.plain(&shown::event_lines(&entries)).await
    }

    /// Returns the final task JSON of a run, one line for each field that is set.
    pub async fn task(&self, run: RunId) -> String {
        let json = Task::from(&self.record(run).await);
        self.plain(&task_lines(&json)).await
    }

    /// Returns the messages of one prompt, one line for each.
    pub async fn seen(&self, label: &str, turn: u32) -> String {
        let request = self
            .prompter
            .request(label, turn)
            .unwrap_or_else(|| panic!("{label} was not asked for turn {turn}"));
        self.plain(&shown::message_lines(&request.messages)).await
    }

    /// Replaces ids by labels and other varying parts by placeholders.
    pub async fn plain(&self, text: &str) -> String {
        let records = self.records().await;
        shown::plain(text, &records, self.workspace())
    }

    /// Records notifications about all runs from now on.
    pub fn listen(&self) -> Notes {
        Notes::new(self.subscribe())
    }

    fn subscribe(&self) -> broadcast::Receiver<Notification> {
        self.runtime.subscribe()
    }

    /// Shuts the runtime down in order, and starts the next.
    pub async fn restart(self) -> Self {
        self.restart_as(|play| play).await
    }

    /// Restarts with changed parts.
    pub async fn restart_as(self, change: impl FnOnce(Play) -> Play) -> Self {
        let (runtime, rest) = self.apart();
        runtime.shut_down().await;
        rest.begin_again(change).await
    }

    /// Restarts, and runs `between` on the store in between.
    pub async fn restart_and(self, between: impl AsyncFnOnce(&DurableStore)) -> Self {
        let (runtime, rest) = self.apart();
        runtime.shut_down().await;
        rest.until_store_is_free().await;
        let store = open(rest.home.path()).expect("a store");
        between(&store).await;
        drop(store);
        rest.begin_again(|play| play).await
    }

    /// Drops the runtime, which is like killing its process, and starts the next.
    pub async fn crash(self) -> Self {
        self.crash_and(|_| ()).await
    }

    /// Crashes, and runs `between` on the workspace in between.
    pub async fn crash_and(self, between: impl FnOnce(&Path)) -> Self {
        let (runtime, rest) = self.apart();
        drop(runtime);
        rest.until_store_is_free().await;
        between(rest.workspace.path());
        rest.begin_again(|play| play).await
    }

    fn apart(self) -> (Runtime, Persistent) {
        let rest = Persistent {
            play: self.play,
            workspace: self.workspace,
            home: self.home,
            prompter: self.prompter,
        };
        let runtime = Arc::into_inner(self.runtime).expect("no other owner of the runtime");
        (runtime, rest)
    }
}

/// What outlives a runtime.
struct Persistent {
    play: Play,
    workspace: TempDir,
    home: TempDir,
    prompter: Arc<Prompter>,
}

impl Persistent {
    /// The tasks of a dropped runtime end when the test's executor polls them.
    async fn until_store_is_free(&self) {
        until("the store is free", async || match open(self.home.path()) {
            Ok(_) => Some(()),
            Err(StoreError::Locked { .. }) => None,
            Err(error) => panic!("the store cannot be opened: {error:?}"),
        })
        .await;
    }

    async fn begin_again(self, change: impl FnOnce(Play) -> Play) -> Stage {
        self.until_store_is_free().await;
        let play = change(self.play);
        let runtime = start(&play, self.home.path(), &self.prompter).await;
        Stage {
            play,
            workspace: self.workspace,
            home: self.home,
            prompter: self.prompter,
            runtime: Arc::new(runtime),
        }
    }
}

async fn start(play: &Play, home: &Path, prompter: &Arc<Prompter>) -> Runtime {
    let mut tools = standard_tools(ToolSettings {
        exec: ExecSettings {
            environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        },
        ..ToolSettings::default()
    });
    tools.retain(|tool| {
        let mut others = play.more_tools.iter();
        !others.any(|other| other.spec().name == tool.spec().name)
    });
    tools.extend(play.more_tools.iter().cloned());
    let parts = Parts {
        store: Arc::new(open(home).expect("a store")),
        models: Arc::new(Voices(Arc::clone(prompter))),
        tools,
        agents: play.agents.clone(),
        clock: Arc::new(ProcessClock::start()),
        sinks: vec![Arc::new(FileSink)],
        worktrees: Arc::clone(&play.worktrees),
        hooks: Arc::clone(&play.hooks),
        skills: Arc::clone(&play.skills),
        redactor: play.redactor.clone(),
    };
    Runtime::start(parts, play.settings.clone())
        .await
        .expect("a runtime")
}

fn open(home: &Path) -> Result<DurableStore, StoreError> {
    DurableStore::open(
        home,
        &Owner {
            pid: std::process::id(),
            command: "a test".to_owned(),
            since: Timestamp(0),
        },
    )
}

/// Polls until `look` returns a value; panics after [`PATIENCE`].
pub async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(PATIENCE, looking).await {
        Ok(found) => found,
        Err(_) => panic!("it never came: {what}"),
    }
}
