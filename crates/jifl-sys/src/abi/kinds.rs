// SPDX-License-Identifier: MIT OR Apache-2.0
//! What sessions do, by their kind. The list below is the only one in the command; the module's is
//! `JIFL_TOOLS` of include/uapi/jifl.h.

/// Declares [`Kind`]: doc, name, number, name in reports, whether results hold kernel addresses.
macro_rules! kinds {
    ($( $(#[$meta:meta])* $kind:ident = $number:literal, $name:literal, $addresses:literal; )*) => {
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

            /// True if the results of such a session contain addresses of the kernel. The module
            /// gives them only to who may see `/proc/kallsyms`.
            pub fn shows_addresses(self) -> bool {
                match self { $( Kind::$kind => $addresses, )* }
            }
        }
    };
}

kinds! {
    /// Nothing: the bare cost of the cache.
    None = 0, "none", false;
    /// System calls, nothing inside them.
    Call = 1, "call", false;
    /// Instructions executed.
    Insn = 2, "insn", false;
    /// Basic blocks executed.
    Block = 3, "block", false;
    /// A plugin's own callbacks.
    Plugin = 4, "plugin", false;
    /// Functions entered, counted and recorded.
    Trace = 5, "trace", true;
    /// Executions of each basic block.
    Profile = 6, "profile", true;
    /// Basic blocks executed, recorded in their order.
    Path = 7, "path", true;
    /// Waits for locks, and retries of locked cmpxchg.
    Lock = 8, "lock", true;
    /// What is loaded and stored, recorded.
    Mem = 9, "mem", true;
    /// Executions of places in functions.
    Probe = 10, "probe", false;
    /// Calls of one function go to another.
    Replace = 11, "replace", false;
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
