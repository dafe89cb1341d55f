// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a recording is written: beside its place under another name. It is renamed when it is
//! whole, so that an older file stays until then. Where there is no room for the recording, it goes
//! to another directory, because the counters are gone with the session and it would be lost.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::base::exit::Failure;

/// Mode of the file: only the owner may read it, because a recording tells the kernel's address.
const MODE: u32 = 0o600;

/// A place for a recording. It is opened before a session starts, so that a wrong path shows early.
pub struct Destination {
    path: PathBuf,
    file: File,
    /// The file to rename; `None` if the place is no regular file.
    part: Option<PathBuf>,
}

impl Destination {
    /// Opens a place.
    ///
    /// # Errors
    /// Nothing can be written there.
    pub fn open(path: &Path) -> Result<Destination, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
        // A symbolic link stays a link: its target is replaced.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&place).is_ok_and(|place| !place.is_file()) {
            let file = OpenOptions::new().write(true).open(&place);
            return Ok(Destination {
                path: place,
                file: file.map_err(failed)?,
                part: None,
            });
        }
        let part = with_ending(&place, &format!(".{}.tmp", std::process::id()));
        // An earlier process of this number may have left the file. `new` refuses a file that
        // another process makes meanwhile.
        let _ = fs::remove_file(&part);
        Ok(Destination {
            file: new(&part).map_err(failed)?,
            path: place,
            part: Some(part),
        })
    }

    /// Its name.
    pub fn shown(&self) -> String {
        self.path.display().to_string()
    }

    /// Writes all. A reader that has gone away is no error.
    ///
    /// # Errors
    /// The recording is not at its place; the message says where it is instead.
    pub fn write(mut self, bytes: &[u8]) -> Result<(), Failure> {
        let error = match self.write_and_rename(bytes) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => error,
        };
        let shown = self.shown();
        // Deletes the partial file, which frees room.
        drop(self);
        Err(Failure::failed(match rescue(bytes) {
            Some(instead) => format!(
                "{shown}: {error}; the recording is in {} instead",
                instead.display()
            ),
            None => format!(
                "{shown}: {error}; nor was there room in {}, /dev/shm or /var/tmp",
                std::env::temp_dir().display()
            ),
        }))
    }

    fn write_and_rename(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        if let Some(part) = &self.part {
            self.file.sync_all()?;
            fs::rename(part, &self.path)?;
            self.part = None;
        }
        Ok(())
    }
}

impl Drop for Destination {
    /// Removes an incomplete file.
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = fs::remove_file(part);
        }
    }
}

/// Makes a file. Refuses an existing file, and a link of this name.
fn new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(MODE).open(path)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// Writes to the first directory that has room for all, and returns the path.
fn rescue(bytes: &[u8]) -> Option<PathBuf> {
    let tries = [
        &std::env::temp_dir(),
        Path::new("/dev/shm"),
        Path::new("/var/tmp"),
    ];
    tries.into_iter().find_map(|directory| {
        let path = directory.join(format!("jifl-{}.jifl", std::process::id()));
        let mut file = new(&path).ok()?;
        if file.write_all(bytes).and_then(|()| file.sync_all()).is_ok() {
            return Some(path);
        }
        let _ = fs::remove_file(&path);
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn directory(name: &str) -> PathBuf {
        let name = format!("jifl-destination-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    #[test]
    fn what_was_there_stays_until_the_new_one_is_whole() {
        let directory = directory("stays");
        let path = directory.join("a.jifl");
        fs::write(&path, "before").unwrap();
        drop(Destination::open(&path).unwrap());
        let destination = Destination::open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before");
        destination.write(b"after").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_link_that_someone_laid_is_not_followed() {
        let directory = directory("link");
        let (path, other) = (directory.join("a.jifl"), directory.join("other"));
        fs::write(&other, "before").unwrap();
        let part = with_ending(&path, &format!(".{}.tmp", std::process::id()));
        std::os::unix::fs::symlink(&other, part).unwrap();
        Destination::open(&path).unwrap().write(b"mine").unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"before");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn on_a_full_disk_nothing_is_lost() {
        let error = Destination::open(Path::new("/dev/full"))
            .unwrap()
            .write(b"counts")
            .unwrap_err();
        let (cause, instead) = error.message.split_once("; the recording is in ").unwrap();
        assert_eq!(cause, "/dev/full: No space left on device (os error 28)");
        let path = instead.strip_suffix(" instead").unwrap();
        assert_eq!(fs::read(path).unwrap(), b"counts");
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_wrong_path_shows_early() {
        for path in ["/no/such/file", "/proc", "/proc/none"] {
            let error = Destination::open(Path::new(path)).err().unwrap();
            assert!(error.message.starts_with(path), "{}", error.message);
        }
    }
}
