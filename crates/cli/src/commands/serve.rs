//! `sortie serve`.

mod host;

use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use sortie::{PendingTelemetry, Sortie};
use sortie_server::{ServerConfig, ServerLimits, TenantConfig};
use sortie_text::t;
use tokio_util::sync::CancellationToken;

use crate::choice;
use crate::exit::Exit;
use crate::open_files;
use crate::output;
use crate::private;
use crate::problem::Problem;
use crate::screen::Screen;
use crate::serving::{self, Notice, ServerPresence};
use crate::settings::Settings;
use crate::signals::{Signal, Signals};
use host::Doors;

/// Executes all runs in one process and serves commands, programs and browsers
///
/// Locks the store, continues what was left unfinished, and listens. Commands that are started
/// meanwhile find the server and work through it. Every request needs an API key: the first start
/// writes one for this machine, `sortie keys create` makes others, and `sortie open` prints a link
/// for a browser. Ctrl-C or SIGTERM puts runs back into the queue; a second Ctrl-C exits at once.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on; port 0 takes any free port [default: server.listen]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Host name by which clients reach the server, besides its address; can be repeated
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Most tasks that the server executes at once in each lane; 0 leaves all to workers [default: as
    /// configured]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    limit: Option<u32>,
    /// Opens the web page in a browser
    #[arg(long)]
    open: bool,
    /// Prints the address of the server as a line of JSON
    #[arg(long)]
    json: bool,
}

impl Serve {
    pub(crate) async fn run(
        self,
        settings: &Settings,
        screen: &Arc<Screen>,
    ) -> Result<Exit, Problem> {
        settings.check_configuration()?;
        private::refuse_leaked(settings, &[serving::token_path(&settings.options.home)])?;
        let listen = self.listen.as_deref();
        let listen = listen.unwrap_or(&settings.configuration.config().server.listen);
        let listen = address(settings, listen)?;
        let has_workers = settings.options.config.store.is_some();
        if self.limit == Some(0) && !has_workers {
            return Err(Problem::Typed(t!(
                settings.lang,
                "serve-limit-needs-workers"
            )));
        }
        let (default_model, small_model) = choice::servers_models(settings).await;
        let config = server_config(settings, listen, &self.host, default_model)?;
        refuse_second(settings).await?;
        // Fails before any run is resumed. If another process binds the port in between, the later
        // bind reports it.
        drop(try_to_listen(listen)?);
        // With the usual limit, clients that only connect could use up the descriptors that the
        // store needs.
        open_files::raise().map_err(Problem::Process)?;
        let mut signals = Signals::listen().map_err(Problem::Process)?;
        let store = settings.options.open_store()?;
        let mut notice = Notice::starting(&settings.options.home, &store.owner, config.proof)
            .map_err(Problem::Process)?;
        #[cfg(feature = "crash-points")]
        settings.arm_crash_points()?;
        // Approvers reply through the API, so calls that need approval wait for them.
        let builder = settings
            .builder()
            .small_model(small_model)
            .approver(true)
            .lane_limit(self.limit)
            .next_turns_only(false);
        let sortie = builder.build_on(store).await?;
        let served = Served::start(settings, config, sortie, self.wants_link(settings)).await?;
        notice.listening(served.address).map_err(Problem::Process)?;
        self.print(settings, screen, &served)?;
        let (ended, telemetry) = served.until_signal(settings, screen, &mut signals).await;
        // The store is free, so another server may start before telemetry is flushed.
        drop(notice);
        if let Some(telemetry) = telemetry {
            telemetry.flush().await;
        }
        ended
    }

    /// Prints the address of the server; on a terminal with a login link, which never appears in a
    /// log.
    fn print(&self, settings: &Settings, screen: &Screen, served: &Served) -> Result<(), Problem> {
        let lang = settings.lang;
        let address = format!("http://{}", served.address);
        if self.json {
            output::json_line(&json!({
                "address": served.address,
                "url": address,
                "pid": std::process::id(),
            }))?;
        } else {
            screen.line(&t!(
                lang,
                "serve-listening",
                home = settings.options.home.display().to_string(),
                address = &address
            ));
        }
        let found = served.sortie.runtime().recovered();
        let count = found.resumed.len() as u64 + found.queued;
        if count > 0 {
            screen.line(&t!(lang, "serve-resumed", count = count));
        }
        if !served.address.ip().is_loopback() {
            screen.line(&t!(lang, "serve-not-loopback"));
        }
        if served.lacks_model {
            screen.line(&t!(lang, "serve-no-model"));
        }
        if !sortie_server::page::is_built() {
            screen.line(&t!(lang, "serve-no-page"));
        }
        if let Some(link) = &served.link {
            if settings.terminal.progress {
                screen.line(&t!(lang, "serve-link", url = link));
            }
            if self.open {
                super::open::start_browser(settings, link);
            }
        } else if !self.json {
            screen.line(&t!(lang, "serve-open"));
        }
        Ok(())
    }

    /// Whether to create a login link: a user sees it on stderr, or `--open` starts a browser.
    const fn wants_link(&self, settings: &Settings) -> bool {
        self.open || (settings.terminal.progress && !self.json)
    }
}

/// A server that listens, and the runtime behind it.
struct Served {
    address: SocketAddr,
    /// A single-use login link for the user at this terminal.
    link: Option<String>,
    /// Whether no default model was found, so that tasks must name theirs.
    lacks_model: bool,
    sortie: Sortie,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<Result<(), sortie_server::ServeError>>,
}

impl Served {
    async fn start(
        settings: &Settings,
        config: ServerConfig,
        sortie: Sortie,
        link: bool,
    ) -> Result<Self, Problem> {
        let listen = config.listen;
        let lacks_model = config.default_model.is_empty();
        let doors = Arc::new(Doors::of(settings));
        let bound = sortie.bind_server(config, doors).await;
        let bound = bound.and_then(|server| {
            let link = link.then(|| server.login_link()).transpose()?;
            Ok((server, link))
        });
        let (server, link) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                sortie.shut_down().await;
                return Err(not_bound(listen, error));
            }
        };
        let stop = CancellationToken::new();
        Ok(Self {
            address: server.address(),
            link,
            lacks_model,
            sortie,
            serving: tokio::spawn(server.serve(stop.clone())),
            stop,
        })
    }

    /// Serves until a signal arrives. Returns how that ended, and the telemetry that is still to be
    /// flushed; none if a second interrupt cut the shutdown short.
    async fn until_signal(
        mut self,
        settings: &Settings,
        screen: &Screen,
        signals: &mut Signals,
    ) -> (Result<Exit, Problem>, Option<PendingTelemetry>) {
        tokio::select! {
            ended = &mut self.serving => {
                let telemetry = self.sortie.release_store().await;
                return (Err(ended_by_itself(ended)), Some(telemetry));
            }
            Signal::Interrupt | Signal::Terminate = signals.next() => {}
        }
        screen.line(&t!(settings.lang, "serve-stopping"));
        let stopping = async {
            self.stop.cancel();
            let ended = (&mut self.serving).await;
            (ended, self.sortie.release_store().await)
        };
        tokio::select! {
            (ended, telemetry) = stopping => {
                screen.line(&t!(settings.lang, "serve-stopped"));
                let ended = match ended {
                    Ok(Ok(())) => Ok(Exit::Ok),
                    failed => Err(ended_by_itself(failed)),
                };
                (ended, Some(telemetry))
            }
            () = second_interrupt(signals) => {
                output::note(&t!(settings.lang, "abandoned"));
                (Ok(Exit::Cancelled), None)
            }
        }
    }
}

/// Waits for a second Ctrl-C, which skips the rest of the shutdown.
async fn second_interrupt(signals: &mut Signals) {
    loop {
        match signals.next().await {
            Signal::Interrupt => return,
            // Service managers may send SIGTERM more than once.
            Signal::Terminate => {}
        }
    }
}

fn ended_by_itself(
    ended: Result<Result<(), sortie_server::ServeError>, tokio::task::JoinError>,
) -> Problem {
    match ended {
        Ok(Ok(())) => Problem::Serve("the server stopped unexpectedly".into()),
        Ok(Err(error)) => Problem::Serve(error.into()),
        Err(error) => Problem::Serve(error.into()),
    }
}

fn not_bound(listen: SocketAddr, error: sortie_server::ServeError) -> Problem {
    match error {
        sortie_server::ServeError::Listen { source, .. } => Problem::Listen {
            address: listen.to_string(),
            source,
        },
        error @ (sortie_server::ServeError::Keys(_) | sortie_server::ServeError::Random(_)) => {
            Problem::Serve(error.into())
        }
    }
}

fn address(settings: &Settings, text: &str) -> Result<SocketAddr, Problem> {
    serving::listen_address(text).ok_or_else(|| {
        Problem::Typed(t!(
            settings.lang,
            "serve-bad-listen",
            text = format!("{text:?}")
        ))
    })
}

/// Fails with the address of a server that already runs, which helps more than the owner of the
/// lock.
async fn refuse_second(settings: &Settings) -> Result<(), Problem> {
    let lang = settings.lang;
    match serving::wait_for_dead_owner(&settings.options.home)
        .await
        .map_err(Problem::Process)?
    {
        ServerPresence::Absent => Ok(()),
        ServerPresence::Starting(file) => Err(Problem::Refused(t!(
            lang,
            "serve-already-starting",
            pid = file.pid.to_string()
        ))),
        ServerPresence::Listening { file, address } => Err(Problem::ServerRuns {
            address: address.to_string(),
            pid: file.pid,
        }),
    }
}

fn try_to_listen(address: SocketAddr) -> Result<TcpListener, Problem> {
    TcpListener::bind(address).map_err(|source| Problem::Listen {
        address: address.to_string(),
        source,
    })
}

fn server_config(
    settings: &Settings,
    listen: SocketAddr,
    hosts: &[String],
    default_model: String,
) -> Result<ServerConfig, Problem> {
    let configured = &settings.configuration.config().server;
    let mut limits = ServerLimits::default();
    let rate =
        |given: Option<u32>, usual: NonZeroU32| given.and_then(NonZeroU32::new).unwrap_or(usual);
    limits.rate.per_second = rate(configured.rate.per_second, limits.rate.per_second);
    limits.rate.burst = rate(configured.rate.burst, limits.rate.burst);
    let folders = |names: &[String]| -> Vec<PathBuf> {
        names.iter().map(|name| folder(settings, name)).collect()
    };
    let mut tenants = std::collections::BTreeMap::new();
    for (name, tenant) in &configured.tenants {
        let parsed = name
            .parse()
            .map_err(|error: sortie_core::tenant::BadTenant| {
                let problem = error.to_string();
                Problem::Typed(t!(
                    settings.lang,
                    "serve-bad-tenant",
                    name = name,
                    problem = problem
                ))
            })?;
        let workspaces = folders(tenant.workspaces.as_deref().unwrap_or_default());
        tenants.insert(parsed, TenantConfig { workspaces });
    }
    let here = || settings.workspace(None).map(|folder| vec![folder]);
    Ok(ServerConfig {
        listen,
        hosts: configured.hosts.iter().chain(hosts).cloned().collect(),
        workspaces: configured
            .workspaces
            .as_deref()
            .map_or_else(here, |names| Ok(folders(names)))?,
        tenants,
        home: settings.options.home.clone(),
        lang: settings.lang,
        default_model,
        default_mode: settings.configuration.config().approvals.mode,
        proof: sortie_server::new_proof().map_err(|error| not_bound(listen, error.into()))?,
        limits,
    })
}

/// Returns the path of a configured folder; `~/` is the home of the user who runs the server.
fn folder(settings: &Settings, name: &str) -> PathBuf {
    match (
        name.strip_prefix("~/"),
        settings.options.environment.user_home(),
    ) {
        (Some(below), Some(home)) => home.join(below),
        (Some(_), None) | (None, _) => settings.options.workspace.join(name),
    }
}
