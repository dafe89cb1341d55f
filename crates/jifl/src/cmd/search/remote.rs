// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl --host HOST search`: a daemon searches its machine, and this command shows what it tells.

use std::io::Read;
use std::time::{Duration, Instant};

use jifl_sys::os;

use super::order::Order;
use super::{SearchArgs, note};
use crate::base::exit::{DONE, Failure, LIMIT};
use crate::cmd::remote::host::Host;
use crate::cmd::remote::search::{Event, Search};
use crate::show::output::Sink;

/// How often it is looked for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// How long the last event is waited for after the search could not be ended.
const LAST: Duration = Duration::from_secs(5);

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
    let mut interrupt = os::catch_interrupts()
        .and_then(|interrupt| interrupt.set_nonblocking(true).map(|()| interrupt))
        .map_err(|error| Failure::failed(format!("catching Ctrl-C: {error}")))?;
    let search = Search::begin(host, order)?;
    // Opening it empties a file, so it is opened when the daemon has not refused.
    let mut sink = None;
    let mut not_ended = None;
    loop {
        if interrupt.read(&mut [0; 1]).is_ok() {
            // The search may have just ended by itself: then its last event comes all the same.
            not_ended = search.end().err().map(|why| (Instant::now(), why));
        }
        let (grown, is_end) = match search.next(LOOK) {
            Some(Event::Tree(grown)) => (grown, false),
            Some(Event::End(grown)) => (grown, true),
            Some(Event::Failed(failure)) => return Err(failure),
            None => match not_ended.take_if(|(since, _)| since.elapsed() > LAST) {
                Some((_, failure)) => return Err(failure),
                None => continue,
            },
        };
        let sink = match &mut sink {
            Some(sink) => sink,
            none => none.insert(Sink::open(args.output.as_deref())?),
        };
        if !is_end {
            note(&grown.report);
            continue;
        }
        args.write(sink, &grown)?;
        return Ok(if grown.is_cut_short() { LIMIT } else { DONE });
    }
}
