// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sockets of the daemon, and what becomes of a connection: who it is, whether there is room,
//! and how long it may take.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::StatusCode;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::fs::Mode;
use rustix::net::sockopt;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_io_timeout::TimeoutWriter;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::http::{self, Answer, Serves};
use super::hub::{Hub, Slot};
use super::limits::{HEAD_MAX, TOLD_MAX};
use super::tls;
use super::who::Who;
use crate::base::exit::{Failure, LIMIT};

/// A socket, and what it serves.
pub enum Listener {
    /// For processes of this machine.
    Unix(UnixListener),
    /// For those with a certificate.
    Tls(TcpListener, Arc<ServerConfig>, Serves),
    /// For processes of this machine, on a loopback address.
    Plain(TcpListener, Serves),
}

/// Makes the Unix socket, for a group. A socket that nobody listens on any more is replaced.
///
/// # Errors
/// Somebody listens there, or it cannot be made.
pub fn unix(path: &Path, group: Option<u32>) -> Result<Listener, Failure> {
    let about =
        |what: &dyn std::fmt::Display| Failure::failed(format!("{}: {what}", path.display()));
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        std::fs::create_dir_all(folder).map_err(|error| about(&error))?;
        let mode = std::fs::Permissions::from_mode(0o710);
        std::fs::set_permissions(folder, mode).map_err(|error| about(&error))?;
    }
    if let (Some(folder), Some(_)) = (path.parent(), group) {
        enter_for(folder, group).map_err(|error| about(&error))?;
    }
    let is_free = match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => {
            return Err(about(
                &"another jifl serve listens there: end it, or give another --socket",
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
    };
    if is_free && is_socket(path) {
        std::fs::remove_file(path).map_err(|error| about(&error))?;
    }
    // Nobody else may connect before the group and the mode are set.
    let before = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = bound.map_err(|error| about(&error))?;
    let mode = std::fs::Permissions::from_mode(0o660);
    std::os::unix::fs::chown(path, None, group).map_err(|error| about(&error))?;
    std::fs::set_permissions(path, mode).map_err(|error| about(&error))?;
    Ok(Listener::Unix(listener))
}

/// Lets a group go through the folder of the socket, if the folder is the daemon's own.
fn enter_for(folder: &Path, group: Option<u32>) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let status = folder.metadata()?;
    let is_closed = status.mode() & 0o077 == 0 || status.mode() & 0o777 == 0o710;
    if is_closed && status.uid() == rustix::process::geteuid().as_raw() {
        std::os::unix::fs::chown(folder, None, group)?;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o710))?;
    }
    Ok(())
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.symlink_metadata()
        .is_ok_and(|status| status.file_type().is_socket())
}

/// Makes a TCP socket.
///
/// # Errors
/// The address is taken, or not this machine's.
pub async fn tcp(option: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let way_out = match error.kind() {
            io::ErrorKind::AddrInUse => {
                ": end what listens there (`ss -ltnp`), or give another port"
            }
            io::ErrorKind::AddrNotAvailable => ": give an address of this machine (`ip address`)",
            _ => "",
        };
        Failure::failed(format!("{option} {address}: {error}{way_out}"))
    })
}

impl Listener {
    /// Serves who comes, for ever.
    pub async fn serve(self, hub: Arc<Hub>) {
        let (told, hands) = (Arc::default(), Arc::default());
        loop {
            let accepted = match &self {
                Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                    let who = stream.peer_cred().ok().map(|own| Who::Local {
                        uid: own.uid(),
                        pid: own.pid(),
                    });
                    if let Some(who) = who {
                        spawn(&hub, &told, stream, who, Serves::All);
                    }
                }),
                Listener::Plain(listener, serves) => {
                    listener.accept().await.map(|(stream, from)| {
                        lose_if_silent(&stream, hub.limits.stalled);
                        let who = match serves {
                            Serves::Metrics => Who::Unknown { from },
                            _ => Who::Page { from },
                        };
                        spawn(&hub, &told, stream, who, serves.clone());
                    })
                }
                Listener::Tls(listener, config, serves) => {
                    listener.accept().await.map(|(stream, from)| {
                        let _ = stream.set_nodelay(true);
                        lose_if_silent(&stream, hub.limits.stalled);
                        let acceptor = TlsAcceptor::from(Arc::clone(config));
                        // Handshakes are work, and take room as connections do.
                        let room = Told::new(&hands, hub.limits.clients + TOLD_MAX);
                        let (hub, told, serves) =
                            (Arc::clone(&hub), Arc::clone(&told), serves.clone());
                        if let Some(room) = room {
                            tokio::spawn(async move {
                                let hands = acceptor.accept(stream);
                                let shaken = shake_hands(&hub, hands, from).await;
                                drop(room);
                                if let Some((stream, who)) = shaken {
                                    spawn(&hub, &told, stream, who, serves);
                                }
                            });
                        }
                    })
                }
            };
            if let Err(error) = accepted {
                // No descriptors are left: others may give some back.
                hub.sessions
                    .audit
                    .refused(&format!("accepting a connection: {error}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Has the kernel end a connection whose peer acknowledges nothing for so long. Small events fit the
/// send buffer for a long time, so that no write waits: without this a peer that is gone without a
/// word is noticed when the kernel gives up to send again, after a quarter of an hour or so.
fn lose_if_silent(stream: &TcpStream, stalled: Duration) {
    let milliseconds = u32::try_from(stalled.as_millis()).unwrap_or(u32::MAX);
    // A kernel that refuses has the usual times.
    let _ = sockopt::set_tcp_user_timeout(stream, milliseconds);
    // While nothing is sent, the kernel asks whether the peer is there.
    let _ = sockopt::set_tcp_keepidle(stream, stalled);
    let _ = sockopt::set_socket_keepalive(stream, true);
}

/// A connection whose handshake is done, and whose it is.
async fn shake_hands(
    hub: &Arc<Hub>,
    hands: tokio_rustls::Accept<TcpStream>,
    from: SocketAddr,
) -> Option<(TlsStream<TcpStream>, Who)> {
    let refused = |error: &dyn std::fmt::Display| {
        let line = format!("who unknown from {from} what TLS handshake: {error}");
        hub.sessions.audit.refused(&line);
    };
    let stream = match tokio::time::timeout(hub.limits.handshake, hands).await {
        Err(_) => {
            refused(&"it took too long");
            return None;
        }
        Ok(Err(error)) => {
            refused(&error);
            return None;
        }
        Ok(Ok(stream)) => stream,
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let subject = tls::subject(certificates?.first()?);
    Some((stream, Who::Certificate { subject, from }))
}

/// One of those that take room for a moment.
struct Told(Arc<AtomicUsize>);

impl Told {
    fn new(number: &Arc<AtomicUsize>, most: usize) -> Option<Told> {
        let before = number.fetch_add(1, Ordering::Relaxed);
        let told = Told(Arc::clone(number));
        (before < most).then_some(told)
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a connection in a task of its own, or says that there is no room.
fn spawn<S>(hub: &Arc<Hub>, told: &Arc<AtomicUsize>, stream: S, who: Who, serves: Serves)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let slot = hub.admit(&who);
    if slot.is_some() {
        let hub = Arc::clone(hub);
        tokio::spawn(async move { connection(hub, slot, stream, who, serves).await });
    } else if let Some(room) = Told::new(told, TOLD_MAX) {
        let hub = Arc::clone(hub);
        tokio::spawn(async move {
            let _room = room;
            let time = hub.limits.handshake;
            let served = connection(hub, None, stream, who, serves);
            let _ = tokio::time::timeout(time, served).await;
        });
    }
}

/// Serves a connection to its end. Without a slot each request is answered with a refusal.
pub async fn connection<S>(hub: Arc<Hub>, slot: Option<Slot>, stream: S, who: Who, serves: Serves)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(hub.limits.stalled));
    let is_admitted = slot.is_some();
    let service = service_fn(|request| {
        let (hub, who, serves) = (Arc::clone(&hub), who.clone(), serves.clone());
        async move {
            let answer = match is_admitted {
                true => http::answer(&hub, &who, &serves, request).await,
                false => full(&hub),
            };
            Ok::<Answer, std::convert::Infallible>(answer)
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(hub.limits.head)
        .max_buf_size(HEAD_MAX)
        .keep_alive(is_admitted);
    let served = builder.serve_connection(TokioIo::new(Box::pin(stream)), service);
    // What a client does wrong ends its connection, and is nobody else's business.
    let _ = pin!(served).await;
    drop(slot);
}

fn full(hub: &Hub) -> Answer {
    let failure = Failure {
        status: LIMIT,
        message: format!(
            "{} clients are connected, and these are the most: wait, or start the daemon with more \
             --max-clients",
            hub.limits.clients
        ),
    };
    http::refusal(StatusCode::SERVICE_UNAVAILABLE, &failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_that_is_gone_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        lose_if_silent(&stream, Duration::from_secs(60));
        assert_eq!(sockopt::tcp_user_timeout(&stream), Ok(60_000));
        assert_eq!(sockopt::tcp_keepidle(&stream), Ok(Duration::from_secs(60)));
        assert_eq!(sockopt::socket_keepalive(&stream), Ok(true));
    }
}
