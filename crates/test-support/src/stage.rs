//! A stage for scenarios: a workspace, a store, the real tools and a scripted model in; what
//! happened, as text that a person can read, out.
//!
//! Nothing here sleeps for luck: a test holds the model's answers to a label, waits until they are
//! asked for, and lets them go.

mod backstage;
mod shown;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sortie_base::redact::Redactor;
use sortie_core::{
    Confinement, Lang, ListFilter, Mode, NoSkills, NoWorktrees, Notification, RunId, RunRecord,
    SandboxMode, Skills, StoreError, Timestamp, Tool, Worktrees,
};
use sortie_protocol::Task;
use sortie_runtime::{Agents, FileSink, NewRun, Parts, ProcessClock, Runtime, Settings};
use sortie_store::{Owner, SqliteStore};
use sortie_tools::{ExecSettings, ToolSettings, standard_tools};
use tempfile::TempDir;
use tokio::sync::broadcast;

use backstage::Voices;
pub use backstage::{Prompter, Request};
pub use shown::{Notes, task_lines};

/// How long a test waits for something that must come.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(3);
/// The name under which runs ask for the scripted model unless they say otherwise.
pub const MODEL: &str = "script";

/// What a stage is made from.
#[derive(Debug)]
pub struct Play {
    rules: String,
    /// What an operator has set.
    pub settings: Settings,
    /// The agents.
    pub agents: Agents,
    /// Tools beside the standard ones, or instead of those of the same name.
    pub more_tools: Vec<Arc<dyn Tool>>,
    /// Makes worktrees.
    pub worktrees: Arc<dyn Worktrees>,
    /// Finds skills.
    pub skills: Arc<dyn Skills>,
    /// What is never written down.
    pub redactor: Redactor,
    /// The language of everything.
    pub lang: Lang,
}

impl Play {
    /// A play after these rules of a scenario, in English.
    pub fn new(rules: &str) -> Self {
        Self::speaking(Lang::En, rules)
    }

    /// A play in a language.
    pub fn speaking(lang: Lang, rules: &str) -> Self {
        Self {
            rules: rules.to_owned(),
            settings: Settings {
                lang,
                shutdown_grace: Duration::from_millis(50),
                // A folder of a test is as good as a sandbox, and quicker.
                confinement: Confinement {
                    sandbox: SandboxMode::Off,
                    network: false,
                },
                ..Settings::default()
            },
            agents: Agents::built_in(lang),
            more_tools: Vec::new(),
            worktrees: Arc::new(NoWorktrees),
            skills: Arc::new(NoSkills),
            redactor: Redactor::default(),
            lang,
        }
    }

    /// The same with other settings.
    #[must_use]
    pub fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Opens the store in a folder of its own and starts the runtime.
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

/// A runtime with everything around it.
#[derive(Debug)]
pub struct Stage {
    play: Play,
    workspace: TempDir,
    home: TempDir,
    prompter: Arc<Prompter>,
    runtime: Arc<Runtime>,
}

impl Stage {
    /// The runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The runtime, for a server beside the stage. Whoever holds it lets go before the next life.
    pub fn shared_runtime(&self) -> Arc<Runtime> {
        Arc::clone(&self.runtime)
    }

    /// The model: what it was asked, and how its answers are held back.
    pub fn model(&self) -> &Prompter {
        &self.prompter
    }

    /// The folder that agents work in.
    pub fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    /// Puts a file into the workspace.
    pub fn put(&self, path: &str, content: &str) {
        std::fs::write(self.workspace().join(path), content).expect("a file for the workspace");
    }

    /// What a file of the workspace contains, if it is there.
    pub fn file(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.workspace().join(path)).ok()
    }

    /// A main run that may do everything, to be changed and created.
    pub fn new_run(&self, task: &str) -> NewRun {
        NewRun {
            lang: self.play.lang,
            label: Some("main".to_owned()),
            mode: Mode::Yolo,
            ..NewRun::new(task, self.workspace(), MODEL)
        }
    }

    /// A background task of an agent, called by its label.
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

    /// Admits a run.
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

    /// Plays a main run to its end and says how it ended.
    pub async fn play(&self, task: &str) -> RunRecord {
        let run = self.start(task).await;
        self.end_of(run).await
    }

    /// One record.
    pub async fn record(&self, run: RunId) -> RunRecord {
        self.runtime.get(run).await.expect("a record")
    }

    /// All records, oldest first.
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

    /// The run of this label.
    pub async fn run_of(&self, label: &str) -> RunId {
        let records = self.records().await;
        let found = records.iter().find(|record| record.label == label);
        found
            .unwrap_or_else(|| panic!("no run is called {label}"))
            .run_id
    }

    /// Waits until something can be seen.
    pub async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        until(what, look).await
    }

    /// Waits until a record fits.
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

    /// Waits until the model was asked by the run of this label, at this turn.
    pub async fn until_asked(&self, label: &str, turn: u32) {
        self.until(&format!("turn {turn} of {label}"), async || {
            self.prompter.request(label, turn)
        })
        .await;
    }

    /// What happened in a run, one line for each event; ids are labels and times are left out.
    pub async fn log(&self, run: RunId) -> String {
        let entries = self
            .runtime
            .events(run, sortie_core::Seq(0))
            .await
            .expect("a journal");
        self.plain(&shown::event_lines(&entries)).await
    }

    /// The end of a run as JSON shows it, one line for each field that says something.
    pub async fn task(&self, run: RunId) -> String {
        let json = Task::from(&self.record(run).await);
        self.plain(&task_lines(&json)).await
    }

    /// What the model read at one turn, one line for each message.
    pub async fn seen(&self, label: &str, turn: u32) -> String {
        let request = self
            .prompter
            .request(label, turn)
            .unwrap_or_else(|| panic!("{label} was not asked for turn {turn}"));
        self.plain(&shown::message_lines(&request.messages)).await
    }

    /// A text with labels for ids and words for what differs from time to time.
    pub async fn plain(&self, text: &str) -> String {
        let records = self.records().await;
        shown::plain(text, &records, self.workspace())
    }

    /// Takes down what is said about all runs from now on.
    pub fn listen(&self) -> Notes {
        Notes::new(self.subscribe())
    }

    fn subscribe(&self) -> broadcast::Receiver<Notification> {
        self.runtime.subscribe()
    }

    /// Shuts the runtime down as a program that ends does, and starts the next.
    pub async fn restart(self) -> Self {
        self.restart_as(|play| play).await
    }

    /// The same, with a change to what the next is made from.
    pub async fn restart_as(self, change: impl FnOnce(Play) -> Play) -> Self {
        let (runtime, rest) = self.apart();
        runtime.shut_down().await;
        rest.begin_again(change).await
    }

    /// The same, with something being written to the store between the two.
    pub async fn restart_and(self, between: impl AsyncFnOnce(&SqliteStore)) -> Self {
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

    /// The same, with something happening to the workspace between the two lives.
    pub async fn crash_and(self, between: impl FnOnce(&Path)) -> Self {
        let (runtime, rest) = self.apart();
        drop(runtime);
        rest.until_store_is_free().await;
        between(rest.workspace.path());
        rest.begin_again(|play| play).await
    }

    fn apart(self) -> (Runtime, Rest) {
        let rest = Rest {
            play: self.play,
            workspace: self.workspace,
            home: self.home,
            prompter: self.prompter,
        };
        let runtime = Arc::into_inner(self.runtime).expect("nobody else holds the runtime");
        (runtime, rest)
    }
}

/// What outlives a runtime.
struct Rest {
    play: Play,
    workspace: TempDir,
    home: TempDir,
    prompter: Arc<Prompter>,
}

impl Rest {
    /// The tasks of a dropped runtime end when the executor of the test comes to them.
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
        skills: Arc::clone(&play.skills),
        redactor: play.redactor.clone(),
    };
    Runtime::start(parts, play.settings.clone())
        .await
        .expect("a runtime")
}

fn open(home: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(
        home,
        &Owner {
            pid: std::process::id(),
            command: "a test".to_owned(),
            since: Timestamp(0),
        },
    )
}

/// Looks until there is something to see, for as long as a test has patience.
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
