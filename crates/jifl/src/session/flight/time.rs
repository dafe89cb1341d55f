// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of records: from the time stamp counter to the clocks that people read.

/// One moment by three clocks, and how fast the counter runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// The counter at the moment.
    pub tsc: u64,
    /// Its ticks in a millisecond; not 0.
    pub khz: u32,
    /// CLOCK_MONOTONIC at the moment, in nanoseconds.
    pub monotonic: u64,
    /// CLOCK_REALTIME at the moment, in nanoseconds.
    pub realtime: u64,
}

impl Clock {
    /// Nanoseconds from the moment to a value of the counter; before it: below 0.
    fn since(&self, tsc: u64) -> i128 {
        let ticks = i128::from(tsc) - i128::from(self.tsc);
        (ticks * 1_000_000).div_euclid(i128::from(self.khz))
    }

    /// CLOCK_MONOTONIC at a value of the counter, in nanoseconds. What is out of range is at its
    /// end.
    pub fn monotonic(&self, tsc: u64) -> u64 {
        within(i128::from(self.monotonic) + self.since(tsc))
    }

    /// CLOCK_REALTIME, if nobody has set that clock since the moment.
    pub fn realtime(&self, tsc: u64) -> u64 {
        within(i128::from(self.realtime) + self.since(tsc))
    }

    /// Ticks of the counter in so many nanoseconds.
    pub fn ticks(&self, nanoseconds: u64) -> u64 {
        within(i128::from(nanoseconds) * i128::from(self.khz) / 1_000_000)
    }
}

fn within(nanoseconds: i128) -> u64 {
    nanoseconds.clamp(0, i128::from(u64::MAX)) as u64
}

/// `[   12.345678]` without the brackets, as dmesg has it.
pub fn seconds(nanoseconds: u64) -> String {
    let microseconds = nanoseconds / 1000;
    format!(
        "{:>5}.{:06}",
        microseconds / 1_000_000,
        microseconds % 1_000_000
    )
}

/// A date and time of UTC: `2025-01-31 12:00:00.000001 UTC`.
pub fn date(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The era of 400 years, and the year in it that begins in March (H. Hinnant, "chrono-compatible
    // low-level date algorithms").
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!(
        "{:04}-{month:02}-{date:02} {:02}:{:02}:{:02}.{:06} UTC",
        year + era * 400 + carry,
        second / 3600,
        second / 60 % 60,
        second % 60,
        nanoseconds / 1000 % 1_000_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_becomes_time_on_both_sides_of_the_moment() {
        let clock = Clock {
            tsc: 1 << 63,
            khz: 2_000_001,
            monotonic: 5_000_000_000,
            realtime: 1_700_000_000_000_000_000,
        };
        assert_eq!(clock.monotonic(1 << 63), 5_000_000_000);
        // A second later and earlier; a nanosecond is two ticks.
        assert_eq!(clock.monotonic((1 << 63) + 2_000_001_000), 6_000_000_000);
        assert_eq!(clock.monotonic((1 << 63) - 2_000_001_000), 4_000_000_000);
        assert_eq!(clock.realtime((1 << 63) + 2), 1_700_000_000_000_000_000);
        assert_eq!(clock.realtime((1 << 63) - 2), 1_699_999_999_999_999_999);
        assert_eq!(clock.monotonic(0), 0, "before the machine was started");
        // A year of a counter of 2 GHz is no overflow.
        let year = 365 * 86_400 * 1_000_000_000u64;
        assert_eq!(clock.ticks(year), 63_072_031_536_000_000);
        assert_eq!(
            clock.monotonic((1 << 63) + clock.ticks(year)),
            5_000_000_000 + year
        );
    }

    #[test]
    fn times_are_shown() {
        assert_eq!(seconds(12_345_678_901), "   12.345678");
        assert_eq!(date(0), "1970-01-01 00:00:00.000000 UTC");
        assert_eq!(
            date(951_782_400_000_001_000),
            "2000-02-29 00:00:00.000001 UTC"
        );
        assert_eq!(
            date(1_735_689_599_999_999_999),
            "2024-12-31 23:59:59.999999 UTC"
        );
    }
}
