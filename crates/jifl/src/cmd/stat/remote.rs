// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl --host HOST stat`: the same of a session that a daemon runs.

use std::io::Read;
use std::time::Duration;

use jifl_sys::os;

use super::live::{Shape, Writer};
use super::source::Plan;
use super::{Asked, StatArgs, write_report};
use crate::base::exit::{DONE, Failure, LIMIT};
use crate::cmd::probe::note_left_out;
use crate::cmd::remote::host::Host;
use crate::cmd::remote::source::{Event, Session, order};
use crate::show::output::{self, Sink, width};

/// From one event to the next, where no intervals are shown.
const USUAL: Duration = Duration::from_secs(1);
/// How often it is looked for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Runs the command; the result is the exit status.
///
/// # Errors
/// The daemon is not there, or refuses what is asked for.
pub fn run(args: &StatArgs, asked: &Asked, host: &Host) -> Result<u8, Failure> {
    let plan = Plan {
        functions: asked.functions.clone(),
        counters: asked.counters.clone(),
        levels: args.context.iter().fold(0, |all, one| all | one.bit()),
        tasks: args.tasks.clone(),
        confirmed: args.yes,
        ..Plan::default()
    };
    let mut order = order(&plan, args.interval.unwrap_or(USUAL))?;
    order.by = args.by.clone();
    order.no_interrupts = args.no_interrupts;
    order.metrics = asked.metrics.iter().map(|one| one.name.clone()).collect();
    let time = args.tasks.time().map(|time| time.as_millis().max(1));
    order.for_ms = time.map(|time| u64::try_from(time).unwrap_or(u64::MAX));
    let mut sink = Sink::open(args.output.as_deref())?;
    let mut session = Session::begin(host, &order)?;
    // Until here Ctrl-C ends this command, which may be waiting for the daemon. A session that has
    // just begun ends with its connection.
    let mut interrupt = os::catch_interrupts()
        .and_then(|interrupt| interrupt.set_nonblocking(true).map(|()| interrupt))
        .map_err(|error| Failure::failed(format!("catching Ctrl-C: {error}")))?;
    note_left_out(&session.begun.left_out);
    let (functions, labels) = (session.rows.clone(), session.begun.labels.clone());
    let shape = Shape {
        format: args.format,
        limit: args.limit,
        width: width(args.output.as_deref()),
    };
    let mut writer = None;
    if args.interval.is_some() {
        writer = Some(Writer::new(&asked.metrics, &labels, shape, sink));
        sink = Sink::Stdout;
    }
    let mut dropped = 0;
    let (ended, why) = loop {
        // The session may have just ended by itself: then its last event comes all the same.
        if interrupt.read(&mut [0; 1]).is_ok() && session.leave() {
            output::note("Detaching...");
        }
        match session.next(LOOK) {
            None => {}
            Some(Event::Rows(now)) => {
                if let Some(writer) = &mut writer {
                    let rows = now.rows().unwrap_or_else(|| functions.clone());
                    writer.write(&rows, now.counted())?;
                }
            }
            Some(Event::Dropped(number)) => dropped += number,
            Some(Event::End(ended, why)) => break (ended, why),
            Some(Event::Failed(failure)) => return Err(failure),
        }
    };
    let rows = ended.rows.as_ref().unwrap_or(&functions);
    if let Some(mut writer) = writer {
        writer.write(rows, ended.counted.clone())?;
        sink = writer.sink();
    }
    write_report(args, &asked.metrics, (&labels, rows), &ended, &mut sink)?;
    if dropped > 0 {
        output::note(&format!(
            "jifl: {dropped} intervals came together with later ones: this end was too slow"
        ));
    }
    match why.as_str() {
        "time" | "deleted" => Ok(DONE),
        why => {
            output::note(&format!("jifl: the session was ended from outside ({why})"));
            Ok(LIMIT)
        }
    }
}
