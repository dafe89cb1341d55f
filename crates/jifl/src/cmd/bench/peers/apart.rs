// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tool of many file descriptors, held by a thread that has its own table of descriptors. In the
//! process's table each measured fork would copy the descriptors, and there are more than a process
//! may usually have.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use jifl_sys::os;

use super::{Missing, Tool};

/// The tool, for other threads. It ends when this is dropped.
pub struct Apart {
    /// `None` while it is dropped.
    asks: Option<Sender<(Ask, Sender<u64>)>>,
    thread: Option<JoinHandle<()>>,
}

enum Ask {
    Hits,
    Missed,
}

impl Apart {
    /// Has `make` start the tool on the other thread. Returns the tool and the other result of
    /// `make`.
    ///
    /// # Errors
    /// Those of `make`; or the thread cannot be made.
    pub fn start<T: Tool, R: Send + 'static>(
        make: impl FnOnce() -> Result<(T, R), Missing> + Send + 'static,
    ) -> Result<(Apart, R), Missing> {
        let (asks, asked) = mpsc::channel();
        let (made, found) = mpsc::channel();
        let thread = thread::Builder::new()
            .spawn(move || {
                let own = os::own_descriptors()
                    .map_err(|error| Missing(format!("a table of file descriptors: {error}")));
                match own.and_then(|()| make()) {
                    Ok((tool, result)) => {
                        if made.send(Ok(result)).is_ok() {
                            answer(&tool, &asked);
                        }
                    }
                    // If nobody receives the error, nobody needs it.
                    Err(why) => {
                        made.send(Err(why)).ok();
                    }
                }
            })
            .map_err(|error| Missing(format!("a thread: {error}")))?;
        let apart = Apart {
            asks: Some(asks),
            thread: Some(thread),
        };
        let ended = || Missing("the thread that starts it has ended".into());
        Ok((apart, found.recv().map_err(|_| ended())??))
    }

    fn ask(&self, ask: Ask) -> u64 {
        let (to, answer) = mpsc::channel();
        let sent = self.asks.as_ref().map(|asks| asks.send((ask, to)));
        match sent {
            Some(Ok(())) => answer.recv().unwrap_or(0),
            _ => 0,
        }
    }
}

fn answer(tool: &impl Tool, asked: &Receiver<(Ask, Sender<u64>)>) {
    for (ask, to) in asked {
        let value = match ask {
            Ask::Hits => tool.hits(),
            Ask::Missed => tool.missed(),
        };
        // Not an error: the thread that asked may have ended.
        to.send(value).ok();
    }
}

impl Tool for Apart {
    fn hits(&self) -> u64 {
        self.ask(Ask::Hits)
    }

    fn missed(&self) -> u64 {
        self.ask(Ask::Missed)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // After a panic its descriptors are closed, too.
            thread.join().ok();
        }
    }
}
