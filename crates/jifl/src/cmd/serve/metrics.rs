// SPDX-License-Identifier: MIT OR Apache-2.0
//! /metrics: the figures of all sessions in OpenMetrics' text format.
//!
//! A kernel has tens of thousands of functions, and what collects metrics keeps each series for
//! good. So [`FUNCTIONS_MAX`] functions have series of their own: those that were called first. All
//! others of a session are in one series, `(others)`. A function stays where it is, so that no
//! counter ever falls.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jifl_sys::abi::{TIMES_ELAPSED, TIMES_MISSED, TIMES_UNWATCHED, Time};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::hub::Hub;
use super::watch::Watch;
use crate::cmd::stat::metric::wall;
use crate::cmd::stat::sheet::Counted;

/// The type of the text.
pub const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Functions that have series of their own, of all sessions together.
pub const FUNCTIONS_MAX: usize = 200;
/// The name of those that do not.
const OTHERS: &str = "(others)";

/// Which functions have series of their own: by session, their rows.
#[derive(Debug, Default)]
pub struct Shown(BTreeMap<u64, Vec<usize>>);

/// A series' labels.
type Labels = Vec<(&'static str, String)>;

/// What one function, or the others, have.
#[derive(Debug)]
struct Series {
    labels: Labels,
    time: Time,
}

/// What one session has.
#[derive(Debug)]
struct OfSession {
    labels: Labels,
    rest: [u64; 3],
    series: Vec<Series>,
    others: u64,
}

/// All of it.
#[derive(Debug)]
struct Snapshot {
    /// Those that have been read.
    sessions: Vec<OfSession>,
    running: u64,
    clients: u64,
    turned_away: u64,
    dropped: u64,
}

/// The figures as they are now.
///
/// # Errors
/// Never: it is written to memory.
pub fn text(hub: &Hub, shown: &mut Shown) -> Result<String, fmt::Error> {
    let running = hub.sessions.running();
    shown
        .0
        .retain(|id, _| running.iter().any(|one| one.id == *id));
    let snapshot = Snapshot {
        sessions: running
            .iter()
            .filter_map(|one| of_session(one, shown))
            .collect(),
        running: running.len() as u64,
        clients: hub.clients() as u64,
        turned_away: hub.turned_away.load(Ordering::Relaxed),
        dropped: hub.sessions.dropped.load(Ordering::Relaxed),
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

fn of_session(watch: &Arc<Watch>, shown: &mut Shown) -> Option<OfSession> {
    let counted = watch.latest()?;
    let own = vec![("session", watch.id.to_string())];
    let labels = |function: &str, module: &str| {
        let mut all = own.clone();
        all.push(("function", escaped(function)));
        all.push(("module", escaped(module)));
        all
    };
    let mut series = Vec::new();
    let mut others = Time::default();
    let mut number = 0;
    let apart = choose(shown, watch.id, &counted);
    for row in &watch.rows {
        let time = counted
            .of_functions()
            .get(row.target)
            .copied()
            .unwrap_or_default();
        if !is_known(&time) {
            continue;
        }
        if apart.contains(&row.target) {
            // Functions may have one name, and series may not.
            let twin = |one: &&crate::cmd::stat::sheet::Row| {
                one.function == row.function && one.module == row.module
            };
            let mut labels = labels(&row.function, row.module.as_deref().unwrap_or(""));
            if watch.rows.iter().filter(twin).count() > 1 {
                labels.push(("row", row.target.to_string()));
            }
            series.push(Series { labels, time });
        } else {
            number += 1;
            add(&mut others, &time);
        }
    }
    if number > 0 {
        series.push(Series {
            labels: labels(OTHERS, ""),
            time: others,
        });
    }
    Some(OfSession {
        labels: own,
        rest: counted.rest,
        series,
        others: number,
    })
}

/// A label's value as the format has it; the encoder writes it as it is.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

/// The functions of a session that have series of their own: with those that now get one.
fn choose(shown: &mut Shown, id: u64, counted: &Counted) -> Vec<usize> {
    let mut all: usize = shown.0.values().map(Vec::len).sum();
    let own = shown.0.entry(id).or_default();
    for (row, time) in counted.of_functions().iter().enumerate() {
        if all < FUNCTIONS_MAX && is_known(time) && !own.contains(&row) {
            own.push(row);
            all += 1;
        }
    }
    own.clone()
}

fn is_known(time: &Time) -> bool {
    time.calls + time.adopted + wall(time) + time.strays > 0
}

fn add(sum: &mut Time, one: &Time) {
    sum.calls += one.calls;
    sum.inside += one.inside;
    sum.cpu_ns += one.cpu_ns;
    sum.blocked_ns += one.blocked_ns;
    sum.runnable_ns += one.runnable_ns;
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.functions(encoder)?;
        let all = &self.sessions;
        let rest = |at: usize| all.iter().map(move |one| (&one.labels, one.rest[at]));
        counter(
            encoder,
            (
                "jifl_session_missed",
                "Beginnings and ends of calls that were not seen",
                None,
            ),
            rest(TIMES_MISSED).map(|(labels, number)| (labels, number as f64)),
        )?;
        counter(
            encoder,
            (
                "jifl_session_unwatched",
                "Times that a task found no room",
                None,
            ),
            rest(TIMES_UNWATCHED).map(|(labels, number)| (labels, number as f64)),
        )?;
        gauge(
            encoder,
            (
                "jifl_session_elapsed",
                "Time since the session began",
                Some(Unit::Seconds),
            ),
            rest(TIMES_ELAPSED).map(|(labels, number)| (labels, seconds(number))),
        )?;
        gauge(
            encoder,
            (
                "jifl_session_others",
                "Functions without series of their own",
                None,
            ),
            all.iter().map(|one| (&one.labels, one.others as f64)),
        )?;
        let none = Labels::new();
        let only = |number: u64| std::iter::once((&none, number as f64));
        gauge(
            encoder,
            ("jifl_serve_sessions", "Sessions that run", None),
            only(self.running),
        )?;
        gauge(
            encoder,
            ("jifl_serve_clients", "Connections that are served", None),
            only(self.clients),
        )?;
        counter(
            encoder,
            (
                "jifl_serve_turned_away",
                "Connections refused for being too many",
                None,
            ),
            only(self.turned_away),
        )?;
        counter(
            encoder,
            (
                "jifl_serve_dropped_samples",
                "Samples that slow clients have lost",
                None,
            ),
            only(self.dropped),
        )
    }
}

impl Snapshot {
    fn functions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let series = || self.sessions.iter().flat_map(|one| &one.series);
        counter(
            encoder,
            ("jifl_function_calls", "Calls that began", None),
            series().map(|one| (&one.labels, one.time.calls as f64)),
        )?;
        let mut states = Vec::new();
        for one in series() {
            for (state, nanoseconds) in [
                ("cpu", one.time.cpu_ns),
                ("blocked", one.time.blocked_ns),
                ("runnable", one.time.runnable_ns),
            ] {
                let mut labels = one.labels.clone();
                labels.push(("state", state.to_owned()));
                states.push((labels, seconds(nanoseconds)));
            }
        }
        counter(
            encoder,
            (
                "jifl_function_time",
                "Time of tasks inside: on a processor, asleep, waiting for a processor",
                Some(Unit::Seconds),
            ),
            states.iter().map(|(labels, value)| (labels, *value)),
        )?;
        gauge(
            encoder,
            ("jifl_function_inside", "Calls that have not ended", None),
            series().map(|one| (&one.labels, one.time.inside as f64)),
        )
    }
}

type Named = (&'static str, &'static str, Option<Unit>);

fn counter<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): Named,
    values: impl Iterator<Item = (&'a Labels, f64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
    for (labels, value) in values {
        if labels.is_empty() {
            return ConstCounter::new(value).encode(metric);
        }
        ConstCounter::new(value).encode(metric.encode_family(labels)?)?;
    }
    Ok(())
}

fn gauge<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): Named,
    values: impl Iterator<Item = (&'a Labels, f64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
    for (labels, value) in values {
        if labels.is_empty() {
            return ConstGauge::new(value).encode(metric);
        }
        ConstGauge::new(value).encode(metric.encode_family(labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(calls: &[u64]) -> Counted {
        let time = |calls: &u64| Time {
            calls: *calls,
            ..Time::default()
        };
        Counted {
            times: calls.iter().map(time).collect(),
            rest: [0; 3],
            ..Counted::default()
        }
    }

    #[test]
    fn a_function_stays_where_it_is() {
        let mut shown = Shown::default();
        let many = vec![1; FUNCTIONS_MAX - 1];
        assert_eq!(
            choose(&mut shown, 1, &counted(&many)).len(),
            FUNCTIONS_MAX - 1
        );
        // Room for one more: the first that is called. Others come too late for ever.
        assert_eq!(choose(&mut shown, 2, &counted(&[0, 0, 5])), [2]);
        assert_eq!(choose(&mut shown, 2, &counted(&[9, 9, 5])), [2]);
        let all: usize = shown.0.values().map(Vec::len).sum();
        assert_eq!(all, FUNCTIONS_MAX);
    }

    #[test]
    fn of_objects_the_functions_have_series() {
        let of_objects = Counted {
            whole: counted(&[0, 3]).times,
            ..counted(&[7, 0, 5, 1])
        };
        assert_eq!(choose(&mut Shown::default(), 1, &of_objects), [1]);
    }

    #[test]
    fn the_text_is_openmetrics() {
        let labels = vec![("session", "1".to_owned()), ("function", escaped("f\"x"))];
        let time = Time {
            calls: 7,
            cpu_ns: 1_500_000_000,
            inside: 2,
            ..Time::default()
        };
        let snapshot = Snapshot {
            sessions: vec![OfSession {
                labels: vec![("session", "1".to_owned())],
                rest: [2_000_000_000, 3, 4],
                series: vec![Series { labels, time }],
                others: 5,
            }],
            running: 2,
            clients: 1,
            turned_away: 0,
            dropped: 6,
        };
        let mut registry = Registry::default();
        registry.register_collector(Box::new(snapshot));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "# HELP jifl_function_calls Calls that began",
            "# TYPE jifl_function_calls counter",
            "jifl_function_calls_total{session=\"1\",function=\"f\\\"x\"} 7.0",
            "# UNIT jifl_function_time_seconds seconds",
            "# TYPE jifl_function_time_seconds counter",
            "jifl_function_time_seconds_total{session=\"1\",function=\"f\\\"x\",state=\"cpu\"} 1.5",
            "# TYPE jifl_function_inside gauge",
            "jifl_function_inside{session=\"1\",function=\"f\\\"x\"} 2.0",
            "jifl_session_missed_total{session=\"1\"} 4.0",
            "jifl_session_unwatched_total{session=\"1\"} 3.0",
            "# UNIT jifl_session_elapsed_seconds seconds",
            "jifl_session_elapsed_seconds{session=\"1\"} 2.0",
            "jifl_session_others{session=\"1\"} 5.0",
            "jifl_serve_sessions 2.0",
            "jifl_serve_dropped_samples_total 6.0",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\nin\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
