// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be asked of a function: figures, and ratios of two of them.

use jifl_sys::abi::{COUNTED_UNKNOWN, COUNTERS_MAX, Time};

use super::counters::{self, HIST, is_counter};
use crate::base::duration;
use crate::base::exit::Failure;
use crate::show::text::grouped;

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Calls that began.
    Calls,
    /// From the beginning of calls to their end.
    Wall,
    /// Of that, the time in which the task ran.
    Cpu,
    /// The time in which it slept.
    Blocked,
    /// The time in which it could have run, and did not.
    Runnable,
    /// How many tasks were inside, on average.
    Concurrency,
    /// The time that has passed.
    Elapsed,
    /// How much this counter of the session has grown inside.
    Counter(usize),
    /// The same of one that counts nanoseconds.
    Clock(usize),
    /// How many values this counter has distributed.
    Distribution(usize),
}

/// All figures, by their names.
const FIGURES: [(&str, Figure); 7] = [
    ("calls", Figure::Calls),
    ("wall", Figure::Wall),
    ("cpu", Figure::Cpu),
    ("blocked", Figure::Blocked),
    ("runnable", Figure::Runnable),
    ("concurrency", Figure::Concurrency),
    ("s", Figure::Elapsed),
];

/// What is shown in a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// As it was given: `wall`, `wall/calls`.
    pub name: String,
    figure: Figure,
    per: Option<Figure>,
}

/// What a column shows of a function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A number.
    Count(u64),
    /// Nanoseconds.
    Time(u64),
    /// A ratio.
    Ratio(f64),
    /// A ratio with nothing below the line.
    None,
}

/// What is shown if nothing else is asked for.
pub const USUAL: &str = "calls,wall,wall/calls,cpu,blocked,runnable,concurrency";

impl Metric {
    /// Reads a list, with commas in between. Counters that it names are added to `counters`.
    ///
    /// # Errors
    /// One of them is unknown.
    pub fn list(words: &str, counters: &mut Vec<String>) -> Result<Vec<Metric>, Failure> {
        let each = words.split(',');
        each.map(|word| Metric::parse(word, counters)).collect()
    }

    /// Is it a metric, or a list of them?
    pub fn is_list(word: &str) -> bool {
        !word.contains(':') || word.split([',', '/']).any(is_counter)
    }

    fn parse(word: &str, counters: &mut Vec<String>) -> Result<Metric, Failure> {
        let mut figure = |name: &str| {
            if is_counter(name) {
                return counter(name, counters);
            }
            let known = FIGURES.iter().find(|(own, _)| *own == name);
            known.map(|(_, figure)| *figure).ok_or_else(|| {
                Failure::usage(format!(
                    "{word}: a metric is calls, wall, cpu, blocked, runnable, concurrency, \
                     interrupts, tracepoint:NAME, var:NAME, perf:EVENT, vmstat:NAME, snmp:NAME, \
                     sum:EXPR or hist:EXPR, or a ratio of two, as wall/calls; calls/s is a rate"
                ))
            })
        };
        let (above, per) = match word.split_once('/') {
            None => (word, None),
            Some((above, per)) => (above, Some(per)),
        };
        let metric = Metric {
            name: word.to_owned(),
            figure: figure(above)?,
            per: per.map(&mut figure).transpose()?,
        };
        let distributes = |figure: Figure| matches!(figure, Figure::Distribution(_));
        if metric.per.is_some() && distributes(metric.figure) || metric.per.is_some_and(distributes)
        {
            return Err(Failure::usage(format!(
                "{word}: a distribution is no number, so it has no ratio: give hist:EXPR alone"
            )));
        }
        match metric.figure {
            Figure::Elapsed => figure("").map(|_| metric),
            _ => Ok(metric),
        }
    }

    /// The counter whose distribution it is; `None`: it is a number.
    pub fn distribution(&self) -> Option<usize> {
        match self.figure {
            Figure::Distribution(at) => Some(at),
            _ => None,
        }
    }

    /// Its value.
    pub fn of(&self, time: &Time) -> Value {
        let elapsed_ns = time.elapsed_ns;
        let unknown = |figure: Figure| match figure {
            Figure::Counter(at) | Figure::Clock(at) => time.counted[at] == COUNTED_UNKNOWN,
            _ => false,
        };
        if unknown(self.figure) || self.per.is_some_and(unknown) {
            return Value::None;
        }
        let Some(per) = self.per else {
            return match self.figure {
                Figure::Calls => Value::Count(time.calls),
                Figure::Counter(at) | Figure::Distribution(at) => Value::Count(time.counted[at]),
                Figure::Concurrency => ratio(wall(time) as f64, elapsed_ns as f64),
                figure => Value::Time(number(figure, time) as u64),
            };
        };
        let above = number(self.figure, time);
        let below = number(per, time);
        match (is_time(self.figure), per) {
            (true, Figure::Calls) if below > 0.0 => Value::Time((above / below) as u64),
            // Time in each second is a share.
            (false, Figure::Elapsed) => ratio(above * 1e9, below),
            _ => ratio(above, below),
        }
    }
}

/// All time of calls.
pub fn wall(time: &Time) -> u64 {
    time.cpu_ns + time.blocked_ns + time.runnable_ns
}

/// The number of the counter of that name; each is counted once.
///
/// # Errors
/// They are too many.
pub fn counted(name: &str, counters: &mut Vec<String>) -> Result<usize, Failure> {
    let known = counters.iter().position(|one| one == name);
    let at = known.unwrap_or(counters.len());
    if at == COUNTERS_MAX {
        return Err(Failure::usage(format!(
            "{name}: a session has at most {COUNTERS_MAX} tracepoints, variables, events, \
             sums and distributions"
        )));
    }
    if known.is_none() {
        counters.push(name.to_owned());
    }
    Ok(at)
}

fn counter(name: &str, counters: &mut Vec<String>) -> Result<Figure, Failure> {
    let at = counted(name, counters)?;
    if name.starts_with(HIST) {
        return Ok(Figure::Distribution(at));
    }
    Ok(match counters::is_time(name) {
        true => Figure::Clock(at),
        false => Figure::Counter(at),
    })
}

fn is_time(figure: Figure) -> bool {
    !matches!(
        figure,
        Figure::Calls | Figure::Concurrency | Figure::Counter(_) | Figure::Distribution(_)
    )
}

/// Times in nanoseconds.
fn number(figure: Figure, time: &Time) -> f64 {
    match figure {
        Figure::Calls => time.calls as f64,
        Figure::Wall => wall(time) as f64,
        Figure::Cpu => time.cpu_ns as f64,
        Figure::Blocked => time.blocked_ns as f64,
        Figure::Runnable => time.runnable_ns as f64,
        Figure::Concurrency => wall(time) as f64 / time.elapsed_ns.max(1) as f64,
        Figure::Elapsed => time.elapsed_ns as f64,
        Figure::Counter(at) | Figure::Clock(at) | Figure::Distribution(at) => {
            time.counted[at] as f64
        }
    }
}

fn ratio(above: f64, below: f64) -> Value {
    match below > 0.0 {
        true => Value::Ratio(above / below),
        false => Value::None,
    }
}

impl Value {
    /// For people.
    pub fn text(self) -> String {
        match self {
            Value::Count(number) => grouped(number),
            Value::Time(nanoseconds) => duration::show(nanoseconds),
            Value::Ratio(ratio) if ratio >= 1000.0 => grouped(ratio as u64),
            Value::Ratio(ratio) => format!("{ratio:.3}"),
            Value::None => "-".into(),
        }
    }

    /// For programs: times are nanoseconds.
    pub fn json(self) -> serde_json::Value {
        match self {
            Value::Count(number) | Value::Time(number) => number.into(),
            Value::Ratio(ratio) => ratio.into(),
            Value::None => serde_json::Value::Null,
        }
    }

    /// By which rows are put in order.
    pub fn weight(self) -> f64 {
        match self {
            Value::Count(number) | Value::Time(number) => number as f64,
            Value::Ratio(ratio) => ratio,
            Value::None => -1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_figures_and_ratios() {
        let time = Time {
            calls: 4,
            cpu_ns: 1_000,
            blocked_ns: 6_000,
            runnable_ns: 1_000,
            elapsed_ns: 16_000,
            ..Time::default()
        };
        let shown = |words: &str| -> Vec<String> {
            let all = Metric::list(words, &mut Vec::new()).unwrap();
            all.iter().map(|one| one.of(&time).text()).collect()
        };
        assert_eq!(
            shown("calls,wall,cpu,blocked,runnable,concurrency"),
            ["4", "8.0 us", "1.0 us", "6.0 us", "1.0 us", "0.500"]
        );
        assert_eq!(
            shown("wall/calls,blocked/wall,calls/s,wall/s,calls/concurrency"),
            ["2.0 us", "0.750", "250,000", "0.500", "8.000"]
        );
        let none = Metric::list("wall/calls", &mut Vec::new()).unwrap();
        assert_eq!(none[0].of(&Time::default()), Value::None);
    }

    #[test]
    fn what_is_no_metric_is_told() {
        for word in ["cycles", "s", "wall/", "/calls", "", "wall/calls/s"] {
            let refused = Metric::list(word, &mut Vec::new()).unwrap_err().message;
            assert!(
                refused.starts_with(&format!("{word}: a metric is")),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_distribution_is_no_number() {
        let all = Metric::list("calls,hist:$ret,hist:wall", &mut Vec::new()).unwrap();
        let of: Vec<_> = all.iter().map(Metric::distribution).collect();
        assert_eq!(of, [None, Some(0), Some(1)]);
        for word in ["hist:$ret/calls", "calls/hist:wall"] {
            let refused = Metric::list(word, &mut Vec::new()).unwrap_err().message;
            assert!(refused.contains("has no ratio"), "{refused}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_shown() {
        let words = "perf:cycles,perf:cycles/calls,cpu/perf:cycles,perf:cpu-clock/calls";
        let all = Metric::list(words, &mut Vec::new()).unwrap();
        let time = Time {
            calls: 4,
            counted: [COUNTED_UNKNOWN, 8_000, 0, 0],
            ..Time::default()
        };
        let shown: Vec<String> = all.iter().map(|one| one.of(&time).text()).collect();
        assert_eq!(shown, ["-", "-", "-", "2.0 us"]);
    }

    #[test]
    fn counters_are_counted_once_each() {
        let mut counters = Vec::new();
        let words = "var:jiffies_64,tracepoint:sched:sched_switch/calls,wall/var:jiffies_64";
        let all = Metric::list(words, &mut counters).unwrap();
        assert_eq!(
            counters,
            ["var:jiffies_64", "tracepoint:sched:sched_switch"]
        );
        let time = Time {
            calls: 4,
            cpu_ns: 60,
            counted: [20, 2, 0, 0],
            ..Time::default()
        };
        assert_eq!(all[0].of(&time), Value::Count(20));
        assert_eq!(all[1].of(&time), Value::Ratio(0.5));
        assert_eq!(all[2].of(&time), Value::Ratio(3.0));
        assert!(Metric::is_list(words) && Metric::is_list("calls") && !Metric::is_list("fn:f"));
        let many = "var:a,var:b,var:c,var:d,var:e";
        assert!(Metric::list(many, &mut Vec::new()).is_err());
    }
}
