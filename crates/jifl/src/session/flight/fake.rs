// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flight recorder of the stand-in for the device.

use std::collections::BTreeMap;
use std::io;

use jifl_sys::abi::{Flight, FlightOp, from_name};
use rustix::io::Errno;

/// What it answers to Add: the event's number, and which recording it is.
const ADDED: u32 = 24;
const RECORDING: u32 = 3;

/// What it knows and was told.
#[derive(Default)]
pub struct Recorder {
    /// Its table of events, as bytes.
    pub events: Vec<u8>,
    /// The region that is recorded into; none: nothing is recorded.
    pub region: Option<Vec<u8>>,
    /// What starting makes.
    pub made: Vec<u8>,
    /// Regions of another boot, by the names of memory; empty: that memory has none.
    pub kept: BTreeMap<String, Vec<u8>>,
    /// All requests.
    pub asked: Vec<Flight>,
}

impl Recorder {
    /// Answers a request.
    pub fn answer(&mut self, asked: &mut Flight, room: &mut [u8]) -> io::Result<()> {
        self.asked.push(*asked);
        let refuse = |errno: Errno| Err(errno.into());
        let name = from_name(&asked.memory);
        match FlightOp::from_number(asked.op) {
            Some(FlightOp::Start) => {
                if self.region.is_some() {
                    return refuse(Errno::BUSY);
                }
                match self.kept.get(&name) {
                    None if !name.is_empty() => return refuse(Errno::NXIO),
                    Some(bytes) if !bytes.is_empty() => return refuse(Errno::EXIST),
                    _ => self.region = Some(self.made.clone()),
                }
            }
            Some(FlightOp::Events) => {
                let n = self.events.len().min(room.len());
                room[..n].copy_from_slice(&self.events[..n]);
                asked.length = n as u64;
            }
            Some(FlightOp::Copy) => match &self.region {
                Some(region) => return copy(region, asked, room),
                None => return refuse(Errno::NOENT),
            },
            Some(FlightOp::Last) => match self.kept.get(&name) {
                None => return refuse(Errno::NXIO),
                Some(bytes) if bytes.is_empty() => return refuse(Errno::NODATA),
                Some(bytes) => return copy(bytes, asked, room),
            },
            Some(FlightOp::Forget) => match self.kept.get_mut(&name) {
                None => return refuse(Errno::NXIO),
                Some(bytes) => bytes.clear(),
            },
            Some(FlightOp::End) => {
                if self.region.take().is_none() {
                    return refuse(Errno::NOENT);
                }
            }
            Some(
                FlightOp::Mask | FlightOp::Freeze | FlightOp::Thaw | FlightOp::Hold | FlightOp::Add,
            ) if self.region.is_none() => return refuse(Errno::NOENT),
            Some(FlightOp::Add) => {
                asked.added = ADDED;
                asked.recording = RECORDING;
            }
            Some(FlightOp::Hold) if asked.recording != RECORDING => return refuse(Errno::STALE),
            Some(FlightOp::Mask | FlightOp::Freeze | FlightOp::Thaw | FlightOp::Hold) => {}
            None => return refuse(Errno::INVAL),
        }
        Ok(())
    }
}

/// No more than a page at once, so that the caller must ask again.
fn copy(from: &[u8], asked: &mut Flight, room: &mut [u8]) -> io::Result<()> {
    let rest = from.get(asked.offset as usize..).unwrap_or_default();
    let n = rest.len().min(room.len()).min(4096);
    if n == 0 && !room.is_empty() {
        return Err(Errno::INVAL.into());
    }
    room[..n].copy_from_slice(&rest[..n]);
    asked.length = n as u64;
    Ok(())
}
