//! The orders of the helper, encoded as its command line arguments.
//!
//! Orders are applied from first to last. None grants a right: each drops some, or builds a view
//! within a namespace of the helper.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Ends the orders; the program follows.
pub(crate) const END: &str = "--";

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident $word:literal ($($field:ident : $type:ty),*);)*) => {
        /// One step that the helper applies to itself.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum Order {
            $($(#[$doc])* $name { $($field: $type),* },)*
        }

        impl Order {
            fn write(&self, words: &mut Vec<OsString>) {
                match self {
                    $(Self::$name { $($field),* } => {
                        words.push($word.into());
                        $(words.push($field.to_word());)*
                    })*
                }
            }

            fn read(word: &OsStr, words: &mut impl Iterator<Item = OsString>) -> Option<Self> {
                match word.to_str()? {
                    $($word => Some(Self::$name {
                        $($field: <$type>::from_word(words.next()?)?),*
                    }),)*
                    _ => None,
                }
            }
        }
    };
}

orders! {
    /// Ends together with this process, which must be the parent.
    Parent "parent" (process: u64);
    /// Ends when the socket that is its standard input hangs up. With `pass_on` the program
    /// inherits the socket, because it is another helper; otherwise it gets no input.
    Lifeline "lifeline" (pass_on: bool);
    /// Enters the control group whose process list is this file.
    Join "join" (list: PathBuf);
    /// Becomes the subreaper of its descendants, and kills them all when its own supervisor is
    /// gone; with `at_end` also when the program has ended by itself.
    Adopt "adopt" (at_end: bool);
    /// Leaves the namespaces that it inherited; with `network` that of the network, too.
    Unshare "unshare" (network: bool);
    /// Is killed together with its parent.
    DieWithParent "die-with-parent" ();
    /// Begins a new root.
    NewRoot "new-root" ();
    /// Mounts a folder or a file read-only.
    Read "read" (from: PathBuf, at: PathBuf);
    /// Mounts a folder or a file writable.
    Write "write" (from: PathBuf, at: PathBuf);
    /// Creates a private folder in memory.
    Scratch "scratch" (at: PathBuf, size_bytes: u64);
    /// Creates a symbolic link.
    Link "link" (to: PathBuf, at: PathBuf);
    /// Covers a file so that it cannot be opened.
    HideFile "hide-file" (at: PathBuf);
    /// Covers a folder so that it cannot be entered.
    HideFolder "hide-folder" (at: PathBuf);
    /// Mounts `/proc` of its own PID namespace.
    Processes "processes" ();
    /// Provides the harmless devices.
    Devices "devices" ();
    /// Detaches the old root permanently.
    EnterRoot "enter-root" ();
    /// Expects this part of this file system here.
    Part "part" (at: PathBuf, device: OsString, root: OsString);
    /// Expects this very file here.
    Same "same" (at: PathBuf, device: u64, number: u64);
    /// Permits only this part of this file system here.
    Along "along" (at: PathBuf, device: OsString, root: OsString);
    /// Expects a mount here that shows no content.
    Mask "mask" (at: PathBuf);
    /// Verifies all expectations, and that no other mount lies beneath them.
    Prove "prove" ();
    /// Brings up the loopback interface of its network namespace.
    Loopback "loopback" ();
    /// Writes a small file.
    Text "text" (at: PathBuf, text: OsString);
    /// Changes to this working directory.
    Start "start" (at: PathBuf);
    /// Starts a session without a terminal.
    Session "session" ();
    /// Sets a resource limit.
    Limit "limit" (name: OsString, value: u64);
    /// Keeps the right to read here.
    MayRead "may-read" (at: PathBuf);
    /// Keeps the right to read and to write here.
    MayWrite "may-write" (at: PathBuf);
    /// Keeps the right to connect to this port.
    MayConnect "may-connect" (port: u64);
    /// Drops every other right to files; with `ports` to ports, too. With `needed` it fails if
    /// Landlock is unavailable.
    Restrict "restrict" (ports: bool, needed: bool);
    /// Drops all capabilities and every way to gain new ones.
    DropPrivileges "drop-privileges" ();
    /// Installs the system call filter.
    Filter "filter" (families: OsString);
    /// Is replaced by the program, instead of starting it and waiting for it.
    Become "become" ();
    /// Prints the Landlock version of the kernel, and exits.
    Report "report" ();
}

/// A value that is encoded as one argument.
trait Word: Sized {
    fn to_word(&self) -> OsString;
    fn from_word(word: OsString) -> Option<Self>;
}

impl Word for OsString {
    fn to_word(&self) -> OsString {
        self.clone()
    }
    fn from_word(word: OsString) -> Option<Self> {
        Some(word)
    }
}

impl Word for PathBuf {
    fn to_word(&self) -> OsString {
        self.clone().into_os_string()
    }
    fn from_word(word: OsString) -> Option<Self> {
        // A relative path would name another place after each change of directory.
        word.as_bytes().starts_with(b"/").then(|| word.into())
    }
}

impl Word for u64 {
    fn to_word(&self) -> OsString {
        self.to_string().into()
    }
    fn from_word(word: OsString) -> Option<Self> {
        word.to_str()?.parse().ok()
    }
}

impl Word for bool {
    fn to_word(&self) -> OsString {
        if *self { "yes" } else { "no" }.into()
    }
    fn from_word(word: OsString) -> Option<Self> {
        match word.to_str()? {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        }
    }
}

/// Encodes these orders and this program as arguments.
pub(crate) fn words(orders: &[Order], program: &[OsString]) -> Vec<OsString> {
    let mut words = Vec::new();
    for order in orders {
        order.write(&mut words);
    }
    words.push(END.into());
    words.extend_from_slice(program);
    words
}

/// Parses the orders and the program, or returns the argument that is invalid.
pub(crate) fn parse(
    mut words: impl Iterator<Item = OsString>,
) -> Result<(Vec<Order>, Vec<OsString>), OsString> {
    let mut orders = Vec::new();
    loop {
        let Some(word) = words.next() else {
            return Err(OsString::new());
        };
        if word == END {
            return Ok((orders, words.collect()));
        }
        orders.push(Order::read(&word, &mut words).ok_or(word)?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(orders: &[Order], program: &[&str]) {
        let program: Vec<OsString> = program.iter().map(Into::into).collect();
        let read = parse(words(orders, &program).into_iter());
        assert_eq!(read, Ok((orders.to_vec(), program)));
    }

    #[test]
    fn orders_survive_a_round_trip() {
        let odd = PathBuf::from(OsStr::from_bytes(b"/a b/\xff\n--/\xe5\xae\x89"));
        check(&[], &[]);
        check(&[], &["--", "restrict"]);
        check(
            &[
                Order::Parent { process: 7 },
                Order::Lifeline { pass_on: true },
                Order::Read {
                    from: odd.clone(),
                    at: odd.clone(),
                },
                Order::Text {
                    at: odd,
                    text: "--".into(),
                },
                Order::Restrict {
                    ports: true,
                    needed: false,
                },
            ],
            &["sh", "-c", "--"],
        );
    }

    #[test]
    fn invalid_orders_are_refused() {
        for words in [
            &["restrict"][..],
            &["restrict", "yes", "perhaps", "--"],
            &["may-write", "relative", "--"],
            &["limit", "cpu", "-1", "--"],
            &["allow-all", "--", "sh"],
            &[],
        ] {
            let read = parse(words.iter().map(OsString::from));
            assert!(read.is_err(), "{words:?}");
        }
    }
}
