// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session that counts blocks, from the command's arguments to the text and files that show it.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use jifl_sys::abi::{FLAG_BRANCHES, Kind};

use super::Profile;
use crate::base::exit::{DONE, Failure, LIMIT};
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::measure::Session;
use crate::session::recording::{self, Destination, Recording};
use crate::session::scope::{self, Scope};
use crate::session::targets;
use crate::show::output::{Extent, Format, Sink};

/// How a profile is shown.
#[derive(Debug, Args)]
pub struct Show {
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub format: Format,
    #[command(flatten)]
    pub extent: Extent,
}

/// Arguments that the three commands have in common.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    #[arg(required = true, value_name = "TARGET", help = targets::HELP)]
    targets: Vec<String>,
    #[command(flatten)]
    pub show: Show,
    /// Also keep all that was counted in FILE, for `jifl report`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    scope: Scope,
}

/// Makes the text of a profile, and writes the other wanted files.
pub type View<'a> = Box<dyn FnOnce(&Profile, &Show) -> Result<Shown, Failure> + 'a>;

/// The output of a view.
pub struct Shown {
    /// The text to write.
    pub text: String,
    /// Whether the files could be written. The text is written in any case, because the session is
    /// over.
    pub files: Result<(), Failure>,
}

impl Shown {
    /// A text without files.
    pub fn text(text: String) -> Shown {
        Shown {
            text,
            files: Ok(()),
        }
    }

    /// Writes the text.
    ///
    /// # Errors
    /// It cannot be written, or one of the files could not.
    pub fn write(self, sink: &mut Sink) -> Result<(), Failure> {
        sink.write(&self.text).and(self.files)
    }
}

impl Show {
    /// The first of `all` lines, as many as are wanted.
    pub fn limited<'a, T>(&self, all: &'a [T]) -> &'a [T] {
        let lines = self.extent.lines(self.format == Format::Text);
        &all[..lines.min(all.len())]
    }

    /// Columns of a line, if it goes to a terminal.
    pub fn width(&self) -> Option<usize> {
        self.extent.width()
    }
}

impl ProfileArgs {
    fn can_be_compared(&self) -> Result<(), Failure> {
        if self.targets.len() < 2 {
            return Err(Failure::usage(
                "2 targets at least are needed, to be compared",
            ));
        }
        self.unrecorded("--per-call").map(|_| ())
    }

    /// The targets, and the scope, for an option that makes no recording.
    ///
    /// # Errors
    /// A recording is wanted.
    pub fn unrecorded(&self, option: &str) -> Result<(&[String], &Scope), Failure> {
        match self.record {
            None => Ok((&self.targets, &self.scope)),
            Some(_) => Err(Failure::usage(format!(
                "--record does not go with {option}: a recording is of one session that counts \
                 blocks, which `jifl record` makes"
            ))),
        }
    }
}

/// Runs a session, hands its counts to `view` and writes the text of the view. The result is the
/// exit status.
///
/// # Errors
/// The session is refused, the command cannot be run, or something cannot be written. Of several
/// such errors, the recording's is returned.
pub fn run(args: &ProfileArgs, flags: u32, view: View<'_>) -> Result<u8, Failure> {
    let table = Table::all();
    let flags = flags
        | if args.record.is_some() {
            FLAG_BRANCHES
        } else {
            0
        };
    let start = start(&args.targets, flags, &table, &args.scope)?;
    args.scope.check()?;
    // Opened before anything starts: if the report cannot be written, nothing is measured.
    let mut sink = args.show.extent.sink()?;
    let record = args.record.as_deref().map(Destination::open).transpose()?;
    let (profile, status) = observe(&args.scope, start, &table, Symbols::of_kernel)?;
    let kept = recording::keep_in(record, || Recording::of_profile(&profile));
    let shown = view(&profile, &args.show);
    let written = shown.and_then(|shown| shown.write(&mut sink));
    kept.and(written)?;
    Ok(status)
}

/// Runs a session for each of the targets, all at the same time, and hands the counts of each to
/// `view`, with the target. Otherwise it is like [`run`].
///
/// # Errors
/// As for [`run`]. Or there is one target only, or a recording is wanted, which is of one session.
pub fn run_each(
    args: &ProfileArgs,
    flags: u32,
    view: impl FnOnce(&[(&str, Profile)], &Show) -> Result<String, Failure>,
) -> Result<u8, Failure> {
    args.can_be_compared()?;
    let table = Table::all();
    let starts = args
        .targets
        .iter()
        .map(|target| start(std::slice::from_ref(target), flags, &table, &args.scope));
    let starts = starts.collect::<Result<Vec<Session>, Failure>>()?;
    args.scope.check()?;
    let mut sink = args.show.extent.sink()?;
    let doors = starts.iter().map(|_| device::open());
    let doors = doors.collect::<Result<Vec<_>, Failure>>()?;
    let (reports, status) = scope::observe_each(&args.scope, &doors, starts, &table)?;
    let cut_short = reports.iter().any(|report| report.cut_short);
    let symbols = Rc::new(Symbols::of_kernel());
    let mut profiles = Vec::new();
    for ((target, door), report) in args.targets.iter().zip(&doors).zip(reports) {
        profiles.push((
            target.as_str(),
            Profile::of(door, report, || symbols.clone())?,
        ));
    }
    sink.write(&view(&profiles, &args.show)?)?;
    Ok(status.unwrap_or(if cut_short { LIMIT } else { DONE }))
}

/// Runs a session for its recording alone, with the code of the functions if that is wanted.
///
/// # Errors
/// As for [`run`]. Or the code cannot be read: the recording is written without it.
pub fn record(targets: &[String], scope: &Scope, path: &Path, code: bool) -> Result<u8, Failure> {
    let table = Table::all();
    let start = start(targets, FLAG_BRANCHES, &table, scope)?;
    scope.check()?;
    let destination = Destination::open(path)?;
    let (profile, status) = observe(scope, start, &table, Symbols::of_kernel)?;
    let mut recording = Recording::of_profile(&profile);
    let with_code = if code {
        recording.keep_code(&profile)
    } else {
        Ok(())
    };
    recording::keep(destination, &recording).and(with_code)?;
    Ok(status)
}

/// Arguments of the session.
///
/// # Errors
/// There is no such target.
pub fn start(
    targets: &[String],
    flags: u32,
    table: &Table,
    scope: &Scope,
) -> Result<Session, Failure> {
    let targets = targets::select_here(targets, table, scope.yes)?;
    Ok(Session::of(Kind::Profile, flags, targets))
}

/// Runs a session, and tells what the user must know beside its counts. The other result is the
/// exit status. Names are read when the session is over, because modules may have been loaded.
///
/// # Errors
/// The session is refused, or the command cannot be run.
pub fn observe(
    scope: &Scope,
    session: Session,
    table: &Table,
    symbols: impl FnOnce() -> Symbols,
) -> Result<(Profile, u8), Failure> {
    let door = device::open()?;
    let (outcome, ()) = scope::observe(scope, &door, session, table, None, |_| ())?;
    let status = outcome.exit_status();
    let profile = Profile::of(&door, outcome.report, || Rc::new(symbols()))?;
    Ok((profile, status))
}
