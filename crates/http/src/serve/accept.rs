//! From an accepted socket to a connection that speaks HTTP: who it is from, whether it may stay, TLS.

use crate::serve::admit::{Stop, admit};
use crate::serve::attributes::{self, Peer};
use crate::serve::buffer::{Buffer, Prefixed};
use crate::serve::h1::{Connection, Left};
use crate::serve::listen::Listening;
use crate::serve::stream::{Socket, Stream};
use crate::serve::table::Gate;
use crate::serve::timer::Timer;
use crate::serve::worker::{Present, Worker};
use crate::wire::read_proxy_header;
use rustix::net::SocketFlags;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;

/// How long accepting rests when the system has no more descriptors or memory.
const REST: Duration = Duration::from_millis(100);

/// A socket that listens, with this worker's runtime.
#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn new(listening: Listening) -> io::Result<Self> {
        Ok(match listening {
            Listening::Tcp(listener) => Self::Tcp(TcpListener::from_std(listener)?),
            Listening::Unix(listener) => Self::Unix(UnixListener::from_std(listener)?),
        })
    }

    /// One that waits to be accepted right now, as the system knows it, not as it has told.
    fn accept_now(&self) -> Option<Socket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match self {
            Self::Tcp(listener) => {
                let socket = rustix::net::accept_with(listener, flags).ok()?;
                TcpStream::from_std(socket.into()).ok().map(Socket::Tcp)
            }
            Self::Unix(listener) => {
                let socket = rustix::net::accept_with(listener, flags).ok()?;
                UnixStream::from_std(socket.into()).ok().map(Socket::Unix)
            }
        }
    }

    async fn accept(&self) -> io::Result<Socket> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    fn poll_accept(&self, cx: &mut std::task::Context<'_>) -> Poll<io::Result<Socket>> {
        match self {
            Self::Tcp(listener) => listener.poll_accept(cx).map_ok(|(socket, _)| {
                // Heads and bodies are written in one piece each; waiting for more only delays them.
                let _ = socket.set_nodelay(true);
                Socket::Tcp(socket)
            }),
            Self::Unix(listener) => {
                listener.poll_accept(cx).map_ok(|(socket, _)| Socket::Unix(socket))
            }
        }
    }
}

/// Accepts connections of the frontend that `whose` names, until it names none; what waits to be accepted
/// then is accepted before the socket is closed.
pub(crate) async fn run(
    worker: Rc<Worker>,
    listening: Listening,
    mut whose: watch::Receiver<Option<Box<str>>>,
) {
    let listener = match Listener::new(listening) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "a frontend cannot listen");
            return;
        }
    };
    let (mut last, mut held) = (None, None);
    while let Some(name) = named(&mut whose) {
        let Some(gate) = worker.gate_named(&name) else {
            // The name has come before the table that knows it.
            if !waits(&worker, &mut whose).await {
                break;
            }
            continue;
        };
        last = Some(Arc::clone(&gate));
        let accepted = match held.take() {
            Some(socket) => Ok(socket),
            None => tokio::select! {
                biased;
                changed = whose.changed() => match changed {
                    Ok(()) => { whose.mark_changed(); continue }
                    Err(_) => break,
                },
                accepted = listener.accept() => accepted,
            },
        };
        match accepted {
            Ok(socket) => {
                // As it is now, however long nobody came. One that is accepted is held until there is
                // room: only so does a place that is free go to a worker that has a use for it.
                let gate = worker.gate(&gate);
                tokio::select! {
                    biased;
                    () = room(&gate) => take(&worker, gate, socket),
                    is_open = waits(&worker, &mut whose) => {
                        held = Some(socket);
                        if !is_open {
                            break;
                        }
                    }
                }
            }
            Err(error) if is_of_one(&error) => {}
            Err(error) => {
                tracing::warn!(frontend = %gate.spec.name, %error, "cannot accept connections");
                tokio::time::sleep(REST).await;
            }
        }
    }
    let waiting = std::iter::from_fn(|| listener.accept_now());
    if let Some(gate) = last {
        for socket in held.into_iter().chain(waiting) {
            gate.tally.connections.fetch_add(1, Ordering::Relaxed);
            take(&worker, worker.gate(&gate), socket);
        }
    }
}

/// The frontend that a listener is for, as told last.
fn named(whose: &mut watch::Receiver<Option<Box<str>>>) -> Option<Box<str>> {
    whose.borrow_and_update().clone()
}

/// Waits for another name or another table; false if there will be none.
async fn waits(worker: &Worker, whose: &mut watch::Receiver<Option<Box<str>>>) -> bool {
    tokio::select! {
        changed = whose.changed() => {
            whose.mark_changed();
            changed.is_ok()
        }
        () = worker.configured() => true,
    }
}

/// Whether an error is one connection's, not the listener's (accept(2)).
fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, PermissionDenied};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | PermissionDenied)
}

/// Waits until the frontend may have one more connection, and counts it.
async fn room(gate: &Gate) {
    let max = gate.spec.connections_max as usize;
    let one_more = |count: usize| (count < max).then_some(count + 1);
    let connections = &gate.tally.connections;
    while connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
        gate.tally.room.notified().await;
    }
}

/// Serves a connection that is counted.
fn take(worker: &Rc<Worker>, gate: Arc<Gate>, socket: Socket) {
    gate.tally.accepted.fetch_add(1, Ordering::Relaxed);
    let present = worker.enter(Arc::clone(&gate));
    tokio::task::spawn_local(begin(Rc::clone(worker), present, gate, socket));
}

/// Serves one connection.
async fn begin(worker: Rc<Worker>, present: Present, gate: Arc<Gate>, mut socket: Socket) {
    let address = socket.peer();
    let mut peer = peer(&gate, address);
    let mut buf = Buffer::default();
    if gate.spec.proxy_protocol && !read_proxy(&gate, &mut peer, &mut socket, &mut buf).await {
        return;
    }
    let mut permit = None;
    if gate.shapes_connections {
        let request = attributes::connection(&gate, &peer, gate.spec.timeouts.queue);
        match admit(&worker, request, &socket).await {
            Ok(granted) => permit = Some(granted),
            // A refused connection is closed without a word: none was asked.
            Err(Stop::Left | Stop::Reply(_)) => return,
        }
    }
    let stream = match &gate.tls {
        None => Stream::Plain(socket),
        Some(tls) => match tls.accept(Prefixed::new(buf, socket), gate.timeouts.header).await {
            Some((stream, sni)) => {
                peer.sni = sni;
                buf = Buffer::default();
                stream
            }
            None => return,
        },
    };
    let peer = Rc::new(peer);
    let presence = Rc::clone(&present.presence);
    let is_http2 = stream.speaks_http2();
    let left = if is_http2 {
        Left::Http2(stream, buf)
    } else {
        let worker = Rc::clone(&worker);
        let (gate, peer) = (Arc::clone(&gate), Rc::clone(&peer));
        Connection::new(worker, gate, peer, stream, buf, Rc::clone(&presence)).run().await
    };
    if let Left::Http2(stream, buf) = left {
        crate::serve::h2::run(worker, gate, peer, stream, buf, presence).await;
    }
    drop((permit, present));
}

fn peer(gate: &Gate, address: Option<SocketAddr>) -> Peer {
    let ip = address.map(|address| address.ip().to_canonical());
    let text = ip.map_or_else(|| "unix".to_owned(), |ip| ip.to_string());
    let is_trusted =
        ip.is_none_or(|ip| gate.spec.trusted.iter().any(|network| network.contains(ip)));
    // Who may use a unix socket is decided by its file; what it says of others counts only if asked.
    let is_trusted = is_trusted && !gate.spec.trusted.is_empty();
    Peer { address: text.into(), is_trusted, client: None, sni: "".into() }
}

/// Reads the PROXY header that the connection must begin with.
async fn read_proxy(gate: &Gate, peer: &mut Peer, socket: &mut Socket, buf: &mut Buffer) -> bool {
    if !peer.is_trusted {
        return false;
    }
    let mut timer = Timer::new(gate.timeouts.header);
    let header = poll_fn(|cx| {
        loop {
            match read_proxy_header(buf.bytes()) {
                Ok(Some(header)) => return Poll::Ready(Some(header)),
                Ok(None) => {}
                Err(_) => return Poll::Ready(None),
            }
            match buf.poll_fill(socket, cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(None),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => return timer.poll(cx).map(|()| None),
            }
        }
    });
    let Some(header) = header.await else { return false };
    buf.consume(header.len);
    if let Some(client) = header.client {
        let client = client.ip().to_canonical();
        peer.client = Some(client.to_string().into());
        // From here on the balancer stands for its client, whose own word counts only if it is trusted.
        peer.is_trusted = gate.spec.trusted.iter().any(|network| network.contains(client));
    } else if !header.is_local {
        // Somebody, of whom nothing is known, speaks through the balancer.
        peer.is_trusted = false;
    }
    true
}
