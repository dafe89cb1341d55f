// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source lines of a kernel's code, and of its modules' code, from their debug information. The
//! kernel is the running one, or the kernel of a recording. For a recording the places of the
//! modules' sections are not known.
//!
//! A vmlinux is the file that `--vmlinux` names, or a file at a place where distributions put it
//! (find.rs). It must have the build id of the kernel that was counted: lines of another build
//! would be wrong, silently. Code without debug information has no lines. The command says so once,
//! with the way to get the information.

mod find;
mod module;
pub mod rows;
pub mod sources;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use addr2line::Loader;
use clap::Args;
use gimli::Reader;

use self::module::Module;
pub use self::module::debug_of;
use self::rows::{First, Tables};
use crate::base::exit::Failure;
use crate::kernel::images;
use crate::kernel::symbols::Symbols;
use crate::show::output;

/// Every kernel has these functions in these files. They tell where its source tree begins. Names
/// of assembly files are written in another way than names of C files.
const KNOWN: [(&str, &str); 2] = [
    ("vfs_read", "fs/read_write.c"),
    ("__memcpy", "arch/x86/lib/memcpy_64.S"),
];

/// Options that say where source lines come from.
#[derive(Debug, Default, Args)]
pub struct LinesArgs {
    /// The kernel's vmlinux with debug information, if it is not where distributions put it
    #[arg(long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
    /// The kernel's source tree
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
}

/// The kernel whose lines are wanted.
#[derive(Debug, Clone, Default)]
pub struct Build {
    /// `uname -r`.
    pub release: String,
    /// In hexadecimal; empty where it is not known.
    pub build_id: String,
    /// Whether it runs here, with its modules.
    pub runs: bool,
}

impl Build {
    /// The running kernel.
    pub fn running() -> Build {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Build {
            release: release.trim().to_owned(),
            build_id: images::kernel_build_id(),
            runs: true,
        }
    }
}

/// A part of a piece of code that belongs to one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// Where it begins.
    pub from: u64,
    /// Its end, exclusive.
    pub to: u64,
    /// The file, from the beginning of the source tree.
    pub file: String,
    /// The line's number.
    pub line: u32,
}

/// A function that code belongs to. Of several, the innermost inlined one comes first, the function
/// around all comes last.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its name.
    pub function: String,
    /// Its file, from the beginning of the source tree.
    pub file: String,
    /// The line of the code in that file.
    pub line: u32,
}

/// The kernel's debug information.
struct Kernel {
    loader: Loader,
    path: PathBuf,
    /// Added to an address of the running kernel.
    slide: u64,
}

/// All known source lines.
#[derive(Default)]
pub struct Lines {
    kernel: Option<Kernel>,
    /// Modules that have been asked for; `None` without debug information.
    modules: RefCell<BTreeMap<String, Option<Module>>>,
    /// Directories in which debug files are looked for.
    roots: Vec<PathBuf>,
    /// Beginnings of file names that are not part of the source tree.
    prefixes: Vec<String>,
    source: Option<PathBuf>,
    build: Build,
}

/// Debug information, before the kernel's address is known.
pub struct Opened {
    vmlinux: Option<Vmlinux>,
    roots: Vec<PathBuf>,
    source: Option<PathBuf>,
    build: Build,
}

/// Debug information of a vmlinux.
struct Vmlinux {
    loader: Loader,
    path: PathBuf,
    /// The address of its text in the file.
    text: u64,
}

impl Vmlinux {
    /// Reads a vmlinux, whose build id must be `wanted`, if that is known.
    fn open(path: &Path, wanted: &str) -> Result<Vmlinux, Failure> {
        let about = |what: &dyn std::fmt::Display| {
            Failure::failed(format!("--vmlinux {}: {what}", path.display()))
        };
        find::check(path, wanted).map_err(|what| about(&what))?;
        let loader = Loader::new(path).map_err(|error| about(&error))?;
        let text = loader.get_section_range(b".text");
        let text = text.ok_or_else(|| about(&"no section .text"))?.begin;
        Ok(Vmlinux {
            loader,
            path: path.to_owned(),
            text,
        })
    }
}

impl LinesArgs {
    /// What these options would say.
    pub fn of(vmlinux: Option<PathBuf>, source: Option<PathBuf>) -> LinesArgs {
        LinesArgs { vmlinux, source }
    }

    /// Finds a vmlinux, before anything is started: a named one must be right.
    ///
    /// # Errors
    /// The named vmlinux is not right.
    pub fn open(&self, build: Build) -> Result<Opened, Failure> {
        let open = |path: &Path| Vmlinux::open(path, &build.build_id);
        let vmlinux = match &self.vmlinux {
            Some(path) => Some(open(path)?),
            None => find::vmlinux(&build).and_then(|path| open(&path).ok()),
        };
        Ok(Opened {
            vmlinux,
            roots: find::roots(self.vmlinux.as_deref()),
            source: self.source.clone(),
            build,
        })
    }

    /// Refuses options that have no effect.
    ///
    /// # Errors
    /// Some options were given.
    pub fn need_none(&self) -> Result<(), Failure> {
        if self.vmlinux.is_none() && self.source.is_none() {
            return Ok(());
        }
        Err(Failure::usage(
            "--vmlinux and --source go with --annotate and --inlined of prof, --lcov and --html of \
             cover, --lines of read, and with why",
        ))
    }
}

/// Is there debug information in a file?
pub fn has_lines(path: &Path) -> bool {
    find::check(path, "").is_ok()
}

impl Opened {
    /// The kernel's code in its vmlinux, with its address; nothing without a vmlinux. The running
    /// code differs in part, because the kernel changes some code when it boots.
    pub fn text(&self, symbols: &Symbols) -> (u64, Vec<u8>) {
        let vmlinux = self.vmlinux.as_ref();
        let text = vmlinux.and_then(|vmlinux| find::text(&vmlinux.path));
        let at = symbols.address("_text").unwrap_or(0);
        (at, text.unwrap_or_default())
    }

    /// All lines, of the kernel with these names.
    pub fn lines(self, symbols: &Symbols) -> Lines {
        let kernel = self.vmlinux.and_then(|vmlinux| {
            Some(Kernel {
                loader: vmlinux.loader,
                path: vmlinux.path,
                slide: vmlinux.text.wrapping_sub(symbols.address("_text")?),
            })
        });
        let mut lines = Lines {
            kernel,
            roots: self.roots,
            source: self.source,
            build: self.build,
            ..Lines::default()
        };
        let prefixes = KNOWN.iter().filter_map(|(function, file)| {
            let at = symbols.address(function)?;
            let found = lines.of(None, at, at + 1).into_iter().next()?;
            Some(found.file.strip_suffix(file)?.to_owned())
        });
        lines.prefixes = prefixes.collect();
        lines
    }
}

impl Lines {
    /// The lines of a piece of code of `module`, or of the kernel, in the order of their addresses.
    pub fn of(&self, module: Option<&str>, from: u64, to: u64) -> Vec<Line> {
        let mut found = self.ask(
            module,
            |kernel| {
                let slid = |at: u64| at.wrapping_add(kernel.slide);
                let rows = kernel.loader.find_location_range(slid(from), slid(to));
                let rows = rows.into_iter().flatten();
                rows.filter_map(|row| line(row, kernel.slide)).collect()
            },
            |module| module.lines(from, to),
        );
        found.retain_mut(|line| {
            (line.from, line.to) = (line.from.max(from), line.to.min(to));
            line.file = self.shown(&line.file);
            line.from < line.to
        });
        found
    }

    /// The functions that an instruction belongs to.
    pub fn frames(&self, module: Option<&str>, at: u64) -> Vec<Frame> {
        let mut found = self.ask(
            module,
            |kernel| {
                let frames = kernel.loader.find_frames(at.wrapping_add(kernel.slide));
                frames.map_or_else(|_| Vec::new(), frames_of)
            },
            |module| module.frames(at),
        );
        for frame in &mut found {
            frame.file = self.shown(&frame.file);
        }
        found
    }

    /// Where ranges of code begin that belong to lines of the wanted files, of a module or of the
    /// kernel, in order; `to` is `from`. `None`: its debug information is not here.
    pub fn beginnings(
        &self,
        module: Option<&str>,
        wanted: impl Fn(&str) -> bool,
        first: First,
    ) -> Option<Vec<Line>> {
        let (tables, slide) = self.tables(module)?;
        let is_it = |file: &str| wanted(&self.shown(file));
        let found = tables.beginnings(is_it, first).into_iter().map(|one| {
            let at = one.at.wrapping_sub(slide);
            Line {
                from: at,
                to: at,
                file: self.shown(&one.file),
                line: one.line,
            }
        });
        let mut found: Vec<Line> = found.collect();
        found.sort();
        found.dedup();
        Some(found)
    }

    /// The files that the debug information of a module or of the kernel names; none without it.
    pub fn files(&self, module: Option<&str>) -> BTreeSet<String> {
        let tables = self.tables(module);
        let files = tables.map_or_else(BTreeSet::new, |(tables, _)| tables.files());
        files.iter().map(|file| self.shown(file)).collect()
    }

    /// The tables of lines, and what is added to an address of the running kernel in them.
    fn tables(&self, module: Option<&str>) -> Option<(Tables, u64)> {
        match module {
            None => {
                let kernel = self.kernel.as_ref()?;
                Some((Tables::open(&kernel.path)?, kernel.slide))
            }
            Some(module) => {
                let path = find::module(module, &self.build.release, &self.roots)?;
                Some((module::tables(module, &path)?, 0))
            }
        }
    }

    fn ask<T: Default>(
        &self,
        module: Option<&str>,
        kernel: impl FnOnce(&Kernel) -> T,
        other: impl FnOnce(&Module) -> T,
    ) -> T {
        let Some(name) = module else {
            return self.kernel.as_ref().map(kernel).unwrap_or_default();
        };
        let mut modules = self.modules.borrow_mut();
        let found = modules.entry(name.to_owned()).or_insert_with(|| {
            let build = Some(&self.build).filter(|build| build.runs)?;
            let path = find::module(name, &build.release, &self.roots)?;
            Module::open(name, &path)
        });
        found.as_ref().map(other).unwrap_or_default()
    }

    /// A file name from the beginning of the source tree, without `.` and `..`.
    fn shown(&self, file: &str) -> String {
        let mut prefixes = self.prefixes.iter();
        let file = prefixes
            .find_map(|prefix| file.strip_prefix(prefix.as_str()))
            .unwrap_or(file);
        let mut kept: Vec<&str> = Vec::new();
        for part in file.split('/') {
            match part {
                "." => {}
                ".." if kept
                    .last()
                    .is_some_and(|last| !last.is_empty() && *last != "..") =>
                {
                    kept.pop();
                }
                _ => kept.push(part),
            }
        }
        kept.join("/")
    }

    /// The path of a source file's text; its own name if the path is unknown.
    pub fn path(&self, file: &str) -> PathBuf {
        let there = self.source.as_ref().map(|source| source.join(file));
        there.unwrap_or_else(|| file.into())
    }

    /// What is missing, in one line, with the way to get it: of the kernel, and of these modules.
    /// `named`: the command has `--vmlinux`.
    pub fn missing(&self, kernel: bool, modules: &[&str], named: bool) -> Option<String> {
        let text = missing_text(kernel, modules, &self.build, named)?;
        Some(text.trim_start_matches("jifl: ").to_owned())
    }

    /// Tells what is missing, if something is. `wanted`: modules whose lines are asked for; `None`
    /// stands for the kernel.
    pub fn note(&self, wanted: BTreeSet<Option<&str>>) {
        let kernel = wanted.contains(&None) && self.kernel.is_none();
        let known = self.modules.borrow();
        let lacks = |name: &&str| !matches!(known.get(*name), Some(Some(_)));
        let modules: Vec<&str> = wanted.into_iter().flatten().filter(lacks).collect();
        if let Some(text) = missing_text(kernel, &modules, &self.build, true) {
            output::note(&text);
        }
    }
}

fn missing_text(kernel: bool, modules: &[&str], build: &Build, named: bool) -> Option<String> {
    let whose = match (kernel, modules.is_empty()) {
        (false, true) => return None,
        (true, _) => "the kernel".to_owned(),
        (false, false) => format!("module {}", modules.join(", ")),
    };
    if !kernel && !build.runs {
        return Some(format!(
            "jifl: no source lines of {whose}: a recording does not say where its sections lay"
        ));
    }
    let release = &build.release;
    let or = if named {
        ", or set DEBUGINFOD_URLS, or give --vmlinux FILE"
    } else {
        ", or set DEBUGINFOD_URLS"
    };
    Some(format!(
        "jifl: no source lines of {whose}: its debug information is not here; install \
         linux-image-{release}-dbg{or}"
    ))
}

/// A row of a table of lines; line 0 means that it is unknown.
fn line((from, length, location): (u64, u64, addr2line::Location<'_>), slide: u64) -> Option<Line> {
    let from = from.wrapping_sub(slide);
    Some(Line {
        from,
        to: from + length,
        file: location.file?.to_owned(),
        line: location.line.filter(|line| *line > 0)?,
    })
}

fn frames_of<R: Reader>(mut frames: addr2line::FrameIter<'_, R>) -> Vec<Frame> {
    let mut found = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let function = frame.function.and_then(|name| {
            let name = name.raw_name().ok()?;
            Some(name.into_owned())
        });
        let location = frame.location;
        let Some(function) = function else { continue };
        found.push(Frame {
            function,
            file: location
                .as_ref()
                .and_then(|place| place.file)
                .unwrap_or_default()
                .to_owned(),
            line: location.and_then(|place| place.line).unwrap_or(0),
        });
    }
    found
}

#[cfg(test)]
pub mod tests;
