//! Connections to servers, and idle connections that wait for the next request.
//!
//! Each worker keeps its own, without locks and without waking other threads. The most recently used connection is
//! used first, so that unneeded connections grow old and are closed.

use crate::serve::descriptors::ServerDescriptor;
use crate::serve::table::{LiveServer, duration};
use paceline_net::buffer::Buffer;
use paceline_net::dial;
use paceline_net::resolve;
use paceline_net::stream::{ServerStream, Socket};
use paceline_net::tls;
use paceline_routing::Address;
use paceline_types::{BackendId, ServerId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// Idle connections that one worker keeps to one server.
const IDLE_MAX: usize = 512;

/// The first and the longest pause before a unix socket with a full backlog is tried again.
const BACKLOG_PAUSE: Duration = Duration::from_millis(1);
const BACKLOG_PAUSE_MAX: Duration = Duration::from_millis(32);

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub stream: ServerStream,
    /// Bytes that were read from it; empty between two requests.
    pub buf: Buffer,
    pub server: Arc<LiveServer>,
    /// Whether it was used before: then the server may be closing it right now.
    pub is_reused: bool,
    _descriptor: ServerDescriptor,
}

/// The idle connections of one worker.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    by_server: RefCell<BTreeMap<ServerId, Vec<(Instant, Upstream)>>>,
    /// When the task that closes old connections checks next; none if there is no such task.
    looks_at: Cell<Option<Instant>>,
    /// Notified when that task must check earlier.
    earlier: Notify,
}

impl Idle {
    /// Takes a connection to this server that is still open, as far as the system knows.
    pub fn take(&self, server: &Arc<LiveServer>) -> Option<Upstream> {
        let mut by_server = self.by_server.borrow_mut();
        let idle = by_server.get_mut(&server.id)?;
        while let Some((_, mut upstream)) = idle.pop() {
            let is_right =
                Arc::ptr_eq(&upstream.server, server) || upstream.server.is_reached_as(server);
            if !is_right || !upstream.stream.is_quiet() {
                continue;
            }
            upstream.server = Arc::clone(server);
            upstream.is_reused = true;
            return Some(upstream);
        }
        None
    }

    /// Keeps a connection whose last response is complete.
    pub fn put(self: &Rc<Self>, mut upstream: Upstream) {
        upstream.buf.release();
        let until = Instant::now() + duration(upstream.server.timeouts.idle);
        let mut by_server = self.by_server.borrow_mut();
        let idle = by_server.entry(upstream.server.id).or_default();
        if idle.len() < IDLE_MAX {
            idle.push((until, upstream));
        }
        drop(by_server);
        match self.looks_at.get() {
            None => {
                self.looks_at.set(Some(until));
                tokio::task::spawn_local(Rc::clone(self).watch());
            }
            Some(next) if until < next => self.earlier.notify_one(),
            Some(_) => {}
        }
    }

    /// Closes a connection of a backend that must give up descriptors. Returns whether there was one.
    pub fn close_one(&self, gives: impl Fn(BackendId) -> bool) -> bool {
        let mut by_server = self.by_server.borrow_mut();
        let mut closed = by_server.values_mut().map(|idle| {
            // All connections to one server belong to one backend.
            let has_to_give = idle.last().is_some_and(|(_, last)| gives(last.server.backend));
            if has_to_give { idle.pop() } else { None }
        });
        let closed = closed.find_map(|closed| closed);
        drop(by_server);
        closed.is_some()
    }

    /// Closes all connections to servers that are no longer in use.
    pub fn retain(&self, is_kept: impl Fn(ServerId) -> bool) {
        self.by_server.borrow_mut().retain(|id, _| is_kept(*id));
    }

    /// Closes connections when they are too old, until there are none.
    async fn watch(self: Rc<Self>) {
        while let Some(next) = self.prune(Instant::now()) {
            self.looks_at.set(Some(next));
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.earlier.notified() => {}
            }
        }
        self.looks_at.set(None);
    }

    /// Closes connections that are too old. Returns when the next one will be.
    fn prune(&self, now: Instant) -> Option<Instant> {
        let mut by_server = self.by_server.borrow_mut();
        by_server.retain(|_, idle| {
            // They are in no order, because an edit may have changed the idle timeout.
            for (_, mut upstream) in idle.extract_if(.., |(until, _)| *until <= now) {
                upstream.stream.say_goodbye();
            }
            !idle.is_empty()
        });
        by_server.values().flatten().map(|(until, _)| *until).min()
    }
}

/// Why a server cannot be connected to.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// The connection failed.
    Socket(io::Error),
    /// The connection succeeded, but TLS on it failed.
    Tls(io::Error),
    /// The TLS files could not be read; the log gives the reason.
    Unready,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(error) => error.fmt(f),
            Self::Tls(error) => write!(f, "TLS: {error}"),
            Self::Unready => f.write_str("TLS: the files of its backend cannot be read"),
        }
    }
}

impl ConnectError {
    /// Whether it concerns TLS.
    pub const fn is_of_tls(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::Unready)
    }

    /// Whether it concerns the server, not the resources of this machine.
    pub fn is_of_server(&self) -> bool {
        use io::ErrorKind::{AddrNotAvailable, OutOfMemory, PermissionDenied};
        const NO_DESCRIPTORS: [i32; 3] = [
            rustix::io::Errno::MFILE.raw_os_error(),
            rustix::io::Errno::NFILE.raw_os_error(),
            rustix::io::Errno::NOBUFS.raw_os_error(),
        ];
        let error = match self {
            Self::Socket(error) => error,
            Self::Tls(_) => return true,
            Self::Unready => return false,
        };
        !matches!(error.kind(), AddrNotAvailable | OutOfMemory | PermissionDenied)
            && !error.raw_os_error().is_some_and(|number| NO_DESCRIPTORS.contains(&number))
    }

    /// What clients are shown of it: nothing about the connection itself.
    pub fn for_clients(&self) -> Option<&'static str> {
        match self {
            Self::Socket(_) => None,
            Self::Tls(error) if error.kind() == io::ErrorKind::TimedOut => {
                Some("the handshake took too long")
            }
            Self::Tls(error) => Some(tls::why(error).unwrap_or("the handshake failed")),
            Self::Unready => Some("its settings name files that cannot be read"),
        }
    }
}

/// Connects to a server.
pub(crate) async fn connect(
    server: &Arc<LiveServer>,
    descriptor: ServerDescriptor,
) -> Result<Upstream, ConnectError> {
    let wait = duration(server.timeouts.connect);
    let stream = open(server, &server.vitals.backlog, wait).await?;
    let (server, buf) = (Arc::clone(server), Buffer::default());
    Ok(Upstream { stream, buf, server, is_reused: false, _descriptor: descriptor })
}

/// Connects to a server, and performs the handshake if it uses TLS, both within `wait`. Callers with the same
/// `backlog` wait in line while the backlog of a unix socket is full.
pub(crate) async fn open(
    server: &LiveServer,
    backlog: &Mutex<()>,
    wait: Duration,
) -> Result<ServerStream, ConnectError> {
    let until = Instant::now() + wait;
    let opened = timeout_at(until, open_socket(&server.address, backlog, until)).await;
    let socket = opened.unwrap_or_else(late).map_err(ConnectError::Socket)?;
    socket.tell_soon();
    let Some((tls, name)) = &server.tls else { return Ok(ServerStream::Plain(socket)) };
    // The handshake future is large; it is boxed so that connections without TLS do not carry it.
    let handshake = Box::pin(tls.connect(name.clone(), socket));
    let shaken = timeout_at(until, handshake).await.unwrap_or_else(|_| Some(late(())));
    let stream = shaken.ok_or(ConnectError::Unready)?.map_err(ConnectError::Tls)?;
    Ok(ServerStream::Tls(Box::new(stream)))
}

fn late<T, E>(_: E) -> io::Result<T> {
    Err(io::ErrorKind::TimedOut.into())
}

async fn open_socket(address: &Address, backlog: &Mutex<()>, until: Instant) -> io::Result<Socket> {
    let socket = match address {
        Address::Socket(address) => TcpStream::connect(address).await?,
        Address::Host { name, port } => {
            let found = resolve::RESOLVER.addresses(name, *port).await?;
            dial::first(&found, until).await?
        }
        Address::Unix(path) => return Ok(Socket::Unix(connect_unix(path, backlog).await?)),
    };
    socket.set_nodelay(true)?;
    Ok(Socket::Tcp(socket))
}

/// Connects to a unix socket. The caller sets the timeout.
///
/// A server whose backlog is full is busy, not dead. A TCP connection would wait, but a unix socket fails with EAGAIN
/// (connect(2)), and the system does not report when there is room. So the connection is retried after a pause by the
/// first waiter, which holds `backlog`. If every waiter retried by itself, thousands of them would use up a core.
async fn connect_unix(path: &str, backlog: &Mutex<()>) -> io::Result<UnixStream> {
    // A request that arrives while others wait queues behind them.
    if backlog.try_lock().is_ok() {
        let connected = UnixStream::connect(path).await;
        if !is_full(&connected) {
            return connected;
        }
    }
    let _first = backlog.lock().await;
    let mut pause = BACKLOG_PAUSE;
    loop {
        let connected = UnixStream::connect(path).await;
        if !is_full(&connected) {
            return connected;
        }
        sleep(pause).await;
        pause = (pause * 2).min(BACKLOG_PAUSE_MAX);
    }
}

/// Whether the connection failed because the backlog is full.
fn is_full(connected: &io::Result<UnixStream>) -> bool {
    connected.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::{late, open_socket};
    use paceline_routing::Address;
    use std::io::ErrorKind;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::Duration;
    use tokio::sync::Mutex;
    use tokio::time::{Instant, timeout_at};

    /// A listener with room for one connection, and the connection that takes the room.
    struct Full {
        listener: socket2::Socket,
        path: PathBuf,
        _taken: UnixStream,
    }

    impl Full {
        fn address(&self) -> Address {
            Address::Unix(self.path.to_str().unwrap().into())
        }
    }

    impl Drop for Full {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    fn full(name: &str) -> Full {
        let path = std::env::temp_dir().join(format!("paceline-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None);
        let listener = listener.unwrap();
        listener.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
        listener.listen(0).unwrap();
        let taken = UnixStream::connect(&path).unwrap();
        Full { listener, path, _taken: taken }
    }

    /// The door waits for a server that is too busy to accept.
    #[tokio::test(start_paused = true)]
    async fn a_unix_socket_whose_backlog_is_full_is_waited_for() {
        let busy = full("busy");
        let (address, backlog) = (busy.address(), Mutex::default());
        let until = Instant::now() + Duration::from_secs(5);
        let accept = async {
            // The attempt has begun, and found no room.
            busy.listener.accept().unwrap();
        };
        let (opened, ()) = tokio::join!(biased; open_socket(&address, &backlog, until), accept);
        assert!(opened.is_ok(), "{opened:?}");
    }

    /// Many waiters cost no more than one: the first one retries, and the next one continues when it has connected.
    #[tokio::test(start_paused = true)]
    async fn requests_wait_in_line_for_a_unix_socket_whose_backlog_is_full_d1() {
        let busy = full("line");
        let (address, backlog) = (busy.address(), Mutex::default());
        let until = Instant::now() + Duration::from_secs(5);
        let mut first = pin!(open_socket(&address, &backlog, until));
        let mut second = pin!(open_socket(&address, &backlog, until));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(
            first.as_mut().poll(&mut cx).is_pending() && second.as_mut().poll(&mut cx).is_pending()
        );
        busy.listener.accept().unwrap();
        assert!(second.as_mut().poll(&mut cx).is_pending(), "it tries nothing before its turn");
        assert!(first.await.is_ok());
        busy.listener.accept().unwrap();
        assert!(second.await.is_ok());
    }

    /// The wait ends with the timeout.
    #[tokio::test(start_paused = true)]
    async fn a_unix_socket_whose_backlog_stays_full_times_out() {
        let stuck = full("stuck");
        let (address, backlog) = (stuck.address(), Mutex::default());
        let until = Instant::now() + Duration::from_secs(5);
        let opened =
            timeout_at(until, open_socket(&address, &backlog, until)).await.unwrap_or_else(late);
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
