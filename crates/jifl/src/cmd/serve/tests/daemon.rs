// SPDX-License-Identifier: MIT OR Apache-2.0
//! A daemon in a thread of the test, and clients that know no more than bytes.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::sync::oneshot;

use super::fake::{self, Fake};
use crate::cmd::remote::host::{Host, Way};
use crate::cmd::serve::audit::tests::kept;
use crate::cmd::serve::hub::Hub;
use crate::cmd::serve::limits::Limits;
use crate::cmd::serve::listen::{self, Listener};
use crate::cmd::serve::machine::{Lister, Machine};
use crate::cmd::serve::sessions::Sessions;

/// A busy machine may need it; nothing waits so long otherwise.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The daemon. It ends with this value.
pub struct Daemon {
    pub hub: Arc<Hub>,
    pub socket: PathBuf,
    pub lines: Arc<Mutex<Vec<String>>>,
    pub running: Arc<AtomicUsize>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A hub without sockets, and what it writes.
pub fn hub(limits: Limits) -> (Arc<Hub>, Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>) {
    hub_of(limits, false)
}

/// The same; `variables`: all clients may search.
pub fn hub_of(
    limits: Limits,
    variables: bool,
) -> (Arc<Hub>, Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>) {
    let lister = |word: &str| Ok(json!({ "all": 1, "functions": [{ "function": word }] }));
    hub_listing(limits, variables, Box::new(lister))
}

/// The same with what lists functions.
fn hub_listing(
    limits: Limits,
    variables: bool,
    functions: Lister,
) -> (Arc<Hub>, Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>) {
    let running = Arc::new(AtomicUsize::new(0));
    let (audit, lines) = kept();
    let fake = Fake {
        running: Arc::clone(&running),
    };
    let sessions = Sessions::new(Box::new(fake), audit, limits.grace);
    let machine = Machine {
        functions,
        search: Box::new(fake::search),
        paths: Box::new(fake::paths),
    };
    let hub = Hub::new(sessions, limits, variables, machine);
    (Arc::new(hub), lines, running)
}

/// A path that no other test has.
pub fn path(name: &str) -> PathBuf {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("jifl-serve-{}-{number}-{name}", std::process::id()))
}

impl Daemon {
    pub fn new() -> Daemon {
        Daemon::with(Limits::default(), Vec::new)
    }

    /// One with this list of functions.
    pub fn listing(functions: Lister) -> Daemon {
        Daemon::of(hub_listing(Limits::default(), false, functions), Vec::new)
    }

    /// One all of whose clients may search.
    pub fn searching() -> Daemon {
        Daemon::searching_with(Vec::new)
    }

    /// The same with other listeners.
    pub fn searching_with(more: impl FnOnce() -> Vec<Listener> + Send + 'static) -> Daemon {
        Daemon::of(hub_of(Limits::default(), true), more)
    }

    /// `more`: other listeners; it is called where there is a runtime.
    pub fn with(limits: Limits, more: impl FnOnce() -> Vec<Listener> + Send + 'static) -> Daemon {
        Daemon::of(hub(limits), more)
    }

    fn of(
        (hub, lines, running): (Arc<Hub>, Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>),
        more: impl FnOnce() -> Vec<Listener> + Send + 'static,
    ) -> Daemon {
        let socket = path("sock");
        let (end, ended) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let (own, at) = (Arc::clone(&hub), socket.clone());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let mut listeners = more();
                listeners.push(listen::unix(&at, None).unwrap());
                for listener in listeners {
                    tokio::spawn(listener.serve(Arc::clone(&own)));
                }
                ready.send(()).unwrap();
                let _ = ended.await;
            });
        });
        is_ready.recv_timeout(PATIENCE).unwrap();
        Daemon {
            hub,
            socket,
            lines,
            running,
            end: Some(end),
            thread: Some(thread),
        }
    }

    pub fn host(&self) -> Host {
        Host {
            name: "daemon".into(),
            way: Way::Unix(self.socket.clone()),
        }
    }

    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A request's whole answer: its status, its head, its body.
    pub fn ask(&self, head: &str, body: &str) -> (u16, String, String) {
        ask(&mut self.connect(), head, body)
    }

    pub fn order(&self, order: &Json) -> (u16, Json) {
        let (status, _, body) = self.ask(
            "POST /v1/stat HTTP/1.1\r\nContent-Type: application/json",
            &order.to_string(),
        );
        (status, serde_json::from_str(&body).unwrap())
    }

    /// The events of a session; the connection is open as long as the result is there.
    pub fn events(&self, id: &Json) -> UnixStream {
        let mut stream = self.connect();
        let head = format!("GET /v1/stat/{id}/events HTTP/1.1\r\nHost: jifl\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    pub fn sessions(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    pub fn wait_for(&self, what: &str, is_so: impl Fn(&Daemon) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", self.lines);
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn has_line(&self, part: &str) -> bool {
        self.lines
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.contains(part))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.hub.works.end_all(PATIENCE);
        self.hub.sessions.end_all(PATIENCE);
        drop(self.end.take());
        let ended = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_file(&self.socket);
        assert!(ended.is_none_or(|ended| ended.is_ok()));
    }
}

/// Sends a request, and reads its answer. `head`: its lines but for those that this adds.
pub fn ask(stream: &mut (impl Read + Write), head: &str, body: &str) -> (u16, String, String) {
    let text = format!(
        "{head}\r\nHost: jifl\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    split(&answer)
}

/// Status, head and body of an answer.
pub fn split(answer: &str) -> (u16, String, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no answer: {answer:?}"));
    (status, head.to_owned(), body.to_owned())
}

/// Reads until a text has come, or to the end.
pub fn read_until(stream: &mut impl Read, text: &str) -> String {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).unwrap();
        all.extend_from_slice(&piece[..read]);
        let so_far = String::from_utf8_lossy(&all);
        if read == 0 || so_far.contains(text) {
            return so_far.into_owned();
        }
    }
}
