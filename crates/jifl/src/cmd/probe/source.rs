// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the code of a source line stands, in the kernel and in all loaded modules. A file that is
//! no header is compiled into one of them: if the kernel has it, modules are not asked.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs;

use crate::base::exit::Failure;
use crate::kernel::lines::{Build, Line, Lines, LinesArgs};
use crate::kernel::symbols::Symbols;
use crate::show::output;

/// So many files are named at most.
const NAMED: usize = 5;

/// Where lines come from.
pub struct Source<'a> {
    args: LinesArgs,
    symbols: &'a Symbols,
    lines: OnceCell<Lines>,
}

/// The ranges of a file's lines.
#[derive(Debug, Default)]
struct Ranges {
    all: Vec<Line>,
    /// The kernel has no debug information here.
    without_kernel: bool,
    /// These modules have none.
    without: Vec<String>,
}

impl<'a> Source<'a> {
    /// Debug information as these options say.
    pub fn new(args: LinesArgs, symbols: &'a Symbols) -> Source<'a> {
        Source {
            args,
            symbols,
            lines: OnceCell::new(),
        }
    }

    /// The addresses at which ranges of a line's code begin.
    ///
    /// # Errors
    /// There is none, or the file is not known for certain.
    pub fn addresses(&self, word: &str, file: &str, line: u32) -> Result<Vec<u64>, Failure> {
        let lines = match self.lines.get() {
            Some(lines) => lines,
            None => {
                let opened = self.args.open(Build::running())?;
                self.lines.get_or_init(|| opened.lines(self.symbols))
            }
        };
        let ranges = self.ranges(lines, file);
        let without: Vec<&str> = ranges.without.iter().map(String::as_str).collect();
        let missing = lines.missing(ranges.without_kernel, &without);
        if ranges.all.is_empty() {
            return Err(match missing {
                Some(missing) => Failure::cannot(format!("{word}: {missing}")),
                None => Failure::usage(format!(
                    "{word}: neither the kernel nor a module that is loaded has code of such a file"
                )),
            });
        }
        let found = of_line(&ranges.all, file, line)
            .map_err(|why| Failure::usage(format!("{word}: {why}")))?;
        if let Some(missing) = missing.filter(|_| is_header(file)) {
            output::note(&format!("jifl: {word}: {missing}"));
        }
        Ok(found)
    }

    fn ranges(&self, lines: &Lines, file: &str) -> Ranges {
        let mut ranges = Ranges::default();
        match lines.beginnings(None, file) {
            Some(found) => ranges.all = found,
            None => ranges.without_kernel = true,
        }
        // This code has gone when the kernel had started.
        let mark = |name| self.symbols.address(name).unwrap_or(0);
        let gone = mark("__init_begin")..mark("__init_end");
        (ranges.all).retain(|one| !gone.contains(&one.from) && self.is_in(one.from, None));
        if !is_header(file) && ranges.all.iter().any(|one| one.file == file) {
            return ranges;
        }
        let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
        for name in modules.lines().filter_map(|line| line.split(' ').next()) {
            match lines.beginnings(Some(name), file) {
                Some(found) => {
                    let found = found.into_iter();
                    let own = found.filter(|one| self.is_in(one.from, Some(name)));
                    ranges.all.extend(own);
                }
                None => ranges.without.push(name.to_owned()),
            }
        }
        ranges
    }

    fn is_in(&self, address: u64, module: Option<&str>) -> bool {
        let function = self.symbols.function(address);
        function.is_some_and(|function| function.module() == module)
    }
}

fn is_header(file: &str) -> bool {
    !file.ends_with(".c") && !file.ends_with(".S")
}

/// The addresses of a line; the error says what is against it.
fn of_line(all: &[Line], file: &str, line: u32) -> Result<Vec<u64>, String> {
    let files: BTreeSet<&str> = all.iter().map(|one| one.file.as_str()).collect();
    let file = match files.contains(file) {
        true => file,
        false if files.len() == 1 => files.first().copied().unwrap_or(file),
        false => {
            let named: Vec<&str> = files.iter().copied().take(NAMED).collect();
            return Err(format!(
                "{} files have this name: give one of {}{}",
                files.len(),
                named.join(", "),
                if files.len() > NAMED { ", ..." } else { "" }
            ));
        }
    };
    let own = || all.iter().filter(|one| one.file == file);
    let mut found: Vec<u64> = own()
        .filter(|one| one.line == line)
        .map(|one| one.from)
        .collect();
    if found.is_empty() {
        let before = own().map(|one| one.line).filter(|one| *one < line).max();
        let behind = own().map(|one| one.line).filter(|one| *one > line).min();
        let near = before.into_iter().chain(behind);
        let near: Vec<String> = near.map(|near| format!("line:{file}:{near}")).collect();
        return Err(format!(
            "the line has no code; the nearest with code: {}",
            near.join(" and ")
        ));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_file() {
        let line = |from, file: &str, line| Line {
            from,
            to: from,
            file: file.into(),
            line,
        };
        let all = [
            line(0x10, "fs/a.c", 5),
            line(0x20, "fs/a.c", 8),
            line(0x30, "fs/a.c", 5),
            line(0x40, "net/a.c", 5),
        ];
        assert_eq!(of_line(&all, "fs/a.c", 5).unwrap(), [0x10, 0x30]);
        assert_eq!(of_line(&all[..3], "a.c", 8).unwrap(), [0x20]);
        let why = of_line(&all, "a.c", 5).unwrap_err();
        assert_eq!(why, "2 files have this name: give one of fs/a.c, net/a.c");
        let why = of_line(&all[..3], "a.c", 6).unwrap_err();
        assert!(why.ends_with(": line:fs/a.c:5 and line:fs/a.c:8"), "{why}");
    }
}
