// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the tables that sessions keep in the module.

use std::io;

use jifl_sys::abi::{Entry, TableRead};
use jifl_sys::device::{Door, Request, Rows};

use crate::base::exit::Failure;
use crate::session::device;

/// Entries that one request may take.
pub const ROOM: usize = 1 << 13;

/// What no entry says; the ABI says of each table what is at which place.
pub type Rest = [u64; 3];

/// All entries of a table of a door's session, in the table's order, and what else the module says
/// with the last of them. `what` is done, if it fails.
///
/// # Errors
/// The module does not give them.
pub fn read<E: Entry>(door: &impl Door, what: &str) -> Result<(Vec<E>, Rest), Failure> {
    let mut all: Vec<E> = Vec::new();
    let mut room = vec![E::default(); ROOM];
    loop {
        let mut asked = TableRead::from(all.len() as u32, 0);
        door.call(Request::Table(&mut asked, Rows::new(&mut room)))
            .map_err(|error| device::failed(what, &error))?;
        all.extend_from_slice(&room[..asked.n as usize]);
        if (asked.n as usize) < room.len() {
            return Ok((all, asked.rest));
        }
    }
}

/// What a table that asks for a CPU says of this one, beside its entries.
///
/// # Errors
/// As the module has it.
pub fn rest_of_cpu<E: Entry>(door: &impl Door, cpu: u32) -> io::Result<Rest> {
    let mut asked = TableRead::from(u32::MAX, cpu);
    let mut room = vec![E::default(); 1];
    door.call(Request::Table(&mut asked, Rows::new(&mut room)))?;
    Ok(asked.rest)
}
