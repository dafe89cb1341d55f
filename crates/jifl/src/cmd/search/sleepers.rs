// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sleep that a session of `schedule` has not in its rows: what began before the session, and what
//! has not ended at its end.
//!
//! A row of an object has a call's time when the call ends. So a task that sleeps longer than the
//! measurement has no row, and of one that sleeps nearly as long, most is missing. Here the tasks
//! that sleep are looked at beside the session. A sleep is known again by its task's count of
//! switches.
//!
//! 1. A sleep that is seen before the session's beginning began before it, so the session has none
//!    of it. It counts from the session's beginning until the last look that has seen it.
//! 2. A later sleep of such a task began in the session. If it ends in the session, the session has
//!    it, and it does not count here. If not, it counts from the first look that has seen it to the
//!    last.
//! 3. A sleep that began while the session was being started is taken for one of the second kind.
//!
//! So nothing counts twice, and at most the time between two looks is missing of each sleep, and
//! what the start took once.

use super::stacks::{Frame, Stack};
use super::world::{Sleeper, World};

/// The functions in which every sleeping task is: stacks of a session of the first do not have them.
const INNER: [&str; 2] = ["schedule", "__schedule"];

struct Asleep {
    tid: i32,
    /// What was seen at the last look.
    now: Option<Sleeper>,
    is_old: bool,
    from: u64,
    until: u64,
}

/// Tasks that slept at the beginning.
pub struct Sleepers {
    tasks: Vec<Asleep>,
    unseen: Vec<(Sleeper, u64)>,
}

impl Sleepers {
    /// To be called just before the session begins.
    pub fn before(world: &dyn World) -> Sleepers {
        let asleep = |(tid, one)| Asleep {
            tid,
            now: Some(one),
            is_old: true,
            from: 0,
            until: 0,
        };
        Sleepers {
            tasks: world.sleepers().into_iter().map(asleep).collect(),
            unseen: Vec::new(),
        }
    }

    /// Looks at them, so many nanoseconds after the session's beginning.
    pub fn look(&mut self, world: &dyn World, elapsed: u64) {
        for task in &mut self.tasks {
            let now = world.sleeper(task.tid);
            if now != task.now {
                if task.is_old {
                    let old = task.now.take().map(|one| (one, task.until));
                    self.unseen.extend(old);
                }
                (task.now, task.is_old, task.from) = (now, false, elapsed);
            }
            task.until = elapsed;
        }
    }

    /// What a session that ran so long has not in its rows: tasks asleep, on average.
    pub fn unseen(mut self, elapsed: f64) -> Vec<Stack> {
        for task in self.tasks {
            let time = task.until - task.from;
            self.unseen.extend(task.now.map(|one| (one, time)));
        }
        let all = self.unseen.into_iter().filter(|(_, time)| *time > 0);
        let stack = |(one, time): (Sleeper, u64)| Stack {
            frames: outer(one.frames),
            who: one.who,
            value: time as f64 / elapsed,
        };
        all.map(stack).collect()
    }
}

fn outer(mut frames: Vec<Frame>) -> Vec<Frame> {
    frames.retain(|frame| !INNER.contains(&frame.function.as_str()));
    frames
}
