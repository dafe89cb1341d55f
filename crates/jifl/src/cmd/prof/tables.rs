// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions, then blocks, the most instructions first: what `jifl prof` shows unless it annotates.

use std::fmt::Write as _;

use jifl_sys::abi::Count;
use serde::Serialize;

use crate::session::blocks::{self, Function, Profile, Summary, instructions};
use crate::show::table::table_within;
use crate::show::text;
use crate::show::text::grouped;
use crate::show::text::percent;

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

/// Functions that ran, the most instructions first.
pub fn sorted_functions(profile: &Profile) -> Vec<Function<'_>> {
    let mut functions = blocks::functions(&profile.blocks, &profile.symbols);
    functions.retain(|function| function.executed() > 0);
    functions.sort_by_key(|function| (u64::MAX - function.instructions(), function.address));
    functions
}

/// Blocks, the most instructions first.
pub fn sorted_blocks(profile: &Profile) -> Vec<&Count> {
    let mut blocks: Vec<&Count> = profile.executed().collect();
    blocks.sort_by_key(|block| (u64::MAX - instructions(block), block.orig));
    blocks
}

/// Both tables, for people.
pub fn text(
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

/// Both tables, for programs.
pub fn json(profile: &Profile, functions: &[Function<'_>], blocks: &[&Count]) -> String {
    let function = |function: &Function<'_>| (function.calls(), function.instructions());
    text::json(&Object {
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
    use crate::session::blocks::tests::sample;

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
