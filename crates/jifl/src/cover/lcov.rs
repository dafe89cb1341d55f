// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coverage in lcov's format (geninfo(1)): functions, and lines where the kernel's debug
//! information tells them.
//!
//! Without it there is one record for the kernel and one for each module, of functions alone.
//! With it there is one for each source file of the kernel. A line was executed as often as
//! that of its blocks which was executed most: they are parts of it, or copies that the compiler
//! has inlined elsewhere, of which the sum is not known to be right either.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

use addr2line::Loader;
use jifl_sys::abi::Count;
use object::{Object, ReadCache};

use crate::exit::Failure;
use crate::images::hex;
use crate::profile::{Function, Profile};

/// Lines of the kernel's code.
pub struct Lines {
    loader: Loader,
    /// Where its text begins there.
    text: u64,
}

/// What is said of one source file.
#[derive(Default)]
struct Record {
    /// The line of its first instruction, its name, how often it was called.
    functions: Vec<(u32, String, u64)>,
    /// How often lines were executed.
    lines: BTreeMap<u32, u64>,
}

impl Lines {
    /// Reads a vmlinux, which is to be the kernel with this build id.
    pub fn open(path: &Path, build_id: &str) -> Result<Lines, Failure> {
        let about = |what: &dyn std::fmt::Display| {
            Failure::failed(format!("--vmlinux {}: {what}", path.display()))
        };
        let own = own_build_id(path).map_err(|error| about(&error))?;
        if !build_id.is_empty() && own.as_ref().is_some_and(|own| own != build_id) {
            let own = own.unwrap_or_default();
            return Err(about(&format!(
                "of another kernel: its build id is {own}, that of what was counted {build_id}"
            )));
        }
        let loader = Loader::new(path).map_err(|error| about(&error))?;
        let text = loader.get_section_range(b".text");
        let text = text.ok_or_else(|| about(&"no section .text"))?.begin;
        Ok(Lines { loader, text })
    }

    /// Files and lines that code is of. `slide`: what is to be added to an address of the
    /// running kernel.
    fn of(&self, from: u64, length: u64, slide: u64) -> Vec<(String, u32)> {
        let from = from.wrapping_add(slide);
        let Ok(found) = self.loader.find_location_range(from, from + length) else {
            return Vec::new();
        };
        let line = |(_, _, location): (u64, u64, addr2line::Location<'_>)| {
            // 0: of no line.
            let line = location.line.filter(|line| *line > 0)?;
            Some((location.file?.to_owned(), line))
        };
        found.filter_map(line).collect()
    }
}

/// `None` where it has none.
fn own_build_id(path: &Path) -> Result<Option<String>, Box<dyn std::error::Error>> {
    let file = ReadCache::new(File::open(path)?);
    let id = object::File::parse(&file)?.build_id()?.map(hex);
    Ok(id)
}

/// The whole file.
pub fn render(profile: &Profile, functions: &[Function<'_>], lines: Option<&Lines>) -> String {
    let mut records: BTreeMap<String, Record> = BTreeMap::new();
    let slide = lines.and_then(|lines| {
        let there = profile.symbols.address("_text")?;
        Some(lines.text.wrapping_sub(there))
    });
    for function in functions {
        let of = |from, length| match (lines, slide) {
            (Some(lines), Some(slide)) => lines.of(from, length, slide),
            _ => Vec::new(),
        };
        let begins = of(function.address, 1).into_iter().next();
        let (file, line) = begins.unwrap_or_else(|| (module_of(function), 0));
        let name = function.name.split(' ').next().unwrap_or_default();
        let record = records.entry(file).or_default();
        let calls = called(function);
        record.functions.push((line, name.to_owned(), calls));
        for block in function.blocks {
            add_lines(&mut records, block, of(block.orig, block.src_len.into()));
        }
    }
    let each = records.iter().map(|(file, record)| show(file, record));
    each.collect()
}

/// One that was entered elsewhere, as its cold part is, was called as often as the block that
/// was executed most.
fn called(function: &Function<'_>) -> u64 {
    match function.calls() {
        0 => function
            .blocks
            .iter()
            .map(|block| block.executed)
            .max()
            .unwrap_or(0),
        calls => calls,
    }
}

fn add_lines(records: &mut BTreeMap<String, Record>, block: &Count, lines: Vec<(String, u32)>) {
    for (file, line) in lines {
        let executed = records
            .entry(file)
            .or_default()
            .lines
            .entry(line)
            .or_default();
        *executed = block.executed.max(*executed);
    }
}

/// What stands for the source file of a function without lines.
fn module_of(function: &Function<'_>) -> String {
    match function.name.split_once(" [") {
        Some((_, module)) => format!("{}.ko", module.trim_end_matches(']')),
        None => "vmlinux".into(),
    }
}

fn show(file: &str, record: &Record) -> String {
    let mut text = format!("TN:jifl\nSF:{file}\n");
    for (line, name, _) in &record.functions {
        let _ = writeln!(text, "FN:{line},{name}");
    }
    for (_, name, calls) in &record.functions {
        let _ = writeln!(text, "FNDA:{calls},{name}");
    }
    let hit = record.functions.iter().filter(|(_, _, calls)| *calls > 0);
    let _ = writeln!(text, "FNF:{}\nFNH:{}", record.functions.len(), hit.count());
    for (line, executed) in &record.lines {
        let _ = writeln!(text, "DA:{line},{executed}");
    }
    let hit = record.lines.values().filter(|executed| **executed > 0);
    let _ = writeln!(text, "LF:{}\nLH:{}", record.lines.len(), hit.count());
    text + "end_of_record\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::functions;
    use crate::profile::tests::{block, sample};
    use crate::symbols::Symbols;
    use std::fs;
    use std::process::Command;

    #[test]
    fn functions_alone_where_lines_are_not_known() {
        let profile = sample();
        let found = functions(&profile.blocks, &profile.symbols);
        assert_eq!(
            render(&profile, &found, None),
            "TN:jifl\nSF:nfs.ko\nFN:0,inner\nFNDA:40,inner\nFNF:1\nFNH:1\nLF:0\nLH:0\nend_of_record\n\
             TN:jifl\nSF:vmlinux\nFN:0,outer\nFNDA:10,outer\nFNF:1\nFNH:1\nLF:0\nLH:0\nend_of_record\n"
        );
    }

    /// A program in place of the kernel: its function `later` runs, `never` does not.
    #[test]
    fn lines_are_those_of_the_debug_information() {
        let dir = std::env::temp_dir().join(format!("jifl-lcov-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (source, binary) = (dir.join("program.c"), dir.join("program"));
        fs::write(
            &source,
            "int later(int a)\n{\n\treturn a * 3;\n}\nint never(int a)\n{\n\treturn a - 1;\n}\n\
             void _start(void)\n{\n}\n",
        )
        .unwrap();
        let built = Command::new("cc")
            .args([
                "-g",
                "-O1",
                "-nostdlib",
                "-static",
                "-fcf-protection=none",
                "-Wl,-Ttext=0x81000000",
            ])
            .args(["-Wl,--build-id=none", "-o"])
            .args([&binary, &source])
            .status();
        assert!(built.unwrap().success());
        let lines = Lines::open(&binary, "ab01").unwrap();
        // Loaded elsewhere than it was linked.
        let at = 0xffff_ffff_9000_0000_u64;
        let symbol = |name: &str| {
            let symbols = Command::new("nm").arg(&binary).output().unwrap();
            let text = String::from_utf8(symbols.stdout).unwrap();
            let line = text.lines().find(|line| line.ends_with(name)).unwrap();
            at + (u64::from_str_radix(&line[..16], 16).unwrap() - 0x8100_0000)
        };
        let mut profile = sample();
        let (later, never) = (symbol(" later"), symbol(" never"));
        profile.symbols = Symbols::parse(&format!(
            "{at:x} T _text\n{later:x} T later\n{never:x} T never\n"
        ));
        let mut ran = block(0, 4, 2, 7);
        ran.orig = later;
        let mut not = block(0, 4, 2, 0);
        not.orig = never;
        profile.blocks = vec![ran, not];
        let found = functions(&profile.blocks, &profile.symbols);
        let text = render(&profile, &found, Some(&lines));
        fs::remove_dir_all(&dir).unwrap();
        assert!(
            text.starts_with(&format!("TN:jifl\nSF:{}\n", source.display())),
            "{text}"
        );
        for line in [
            "FN:3,later",
            "FNDA:7,later",
            "FNDA:0,never",
            "FNF:2\nFNH:1",
            "DA:3,7\n",
            "DA:7,0\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    /// This program has a build id where the linker makes one, as Debian's does.
    #[test]
    fn another_kernels_vmlinux_is_refused() {
        let program = std::env::current_exe().unwrap();
        let own = own_build_id(&program).unwrap().expect("a build id");
        let failure = Lines::open(&program, "ab01").err().unwrap();
        assert!(failure.message.contains("of another kernel"));
        assert!(failure.message.contains(&own) && failure.message.contains("ab01"));
        assert!(Lines::open(&program, &own).is_ok());
    }

    #[test]
    fn what_is_no_vmlinux_is_refused_in_one_line() {
        let failure = Lines::open(Path::new("/etc/hostname"), "").err().unwrap();
        assert!(failure.message.starts_with("--vmlinux /etc/hostname: "));
        assert!(!failure.message.contains('\n'));
    }
}
