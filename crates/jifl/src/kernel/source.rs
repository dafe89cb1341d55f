// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which code the kernel and all loaded modules have of source files and their lines. A file that
//! is no header is compiled into one of them: if the kernel has it, modules are not asked. A file
//! is named by its path from the top of the source tree, or by the end of that.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs;

use crate::base::exit::Failure;
use crate::base::glob;
use crate::base::nearest::nearest;
use crate::kernel::lines::rows::First;
use crate::kernel::lines::{Build, Line, Lines, LinesArgs};
use crate::kernel::symbols::Symbols;
use crate::show::output;

/// So many files are named at most.
const NAMED: usize = 5;

/// Where lines come from.
pub struct Source<'a> {
    args: Option<LinesArgs>,
    symbols: &'a Symbols,
    lines: OnceCell<Lines>,
}

/// The ranges of the lines of some files.
#[derive(Debug, Default)]
struct Ranges {
    all: Vec<Line>,
    /// The kernel has no debug information here.
    without_kernel: bool,
    /// These modules have none.
    without: Vec<String>,
}

impl<'a> Source<'a> {
    /// Debug information as the options of a command say.
    pub fn new(args: LinesArgs, symbols: &'a Symbols) -> Source<'a> {
        Source {
            args: Some(args),
            ..Source::found(symbols)
        }
    }

    /// Debug information as it is found without options.
    pub fn found(symbols: &'a Symbols) -> Source<'a> {
        Source {
            args: None,
            symbols,
            lines: OnceCell::new(),
        }
    }

    /// The addresses at which ranges of a line's code begin, where a debugger may stop.
    ///
    /// # Errors
    /// There is none, or the file is not known for certain.
    pub fn stops(&self, word: &str, file: &str, line: u32) -> Result<Vec<u64>, Failure> {
        self.of_line(word, file, line, First::Stop)
    }

    /// The addresses at which ranges of a line's code begin.
    ///
    /// # Errors
    /// As for [`Source::stops`].
    pub fn code(&self, word: &str, file: &str, line: u32) -> Result<Vec<u64>, Failure> {
        self.of_line(word, file, line, First::Any)
    }

    /// The addresses at which the functions of files begin. Of a glob, files whose whole path
    /// matches are meant; if none does, those of which an end does.
    ///
    /// # Errors
    /// There is none, or the file is not known for certain.
    pub fn functions(&self, word: &str, file: &str) -> Result<Vec<u64>, Failure> {
        let (all, note) = self.known(word, file, First::Any)?;
        let all = match glob::is_pattern(file) {
            true => best(all, file),
            false => one(all, file).map_err(|why| Failure::usage(format!("{word}: {why}")))?,
        };
        let begins = |at: &u64| {
            let function = self.symbols.function(*at);
            function.is_some_and(|function| function.start() == *at)
        };
        // What is inlined has its first line elsewhere: at a function's own beginning stands the
        // line where that function begins.
        let found: BTreeSet<u64> = all.iter().map(|one| one.from).filter(begins).collect();
        if found.is_empty() {
            return Err(Failure::usage(format!(
                "{word}: no function begins there: all its code is inlined into others; \
                 line:FILE:LINE means the functions into which a line is inlined"
            )));
        }
        tell(note);
        Ok(found.into_iter().collect())
    }

    fn of_line(
        &self,
        word: &str,
        file: &str,
        line: u32,
        first: First,
    ) -> Result<Vec<u64>, Failure> {
        let refused = |why: String| Failure::usage(format!("{word}: {why}"));
        let (all, note) = self.known(word, file, first)?;
        let all = one(all, file).map_err(refused)?;
        let found = at_line(&all, line).map_err(refused)?;
        tell(note);
        Ok(found)
    }

    /// The ranges of the files that a word means; there is one at least. Also what is to be told if
    /// others may be missing.
    fn known(
        &self,
        word: &str,
        file: &str,
        first: First,
    ) -> Result<(Vec<Line>, Option<String>), Failure> {
        let lines = match self.lines.get() {
            Some(lines) => lines,
            None => {
                let none = LinesArgs::default();
                let opened = self.args.as_ref().unwrap_or(&none).open(Build::running())?;
                self.lines.get_or_init(|| opened.lines(self.symbols))
            }
        };
        let ranges = self.ranges(lines, file, first);
        let without: Vec<&str> = ranges.without.iter().map(String::as_str).collect();
        let missing = lines.missing(ranges.without_kernel, &without, self.args.is_some());
        if ranges.all.is_empty() {
            let near = near(lines, word, file);
            return Err(match missing {
                Some(missing) => Failure::cannot(format!("{word}: {missing}{near}")),
                None => Failure::usage(format!(
                    "{word}: neither the kernel nor a module that is loaded has code of such a \
                     file{near}"
                )),
            });
        }
        let missing = missing.filter(|_| is_of_several(file));
        let note = missing.map(|missing| format!("jifl: {word}: {missing}"));
        Ok((ranges.all, note))
    }

    fn ranges(&self, lines: &Lines, file: &str, first: First) -> Ranges {
        let end = format!("**/{file}");
        let wanted = |file: &str| glob::matches_path(&end, file);
        let mut ranges = Ranges::default();
        match lines.beginnings(None, wanted, first) {
            Some(found) => ranges.all = found,
            None => ranges.without_kernel = true,
        }
        // This code has gone when the kernel had started.
        let mark = |name| self.symbols.address(name).unwrap_or(0);
        let gone = mark("__init_begin")..mark("__init_end");
        (ranges.all).retain(|one| !gone.contains(&one.from) && self.is_in(one.from, None));
        if !is_of_several(file) && ranges.all.iter().any(|one| one.file == file) {
            return ranges;
        }
        for name in modules() {
            match lines.beginnings(Some(&name), wanted, first) {
                Some(found) => {
                    let found = found.into_iter();
                    let own = found.filter(|one| self.is_in(one.from, Some(&name)));
                    ranges.all.extend(own);
                }
                None => ranges.without.push(name),
            }
        }
        ranges
    }

    fn is_in(&self, address: u64, module: Option<&str>) -> bool {
        let function = self.symbols.function(address);
        function.is_some_and(|function| function.module() == module)
    }
}

fn tell(note: Option<String>) {
    if let Some(note) = note {
        output::note(&note);
    }
}

/// Names of the modules that are loaded.
fn modules() -> Vec<String> {
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    let names = modules.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

/// May the kernel and modules have code of it: is it a header, or a glob?
fn is_of_several(file: &str) -> bool {
    !file.ends_with(".c") && !file.ends_with(".S") || glob::is_pattern(file)
}

/// Words for known files whose names are like that of a file, as the end of a line.
fn near(lines: &Lines, word: &str, file: &str) -> String {
    let mut files = lines.files(None);
    for module in modules() {
        files.extend(lines.files(Some(&module)));
    }
    let near = like(file, &files).into_iter();
    let near: Vec<String> = near.map(|near| word.replacen(file, &near, 1)).collect();
    match near.as_slice() {
        [] => String::new(),
        near => format!("; the nearest that are known are {}", near.join(", ")),
    }
}

/// Files whose paths, or ends of them, are like a name, as it is written.
fn like(name: &str, files: &BTreeSet<String>) -> Vec<String> {
    let folders = name.split('/').count();
    let end = |path: &String| -> String {
        let parts: Vec<&str> = path.split('/').collect();
        parts[parts.len().saturating_sub(folders)..].join("/")
    };
    let ends: BTreeSet<String> = files.iter().map(end).collect();
    let near = nearest(name, ends.iter().map(String::as_str));
    near.into_iter().map(str::to_owned).collect()
}

/// Of files whose paths match a glob in whole or in part, those that match in whole, if any does.
fn best(all: Vec<Line>, pattern: &str) -> Vec<Line> {
    let is_whole = |one: &Line| glob::matches_path(pattern, &one.file);
    let has_whole = all.iter().any(is_whole);
    let all = all.into_iter();
    all.filter(|one| !has_whole || is_whole(one)).collect()
}

/// The ranges of the one file that a name means; the error says what is against it.
fn one(all: Vec<Line>, name: &str) -> Result<Vec<Line>, String> {
    let all = best(all, name);
    let files: BTreeSet<&str> = all.iter().map(|one| one.file.as_str()).collect();
    if files.len() > 1 {
        let named: Vec<&str> = files.iter().copied().take(NAMED).collect();
        return Err(format!(
            "{} files have this name: give one of {}{}",
            files.len(),
            named.join(", "),
            if files.len() > NAMED { ", ..." } else { "" }
        ));
    }
    Ok(all)
}

/// The addresses of a line of one file; the error says what is against it.
fn at_line(all: &[Line], line: u32) -> Result<Vec<u64>, String> {
    let own = all.iter().filter(|one| one.line == line);
    let found: BTreeSet<u64> = own.map(|one| one.from).collect();
    if !found.is_empty() {
        return Ok(found.into_iter().collect());
    }
    let lines = || all.iter().map(|one| (one.line, one.file.as_str()));
    let before = lines().filter(|(other, _)| *other < line).max();
    let behind = lines().filter(|(other, _)| *other > line).min();
    let near = before.into_iter().chain(behind);
    let near: Vec<String> = near
        .map(|(line, file)| format!("line:{file}:{line}"))
        .collect();
    Err(format!(
        "the line has no code; the nearest with code: {}",
        near.join(" and ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<Line> {
        let line = |(from, file, line): (u64, &str, u32)| Line {
            from,
            to: from,
            file: file.into(),
            line,
        };
        [
            (0x10, "fs/a.c", 5),
            (0x20, "fs/a.c", 8),
            (0x30, "fs/a.c", 5),
            (0x40, "net/fs/a.c", 5),
        ]
        .map(line)
        .into()
    }

    #[test]
    fn a_name_is_a_path_or_the_end_of_one() {
        let of = |all: &[Line], name| {
            let found = one(all.to_vec(), name);
            found.map(|found| found.iter().map(|one| one.from).collect::<Vec<_>>())
        };
        let all = lines();
        assert_eq!(of(&all, "fs/a.c").unwrap(), [0x10, 0x20, 0x30]);
        assert_eq!(of(&all[..3], "a.c").unwrap(), [0x10, 0x20, 0x30]);
        let why = of(&all, "a.c").unwrap_err();
        assert_eq!(
            why,
            "2 files have this name: give one of fs/a.c, net/fs/a.c"
        );
        let of = |pattern| best(all.clone(), pattern).len();
        assert_eq!([of("fs/*.c"), of("*.c"), of("**/a.c")], [3, 4, 4]);
    }

    #[test]
    fn lines_of_one_file() {
        let all = &lines()[..3];
        assert_eq!(at_line(all, 5).unwrap(), [0x10, 0x30]);
        assert_eq!(at_line(all, 8).unwrap(), [0x20]);
        let why = at_line(all, 6).unwrap_err();
        assert!(why.ends_with(": line:fs/a.c:5 and line:fs/a.c:8"), "{why}");
        let why = at_line(all, 9).unwrap_err();
        assert!(why.ends_with("with code: line:fs/a.c:8"), "{why}");
    }

    #[test]
    fn unknown_files_get_the_nearest() {
        let files = ["fs/open.c", "fs/ext4/inode.c", "mm/slub.c"];
        let files: BTreeSet<String> = files.map(str::to_owned).into();
        assert_eq!(like("opn.c", &files), ["open.c"]);
        assert_eq!(like("ext4/inod.c", &files)[0], "ext4/inode.c");
        assert!(like("zzzzzz", &files).is_empty());
    }

    #[test]
    fn headers_and_globs_may_be_in_modules_too() {
        let of = ["a.h", "fs/a.c", "a.S", "fs/*.c", "x.rs"].map(is_of_several);
        assert_eq!(of, [true, false, false, true, true]);
    }
}
