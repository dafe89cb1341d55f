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

    /// Tells of all, on standard error.
    pub fn tell(&self) {
        for (name, passed, spent) in &self.ended {
            output::note(&format!(
                "# {name}: {:.3} s, {:.3} s of processors",
                passed.as_secs_f64(),
                spent.as_secs_f64()
            ));
        }
    }
}
