//! The object of a call: the command, the file or the server that its arguments name.

use std::cell::OnceCell;
use std::path::Path;

use sortie_core::agent::DEFAULT_AGENT;
use sortie_shell::Understanding;
use url::Host;

use crate::Call;
use crate::host::{host_of, host_of_url};
use crate::place::Place;
use crate::tool::Names;

/// The kind of object that the calls of a tool have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Command,
    Path,
    Host,
    /// The agent that a call starts.
    Agent,
}

/// The argument of a tool that contains the object of a call.
#[derive(Clone, Copy, Debug)]
struct Subject {
    tool: &'static str,
    kind: Kind,
    argument: &'static str,
    /// Whether the tool searches everything in a folder, by default in the workspace.
    looks_into: bool,
}

/// Every tool whose arguments rules can match.
const SUBJECTS: [Subject; 12] = [
    subject("exec", Kind::Command, "command"),
    subject("bash", Kind::Command, "command"),
    subject("read_file", Kind::Path, "path"),
    subject("write_file", Kind::Path, "path"),
    subject("edit_file", Kind::Path, "path"),
    looking_into("list_dir"),
    looking_into("glob"),
    looking_into("grep"),
    subject("web_fetch", Kind::Host, "url"),
    subject("task", Kind::Agent, "subagent_type"),
    subject("spawn_subagent", Kind::Agent, "agentId"),
    subject("fan_out", Kind::Agent, "agent"),
];

const fn subject(tool: &'static str, kind: Kind, argument: &'static str) -> Subject {
    Subject {
        tool,
        kind,
        argument,
        looks_into: false,
    }
}

const fn looking_into(tool: &'static str) -> Subject {
    Subject {
        looks_into: true,
        ..subject(tool, Kind::Path, "path")
    }
}

/// Returns the kind of object of the tool with this lower-case name.
pub(crate) fn kind_of_name(name: &str) -> Option<Kind> {
    let found = SUBJECTS.iter().find(|subject| subject.tool == name);
    found.map(|subject| subject.kind)
}

/// The real object of a call, after links and redirects.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Real<'a> {
    Path(&'a Path),
    Host(&'a str),
}

/// The object of a call. Each part is parsed only when a rule needs it, and only once.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    call: Call<'a>,
    names: Names<'a>,
    subject: Option<Subject>,
    real: Option<Real<'a>>,
    command: OnceCell<Option<Understanding>>,
    place: OnceCell<Option<Place>>,
    host: OnceCell<Option<Host>>,
}

impl<'a> Object<'a> {
    pub(crate) fn of(call: Call<'a>) -> Self {
        Self::new(call, None)
    }

    /// Creates the object of a call whose real target is known.
    pub(crate) fn really(call: Call<'a>, real: Real<'a>) -> Self {
        Self::new(call, Some(real))
    }

    fn new(call: Call<'a>, real: Option<Real<'a>>) -> Self {
        let names = Names::of(call.tool);
        let subject = SUBJECTS
            .iter()
            .find(|subject| names.any(|name| name == subject.tool));
        Self {
            call,
            names,
            subject: subject.copied(),
            real,
            command: OnceCell::new(),
            place: OnceCell::new(),
            host: OnceCell::new(),
        }
    }

    pub(crate) const fn call(&self) -> &Call<'a> {
        &self.call
    }

    pub(crate) const fn names(&self) -> &Names<'a> {
        &self.names
    }

    /// Returns the kind of the object, if rules can match it.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.subject.map(|subject| subject.kind)
    }

    /// Returns whether the tool searches everything in a folder.
    pub(crate) fn looks_into(&self) -> bool {
        self.subject.is_some_and(|subject| subject.looks_into)
    }

    /// Returns the command of the call; `None` if there is none.
    pub(crate) fn command(&self) -> Option<&Understanding> {
        let read = || self.argument(Kind::Command).map(sortie_shell::read);
        self.command.get_or_init(read).as_ref()
    }

    /// Returns the place that the call uses; `None` if there is none.
    pub(crate) fn place(&self) -> Option<&Place> {
        let find = || match self.real {
            // An empty path is the workspace itself.
            Some(Real::Path(path)) if path.as_os_str().is_empty() => {
                Some(Place::Inside(String::new()))
            }
            Some(Real::Path(path)) => Some(Place::of(self.call.workspace, path)),
            Some(Real::Host(_)) => None,
            None => self.named_place(),
        };
        self.place.get_or_init(find).as_ref()
    }

    /// Returns the host that the call connects to; `None` if there is none.
    pub(crate) fn host(&self) -> Option<&Host> {
        let find = || match self.real {
            Some(Real::Host(host)) => host_of(host),
            Some(Real::Path(_)) => None,
            None => self.argument(Kind::Host).and_then(host_of_url),
        };
        self.host.get_or_init(find).as_ref()
    }

    /// Returns the agent that the call starts; `None` if it starts none.
    pub(crate) fn agent(&self) -> Option<&'a str> {
        let is_spawn = self.kind() == Some(Kind::Agent);
        is_spawn.then(|| self.argument(Kind::Agent).map_or(DEFAULT_AGENT, str::trim))
    }

    fn named_place(&self) -> Option<Place> {
        let is_missing = self.subject.is_some_and(|subject| {
            self.call
                .arguments
                .get(subject.argument)
                .is_none_or(serde_json::Value::is_null)
        });
        if is_missing && self.looks_into() {
            return Some(Place::Inside(String::new()));
        }
        let path = self.argument(Kind::Path)?;
        Some(Place::of(self.call.workspace, Path::new(path)))
    }

    /// Returns the argument that contains the object of the call. The name of an agent alone does not
    /// say what a call would do.
    pub(crate) fn object_argument(&self) -> Option<&'a str> {
        match self.kind().filter(|_| !self.looks_into())? {
            Kind::Agent => None,
            kind @ (Kind::Command | Kind::Path | Kind::Host) => self.argument(kind),
        }
    }

    fn argument(&self, kind: Kind) -> Option<&'a str> {
        let subject = self.subject.filter(|subject| subject.kind == kind)?;
        self.call.arguments.get(subject.argument)?.as_str()
    }
}
