// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--slow`: two events with too much time between them, at which a recording stops.

use std::time::Duration;

use jifl_sys::abi::{Flight, FlightKey};

use crate::base::exit::Failure;
use crate::base::{duration, nearest};
use crate::kernel::syscalls::Table;
use crate::session::flight::Event;
use crate::session::flight::fields::Kind;

/// The longest time that the module takes.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// `CALL:TIME`, or `EVENT..EVENT:TIME`.
pub fn parse(text: &str) -> Result<(String, Duration), String> {
    let (what, time) = text
        .rsplit_once(':')
        .ok_or("what is slow, and the time: openat:10ms, sched_wakeup..sched_switch:20ms")?;
    let time = duration::parse(time)?;
    match time <= DAY {
        true => Ok((what.to_owned(), time)),
        false => Err("a day at most".into()),
    }
}

/// Adds to a request that the recording stops at that.
///
/// # Errors
/// There is no such event, or no such system call.
pub fn ask(
    request: &mut Flight,
    slow: &(String, Duration),
    events: &[Event],
    calls: &Table,
) -> Result<(), Failure> {
    let (what, time) = slow;
    request.slow_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    request.slow_value = u64::MAX;
    let (from, to) = match what.split_once("..") {
        Some((from, to)) => (find(from, events)?, find(to, events)?),
        None => {
            if what != "all" {
                request.slow_value = call(what, calls)?.into();
            }
            (find("sys_enter", events)?, find("sys_exit", events)?)
        }
    };
    let [from_key, to_key] = keys(&events[from], &events[to]);
    request.slow_from = from as u16;
    request.slow_to = to as u16;
    request.slow_from_key = from_key as u8;
    request.slow_to_key = to_key as u8;
    request.mask |= 1 << from | 1 << to;
    Ok(())
}

/// The number of an event.
fn find(name: &str, events: &[Event]) -> Result<usize, Failure> {
    let known = events.iter().take(64);
    known
        .clone()
        .position(|event| event.name == name)
        .ok_or_else(|| {
            let near = nearest::nearest(name, known.map(|event| event.name.as_str()));
            let hint = match near.as_slice() {
                [] => "`jifl flight status` lists them".to_owned(),
                near => format!("the nearest is {}", near.join(", ")),
            };
            Failure::usage(format!("--slow {name}: there is no such event; {hint}"))
        })
}

/// The number of a system call.
fn call(name: &str, calls: &Table) -> Result<u32, Failure> {
    let found = calls.iter().find(|(_, known)| *known == name);
    found.map(|(nr, _)| nr).ok_or_else(|| {
        let near = nearest::nearest(name, calls.iter().map(|(_, name)| name));
        Failure::usage(format!(
            "--slow {name}: there is no such system call; {}give a call, `all`, or two events: \
             sched_wakeup..sched_switch",
            match near.as_slice() {
                [] => String::new(),
                near => format!("the nearest is {}; ", near.join(", ")),
            }
        ))
    })
}

/// What two events have in common that belong together: a thread that both name, the sector of a
/// device, the CPU of interrupts; else the thread that runs.
fn keys(from: &Event, to: &Event) -> [FlightKey; 2] {
    let argument = |event: &Event, kind: Kind| {
        let field = event.fields.iter().find(|field| field.kind == kind)?;
        [FlightKey::Arg0, FlightKey::Arg1].get(field.at).copied()
    };
    let both = |kind| Some([argument(from, kind)?, argument(to, kind)?]);
    if let Some(keys) = both(Kind::Thread) {
        return keys;
    }
    if both(Kind::Device).is_some() {
        return [FlightKey::Arg1; 2];
    }
    let is_irq = |event: &Event| event.group == "irq";
    match is_irq(from) && is_irq(to) {
        true => [FlightKey::Cpu; 2],
        false => [FlightKey::Thread; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::flight::made;

    fn asked(text: &str) -> Result<Flight, Failure> {
        let mut request = Flight::default();
        let events = Event::all(&made::events());
        ask(&mut request, &parse(text).unwrap(), &events, &Table::all())?;
        Ok(request)
    }

    #[test]
    fn two_events_have_a_key() {
        let of = |text: &str| {
            let one = asked(text).unwrap();
            (
                [one.slow_from, one.slow_to],
                [one.slow_from_key, one.slow_to_key],
                one.slow_value,
                one.slow_ns,
            )
        };
        let any = u64::MAX;
        assert_eq!(of("all:10ms"), ([0, 1], [0, 0], any, 10_000_000));
        assert_eq!(of("openat:1s"), ([0, 1], [0, 0], 257, 1_000_000_000));
        assert_eq!(
            of("softirq_entry..timer_expire:1ms"),
            ([3, 7], [3, 3], any, 1_000_000)
        );
        assert_eq!(
            of("block_rq_issue..block_rq_issue:1us"),
            ([4, 4], [2, 2], any, 1_000)
        );
        assert_eq!(
            of("sched_switch..sched_switch:1us").1,
            [FlightKey::Arg1 as u8; 2]
        );
        assert_eq!(asked("all:1s").unwrap().mask, 0b11);
    }

    #[test]
    fn what_is_unknown_is_refused() {
        for (text, hint) in [
            ("opennat:1s", "nearest is openat"),
            ("sys_entry..sys_exit:1s", "nearest is sys_enter"),
        ] {
            let message = asked(text).unwrap_err().message;
            assert!(message.contains(hint), "{message}");
        }
        assert!(parse("openat").is_err() && parse("openat:2x").is_err());
        assert!(parse("openat:25h").is_err());
    }
}
