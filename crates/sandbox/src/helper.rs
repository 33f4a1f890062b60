//! The hidden command: carries out its orders on itself, and then starts the program.

mod files;
mod filter;
mod landlock;
mod loopback;
mod namespaces;
mod privileges;
mod program;
mod proof;
mod root;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::fd::OwnedFd;

use crate::orders::{self, Order};

/// The exit code of a helper that could not do what it was told. The program was not started.
const REFUSED: u8 = 125;

/// Carries out the orders in the words, in this process, and runs the program that follows them.
///
/// It must be called before this process has any other thread: rights are given up by thread.
pub fn run_helper(words: impl Iterator<Item = OsString>) -> ExitCode {
    obey(words).unwrap_or_else(|problem| {
        eprintln!("sortie sandbox: {problem}");
        ExitCode::from(REFUSED)
    })
}

/// Why a helper did not go on.
#[derive(Debug, thiserror::Error)]
enum Problem {
    /// The words are not ours.
    #[error("these orders make no sense, at {0:?}")]
    Words(OsString),
    /// An order failed.
    #[error("{order} failed: {cause}")]
    Order {
        /// Which one.
        order: String,
        /// Why.
        cause: io::Error,
    },
    /// There is nothing to run.
    #[error("there is no program to start")]
    NoProgram,
}

/// What the orders so far have gathered.
#[derive(Debug, Default)]
struct Gathered {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    ports: Vec<u16>,
    limits: Vec<(String, u64)>,
    parent: Option<OwnedFd>,
    adopts: bool,
    mounts: root::Mounts,
    promises: proof::Promises,
}

fn obey(words: impl Iterator<Item = OsString>) -> Result<ExitCode, Problem> {
    files::close_inherited();
    let (orders, program) = orders::parse(words).map_err(Problem::Words)?;
    let mut gathered = Gathered::default();
    for order in orders {
        if order == (Order::Report {}) {
            println!("landlock {}", landlock::version());
            return Ok(ExitCode::SUCCESS);
        }
        let named = format!("{order:?}");
        carry_out(order, &mut gathered).map_err(|cause| Problem::Order {
            order: named,
            cause,
        })?;
    }
    program::run(&program, &gathered)
}

fn carry_out(order: Order, gathered: &mut Gathered) -> io::Result<()> {
    match order {
        Order::Parent { process } => gathered.parent = Some(program::hold_parent(process)?),
        Order::Join { list } => files::write_existing(&list, "0")?,
        Order::Adopt {} => {
            let own = rustix::process::getpid();
            rustix::process::set_child_subreaper(Some(own))?;
            gathered.adopts = true;
        }
        Order::Unshare { network } => namespaces::leave(network)?,
        Order::DieWithParent {} => {
            let kill = Some(rustix::process::Signal::KILL);
            rustix::process::set_parent_process_death_signal(kill)?;
        }
        Order::NewRoot {} => gathered.mounts = root::begin()?,
        Order::Read { from, at } => {
            root::show(&gathered.mounts, &from, &at, root::Rights::Read)?;
        }
        Order::Write { from, at } => {
            root::show(&gathered.mounts, &from, &at, root::Rights::Write)?;
        }
        Order::Scratch { at, size_bytes } => root::scratch(&at, size_bytes)?,
        Order::Link { to, at } => root::link(&to, &at)?,
        Order::HideFile { at } => root::hide_file(&at)?,
        Order::HideFolder { at } => root::hide_folder(&at)?,
        Order::Processes {} => root::processes()?,
        Order::Devices {} => root::devices()?,
        Order::EnterRoot {} => root::enter()?,
        Order::Part { at, device, root } => {
            let promise = proof::Promise::Part { device, root };
            gathered.promises.push((at, promise));
        }
        Order::Same { at, device, number } => {
            let promise = proof::Promise::File(device, number);
            gathered.promises.push((at, promise));
        }
        Order::Along { at, device, root } => {
            let promise = proof::Promise::Along { device, root };
            gathered.promises.push((at, promise));
        }
        Order::Mask { at } => gathered.promises.push((at, proof::Promise::Mask)),
        Order::Prove {} => proof::check(&gathered.promises)?,
        Order::Loopback {} => loopback::start()?,
        Order::Text { at, text } => files::write_new(&at, &text)?,
        Order::Start { at } => rustix::process::chdir(&at)?,
        Order::Session {} => drop(rustix::process::setsid()?),
        Order::Limit { name, value } => {
            let name = name.to_string_lossy().into_owned();
            privileges::limit(&name, value)?;
            gathered.limits.push((name, value));
        }
        Order::MayRead { at } => gathered.read.push(at),
        Order::MayWrite { at } => gathered.write.push(at),
        Order::MayConnect { port } => {
            let port = u16::try_from(port).map_err(io::Error::other)?;
            gathered.ports.push(port);
        }
        Order::Restrict { ports, needed } => landlock::restrict(gathered, ports, needed)?,
        Order::DropPrivileges {} => privileges::drop_all()?,
        Order::Filter { families } => filter::install(&families)?,
        // Answered before.
        Order::Report {} => {}
    }
    Ok(())
}
