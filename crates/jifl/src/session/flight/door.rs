// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flight recorder of the running module: what it is asked, and its memory.

use std::io;

use jifl_sys::abi::{
    FLIGHT_EVENTS_MAX, FLIGHT_PAGE, Flight, FlightEvent, FlightHead, FlightOp, to_name,
};
use jifl_sys::device::{Door, Request};
use rustix::io::Errno;

use super::{Event, Head, Memory, NotRead};
use crate::base::exit::Failure;
use crate::session::device;

/// Asks, where no bytes are copied.
///
/// # Errors
/// The module refuses.
pub fn ask(door: &impl Door, request: &mut Flight) -> io::Result<()> {
    door.call(Request::Flight(request, &mut []))
}

/// The name of memory as requests have it.
///
/// # Errors
/// It is too long.
pub fn memory_name(name: &str) -> Result<[u8; 48], Failure> {
    to_name(name.as_bytes()).ok_or_else(|| {
        Failure::usage(format!(
            "--memory {name}: the name has at most 47 bytes: that of reserve_mem= on the kernel's \
             command line, or 0xADDRESS:0xBYTES of memmap="
        ))
    })
}

/// Events that the module knows.
///
/// # Errors
/// The module has no flight recorder.
pub fn events(door: &impl Door) -> Result<Vec<Event>, Failure> {
    let mut table = vec![0; FLIGHT_EVENTS_MAX * FlightEvent::SIZE];
    let mut request = Flight::of(FlightOp::Events);
    door.call(Request::Flight(&mut request, &mut table))
        .map_err(|error| refused("the events of the flight recorder", &error))?;
    let length = usize::try_from(request.length)
        .unwrap_or(0)
        .min(table.len());
    Ok(Event::all(&table[..length]))
}

/// Events of the recording that runs: those that the module knows, and what `add` has added.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn recorded(door: &impl Door) -> Result<Vec<Event>, Failure> {
    let mut live = Copied::live(door)?;
    let failed = |error: &io::Error| refused("reading the events of the recording", error);
    let mut page = [0; FLIGHT_PAGE];
    live.read(0, &mut page).map_err(|error| failed(&error))?;
    let head = Head::of(&page).map_err(NotRead::failure)?;
    head.events(&mut live).map_err(|error| failed(&error))
}

/// The error of a request, in one line.
pub fn refused(what: &str, error: &io::Error) -> Failure {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => Failure::failed(
            "nothing is recorded: `jifl flight start --keep` starts the flight recorder",
        ),
        Some(Errno::NOTTY | Errno::OPNOTSUPP) => Failure::cannot(
            "the loaded module has no flight recorder: load the module that was built with this \
             command (`jifl unload jifl`, `jifl load`)",
        ),
        _ => device::failed(what, error),
    }
}

/// The memory of a recording, by way of the module.
pub struct Copied<'a, D> {
    door: &'a D,
    op: FlightOp,
    memory: [u8; 48],
}

impl<'a, D: Door> Copied<'a, D> {
    /// The recording that runs, or is stopped.
    ///
    /// # Errors
    /// There is none.
    pub fn live(door: &'a D) -> Result<Copied<'a, D>, Failure> {
        let mut copied = Copied {
            door,
            op: FlightOp::Copy,
            memory: [0; 48],
        };
        copied.head()?;
        Ok(copied)
    }

    /// That of another boot, in memory of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn last(door: &'a D, name: &str) -> Result<Copied<'a, D>, Failure> {
        let mut copied = Copied {
            door,
            op: FlightOp::Last,
            memory: memory_name(name)?,
        };
        let mut page = [0; FLIGHT_PAGE];
        match copied.read(0, &mut page) {
            Ok(()) => Ok(copied),
            Err(error) => Err(last_refused(name, &error)),
        }
    }

    /// The head, as it is now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn head(&mut self) -> Result<Option<FlightHead>, Failure> {
        let mut page = [0; FLIGHT_PAGE];
        self.read(0, &mut page)
            .map_err(|error| refused("reading the recording", &error))?;
        Ok(FlightHead::from_bytes(&page))
    }
}

/// Why there is nothing in memory of that name.
pub fn last_refused(name: &str, error: &io::Error) -> Failure {
    match Errno::from_io_error(error) {
        Some(Errno::NODATA) => Failure::failed(format!(
            "--memory {name}: it has no recording of another boot: none was made there, it is \
             forgotten, or the memory did not outlive the restart"
        )),
        Some(Errno::NXIO) => no_memory(name),
        _ => refused(&format!("reading memory {name}"), error),
    }
}

/// What is to be said where there is no memory of a name.
pub fn no_memory(name: &str) -> Failure {
    Failure::cannot(format!(
        "--memory {name}: the kernel has no such memory, or it is too small: boot with \
         reserve_mem=16M:4096:{name} (Linux 6.12 and later), or with memmap=16M$0xADDRESS and \
         --memory 0xADDRESS:0x1000000"
    ))
}

impl<D: Door> Memory for Copied<'_, D> {
    fn read(&mut self, offset: u64, room: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < room.len() {
            let mut request = Flight::of(self.op);
            request.offset = offset.saturating_add(done as u64);
            request.memory = self.memory;
            self.door
                .call(Request::Flight(&mut request, &mut room[done..]))?;
            match usize::try_from(request.length) {
                Ok(more) if more > 0 && more <= room.len() - done => done += more,
                _ => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(())
    }
}
