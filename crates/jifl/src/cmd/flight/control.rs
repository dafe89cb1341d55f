// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl flight stop`, `mask`, `freeze`, `thaw`: what is asked of a recording that runs.

use std::time::Duration;

use clap::Args;
use jifl_sys::abi::{Flight, FlightOp};
use jifl_sys::device::Door;

use super::choice;
use crate::base::duration;
use crate::base::exit::{DONE, Failure};
use crate::session::device;
use crate::session::flight::door;

/// Arguments of `jifl flight mask`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jifl flight mask -e sched,irq
  jifl flight mask -e 'sys_*'")]
pub struct MaskArgs {
    /// Events and groups, with commas between them
    #[arg(
        short,
        long,
        value_name = "EVENT|GROUP",
        value_delimiter = ',',
        required = true
    )]
    events: Vec<String>,
}

/// Arguments of `jifl flight freeze`.
#[derive(Debug, Args)]
pub struct FreezeArgs {
    /// Record for so long yet: 100ms, 5s
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    after: Option<Duration>,
}

/// Nanoseconds of a time, for requests.
pub fn nanoseconds(time: Option<Duration>) -> u64 {
    let all = time.unwrap_or_default().as_nanos();
    u64::try_from(all).unwrap_or(u64::MAX)
}

fn ask(door: &impl Door, mut request: Flight, what: &str) -> Result<u8, Failure> {
    door::ask(door, &mut request).map_err(|error| door::refused(what, &error))?;
    Ok(DONE)
}

/// Ends the recording.
pub fn stop() -> Result<u8, Failure> {
    ask(
        &device::open()?,
        Flight::of(FlightOp::End),
        "ending the recording",
    )
}

/// Records again.
pub fn thaw() -> Result<u8, Failure> {
    ask(
        &device::open()?,
        Flight::of(FlightOp::Thaw),
        "recording again",
    )
}

/// Stops recording.
pub fn freeze(args: &FreezeArgs) -> Result<u8, Failure> {
    let mut request = Flight::of(FlightOp::Freeze);
    request.after_ns = nanoseconds(args.after);
    ask(&device::open()?, request, "stopping the recording")
}

/// Says what is recorded from now on.
pub fn mask(args: &MaskArgs) -> Result<u8, Failure> {
    let door = device::open()?;
    choose(&door, &args.events)
}

fn choose(door: &impl Door, words: &[String]) -> Result<u8, Failure> {
    let mut request = Flight::of(FlightOp::Mask);
    request.mask = choice::chosen("-e", words, &door::recorded(door)?)?;
    ask(door, request, "choosing events")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;
    use crate::session::flight::made;

    #[test]
    fn what_is_asked_is_what_was_said() {
        let fake = Fake::default();
        fake.state().flight.events = made::events();
        let words = ["sched".to_owned(), "warn".into()];
        let none = choose(&fake, &words).unwrap_err();
        assert!(none.message.contains("jifl flight start --keep"));
        fake.state().flight.region = Some(made::Made::sample().region());
        choose(&fake, &words).unwrap();
        let asked = *fake.state().flight.asked.last().unwrap();
        assert_eq!(
            (asked.op, asked.mask),
            (FlightOp::Mask as u32, 1 << 2 | 1 << 6)
        );
        ask(&fake, Flight::of(FlightOp::End), "").unwrap();
        assert!(fake.state().flight.region.is_none());
        assert_eq!(nanoseconds(Some(Duration::from_millis(100))), 100_000_000);
    }
}
