// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a client may not take: room, time, memory.

use std::io::Read;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::daemon::{Daemon, hub, read_until};
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
