// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the module has counted, as a tree with names.

use jifl_sys::abi::CallPath;

use super::tree::{Node, Own, Tree};
use crate::kernel::symbols::Symbols;

/// The root of calls that found no room for a path.
const OTHERS: &str = "(others)";

/// The module's entries as a tree, with names.
pub fn tree(entries: &[CallPath], symbols: &Symbols) -> Tree {
    let node = |path: &CallPath| {
        let place = symbols.function(path.function);
        let place = place.as_ref();
        Node {
            parent: (path.parent as usize).checked_sub(1),
            function: match (place, path.function) {
                (_, 0) => OTHERS.to_owned(),
                (None, address) => format!("{address:#x}"),
                (Some(place), _) => place.name().to_owned(),
            },
            module: place.and_then(|place| place.module().map(str::to_owned)),
            address: path.function,
            own: Own {
                calls: path.calls,
                instructions: path.insns,
                wall_ns: path.wall_ns,
                blocked_ns: path.blocked_ns,
                runnable_ns: path.runnable_ns,
            },
        }
    };
    Tree {
        nodes: entries.iter().map(node).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::prof::paths::metric::Metric;

    #[test]
    fn entries_are_nodes_below_their_callers() {
        let symbols = Symbols::parse(
            "ffffffff81000000 T outer\nffffffff81000100 t inner\t[nfs]\nffffffff81000200 T x\n",
        );
        let entry = |function, parent| CallPath {
            function,
            parent,
            insns: 7,
            ..CallPath::default()
        };
        let entries = [
            entry(0xffff_ffff_8100_0000, 0),
            entry(0xffff_ffff_8100_0100, 1),
            entry(0, 0),
        ];
        let tree = tree(&entries, &symbols);
        let names: Vec<String> = tree.nodes.iter().map(Node::name).collect();
        assert_eq!(names, ["outer", "inner [nfs]", OTHERS]);
        assert_eq!(tree.nodes[1].parent, Some(0));
        assert_eq!(tree.inclusive(Metric::Insn), [14, 7, 7]);
    }
}
