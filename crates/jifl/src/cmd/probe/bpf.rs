// SPDX-License-Identifier: MIT OR Apache-2.0
//! BPF programs for `--bpf`: one that is pinned, or one of an object file.

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use aya::Ebpf;
use aya::programs::{KProbe, ProbeKind, Program, ProgramType};

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
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(deeper) = source {
        text = format!("{text}: {deeper}");
        source = deeper.source();
    }
    // The verifier's log may be long; its last lines say why.
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let kept = lines.split_off(lines.len().saturating_sub(3));
    Failure::failed(format!("--bpf {word}: {}", kept.join(": ")))
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

fn of_object(word: &str, file: &Path, name: Option<&str>) -> Result<Loaded, Failure> {
    let mut object = Ebpf::load_file(file).map_err(|error| failed(word, &error))?;
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
    fn a_file_that_is_no_object_is_refused_in_one_line() {
        let failure = Loaded::open("/nowhere/at/all.o").map(|_| ()).unwrap_err();
        assert!(failure.message.starts_with("--bpf /nowhere/at/all.o: "));
        assert!(!failure.message.contains('\n'));
    }
}
