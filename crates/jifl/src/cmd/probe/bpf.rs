// SPDX-License-Identifier: MIT OR Apache-2.0
//! BPF programs for `--bpf`: one that is pinned, or one of an object file.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::panic::{self, catch_unwind};
use std::path::Path;

use aya::Ebpf;
use aya::programs::{KProbe, ProbeKind, Program, ProgramType};
use object::{Architecture, Object, ObjectSection, ObjectSymbol};

use crate::base::exit::Failure;

/// A program that the kernel has loaded. It goes when this is dropped, unless it is pinned.
pub struct Loaded {
    number: i32,
    // They hold the program.
    _object: Option<Ebpf>,
    _pinned: Option<KProbe>,
}

impl Loaded {
    /// Opens `PATH`, below a BPF file system, or `FILE.o` or `FILE.o:NAME`.
    ///
    /// # Errors
    /// There is no such program, it is none for kprobes, or the kernel does not take it.
    pub fn open(word: &str) -> Result<Loaded, Failure> {
        match object(word) {
            Some((file, name)) => of_object(word, file, name),
            None => pinned(word),
        }
    }

    /// Its file descriptor.
    pub fn number(&self) -> i32 {
        self.number
    }
}

/// The file and the name, if the word is that of an object file.
fn object(word: &str) -> Option<(&Path, Option<&str>)> {
    match word.rsplit_once(".o:") {
        Some((stem, name)) => Some((Path::new(&word[..stem.len() + 2]), Some(name))),
        None => word.ends_with(".o").then_some((Path::new(word), None)),
    }
}

const WRONG_TYPE: &str = "it is no program for kprobes (SEC(\"kprobe\"))";

fn failed(word: &str, error: &dyn std::error::Error) -> Failure {
    let mut texts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(deeper) = source {
        texts.push(deeper.to_string());
        source = deeper.source();
    }
    Failure::failed(format!("--bpf {word}: {}", in_a_line(&texts.join("\n"))))
}

/// What says why a program is refused. The verifier's log may be long. Its last lines say why, but
/// for its statistics at the end.
fn in_a_line(text: &str) -> String {
    const STATISTICS: [&str; 3] = ["processed ", "stack depth ", "verification time "];
    let is_reason =
        |line: &&str| !line.is_empty() && !STATISTICS.iter().any(|one| line.starts_with(one));
    let mut lines: Vec<&str> = text.lines().map(str::trim).filter(is_reason).collect();
    lines.split_off(lines.len().saturating_sub(3)).join(": ")
}

fn pinned(word: &str) -> Result<Loaded, Failure> {
    let program =
        KProbe::from_pin(word, ProbeKind::KProbe).map_err(|error| failed(word, &error))?;
    let info = program.info().map_err(|error| failed(word, &error))?;
    let is_kprobe = matches!(info.program_type(), Ok(ProgramType::KProbe));
    if !is_kprobe {
        return Err(Failure::usage(format!("--bpf {word}: {WRONG_TYPE}")));
    }
    let fd = program.fd().map_err(|error| failed(word, &error))?;
    Ok(Loaded {
        number: fd.as_fd().as_raw_fd(),
        _object: None,
        _pinned: Some(program),
    })
}

const NO_LICENSE: &str = "it states no license: give it one, as char _license[] \
                          SEC(\"license\") = \"GPL\"";
const DAMAGED: &str = "the file is damaged";

/// What is against an object file and what aya does not look at: it takes a file without a license
/// for one under the GPL, which would open the kernel's functions for such programs alone to it,
/// and it takes what symbols say of sections for true.
fn against(data: &[u8]) -> Result<(), String> {
    let damaged = |error| format!("{DAMAGED}: {error}");
    let file =
        object::File::parse(data).map_err(|error| format!("it is no object file: {error}"))?;
    if file.architecture() != Architecture::Bpf {
        return Err("it is an object file, but none for BPF".into());
    }
    if file.section_by_name("license").is_none() {
        return Err(NO_LICENSE.into());
    }
    for symbol in file.symbols() {
        let Some(index) = symbol.section_index() else {
            continue;
        };
        let section = file.section_by_index(index).map_err(damaged)?;
        let begin = symbol.address().checked_sub(section.address());
        let end = begin.and_then(|begin| begin.checked_add(symbol.size()));
        if end.is_none_or(|end| end > section.size()) {
            let name = symbol.name().unwrap_or("?");
            return Err(format!("{DAMAGED}: {name:?} is not in its section"));
        }
    }
    Ok(())
}

/// Loads the maps of an object file, and what its programs are. The file may be anything, and the
/// parser is not this project's: where it panics the file is damaged.
fn load(word: &str, data: &[u8]) -> Result<Ebpf, Failure> {
    against(data).map_err(|why| Failure::usage(format!("--bpf {word}: {why}")))?;
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let loaded = catch_unwind(|| Ebpf::load(data));
    panic::set_hook(hook);
    match loaded {
        Ok(loaded) => loaded.map_err(|error| failed(word, &error)),
        Err(_) => Err(Failure::usage(format!("--bpf {word}: {DAMAGED}"))),
    }
}

fn of_object(word: &str, file: &Path, name: Option<&str>) -> Result<Loaded, Failure> {
    let data = fs::read(file).map_err(|error| failed(word, &error))?;
    let mut object = load(word, &data)?;
    let is_kprobe = |program: &Program| matches!(program, Program::KProbe(_));
    let all: Vec<String> = object
        .programs()
        .filter(|(_, program)| is_kprobe(program))
        .map(|(name, _)| name.to_owned())
        .collect();
    let chosen = match (name, all.as_slice()) {
        (Some(name), _) => name.to_owned(),
        (None, [one]) => one.clone(),
        (None, []) => return Err(Failure::usage(format!("--bpf {word}: {WRONG_TYPE}"))),
        (None, several) => {
            return Err(Failure::usage(format!(
                "--bpf {word}: it has several programs for kprobes: give {word}:NAME with one of \
                 {}",
                several.join(", ")
            )));
        }
    };
    let number = match object.program_mut(&chosen) {
        Some(Program::KProbe(program)) => {
            program.load().map_err(|error| failed(word, &error))?;
            let fd = program.fd().map_err(|error| failed(word, &error))?;
            fd.as_fd().as_raw_fd()
        }
        Some(_) => return Err(Failure::usage(format!("--bpf {word}: {WRONG_TYPE}"))),
        None => {
            return Err(Failure::usage(format!(
                "--bpf {word}: it has no program {chosen}; programs for kprobes in it: {}",
                all.join(", ")
            )));
        }
    };
    Ok(Loaded {
        number,
        _object: Some(object),
        _pinned: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_files_are_told_by_their_names() {
        let of =
            |word: &'static str| object(word).map(|(file, name)| (file.to_str().unwrap(), name));
        assert_eq!(of("a/b.o"), Some(("a/b.o", None)));
        assert_eq!(of("a/b.o:on_read"), Some(("a/b.o", Some("on_read"))));
        assert_eq!(of("/sys/fs/bpf/on_read"), None);
    }

    #[test]
    fn the_verifiers_statistics_are_no_reason() {
        let log = "the BPF_PROG_LOAD syscall failed. Verifier output: 0: R1=ctx() R10=fp0\n\
                   4: (85) call bpf_trace_printk#6\n\
                   cannot call GPL-restricted function from non-GPL compatible program\n\
                   verification time 90 usec\nstack depth 8\n\
                   processed 5 insns (limit 1000000) max_states_per_insn 0\n\n\
                   Invalid argument (os error 22)";
        assert_eq!(
            in_a_line(log),
            "4: (85) call bpf_trace_printk#6: cannot call GPL-restricted function from non-GPL \
             compatible program: Invalid argument (os error 22)"
        );
    }

    #[test]
    fn a_file_that_is_no_object_is_refused_in_one_line() {
        let failure = Loaded::open("/nowhere/at/all.o").map(|_| ()).unwrap_err();
        assert!(failure.message.starts_with("--bpf /nowhere/at/all.o: "));
        assert!(!failure.message.contains('\n'));
    }
}
