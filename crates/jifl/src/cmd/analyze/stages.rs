// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the stages of an analysis take.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::show::output;

/// Stages that have ended.
pub struct Stages {
    at: (Instant, Duration),
    ended: Vec<(&'static str, Duration, Duration)>,
}

/// Of all threads of this process.
fn processors() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap_or(0),
        time.tv_nsec.try_into().unwrap_or(0),
    )
}

impl Stages {
    /// The first one begins.
    pub fn begin() -> Stages {
        Stages {
            at: (Instant::now(), processors()),
            ended: Vec::new(),
        }
    }

    /// One ends, and the next begins.
    pub fn end(&mut self, name: &'static str) {
        let at = (Instant::now(), processors());
        self.ended
            .push((name, at.0 - self.at.0, at.1.saturating_sub(self.at.1)));
        self.at = at;
    }

    /// The same was done several times: `each` says of each whether it counts. What one of those
    /// has taken is told.
    pub fn mean<T>(&mut self, name: &'static str, all: &[T], mut each: impl FnMut(&T) -> bool) {
        let mut sums = (Duration::ZERO, Duration::ZERO);
        let mut number = 0;
        for one in all {
            let at = (Instant::now(), processors());
            let counts = each(one);
            let (passed, spent) = (at.0.elapsed(), processors().saturating_sub(at.1));
            if counts {
                number += 1;
                sums = (sums.0 + passed, sums.1 + spent);
            }
        }
        if number > 0 {
            self.ended.push((name, sums.0 / number, sums.1 / number));
        }
    }

    /// Tells of all, on standard error.
    pub fn tell(&self) {
        for (name, passed, spent) in &self.ended {
            let digits = if passed.as_millis() > 9 { 3 } else { 6 };
            output::note(&format!(
                "# {name}: {:.digits$} s, {:.digits$} s of processors",
                passed.as_secs_f64(),
                spent.as_secs_f64()
            ));
        }
    }
}
