// SPDX-License-Identifier: MIT OR Apache-2.0
use clap::ValueEnum;

use super::*;
use crate::cmd::prof::paths::metric::Metric;
use crate::cmd::prof::paths::tree::tests::{recursion, sample};

/// Name, calls, own and inclusive instructions.
fn functions(tree: &Tree) -> Vec<(String, u64, u64, u64)> {
    let all = Groups::of(tree).functions;
    let values = |one: &Function| {
        let (own, inclusive) = (one.own.get(Metric::Insn), one.inclusive.get(Metric::Insn));
        (one.name(), one.calls, own, inclusive)
    };
    all.iter().map(values).collect()
}

/// `caller -> callee`, calls, inclusive instructions.
fn edges(tree: &Tree) -> Vec<(String, u64, u64)> {
    let all = Groups::of(tree).edges;
    let values = |one: &Edge| {
        let caller = one.caller.as_deref().unwrap_or("-");
        let name = format!("{caller} -> {}", one.callee);
        (name, one.calls, one.inclusive.get(Metric::Insn))
    };
    all.iter().map(values).collect()
}

/// Name, calls, own instructions.
fn modules(tree: &Tree) -> Vec<(Option<String>, u64, u64)> {
    let all = Groups::of(tree).modules.into_iter();
    all.map(|one| (one.module, one.calls, one.own.get(Metric::Insn)))
        .collect()
}

#[test]
fn a_function_has_its_values_on_all_paths() {
    assert_eq!(
        functions(&sample()),
        [
            ("copy.isra.0".into(), 1, 10, 10),
            ("read_iter".into(), 7, 70, 80),
            ("read_iter [nfs]".into(), 2, 20, 20),
            ("sys:close".into(), 0, 0, 300),
            ("sys:read".into(), 0, 0, 200),
            ("vfs_read".into(), 40, 400, 500),
        ]
    );
}

#[test]
fn a_function_that_calls_itself_has_its_inclusive_value_once() {
    assert_eq!(
        functions(&recursion()),
        [("a".into(), 4, 40, 150), ("b [m]".into(), 11, 110, 140)]
    );
}

#[test]
fn an_edge_has_what_its_callee_took_below_its_caller() {
    assert_eq!(
        edges(&sample()),
        [
            ("- -> sys:close".into(), 0, 300),
            ("- -> sys:read".into(), 0, 200),
            ("read_iter -> copy.isra.0".into(), 1, 10),
            ("sys:close -> vfs_read".into(), 30, 300),
            ("sys:read -> vfs_read".into(), 10, 200),
            ("vfs_read -> read_iter".into(), 7, 80),
            ("vfs_read -> read_iter [nfs]".into(), 2, 20),
        ]
    );
}

#[test]
fn an_edge_inside_itself_counts_once() {
    assert_eq!(
        edges(&recursion()),
        [
            ("- -> a".into(), 1, 150),
            ("a -> b [m]".into(), 6, 140),
            ("b [m] -> a".into(), 3, 120),
            ("b [m] -> b [m]".into(), 5, 50),
        ]
    );
}

#[test]
fn a_module_is_called_from_other_ones() {
    assert_eq!(
        modules(&sample()),
        [(None, 0, 480), (Some("nfs".into()), 2, 20)]
    );
    assert_eq!(
        modules(&recursion()),
        [(None, 4, 40), (Some("m".into()), 6, 110)],
        "the call of b by b is none of the module"
    );
}

#[test]
fn own_values_add_up_to_the_total() {
    for metric in Metric::value_variants() {
        let total = recursion().total(*metric);
        let Groups {
            functions, modules, ..
        } = Groups::of(&recursion());
        let of_functions = functions.iter().map(|one| one.own.get(*metric));
        let of_modules = modules.iter().map(|one| one.own.get(*metric));
        assert_eq!(of_functions.sum::<u64>(), total);
        assert_eq!(of_modules.sum::<u64>(), total);
    }
}

#[test]
fn programs_get_all_groups() {
    let value = serde_json::to_value(Groups::of(&recursion())).unwrap();
    let values = |n: u64, calls: u64| {
        serde_json::json!({
            "calls": calls,
            "instructions": n,
            "wall_ns": n * 10,
            "cpu_ns": n * 8,
            "blocked_ns": n * 2,
            "runnable_ns": 0,
        })
    };
    let function = serde_json::json!({
        "function": "b",
        "module": "m",
        "calls": 11,
        "own": values(110, 11),
        "inclusive": values(140, 14),
    });
    assert_eq!(value["functions"][1], function);
    let edge = serde_json::json!({
        "caller": null,
        "callee": "a",
        "calls": 1,
        "inclusive": values(150, 15),
    });
    assert_eq!(value["edges"][0], edge);
    let kernel = serde_json::json!({"module": null, "calls": 4, "own": values(40, 4)});
    assert_eq!(value["modules"][0], kernel);
}
