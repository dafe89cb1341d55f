// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl replace`: calls of a function go to a function of a module, as long as the command runs.

mod condition;
mod module;
mod show;

use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use jifl_sys::abi::{Kind, Replacement};
use jifl_sys::device::Door;

use self::module::{Inserted, With};
use crate::base::exit::{DONE, Failure};
use crate::expr::{At, Scopes};
use crate::kernel::functions::{Function, Functions};
use crate::kernel::pattern::Pattern;
use crate::kernel::prototypes::Prototypes;
use crate::kernel::signature;
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::measure::Session;
use crate::session::scope::{self, Scope};
use crate::session::targets;
use crate::show::output::{self, Format};

/// Arguments of `jifl replace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Calls of the function that the filters select go to FUNCTION, all others run the original. Filters
that are given must all match, and so must --if, an expression as of `jifl probe` about the
arguments. FUNCTION runs natively. Without FUNCTION the one of the same name is
meant. FILE.ko is inserted if it is not loaded, and then removed at the end.

It ends with CMD, after --for, or with Ctrl-C. With CMD only CMD's calls and those of its
descendants are replaced, and the exit status is CMD's. Threads that are in the original at the
start finish there. Threads that are in FUNCTION at the end finish there; the module stays until
then.

Without a function: the replacements there are, and the threads that are inside.

Examples:
  jifl replace fn:cmdline_proc_show --with cmdline.ko -- cat /proc/cmdline
  jifl replace fn:vfs_statfs --with fix.ko:fixed_statfs
  jifl replace fn:vfs_read --with fast.ko:fast_read --if 'count > 65536 && comm == \"cp\"' --for 1m
  jifl replace")]
pub struct ReplaceArgs {
    /// The function: fn:NAME, or fn:NAME@MODULE
    #[arg(value_name = "FUNCTION", requires = "with")]
    target: Option<String>,
    /// The module with the function that replaces it
    #[arg(long, value_name = "FILE.ko[:FUNCTION]", requires = "target")]
    with: Option<String>,
    /// Replace only calls for which this holds: 'count > 4096 && comm == "cat"'
    #[arg(long = "if", value_name = "EXPR", requires = "target")]
    condition: Option<String>,
    /// Go on although it is not known that both functions take and return the same
    #[arg(long = "unsafe", requires = "target")]
    unchecked: bool,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    scope: Scope,
}

/// So long the end waits for a module that nobody is in, and between two looks.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// Runs the command; the result is the exit status.
pub fn run(args: &ReplaceArgs) -> Result<u8, Failure> {
    match (&args.target, &args.with) {
        (Some(target), Some(with)) => replace(args, target, &With::parse(with)?),
        _ => list(args),
    }
}

fn list(args: &ReplaceArgs) -> Result<u8, Failure> {
    let all = device::replacements(&device::open()?)?;
    output::print(&show::list(&all, &Functions::of_kernel(), args.format))?;
    Ok(DONE)
}

fn replace(args: &ReplaceArgs, word: &str, with: &With) -> Result<u8, Failure> {
    let calls = Table::all();
    args.scope.check()?;
    let door = device::open()?;
    let inserted = Inserted::of(with)?;
    let functions = Functions::of_kernel();
    let target = target_of(word, inserted.name(), &functions)?;
    let function = with.function.as_deref().unwrap_or(&target.name);
    let replacing = inserted.function(function, &functions)?;
    if !args.unchecked {
        check(&target, replacing, &inserted)?;
    }
    let selected = targets::one(target.clone(), replacing.address);
    let mut session = Session::of(Kind::Replace, 0, selected);
    if let Some(text) = &args.condition {
        let scope = Scopes::of_kernel().of(&target.shown(), At::Entry);
        session.programs = condition::program(text, &scope)?;
    }
    let (mut id, mut begun) = (0, None);
    let outcome = scope::hold(&args.scope, &door, session, &calls, |session| {
        id = session;
        begun = this(&door, session).ok().flatten();
        if let Some(found) = &begun {
            show::note_inside(found);
        }
    })?;
    let left = left(&door, id)?;
    let report = show::Report {
        target: &target,
        replacing,
        report: &outcome.report,
        begun,
        left,
    };
    output::print(&report.text(args.format))?;
    match &report.left {
        Some(left) => show::note_left(left, inserted.stays()),
        None => inserted.remove()?,
    }
    Ok(outcome.exit_status())
}

/// The session's replacement, as it is now.
fn this(door: &impl Door, id: u64) -> Result<Option<Replacement>, Failure> {
    let all = device::replacements(door)?;
    Ok(all.into_iter().find(|one| one.session == id))
}

/// What the module JIFL still keeps of the session's replacement. Where the last thread has left by
/// now, it is about to keep nothing.
fn left(door: &impl Door, id: u64) -> Result<Option<Replacement>, Failure> {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = this(door, id)?;
        let settled = found.as_ref().is_none_or(|one| one.inside > 0);
        if settled || Instant::now() >= end {
            return Ok(found);
        }
        sleep(PAUSE);
    }
}

/// The function that is to be replaced. A function of that name in the module that replaces it is
/// meant only if the word says so.
fn target_of(word: &str, module: &str, functions: &Functions) -> Result<Function, Failure> {
    let pattern = Pattern::parse(word).filter(|pattern| !pattern.is_glob());
    let pattern = pattern.ok_or_else(|| {
        Failure::usage(format!(
            "{word}: name one function of the kernel, as fn:vfs_statfs"
        ))
    })?;
    functions.need_addresses(word)?;
    let mut all = functions.select(&pattern);
    if pattern.module().is_none() {
        all.retain(|one| one.module.as_deref() != Some(module));
    }
    match all.as_slice() {
        [] => Err(Failure::usage(functions.unknown(&pattern))),
        [one] => Ok(one.clone()),
        several => {
            let several: Vec<String> = several.iter().map(Function::target).collect();
            Err(Failure::usage(format!(
                "{word}: several functions have the name: {}",
                several.join(", ")
            )))
        }
    }
}

/// Do both functions take and return the same?
fn check(target: &Function, replacing: &Function, inserted: &Inserted<'_>) -> Result<(), Failure> {
    let prototypes = Prototypes::of_kernel().map_err(Failure::cannot)?;
    let of_types = |function: &Function| {
        let (types, proto) = prototypes.proto(&function.shown())?;
        signature::of_btf(&types, &proto)
    };
    let unknown = |function: &Function, why: &str| {
        Failure::failed(format!(
            "what {} takes and returns is not known: {why}; --unsafe goes on without a comparison",
            function.target()
        ))
    };
    let of_target = of_types(target)
        .ok_or_else(|| unknown(target, "the kernel's types (BTF) do not have this function"))?;
    let of_file = || inserted.prototype(&replacing.name);
    let of_replacing = of_types(replacing).or_else(of_file).ok_or_else(|| {
        unknown(
            replacing,
            "build the module with types (BTF) or debug information",
        )
    })?;
    if of_target == of_replacing {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "{} is {of_target}, and {} is {of_replacing}: --unsafe goes on all the same",
        target.target(),
        replacing.target()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::parse;

    #[test]
    fn the_documented_lines_parse() {
        for line in [
            "fn:cmdline_proc_show --with cmdline.ko -- cat /proc/cmdline",
            "fn:vfs_statfs --with fix.ko:fixed_statfs",
            "",
            "-f json",
            "fn:vfs_statfs --with fix.ko --unsafe -p 12 --for 1s",
            "fn:vfs_read --with fast.ko:fast_read --if count>65536 --for 1m",
        ] {
            assert!(parse::<ReplaceArgs>(line).is_ok(), "{line}");
        }
        for line in ["fn:vfs_statfs", "--with fix.ko", "--unsafe"] {
            assert!(parse::<ReplaceArgs>(line).is_err(), "{line}");
        }
    }
}
