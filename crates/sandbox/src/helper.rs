//! The hidden helper command: applies its orders to its own process, and then starts the program.

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

use crate::orders::{self, Order};

/// The exit code of a helper that could not carry out an order. The program was not started.
const REFUSED: u8 = 125;
/// The byte that the helper sends through its lifeline if its control group is gone.
pub const GROUP_IS_GONE: u8 = b'g';

/// Parses the orders from the arguments, applies them to this process, and runs the program that
/// follows them.
///
/// Call it before this process has any other thread: rights are dropped per thread.
pub fn run_helper(words: impl Iterator<Item = OsString>) -> ExitCode {
    obey(words).unwrap_or_else(|problem| {
        eprintln!("sortie sandbox: {problem}");
        ExitCode::from(REFUSED)
    })
}

/// Why a helper stopped before it started the command.
#[derive(Debug, thiserror::Error)]
enum Problem {
    /// The arguments are not valid orders.
    #[error("invalid sandbox plan at step {0:?}")]
    Words(OsString),
    #[error("{order} failed: {cause}")]
    Order {
        order: String,
        /// The operating system's error.
        cause: io::Error,
    },
    /// The arguments name no program.
    #[error("the program to start is missing")]
    NoProgram,
    /// The process that requested the program is gone.
    #[error(
        "the process that started the sandbox helper has ended, so the program was not started"
    )]
    Abandoned,
}

/// The state that the orders so far have collected.
#[derive(Debug, Default)]
struct Gathered {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    ports: Vec<u16>,
    limits: Vec<(String, u64)>,
    /// Becomes readable when the process that requested the program is gone.
    lifeline: Option<program::Lifeline>,
    adopts: Option<program::Adopts>,
    becomes: bool,
    /// Whether the next process is PID 1 of another PID namespace. The kernel then does not let
    /// this process start a thread.
    left_namespace: bool,
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
        Order::Parent { process } => {
            gathered.lifeline = Some(program::Lifeline::of_parent(process)?);
        }
        Order::Lifeline { pass_on } => {
            gathered.lifeline = Some(program::Lifeline::of_input(pass_on)?);
        }
        Order::Join { list } => {
            let joined = files::write_existing(&list, "0");
            if let (Err(error), Some(lifeline)) = (&joined, &gathered.lifeline)
                && files::is_gone(error)
            {
                lifeline.report(GROUP_IS_GONE);
            }
            joined?;
        }
        Order::Adopt { at_end } => {
            let own = rustix::process::getpid();
            rustix::process::set_child_subreaper(Some(own))?;
            gathered.adopts = Some(program::Adopts { at_end });
        }
        Order::Unshare { network } => {
            namespaces::leave(network)?;
            gathered.left_namespace = true;
        }
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
        Order::Become {} => gathered.becomes = true,
        // Handled before.
        Order::Report {} => {}
    }
    Ok(())
}
