//! The orders of the helper, encoded as arguments of its command line.
//!
//! Orders are carried out from first to last. None gives a right: each takes some away, or arranges
//! a view within a namespace of the helper's own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Ends the orders; the program follows.
pub(crate) const END: &str = "--";

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident $word:literal ($($field:ident : $type:ty),*);)*) => {
        /// One thing that the helper does to itself.
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
    /// Ends when the socket that is its standard input hangs up. The program gets the socket, too,
    /// if so said, because it is another helper; else it gets no input.
    Lifeline "lifeline" (pass_on: bool);
    /// Enters the control group whose list of processes this file is.
    Join "join" (list: PathBuf);
    /// Becomes the subreaper of its descendants, and kills them all when its own supervisor is
    /// gone; if so said, also when the program has ended by itself.
    Adopt "adopt" (at_end: bool);
    /// Leaves the namespaces it was born into; that of the network too, if so said.
    Unshare "unshare" (network: bool);
    /// Is killed together with its parent.
    DieWithParent "die-with-parent" ();
    /// Begins a new root.
    NewRoot "new-root" ();
    /// Shows a folder or a file, not to be changed.
    Read "read" (from: PathBuf, at: PathBuf);
    /// Shows a folder or a file, to be changed.
    Write "write" (from: PathBuf, at: PathBuf);
    /// Makes a folder of its own, in memory.
    Scratch "scratch" (at: PathBuf, size_bytes: u64);
    /// Makes a symbolic link.
    Link "link" (to: PathBuf, at: PathBuf);
    /// Covers a file.
    HideFile "hide-file" (at: PathBuf);
    /// Covers a folder.
    HideFolder "hide-folder" (at: PathBuf);
    /// Shows the processes of its own namespace.
    Processes "processes" ();
    /// Shows the harmless devices.
    Devices "devices" ();
    /// Leaves the old root for good.
    EnterRoot "enter-root" ();
    /// Must find this part of this file system here.
    Part "part" (at: PathBuf, device: OsString, root: OsString);
    /// Must find this very file here.
    Same "same" (at: PathBuf, device: u64, number: u64);
    /// May find this part of this file system here, and nothing else.
    Along "along" (at: PathBuf, device: OsString, root: OsString);
    /// Must find something here that shows nothing.
    Mask "mask" (at: PathBuf);
    /// Looks whether it found all this, and nothing else beneath it.
    Prove "prove" ();
    /// Starts the loopback of its own network.
    Loopback "loopback" ();
    /// Writes a small file.
    Text "text" (at: PathBuf, text: OsString);
    /// Goes to this folder.
    Start "start" (at: PathBuf);
    /// Starts a session, without a terminal.
    Session "session" ();
    /// Sets a limit of the kernel.
    Limit "limit" (name: OsString, value: u64);
    /// Keeps the right to read here.
    MayRead "may-read" (at: PathBuf);
    /// Keeps the right to read and to write here.
    MayWrite "may-write" (at: PathBuf);
    /// Keeps the right to connect to this port.
    MayConnect "may-connect" (port: u64);
    /// Gives up every other right to files, and to ports too if so said. Without Landlock it fails
    /// if that is needed.
    Restrict "restrict" (ports: bool, needed: bool);
    /// Gives up all capabilities and every way to new ones.
    DropPrivileges "drop-privileges" ();
    /// Gives up system calls.
    Filter "filter" (families: OsString);
    /// Is replaced by the program, instead of starting it and waiting for it.
    Become "become" ();
    /// Says what Landlock can do here, and ends.
    Report "report" ();
}

/// A value that is one word.
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
        // A relative path would mean another place after each change of folder.
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

/// The words for these orders and this program.
pub(crate) fn words(orders: &[Order], program: &[OsString]) -> Vec<OsString> {
    let mut words = Vec::new();
    for order in orders {
        order.write(&mut words);
    }
    words.push(END.into());
    words.extend_from_slice(program);
    words
}

/// The orders and the program that the words mean, or the word that means nothing.
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
    fn what_is_written_is_read() {
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
    fn what_means_nothing_is_refused() {
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
