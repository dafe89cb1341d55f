// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which part of a trace is shown, and how it is written.

use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::chrome::Chrome;
use super::folded::Folded;
use super::form::{Form, Shown};
use super::ndjson::Ndjson;
use super::perfetto::Perfetto;
use super::text::Text;
use crate::base::clock::Moment;
use crate::base::duration;
use crate::base::exit::Failure;
use crate::session::calls::threads::Threads;
use crate::session::calls::{Call, Entered};
use crate::show::output::Sink;

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line for each call and each function, indented
    Text,
    /// A JSON object in a line for each call
    Ndjson,
    /// A line for each stack of functions, with how often its last was entered, or with --durations
    /// its own nanoseconds: for flame graphs
    Folded,
    /// Chrome's trace events, JSON, with --durations: for chrome://tracing and ui.perfetto.dev
    Chrome,
    /// Perfetto's own format, binary, with --durations: for ui.perfetto.dev
    Perfetto,
}

impl Format {
    /// True if the form needs times of functions.
    pub fn needs_times(self) -> bool {
        matches!(self, Format::Chrome | Format::Perfetto)
    }

    /// Opens the destination. Refuses to write binary output to a terminal.
    ///
    /// # Errors
    /// Nothing can be written there.
    pub fn sink(self, output: Option<&Path>) -> Result<Sink, Failure> {
        let sink = Sink::open(output)?;
        if self == Format::Perfetto && sink.is_terminal() {
            return Err(Failure::usage(
                "a Perfetto trace is binary and not for a terminal: write it to a file with -o \
                 FILE",
            ));
        }
        Ok(sink)
    }

    /// The form. `timed`: times of functions are known; `moment`: the clocks at the session's end;
    /// `threads`: threads whose names are known already.
    pub fn form(self, timed: bool, moment: Moment, threads: Threads) -> Box<dyn Form> {
        match self {
            Format::Text => Box::new(Text),
            Format::Ndjson => Box::new(Ndjson),
            Format::Folded => Box::new(Folded::new(timed)),
            Format::Chrome => Box::new(Chrome::new(threads)),
            Format::Perfetto => Box::new(Perfetto::new(moment, threads)),
        }
    }
}

/// The part of a trace that is shown.
#[derive(Debug, Default, Args)]
pub struct Choice {
    /// Show only functions, and calls, that took at least so long, such as 10us; with --durations
    #[arg(long, value_parser = duration::parse, value_name = "TIME")]
    threshold: Option<Duration>,
    /// Show functions down to this depth only
    #[arg(short = 'D', long, value_name = "DEPTH")]
    depth: Option<u32>,
    /// Show only calls that took longer, such as 10us, and those that did not end
    #[arg(long, value_parser = duration::parse, value_name = "TIME")]
    longer: Option<Duration>,
}

impl Choice {
    /// True if any option is given.
    pub fn is_given(&self) -> bool {
        self.threshold.is_some() || self.depth.is_some() || self.longer.is_some()
    }

    /// True if an option needs times of functions.
    pub fn needs_times(&self) -> bool {
        self.threshold.is_some()
    }

    /// True if a call is shown, which is as a whole or not at all. Calls that did not end are
    /// always shown.
    pub fn shown<'a>(&self, call: &'a Call) -> Option<Shown<'a>> {
        let took = call.duration().map(Duration::from_nanos);
        let longer = self
            .longer
            .is_none_or(|longer| took.is_none_or(|took| took > longer));
        let functions = call.functions.iter();
        (longer && self.shows_time(call.duration())).then(|| Shown {
            call,
            functions: functions
                .filter(|entered| self.shows_function(entered))
                .collect(),
        })
    }

    fn shows_function(&self, entered: &Entered) -> bool {
        self.depth.is_none_or(|limit| entered.depth < limit) && self.shows_time(entered.duration)
    }

    fn shows_time(&self, nanoseconds: Option<u64>) -> bool {
        let took = nanoseconds.map(Duration::from_nanos);
        self.threshold
            .is_none_or(|least| took.is_none_or(|took| took >= least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::parse;

    #[test]
    fn what_was_short_is_left_out() {
        let call = |ended| Call {
            began: 1000,
            ended,
            ..Call::default()
        };
        let shows = |choice: &Choice, call: &Call| choice.shown(call).is_some();
        let longer = parse::<Choice>("--longer 2us").unwrap();
        assert!(shows(&longer, &call(Some(3001))) && shows(&longer, &call(None)));
        assert!(!shows(&longer, &call(Some(3000))));
        let least = parse::<Choice>("--threshold 2us").unwrap();
        assert!(shows(&least, &call(Some(3000))) && !shows(&least, &call(Some(2999))));
        let entered = |duration| Entered {
            duration,
            ..Entered::default()
        };
        assert!(least.shows_function(&entered(Some(2000))) && least.shows_function(&entered(None)));
        assert!(!least.shows_function(&entered(Some(1999))));
    }
}
