// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events as users name them: by name, by group, by a pattern of names.

use crate::base::exit::Failure;
use crate::base::{glob, nearest};
use crate::session::flight::{Entry, Event, Flight};

/// Events that are recorded only if they are asked for: they come often and say little.
const RARE: &str = "timer_";

/// What all events but the rare ones are.
pub fn usual(events: &[Event]) -> u64 {
    mask(events, |event| !event.name.starts_with(RARE))
}

/// Events by a condition, a bit for each.
fn mask(events: &[Event], is_meant: impl Fn(&Event) -> bool) -> u64 {
    let meant = events
        .iter()
        .take(64)
        .enumerate()
        .filter(|(_, event)| is_meant(event));
    meant.fold(0, |mask, (bit, _)| mask | 1 << bit)
}

/// The events that words name, a bit for each; `option`: where the words are from.
///
/// # Errors
/// A word names none.
pub fn chosen(option: &str, words: &[String], events: &[Event]) -> Result<u64, Failure> {
    let mut all = 0;
    for word in words {
        let named = mask(events, |event| {
            event.group == *word || glob::matches(word, &event.name)
        });
        if named == 0 {
            return Err(unknown(option, word, events));
        }
        all |= named;
    }
    Ok(all)
}

fn unknown(option: &str, word: &str, events: &[Event]) -> Failure {
    let both = |event: &Event| [event.name.clone(), event.group.clone()];
    let known: Vec<String> = events.iter().flat_map(both).collect();
    let near = nearest::nearest(word, known.iter().map(String::as_str));
    let mut groups: Vec<&str> = events.iter().map(|event| event.group.as_str()).collect();
    groups.sort_unstable();
    groups.dedup();
    Failure::usage(match near.as_slice() {
        [] => format!(
            "{option} {word}: there is no such event or group; groups are {}",
            groups.join(", ")
        ),
        near => format!(
            "{option} {word}: there is no such event or group; the nearest is {}",
            near.join(", ")
        ),
    })
}

/// Is an event of this number chosen? Those that have no place in a mask are chosen with all.
fn has(mask: Option<u64>, event: u16) -> bool {
    mask.is_none_or(|mask| event < 64 && mask >> event & 1 == 1)
}

/// Which records are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Choice {
    /// A bit for each event; `None`: all.
    events: Option<u64>,
    /// Only of this thread.
    pub tid: Option<u32>,
}

impl Choice {
    /// Those of the options -e and -p.
    ///
    /// # Errors
    /// A word names no event.
    pub fn of(words: &[String], tid: Option<u32>, flight: &Flight) -> Result<Choice, Failure> {
        let events = match words {
            [] => None,
            words => Some(chosen("-e", words, &flight.events)?),
        };
        Ok(Choice { events, tid })
    }

    /// Is a record wanted?
    pub fn has(&self, entry: &Entry) -> bool {
        has(self.events, entry.raw.event) && self.tid.is_none_or(|tid| tid == entry.raw.tid)
    }

    /// Is the event of this name wanted?
    pub fn has_event(&self, flight: &Flight, name: &str) -> bool {
        let number = flight.events.iter().position(|event| event.name == name);
        number.is_some_and(|number| has(self.events, number as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::flight::made;

    #[test]
    fn events_are_named_by_name_group_and_pattern() {
        let events = Event::all(&made::events());
        let of = |text: &str| {
            let words: Vec<String> = text.split(',').map(str::to_owned).collect();
            chosen("-e", &words, &events)
        };
        assert_eq!(of("sys"), Ok(0b11));
        assert_eq!(of("sched_switch,sys_exit"), Ok(0b110));
        assert_eq!(of("sys_*"), Ok(0b11));
        assert_eq!(usual(&events), 0b1_0111_1111);
        let failure = of("sched_swich").unwrap_err();
        assert_eq!(failure.status, crate::base::exit::USAGE);
        assert!(
            failure.message.contains("nearest is sched_switch"),
            "{}",
            failure.message
        );
        assert!(
            of("zzzzz")
                .unwrap_err()
                .message
                .contains("groups are block, irq,")
        );
        assert!(has(None, 70) && has(Some(2), 1) && !has(Some(2), 0) && !has(Some(!0), 64));
    }
}
