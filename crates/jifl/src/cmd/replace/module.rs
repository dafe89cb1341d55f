// SPDX-License-Identifier: MIT OR Apache-2.0
//! The module with the function that replaces another.

use std::fs;
use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

use crate::base::exit::Failure;
use crate::base::nearest::nearest;
use crate::cmd::plugin;
use crate::kernel::functions::{self, Function, Functions};

/// What `--with` says.
#[derive(Debug)]
pub struct With {
    file: PathBuf,
    /// The file's contents.
    pub bytes: Vec<u8>,
    /// The module's name.
    name: String,
    /// `None`: the one with the name of the replaced function.
    pub function: Option<String>,
}

impl With {
    /// Reads `FILE.ko` or `FILE.ko:FUNCTION`, and the file.
    ///
    /// # Errors
    /// It cannot be read, or is no module.
    pub fn parse(word: &str) -> Result<With, Failure> {
        let (file, function) = match word.rsplit_once(".ko:") {
            Some((file, function)) => (format!("{file}.ko"), Some(function.to_owned())),
            None => (word.to_owned(), None),
        };
        let bytes = fs::read(&file).map_err(|error| Failure::failed(format!("{file}: {error}")))?;
        let name = name_in(&bytes)
            .ok_or_else(|| Failure::usage(format!("{file}: it is not a kernel module")))?;
        Ok(With {
            file: file.into(),
            bytes,
            name,
            function,
        })
    }
}

/// The name of a module, from its file.
fn name_in(bytes: &[u8]) -> Option<String> {
    let elf: ElfFile64<'_, object::Endianness> = ElfFile64::parse(bytes).ok()?;
    let info = elf.section_by_name(".modinfo")?.data().ok()?.to_vec();
    let fields = info.split(|byte| *byte == 0);
    let mut names = fields.filter_map(|field| field.strip_prefix(b"name="));
    String::from_utf8(names.next()?.to_vec()).ok()
}

/// The module, loaded. Dropping it removes the module if it was inserted for this.
pub struct Inserted<'a> {
    with: &'a With,
    ours: bool,
}

impl<'a> Inserted<'a> {
    /// Inserts the module if it is not loaded.
    ///
    /// # Errors
    /// The kernel does not take it.
    pub fn of(with: &'a With) -> Result<Inserted<'a>, Failure> {
        let place = Path::new("/sys/module").join(&with.name);
        // What is built in has no count of its users.
        let ours = !place.join("refcnt").exists();
        if ours {
            plugin::insert(Some(&with.file), c"")?;
        }
        Ok(Inserted { with, ours })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.with.name
    }

    /// Its function of this name.
    ///
    /// # Errors
    /// It has none, or several.
    pub fn function<'f>(
        &self,
        name: &str,
        functions: &'f Functions,
    ) -> Result<&'f Function, Failure> {
        functions.named(name, Some(self.name())).ok_or_else(|| {
            let own = functions.of_module(self.name());
            let near = nearest(name, own);
            let near = near.iter().map(|near| (*near).to_owned());
            let hint = functions::list(near, "--with FILE.ko:FUNCTION names another one");
            Failure::usage(format!(
                "{} has not one function {name}{hint}",
                self.with.file.display()
            ))
        })
    }

    /// Leaves the module loaded, as somebody is inside. The name, if it was to be removed.
    pub fn stays(mut self) -> Option<&'a str> {
        let ours = std::mem::take(&mut self.ours);
        ours.then_some(self.with.name.as_str())
    }

    /// Removes the module if it was inserted for this.
    ///
    /// # Errors
    /// Somebody else uses it by now.
    pub fn remove(mut self) -> Result<(), Failure> {
        match std::mem::take(&mut self.ours) {
            true => plugin::remove(&self.with.name),
            false => Ok(()),
        }
    }
}

impl Drop for Inserted<'_> {
    /// After an error, of which the user is told.
    fn drop(&mut self) {
        if self.ours {
            let _ = plugin::remove(&self.with.name);
        }
    }
}
