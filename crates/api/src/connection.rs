//! One connection: where it comes from, what is bound to it, and its timeouts.
//!
//! The HTTP library has one timer for the head of a request, which also runs while a kept-alive connection is
//! idle. Here these are two. A head that has begun must arrive within its time. An idle connection is closed
//! after a longer time (over TCP, where any client may connect, only once it has sent a request). A connection
//! with bound sessions is never closed for being idle, because its end is what ends them.
//!
//! A connection can be sealed, so that a client can let its children inherit it. From then on the daemon discards
//! everything it receives on that connection and waits only for its end.

use crate::large::FREE_BYTES;
use crate::limits::Limits;
use crate::socket::Socket;
use hyper::rt::{Sleep, Timer};
use paceline_host::registry::Asker;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many bytes of a sealed connection are discarded before a pause (more than a socket buffers), and how
/// long the pause is. So a child that writes without end uses little processor time.
const SEALED_BYTES: usize = 256 << 10;
const SEALED_PAUSE: Duration = Duration::from_millis(100);

/// Where a connection comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A process on this machine, run by this user.
    Unix {
        /// The user.
        uid: u32,
        /// Its name.
        user: Arc<str>,
    },
    /// A client at this address.
    Tcp(SocketAddr),
}

/// One connection, as long as it lasts.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) origin: Origin,
    /// The process at the other end of a unix socket, if it is visible from here.
    pub(crate) pid: Option<u32>,
    /// Its socket, as long as that is open.
    socket: OnceLock<Weak<Socket>>,
    began: Instant,
    /// Nanoseconds from `began` to the first byte of a request whose head is not complete; 0 if there is none.
    head_began: AtomicU64,
    /// Whether the head of a request was ever complete.
    has_asked: AtomicBool,
    /// Reads and writes that moved bytes.
    moved: AtomicU64,
    /// Nanoseconds from `began` to when the answer must be sent; 0 if there is no deadline.
    answer_due: AtomicU64,
    /// Sessions that end with the connection.
    bound: Mutex<Vec<String>>,
    bound_count: AtomicUsize,
    /// Whether it accepts no more requests.
    is_sealed: AtomicBool,
}

impl Connection {
    pub(crate) fn new(origin: Origin, pid: Option<u32>) -> Arc<Self> {
        Arc::new(Self {
            origin,
            pid,
            socket: OnceLock::new(),
            began: Instant::now(),
            head_began: AtomicU64::new(0),
            has_asked: AtomicBool::new(false),
            moved: AtomicU64::new(0),
            answer_due: AtomicU64::new(0),
            bound: Mutex::default(),
            bound_count: AtomicUsize::new(0),
            is_sealed: AtomicBool::new(false),
        })
    }

    /// Sets its socket.
    pub(crate) fn has_socket(&self, socket: &Arc<Socket>) {
        // A connection has only one socket.
        let _ = self.socket.set(Arc::downgrade(socket));
    }

    /// Calls `change` with the sessions bound to it.
    pub(crate) fn change_bound<T>(&self, change: impl FnOnce(&mut Vec<String>) -> T) -> T {
        let mut bound = self.bound();
        let value = change(&mut bound);
        self.bound_count.store(bound.len(), Ordering::Relaxed);
        value
    }

    fn bound(&self) -> MutexGuard<'_, Vec<String>> {
        self.bound.lock().unwrap_or_else(paceline_host::broken)
    }

    /// Makes it accept no more requests.
    pub(crate) fn seal(&self) {
        self.is_sealed.store(true, Ordering::Relaxed);
    }

    /// Whether it accepts no more requests.
    pub(crate) fn is_sealed(&self) -> bool {
        self.is_sealed.load(Ordering::Relaxed)
    }

    /// Ends when it accepts no more requests. Checked whenever the task of the connection runs.
    pub(crate) async fn sealed(&self) {
        std::future::poll_fn(|_| match self.is_sealed() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Called when the head of a request is complete, or its answer is ready: the next bytes belong to another
    /// request.
    pub(crate) fn head_done(&self) {
        self.head_began.store(0, Ordering::Relaxed);
        self.has_asked.store(true, Ordering::Relaxed);
    }

    /// Until when the first head must be complete; `None` if it was, or if there is no deadline.
    fn first_due(&self, head_max: Duration) -> Option<Instant> {
        let is_hurried = matches!(self.origin, Origin::Tcp(_));
        let is_first = is_hurried && !self.has_asked.load(Ordering::Relaxed);
        is_first.then(|| self.began + head_max)
    }

    /// Called when an answer of this many bytes begins to be sent. An answer that counts leaves less to others,
    /// so the client has limited time to read it.
    pub(crate) fn answer_begins(&self, bytes: u64, limits: &Limits) {
        let due = match bytes > FREE_BYTES as u64 {
            true => {
                let seconds = bytes / limits.large_bytes_per_second_min.max(1);
                self.began.elapsed() + limits.large_max + Duration::from_secs(seconds)
            }
            false => Duration::ZERO,
        };
        let due = u64::try_from(due.as_nanos()).unwrap_or(u64::MAX);
        self.answer_due.store(due, Ordering::Relaxed);
    }

    /// When the answer must be sent, if there is a deadline.
    fn answer_due(&self) -> Option<Instant> {
        match self.answer_due.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(self.began + Duration::from_nanos(nanos)),
        }
    }

    /// How many reads and writes have moved bytes.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    fn bytes_moved(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
    }

    /// Called when bytes arrive. Empty lines between two requests are ignored (RFC 9112, section 2.2), so they
    /// begin none.
    fn bytes_came(&self, bytes: &[u8]) {
        if bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n')) {
            return;
        }
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1);
        // Only the first byte counts.
        let _ = self.head_began.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn head_began(&self) -> Option<Instant> {
        match self.head_began.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(self.began + Duration::from_nanos(nanos)),
        }
    }
}

impl Asker for Connection {
    fn has_left(&self) -> bool {
        let socket = self.socket.get();
        socket.is_some_and(|socket| socket.upgrade().is_none_or(|socket| socket.has_left()))
    }
}

/// A stream that reports arriving bytes to its connection, and fails if the peer accepts none for long.
pub(crate) struct Watched<S> {
    stream: S,
    connection: Arc<Connection>,
    write_pause_max: Duration,
    /// Runs only while bytes wait that the peer does not accept.
    stalled: Option<Pin<Box<tokio::time::Sleep>>>,
    /// Runs only after many bytes arrived on a sealed connection.
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S, connection: &Arc<Connection>, write_pause_max: Duration) -> Self {
        let connection = Arc::clone(connection);
        Self { stream, connection, write_pause_max, stalled: None, pause: None }
    }

    /// The result of a write, or the timeout if nothing was written for too long.
    fn not_for_long(
        &mut self,
        written: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let due = self.connection.answer_due();
        let is_late = due.is_some_and(|due| due <= Instant::now());
        if written.is_ready() && !is_late {
            self.connection.bytes_moved();
            self.stalled = None;
            return written;
        }
        let pause = self.write_pause_max;
        let stalled = self.stalled.get_or_insert_with(|| {
            let left = due.map_or(pause, |due| due.saturating_duration_since(Instant::now()));
            Box::pin(tokio::time::sleep(pause.min(left)))
        });
        if !is_late {
            ready!(stalled.as_mut().poll(cx));
        }
        let message = "the client does not read what it is sent, or too slowly";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

impl<S: AsyncRead + Unpin> Watched<S> {
    /// Discards the bytes on a sealed connection; ready only when it ends.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut space = [0; 4 << 10];
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let mut dropped = 0;
            while dropped < SEALED_BYTES {
                let mut buffer = ReadBuf::new(&mut space);
                ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
                match buffer.filled().len() {
                    0 => return Poll::Ready(Ok(())),
                    count => dropped += count,
                }
            }
            self.pause = Some(Box::pin(tokio::time::sleep(SEALED_PAUSE)));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.connection.is_sealed() {
            return self.poll_end(cx);
        }
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        if let Some(bytes @ [_, ..]) = buffer.filled().get(before..) {
            self.connection.bytes_moved();
            self.connection.bytes_came(bytes);
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.not_for_long(written, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.not_for_long(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The timer that the HTTP library uses while it waits for the head of a request.
pub(crate) struct HeadTimer {
    pub(crate) connection: Arc<Connection>,
    pub(crate) limits: Limits,
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(HeadSleep {
            sleep: Box::pin(tokio::time::sleep_until(deadline.into())),
            connection: Arc::clone(&self.connection),
            limits: self.limits,
            idle_since: Instant::now(),
        })
    }
}

/// Ends when the head takes too long, or the connection has been idle too long.
struct HeadSleep {
    sleep: Pin<Box<tokio::time::Sleep>>,
    connection: Arc<Connection>,
    limits: Limits,
    idle_since: Instant,
}

impl Sleep for HeadSleep {}

impl HeadSleep {
    /// When to check again; `None` if the time has expired.
    fn next(&self, now: Instant) -> Option<Instant> {
        if let Some(due) = self.connection.first_due(self.limits.head_max) {
            return (due > now).then_some(due);
        }
        if let Some(began) = self.connection.head_began() {
            let due = began + self.limits.head_max;
            return (due > now).then_some(due);
        }
        let due = self.idle_since + self.limits.idle_max;
        if due > now {
            return Some(due);
        }
        let is_bound = self.connection.bound_count.load(Ordering::Relaxed) > 0;
        is_bound.then(|| now + self.limits.idle_max)
    }
}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(next) = self.next(Instant::now()) else { return Poll::Ready(()) };
            if self.sleep.deadline() > next.into() || self.sleep.is_elapsed() {
                self.sleep.as_mut().reset(next.into());
            }
            ready!(self.sleep.as_mut().poll(cx));
        }
    }
}
