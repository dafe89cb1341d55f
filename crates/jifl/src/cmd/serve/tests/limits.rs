// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a client may not take: room, time, memory.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::daemon::{Daemon, PATIENCE, hub, read_until};
use crate::cmd::serve::end_all;
use crate::cmd::serve::limits::Limits;
use crate::cmd::serve::sessions::SESSIONS_MAX;
use crate::cmd::serve::who::Who;

fn none() -> Vec<crate::cmd::serve::listen::Listener> {
    Vec::new()
}

#[test]
fn one_client_too_many_is_told_so() {
    let limits = Limits {
        clients: 2,
        ..Limits::default()
    };
    let daemon = Daemon::with(limits, none);
    let first = daemon.connect();
    let second = daemon.connect();
    daemon.wait_for("both", |daemon| daemon.hub.clients() == 2);
    let (status, _, body) = daemon.ask("GET /v1/info HTTP/1.1", "");
    let refusal: Json = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &refusal["exit"]), (503, &json!(4)));
    assert!(
        refusal["error"]
            .as_str()
            .unwrap()
            .starts_with("2 clients are connected")
    );
    assert_eq!(daemon.hub.turned_away.load(Ordering::Relaxed), 1);
    drop(first);
    daemon.wait_for("room", |daemon| daemon.hub.clients() == 1);
    assert_eq!(daemon.ask("GET /v1/info HTTP/1.1", "").0, 200);
    drop(second);
}

#[tokio::test]
async fn strangers_keep_nobody_out() {
    let limits = Limits {
        clients: 4,
        ..Limits::default()
    };
    let (hub, ..) = hub(limits);
    let from = "127.0.0.1:9".parse().unwrap();
    let (stranger, page) = (Who::Unknown { from }, Who::Page { from });
    let known = Who::Local { uid: 7, pid: None };
    let strangers = [hub.admit(&stranger), hub.admit(&page)];
    assert!(strangers.iter().all(Option::is_some));
    assert!(hub.admit(&stranger).is_none() && hub.admit(&page).is_none());
    let both = [hub.admit(&known), hub.admit(&known)];
    assert!(both.iter().all(Option::is_some) && hub.admit(&known).is_none());
    drop(strangers);
    assert!(hub.admit(&page).is_some());
    drop(both);
    assert_eq!(hub.clients(), 0);
}

/// A list is made to its end. Others whose clients have left meanwhile are never begun.
#[test]
fn lists_that_nobody_waits_for_are_not_made() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let (release, held) = mpsc::channel::<()>();
    let daemon = Daemon::listing(Box::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        let _ = held.recv();
        Ok(json!({}))
    }));
    let ask = |_| {
        let mut stream = daemon.connect();
        let head = b"GET /v1/functions?glob=* HTTP/1.1\r\nHost: jifl\r\n\r\n";
        std::io::Write::write_all(&mut stream, head).unwrap();
        stream
    };
    let clients: Vec<UnixStream> = (0..40).map(ask).collect();
    daemon.wait_for("a list", |_| calls.load(Ordering::SeqCst) > 0);
    daemon.wait_for("all", |daemon| daemon.hub.clients() == clients.len());
    // The requests are read meanwhile.
    thread::sleep(Duration::from_millis(300));
    drop(clients);
    daemon.wait_for("their ends", |daemon| daemon.hub.clients() == 0);
    drop(release);
    assert_eq!(daemon.ask("GET /v1/functions HTTP/1.1", "").0, 200);
    let calls = calls.load(Ordering::SeqCst);
    assert!(calls <= 2, "{calls}");
}

#[test]
fn the_end_of_the_daemon_waits_for_no_list() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build();
    let (hub, ..) = hub(Limits::default());
    let (release, held) = mpsc::channel::<()>();
    runtime.unwrap().block_on(async {
        let list = tokio::task::spawn_blocking(move || held.recv());
        let ended = tokio::time::timeout(PATIENCE, end_all(&hub)).await;
        ended.expect("the end");
        drop(release);
        let _ = list.await;
    });
}

#[test]
fn a_slow_client_is_told_what_it_has_lost() {
    let daemon = Daemon::new();
    let (_, begun) = daemon.order(&json!({"resources": ["fn:many"], "interval_ms": 20}));
    let mut events = daemon.events(&begun["id"]);
    // Nothing is read: the socket's room fills, then the queue.
    daemon.wait_for("samples that go", |daemon| {
        daemon.hub.sessions.dropped.load(Ordering::Relaxed) > 3
    });
    let text = read_until(&mut events, "event: dropped\ndata: {\"samples\":");
    assert!(text.contains("event: dropped"), "the client is told");
    // It goes on with the newest.
    read_until(&mut events, "event: rows");
    assert_eq!(daemon.sessions(), 1);
}

#[test]
fn a_client_that_takes_nothing_is_left() {
    let limits = Limits {
        stalled: Duration::from_millis(300),
        ..Limits::default()
    };
    let daemon = Daemon::with(limits, none);
    let (_, begun) = daemon.order(&json!({"resources": ["fn:many"], "interval_ms": 20}));
    let events = daemon.events(&begun["id"]);
    daemon.wait_for("the end", |daemon| {
        daemon.has_line("ended: why left") && daemon.hub.clients() == 0
    });
    drop(events);
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let limits = Limits {
        head: Duration::from_millis(200),
        ..Limits::default()
    };
    let daemon = Daemon::with(limits, none);
    let mut silent = daemon.connect();
    let mut text = String::new();
    silent.read_to_string(&mut text).unwrap();
    // After a request, too.
    let mut idle = daemon.connect();
    std::io::Write::write_all(&mut idle, b"GET /v1/info HTTP/1.1\r\nHost: j\r\n\r\n").unwrap();
    let mut text = String::new();
    idle.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    daemon.wait_for("both", |daemon| daemon.hub.clients() == 0);
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let limits = Limits {
        body: Duration::from_millis(200),
        ..Limits::default()
    };
    let daemon = Daemon::with(limits, none);
    let mut stream = daemon.connect();
    let head = b"POST /v1/stat HTTP/1.1\r\nHost: j\r\nContent-Type: application/json\r\n\
                 Content-Length: 9\r\n\r\n{";
    std::io::Write::write_all(&mut stream, head).unwrap();
    let text = read_until(&mut stream, "exit");
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
}

#[test]
fn a_session_that_nobody_reads_ends() {
    let limits = Limits {
        grace: Duration::from_millis(200),
        ..Limits::default()
    };
    let daemon = Daemon::with(limits, none);
    let (status, _) = daemon.order(&json!({"resources": ["fn:f"]}));
    assert_eq!(status, 201);
    daemon.wait_for("the end", |daemon| daemon.has_line("ended: why left"));
}

#[test]
fn events_have_a_sign_of_life() {
    let limits = Limits {
        quiet: Duration::from_millis(50),
        ..Limits::default()
    };
    let daemon = Daemon::with(limits, none);
    let (_, begun) = daemon.order(&json!({"resources": ["fn:f"], "interval_ms": 3_600_000}));
    let mut events = daemon.events(&begun["id"]);
    let text = read_until(&mut events, ": alive");
    assert!(text.contains(": alive"), "{text}");
}

#[test]
fn one_session_too_many_is_refused() {
    let daemon = Daemon::new();
    let order = json!({"resources": ["fn:f"], "keep": true});
    for _ in 0..SESSIONS_MAX {
        assert_eq!(daemon.order(&order).0, 201);
    }
    let (status, body) = daemon.order(&order);
    assert_eq!((status, &body["exit"]), (429, &json!(4)), "{body}");
}
