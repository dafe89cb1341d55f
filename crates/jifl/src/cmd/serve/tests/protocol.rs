// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders, events, ends and refusals, over the Unix socket.

use std::sync::atomic::Ordering;

use serde_json::{Value as Json, json};

use super::daemon::{Daemon, PATIENCE, ask, read_until, split};
use crate::base::exit::{CANNOT, FAILED, USAGE};
use crate::cmd::remote::client::Client;
use crate::cmd::remote::source::{Event, Remote, Session, order};
use crate::cmd::serve::order::Order;
use crate::cmd::stat::source::{Opened, Plan, Source};

fn plan(words: &[&str]) -> Plan {
    Plan {
        functions: words.iter().map(|word| (*word).to_owned()).collect(),
        ..Plan::default()
    }
}

fn ordered(words: &[&str], for_ms: Option<u64>) -> Order {
    let mut order = order(&plan(words), std::time::Duration::from_millis(20)).unwrap();
    order.for_ms = for_ms;
    order
}

#[test]
fn rows_come_until_the_time_is_up() {
    let daemon = Daemon::new();
    let order = ordered(&["fn:f", "fn:g"], Some(300));
    let mut session = Session::begin(&daemon.host(), &order).unwrap();
    assert_eq!(session.begun.left_out, "1 function is left out");
    assert_eq!(session.rows[1].function, "g");
    let mut calls = 0;
    let (ended, why) = loop {
        match session.next(PATIENCE).expect("an event in time") {
            Event::Rows(rows) => {
                let now = rows.counted().times[1].calls;
                assert!(now > calls && rows.functions[0].metrics["calls"].as_u64() >= Some(10));
                calls = now;
            }
            Event::End(ended, why) => break (ended, why),
            Event::Dropped(_) => {}
            Event::Failed(failure) => panic!("{failure:?}"),
        }
    };
    assert_eq!(why, "time");
    assert!(ended.counted.times[1].calls > calls, "the end has the rest");
    assert_eq!(
        (ended.start_ns, ended.end_ns, ended.counted.rest[2]),
        (5, 6, 1)
    );
    daemon.wait_for("the end", |daemon| daemon.sessions() == 0);
    assert!(daemon.has_line("session 1 started: who uid "));
    daemon.wait_for("its line", |daemon| {
        daemon.has_line("session 1 ended: why time")
    });
}

#[test]
fn what_a_client_asks_to_end_ends() {
    let daemon = Daemon::new();
    let mut session = Session::begin(&daemon.host(), &ordered(&["fn:f"], None)).unwrap();
    assert!(matches!(session.next(PATIENCE), Some(Event::Rows(_))));
    session.end().unwrap();
    let why = loop {
        match session.next(PATIENCE) {
            Some(Event::End(_, why)) => break why,
            Some(Event::Failed(failure)) => panic!("{failure:?}"),
            _ => {}
        }
    };
    assert_eq!(why, "deleted");
}

/// Ctrl-C at the moment at which the session ends by itself, and again.
#[test]
fn who_ends_what_has_just_ended_has_its_last_figures() {
    let daemon = Daemon::new();
    let begin = || {
        let order = ordered(&["fn:f"], Some(300));
        let mut session = Session::begin(&daemon.host(), &order).unwrap();
        assert!(matches!(session.next(PATIENCE), Some(Event::Rows(_))));
        session
    };
    let wait = || {
        daemon.wait_for("its end", |daemon| {
            daemon.sessions() == 0 && daemon.hub.sessions.running().is_empty()
        });
    };
    let mut session = begin();
    wait();
    assert!(session.end().is_err(), "the daemon knows it no more");
    assert!(session.leave() && !session.leave(), "it is asked once");
    let why = loop {
        match session.next(PATIENCE).expect("an event in time") {
            Event::End(_, why) => break why,
            Event::Failed(failure) => panic!("{failure:?}"),
            _ => {}
        }
    };
    assert_eq!(why, "time");
    let ended = Box::new(begin()).run(&mut |_| wait()).unwrap();
    assert!(ended.counted.times[0].calls > 0);
}

#[test]
fn a_client_that_is_gone_ends_its_session() {
    let daemon = Daemon::new();
    let (status, begun) = daemon.order(&json!({"resources": ["fn:f"], "interval_ms": 20}));
    assert_eq!((status, &begun["id"]), (201, &json!(1)));
    let mut events = daemon.events(&begun["id"]);
    let text = read_until(&mut events, "event: rows");
    assert!(text.contains("text/event-stream") && text.contains("event: begin"));
    assert_eq!(daemon.sessions(), 1);
    drop(events);
    daemon.wait_for("the end", |daemon| daemon.sessions() == 0);
    daemon.wait_for("its line", |daemon| daemon.has_line("ended: why left"));
}

/// Its number is told to nobody, so that nobody could delete it.
#[test]
fn who_leaves_before_the_answer_leaves_no_session() {
    let daemon = Daemon::new();
    let mut stream = daemon.connect();
    let body = json!({"resources": ["fn:slow"], "keep": true}).to_string();
    let head = format!(
        "POST /v1/stat HTTP/1.1\r\nHost: jifl\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    std::io::Write::write_all(&mut stream, (head + &body).as_bytes()).unwrap();
    daemon.wait_for("its opening", |daemon| daemon.sessions() == 1);
    drop(stream);
    daemon.wait_for("its line", |daemon| daemon.has_line("ended: why left"));
    daemon.wait_for("its end", |daemon| {
        daemon.sessions() == 0 && daemon.hub.sessions.running().is_empty()
    });
}

/// Whatever makes the message: neither the client nor the journal has the kernel's addresses.
#[test]
fn refusals_have_no_addresses() {
    let daemon = Daemon::new();
    let (status, body) = daemon.order(&json!({"resources": ["fn:several"]}));
    assert_eq!(status, 400);
    let told = "give one of fn:(an address), fn:(an address)";
    assert_eq!(body["error"], told);
    assert!(daemon.has_line(told) && !daemon.has_line("0xffff"));
}

#[test]
fn what_is_kept_stays_until_it_is_deleted() {
    let daemon = Daemon::new();
    let order = json!({"resources": ["fn:f"], "interval_ms": 20, "keep": true});
    let (_, begun) = daemon.order(&order);
    for _ in 0..2 {
        let mut events = daemon.events(&begun["id"]);
        read_until(&mut events, "event: rows");
    }
    let (_, _, list) = daemon.ask("GET /v1/sessions HTTP/1.1", "");
    let list: Json = serde_json::from_str(&list).unwrap();
    assert_eq!(list["sessions"][0]["keep"], true);
    assert_eq!(list["sessions"][0]["yours"], true);
    assert_eq!(list["sessions"][0]["what"], "fn:f");
    let (status, _, metrics) = daemon.ask("GET /metrics HTTP/1.1", "");
    assert_eq!(status, 200);
    assert!(
        metrics.contains("jifl_function_calls_total{session=\"1\",function=\"f\",module=\"\"}")
    );
    assert_eq!(daemon.sessions(), 1);
    let (status, ..) = daemon.ask("DELETE /v1/stat/1 HTTP/1.1", "");
    assert_eq!(status, 200);
    daemon.wait_for("the end", |daemon| daemon.sessions() == 0);
    // The daemon forgets it behind that.
    daemon.wait_for("the list without it", |daemon| {
        let (_, _, list) = daemon.ask("GET /v1/sessions HTTP/1.1", "");
        let list: Json = serde_json::from_str(&list).unwrap();
        list["sessions"] == json!([])
    });
    let (status, ..) = daemon.ask("DELETE /v1/stat/1 HTTP/1.1", "");
    assert_eq!(status, 404);
}

#[test]
fn refusals_carry_over_with_their_exit_status() {
    let daemon = Daemon::new();
    for (word, status, exit, part) in [
        ("fn:failed", 422, FAILED, "it is busy:\\nwait"),
        ("fn:cannot", 503, CANNOT, "jifl load"),
        ("sys:read", 400, USAGE, "give fn:NAME"),
        ("fn:0xffffffff81000000", 400, USAGE, "by their names"),
    ] {
        let (got, body) = daemon.order(&json!({"resources": [word]}));
        assert_eq!((got, &body["exit"]), (status, &json!(exit)), "{word}");
        let error = body["error"].as_str().unwrap();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
        let failure = Session::begin(&daemon.host(), &ordered(&[word], None));
        let failure = failure.map(|_| ()).unwrap_err();
        assert_eq!(failure.status, exit);
        assert!(failure.message.contains(part), "{}", failure.message);
    }
    assert!(daemon.has_line("refused: who uid "));
    let (status, body) = daemon.order(&json!({"resources": ["fn:panics"]}));
    assert_eq!(status, 500, "{body}");
    // What a panic has left behind is nothing.
    let (status, _) = daemon.order(&json!({"resources": ["fn:f"], "for_ms": 1}));
    assert_eq!(status, 201);
}

#[test]
fn each_wrong_request_has_its_status() {
    let daemon = Daemon::new();
    let json = "Content-Type: application/json";
    let long = "x".repeat(70_000);
    for (head, body, expected) in [
        ("GET /nothing HTTP/1.1".into(), "", 404),
        ("GET /v1/stat HTTP/1.1".into(), "", 405),
        ("PUT /v1/info HTTP/1.1".into(), "", 405),
        ("DELETE /v1/stat/7 HTTP/1.1".into(), "", 404),
        ("GET /v1/stat/x/events HTTP/1.1".into(), "", 404),
        ("POST /v1/stat HTTP/1.1".into(), "{}", 415),
        (format!("POST /v1/stat HTTP/1.1\r\n{json}"), "{}", 400),
        (format!("POST /v1/stat HTTP/1.1\r\n{json}"), &long, 413),
    ] {
        let (status, head_of, body) = daemon.ask(&head, body);
        assert_eq!(status, expected, "{head}");
        assert!(head_of.contains("application/json"), "{head_of}");
        let refusal: Json = serde_json::from_str(&body).unwrap();
        assert!(!refusal["error"].as_str().unwrap().is_empty());
    }
    let (status, _, body) = daemon.ask("GET /v1/functions?glob=fn%3Avfs_%2A HTTP/1.1", "");
    assert_eq!((status, body.contains("fn:vfs_*")), (200, true), "{body}");
}

#[test]
fn one_connection_serves_several_requests() {
    let daemon = Daemon::new();
    let mut stream = daemon.connect();
    for _ in 0..3 {
        use std::io::Write;
        let request = b"GET /v1/info HTTP/1.1\r\nHost: jifl\r\n\r\n";
        stream.write_all(request).unwrap();
        let (status, head, _) = split(&read_until(&mut stream, "you"));
        assert_eq!(status, 200);
        assert!(head.contains("nosniff"));
    }
    let (_, _, body) = ask(&mut stream, "GET /v1/info HTTP/1.1", "");
    assert!(body.contains("\"clients\":1"), "{body}");
}

#[test]
fn top_has_what_is_below() {
    let daemon = Daemon::new();
    let remote = Remote::new(daemon.host(), std::time::Duration::from_millis(20));
    let opened = remote.open(&plan(&["fn:f", "fn:g"])).unwrap();
    assert_eq!(opened.below(false).unwrap()[&1], ["fn:below_g"]);
    let mut calls = 0;
    let ended = opened.run(&mut |running| {
        let begun = std::time::Instant::now();
        while calls == 0 && begun.elapsed() < PATIENCE {
            let counted = running.counted().unwrap();
            calls = counted.times.first().map_or(0, |time| time.calls);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!((running.id(), running.has_ended()), (77, false));
    });
    let ended = ended.unwrap();
    assert!(calls > 0 && ended.counted.times[0].calls > calls);
    daemon.wait_for("the end", |daemon| daemon.sessions() == 0);
}

#[test]
fn a_daemon_that_ends_says_so() {
    let daemon = Daemon::new();
    let mut session = Session::begin(&daemon.host(), &ordered(&["fn:f"], None)).unwrap();
    session.next(PATIENCE).unwrap();
    daemon.hub.sessions.end_all(PATIENCE);
    let why = loop {
        match session.next(PATIENCE) {
            Some(Event::End(_, why)) => break why,
            Some(Event::Failed(failure)) => panic!("{failure:?}"),
            _ => {}
        }
    };
    assert_eq!(why, "daemon");
    assert_eq!(daemon.running.load(Ordering::SeqCst), 0);
    let (status, body) = daemon.order(&json!({"resources": ["fn:f"]}));
    assert_eq!(status, 422, "{body}");
}

#[test]
fn a_missing_daemon_is_told_in_one_line() {
    let daemon = Daemon::new();
    let host = daemon.host();
    drop(daemon);
    let client = Client::new(host).unwrap();
    let asked = client.ask::<Json>(hyper::Method::GET, "/v1/info", None);
    let message = asked.unwrap_err().message;
    assert!(
        message.contains("`jifl serve` does not run there"),
        "{message}"
    );
}
