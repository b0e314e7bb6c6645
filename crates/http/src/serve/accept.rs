//! Turns an accepted socket into an HTTP connection: finds its client, decides whether it may stay, and starts TLS.

use crate::serve::admit::{Submitted, granted_to, submit};
use crate::serve::attributes::{self, Peer, Speaker};
use crate::serve::connections::CountedConnection;
use crate::serve::h1::Connection;
use crate::serve::log::Record;
use crate::serve::lost::Stop;
use crate::serve::table::LiveFrontend;
use crate::serve::worker::{Present, Worker};
use crate::wire::read_proxy_header;
use paceline_net::buffer::{Buffer, Prefixed};
use paceline_net::listen::{BACKLOG, ListenPoint, Listening};
use paceline_net::stream::{Socket, Stream};
use paceline_net::task;
use paceline_net::timer::Timer;
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

/// How long accepting pauses when the system has no more descriptors or memory.
const REST: Duration = Duration::from_millis(100);

/// Connections that are accepted in a row before other tasks run.
const TURN: usize = 64;

/// A listening socket, registered with this worker's runtime.
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

    /// Accepts a pending connection, even if the runtime has not noticed it yet.
    fn accept_now(&self) -> Option<Accepted> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match self {
            Self::Tcp(listener) => {
                let (socket, from) = rustix::net::acceptfrom_with(listener, flags).ok()?;
                let from = SocketAddr::try_from(from?).ok()?;
                let socket = TcpStream::from_std(socket.into()).ok()?;
                Some(Accepted::tcp(socket, from))
            }
            Self::Unix(listener) => {
                let socket = rustix::net::accept_with(listener, flags).ok()?;
                UnixStream::from_std(socket.into()).and_then(Accepted::unix).ok()
            }
        }
    }

    async fn accept(&self) -> io::Result<Accepted> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    fn poll_accept(&self, cx: &mut std::task::Context<'_>) -> Poll<io::Result<Accepted>> {
        match self {
            Self::Tcp(listener) => {
                listener.poll_accept(cx).map_ok(|(socket, from)| Accepted::tcp(socket, from))
            }
            Self::Unix(listener) => {
                listener.poll_accept(cx).map(|accepted| Accepted::unix(accepted?.0))
            }
        }
    }
}

/// An accepted connection. The client's address is stored now, because the system forgets it as soon as the client
/// resets the connection.
struct Accepted {
    socket: Socket,
    from: Speaker,
}

impl Accepted {
    fn tcp(socket: TcpStream, from: SocketAddr) -> Self {
        // A head or a body is written in one piece; waiting for more data would only delay it.
        let _ = socket.set_nodelay(true);
        Self { socket: Socket::Tcp(socket), from: Speaker::Ip(from.ip().to_canonical()) }
    }

    fn unix(socket: UnixStream) -> io::Result<Self> {
        let uid = socket.peer_cred()?.uid();
        Ok(Self { socket: Socket::Unix(socket), from: Speaker::Unix(uid) })
    }
}

/// Accepts connections for the frontend that listens at `place`, until none does or the daemon ends. Then the pending
/// connections are accepted before the socket is closed.
pub(crate) async fn run(worker: Rc<Worker>, listening: Listening, place: Arc<ListenPoint>) {
    let listener = match Listener::new(listening) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "a frontend cannot listen");
            return;
        }
    };
    let (mut last, mut held) = (None, None);
    while let Some(frontend) = worker.frontend(&place).filter(|_| !worker.is_draining()) {
        last = Some(Arc::clone(&frontend));
        let accepted = match held.take() {
            Some(accepted) => Ok(accepted),
            None => tokio::select! {
                biased;
                () = worker.configured() => continue,
                accepted = listener.accept() => accepted,
            },
        };
        match accepted {
            // An accepted connection is held until there is room, so that a free place always goes to a worker that
            // can use it.
            Ok(accepted) => {
                let peer = Peer::new(accepted.from, Arc::clone(&place));
                tokio::select! {
                    biased;
                    room = room(&worker, &frontend, &peer) => if let Some(room) = room {
                        take(&worker, frontend, peer, accepted.socket, room);
                    },
                    () = worker.configured() => held = Some(accepted),
                }
            }
            Err(error) if is_of_one(&error) => {}
            Err(error) => {
                tracing::warn!(frontend = %frontend.spec.name, %error, "cannot accept connections");
                tokio::time::sleep(REST).await;
            }
        }
    }
    // New connections may arrive until the socket is closed. No more than the backlog were pending before.
    let waiting = std::iter::from_fn(|| listener.accept_now()).take(BACKLOG as usize);
    let Some(frontend) = last else { return };
    for (number, accepted) in held.into_iter().chain(waiting).enumerate() {
        let peer = Peer::new(accepted.from, Arc::clone(&place));
        let account = worker.means.clients.account(peer.counted_as(&frontend.spec, None));
        let room = worker.means.connections.enter_at_end(frontend.at(), &account);
        take(&worker, Arc::clone(&frontend), peer, accepted.socket, room);
        if number % TURN == TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
}

/// Whether an error concerns one connection, not the listener (accept(2)).
fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, PermissionDenied};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | PermissionDenied)
}

/// Waits until one more connection is allowed, and counts it. Returns none if its client has too many.
async fn room(worker: &Worker, frontend: &LiveFrontend, peer: &Peer) -> Option<CountedConnection> {
    let (connections, at) = (&worker.means.connections, frontend.at());
    let account = worker.means.clients.account(peer.counted_as(&frontend.spec, None));
    let room = connections.room_for(at, &account, || connections.enter(at, &account)).await;
    if room.is_none() {
        connections.log_refused(at.frontend, &peer.address);
    }
    room
}

/// Serves a connection that is already counted.
fn take(
    worker: &Rc<Worker>,
    frontend: Arc<LiveFrontend>,
    peer: Peer,
    socket: Socket,
    room: CountedConnection,
) {
    frontend.tally.accepted.fetch_add(1, Ordering::Relaxed);
    let present = worker.enter(Arc::clone(&frontend), room);
    task::spawn(begin(Rc::clone(worker), present, frontend, peer, socket));
}

/// Serves one connection.
async fn begin(
    worker: Rc<Worker>,
    mut present: Present,
    frontend: Arc<LiveFrontend>,
    mut peer: Peer,
    mut socket: Socket,
) {
    socket.tell_soon();
    let mut buf = Buffer::default();
    if frontend.spec.proxy_protocol {
        let proxy = read_proxy(&frontend, &mut peer, &mut socket, &mut buf);
        if !worker.before_request(present.presence(), proxy).await.unwrap_or(false) {
            return;
        }
        if !present.is_of(peer.counted_as(&frontend.spec, None)).await {
            let client = peer.client.as_deref().unwrap_or(&peer.address);
            worker.means.connections.log_refused(&frontend.spec.name, client);
            return;
        }
    }
    let mut permit = None;
    if let Some(mut asking) = attributes::connection(&worker.control, &frontend, &peer) {
        let mut record = Record::without_head(&frontend, &peer);
        record.keep(&frontend, &mut asking);
        let outcome = match submit(&worker, asking).map_err(|stop| *stop) {
            Ok(Submitted::Runs(permit, waits)) => Ok((permit, waits)),
            Ok(Submitted::Waits(waiting, waits)) => {
                granted_to(&worker, (waiting, waits), &socket).await
            }
            Err(stop) => Err(stop),
        };
        match outcome {
            Ok((granted, _)) => permit = Some(granted),
            Err(Stop::Left) => return,
            // A refused connection is closed without a response, because no request was read.
            Err(Stop::Reply(reply)) => return record.end_unanswered(&worker, &reply),
        }
    }
    let stream = match &frontend.tls {
        None => Stream::Plain(socket),
        Some(tls) => {
            let shaken = tls.accept(Prefixed::new(buf, socket), frontend.timeouts.header);
            let shaken = worker.before_request(present.presence(), shaken).await;
            let Some(Some((stream, sni))) = shaken else { return };
            peer.sni = sni;
            buf = Buffer::default();
            stream
        }
    };
    let peer = Rc::new(peer);
    let presence = Arc::clone(present.presence());
    let is_http2 = stream.speaks_http2();
    let http2 = if is_http2 {
        Some((stream, buf))
    } else {
        let worker = Rc::clone(&worker);
        let (frontend, peer) = (Arc::clone(&frontend), Rc::clone(&peer));
        Connection::new(worker, frontend, peer, stream, buf, Arc::clone(&presence)).run().await
    };
    let Some((stream, buf)) = http2 else { return };
    let connections = Arc::clone(&worker.means.connections);
    let displaced = crate::serve::h2::run(worker, frontend, peer, stream, buf, presence).await;
    let lingering = displaced.and_then(|stream| Some((stream, connections.linger()?)));
    drop((permit, present));
    if let Some((stream, _counted)) = lingering {
        crate::serve::h2::linger(stream).await;
    }
}

/// Reads the PROXY header that the connection must begin with.
async fn read_proxy(
    frontend: &LiveFrontend,
    peer: &mut Peer,
    socket: &mut Socket,
    buf: &mut Buffer,
) -> bool {
    if !peer.is_trusted(&frontend.spec) {
        return false;
    }
    let mut timer = Timer::new(frontend.timeouts.header);
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
        // From here on the connection belongs to the client that the balancer named. Forwarding fields from that
        // client count only if it is trusted.
        let client = client.ip().to_canonical();
        peer.client = Some(client.to_string().into());
        peer.speaker = Speaker::Ip(client);
    } else if !header.is_local {
        peer.speaker = Speaker::Unknown;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::Accepted;
    use crate::serve::attributes::Speaker;
    use std::os::unix::fs::MetadataExt as _;
    use tokio::net::UnixStream;

    /// D1: the operating system identifies the user, whatever the client claims.
    #[tokio::test]
    async fn a_client_of_a_unix_socket_is_its_user_d1() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let uid = std::fs::metadata("/proc/self").unwrap().uid();
        assert_eq!(Accepted::unix(ours).unwrap().from, Speaker::Unix(uid));
    }
}
