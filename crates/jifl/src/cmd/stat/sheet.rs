// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shown of functions: at the end, and of an interval.

use jifl_sys::abi::{COUNTED_UNKNOWN, TIMES_ELAPSED, TIMES_MISSED, TIMES_UNWATCHED, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::distribution::{self, Distributions};
use super::metric::{Metric, wall};
use crate::cmd::probe::writer::cell;
use crate::session::table::Rest;
use crate::show::powers;
use crate::show::table::table_within;
use crate::show::text::{csv, grouped};

/// A function that is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its name.
    pub function: String,
    /// Its module; `None`: the kernel.
    pub module: Option<String>,
    /// Where it begins.
    #[serde(skip)]
    pub address: u64,
    /// Which of what was counted is its own: the target, or the object.
    #[serde(skip)]
    pub target: usize,
    /// What its calls are about.
    #[serde(skip)]
    pub keys: Keys,
}

/// What calls are about; of a function as a whole nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// For a reader, a cell for each label.
    pub shown: Vec<String>,
    /// For programs. Empty: all others.
    pub values: Vec<Json>,
}

impl Row {
    /// What its calls are about; of a function as a whole its name.
    pub fn title(&self) -> String {
        match self.keys.shown.is_empty() {
            true => self.shown(),
            false => self.keys.shown.join(" ").trim_end().to_owned(),
        }
    }

    /// Was anybody inside? Ends without a beginning are of no object.
    pub fn is_used(&self, time: &Time) -> bool {
        let strays = match self.keys.shown.is_empty() {
            true => time.strays,
            false => 0,
        };
        time.calls + time.adopted + wall(time) + strays > 0
    }

    /// `name`, `name [module]`
    pub fn shown(&self) -> String {
        match &self.module {
            Some(module) => format!("{} [{module}]", self.function),
            None => self.function.clone(),
        }
    }
}

/// What was counted until some moment, by target.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// Of each target.
    pub times: Vec<Time>,
    /// `TIMES_*`.
    pub rest: Rest,
    /// Calls about what found no room.
    pub refused: u64,
    /// How values of calls are distributed.
    pub distributions: Distributions,
    /// Where `times` are of objects: of each target.
    pub whole: Vec<Time>,
}

impl Counted {
    /// The same, and nothing less than at an earlier moment: a reading may lack a function's times
    /// for once (host/kernel/tools/times/sum.c).
    pub fn not_below(mut self, before: &Counted) -> Counted {
        let whole = self.whole.iter_mut().zip(&before.whole);
        for (now, then) in self.times.iter_mut().zip(&before.times).chain(whole) {
            now.cpu_ns = now.cpu_ns.max(then.cpu_ns);
            now.blocked_ns = now.blocked_ns.max(then.blocked_ns);
            now.runnable_ns = now.runnable_ns.max(then.runnable_ns);
            now.calls = now.calls.max(then.calls);
            for (now, then) in now.counted.iter_mut().zip(then.counted) {
                *now = (*now).max(then);
            }
        }
        self.distributions = self.distributions.not_below(&before.distributions);
        self
    }

    /// How long a row that was not told of yet had gone on at this moment. What has a row since
    /// the session began, and an object that comes later, too, count from there.
    fn elapsed_of_new(&self, row: &Time) -> u64 {
        let elapsed = self.rest[TIMES_ELAPSED];
        if row.elapsed_ns > elapsed { elapsed } else { 0 }
    }

    /// What was counted since another moment. Who is inside is inside now.
    pub fn since(&self, before: &Counted) -> Counted {
        let less = |(at, now): (usize, &Time)| {
            let mut then = before.times.get(at).copied().unwrap_or_default();
            if then.elapsed_ns == 0 {
                then.elapsed_ns = before.elapsed_of_new(now);
            }
            Time {
                calls: now.calls.saturating_sub(then.calls),
                adopted: now.adopted.saturating_sub(then.adopted),
                inside: now.inside,
                died: now.died.saturating_sub(then.died),
                jumped: now.jumped.saturating_sub(then.jumped),
                strays: now.strays.saturating_sub(then.strays),
                cpu_ns: now.cpu_ns.saturating_sub(then.cpu_ns),
                blocked_ns: now.blocked_ns.saturating_sub(then.blocked_ns),
                runnable_ns: now.runnable_ns.saturating_sub(then.runnable_ns),
                elapsed_ns: now.elapsed_ns.saturating_sub(then.elapsed_ns),
                counted: std::array::from_fn(|at| match now.counted[at] {
                    COUNTED_UNKNOWN => COUNTED_UNKNOWN,
                    counted => counted.saturating_sub(then.counted[at]),
                }),
            }
        };
        let each = self.rest.iter().zip(&before.rest);
        let mut rest = Rest::default();
        for (to, (now, then)) in rest.iter_mut().zip(each) {
            *to = now.saturating_sub(*then);
        }
        Counted {
            times: self.times.iter().enumerate().map(less).collect(),
            rest,
            refused: self.refused.saturating_sub(before.refused),
            distributions: self.distributions.since(&before.distributions),
            whole: Vec::new(),
        }
    }

    /// Of each function, whatever its calls are about.
    pub fn of_functions(&self) -> &[Time] {
        match self.whole.is_empty() {
            true => &self.times,
            false => &self.whole,
        }
    }

    /// Takes the time of interrupts, which this counter has, off that of processors.
    pub fn leave_out(&mut self, interrupts: usize) {
        for time in self.times.iter_mut().chain(&mut self.whole) {
            time.cpu_ns = time.cpu_ns.saturating_sub(time.counted[interrupts]);
        }
    }

    /// Nanoseconds, when all rows were read.
    pub fn elapsed(&self) -> u64 {
        self.rest[TIMES_ELAPSED]
    }
}

/// Rows with what was counted, in the order in which they are shown.
pub struct Sheet<'a> {
    metrics: &'a [Metric],
    /// What the rows' keys are called.
    labels: &'a [String],
    counted: &'a Counted,
    rows: Vec<(&'a Row, Time)>,
}

impl<'a> Sheet<'a> {
    /// Rows of which nothing is known are left out: nobody was inside.
    pub fn of(
        metrics: &'a [Metric],
        labels: &'a [String],
        rows: &'a [Row],
        counted: &'a Counted,
    ) -> Sheet<'a> {
        let time = |row: &Row| counted.times.get(row.target).copied().unwrap_or_default();
        let mut rows: Vec<_> = rows.iter().map(|row| (row, time(row))).collect();
        rows.retain(|(row, time)| row.is_used(time));
        let weight = |time: &Time| metrics[0].of(time).weight();
        rows.sort_by(|(a, x), (b, y)| {
            let by_weight = weight(y).total_cmp(&weight(x));
            by_weight.then_with(|| (&a.function, &a.keys.shown).cmp(&(&b.function, &b.keys.shown)))
        });
        Sheet {
            metrics,
            labels,
            counted,
            rows,
        }
    }

    /// For people: so many rows.
    pub fn text(&self, rows: usize, width: Option<usize>) -> String {
        let title = |metric: &Metric| metric.name.to_uppercase();
        let mut lines = vec![vec!["FUNCTION".to_owned()]];
        lines[0].extend(self.labels.iter().map(|label| label.to_uppercase()));
        lines[0].extend(self.metrics.iter().map(title));
        for (row, time) in self.rows.iter().take(rows) {
            let mut line = vec![row.shown()];
            line.extend(row.keys.shown.iter().cloned());
            line.extend(self.values(time).map(|value| value.text()));
            lines.push(line);
        }
        let mut text = table_within(&lines, 1 + self.labels.len(), width);
        if self.rows.len() > rows {
            text += &format!(
                "# {} of {} {}; more with --limit\n",
                grouped(rows as u64),
                grouped(self.rows.len() as u64),
                if self.labels.is_empty() {
                    "functions"
                } else {
                    "rows"
                }
            );
        }
        let bar = powers::bar_within(width);
        for (row, _) in self.rows.iter().take(rows) {
            text += &self.distributions(row, bar);
        }
        text
    }

    /// Behind the table.
    fn distributions(&self, row: &Row, bar: usize) -> String {
        let each = self.metrics.iter().filter_map(|metric| {
            let buckets = self
                .counted
                .distributions
                .of(row.target, metric.distribution()?);
            let mut of = row.shown();
            for (label, shown) in self.labels.iter().zip(&row.keys.shown) {
                of += &format!(" {label}={shown}");
            }
            let of = format!("{of} {}", metric.name);
            Some(distribution::text(&of, &buckets, bar))
        });
        each.collect()
    }

    fn values(&self, time: &Time) -> impl Iterator<Item = super::metric::Value> + '_ {
        let time = *time;
        self.metrics.iter().map(move |one| one.of(&time))
    }

    /// A line for each row. `before`: cells in front of each.
    pub fn csv(&self, before: &str) -> String {
        let mut text = String::new();
        for (row, time) in &self.rows {
            text += &format!(
                "{before}{},{}",
                csv(&row.function),
                csv(row.module.as_deref().unwrap_or(""))
            );
            for (at, shown) in row.keys.shown.iter().enumerate() {
                let value = row.keys.values.get(at);
                text += &format!(",{}", value.map_or_else(|| csv(shown), cell));
            }
            for (metric, value) in self.metrics.iter().zip(self.values(time)) {
                if let Some(at) = metric.distribution() {
                    let buckets = self.counted.distributions.of(row.target, at);
                    text += &format!(",{}", distribution::cell(&buckets));
                    continue;
                }
                text += &match value.json() {
                    Json::Null => ",".to_owned(),
                    value => format!(",{value}"),
                };
            }
            text.push('\n');
        }
        text
    }

    /// The names of the columns of [`Sheet::csv`].
    pub fn titles(metrics: &[Metric], labels: &[String]) -> String {
        let labels = labels.iter().map(|label| csv(label));
        let names = labels.chain(metrics.iter().map(|one| csv(&one.name)));
        format!("function,module,{}\n", names.collect::<Vec<_>>().join(","))
    }

    /// For programs: each row with all that was counted, and what was asked for.
    pub fn objects(&self) -> Vec<Json> {
        let object = |(row, time): &(&Row, Time)| {
            let mut all = Map::new();
            let mut put = |name: &str, value: Json| all.insert(name.to_owned(), value);
            put("function", row.function.clone().into());
            put("module", row.module.clone().into());
            if !self.labels.is_empty() {
                put("others", row.keys.values.is_empty().into());
                let keys = self.labels.iter().zip(&row.keys.values);
                let keys = keys.map(|(label, value)| (label.clone(), value.clone()));
                put("by", Json::Object(keys.collect()));
            }
            for (name, number) in [
                ("calls", time.calls),
                ("wall_ns", wall(time)),
                ("cpu_ns", time.cpu_ns),
                ("blocked_ns", time.blocked_ns),
                ("runnable_ns", time.runnable_ns),
                ("inside", time.inside),
                ("adopted", time.adopted),
                ("died", time.died),
                ("jumped", time.jumped),
                ("strays", time.strays),
                ("elapsed_ns", time.elapsed_ns),
            ] {
                put(name, number.into());
            }
            let metrics = self.metrics.iter().zip(self.values(time));
            let metrics = metrics.map(|(one, value)| {
                let value = match one.distribution() {
                    Some(at) => distribution::json(&self.counted.distributions.of(row.target, at)),
                    None => value.json(),
                };
                (one.name.clone(), value)
            });
            put("metrics", Json::Object(metrics.collect()));
            Json::Object(all)
        };
        self.rows.iter().map(object).collect()
    }

    /// Lines that begin with `#`: what there is to know about the figures. `begins`: they are about
    /// a command that has begun with the session. Until then it was held back inside functions,
    /// so there are ends without a beginning.
    pub fn notes(&self, begins: bool) -> String {
        let sum =
            |what: fn(&Time) -> u64| self.rows.iter().map(|(_, time)| what(time)).sum::<u64>();
        let mut text = String::new();
        let mut said = |number: u64, what: &str| {
            if number > 0 {
                text += &format!("# {} {what}\n", grouped(number));
            }
        };
        said(
            sum(|time| time.adopted),
            "calls had begun before; their time counts from the session's beginning on",
        );
        said(
            sum(|time| time.inside),
            "calls had not ended; their time counts until the session's end",
        );
        said(sum(|time| time.died), "calls ended with their task");
        said(
            sum(|time| time.jumped),
            "calls ended with a jump to another function, whose time is its own",
        );
        said(
            sum(|time| time.strays) * u64::from(!begins),
            "ends had no beginning: a call had begun before, or its task was not looked at then",
        );
        let unknown = |time: &Time| time.counted.contains(&COUNTED_UNKNOWN);
        if self.rows.iter().any(|(_, time)| unknown(time)) {
            text += "# - is not known: a processor came, went, or gave its counter away\n";
        }
        let mut said = |number: u64, what: &str| {
            if number > 0 {
                text += &format!("# {} {what}\n", grouped(number));
            }
        };
        said(
            self.counted.refused,
            "calls are about what found no room: ask for fewer, or load the module with a larger \
             probe_groups",
        );
        said(
            self.counted.rest[TIMES_UNWATCHED],
            "times a task found no room, so calls of its were not counted",
        );
        text + &format!("# missed {}\n", grouped(self.counted.rest[TIMES_MISSED]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(function: &str, target: usize) -> Row {
        Row {
            function: function.into(),
            module: None,
            address: 0,
            target,
            keys: Keys::default(),
        }
    }

    #[test]
    fn the_time_of_interrupts_is_left_out_of_all_rows() {
        let time = |cpu_ns, interrupts| Time {
            cpu_ns,
            counted: [9, interrupts, 9, 9],
            ..Time::default()
        };
        let mut counted = Counted {
            times: vec![time(10, 3), time(5, 6)],
            whole: vec![time(20, 1)],
            ..Counted::default()
        };
        counted.leave_out(1);
        let left = |all: &[Time]| all.iter().map(|one| one.cpu_ns).collect::<Vec<u64>>();
        assert_eq!(left(&counted.times), [7, 0]);
        assert_eq!(left(&counted.whole), [19]);
    }

    #[test]
    fn what_comes_late_is_of_its_interval() {
        let minute = 60_000_000_000;
        let second = 1_000_000_000;
        let new = Time {
            calls: 600,
            elapsed_ns: minute + second,
            ..Time::default()
        };
        let now = Counted {
            times: vec![new],
            rest: [minute + second, 0, 0],
            ..Counted::default()
        };
        // Neither an object that was not there, nor a row that was not told of.
        for times in [Vec::new(), vec![Time::default()]] {
            let before = Counted {
                times,
                rest: [minute, 0, 0],
                ..Counted::default()
            };
            let since = now.since(&before);
            assert_eq!(since.times[0].elapsed_ns, second);
            assert_eq!(since.times[0].calls, 600);
        }
        let all = now.since(&Counted::default());
        assert_eq!(all.times[0].elapsed_ns, minute + second);
    }

    fn counted() -> Counted {
        let time = |calls, cpu_ns, jumped| Time {
            calls,
            cpu_ns,
            jumped,
            ..Time::default()
        };
        Counted {
            times: vec![time(1, 5_000, 0), Time::default(), time(2, 9_000, 2)],
            rest: [18_000, 0, 3],
            ..Counted::default()
        }
    }

    #[test]
    fn the_largest_comes_first_and_the_unused_is_left_out() {
        let metrics = Metric::list("wall,calls", &mut Vec::new()).unwrap();
        let rows = [row("f", 0), row("g", 1), row("h", 2)];
        let counted = counted();
        let sheet = Sheet::of(&metrics, &[], &rows, &counted);
        assert_eq!(
            sheet.text(9, None),
            "FUNCTION    WALL  CALLS\n\
             h         9.0 us      2\n\
             f         5.0 us      1\n"
        );
        assert!(
            sheet
                .text(1, None)
                .ends_with("# 1 of 2 functions; more with --limit\n")
        );
        assert_eq!(sheet.csv(""), "h,,9000,2\nf,,5000,1\n");
        assert_eq!(Sheet::titles(&metrics, &[]), "function,module,wall,calls\n");
        assert!(sheet.notes(true).starts_with("# 2 calls ended with a jump"));
        assert!(sheet.notes(false).ends_with("# missed 3\n"));
        assert_eq!(sheet.objects()[0]["metrics"]["wall"], 9000);
        assert_eq!(sheet.objects()[1]["cpu_ns"], 5000);
    }

    #[test]
    fn intervals_are_differences() {
        let now = counted();
        let mut before = counted();
        before.times[2] = Time {
            calls: 1,
            cpu_ns: 4_000,
            inside: 7,
            ..Time::default()
        };
        before.rest = [8_000, 0, 1];
        let since = now.since(&before);
        assert_eq!(since.rest, [10_000, 0, 2]);
        assert_eq!((since.times[2].calls, since.times[2].cpu_ns), (1, 5_000));
        assert_eq!((since.times[0].calls, since.times[2].inside), (0, 0));
    }
}
