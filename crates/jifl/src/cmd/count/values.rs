// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms of a value of each call, by powers of two.

use jifl_sys::abi::HIST_NEGATIVE;
use serde::Serialize;

use super::sheet::Form;
use super::what::Value;
use crate::base::duration;
use crate::session::histogram;
use crate::session::report::{Format, Report, Row, Species, cost};
use crate::show::output::fit;
use crate::show::powers::{self, Bucket, bar_within};
use crate::show::text::grouped;
use crate::show::text::json;

/// One system call, or function.
#[derive(Debug, Serialize)]
struct Target<'a> {
    syscall: Option<&'a str>,
    function: Option<&'a str>,
    module: Option<&'a str>,
    /// As it is shown.
    #[serde(skip)]
    name: String,
    nr: Option<u32>,
    calls: u64,
    no_return: u64,
    sum: u64,
    min: u64,
    max: u64,
    p50: Option<u64>,
    p99: Option<u64>,
    negative: u64,
    buckets: Vec<Bucket>,
    missed: u64,
}

#[derive(Serialize)]
struct Object<'a> {
    command: &'static str,
    kind: &'static str,
    value: &'static str,
    targets: Vec<Target<'a>>,
    missed: u64,
    cut_short: bool,
    duration_ns: u64,
}

/// The text of the report.
pub fn render(value: Value, report: &Report, form: Form) -> String {
    let targets: Vec<Target<'_>> = report.rows.iter().map(|row| target(value, row)).collect();
    match form.format {
        Format::Text => {
            let bar = bar_within(form.width);
            let all: Vec<String> = (targets.iter())
                .map(|target| text(value, target, bar))
                .collect();
            fit(all.join("\n") + &cost(report), form.width)
        }
        Format::Json => json(&Object {
            command: "count",
            kind: "hist",
            value: value.name(),
            targets,
            missed: report.missed(),
            cut_short: report.cut_short,
            duration_ns: report.duration_ns,
        }),
        Format::Csv => csv(&targets, report.species()),
    }
}

fn target(value: Value, row: &Row) -> Target<'_> {
    let timed = value == Value::Duration;
    let mut powers = [0u64; 65];
    let mut negative = 0;
    for (bucket, count) in &row.histogram {
        match (timed, *bucket) {
            (false, HIST_NEGATIVE) => negative += count,
            (false, bits) => powers[bits] += count,
            // These buckets are finer; each lies within one power of two.
            (true, bucket) => powers[bits(histogram::bounds(bucket).0)] += count,
        }
    }
    Target {
        syscall: row.nr.map(|_| row.name.as_str()),
        function: row.nr.is_none().then_some(row.name.as_str()),
        module: row.module.as_deref(),
        name: row.shown(),
        nr: row.nr,
        calls: row.calls,
        no_return: row.no_return,
        sum: row.sum,
        min: row.min,
        max: row.max,
        p50: row.p50.filter(|_| timed),
        p99: row.p99.filter(|_| timed),
        negative,
        buckets: powers::buckets(&powers),
        missed: row.missed,
    }
}

fn bits(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

/// Lines in bpftrace's format.
fn text(value: Value, target: &Target<'_>, bar: usize) -> String {
    let text = format!(
        "@{}[{}]: {}\n",
        value.name(),
        target.name,
        figures(value, target)
    );
    text + &powers::lines(&target.buckets, target.negative, bar)
}

fn figures(value: Value, target: &Target<'_>) -> String {
    let calls = if target.calls == 1 { "call" } else { "calls" };
    let mut text = format!("{} {calls}", grouped(target.calls));
    if let (Value::Duration, Some(p50), Some(p99)) = (value, target.p50, target.p99) {
        let [p50, p99, max] = [p50, p99, target.max].map(duration::show);
        text += &format!(", p50 {p50}, p99 {p99}, max {max}; nanoseconds:");
    }
    if value == Value::Retval && target.no_return > 0 {
        text += &format!(", {} without an end", grouped(target.no_return));
    }
    text
}

fn csv(targets: &[Target<'_>], species: Species) -> String {
    let title = match species {
        Species::Syscalls => "syscall",
        Species::Functions | Species::Both => "target",
    };
    let mut text = format!("{title},nr,low,high,count\n");
    for target in targets {
        let nr = target.nr.map_or_else(String::new, |nr| nr.to_string());
        if target.negative > 0 {
            text += &format!("{},{nr},,0,{}\n", target.name, target.negative);
        }
        for Bucket { low, high, count } in &target.buckets {
            text += &format!("{},{nr},{low},{high},{count}\n", target.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::report::tests::sample;
    use crate::show::powers::BAR;
    use jifl_sys::abi::Kind;

    fn form(format: Format) -> Form {
        Form {
            format,
            lines: 9,
            width: None,
        }
    }

    /// A report in which these are the buckets of `read`.
    fn report(histogram: &[(usize, u64)]) -> Report {
        let mut report = sample(Kind::Call);
        report.rows.remove(0);
        report.rows[0].histogram = histogram.to_vec();
        report
    }

    #[test]
    fn results_are_drawn_without_gaps() {
        let report = report(&[(0, 1), (1, 2), (4, 4), (HIST_NEGATIVE, 1)]);
        let bar = |length| format!("{:<BAR$}", "@".repeat(length));
        let lines = [
            "@retval[read]: 3 calls, 1 without an end".to_owned(),
            format!("(..., 0)                   1 |{}|", bar(13)),
            format!("[0]                        1 |{}|", bar(13)),
            format!("[1]                        2 |{}|", bar(26)),
            format!("[2, 4)                     0 |{}|", bar(0)),
            format!("[4, 8)                     0 |{}|", bar(0)),
            format!("[8, 16)                    4 |{}|", bar(52)),
        ];
        let found = render(Value::Retval, &report, form(Format::Text));
        assert!(
            found.starts_with(&(lines.join("\n") + "\n# translation")),
            "{found}"
        );
        let narrow = Form {
            width: Some(40),
            ..form(Format::Text)
        };
        let narrow = render(Value::Retval, &report, narrow);
        assert!(
            narrow.contains("[8, 16)                    4 |@@@@@@@@@|\n"),
            "{narrow}"
        );
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 40),
            "{narrow}"
        );
        assert_eq!(
            render(Value::Retval, &report, form(Format::Csv)),
            "syscall,nr,low,high,count\nread,0,,0,1\nread,0,0,1,1\nread,0,1,2,2\nread,0,2,4,0\n\
             read,0,4,8,0\nread,0,8,16,4\n"
        );
    }

    #[test]
    fn fine_buckets_of_durations_become_powers_of_two() {
        let buckets: Vec<(usize, u64)> = (0..160).map(|bucket| (bucket, 1)).collect();
        let report = report(&buckets);
        let text = render(Value::Duration, &report, form(Format::Json));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let target = &value["targets"][0];
        let counts: Vec<u64> = (target["buckets"].as_array().unwrap().iter())
            .map(|bucket| bucket["count"].as_u64().unwrap())
            .collect();
        assert_eq!(counts, [1, 1, 2, 4, 8, 16, 16, 16, 16, 16, 16, 16, 16, 16]);
        assert_eq!(target["buckets"][13]["high"], 8192);
        assert_eq!(
            (&target["p50"], &target["negative"]),
            (&674.into(), &0.into())
        );
        assert_eq!(value["value"], "duration");
    }
}
