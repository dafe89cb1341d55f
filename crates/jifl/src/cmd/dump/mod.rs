// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl dump`: the code in the code cache, beside the code from which it was made.

pub mod cache;
mod origin;
mod text;
mod view;

use clap::{Args, ValueEnum};
use jifl_sys::abi::{Kind, SessionInfo};
use jifl_sys::device::Door;
use serde::Serialize;

use self::view::{View, Viewer};
use crate::base::exit::{DONE, Failure, LIMIT};
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::measure::Session;
use crate::session::scope::{self, Scope};
use crate::session::targets;
use crate::show::output::{self, Extent, Format};

/// What is inserted.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Inserts {
    /// A counter of instructions in each block
    Insn,
    /// A counter of blocks in each block
    Block,
    /// Nothing inside calls
    Call,
    /// Nothing
    None,
}

impl Inserts {
    fn kind(self) -> Kind {
        match self {
            Inserts::Insn => Kind::Insn,
            Inserts::Block => Kind::Block,
            Inserts::Call => Kind::Call,
            Inserts::None => Kind::None,
        }
    }
}

/// Arguments of `jifl dump`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER, or a function of the kernel: fn:NAME, fn:GLOB,
fn:NAME@MODULE, or mod:NAME for all functions of a module. Filters that are given must all match.

Blocks are shown when CMD has ended, after --for, or with Ctrl-C; with --session at once.
A line of a block: flags that are live before the instruction (CZSOPA), registers that are dead
there, the original, the copy; `+` marks inserted code.

Examples:
  jifl dump sys:getppid -- sh -c :
  jifl dump --session 3 --limit 20")]
pub struct DumpArgs {
    #[arg(required_unless_present = "session", value_name = "TARGET", help = targets::HELP)]
    targets: Vec<String>,
    /// What is inserted
    #[arg(long, value_enum, default_value = "insn", value_name = "KIND")]
    kind: Inserts,
    /// Show the blocks of this running session; `jifl status` lists sessions
    #[arg(long, value_name = "ID", conflicts_with_all =
        ["targets", "kind", "pid", "tid", "comm", "cgroup", "time", "command"])]
    session: Option<u64>,
    /// How blocks are written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    extent: Extent,
    #[command(flatten)]
    scope: Scope,
}

#[derive(Serialize)]
struct Object<'a> {
    command: &'static str,
    session: u64,
    /// Number of blocks; `blocks` has fewer if it was limited.
    total: usize,
    blocks: &'a [View],
}

/// The blocks of one session in the cache.
struct Dump {
    session: u64,
    total: usize,
    views: Vec<View>,
}

/// Runs the command; the result is the exit status.
pub fn run(args: DumpArgs) -> Result<u8, Failure> {
    let table = Table::all();
    let targets = targets::select_here(&args.targets, &table, args.scope.yes)?;
    let session = Session::of(args.kind.kind(), 0, targets);
    args.scope.check()?;
    let mut sink = args.extent.sink()?;
    let door = device::open()?;
    let (dump, status) = match args.session {
        Some(id) => (of_session(&door, id, args.extent.limit)?, DONE),
        None => own_session(&args, &door, session, &table)?,
    };
    if dump.views.len() < dump.total {
        output::note(&format!(
            "jifl: {} of {} blocks; more with --limit",
            dump.views.len(),
            dump.total
        ));
    }
    let width = args.extent.width();
    sink.write(&render(&dump, args.format, width))?;
    Ok(status)
}

/// Reads the blocks while the session still runs.
fn own_session(
    args: &DumpArgs,
    door: &(impl Door + Sync),
    session: Session,
    table: &Table,
) -> Result<(Dump, u8), Failure> {
    let look = |id| of_session(door, id, args.extent.limit);
    let (outcome, dump) = scope::observe(&args.scope, door, session, table, None, look)?;
    if outcome.report.cut_short {
        return Err(Failure {
            status: LIMIT,
            message: "the session was ended from outside (`jifl detach`)".into(),
        });
    }
    Ok((dump?, outcome.exit_status()))
}

fn render(dump: &Dump, format: Format, width: Option<usize>) -> String {
    match format {
        Format::Text => text::render(&dump.views, width),
        Format::Json => {
            let object = Object {
                command: "dump",
                session: dump.session,
                total: dump.total,
                blocks: &dump.views,
            };
            serde_json::to_string(&object).expect("plain structures always serialize") + "\n"
        }
    }
}

fn of_session(door: &impl Door, id: u64, limit: Option<usize>) -> Result<Dump, Failure> {
    let sessions = device::sessions(door)?;
    if !sessions.iter().any(|session| session.id == id) {
        return Err(Failure::failed(format!(
            "no session {id}; `jifl status` shows those there are"
        )));
    }
    look(door, id, &sessions, Symbols::of_kernel, limit)
}

fn look(
    door: &impl Door,
    id: u64,
    sessions: &[SessionInfo],
    symbols: impl FnOnce() -> Symbols,
    limit: Option<usize>,
) -> Result<Dump, Failure> {
    let mut blocks = cache::read(door, id)?;
    if blocks.is_empty() {
        return Err(Failure::failed(
            "no blocks: no task of the session made one of its system calls",
        ));
    }
    blocks.sort_by_key(|(block, _)| (block.orig, block.cache));
    let routines = device::routines(door)?;
    let mut viewer = Viewer::new(symbols(), &blocks, sessions, &routines);
    let shown = blocks.iter().take(limit.unwrap_or(usize::MAX));
    Ok(Dump {
        session: id,
        total: blocks.len(),
        views: shown
            .map(|(block, parts)| viewer.view(block, parts))
            .collect(),
    })
}

#[cfg(test)]
mod tests;
