// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl prof`: where instructions were executed, counted, not sampled.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use jifl_sys::abi::Count;
use serde::Serialize;

use crate::exit::Failure;
use crate::output::{Format, Sink};
use crate::profile::{self, Function, Profile, ProfileArgs, Summary, View, instructions, percent};
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
  jifl prof 'sys:*' -n nginx --for 5s --folded nginx.folded")]
pub struct ProfArgs {
    #[command(flatten)]
    options: ProfOptions,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// What is special about it.
#[derive(Debug, Args)]
pub struct ProfOptions {
    /// Also write lines of `kernel;FUNCTION INSTRUCTIONS`, for flame graphs
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
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

/// Runs the command; the result is the exit status.
pub fn run(args: &ProfArgs) -> Result<u8, Failure> {
    profile::run(&args.profile, 0, args.options.view()?)
}

impl ProfOptions {
    /// Whether some were given.
    pub fn are_given(&self) -> bool {
        self.folded.is_some()
    }

    /// Opens the files.
    pub fn view(&self) -> Result<View<'_>, Failure> {
        let mut sink = match &self.folded {
            Some(path) => Some(Sink::open(Some(path))?),
            None => None,
        };
        Ok(Box::new(move |profile, show| {
            let functions = sorted_functions(profile);
            if let Some(sink) = &mut sink {
                sink.write(&folded(&functions))?;
            }
            let blocks = sorted_blocks(profile);
            let (functions, blocks) = (show.limited(&functions), show.limited(&blocks));
            Ok(match show.format {
                Format::Text => text(profile, functions, blocks, show.width()),
                Format::Json => json(profile, functions, blocks),
            })
        }))
    }
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
    let mut text = table_within(&lines, width);
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
    text += &table_within(&lines, width);
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

/// `kernel;vfs_read 120`, `nfs;nfs_open 30`
fn folded(functions: &[Function<'_>]) -> String {
    let mut text = String::new();
    for function in functions {
        let (name, module) = match function.name.split_once(" [") {
            Some((name, module)) => (name, module.trim_end_matches(']')),
            None => (function.name.as_str(), "kernel"),
        };
        let _ = writeln!(text, "{module};{name} {}", function.instructions());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use crate::profile::tests::sample;

    #[test]
    fn the_documented_lines_parse() {
        for line in [
            "sys:* -- ls -l /",
            "sys:read sys:write -p 1234 --for 10s --limit 100",
            "sys:* -n nginx --for 5s --folded nginx.folded",
            "sys:* -f json -o x",
        ] {
            assert!(parse::<ProfArgs>(line).is_ok(), "{line}");
        }
        for line in ["", "sys:read -f csv", "sys:read --limit x"] {
            assert!(parse::<ProfArgs>(line).is_err(), "{line}");
        }
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
        assert_eq!(folded(&functions), "nfs;inner 121\nkernel;outer 55\n");
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
