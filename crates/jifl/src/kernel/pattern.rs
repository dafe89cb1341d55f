// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which functions a user means: `fn:NAME`, `fn:GLOB`, `fn:NAME@MODULE`, `mod:NAME`. Other words
//! can name functions in the same way: `work:NAME`.
//!
//! A compiler makes several functions of one: `f.isra.0` with other arguments, `f.constprop.0` for
//! one value of an argument, `f.part.0` from its middle on. All of them belong to the name `f`.

use crate::base::glob;

/// Endings that a compiler gives to functions that it makes of others. A number follows.
const SUFFIXES: [&str; 3] = [".isra", ".constprop", ".part"];

/// A user's word for functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    word: String,
    prefix: &'static str,
    name: String,
    module: Option<String>,
}

impl Pattern {
    /// Reads `fn:...` or `mod:...`; `None`: the word is of another kind.
    pub fn parse(word: &str) -> Option<Pattern> {
        let Some(module) = word.strip_prefix("mod:") else {
            return Pattern::behind("fn:", word);
        };
        Some(Pattern {
            word: word.into(),
            prefix: "mod:",
            name: "*".into(),
            module: Some(module.to_owned()),
        })
    }

    /// Reads a word with this prefix, and behind it what may stand behind `fn:`.
    pub fn behind(prefix: &'static str, word: &str) -> Option<Pattern> {
        let rest = word.strip_prefix(prefix)?;
        let (name, module) = match rest.split_once('@') {
            Some((name, module)) => (name, Some(module)),
            None => (rest, None),
        };
        Some(Pattern {
            word: word.into(),
            prefix,
            name: name.into(),
            module: module.map(str::to_owned),
        })
    }

    /// What the word begins with.
    pub fn prefix(&self) -> &'static str {
        self.prefix
    }

    /// As the user wrote it.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// The name or glob of the functions.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name or glob of their modules, if one was given.
    pub fn module(&self) -> Option<&str> {
        self.module.as_deref()
    }

    /// Does it mean a module as a whole, `mod:...`?
    pub fn is_module(&self) -> bool {
        self.prefix == "mod:"
    }

    /// Does it mean whatever matches, and not one name?
    pub fn is_glob(&self) -> bool {
        glob::is_pattern(&self.name)
    }

    /// Does it mean a function with this name in this module?
    pub fn matches(&self, name: &str, module: &str) -> bool {
        self.matches_module(module) && self.matches_name(name)
    }

    /// Does it mean functions of this module?
    pub fn matches_module(&self, module: &str) -> bool {
        let wanted = self.module.as_deref();
        wanted.is_none_or(|wanted| glob::matches(wanted, module))
    }

    fn matches_name(&self, name: &str) -> bool {
        glob::matches(&self.name, name) || glob::matches(&self.name, source_name(name))
    }
}

/// The name that a function has in the source: `f` of `f.isra.0` and of `f.part.1.constprop.0`.
pub fn source_name(name: &str) -> &str {
    let mut rest = name;
    while let Some(shorter) = without_suffix(rest) {
        rest = shorter;
    }
    rest
}

fn without_suffix(name: &str) -> Option<&str> {
    let (rest, number) = name.rsplit_once('.')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let shorter = SUFFIXES.iter().find_map(|end| rest.strip_suffix(end))?;
    (is_number && !shorter.is_empty()).then_some(shorter)
}

/// Does the name stand for a part of a function, that is no function by itself? `f.cold` is
/// jumped to from `f`, and `__pfx_f` is the padding in front of `f`.
pub fn is_part(name: &str) -> bool {
    name.starts_with("__pfx_") || name.ends_with(".cold") || name.contains(".cold.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::images::KERNEL;

    #[test]
    fn a_table_of_words() {
        let kernel = KERNEL;
        for (word, name, module, expected) in [
            ("fn:vfs_read", "vfs_read", kernel, true),
            ("fn:vfs_read", "vfs_read", "nfs", true),
            ("fn:vfs_read", "vfs_readv", kernel, false),
            ("fn:vfs_read", "vfs_read.isra.0", kernel, true),
            ("fn:vfs_read", "vfs_read.part.0.constprop.12", kernel, true),
            ("fn:vfs_read", "vfs_read.isra", kernel, false),
            ("fn:vfs_read", "vfs_read.other.0", kernel, false),
            ("fn:vfs_read.isra.0", "vfs_read.isra.0", kernel, true),
            ("fn:vfs_read.isra.0", "vfs_read", kernel, false),
            ("fn:*_read", "vfs_read.isra.0", kernel, true),
            ("fn:*.isra.*", "vfs_read.isra.0", kernel, true),
            ("fn:vfs_*", "vfs_read", kernel, true),
            ("fn:read@nfs", "read", "nfs", true),
            ("fn:read@nfs", "read", kernel, false),
            ("fn:read@vmlinux", "read", kernel, true),
            ("fn:*@nf*", "read", "nfs", true),
            ("mod:nfs", "read", "nfs", true),
            ("mod:nfs", "read", "nfsd", false),
            ("mod:nfs*", "read", "nfsd", true),
        ] {
            let pattern = Pattern::parse(word).unwrap();
            let got = pattern.matches(name, module);
            assert_eq!(got, expected, "{word} {name} {module}");
        }
        assert_eq!(Pattern::parse("sys:read"), None);
        assert_eq!(Pattern::parse("vfs_read"), None);
    }

    #[test]
    fn one_name_is_no_glob_and_a_module_is() {
        let is_glob = |word| Pattern::parse(word).unwrap().is_glob();
        assert!(!is_glob("fn:read") && !is_glob("fn:read@nf*"));
        assert!(is_glob("fn:r*") && is_glob("fn:?ead@nfs") && is_glob("mod:nfs"));
    }

    #[test]
    fn parts_are_no_functions() {
        for (name, part) in [
            ("f", false),
            ("f.cold", true),
            ("f.cold.3", true),
            ("f.isra.0.cold", true),
            ("f.colder", false),
            ("__pfx_f", true),
        ] {
            assert_eq!(is_part(name), part, "{name}");
        }
        assert_eq!(source_name(".isra.0"), ".isra.0");
    }
}
