// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is analysed: the kernel that runs, or a file; and which part of it is meant.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use jifl_code::image::Image;
use jifl_code::program::Program;
use jifl_code::vmcore::{self, Core};
use jifl_code::vmlinux;

use super::calls;
use crate::base::exit::Failure;
use crate::base::nearest::nearest;
use crate::kernel::images;
use crate::kernel::pattern::Pattern;
use crate::kernel::running;
use crate::session::recording::Recording;
use crate::show::output;

/// Where the code comes from.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// The memory of the kernel that runs.
    Running,
    /// A file.
    File(PathBuf),
}

/// Which part of it is meant.
#[derive(Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of it.
    All,
    /// Functions whose names match.
    Functions(Pattern),
    /// Modules whose names match.
    Modules(Pattern),
}

impl Source {
    /// A file if one was given.
    pub fn of(file: Option<&Path>) -> Source {
        file.map_or(Source::Running, |path| Source::File(path.to_owned()))
    }

    /// A file if one was given; else the code that a recording has, if it has any.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn of_recording(file: Option<&Path>, recording: Option<&Path>) -> Result<Source, Failure> {
        if let (None, Some(path)) = (file, recording) {
            if Recording::read(path)?.code.is_some() {
                return Ok(Source::of(recording));
            }
        }
        Ok(Source::of(file))
    }

    /// Reads it.
    pub fn open(&self) -> Result<Image, Failure> {
        let path = match self {
            Source::Running => return running::image(Path::new("/")),
            Source::File(path) if path.is_dir() => return running::image(path),
            Source::File(path) => path,
        };
        let failed =
            |error: &dyn std::fmt::Display| Failure::failed(format!("{}: {error}", path.display()));
        if Recording::is_file(path) {
            let code = Recording::read(path)?.code;
            let code = code.ok_or_else(|| failed(&NO_CODE))?;
            return Ok(code.image());
        }
        if let Some(file) = image_of_memory(path) {
            let mut core = Core::open(file).map_err(|error| failed(&error))?;
            let (image, without) = core.image().map_err(|error| failed(&error))?;
            if let Some(what) = without {
                output::note(&format!("# {what}"));
            }
            return Ok(image);
        }
        let file = fs::read(path).map_err(|error| failed(&error))?;
        vmlinux::read(&file).map_err(|error| failed(&error))
    }

    /// Build id of what is analysed, in hexadecimal; empty where it is not known.
    pub fn build_id(&self) -> String {
        match self {
            Source::Running => images::kernel_build_id(),
            Source::File(path) if path.is_dir() => images::build_id_of_machine(path),
            Source::File(path) if Recording::is_file(path) => Recording::read(path)
                .map_or_else(|_| String::new(), |own| own.header.kernel.build_id),
            Source::File(path) => match image_of_memory(path).map(Core::open) {
                Some(core) => core.map_or_else(|_| String::new(), |core| core.build_id()),
                None => images::build_id_of_file(path),
            },
        }
    }

    /// Copies what is read of the running kernel into a new directory.
    pub fn keep(&self, directory: &Path) -> Result<(), Failure> {
        match self {
            Source::Running => running::keep(directory),
            Source::File(_) => Err(Failure::usage(NOT_RUNNING)),
        }
    }
}

/// The file, if it is an image of memory.
fn image_of_memory(path: &Path) -> Option<File> {
    let mut head = [0; 64];
    let mut file = File::open(path).ok()?;
    file.read_exact(&mut head).ok()?;
    vmcore::is_image(&head).then_some(file)
}

/// That a recording was made without code.
const NO_CODE: &str = "it has no code: `jifl record --code` keeps that of executed functions";

/// That only the running kernel can be kept.
const NOT_RUNNING: &str = "--keep copies of the kernel that runs: give no file";

/// What the word of `jifl analyze` and its option say.
pub fn parse(what: Option<&str>, file: Option<&Path>) -> Result<(Source, Scope), Failure> {
    let Some(what) = what else {
        return Ok((Source::of(file), Scope::All));
    };
    if let Some(pattern) = Pattern::parse(what) {
        let scope = match pattern.is_module() {
            true => Scope::Modules(pattern),
            false => Scope::Functions(pattern),
        };
        return Ok((Source::of(file), scope));
    }
    if file.is_some() {
        return Err(Failure::usage(format!(
            "{what}: with --vmlinux give fn:NAME or mod:NAME, or nothing"
        )));
    }
    Ok((Source::File(PathBuf::from(what)), Scope::All))
}

impl Scope {
    /// The functions that are meant: places in [`Program::functions`], in order.
    ///
    /// # Errors
    /// Nothing matches.
    pub fn functions(&self, program: &Program) -> Result<Vec<usize>, Failure> {
        let (Scope::Functions(pattern) | Scope::Modules(pattern)) = self else {
            return Ok((0..program.functions.len()).collect());
        };
        let found = calls::named(program, pattern);
        if found.is_empty() {
            let module = pattern.module().filter(|_| pattern.is_module());
            return Err(Failure::usage(match module {
                Some(module) => unknown_module(program, module),
                None => calls::unknown(program, pattern),
            }));
        }
        Ok(found)
    }
}

fn unknown_module(program: &Program, name: &str) -> String {
    let modules = &program.image.modules;
    let near = nearest(name, modules.iter().map(String::as_str));
    let near: Vec<String> = near.iter().map(|name| format!("mod:{name}")).collect();
    let hint = match near.as_slice() {
        [] => "; `lsmod` shows those that are loaded".into(),
        near => format!("; the nearest are {}", near.join(", ")),
    };
    format!("mod:{name}: no such module{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::exit::USAGE;

    #[test]
    fn a_word_is_a_target_or_a_file() {
        let file = Path::new("vmlinux");
        let parsed = |what, file| parse(what, file).unwrap();
        assert_eq!(parsed(None, None), (Source::Running, Scope::All));
        let of_file = || Source::File(file.to_owned());
        assert_eq!(parsed(Some("vmlinux"), None), (of_file(), Scope::All));
        let pattern = |word| Pattern::parse(word).unwrap();
        let functions = Scope::Functions(pattern("fn:vfs_*"));
        assert_eq!(parsed(Some("fn:vfs_*"), None), (Source::Running, functions));
        let modules = Scope::Modules(pattern("mod:nfs"));
        assert_eq!(parsed(Some("mod:nfs"), Some(file)), (of_file(), modules));
        assert_eq!(parse(Some("x"), Some(file)).unwrap_err().status, USAGE);
    }
}
