// SPDX-License-Identifier: MIT OR Apache-2.0
//! What sessions do, by their kind. The list below is the only one in the command; the module's is
//! `JIFL_TOOLS` of include/uapi/jifl.h.

/// What the command must know of a kind before it asks the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// The results contain addresses of the kernel. The module gives them only to who may see
    /// `/proc/kallsyms`.
    Addresses,
    /// Functions can be its targets without what they call: `SCOPE_ONLY`.
    Alone,
    /// Calls can be taken over in their middle: `FLAG_ADOPT`.
    Adopts,
    /// A call has a value, which is how much was counted inside it.
    Value,
}

/// Declares [`Kind`]: doc, name, number, name in reports, facts.
macro_rules! kinds {
    ($( $(#[$meta:meta])* $kind:ident = $number:literal, $name:literal, [$($fact:ident),*]; )*) => {
        /// What a session inserts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Kind { $( $(#[$meta])* $kind = $number, )* }

        impl Kind {
            /// All kinds, in the order of their numbers.
            pub const ALL: &[Kind] = &[ $( Kind::$kind, )* ];

            /// Its name in reports and on the command line.
            pub fn name(self) -> &'static str {
                match self { $( Kind::$kind => $name, )* }
            }

            /// Whether this is so of such sessions. The module decides the same by the structure
            /// of the tool; a test compares both.
            pub fn is(self, fact: Fact) -> bool {
                let facts: &[Fact] = match self { $( Kind::$kind => &[$(Fact::$fact),*], )* };
                facts.contains(&fact)
            }
        }
    };
}

kinds! {
    /// Nothing: the bare cost of the cache.
    None = 0, "none", [Alone, Adopts];
    /// System calls, nothing inside them.
    Call = 1, "call", [Alone];
    /// Instructions executed.
    Insn = 2, "insn", [Alone, Adopts, Value];
    /// Basic blocks executed.
    Block = 3, "block", [Alone, Adopts, Value];
    /// A plugin's own callbacks.
    Plugin = 4, "plugin", [];
    /// Functions entered, counted and recorded.
    Trace = 5, "trace", [Addresses, Adopts, Value];
    /// Executions of each basic block.
    Profile = 6, "profile", [Addresses, Alone, Adopts];
    /// Basic blocks executed, recorded in their order.
    Path = 7, "path", [Addresses];
    /// Waits for locks, and retries of locked cmpxchg.
    Lock = 8, "lock", [Addresses, Adopts];
    /// What is loaded and stored, recorded.
    Mem = 9, "mem", [Addresses, Adopts];
    /// Executions of places in functions.
    Probe = 10, "probe", [Alone, Adopts];
    /// Calls of one function go to another.
    Replace = 11, "replace", [];
    /// Calls of functions, and how long they take.
    Times = 12, "times", [Alone, Adopts];
    /// Instructions and times by call path.
    Tree = 13, "tree", [Addresses];
    /// Nothing is inserted. Blocks lie in an order of the command's.
    Layout = 14, "layout", [Alone, Adopts];
}

impl Kind {
    /// The kind with this number, if there is one.
    pub fn from_number(number: u32) -> Option<Kind> {
        Kind::ALL
            .iter()
            .copied()
            .find(|kind| *kind as u32 == number)
    }
}
