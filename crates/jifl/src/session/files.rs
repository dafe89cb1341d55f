// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions by their source: `file:fs/ext4/*.c` means all functions whose source is in these
//! files, `line:fs/open.c:1390` the functions that have code of this line. Code of an inlined
//! function is that of the functions into which it is inlined. Debug information tells this.

use std::collections::BTreeMap;

use crate::base::exit::Failure;
use crate::base::glob;
use crate::kernel::functions::{Function, Functions};
use crate::kernel::source::Source;
use crate::kernel::symbols::Symbols;

/// A user's word for functions by their source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Files {
    /// All functions of files.
    All {
        /// As the user wrote it.
        word: String,
        /// The path of a file or the end of it, or a glob for such.
        file: String,
    },
    /// The functions that have code of a line.
    Line {
        /// As the user wrote it.
        word: String,
        /// The path of a file, or the end of it.
        file: String,
        /// The line's number.
        line: u32,
    },
}

impl Files {
    /// Reads `file:...` or `line:...`; `None`: the word is of another kind.
    ///
    /// # Errors
    /// It is not complete.
    pub fn parse(word: &str) -> Result<Option<Files>, Failure> {
        let (read, form) = match (word.strip_prefix("file:"), word.strip_prefix("line:")) {
            (Some(file), _) => (all(word, file), "file:fs/open.c or 'file:fs/ext4/*.c'"),
            (_, Some(place)) => (line_of(word, place), "line:fs/open.c:1390"),
            _ => return Ok(None),
        };
        let wrong = || Failure::usage(format!("{word}: give it as {form}"));
        read.ok_or_else(wrong).map(Some)
    }

    /// As the user wrote it.
    pub fn word(&self) -> &str {
        match self {
            Files::All { word, .. } | Files::Line { word, .. } => word,
        }
    }

    /// Does it mean whatever matches, and not one function?
    pub fn is_glob(&self) -> bool {
        matches!(self, Files::All { .. })
    }
}

fn all(word: &str, file: &str) -> Option<Files> {
    Some(Files::All {
        word: word.into(),
        file: path(file)?,
    })
}

/// `FILE:LINE`
fn line_of(word: &str, place: &str) -> Option<Files> {
    let (file, line) = place.rsplit_once(':')?;
    Some(Files::Line {
        word: word.into(),
        file: path(file).filter(|file| !glob::is_pattern(file))?,
        line: line.parse().ok().filter(|line| *line > 0)?,
    })
}

fn path(file: &str) -> Option<String> {
    let file = file.trim_start_matches("./");
    (!file.is_empty() && !file.ends_with('/')).then(|| file.to_owned())
}

/// The functions of the running kernel that have code of these files; there is one at least.
///
/// # Errors
/// There is none, or debug information is not here.
pub fn functions(files: &Files, functions: &Functions) -> Result<Vec<Function>, Failure> {
    let symbols = Symbols::of_kernel();
    let source = Source::found(&symbols);
    let addresses = match files {
        Files::All { word, file } => source.functions(word, file)?,
        Files::Line { word, file, line } => source.code(word, file, *line)?,
    };
    owners(&addresses, &symbols, functions)
        .map_err(|why| Failure::usage(format!("{}: {why}", files.word())))
}

/// The functions in which these addresses lie, each once. The error says why there is none.
fn owners(
    addresses: &[u64],
    symbols: &Symbols,
    functions: &Functions,
) -> Result<Vec<Function>, String> {
    let (mut found, mut against) = (BTreeMap::new(), None);
    for address in addresses {
        match functions.owner(symbols, *address) {
            Ok(function) => drop(found.insert(function.address, function.clone())),
            Err(why) => against = against.or(Some(why)),
        }
    }
    match (found.is_empty(), against) {
        (true, Some(why)) => Err(why),
        _ => Ok(found.into_values().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::functions::tests::sample;

    #[test]
    fn words_for_files_and_lines() {
        let file = |word: &str, file: &str| Files::All {
            word: word.into(),
            file: file.into(),
        };
        let read = |word| Files::parse(word).map_err(|failure| failure.message);
        for (word, path) in [
            ("file:fs/open.c", "fs/open.c"),
            ("file:./fs/ext4/*.c", "fs/ext4/*.c"),
            ("file:open.c", "open.c"),
        ] {
            assert_eq!(read(word), Ok(Some(file(word, path))));
        }
        let word = "line:./fs/open.c:13".to_owned();
        let line = read(&word).unwrap().unwrap();
        assert_eq!((line.word(), line.is_glob()), (word.as_str(), false));
        let (file, line) = ("fs/open.c".to_owned(), 13);
        assert_eq!(
            read(&word),
            Ok(Some(Files::Line {
                word: word.clone(),
                file,
                line
            }))
        );
        for word in ["fn:open", "fs/open.c", "files:x"] {
            assert_eq!(read(word), Ok(None), "{word}");
        }
        for word in [
            "file:",
            "file:./",
            "file:fs/",
            "line:",
            "line:open.c",
            "line:open.c:0",
            "line:open.c:x",
            "line::5",
            "line:*.c:5",
        ] {
            let why = read(word).unwrap_err();
            assert!(why.starts_with(word) && why.contains("give it as"), "{why}");
        }
    }

    #[test]
    fn code_belongs_to_functions_and_to_those_of_cold_parts() {
        let symbols = Symbols::parse(
            "1010 T vfs_read\n1040 t vfs_read.cold\n1080 t vfs_bare\n10a0 t twice\n10c0 t twice\n\
             10d0 t twice.cold\n",
        );
        let names = |addresses: &[u64]| {
            let found = owners(addresses, &symbols, &sample())?;
            Ok(found.into_iter().map(|one| one.name).collect::<Vec<_>>())
        };
        let found: Result<_, String> = names(&[0x1014, 0x1044, 0x1084, 0x10d4]);
        assert_eq!(found.unwrap(), ["vfs_read", "vfs_bare"]);
        let why = names(&[0x10d4]).unwrap_err();
        assert!(why.contains("one of several of its name"), "{why}");
    }
}
