// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

/// A node that did `n` of everything, or a part of it.
fn node(parent: Option<usize>, name: &str, address: u64, n: u64) -> Node {
    let (function, module) = match name.split_once('@') {
        Some((function, module)) => (function, Some(module.to_owned())),
        None => (name, None),
    };
    Node {
        parent,
        function: function.to_owned(),
        module,
        address,
        own: Own {
            calls: n.div_ceil(10),
            instructions: n,
            wall_ns: n * 10,
            blocked_ns: n * 2,
            runnable_ns: 0,
        },
    }
}

/// `read` calls `read_iter` of two file systems, one of which has two functions of this name.
pub fn sample() -> Tree {
    Tree {
        nodes: vec![
            node(None, "sys:read", 0, 0),
            node(Some(0), "vfs_read", 0x1000, 100),
            node(Some(1), "read_iter@nfs", 0x9000, 20),
            node(Some(1), "read_iter", 0x2000, 30),
            node(Some(1), "read_iter", 0x3000, 40),
            node(Some(4), "copy.isra.0", 0x4000, 10),
            node(None, "sys:close", 0, 0),
            node(Some(6), "vfs_read", 0x1000, 300),
        ],
    }
}

/// Functions that call themselves, and a module that calls the kernel back.
pub fn recursion() -> Tree {
    Tree {
        nodes: vec![
            node(None, "a", 0x1000, 10),
            node(Some(0), "b@m", 0x9000, 20),
            node(Some(1), "a", 0x1000, 30),
            node(Some(2), "b@m", 0x9000, 40),
            node(Some(3), "b@m", 0x9000, 50),
        ],
    }
}

/// A path of names that `/` separates.
pub fn path(names: &str) -> Vec<String> {
    names.split('/').map(str::to_owned).collect()
}

#[test]
fn a_node_has_all_that_is_below_it() {
    let tree = sample();
    assert_eq!(
        tree.inclusive(Metric::Insn),
        [200, 200, 20, 30, 50, 10, 300, 300]
    );
    assert_eq!(tree.total(Metric::Insn), 500);
    assert_eq!(tree.total(Metric::Cpu), 4000);
}

#[test]
fn the_largest_comes_first_then_the_first_by_name() {
    let ranked = sample().ranked(Metric::Insn);
    assert_eq!(ranked.roots, [6, 0]);
    assert_eq!(ranked.children[1], [4, 3, 2]);
    let none = sample().ranked(Metric::Runnable);
    assert_eq!(none.roots, [6, 0], "sys:close is before sys:read");
    assert_eq!(none.children[1], [3, 4, 2]);
}

#[test]
fn equal_paths_are_added_up() {
    let folded = sample().folded(Metric::Insn);
    let shown: Vec<(String, u64)> = folded
        .into_iter()
        .map(|(path, value)| (path.join("/"), value))
        .collect();
    let shown: Vec<(&str, u64)> = shown.iter().map(|(p, v)| (p.as_str(), *v)).collect();
    assert_eq!(
        shown,
        [
            ("sys:close/vfs_read", 300),
            ("sys:read/vfs_read", 100),
            ("sys:read/vfs_read/read_iter", 70),
            ("sys:read/vfs_read/read_iter/copy.isra.0", 10),
            ("sys:read/vfs_read/read_iter [nfs]", 20),
        ]
    );
}

#[test]
fn a_path_of_names_is_there_once() {
    let tree = sample().by_name();
    assert_eq!(tree.nodes.len(), 7);
    assert_eq!(
        tree.inclusive(Metric::Insn),
        [200, 200, 20, 80, 10, 300, 300]
    );
    assert_eq!(tree.folded(Metric::Wall), sample().folded(Metric::Wall));
    assert_eq!(
        tree.path(4)
            .iter()
            .map(|n| tree.nodes[*n].name())
            .collect::<Vec<_>>(),
        tree.names()[4]
    );
}

#[test]
fn paths_of_the_base_alone_are_there_without_a_value() {
    let base = Base([(path("sys:read/vfs_read/gone"), 5)].into());
    let tree = sample().with(&base);
    assert_eq!(tree.nodes.len(), 8);
    assert_eq!(tree.names()[7], path("sys:read/vfs_read/gone"));
    assert_eq!(tree.total(Metric::Insn), 500);
}

#[test]
fn what_has_no_value_goes() {
    let mut tree = sample();
    tree.nodes[3].own = Own::default();
    tree.nodes[7].own = Own::default();
    let used = tree.used(Metric::Insn);
    let names: Vec<String> = used.nodes.iter().map(Node::name).collect();
    let kept = [
        "sys:read",
        "vfs_read",
        "read_iter [nfs]",
        "read_iter",
        "copy.isra.0",
    ];
    assert_eq!(names, kept);
    assert_eq!(used.folded(Metric::Insn), tree.folded(Metric::Insn));
}
