//! Simulates one seed: runs are started, the process dies a few times, and all invariants are
//! checked at the end.

mod check;
mod clock;
mod dice;
mod model;
mod store;
mod tools;
mod world;

use std::sync::Arc;
use std::time::Duration;

use sortie_core::budget::Budget;
use sortie_core::id::RunId;
use sortie_core::policy::Mode;
use sortie_core::ports::hooks::NoHooks;
use sortie_core::ports::store::{ListFilter, StoreError};
use sortie_core::ports::workspace::{NoSkills, NoWorktrees};
use sortie_core::run::{Priority, Status};
use sortie_core::words::Lang;
use sortie_runtime::{Agents, NewRun, Parts, Runtime, RuntimeError, Settings};
use sortie_store::InlineStore;

use clock::SimClock;
pub use dice::Dice;
use model::SimModels;
use store::{Disk, SimStore};
use world::{Generation, World};

/// The simulated time that everything may take after the last crash.
const PATIENCE: Duration = Duration::from_secs(600);

/// What happened under one seed. The digest of all journals must be the same for the same seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub runs: usize,
    /// How often the process died.
    pub crashes: u32,
    pub entries: usize,
    pub pauses: usize,
    /// Calls whose result told the model that the outcome is unknown.
    pub interruptions: usize,
    /// SHA-256 over all journals.
    pub digest: String,
}

/// An invariant that the simulation violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub seed: u64,
    pub what: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seed {}: {}", self.seed, self.what)
    }
}

/// A deliberate fault, for control runs that must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    None,
    LoseDeliveries,
    /// Deliveries are made twice.
    RepeatDeliveries,
    /// Writes fail now and then, alone and in series, some of them after they took effect. Not a
    /// control: no invariant may break.
    FailWrites,
    /// Like [`Sabotage::FailWrites`], on a store that lets a write follow a lost one.
    JumpOverLostWrites,
}

impl Sabotage {
    const fn fails_writes(self) -> bool {
        matches!(self, Self::FailWrites | Self::JumpOverLostWrites)
    }
}

pub fn simulate(seed: u64) -> Result<Report, Broken> {
    simulate_with(seed, Sabotage::None)
}

/// Simulates one seed with a deliberate fault.
pub fn simulate_with(seed: u64, sabotage: Sabotage) -> Result<Report, Broken> {
    let broken = |what: String| Broken { seed, what };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| broken(error.to_string()))?;
    runtime.block_on(live(seed, sabotage)).map_err(broken)
}

async fn live(seed: u64, sabotage: Sabotage) -> Result<Report, String> {
    let mut dice = Dice::new(seed);
    let database = Arc::new(InlineStore::open_in_memory().map_err(|error| error.to_string())?);
    let world = Arc::new(World::new(seed));
    let clock = Arc::new(SimClock::new());
    let settings = settings(&mut dice);
    world.set_limit(settings.lanes.subagent);
    let crashes = dice.below(5);
    let mut roots = Vec::new();
    for generation_number in 0..=crashes {
        let generation = Arc::new(Generation::default());
        let parts = parts(&database, &world, &clock, &generation, &mut dice, sabotage);
        let runtime = Runtime::start(parts, settings.clone())
            .await
            .map_err(|error| error.to_string())?;
        if generation_number == 0 {
            for number in 0..=dice.below(2) {
                roots.push(start_root(&runtime, &mut dice, number).await?);
            }
        }
        let canceller = cancel_something(&runtime, &roots, &mut dice);
        let pauser = pause_some(&runtime, dice.fork());
        if generation_number == crashes {
            let ended = tokio::time::timeout(PATIENCE, async {
                let (cancelled, paused) = tokio::join!(canceller, pauser);
                cancelled.and(paused)?;
                let_all_go_on(&runtime).await?;
                all_ended(&runtime).await
            })
            .await;
            let Ok(ended) = ended else {
                let left = check::what_is_left(&database).await;
                return Err(format!("it never ends:\n{left}"));
            };
            ended?;
            check::nothing_under_way(&runtime).await?;
            runtime.shut_down().await;
        } else {
            let time_of_death = Duration::from_millis(u64::from(dice.below(700)));
            // It does not matter whether the cancellation happened before the death.
            tokio::time::timeout(time_of_death, async {
                let (cancelled, paused) = tokio::join!(canceller, pauser);
                cancelled.and(paused)?;
                all_ended(&runtime).await
            })
            .await
            .ok();
            generation.die();
            drop(runtime);
            world.process_died();
            // Lets this thread drop the tasks of the dead process.
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        }
    }
    check::everything(&database, &world, &roots, crashes).await
}

fn settings(dice: &mut Dice) -> Settings {
    let mut settings = Settings::default().with_max_concurrent(1 + dice.below(5));
    settings.lanes.per_parent = 1 + dice.below(5);
    settings.caps.max_depth = 1 + dice.below(2);
    settings.caps.max_children_per_tree = 4 + dice.below(30);
    settings.deaths.total = 100;
    settings.child.timeout = Some(Duration::from_secs(30));
    // Every root is one that the simulation started.
    settings.wake_sessions = false;
    settings
}

fn parts(
    database: &Arc<InlineStore>,
    world: &Arc<World>,
    clock: &Arc<SimClock>,
    generation: &Arc<Generation>,
    dice: &mut Dice,
    sabotage: Sabotage,
) -> Parts {
    Parts {
        store: Arc::new(SimStore::new(
            Arc::clone(database),
            Arc::clone(generation),
            dice.fork(),
            sabotage,
            Disk::new(sabotage.fails_writes().then(|| dice.fork())),
        )),
        models: Arc::new(SimModels::new(
            Arc::clone(world),
            Arc::clone(generation),
            dice.fork(),
        )),
        tools: tools::all(world, generation),
        agents: Agents::built_in(Lang::En),
        clock: Arc::clone(clock) as Arc<dyn sortie_core::time::Clock>,
        sinks: Vec::new(),
        worktrees: Arc::new(NoWorktrees),
        hooks: Arc::new(NoHooks),
        skills: Arc::new(NoSkills),
        redactor: sortie_base::redact::Redactor::default(),
    }
}

async fn start_root(runtime: &Runtime, dice: &mut Dice, number: u32) -> Result<RunId, String> {
    let mut new = NewRun::new(format!("root {number}"), "/simulated", "sim");
    new.mode = Mode::Yolo;
    new.priority = *dice.pick(&[Priority::Low, Priority::Normal, Priority::High]);
    if dice.one_in(6) {
        new.timeout = Some(Duration::from_secs(1));
    }
    if dice.one_in(8) {
        new.budget = Budget {
            tokens: Some(60),
            ..Budget::default()
        };
    }
    if dice.one_in(5) {
        new = new.in_background();
    }
    let run = runtime.new_run_id();
    loop {
        match runtime.create_as(run, new.clone()).await {
            Ok(run) => return Ok(run),
            // The disk failed: repeating an admission creates one run.
            Err(RuntimeError::Store(StoreError::Failed { .. })) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// May cancel a random run at a random moment.
fn cancel_something<'a>(
    runtime: &'a Runtime,
    roots: &'a [RunId],
    dice: &mut Dice,
) -> impl Future<Output = Result<(), String>> + 'a {
    let plan = dice
        .one_in(3)
        .then(|| (dice.below(900), dice.below(64) as usize, dice.one_in(2)));
    async move {
        let Some((after_ms, which, any)) = plan else {
            return Ok(());
        };
        tokio::time::sleep(Duration::from_millis(u64::from(after_ms))).await;
        let chosen = if any {
            let all = runtime
                .list(ListFilter::default())
                .await
                .map_err(|error| error.to_string())?;
            all.get(which % all.len().max(1))
                .map(|record| record.run_id)
        } else {
            roots.get(which % roots.len().max(1)).copied()
        };
        if let Some(run) = chosen {
            runtime
                .cancel(run, "the dice said so")
                .await
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// May pause and resume random runs at random moments.
async fn pause_some(runtime: &Runtime, mut dice: Dice) -> Result<(), String> {
    if dice.one_in(2) {
        return Ok(());
    }
    for _ in 0..=dice.below(5) {
        tokio::time::sleep(Duration::from_millis(u64::from(dice.below(200)))).await;
        let all = runtime
            .list(ListFilter {
                statuses: vec![Status::Pending, Status::Running],
                ..ListFilter::default()
            })
            .await
            .map_err(|error| error.to_string())?;
        let which = dice.below(64) as usize % all.len().max(1);
        let pauses = dice.one_in(2);
        if let Some(record) = all.get(which) {
            let changed = if pauses {
                runtime.pause(record.run_id).await
            } else {
                runtime.unpause(record.run_id).await
            };
            unless_over(changed)?;
        }
    }
    Ok(())
}

async fn let_all_go_on(runtime: &Runtime) -> Result<(), String> {
    let all = runtime
        .list(ListFilter::default())
        .await
        .map_err(|error| error.to_string())?;
    for record in all.iter().filter(|record| record.paused) {
        unless_over(runtime.unpause(record.run_id).await)?;
    }
    Ok(())
}

/// The chosen run may have ended meanwhile, or is about to.
fn unless_over(changed: Result<Vec<RunId>, RuntimeError>) -> Result<(), String> {
    match changed {
        Ok(_) | Err(RuntimeError::Store(StoreError::WrongState { .. })) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

async fn all_ended(runtime: &Runtime) -> Result<(), String> {
    loop {
        let stats = runtime
            .stats(ListFilter::default())
            .await
            .map_err(|error| error.to_string())?;
        if stats.pending + stats.running == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The states in which a run may be at the end.
const TERMINAL: [Status; 4] = [
    Status::Completed,
    Status::Failed,
    Status::Timeout,
    Status::Cancelled,
];
