//! Errors of commands: message, causes, hint and exit code.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sortie_base::nearest::nearest;
use sortie_base::private_files::FileRefusal;
use sortie_config::{ConfigError, EditError, TrustError};
use sortie_core::id::{MIN_PREFIX_CHARS, RunId};
use sortie_core::ports::model::ModelError;
use sortie_core::ports::store::StoreError;
use sortie_core::run::MAX_TASK_CHARS;
use sortie_core::words::Lang;
use sortie_protocol::client::ClientError;
use sortie_runtime::{Divergence, RuntimeError};
#[cfg(feature = "server")]
use sortie_server::keys::KeyError;
use sortie_text::{one_line, strip_sequences, t, truncate_columns};

use crate::exit::Exit;
use crate::output;
use crate::private;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The runtime refused or failed.
    Runtime(RuntimeError),
    /// The model cannot be used.
    Model(ModelError),
    /// There is no agent of this name.
    NoAgent {
        name: String,
        /// The names of all agents.
        known: String,
    },
    /// A prefix of an id is too short.
    ShortId(String),
    /// Neither flag nor environment sets a home folder.
    NoHome,
    /// The workspace cannot be used.
    Workspace { path: PathBuf, source: io::Error },
    /// The home folder cannot be used.
    Home { path: PathBuf, source: io::Error },
    /// A file could not be written.
    File { path: PathBuf, source: io::Error },
    /// The instruction could not be read.
    Input(io::Error),
    /// The instruction is empty.
    EmptyInput,
    /// The instruction is too long.
    LongInput,
    /// The configuration of the web tools is invalid.
    Web(String),
    /// The address of a sink is invalid.
    Sink(String),
    /// An argument is invalid; the message explains why.
    Typed(String),
    /// An object does not exist; the message says where to look.
    Nothing(String),
    /// The operation is refused; the message says why and what to do.
    Refused(String),
    /// A worktree was requested outside of a git repository.
    NoRepository { path: PathBuf },
    /// A server already listens for this store.
    ServerRuns { address: String, pid: u32 },
    /// Writing to stdout failed.
    Output(io::Error),
    /// The operating system refused something that the process needs.
    Process(io::Error),
    /// The configuration is invalid.
    Config(Arc<ConfigError>),
    /// A key could not be written.
    ConfigEdit(EditError),
    /// The list of trusted folders cannot be used.
    Trust(TrustError),
    /// No model is configured, and none was found.
    NoModel,
    /// A prompt to a model failed.
    Unanswered(ModelError),
    /// A model did not answer in time.
    NoAnswer { model: String, seconds: u64 },
    /// A file with a JSON schema cannot be used.
    Schema { path: PathBuf, problem: String },
    /// A request to the server failed.
    Server(ClientError),
    /// The token of this machine's administrator cannot be read.
    Token { path: PathBuf, source: io::Error },
    /// Other users could have changed a file, or its owner and mode are unknown.
    Unsafe(FileRefusal),
    /// Other users could have read a secret.
    Leaked {
        path: PathBuf,
        /// The command that revokes the secret.
        remedy: String,
    },
    /// The server cannot listen on the address.
    Listen { address: String, source: io::Error },
    #[cfg(feature = "server")]
    /// The file of keys cannot be used.
    Keys(KeyError),
    /// The server stopped unexpectedly.
    Serve(Box<dyn Error + Send + Sync>),
    /// The journal was deleted.
    NothingToReplay(RunId),
    /// The replay diverges from the journal.
    Replay(Box<Divergence>),
    /// The crash plan of a test is invalid.
    #[cfg(feature = "crash-points")]
    CrashPlan(String),
}

impl From<Box<Divergence>> for Problem {
    fn from(divergence: Box<Divergence>) -> Self {
        Self::Replay(divergence)
    }
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Self {
        Self::Server(error)
    }
}

impl From<FileRefusal> for Problem {
    fn from(refusal: FileRefusal) -> Self {
        Self::Unsafe(refusal)
    }
}

impl From<RuntimeError> for Problem {
    fn from(error: RuntimeError) -> Self {
        Self::Runtime(error)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::Runtime(error.into())
    }
}

impl From<sortie::Error> for Problem {
    fn from(error: sortie::Error) -> Self {
        match error {
            sortie::Error::Store(error) => Self::from(error),
            sortie::Error::Refused(refusal) => Self::Runtime(RuntimeError::Refused(refusal)),
            sortie::Error::Tools(error) => Self::Runtime(error.into()),
            sortie::Error::Model(error) => Self::Model(error),
            sortie::Error::NoModel => Self::NoModel,
            sortie::Error::NoHome => Self::NoHome,
            sortie::Error::Workspace { path, source } => Self::Workspace { path, source },
            sortie::Error::UnknownAgent { name, known } => Self::NoAgent { name, known },
            sortie::Error::Web(sentence) => Self::Web(sentence),
            sortie::Error::Io(error) => Self::Process(error),
            error @ sortie::Error::Tenant(_) | error => {
                Self::Refused(sortie_core::error::with_causes(&error))
            }
        }
    }
}

impl From<ModelError> for Problem {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

/// The message of an error.
struct ErrorText {
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
}

impl Problem {
    /// Prints the error on stderr with its causes and a hint; returns the exit code.
    pub(crate) fn report(&self, lang: Lang) -> Exit {
        if self.is_closed_pipe() {
            return Exit::Ok;
        }
        for line in self.lines(lang) {
            output::note(&line);
        }
        self.exit()
    }

    /// Returns the error, its causes and a hint, one line each.
    pub(crate) fn lines(&self, lang: Lang) -> Vec<String> {
        let words = self.words(lang);
        let mut lines = vec![first_line(lang, &words.message)];
        for cause in words.causes {
            lines.push(t!(lang, "error-cause", cause = strip_sequences(&cause)));
        }
        if let Some(hint) = words.hint {
            lines.push(t!(lang, "error-hint", hint = hint));
        }
        lines
    }

    /// Returns the message without causes and hint.
    pub(crate) fn text(&self, lang: Lang) -> String {
        self.words(lang).message
    }

    /// Whether the reader of stdout closed it, which is no error.
    fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Runtime(RuntimeError::Refused(_)) => Exit::Refused,
            Self::Runtime(RuntimeError::Store(error)) => match error {
                StoreError::NotFound(_) => Exit::NotFound,
                StoreError::Ambiguous { .. } => Exit::Usage,
                StoreError::WrongState { .. } => Exit::Refused,
                StoreError::Fenced { .. }
                | StoreError::NotNext { .. }
                | StoreError::Damaged { .. }
                | StoreError::Locked { .. }
                | StoreError::Failed { .. } => Exit::Store,
            },
            Self::Server(error) => server_exit(error),
            #[cfg(feature = "server")]
            Self::Keys(_) => Exit::Store,
            Self::Token { .. } | Self::Unsafe(_) | Self::Leaked { .. } => Exit::Store,
            Self::NoAgent { .. } | Self::Nothing(_) => Exit::NotFound,
            Self::Refused(_) | Self::ServerRuns { .. } => Exit::Refused,
            Self::Model(_)
            | Self::ShortId(_)
            | Self::NoHome
            | Self::Home { .. }
            | Self::Workspace { .. }
            | Self::NoRepository { .. }
            | Self::Input(_)
            | Self::EmptyInput
            | Self::LongInput
            | Self::Web(_)
            | Self::Sink(_)
            | Self::Typed(_)
            | Self::Config(_)
            | Self::ConfigEdit(_)
            | Self::Trust(_)
            | Self::NoModel
            | Self::Listen { .. }
            | Self::Schema { .. } => Exit::Usage,
            Self::NothingToReplay(_) => Exit::NotFound,
            Self::Replay(_) | Self::Unanswered(_) | Self::NoAnswer { .. } => Exit::Failed,
            #[cfg(feature = "crash-points")]
            Self::CrashPlan(_) => Exit::Usage,
            Self::Runtime(RuntimeError::Toolbox(_))
            | Self::Output(_)
            | Self::File { .. }
            | Self::Process(_)
            | Self::Serve(_) => Exit::Failed,
        }
    }

    fn words(&self, lang: Lang) -> ErrorText {
        let plain = |message: String| ErrorText {
            message,
            causes: Vec::new(),
            hint: None,
        };
        let hinted = |message: String, hint: String| ErrorText {
            message,
            causes: Vec::new(),
            hint: Some(hint),
        };
        match self {
            Self::Runtime(RuntimeError::Refused(refusal)) => plain(refusal.message.clone()),
            Self::Runtime(RuntimeError::Store(error)) => store_words(lang, error),
            Self::Runtime(RuntimeError::Toolbox(error)) => plain(error.to_string()),
            Self::Model(error) => hinted(
                t!(lang, "error-model", message = &error.message),
                t!(lang, "hint-model"),
            ),
            Self::NoAgent { name, known } => hinted(
                match nearest(name, known.split(", ")) {
                    Some(near) => t!(lang, "error-no-agent-near", name = name, near = near),
                    None => t!(lang, "error-no-agent", name = name),
                },
                t!(lang, "hint-no-agent", known = known),
            ),
            Self::ShortId(typed) => hinted(
                t!(lang, "error-short-id", id = typed, min = MIN_PREFIX_CHARS),
                t!(lang, "hint-id"),
            ),
            Self::NoHome => hinted(t!(lang, "error-no-home"), t!(lang, "hint-no-home")),
            Self::Workspace { path, source } => ErrorText {
                message: t!(lang, "error-workspace", path = path.display().to_string()),
                causes: chain(source),
                hint: Some(t!(lang, "hint-workspace")),
            },
            Self::Home { path, source } => ErrorText {
                message: t!(lang, "error-home", path = path.display().to_string()),
                causes: vec![os_words(source)],
                hint: Some(t!(lang, "hint-home")),
            },
            Self::File { path, source } => ErrorText {
                message: t!(lang, "error-file", path = path.display().to_string()),
                causes: vec![os_words(source)],
                hint: None,
            },
            Self::Input(source) => ErrorText {
                message: t!(lang, "error-input"),
                causes: chain(source),
                hint: None,
            },
            Self::EmptyInput => hinted(t!(lang, "error-empty-input"), t!(lang, "hint-empty-input")),
            Self::LongInput => hinted(
                t!(lang, "error-long-input", max = MAX_TASK_CHARS),
                t!(lang, "hint-long-input"),
            ),
            Self::Web(why) => hinted(t!(lang, "error-web", why = why), t!(lang, "hint-web")),
            Self::Sink(address) => hinted(
                t!(lang, "error-sink", address = address),
                t!(lang, "hint-sink"),
            ),
            Self::Typed(sentence) | Self::Nothing(sentence) | Self::Refused(sentence) => {
                plain(sentence.clone())
            }
            Self::NoRepository { path } => hinted(
                t!(
                    lang,
                    "error-no-repository",
                    path = path.display().to_string()
                ),
                t!(lang, "hint-no-repository"),
            ),
            Self::ServerRuns { address, pid } => hinted(
                t!(
                    lang,
                    "serve-already",
                    address = address,
                    pid = pid.to_string()
                ),
                t!(lang, "hint-server-runs"),
            ),
            Self::Output(source) => ErrorText {
                message: t!(lang, "error-output"),
                causes: chain(source),
                hint: None,
            },
            Self::Process(source) => ErrorText {
                message: t!(lang, "error-process"),
                causes: chain(source),
                hint: None,
            },
            Self::Config(error) => ErrorText {
                message: t!(lang, "error-config", problem = error.to_string()),
                causes: error.source().map(chain).unwrap_or_default(),
                hint: Some(t!(lang, "hint-config")),
            },
            Self::ConfigEdit(error) => ErrorText {
                message: error.to_string(),
                causes: error.source().map(chain).unwrap_or_default(),
                hint: Some(t!(lang, "hint-config")),
            },
            Self::Trust(error) => ErrorText {
                message: error.to_string(),
                causes: error.source().map(chain).unwrap_or_default(),
                hint: None,
            },
            Self::NoModel => hinted(t!(lang, "error-no-model"), t!(lang, "hint-no-model")),
            Self::Unanswered(error) => hinted(
                t!(lang, "error-unanswered", message = &error.message),
                t!(lang, "hint-model"),
            ),
            Self::NoAnswer { model, seconds } => plain(t!(
                lang,
                "error-no-answer",
                model = model,
                seconds = *seconds
            )),
            Self::Schema { path, problem } => plain(t!(
                lang,
                "error-schema",
                path = path.display().to_string(),
                problem = problem
            )),
            Self::Server(error) => server_words(lang, error),
            Self::Token { path, source } => ErrorText {
                message: t!(lang, "error-token", path = path.display().to_string()),
                causes: chain(source),
                hint: Some(t!(lang, "hint-token")),
            },
            Self::Unsafe(FileRefusal::Unsafe(found)) => hinted(
                t!(
                    lang,
                    "error-unsafe",
                    path = found.path.display().to_string(),
                    danger = private::danger_words(lang, found.danger)
                ),
                private::danger_todo(lang, &found.path, found.danger),
            ),
            Self::Unsafe(refusal @ FileRefusal::Unknown { source, .. }) => ErrorText {
                message: refusal.to_string(),
                causes: chain(source),
                hint: None,
            },
            Self::Leaked { path, remedy } => hinted(
                t!(lang, "error-leaked", path = path.display().to_string()),
                remedy.clone(),
            ),
            Self::Listen { address, source } => ErrorText {
                message: t!(lang, "error-listen", address = address),
                causes: chain(source),
                hint: Some(t!(lang, "hint-listen")),
            },
            #[cfg(feature = "server")]
            Self::Keys(error) => ErrorText {
                message: error.to_string(),
                causes: error.source().map(chain).unwrap_or_default(),
                hint: None,
            },
            Self::Serve(error) => ErrorText {
                message: t!(lang, "error-serve"),
                causes: chain(&**error),
                hint: None,
            },
            Self::NothingToReplay(run) => {
                plain(t!(lang, "error-nothing-to-replay", id = run.to_string()))
            }
            Self::Replay(divergence) => plain(t!(
                lang,
                "error-replay",
                id = divergence.run.to_string(),
                seq = divergence.seq.to_string(),
                recorded = shortened(&divergence.recorded),
                replayed = shortened(&divergence.replayed)
            )),
            #[cfg(feature = "crash-points")]
            Self::CrashPlan(sentence) => plain(sentence.clone()),
        }
    }
}

/// Returns the exit code for an error response of the server.
fn server_exit(error: &ClientError) -> Exit {
    match error.slug() {
        Some("not-found") => Exit::NotFound,
        Some("bad-request" | "ambiguous-id" | "too-large" | "unsupported-media-type") => {
            Exit::Usage
        }
        Some("unauthorized" | "unavailable" | "timeout" | "too-many-requests" | "misdirected") => {
            Exit::Store
        }
        Some("internal") => Exit::Failed,
        Some(_) => Exit::Refused,
        None => Exit::Store,
    }
}

fn server_words(lang: Lang, error: &ClientError) -> ErrorText {
    match error {
        ClientError::Unverified { address } => ErrorText {
            message: t!(lang, "error-stranger", address = address.to_string()),
            causes: Vec::new(),
            hint: Some(t!(lang, "hint-stranger")),
        },
        ClientError::Refused { problem, .. } => ErrorText {
            message: problem.detail.clone(),
            causes: Vec::new(),
            hint: (problem.slug() == "unauthorized").then(|| t!(lang, "hint-token")),
        },
        ClientError::Unreachable { .. }
        | ClientError::Timeout { .. }
        | ClientError::Unexpected { .. }
        | ClientError::BadToken
        | ClientError::NoRandomness
        | ClientError::Setup(_) => ErrorText {
            message: t!(lang, "error-server", problem = error.to_string()),
            causes: error.source().map(chain).unwrap_or_default(),
            hint: Some(t!(lang, "hint-server")),
        },
    }
}

/// Truncates an entry of a journal, which can be as long as a file.
fn shortened(entry: &str) -> String {
    const COLUMNS: usize = 400;
    truncate_columns(&one_line(entry), COLUMNS)
}

fn store_words(lang: Lang, error: &StoreError) -> ErrorText {
    let (message, hint) = match error {
        StoreError::Locked { owner } => (
            t!(lang, "error-locked", owner = strip_sequences(owner)),
            Some(t!(lang, "hint-locked")),
        ),
        StoreError::NotFound(id) => (
            t!(lang, "error-not-found", id = id),
            Some(t!(lang, "hint-id")),
        ),
        StoreError::Ambiguous { prefix, count } => (
            t!(lang, "error-ambiguous", prefix = prefix, count = *count),
            Some(t!(lang, "hint-id")),
        ),
        StoreError::Damaged { run, seq, what } => (
            t!(
                lang,
                "error-damaged",
                id = run.to_string(),
                seq = seq.to_string(),
                what = what
            ),
            Some(t!(lang, "hint-damaged")),
        ),
        StoreError::WrongState { run, status, what } => (
            t!(
                lang,
                "error-wrong-state",
                id = run.to_string(),
                status = status.as_str(),
                what = *what
            ),
            None,
        ),
        StoreError::Failed { doing, .. } => (
            t!(lang, "error-store", doing = *doing),
            Some(t!(lang, "hint-store")),
        ),
        StoreError::Fenced { run } | StoreError::NotNext { run, .. } => {
            (t!(lang, "error-fenced", id = run.to_string()), None)
        }
    };
    ErrorText {
        message,
        causes: error.source().map(chain).unwrap_or_default(),
        hint,
    }
}

/// Returns the first line, with `error:` unless the message begins with it.
fn first_line(lang: Lang, message: &str) -> String {
    let message = strip_sequences(message);
    let begins = |word: &str| {
        message
            .get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    if begins("error: ") || begins("错误：") {
        message
    } else {
        t!(lang, "error-line", message = message)
    }
}

/// Returns the cause of a failed system call, without its number.
fn os_words(error: &io::Error) -> String {
    let words = error.to_string();
    let number = words.find(" (os error");
    words[..number.unwrap_or(words.len())].to_lowercase()
}

/// Returns the messages of an error and all its causes.
pub(crate) fn chain(error: &dyn Error) -> Vec<String> {
    let mut words = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        words.push(cause.to_string());
        source = cause.source();
    }
    words
}
