// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same work on many things, by all processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Things that one thread takes at a time: enough that taking them costs nothing.
const PORTION: usize = 64;

/// What `work` makes of each of `all`, in their order. `state` makes what each thread keeps.
pub fn map<T: Sync, R: Send, S>(
    all: &[T],
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> R + Sync,
) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let run = || {
        let mut own = state();
        let mut done: Vec<(usize, Vec<R>)> = Vec::new();
        loop {
            let begin = next.fetch_add(PORTION, Ordering::Relaxed);
            let Some(rest) = all.get(begin..).filter(|rest| !rest.is_empty()) else {
                return done;
            };
            let portion = &rest[..rest.len().min(PORTION)];
            let made = portion.iter().map(|one| work(&mut own, one));
            done.push((begin, made.collect()));
        }
    };
    let mut parts: Vec<(usize, Vec<R>)> = thread::scope(|scope| {
        let threads: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut parts = run();
        for thread in threads {
            match thread.join() {
                Ok(more) => parts.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        parts
    });
    parts.sort_by_key(|(begin, _)| *begin);
    parts.into_iter().flat_map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_order_stays() {
        let all: Vec<usize> = (0..1000).collect();
        let doubled = super::map(&all, || 2, |factor, one| one * *factor);
        assert_eq!(doubled, all.iter().map(|one| 2 * one).collect::<Vec<_>>());
        assert!(super::map(&[], || (), |(), one: &u8| *one).is_empty());
    }
}
