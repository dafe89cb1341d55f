// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durations as users type and read them.

use std::time::Duration;

/// A hundred years: what is longer is a mistake, and sums of times stay in range.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Parses `5s`, `100ms`, `10us`, `2m`, `1h`, `1.5s`, or a plain number of seconds.
pub fn parse(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!(
                "{unit:?} is no unit of time: ns, us, ms, s, m or h"
            ));
        }
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "a duration is a number and a unit, such as 5s".to_owned())?;
    Duration::try_from_secs_f64(number * scale)
        .ok()
        .filter(|duration| !duration.is_zero() && *duration <= LONGEST)
        .ok_or_else(|| "a duration is more than nothing, and at most 100 years".to_owned())
}

/// Three digits and a unit: `41 ms`.
pub fn show(nanoseconds: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    for (scale, unit) in UNITS {
        if nanoseconds >= scale {
            let value = nanoseconds as f64 / scale as f64;
            let digits = if value < 10.0 { 1 } else { 0 };
            return format!("{value:.digits$} {unit}");
        }
    }
    format!("{nanoseconds} ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse() {
        for (text, millis) in [
            ("5s", 5000),
            ("5", 5000),
            ("100ms", 100),
            ("2m", 120_000),
            ("1.5s", 1500),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "5 s", "-1s", "0s", "1e9", "5d", "1.2.3", "876001h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_shown_short() {
        for (nanoseconds, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.5 us"),
            (41_200_000, "41 ms"),
            (9_940_000, "9.9 ms"),
            (12_000_000_000, "12 s"),
        ] {
            assert_eq!(show(nanoseconds), text);
        }
    }
}
