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
use crate::kernel::{images, signature};
use crate::show::output;

/// What `--with` says.
#[derive(Debug)]
pub struct With {
    file: PathBuf,
    /// The file's contents.
    bytes: Vec<u8>,
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

    /// Is the loaded module, with this build id, of the file? False: it is not known.
    ///
    /// # Errors
    /// It is of another build.
    fn is_loaded(&self, loaded: &str) -> Result<bool, Failure> {
        let (name, file) = (&self.name, self.file.display());
        let own = images::build_id_of_elf(&self.bytes);
        if own.is_empty() || loaded.is_empty() {
            output::note(&format!(
                "jifl: {name} is loaded already, perhaps from another build of {file}: there is no \
                 build id to tell. Debug information of the file is not used"
            ));
            return Ok(false);
        }
        if own != loaded {
            return Err(Failure::failed(format!(
                "{name} is loaded from another build of {file}: rmmod it first"
            )));
        }
        Ok(true)
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
    /// It is known to be of the file.
    of_file: bool,
}

impl<'a> Inserted<'a> {
    /// Inserts the module if it is not loaded.
    ///
    /// # Errors
    /// The kernel does not take it, or it is loaded from another build of the file.
    pub fn of(with: &'a With) -> Result<Inserted<'a>, Failure> {
        Inserted::among(with, Path::new("/sys/module"))
    }

    /// The same where the loaded modules have folders in `modules`.
    fn among(with: &'a With, modules: &Path) -> Result<Inserted<'a>, Failure> {
        let place = modules.join(&with.name);
        // What is built in has no count of its users.
        let ours = !place.join("refcnt").exists();
        let of_file = if ours {
            plugin::insert(Some(&with.file), c"")?;
            true
        } else {
            with.is_loaded(&images::build_id_of_loaded(&place))?
        };
        Ok(Inserted {
            with,
            ours,
            of_file,
        })
    }

    /// What a function takes and returns, by the debug information in the file. `None`: it is not
    /// known, or the module that is loaded may be of another file.
    pub fn prototype(&self, function: &str) -> Option<String> {
        let file = self.of_file.then_some(&self.with.bytes)?;
        signature::of_file(file, function)
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A folder with `thing.ko`, and `sys` with the folders of loaded modules.
    struct Files(PathBuf);

    impl Files {
        fn new(name: &str, options: &[&str]) -> Files {
            let dir = std::env::temp_dir().join(format!("jifl-{name}-{}", std::process::id()));
            fs::create_dir_all(dir.join("sys/thing/notes")).unwrap();
            fs::write(dir.join("sys/thing/refcnt"), "0\n").unwrap();
            let source = "__attribute__((section(\".modinfo\"))) char info[] = \"name=thing\";\n\
                          int thing(long value) { return value; }\n";
            fs::write(dir.join("thing.c"), source).unwrap();
            let built = Command::new("cc")
                .current_dir(&dir)
                .args(["-g", "-nostdlib", "-shared", "-o", "thing.ko", "thing.c"])
                .args(options)
                .status();
            assert!(built.unwrap().success());
            Files(dir)
        }

        fn with(&self) -> With {
            With::parse(&self.0.join("thing.ko").display().to_string()).unwrap()
        }

        fn sys(&self) -> PathBuf {
            self.0.join("sys")
        }

        /// The loaded module has this build id, of two bytes.
        fn load(&self, id: [u8; 2]) {
            let mut note = [4u32, 2, 3].map(u32::to_le_bytes).concat();
            note.extend(b"GNU\0");
            note.extend([id[0], id[1], 0, 0]);
            fs::write(self.sys().join("thing/notes/.note.gnu.build-id"), note).unwrap();
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_module_that_is_loaded_must_be_of_the_file() {
        let files = Files::new("with", &["-Wl,--build-id=0xabcd"]);
        let with = files.with();
        let prototype = || {
            let inserted = Inserted::among(&with, &files.sys())?;
            Ok::<_, Failure>(inserted.prototype("thing"))
        };
        files.load([0xab, 0xcd]);
        assert_eq!(prototype().unwrap().as_deref(), Some("s32 (s64)"));
        files.load([0xab, 0xce]);
        let said = prototype().unwrap_err().message;
        let file = with.file.display();
        let expected = format!("thing is loaded from another build of {file}: rmmod it first");
        assert_eq!(said, expected);
    }

    #[test]
    fn without_a_build_id_the_file_says_nothing_about_a_loaded_module() {
        let files = Files::new("with-none", &["-Wl,--build-id=none"]);
        let with = files.with();
        files.load([0xab, 0xcd]);
        let inserted = Inserted::among(&with, &files.sys()).unwrap();
        assert_eq!(inserted.prototype("thing"), None);
        // Nor where the kernel does not show the id.
        let files = Files::new("with-hidden", &["-Wl,--build-id=0xabcd"]);
        let with = files.with();
        let inserted = Inserted::among(&with, &files.sys()).unwrap();
        assert_eq!(inserted.prototype("thing"), None);
    }
}
