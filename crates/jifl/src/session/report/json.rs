// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report for programs: one JSON object on one line.

use std::collections::BTreeMap;

use jifl_sys::abi::Kind;
use serde::Serialize;

use super::{Report, Row};

#[derive(Serialize)]
struct Object<'a> {
    command: &'static str,
    kind: &'static str,
    targets: Vec<Target<'a>>,
    functions: Option<Functions<'a>>,
    adoption: Option<Adoption<'a>>,
    translation: Translation,
    native_exits: BTreeMap<&'a str, u64>,
    module_wide: bool,
    cut_short: bool,
    missed: u64,
    missed_by: BTreeMap<String, u64>,
    duration_ns: u64,
    draining: u32,
    drain_ns: u64,
}

/// The functions among the targets.
#[derive(Serialize)]
struct Functions<'a> {
    entered: u64,
    left_out: BTreeMap<&'a str, u64>,
}

/// The tasks that were inside a function at the start; null: they were not asked for.
#[derive(Serialize)]
struct Adoption<'a> {
    tasks: u64,
    left: BTreeMap<&'a str, u64>,
}

/// A system call has `syscall` and `nr`, a function `function` and `module`; the others are null.
/// `instructions` and `blocks_executed` are null if the session did not count them. The figures of
/// one call are of the one that it counted.
#[derive(Serialize)]
struct Target<'a> {
    syscall: Option<&'a str>,
    nr: Option<u32>,
    function: Option<&'a str>,
    module: Option<&'a str>,
    calls: u64,
    instructions: Option<u64>,
    blocks_executed: Option<u64>,
    mean: Option<f64>,
    p50: Option<u64>,
    p99: Option<u64>,
    min: Option<u64>,
    max: Option<u64>,
    blocks: u64,
    no_return: u64,
    missed: u64,
    missed_by: BTreeMap<&'a str, u64>,
    adopted: u64,
    adopted_sum: u64,
}

#[derive(Serialize)]
struct Translation {
    ns: u64,
    blocks: u64,
    insns: u64,
}

/// One object, one line.
pub fn render(report: &Report) -> String {
    let cost = &report.cost;
    let object = Object {
        command: "count",
        kind: report.kind.name(),
        targets: report
            .rows
            .iter()
            .map(|row| target(report.kind, row))
            .collect(),
        functions: report.functions.as_ref().map(functions),
        adoption: report.adoption.as_ref().map(|adoption| Adoption {
            tasks: adoption.tasks,
            left: by_name(&adoption.left),
        }),
        translation: Translation {
            ns: cost.translate_ns,
            blocks: cost.blocks,
            insns: cost.insns,
        },
        native_exits: by_name(&cost.native_exits),
        module_wide: cost.module_wide,
        cut_short: report.cut_short,
        missed: report.missed(),
        missed_by: report.missed_by().into_iter().collect(),
        duration_ns: report.duration_ns,
        draining: report.draining,
        drain_ns: report.drain_ns,
    };
    line(&object)
}

fn functions(functions: &super::Functions) -> Functions<'_> {
    Functions {
        entered: functions.entered,
        left_out: by_name(&functions.left_out),
    }
}

fn by_name(counts: &[(String, u64)]) -> BTreeMap<&str, u64> {
    let counts = counts.iter();
    counts
        .map(|(name, count)| (name.as_str(), *count))
        .collect()
}

fn target(kind: Kind, row: &Row) -> Target<'_> {
    let name = row.name.as_str();
    let inside = matches!(kind, Kind::Insn | Kind::Block) && row.calls > 0;
    Target {
        syscall: row.nr.map(|_| name),
        nr: row.nr,
        function: row.nr.is_none().then_some(name),
        module: row.module.as_deref(),
        calls: row.calls,
        instructions: (kind == Kind::Insn).then_some(row.sum),
        blocks_executed: (kind == Kind::Block).then_some(row.sum),
        mean: inside.then(|| row.mean()),
        p50: row.p50.filter(|_| inside),
        p99: row.p99.filter(|_| inside),
        min: inside.then_some(row.min),
        max: inside.then_some(row.max),
        blocks: row.blocks,
        no_return: row.no_return,
        missed: row.missed,
        missed_by: by_name(&row.missed_by),
        adopted: row.adopted,
        adopted_sum: row.adopted_sum,
    }
}

fn line(object: &impl Serialize) -> String {
    let text = serde_json::to_string(object);
    text.expect("plain structures always serialize") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of_functions, sample};
    use super::*;

    #[test]
    fn one_object_on_one_line() {
        let text = render(&sample(Kind::Insn));
        assert_eq!(text.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["command"], "count");
        assert_eq!(value["targets"][0]["syscall"], "clone");
        assert_eq!(value["targets"][0]["calls"], 1204);
        assert_eq!(value["targets"][0]["instructions"], 38_211_348u64);
        assert_eq!(value["targets"][0]["blocks"], 2310);
        assert_eq!(value["targets"][1]["mean"], 674.0);
        assert!(value["targets"][0]["blocks_executed"].is_null());
        assert_eq!(value["native_exits"]["schedule"], 9);
        assert_eq!(value["translation"]["ns"], 41_000_000);
        assert_eq!(value["missed"], 0);
    }

    #[test]
    fn functions_have_a_name_and_no_number() {
        let mut report = of_functions(Kind::Insn);
        report.rows[0].missed = 3;
        report.rows[0].missed_by = vec![("softirq".into(), 2), ("nmi".into(), 1)];
        let value: serde_json::Value = serde_json::from_str(&render(&report)).unwrap();
        let [own, modules] = [&value["targets"][0], &value["targets"][1]];
        assert_eq!(own["function"], "vfs_read");
        assert!(own["syscall"].is_null() && own["nr"].is_null() && own["module"].is_null());
        assert_eq!(modules["module"], "ext4");
        assert_eq!(own["missed_by"]["softirq"], 2);
        assert_eq!(value["missed_by"]["nmi"], 1);
        assert_eq!(value["functions"]["entered"], 12);
        assert_eq!(value["functions"]["left_out"]["JIFL itself needs it"], 3);
        let value: serde_json::Value = serde_json::from_str(&render(&sample(Kind::Insn))).unwrap();
        assert!(value["functions"].is_null() && value["targets"][0]["function"].is_null());
    }

    #[test]
    fn blocks_are_not_called_instructions() {
        let value: serde_json::Value = serde_json::from_str(&render(&sample(Kind::Block))).unwrap();
        assert!(value["targets"][0]["instructions"].is_null());
        assert_eq!(value["targets"][0]["blocks_executed"], 38_211_348u64);
        let value: serde_json::Value = serde_json::from_str(&render(&sample(Kind::Call))).unwrap();
        assert!(value["targets"][0]["mean"].is_null());
    }
}
