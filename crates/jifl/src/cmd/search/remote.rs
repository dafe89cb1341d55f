// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl --host HOST search`: a daemon searches its machine, and this command shows what it tells.

use std::io::Read;
use std::time::Duration;

use jifl_sys::os;

use super::order::Order;
use super::{SearchArgs, note};
use crate::base::exit::{DONE, Failure, LIMIT};
use crate::cmd::remote::host::Host;
use crate::cmd::remote::search::{Event, Search};
use crate::show::output::Sink;

/// How often it is looked for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Runs the command; the result is the exit status.
///
/// # Errors
/// The daemon is not there, or refuses what is asked for.
pub fn run(args: &SearchArgs, order: &Order, host: &Host) -> Result<u8, Failure> {
    if !args.command.is_empty() {
        return Err(Failure::usage(
            "--host with CMD: the command would run here, and the search there: give -p its \
             process, or run both on that machine (ssh)",
        ));
    }
    args.lines.need_none()?;
    let mut sink = Sink::open(args.output.as_deref())?;
    let mut interrupt = os::catch_interrupts()
        .and_then(|interrupt| interrupt.set_nonblocking(true).map(|()| interrupt))
        .map_err(|error| Failure::failed(format!("catching Ctrl-C: {error}")))?;
    let search = Search::begin(host, order)?;
    loop {
        if interrupt.read(&mut [0; 1]).is_ok() {
            search.end()?;
        }
        match search.next(LOOK) {
            None => {}
            Some(Event::Tree(grown)) => note(&grown.report),
            Some(Event::End(grown)) => {
                args.write(&mut sink, &grown)?;
                return Ok(if grown.is_cut_short() { LIMIT } else { DONE });
            }
            Some(Event::Failed(failure)) => return Err(failure),
        }
    }
}
