// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl prof`: where instructions were executed, counted, not sampled.

mod annotate;
mod flame;
mod frames;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use jifl_sys::abi::{Count, FLAG_BRANCHES};
use serde::Serialize;

use self::annotate::{Annotated, Annotator};
use self::frames::Inlined;
use crate::dump::disasm::Disassembler;
use crate::exit::Failure;
use crate::kcore::{Kcore, Memory};
use crate::lines::{Build, LinesArgs, Opened};
use crate::output::{self, Format, Sink};
use crate::profile::{
    self, Function, Profile, ProfileArgs, Show, Summary, View, instructions, percent,
};
use crate::report::{grouped, table_within};

/// Arguments of `jifl prof`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. With CMD the exit status is CMD's.
Every instruction is counted as its own function's. CALLS: times that a function's first
instruction was executed; `-` where it was entered elsewhere only.

Examples:
  jifl prof 'sys:*' -- ls -l /
  jifl prof sys:read sys:write -p 1234 --for 10s --limit 100
  jifl prof 'sys:*' -n nginx --for 5s --folded nginx.folded
  jifl prof 'sys:*' --inlined --svg flames.svg -- ls -l /
  jifl prof sys:read --annotate vfs_read -- cat /etc/passwd")]
pub struct ProfArgs {
    #[command(flatten)]
    options: ProfOptions,
    #[command(flatten)]
    lines: LinesArgs,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// What is special about it.
#[derive(Debug, Args)]
pub struct ProfOptions {
    /// Also write lines of `kernel;FUNCTION INSTRUCTIONS`, for flame graphs
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
    /// Also write a flame graph
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// In both with inlined functions, of which debug information tells
    #[arg(long)]
    inlined: bool,
    /// Show this function's instructions, each with its executions, instead of tables; of the
    /// kernel that runs only
    #[arg(long, value_name = "FUNCTION")]
    annotate: Option<String>,
}

#[derive(Serialize)]
struct Object<'a> {
    command: &'static str,
    instructions: u64,
    functions: Vec<FunctionObject<'a>>,
    blocks: Vec<BlockObject>,
    #[serde(flatten)]
    summary: Summary,
}

#[derive(Serialize)]
struct FunctionObject<'a> {
    function: &'a str,
    address: String,
    calls: u64,
    instructions: u64,
}

#[derive(Serialize)]
struct BlockObject {
    name: String,
    address: String,
    bytes: u32,
    insns: u32,
    executed: u64,
    instructions: u64,
}

#[derive(Serialize)]
struct AnnotatedObject {
    command: &'static str,
    annotated: Vec<Annotated>,
    #[serde(flatten)]
    summary: Summary,
}

/// What stacks are written to.
struct Sinks {
    folded: Option<Sink>,
    svg: Option<Sink>,
}

/// What tells of single instructions.
struct Sources {
    /// Not of a recording.
    kcore: Option<Kcore>,
    lines: Opened,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &ProfArgs) -> Result<u8, Failure> {
    let flags = match args.options.annotate {
        Some(_) => FLAG_BRANCHES,
        None => 0,
    };
    let view = args.options.view(&args.lines, Build::running())?;
    profile::run(&args.profile, flags, view)
}

impl ProfOptions {
    /// Whether some were given.
    pub fn are_given(&self) -> bool {
        self.folded.is_some() || self.svg.is_some() || self.inlined || self.annotate.is_some()
    }

    /// What a recording does not have is refused.
    ///
    /// # Errors
    /// It is asked for.
    pub fn need_no_kernel(&self) -> Result<(), Failure> {
        match self.annotate {
            None => Ok(()),
            Some(_) => Err(Failure::usage(
                "--annotate shows the code that runs, which a recording does not have: `jifl prof --annotate` counts and shows it",
            )),
        }
    }

    /// Opens the files, and what is read, of the kernel with this build.
    pub fn view(&self, lines: &LinesArgs, build: Build) -> Result<View<'_>, Failure> {
        let sinks = Sinks {
            folded: self.folded.as_deref().map(Sink::file).transpose()?,
            svg: self.svg.as_deref().map(Sink::file).transpose()?,
        };
        let sources = if self.inlined || self.annotate.is_some() {
            Some(Sources {
                kcore: build.runs.then(Kcore::open).transpose()?,
                lines: lines.open(build)?,
            })
        } else {
            lines.need_none()?;
            None
        };
        Ok(Box::new(move |profile, show| {
            let inlined = sources.map(|sources| sources.of(profile));
            self.show(profile, show, sinks, inlined)
        }))
    }

    fn show(
        &self,
        profile: &Profile,
        show: &Show,
        sinks: Sinks,
        mut inlined: Option<Inlined>,
    ) -> Result<String, Failure> {
        let functions = sorted_functions(profile);
        let of_stacks = inlined.as_mut().filter(|_| self.inlined);
        write_stacks(profile, &functions, of_stacks, sinks)?;
        if let Some(inlined) = inlined.as_ref().filter(|_| self.inlined) {
            inlined.lines.note(profile.modules(&profile.blocks));
        }
        if let (Some(name), Some(inlined)) = (&self.annotate, &mut inlined) {
            return annotated(profile, show, &functions, name, inlined);
        }
        let blocks = sorted_blocks(profile);
        let (functions, blocks) = (show.limited(&functions), show.limited(&blocks));
        Ok(match show.format {
            Format::Text => {
                let text = text(profile, functions, blocks, show.width());
                output::fit(text, show.width())
            }
            Format::Json => json(profile, functions, blocks),
        })
    }
}

impl Sources {
    fn of(self, profile: &Profile) -> Inlined {
        let code: Box<dyn Memory> = match self.kcore {
            Some(kcore) => Box::new(kcore),
            None => Box::new(self.lines.text(&profile.symbols)),
        };
        Inlined {
            code,
            lines: self.lines.lines(&profile.symbols),
        }
    }
}

fn write_stacks(
    profile: &Profile,
    functions: &[Function<'_>],
    inlined: Option<&mut Inlined>,
    sinks: Sinks,
) -> Result<(), Failure> {
    if sinks.folded.is_none() && sinks.svg.is_none() {
        return Ok(());
    }
    let stacks = frames::stacks(profile, functions, inlined);
    if let Some(mut sink) = sinks.folded {
        sink.write(&frames::folded(&stacks))?;
    }
    if let Some(mut sink) = sinks.svg {
        sink.write(&flame::render(&stacks))?;
    }
    Ok(())
}

fn annotated(
    profile: &Profile,
    show: &Show,
    functions: &[Function<'_>],
    name: &str,
    inlined: &mut Inlined,
) -> Result<String, Failure> {
    let Inlined { code, lines } = inlined;
    let mut annotator = Annotator {
        profile,
        code: code.as_mut(),
        lines,
    };
    let mut names = Disassembler::new(profile.symbols.clone());
    let named = annotate::named(functions, name)?;
    let found = named
        .iter()
        .map(|function| annotator.annotate(&mut names, function));
    let found = found.collect::<Result<Vec<Annotated>, Failure>>()?;
    let blocks = named.iter().flat_map(|function| function.blocks);
    lines.note(profile.modules(blocks));
    Ok(match show.format {
        Format::Text => {
            let width = show.width();
            annotate::text(&found, lines, width) + &output::fit(profile.cost(), width)
        }
        Format::Json => profile::json(&AnnotatedObject {
            command: "prof",
            annotated: found,
            summary: profile.summary(),
        }),
    })
}

/// The most instructions first.
fn sorted_functions(profile: &Profile) -> Vec<Function<'_>> {
    let mut functions = profile::functions(&profile.blocks, &profile.symbols);
    functions.retain(|function| function.executed() > 0);
    functions.sort_by_key(|function| (u64::MAX - function.instructions(), function.address));
    functions
}

/// Likewise.
fn sorted_blocks(profile: &Profile) -> Vec<&Count> {
    let mut blocks: Vec<&Count> = profile.executed().collect();
    blocks.sort_by_key(|block| (u64::MAX - instructions(block), block.orig));
    blocks
}

fn text(
    profile: &Profile,
    functions: &[Function<'_>],
    blocks: &[&Count],
    width: Option<usize>,
) -> String {
    let all = profile.instructions();
    let titles = |titles: &[&str]| titles.iter().map(|title| (*title).to_owned()).collect();
    let mut lines = vec![titles(&[
        "FUNCTION",
        "CALLS",
        "INSNS",
        "SHARE",
        "INSN/CALL",
    ])];
    lines.extend(functions.iter().map(|function| {
        let (calls, insns) = (function.calls(), function.instructions());
        let mean = match calls {
            0 => "-".into(),
            _ => format!("{:.1}", insns as f64 / calls as f64),
        };
        let calls = if calls == 0 {
            "-".into()
        } else {
            grouped(calls)
        };
        vec![
            function.name.clone(),
            calls,
            grouped(insns),
            percent(insns, all),
            mean,
        ]
    }));
    let mut text = table_within(&lines, 1, width);
    let mut lines = vec![titles(&[
        "BLOCK",
        "EXECUTED",
        "INSNS",
        "SHARE",
        "INSN/BLOCK",
    ])];
    lines.extend(blocks.iter().map(|block| {
        vec![
            profile.name(block.orig),
            grouped(block.executed),
            grouped(instructions(block)),
            percent(instructions(block), all),
            grouped(block.insns.into()),
        ]
    }));
    text.push('\n');
    text += &table_within(&lines, 1, width);
    let _ = writeln!(
        text,
        "# {} instructions in {} blocks",
        grouped(all),
        grouped(profile.executed().count() as u64)
    );
    text + &profile.cost()
}

fn json(profile: &Profile, functions: &[Function<'_>], blocks: &[&Count]) -> String {
    let function = |function: &Function<'_>| (function.calls(), function.instructions());
    profile::json(&Object {
        command: "prof",
        instructions: profile.instructions(),
        functions: functions
            .iter()
            .map(|found| FunctionObject {
                function: &found.name,
                address: format!("{:#x}", found.address),
                calls: function(found).0,
                instructions: function(found).1,
            })
            .collect(),
        blocks: blocks
            .iter()
            .map(|block| BlockObject {
                name: profile.name(block.orig),
                address: format!("{:#x}", block.orig),
                bytes: block.src_len,
                insns: block.insns,
                executed: block.executed,
                instructions: instructions(block),
            })
            .collect(),
        summary: profile.summary(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{check, parse};
    use crate::profile::tests::sample;

    #[test]
    fn the_documented_lines_parse() {
        check::<ProfArgs>(
            &[
                "sys:* -- ls -l /",
                "sys:read sys:write -p 1234 --for 10s --limit 100",
                "sys:* -n nginx --for 5s --folded nginx.folded",
                "sys:* --inlined --svg flames.svg -- ls -l /",
                "sys:read --annotate vfs_read -- cat /etc/passwd",
                "sys:* -f json -o x",
            ],
            &["", "sys:read -f csv", "sys:read --limit x"],
        );
        let unused: ProfArgs = parse("sys:read --vmlinux x").unwrap();
        assert_eq!(run(&unused).unwrap_err().status, crate::exit::USAGE);
    }

    #[test]
    fn the_most_executed_comes_first() {
        let profile = sample();
        let (functions, blocks) = (sorted_functions(&profile), sorted_blocks(&profile));
        assert_eq!(
            text(&profile, &functions, &blocks[..2], None),
            "FUNCTION     CALLS  INSNS  SHARE  INSN/CALL\n\
             inner [nfs]     40    121  68.8%        3.0\n\
             outer           10     55  31.2%        5.5\n\
             \n\
             BLOCK        EXECUTED  INSNS  SHARE  INSN/BLOCK\n\
             inner [nfs]        40    120  68.2%           3\n\
             outer              10     30  17.0%           3\n\
             # 176 instructions in 5 blocks\n\
             # translation 0 ns once, 0 blocks; native exits 0; missed 0\n\
             # blocks without a counter 2\n"
        );
    }

    #[test]
    fn one_object_on_one_line() {
        let profile = sample();
        let text = json(
            &profile,
            &sorted_functions(&profile),
            &sorted_blocks(&profile),
        );
        assert_eq!(text.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["instructions"], 176);
        assert_eq!(value["functions"][0]["function"], "inner [nfs]");
        assert_eq!(value["blocks"][1]["executed"], 10);
        assert_eq!(value["without_counter"], 2);
        assert_eq!(value["missed"], 0);
    }
}
