//! From an accepted socket to a connection that speaks HTTP: who it is from, whether it may stay, TLS.

use crate::serve::admit::{Stop, admit};
use crate::serve::attributes::{self, Peer};
use crate::serve::buffer::{Buffer, Prefixed};
use crate::serve::h1::{Connection, Left};
use crate::serve::listen::Listening;
use crate::serve::stream::{Socket, Stream};
use crate::serve::table::Gate;
use crate::serve::timer::Timer;
use crate::serve::worker::Worker;
use crate::wire::read_proxy_header;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
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
    let mut last = None;
    while let Some(gate) = gate(&worker, &mut whose) {
        last = Some(Arc::clone(&gate));
        let accepted = tokio::select! {
            biased;
            changed = whose.changed() => match changed {
                Ok(()) => continue,
                Err(_) => break,
            },
            accepted = async { room(&gate).await; listener.accept().await } => accepted,
        };
        match accepted {
            Ok(socket) => take(&worker, gate, socket),
            Err(error) if is_of_one(&error) => {}
            Err(error) => {
                tracing::warn!(frontend = %gate.spec.name, %error, "cannot accept connections");
                tokio::time::sleep(REST).await;
            }
        }
    }
    let Some(gate) = last else { return };
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    while let Poll::Ready(Ok(socket)) = listener.poll_accept(&mut cx) {
        take(&worker, Arc::clone(&gate), socket);
    }
}

/// The frontend that a listener is for, as it is now.
fn gate(worker: &Worker, whose: &mut watch::Receiver<Option<Box<str>>>) -> Option<Arc<Gate>> {
    let name = whose.borrow_and_update().clone()?;
    worker.gate_named(&name)
}

/// Whether an error is one connection's, not the listener's (accept(2)).
fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, PermissionDenied};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | PermissionDenied)
}

/// Waits until the frontend may have one more connection.
async fn room(gate: &Gate) {
    let max = gate.spec.connections_max as usize;
    while gate.tally.connections.load(Ordering::Relaxed) >= max {
        gate.tally.room.notified().await;
    }
}

fn take(worker: &Rc<Worker>, gate: Arc<Gate>, socket: Socket) {
    gate.tally.connections.fetch_add(1, Ordering::Relaxed);
    gate.tally.accepted.fetch_add(1, Ordering::Relaxed);
    tokio::task::spawn_local(begin(Rc::clone(worker), gate, socket));
}

/// Serves one connection.
async fn begin(worker: Rc<Worker>, gate: Arc<Gate>, mut socket: Socket) {
    let present = worker.enter(Arc::clone(&gate));
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
    Peer { address: text.into(), ip, is_trusted, client: None, sni: "".into() }
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
        peer.ip = Some(client);
    }
    true
}
