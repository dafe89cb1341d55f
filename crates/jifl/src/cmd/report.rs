// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl report`: a recording as `prof`, `cover`, `branch` or `count` would have shown it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::base::exit::{DONE, Failure};
use crate::cmd::branch::BranchOptions;
use crate::cmd::cover::CoverOptions;
use crate::cmd::prof::ProfOptions;
use crate::cmd::trace::{self, Choice};
use crate::kernel::lines::{Build, LinesArgs};
use crate::kernel::symbols::Symbols;
use crate::session::blocks::{Show, Shown, View};
use crate::session::recording::header::{Header, utc};
use crate::session::recording::{FILE, Image, Recording};
use crate::session::report::Format;
use crate::show::output::{self, Extent};
use crate::show::text::grouped;
use crate::show::text::json;

/// Arguments of `jifl report`.
#[derive(Debug, Args)]
#[command(after_help = "\
It needs no privileges and no module: the recording contains the names.
Without --as, the other options tell the view. Without these it is trace for a recording of
`jifl trace`, count if only calls were counted, and otherwise prof.

Examples:
  jifl report
  jifl report nginx.jifl --as branch --hints
  jifl report nginx.jifl --as cover --lcov kernel.info --vmlinux vmlinux
  jifl report nginx.jifl --inlined --svg flames.svg
  jifl report ls.jifl --as trace -f perfetto -o ls.pftrace
  jifl report nginx.jifl --as info")]
pub struct ReportArgs {
    /// The recording
    #[arg(value_name = "RECORDING", default_value = FILE)]
    file: PathBuf,
    /// How to show the recording
    #[arg(long = "as", value_enum, value_name = "VIEW")]
    shown_as: Option<As>,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Form,
    #[command(flatten)]
    extent: Extent,
    #[command(flatten)]
    prof: ProfOptions,
    #[command(flatten)]
    cover: CoverOptions,
    #[command(flatten)]
    branch: BranchOptions,
    #[command(flatten)]
    trace: Choice,
    #[command(flatten)]
    lines: LinesArgs,
}

/// Format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    Text,
    /// One object on one line; not with --as trace
    Json,
    /// With --as count: one line for each target, a heading first
    Csv,
    /// With --as trace: a JSON object in a line for each call
    Ndjson,
    /// With --as trace: stacks, with how often or how long, for flame graphs
    Folded,
    /// With --as trace: Chrome's trace events
    Chrome,
    /// With --as trace: Perfetto's own format
    Perfetto,
}

impl Form {
    fn of_counts(self) -> Option<Format> {
        Some(match self {
            Form::Text => Format::Text,
            Form::Json => Format::Json,
            Form::Csv => Format::Csv,
            _ => return None,
        })
    }

    fn of_trace(self) -> Option<trace::Format> {
        Some(match self {
            Form::Text => trace::Format::Text,
            Form::Ndjson => trace::Format::Ndjson,
            Form::Folded => trace::Format::Folded,
            Form::Chrome => trace::Format::Chrome,
            Form::Perfetto => trace::Format::Perfetto,
            _ => return None,
        })
    }
}

/// A view of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum As {
    /// Functions and blocks, the most instructions first
    Prof,
    /// Functions reached
    Cover,
    /// Conditional branches
    Branch,
    /// System calls
    Count,
    /// Calls and the functions in them, in their order
    Trace,
    /// Where, when and how it was recorded
    Info,
}

/// The recording itself, with --as info.
#[derive(Serialize)]
struct Object<'a> {
    command: &'static str,
    kind: &'static str,
    blocks: usize,
    calls: u64,
    images: &'a [Image],
    recorded: &'a Header,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &ReportArgs) -> Result<u8, Failure> {
    let wanted = args.view()?;
    let recording = Recording::read(&args.file)?;
    let view = match wanted {
        Some(view) => view,
        None if recording.is_profile() => As::Prof,
        None if recording.trace.is_some() => As::Trace,
        None => As::Count,
    };
    if matches!(view, As::Branch | As::Count | As::Trace | As::Info) {
        args.lines.need_none()?;
    }
    if view == As::Trace {
        return traced(&recording, args);
    }
    let format = args
        .format
        .of_counts()
        .filter(|format| *format != Format::Csv || view == As::Count);
    let format = format.ok_or_else(|| {
        Failure::usage(
            "-f csv goes with --as count only; ndjson, folded, chrome and perfetto with --as trace",
        )
    })?;
    // Rendered before the old output file is replaced.
    let shown = match view {
        As::Count => {
            let lines = args.extent.lines(format == Format::Text);
            let width = args.extent.width();
            Shown::text(recording.report.render(format, lines, width))
        }
        As::Info => Shown::text(info(&recording, args)?),
        _ => shown(&recording, view, args)?,
    };
    shown.write(&mut args.extent.sink()?)?;
    if let Some(notes) = recording.report.notes(format) {
        output::note(notes.trim_end());
    }
    Ok(DONE)
}

/// Shows a recording of `jifl trace`.
fn traced(recording: &Recording, args: &ReportArgs) -> Result<u8, Failure> {
    let Some(trace) = &recording.trace else {
        return Err(Failure::failed(format!(
            "{}: of `{}`, which does not keep calls one by one: `jifl trace --record FILE` does",
            args.file.display(),
            recording.made_by()
        )));
    };
    if args.extent.limit.is_some() {
        return Err(Failure::usage(
            "--limit is for tables; of a trace --depth, --threshold and --longer leave less",
        ));
    }
    let Some(format) = args.format.of_trace() else {
        return Err(Failure::usage(
            "--as trace is written as text, ndjson, folded, chrome or perfetto",
        ));
    };
    if !trace.kept.timed && (format.needs_times() || args.trace.needs_times()) {
        return Err(Failure::failed(format!(
            "{}: without functions' times: `jifl trace -d --record FILE` keeps them",
            args.file.display()
        )));
    }
    let sink = format.sink(args.extent.output.as_deref())?;
    let functions = trace.functions.iter().map(|at| recording.address(*at));
    let functions: Vec<u64> = functions.collect();
    let symbols = Symbols::parse(&recording.kallsyms());
    trace
        .kept
        .write(&symbols, &functions, &args.trace, (format, sink))?;
    Ok(DONE)
}

impl ReportArgs {
    /// The view, by name or by the options of one; `None` if neither is given.
    fn view(&self) -> Result<Option<As>, Failure> {
        self.prof.need_no_kernel()?;
        self.branch.need_no_kernel()?;
        let special = [
            (As::Prof, self.prof.are_given()),
            (As::Cover, self.cover.are_given()),
            (As::Branch, self.branch.are_given()),
            (As::Trace, self.trace.is_given()),
        ];
        let mut view = self.shown_as;
        for (of, _) in special.into_iter().filter(|(_, given)| *given) {
            if *view.get_or_insert(of) != of {
                return Err(Failure::usage(
                    "--folded, --svg and --inlined go with --as prof, --drcov, --lcov, --html and \
                     --edges with --as cover, --hints with --as branch, --threshold, --depth and \
                     --longer with --as trace",
                ));
            }
        }
        Ok(view)
    }

    fn show(&self) -> Show {
        Show {
            format: match self.format {
                Form::Json => output::Format::Json,
                _ => output::Format::Text,
            },
            extent: self.extent.clone(),
        }
    }
}

/// Shows a view of counted blocks.
fn shown(recording: &Recording, view: As, args: &ReportArgs) -> Result<Shown, Failure> {
    if !recording.is_profile() {
        return Err(Failure::failed(format!(
            "{}: of `{}`, without blocks: only --as {} and info show it (`jifl record` records \
             blocks)",
            args.file.display(),
            recording.made_by(),
            if recording.trace.is_some() {
                "trace"
            } else {
                "count"
            }
        )));
    }
    let profile = recording.profile();
    profile.note();
    let kernel = &recording.header.kernel;
    let build = Build {
        release: kernel.release.clone(),
        build_id: kernel.build_id.clone(),
        runs: false,
    };
    let view: View<'_> = match view {
        As::Cover => args.cover.view(&args.lines, build)?,
        As::Branch => args.branch.view(),
        _ => args.prof.view(&args.lines, build)?,
    };
    view(&profile, &args.show())
}

/// The recording's description of itself.
fn info(recording: &Recording, args: &ReportArgs) -> Result<String, Failure> {
    if args.format == Form::Json {
        return Ok(json(&Object {
            command: "report",
            kind: recording.kind(),
            blocks: recording.blocks.len(),
            calls: recording.calls(),
            images: &recording.images,
            recorded: &recording.header,
        }));
    }
    let header = &recording.header;
    let line = |name: &str, value: String| (name.to_owned(), value);
    let mut lines = vec![
        line("kernel", header.kernel.shown()),
        line("version", header.kernel.version.clone()),
        line("boot", header.boot_id.clone()),
        line("CPUs", format!("{}, {}", header.cpus, header.cpu)),
        line("time", utc(header.time)),
        line("command", header.command_line()),
        line("jifl", header.jifl.clone()),
        line("counted", counted(recording)),
    ];
    if header.recordings > 1 {
        lines.push(line("merged from", grouped(header.recordings)));
    }
    for image in recording
        .images
        .iter()
        .filter(|image| !image.name.is_empty())
    {
        lines.push(line(
            &image.name,
            format!("{:#x}, build id {}", image.base, image.build_id),
        ));
    }
    let names = lines.iter().map(|(name, _)| name.chars().count());
    let first = names.max().unwrap_or(0);
    let line = |(name, value): &(String, String)| format!("{name:first$}  {value}\n");
    Ok(output::fit(
        lines.iter().map(line).collect(),
        args.extent.width(),
    ))
}

fn counted(recording: &Recording) -> String {
    let calls = format!("{} system calls", grouped(recording.calls()));
    match recording.inside() {
        Some(inside) => format!("{inside} in {calls}"),
        None => format!("{} of {calls}", recording.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::exit::USAGE;
    use crate::base::parse::parse;
    use crate::session::recording::file;
    use crate::session::recording::tests::recorded;
    use crate::session::report::tests::sample;
    use jifl_sys::abi::Kind;
    use std::fs;

    fn view(line: &str) -> Result<Option<As>, u8> {
        let args: ReportArgs = parse(line).unwrap();
        args.view().map_err(|failure| failure.status)
    }

    #[test]
    fn options_say_what_is_shown() {
        assert_eq!(view(""), Ok(None));
        assert_eq!(view("nginx.jifl --as branch --hints"), Ok(Some(As::Branch)));
        assert_eq!(view("--folded x"), Ok(Some(As::Prof)));
        assert_eq!(
            view("x --lcov kernel.info --vmlinux vmlinux"),
            Ok(Some(As::Cover))
        );
        assert_eq!(view("--as info"), Ok(Some(As::Info)));
        assert_eq!(view("--svg x --inlined"), Ok(Some(As::Prof)));
        assert_eq!(view("--edges --html x"), Ok(Some(As::Cover)));
        assert_eq!(view("--as prof --hints"), Err(USAGE));
        assert_eq!(view("--annotate vfs_read"), Err(USAGE));
        assert_eq!(view("--per-call"), Err(USAGE));
        assert_eq!(view("--folded x --drcov y"), Err(USAGE));
        assert_eq!(view("--depth 3"), Ok(Some(As::Trace)));
        assert!(parse::<ReportArgs>("--as mem").is_err());
    }

    /// Runs the command over a recording. Returns its output, or its error.
    fn report(recording: &Recording, options: &str) -> Result<String, String> {
        let (text, done) = written(recording, options);
        done.map(|()| text)
    }

    /// The text, and whether the report succeeded.
    fn written(recording: &Recording, options: &str) -> (String, Result<(), String>) {
        let name = format!(
            "jifl-report-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let directory = std::env::temp_dir().join(name.replace(['(', ')'], ""));
        fs::create_dir_all(&directory).unwrap();
        let (file, output) = (directory.join("a.jifl"), directory.join("out"));
        fs::write(&file, file::encode(recording)).unwrap();
        let line = format!("{} -o {} {options}", file.display(), output.display());
        let done = run(&parse(&line).unwrap());
        let text = fs::read_to_string(&output).unwrap_or_default();
        fs::remove_dir_all(&directory).unwrap();
        let done = done.map(|_| ()).map_err(|failure| failure.message);
        (text, done)
    }

    #[test]
    fn files_that_cannot_be_written_do_not_cost_the_text() {
        for option in ["--folded", "--svg", "--drcov", "--lcov"] {
            let (text, done) = written(&recorded(), &format!("{option} /dev/full"));
            assert!(text.starts_with("FUNCTION"), "{option}: {text}");
            assert!(
                done.unwrap_err().starts_with("/dev/full: No space"),
                "{option}"
            );
        }
    }

    #[test]
    fn each_view_shows_the_recording() {
        for (options, begin) in [
            (
                "",
                "FUNCTION     CALLS  INSNS  SHARE  INSN/CALL\ninner [nfs]     40",
            ),
            (
                "--as cover --limit 1",
                "FUNCTION     BLOCKS  INSNS  BYTES  COVERED\ninner [nfs]     2/2",
            ),
            ("--as branch", "BRANCH               TARGET  EXECUTED"),
            (
                "--edges",
                "FUNCTION     BLOCKS  EDGES  INSNS  BYTES  COVERED\ninner [nfs]     2/2    2/2",
            ),
            ("--as count", "SYSCALL  CALLS  BLOCKS\n"),
            ("--as count -f csv", "syscall,nr,"),
            ("-f json", "{\"command\":\"prof\",\"instructions\":176,"),
            ("--as info", "kernel   "),
            (
                "--as info -f json",
                "{\"command\":\"report\",\"kind\":\"profile\",\"blocks\":6,",
            ),
        ] {
            let text = report(&recorded(), options).unwrap();
            assert!(text.starts_with(begin), "{options}: {text}");
        }
    }

    #[test]
    fn counts_have_their_report_only() {
        let counts = Recording::of_report(&sample(Kind::Insn));
        assert!(
            report(&counts, "")
                .unwrap()
                .starts_with("SYSCALL  CALLS       INSNS")
        );
        let error = report(&counts, "--as prof").unwrap_err();
        assert!(error.contains("of `jifl count insn`"), "{error}");
        let error = report(&recorded(), "-f csv").unwrap_err();
        assert!(error.contains("--as count"), "{error}");
        let error = report(&recorded(), "--as branch --vmlinux x").unwrap_err();
        assert!(error.contains("go with --annotate"), "{error}");
    }
}
