// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets: the page's token, metrics alone, addresses that are taken, the Unix socket's file.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;

use super::daemon::{Daemon, PATIENCE, ask, path};
use crate::cmd::serve::http::Serves;
use crate::cmd::serve::limits::Limits;
use crate::cmd::serve::listen::{self, Listener};

/// A daemon that serves that on a loopback address, too.
fn on_loopback(serves: Serves) -> (Daemon, SocketAddr) {
    let (listeners, address) = loopback(serves);
    let daemon = Daemon::with(Limits::default(), listeners);
    (daemon, address.recv_timeout(PATIENCE).unwrap())
}

/// What makes a listener on a loopback address, and where its address comes then.
fn loopback(
    serves: Serves,
) -> (
    impl FnOnce() -> Vec<Listener> + Send + 'static,
    mpsc::Receiver<SocketAddr>,
) {
    let (to, address) = mpsc::channel();
    let listeners = move || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        to.send(listener.local_addr().unwrap()).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        vec![Listener::Plain(listener, serves)]
    };
    (listeners, address)
}

/// `make test-page` starts this, and ends it by closing its standard input.
#[test]
#[ignore = "tests/page/run opens it in a browser"]
fn a_page_for_a_browser() {
    let (listeners, address) = loopback(Serves::WithToken("secret".into()));
    let _daemon = Daemon::searching_with(listeners);
    let address = address.recv_timeout(PATIENCE).unwrap();
    println!("\npage http://{address}/?token=secret");
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}

fn get(address: SocketAddr, head: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    ask(&mut stream, head, "")
}

#[test]
fn the_page_is_for_those_with_its_token() {
    let (daemon, address) = on_loopback(Serves::WithToken("secret".into()));
    for head in [
        "GET / HTTP/1.1",
        "GET /?token=secre HTTP/1.1",
        "GET /v1/info HTTP/1.1",
        "GET /metrics HTTP/1.1",
        "GET /v1/info HTTP/1.1\r\nAuthorization: Bearer wrong",
        "GET /v1/info HTTP/1.1\r\nAuthorization: Basic secret",
    ] {
        let (status, _, body) = get(address, head);
        assert_eq!((status, body.contains("token")), (401, true), "{head}");
    }
    assert!(daemon.has_line("refused: who page from 127.0.0.1:"));
    let (status, head, page) = get(address, "GET /?token=secret HTTP/1.1");
    assert_eq!(status, 200);
    for part in [
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:",
        "text/html",
        "no-referrer",
        "cache-control: no-store",
    ] {
        assert!(head.contains(part), "{part} in {head}");
    }
    // All that the page names is there, without the token.
    let mut bytes = page.len();
    for name in ["functions.js", "search.js", "page.css"] {
        assert!(page.contains(name));
        let (status, _, body) = get(address, &format!("GET /{name} HTTP/1.1"));
        assert_eq!(status, 200, "{name}");
        bytes += body.len();
    }
    assert!(bytes < 300_000, "{bytes}");
    let info = get(
        address,
        "GET /v1/info HTTP/1.1\r\nAuthorization: Bearer secret",
    );
    assert_eq!(
        (info.0, info.2.contains("page from 127.0.0.1")),
        (200, true)
    );
}

#[test]
fn the_address_of_metrics_has_nothing_else() {
    let (_daemon, address) = on_loopback(Serves::Metrics);
    let (status, head, body) = get(address, "GET /metrics HTTP/1.1");
    assert_eq!(status, 200);
    assert!(head.contains("application/openmetrics-text; version=1.0.0"));
    assert!(
        body.ends_with("# EOF\n") && body.contains("\njifl_serve_sessions 0.0\n"),
        "{body}"
    );
    for path in ["/", "/v1/info", "/functions.js"] {
        assert_eq!(
            get(address, &format!("GET {path} HTTP/1.1")).0,
            404,
            "{path}"
        );
    }
}

#[test]
fn an_address_that_is_taken_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let address = taken.local_addr().unwrap();
    let refused = runtime.unwrap().block_on(listen::tcp("--page", address));
    let message = refused.map(|_| ()).unwrap_err().message;
    assert!(
        message.starts_with(&format!("--page {address}: ")),
        "{message}"
    );
    assert!(message.contains("give another port"), "{message}");
}

#[test]
fn the_socket_is_one_daemons() {
    let daemon = Daemon::new();
    let mode = daemon.socket.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    let _entered = runtime.enter();
    let refused = listen::unix(&daemon.socket, None).map(|_| ()).unwrap_err();
    assert!(
        refused.message.contains("another jifl serve"),
        "{}",
        refused.message
    );
    assert_eq!(daemon.ask("GET /v1/info HTTP/1.1", "").0, 200);
    // One that was killed leaves its socket behind: it is replaced. Other files are not.
    let stale = path("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists() && listen::unix(&stale, None).is_ok());
    std::fs::remove_file(&stale).unwrap();
    std::fs::write(&stale, "data").unwrap();
    assert!(listen::unix(&stale, None).is_err());
    assert_eq!(std::fs::read_to_string(&stale).unwrap(), "data");
    std::fs::remove_file(&stale).unwrap();
}
