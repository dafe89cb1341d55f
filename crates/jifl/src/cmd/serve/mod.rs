// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl serve`: the figures of `jifl stat` as a service, for other users of this machine, for
//! other machines, for what collects metrics, and for a page in a browser.

mod audit;
mod http;
mod hub;
mod limits;
mod listen;
mod machine;
mod metrics;
pub mod order;
mod page;
mod paths;
mod queue;
mod sessions;
pub mod sse;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub use self::tests::path as test_path;
pub mod tls;
mod watch;
mod who;
pub mod wire;
mod works;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustls::ServerConfig;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use self::audit::Audit;
use self::http::Serves;
use self::hub::Hub;
use self::limits::Limits;
use self::listen::Listener;
use self::machine::Machine;
use self::sessions::Sessions;
use crate::base::exit::{DONE, Failure};
use crate::cmd::stat::source::{self, Kernel};
use crate::show::output;

/// Where it listens, and `jifl --host unix:` looks.
pub const SOCKET: &str = "/run/jifl/jifl.sock";
/// How long the end of sessions and works may take, of all together: dist/jifl-serve.service has
/// TimeoutStopSec= of more.
const ENDING: Duration = Duration::from_secs(30);

/// Arguments of `jifl serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
It serves until SIGTERM or Ctrl-C. The sessions of a client end with its connection of events, and
all sessions end with this process, however it ends. Each session has a line on stderr: who, what,
when it ended. docs/serve.md describes the protocol.

--listen asks each client for a certificate that CA has signed. --page and --metrics are without TLS
and take loopback addresses; --metrics takes others with --cert, --key and --client-ca.

Examples:
  jifl serve
  jifl serve --group jifl
  jifl serve --listen 10.0.0.5:7443 --cert host.crt --key host.key --client-ca ca.crt
  jifl serve --page 127.0.0.1:7480 --metrics 127.0.0.1:9480
And as a client:
  jifl --host unix: stat 'fn:vfs_*' --for 10s
  jifl --host https://10.0.0.5:7443 stat 'fn:vfs_*' -i 1s
  curl --unix-socket /run/jifl/jifl.sock http://jifl/v1/info")]
pub struct ServeArgs {
    /// The Unix socket
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
    /// Users of this group may use the socket, too
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Listen here for clients with certificates
    #[arg(long, value_name = "ADDR:PORT", requires_all = ["cert", "key", "client_ca"])]
    listen: Option<SocketAddr>,
    /// This machine's certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// The certificate of the authority that signs clients' certificates, in PEM
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Show the page here, on a loopback address; its address with a token is printed
    #[arg(long, value_name = "ADDR:PORT")]
    page: Option<SocketAddr>,
    /// Serve /metrics alone here
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_clients: u32,
    /// All clients may have var:, sum:, hist: and perf: counted, ask by EXPR, and search, not root
    /// alone
    #[arg(long)]
    variables: bool,
}

/// Runs the command; the result is the exit status.
///
/// # Errors
/// This machine has no module, or one of the sockets cannot be.
pub fn run(args: &ServeArgs) -> Result<u8, Failure> {
    let tls = tls_of(args)?;
    check_addresses(args, tls.is_some())?;
    let group = args.group.as_deref().map(group).transpose()?;
    source::check()?;
    let limits = Limits {
        clients: args.max_clients as usize,
        ..Limits::default()
    };
    let kernel = Kernel::of_many();
    let sessions = Sessions::new(Box::new(kernel.clone()), Audit::default(), limits.grace);
    let hub = Hub::new(sessions, limits, args.variables, Machine::here(kernel));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("starting to serve: {error}")))?;
    let served = runtime.block_on(serve(args, tls, group, Arc::new(hub)));
    // A list of functions that is being made is not waited for.
    runtime.shutdown_background();
    served
}

fn tls_of(args: &ServeArgs) -> Result<Option<Arc<ServerConfig>>, Failure> {
    let (Some(cert), Some(key)) = (&args.cert, &args.key) else {
        return Ok(None);
    };
    let Some(client_ca) = &args.client_ca else {
        return Err(Failure::usage(
            "--cert and --key go with --client-ca: it says whose certificates are taken",
        ));
    };
    tls::server(&tls::Pair { cert, key }, client_ca).map(Some)
}

fn check_addresses(args: &ServeArgs, has_tls: bool) -> Result<(), Failure> {
    if let Some(address) = args.page.filter(|address| !address.ip().is_loopback()) {
        return Err(Failure::usage(format!(
            "--page {address}: the page has no TLS there, so it takes a loopback address: give \
             127.0.0.1:{}, and from elsewhere use --listen, or a tunnel (ssh -L)",
            address.port()
        )));
    }
    let metrics = args.metrics.filter(|address| !address.ip().is_loopback());
    match metrics.filter(|_| !has_tls) {
        None => Ok(()),
        Some(address) => Err(Failure::usage(format!(
            "--metrics {address}: without TLS it takes a loopback address: give 127.0.0.1:{}, or \
             --cert, --key and --client-ca",
            address.port()
        ))),
    }
}

/// A group's number. The static program has no name service, so it reads the file.
fn group(name: &str) -> Result<u32, Failure> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = fs::read_to_string("/etc/group").unwrap_or_default();
    group_in(&text, name).ok_or_else(|| {
        Failure::usage(format!(
            "--group {name}: /etc/group has no such group: make it (groupadd --system {name}), or \
             give its number"
        ))
    })
}

fn group_in(text: &str, name: &str) -> Option<u32> {
    let words = |line: &str| -> Option<u32> {
        let mut words = line.split(':');
        let own = words.next()?;
        let number = words.nth(1)?;
        (own == name).then(|| number.parse().ok()).flatten()
    };
    text.lines().find_map(words)
}

/// A token that nobody guesses.
fn token() -> Result<String, Failure> {
    let mut bytes = [0u8; 24];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| Failure::failed("the kernel gives no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Listens, serves, and ends all sessions.
async fn serve(
    args: &ServeArgs,
    tls: Option<Arc<ServerConfig>>,
    group: Option<u32>,
    hub: Arc<Hub>,
) -> Result<u8, Failure> {
    let mut listeners = Vec::new();
    let mut said = Vec::new();
    if let (Some(address), Some(tls)) = (args.listen, &tls) {
        let listener = listen::tcp("--listen", address).await?;
        said.push(format!("https://{}", shown(&listener, address)));
        listeners.push(Listener::Tls(listener, Arc::clone(tls), Serves::All));
    }
    if let Some(address) = args.metrics {
        let listener = listen::tcp("--metrics", address).await?;
        let to = shown(&listener, address);
        listeners.push(match &tls {
            Some(tls) if !address.ip().is_loopback() => {
                said.push(format!("https://{to}/metrics"));
                Listener::Tls(listener, Arc::clone(tls), Serves::Metrics)
            }
            _ => {
                said.push(format!("http://{to}/metrics"));
                Listener::Plain(listener, Serves::Metrics)
            }
        });
    }
    let mut page = None;
    if let Some(address) = args.page {
        let listener = listen::tcp("--page", address).await?;
        let token = token()?;
        page = Some(format!(
            "http://{}/?token={token}",
            shown(&listener, address)
        ));
        listeners.push(Listener::Plain(listener, Serves::WithToken(token)));
    }
    // The last one: it is the file that others wait for.
    listeners.push(listen::unix(&args.socket, group)?);
    said.push(format!("unix:{}", args.socket.display()));
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(mut terminate), Ok(mut interrupt)] = signals else {
        return Err(Failure::failed("catching SIGTERM: the kernel refused"));
    };
    for listener in listeners {
        tokio::spawn(listener.serve(Arc::clone(&hub)));
    }
    if let Some(page) = page {
        output::print(&format!("{page}\n"))?;
    }
    hub.sessions
        .audit
        .note(&format!("serves {}", said.join(" ")));
    tell_systemd("READY=1");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tell_systemd("STOPPING=1");
    let _ = fs::remove_file(&args.socket);
    end_all(&hub).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    hub.sessions.audit.note("ended");
    Ok(DONE)
}

/// Ends all sessions and works. Their last events go out meanwhile.
async fn end_all(hub: &Arc<Hub>) {
    let ending = Arc::clone(hub);
    let (to, ended) = oneshot::channel();
    // A thread of its own: those of the runtime may all have something to do.
    let spawned = thread::Builder::new()
        .name("jifl serve".into())
        .spawn(move || {
            let until = Instant::now() + ENDING;
            // All are to end at once. Then their ends are waited for.
            ending.works.end_all(Duration::ZERO);
            ending.sessions.end_all(ENDING);
            ending
                .works
                .end_all(until.saturating_duration_since(Instant::now()));
            let _ = to.send(());
        });
    // Without a thread they end with this process, and nobody is told their last figures.
    if spawned.is_ok() {
        let _ = ended.await;
    }
}

/// The address with the port that the kernel chose, if it was to choose one.
fn shown(listener: &tokio::net::TcpListener, asked: SocketAddr) -> SocketAddr {
    listener.local_addr().unwrap_or(asked)
}

/// Tells systemd how far the daemon is, if systemd has started it and wants to know.
fn tell_systemd(state: &str) {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr as Address, UnixDatagram};
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let path = path.to_string_lossy();
    let address = match path.strip_prefix('@') {
        Some(name) => Address::from_abstract_name(name),
        None => Address::from_pathname(Path::new(path.as_ref())),
    };
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        // It may have gone: then nobody wants to know.
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}

#[cfg(test)]
mod args_tests {
    use super::*;
    use crate::base::parse::{check, parse};

    #[test]
    fn the_documented_lines_parse() {
        check::<ServeArgs>(
            &[
                "",
                "--group jifl",
                "--listen 10.0.0.5:7443 --cert host.crt --key host.key --client-ca ca.crt",
                "--page 127.0.0.1:7480 --metrics 127.0.0.1:9480",
            ],
            &[
                "--listen 10.0.0.5:7443",
                "--listen 10.0.0.5",
                "--cert a",
                "--max-clients 0",
                "--page localhost",
            ],
        );
    }

    #[test]
    fn without_tls_only_loopback_is_served() {
        for (line, has_tls, is_taken) in [
            ("--page 127.0.0.1:1 --metrics [::1]:2", false, true),
            ("--page 0.0.0.0:1", false, false),
            ("--page 0.0.0.0:1", true, false),
            ("--metrics 10.0.0.5:1", false, false),
            ("--metrics 10.0.0.5:1", true, true),
        ] {
            let args: ServeArgs = parse(line).unwrap();
            let checked = check_addresses(&args, has_tls);
            assert_eq!(checked.is_ok(), is_taken, "{line}");
            if let Err(failure) = checked {
                assert!(
                    failure.message.contains("give 127.0.0.1:1"),
                    "{}",
                    failure.message
                );
            }
        }
        let args: ServeArgs = parse("--cert a --key b").unwrap();
        assert!(tls_of(&args).unwrap_err().message.contains("--client-ca"));
    }

    #[test]
    fn a_group_is_a_name_or_a_number() {
        let text = "root:x:0:\njifl:x:988:alice,bob\nshort\n";
        assert_eq!(group_in(text, "jifl"), Some(988));
        assert_eq!(group_in(text, "jif"), None);
        assert_eq!(group("123").unwrap(), 123);
        let failure = group("no-such-group-here").unwrap_err();
        assert!(failure.message.contains("groupadd"), "{}", failure.message);
        assert_eq!(token().unwrap().len(), 48);
        assert_ne!(token().unwrap(), token().unwrap());
    }
}
