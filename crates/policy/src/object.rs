//! What a call is about: the command, the file or the server that its arguments name.

use std::cell::OnceCell;
use std::path::Path;

use sortie_shell::Understanding;
use url::Host;

use crate::Call;
use crate::host::{host_of, host_of_url};
use crate::place::Place;
use crate::tool::Names;

/// What kind of thing the calls of a tool are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Command,
    Path,
    Host,
}

/// Which argument of a tool says what the call is about.
#[derive(Clone, Copy, Debug)]
struct Subject {
    tool: &'static str,
    kind: Kind,
    argument: &'static str,
    /// The tool looks at everything in a folder, the workspace if none is named.
    looks_into: bool,
}

/// Every tool whose arguments rules can speak about.
const SUBJECTS: [Subject; 9] = [
    subject("exec", Kind::Command, "command"),
    subject("bash", Kind::Command, "command"),
    subject("read_file", Kind::Path, "path"),
    subject("write_file", Kind::Path, "path"),
    subject("edit_file", Kind::Path, "path"),
    looking_into("list_dir"),
    looking_into("glob"),
    looking_into("grep"),
    subject("web_fetch", Kind::Host, "url"),
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

/// What kind of thing the calls of the tool with this name, in lower case, are about.
pub(crate) fn kind_of_name(name: &str) -> Option<Kind> {
    let found = SUBJECTS.iter().find(|subject| subject.tool == name);
    found.map(|subject| subject.kind)
}

/// The thing that is used in the end, where it is known better than by the arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Real<'a> {
    Path(&'a Path),
    Host(&'a str),
}

/// What a call is about. Each part is looked at only when a rule asks for it, and then once.
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

    /// The same call, about something that is known better than by its words.
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

    /// What kind of thing it is about, if rules can speak about it.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.subject.map(|subject| subject.kind)
    }

    /// Whether the tool looks at everything in a folder.
    pub(crate) fn looks_into(&self) -> bool {
        self.subject.is_some_and(|subject| subject.looks_into)
    }

    /// The command it runs; `None` where no command can be found.
    pub(crate) fn command(&self) -> Option<&Understanding> {
        let read = || self.argument(Kind::Command).map(sortie_shell::read);
        self.command.get_or_init(read).as_ref()
    }

    /// The place it uses; `None` where none can be found.
    pub(crate) fn place(&self) -> Option<&Place> {
        let find = || match self.real {
            // The workspace itself, relative to itself.
            Some(Real::Path(path)) if path.as_os_str().is_empty() => {
                Some(Place::Inside(String::new()))
            }
            Some(Real::Path(path)) => Some(Place::of(self.call.workspace, path)),
            Some(Real::Host(_)) => None,
            None => self.place_in_words(),
        };
        self.place.get_or_init(find).as_ref()
    }

    /// The host it asks; `None` where none can be found.
    pub(crate) fn host(&self) -> Option<&Host> {
        let find = || match self.real {
            Some(Real::Host(host)) => host_of(host),
            Some(Real::Path(_)) => None,
            None => self.argument(Kind::Host).and_then(host_of_url),
        };
        self.host.get_or_init(find).as_ref()
    }

    fn place_in_words(&self) -> Option<Place> {
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

    /// The one argument that says what the call is about.
    pub(crate) fn words(&self) -> Option<&'a str> {
        let kind = self.kind().filter(|_| !self.looks_into())?;
        self.argument(kind)
    }

    fn argument(&self, kind: Kind) -> Option<&'a str> {
        let subject = self.subject.filter(|subject| subject.kind == kind)?;
        self.call.arguments.get(subject.argument)?.as_str()
    }
}
