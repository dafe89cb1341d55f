// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl flight dump`, `extract`, `last`: recordings that are copied into a file, found in an image
//! of memory, or left by another boot.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use jifl_sys::abi::FlightOp;
use jifl_sys::device::Door;

use super::show::{self, Wanted};
use crate::base::exit::{DONE, Failure};
use crate::session::device;
use crate::session::flight::door::{self, Copied};
use crate::session::flight::image::{Found, Physical, find};
use crate::session::flight::{Flight, Memory, NotRead, file};
use crate::show::output::{self, Sink};
use crate::show::text::grouped;

/// Arguments of `jifl flight dump`.
#[derive(Debug, Args)]
#[command(after_help = "\
The copy is what is in memory, byte for byte. `show` and `stats` read it, elsewhere too, without
the module and without root. It has what the records have: docs/flight.md says what that is.

Examples:
  jifl flight dump -o seen.flight
  jifl flight dump --memory flight -o before.flight")]
pub struct DumpArgs {
    /// Copy what memory of this name has from another boot
    #[arg(long, value_name = "NAME")]
    memory: Option<String>,
    /// Where the copy goes
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Arguments of `jifl flight extract`.
#[derive(Debug, Args)]
#[command(after_help = "\
IMAGE is an ELF core of a machine's physical memory: /proc/vmcore in the kernel that kdump starts, a
copy of it (makedumpfile, also compressed by zlib, snappy or zstd), or what QEMU's dump-guest-memory
writes. With --raw it is a flat file that begins at address 0. Neither the module nor root is needed, and no debug information. Of
several recordings the newest is taken, and the others are named.

With -o and without -f, FILE gets a copy of the recording, as `dump` makes it.

Examples:
  jifl flight extract /proc/vmcore -o crash.flight
  jifl flight extract guest.core --last 1s
  jifl flight extract memory.bin --raw -f perfetto -o crash.perfetto")]
pub struct ExtractArgs {
    /// The image
    image: PathBuf,
    /// It is a flat file that begins at physical address 0
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    wanted: Wanted,
}

/// Arguments of `jifl flight last`.
#[derive(Debug, Args)]
#[command(after_help = "\
NAME is memory that outlives a restart of the machine: the name of reserve_mem= on the kernel's
command line, or 0xADDRESS:0xBYTES of memmap=. `start --memory NAME` records there. While it has the
recording of another boot, nothing new is recorded there: --forget frees it.

With -o and without -f, FILE gets a copy of the recording, as `dump` makes it.

Examples:
  jifl flight last --memory flight --last 1s
  jifl flight last --memory flight -o before.flight
  jifl flight last --memory flight --forget")]
pub struct LastArgs {
    /// The memory
    #[arg(long, value_name = "NAME")]
    memory: String,
    /// Forget what it has
    #[arg(long, conflicts_with_all = ["last", "events", "tid", "format", "output"])]
    forget: bool,
    #[command(flatten)]
    wanted: Wanted,
}

/// Copies the recording that runs, or one of another boot.
pub fn dump(args: &DumpArgs) -> Result<u8, Failure> {
    let door = device::open()?;
    let mut memory = match &args.memory {
        Some(name) => Copied::last(&door, name)?,
        None => Copied::live(&door)?,
    };
    copy(&mut memory, &args.output)
}

/// Copies a recording into a file.
///
/// # Errors
/// It cannot be read, or the file not be written.
pub fn copy(memory: &mut impl Memory, path: &Path) -> Result<u8, Failure> {
    let mut sink = Sink::file(path)?;
    // It is as confidential as the kernel's log. A device or a pipe keeps its mode.
    if path.is_file() {
        fs::set_permissions(path, Permissions::from_mode(0o600))
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    }
    let missing = file::copy(memory, |bytes| sink.write_bytes(bytes))?;
    let size = sink.length().unwrap_or(0);
    let mut said = format!("# {}: {} bytes", path.display(), grouped(size));
    if missing > 0 {
        said += &format!(
            ", of which {} are not in the image: zeroes",
            grouped(missing)
        );
    }
    output::note(&said);
    Ok(DONE)
}

/// Writes a recording as it is wanted; with a file and without a form, a copy.
fn show_or_copy(memory: &mut impl Memory, wanted: &Wanted) -> Result<u8, Failure> {
    match (&wanted.output, wanted.format) {
        (Some(path), None) => copy(memory, path),
        _ => show::write(Flight::read(memory).map_err(NotRead::failure)?, wanted),
    }
}

/// Finds a recording in an image.
pub fn extract(args: &ExtractArgs) -> Result<u8, Failure> {
    let physical = Physical::open(&args.image, args.raw)?;
    let failed = |why: NotRead| Failure::failed(format!("{}: {}", args.image.display(), why.0));
    let mut found = find(&physical).map_err(failed)?;
    output::note(&said(&found));
    show_or_copy(&mut found.region, &args.wanted)
}

/// So many others are named.
const NAMED: usize = 16;

/// Where the recording was found, and beside which others.
fn said(found: &Found<'_>) -> String {
    // An image may have any number of them.
    let addresses = |all: &[u64]| {
        let shown = all
            .iter()
            .take(NAMED)
            .map(|address| format!("{address:#x}"));
        let more = (all.len() > NAMED).then(|| "...".to_owned());
        shown.chain(more).collect::<Vec<String>>().join(", ")
    };
    let mut text = format!("# the recording at {:#x}", found.address);
    if !found.older.is_empty() {
        let at = addresses(&found.older);
        text += &format!("; {} older, at {at}", found.older.len());
    }
    if !found.damaged.is_empty() {
        let at = addresses(&found.damaged);
        let n = found.damaged.len();
        text += &format!("; {n} more not whole: copies, or memory that was given back, at {at}");
    }
    text
}

/// Shows, copies or forgets the recording of another boot.
pub fn last(args: &LastArgs) -> Result<u8, Failure> {
    let door = device::open()?;
    if args.forget {
        return forget(&door, &args.memory);
    }
    show_or_copy(&mut Copied::last(&door, &args.memory)?, &args.wanted)
}

fn forget(door: &impl Door, name: &str) -> Result<u8, Failure> {
    let mut forget = jifl_sys::abi::Flight::of(FlightOp::Forget);
    forget.memory = door::memory_name(name)?;
    door::ask(door, &mut forget).map_err(|error| door::last_refused(name, &error))?;
    Ok(DONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;
    use crate::session::flight::made::Made;

    #[test]
    fn a_copy_is_the_region_and_is_read_again() {
        let path = std::env::temp_dir().join(format!("jifl-copied-{}", std::process::id()));
        let region = Made::sample().region();
        let mut wanted = Wanted::default();
        wanted.output = Some(path.clone());
        show_or_copy(&mut region.clone(), &wanted).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), region);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(show::read(Some(&path)).unwrap().entries.len(), 14);
        std::fs::write(&path, b"something else").unwrap();
        let failure = show::read(Some(&path)).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(
            failure.message.contains("jifl flight extract"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn what_is_forgotten_is_gone() {
        let fake = Fake::default();
        let region = Made::sample().region();
        fake.state().flight.kept.insert("box".into(), region);
        assert_eq!(forget(&fake, "box"), Ok(DONE));
        assert!(Copied::last(&fake, "box").is_err());
        let failure = forget(&fake, "other").unwrap_err();
        assert!(
            failure.message.contains("reserve_mem=16M:4096:other"),
            "{}",
            failure.message
        );
        assert!(forget(&fake, &"x".repeat(48)).is_err());
    }

    #[test]
    fn others_in_an_image_are_named() {
        let physical = Physical::of(std::fs::File::open("/dev/null").unwrap(), Vec::new());
        assert!(find(&physical).is_err());
        let text = |older: Vec<u64>, damaged| {
            let mut made = Made::sample();
            made.pages = (0..made.npages() as u64).map(|page| page * 4096).collect();
            let path = std::env::temp_dir().join(format!("jifl-named-{}", std::process::id()));
            std::fs::write(&path, made.region()).unwrap();
            let physical = Physical::open(&path, true).unwrap();
            let mut found = find(&physical).unwrap();
            std::fs::remove_file(&path).unwrap();
            (found.older, found.damaged) = (older, damaged);
            said(&found)
        };
        assert_eq!(text(vec![], vec![]), "# the recording at 0x0");
        assert_eq!(
            text(vec![0x1000, 0x3000], vec![0x5000]),
            "# the recording at 0x0; 2 older, at 0x1000, 0x3000; 1 more not whole: copies, or \
             memory that was given back, at 0x5000"
        );
    }
}
