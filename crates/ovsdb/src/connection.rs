//! One client connection: reads messages, passes them to the host, and writes what the host puts into the outbox.
//!
//! One task per connection. It reads even while answers wait, so that a client may send thousands of requests before it
//! reads the first answer. It stops reading when the waiting answers exceed a bound. Answers that the client does not
//! take count in the budget of all connections. An idle connection keeps at most 16 KiB of buffer. A client that is
//! silent for a probe interval is sent an echo request, and disconnected if it stays silent for another interval. The
//! probe does not run while the connection is not read (too many answers wait, or a long message waits for its turn)
//! and everything is sent, or while an answer is being made beside: that silence is not the client's. The connection notices then as well that the client has
//! left; while its task works for a client that has asked for a lock, a separate task notices it (promise L3).

use crate::intake::Intake;
use crate::methods::Methods;
use crate::respond::{PIECE_BYTES, Writer, write_goodbye, write_probe};
use crate::turns::PeerTurns;
use paceline_host::{Interest, Part, closed, left};
use paceline_types::limits::SHARE_BYTES_MIN;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_rustls::server::TlsStream;

thread_local! {
    /// The read buffer, one for each thread rather than for each connection.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; 64 << 10].into());
}

/// How often a connection reads or writes before other connections get their turn.
const TURNS_MAX: u32 = 4;

/// How long a connection's task may continue to work after its client has disconnected before everything that the
/// client holds is released.
const AT_WORK_MAX: Duration = Duration::from_millis(100);

/// Maximum capacity that a connection keeps in an empty buffer.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// Bounds of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) frame_bytes_max: usize,
    pub(crate) depth_max: usize,
    /// How long a client may be silent before it is probed; none disables the probe.
    pub(crate) probe: Option<Duration>,
}

/// A stream whose client can be watched while the stream is not read.
pub(crate) trait Watched {
    /// Resolves when the client has disconnected.
    fn left(&self) -> Left;
    /// Resolves when the client has disconnected, even while the stream is read.
    fn closed(&self) -> Left;
}

/// Resolves when a client has disconnected.
pub(crate) type Left = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Watched for UnixStream {
    fn left(&self) -> Left {
        Box::pin(left(self))
    }

    fn closed(&self) -> Left {
        Box::pin(closed(self))
    }
}

impl Watched for TcpStream {
    fn left(&self) -> Left {
        Box::pin(left(self))
    }

    fn closed(&self) -> Left {
        Box::pin(closed(self))
    }
}

impl<S: Watched> Watched for TlsStream<S> {
    fn left(&self) -> Left {
        self.get_ref().0.left()
    }

    fn closed(&self) -> Left {
        self.get_ref().0.closed()
    }
}

pub(crate) struct Connection<S> {
    stream: S,
    /// Whether the stream is currently not read.
    is_paused: bool,
    /// Resolves when the client has disconnected; set while the stream is not read.
    left: Option<Left>,
    /// Notices that the client has disconnected while this task works for it.
    watcher: Option<Watcher>,
    methods: Methods,
    intake: Intake,
    writer: Writer,
    out: Vec<u8>,
    out_at: usize,
    /// The part of the budget for the buffer and for the response that is being written.
    part: Part,
    /// Memory that this response holds.
    taken: usize,
    probe: Option<Probe>,
    /// Set when an encrypted stream may hold back bytes.
    flush_due: bool,
    /// Set when the stream cannot be parsed any further. Responses to earlier requests are still sent, then the
    /// reason, and then the connection ends.
    ending: Option<Ending>,
}

/// A task that releases everything that a client holds when the client has disconnected, in case the connection's own
/// task is busy and does not notice. The task ends when this is dropped.
struct Watcher(JoinHandle<()>);

impl Watcher {
    fn new(closed: Left, end: impl FnOnce() + Send + 'static) -> Self {
        Self(tokio::spawn(async move {
            closed.await;
            // Usually the connection's task notices it at once. A client may also close only its sending side, and
            // wait for responses.
            tokio::time::sleep(AT_WORK_MAX).await;
            block_in_place(end);
        }))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a connection is about to end.
struct Ending {
    reason: String,
    /// Whether the reason was sent to the client.
    said: bool,
}

struct Probe {
    interval: Duration,
    heard: Instant,
    asked: bool,
    timer: Pin<Box<Sleep>>,
}

/// Why a connection ended, for the log.
#[derive(Debug)]
pub(crate) enum End {
    /// The client closed it.
    Closed,
    /// The host closed it, or the client violated the protocol.
    Cut(String),
    /// The network failed.
    Failed(io::Error),
}

impl<S: AsyncRead + AsyncWrite + Watched + Unpin> Connection<S> {
    pub(crate) fn new(stream: S, methods: Methods, bounds: Bounds, turns: PeerTurns) -> Self {
        let probe = bounds.probe.map(|interval| {
            let heard = Instant::now();
            let timer = Box::pin(sleep_until(heard + interval));
            Probe { interval, heard, asked: false, timer }
        });
        let budget = methods.session().outbox.budget();
        let part = budget.part();
        let writer = Writer::new(methods.host().beside().clone(), methods.session().clone());
        let intake = Intake::new(bounds.frame_bytes_max, bounds.depth_max, turns, budget.part());
        Self {
            stream,
            is_paused: false,
            left: None,
            watcher: None,
            methods,
            intake,
            writer,
            out: Vec::new(),
            out_at: 0,
            part,
            taken: 0,
            probe,
            flush_due: false,
            ending: None,
        }
    }

    /// Serves the client until it disconnects or is disconnected.
    pub(crate) async fn run(mut self) -> End {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.methods.session().outbox.awake();
        let mut turns = 0;
        loop {
            let read = self.poll_read(cx);
            let wrote = self.poll_write(cx);
            match (read, wrote) {
                (Poll::Ready(Err(end)), _) | (_, Poll::Ready(Err(end))) => return Poll::Ready(end),
                (Poll::Pending, Poll::Pending) => {}
                _ if turns < TURNS_MAX && !self.writer.is_searching() => {
                    turns += 1;
                    continue;
                }
                _ => {
                    // Other connections get their turn between two pieces of a long exchange.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            if let Some(reason) = self.methods.session().outbox.closed() {
                return Poll::Ready(End::Cut(reason.to_owned()));
            }
            if let Poll::Ready(end) = self.poll_probe(cx) {
                return Poll::Ready(end);
            }
            if self.is_paused {
                let left = self.left.get_or_insert_with(|| self.stream.left());
                if left.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(End::Closed);
                }
            }
            let idle = self.out.is_empty() && !self.writer.is_away();
            if idle
                && self.methods.session().is_settled()
                && let Some(ending) = &mut self.ending
            {
                if ending.said {
                    return Poll::Ready(End::Cut(ending.reason.clone()));
                }
                // Responses that became ready meanwhile are sent first.
                ending.said = true;
                self.fill(cx);
                if let Some(ending) = self.ending.as_ref().filter(|_| !self.writer.is_unfinished())
                {
                    write_goodbye(&ending.reason, &mut self.out);
                }
                continue;
            }
            if idle && let Some(reason) = self.methods.session().outbox.finishing() {
                return Poll::Ready(End::Cut(reason.to_owned()));
            }
            // While the socket takes nothing, there is no reason to wake up for new items.
            let interest = if idle { Interest::Items } else { Interest::End };
            if !self.methods.session().outbox.register(cx.waker(), interest) {
                return Poll::Pending;
            }
        }
    }

    /// Reads once and handles the messages. Also pending while too many responses wait.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        if let Some(reason) = self.methods.session().outbox.closed() {
            return Poll::Ready(Err(End::Cut(reason.to_owned())));
        }
        self.is_paused = self.ending.is_some() || self.methods.session().is_full();
        if self.is_paused {
            self.intake.stop_waiting();
            return Poll::Pending;
        }
        let Poll::Ready(_working) = self.intake.poll_work(cx) else {
            self.is_paused = true;
            return Poll::Pending;
        };
        match self.intake.poll_rest(cx, &mut self.methods) {
            Poll::Ready(None) => {}
            Poll::Ready(Some(taken)) => {
                self.note(taken);
                return Poll::Ready(Ok(()));
            }
            Poll::Pending => {
                self.is_paused = true;
                return Poll::Pending;
            }
        }
        self.left = None;
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            let polled = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
            if let Err(error) = ready!(polled) {
                return Poll::Ready(Err(End::Failed(error)));
            }
            let bytes = buffer.filled();
            if bytes.is_empty() {
                return Poll::Ready(Err(End::Closed));
            }
            if let Some(probe) = &mut self.probe {
                (probe.heard, probe.asked) = (Instant::now(), false);
            }
            let taken = self.intake.take(bytes, &mut self.methods);
            self.note(taken);
            Poll::Ready(Ok(()))
        })
    }

    /// Records why the stream cannot be parsed, if so, and begins to watch the client if necessary.
    fn note(&mut self, taken: Result<(), String>) {
        if self.watcher.is_none() && self.methods.has_locked() {
            self.watcher = Some(Watcher::new(self.stream.closed(), self.methods.ending()));
        }
        if let Err(reason) = taken {
            self.intake.forget();
            self.ending = Some(Ending { reason, said: false });
        }
    }

    /// Moves what waits in the outbox into the buffer, up to a piece.
    fn fill(&mut self, cx: &mut Context<'_>) {
        if self.out_at >= PIECE_BYTES {
            // Otherwise, if a client always leaves some bytes unread, the buffer would keep everything that the
            // client ever got.
            self.out.drain(..self.out_at);
            self.out_at = 0;
        }
        self.take(cx);
        self.count();
    }

    /// Counts what waits here. If the budget is exceeded and the client leaves more unread than every client is
    /// allowed, it is disconnected.
    fn count(&mut self) {
        let taken = if self.writer.is_unfinished() { self.taken } else { 0 };
        let bytes = self.out.len() + taken;
        if bytes <= self.part.bytes() {
            return self.part.set(bytes);
        }
        self.part.set(bytes);
        if bytes > 4 * SHARE_BYTES_MIN && self.part.budget().is_exceeded() {
            let outbox = &self.methods.session().outbox;
            outbox.close("no memory is left for its answers: clients leave too much unread");
        }
    }

    fn take(&mut self, cx: &mut Context<'_>) {
        while self.out.len() - self.out_at < PIECE_BYTES {
            match self.writer.poll_away(cx, &mut self.out) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    let outbox = &self.methods.session().outbox;
                    return outbox.close("a fault of the daemon ended the connection");
                }
                Poll::Pending => return,
            }
            if self.writer.go_on(&mut self.out) {
                if self.writer.is_away() {
                    continue;
                }
                if self.writer.is_unfinished() {
                    // There is enough to write, or finding more takes long: other connections get their turn.
                    return;
                }
                continue;
            }
            let Some(item) = self.methods.session().outbox.take() else { return };
            self.taken = item.own();
            self.writer.write(item, &mut self.out);
        }
    }

    /// Writes what there is. Also pending when everything is written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        self.fill(cx);
        let failed = |error| Poll::Ready(Err(End::Failed(error)));
        let Some(rest) = self.out.get(self.out_at..).filter(|rest| !rest.is_empty()) else {
            // An encrypted stream holds back bytes until it is flushed.
            if self.flush_due {
                match ready!(Pin::new(&mut self.stream).poll_flush(cx)) {
                    Ok(()) => self.flush_due = false,
                    Err(error) => return failed(error),
                }
            }
            // An answer whose rows take long to find continues after others have had their turn, or when its next piece is
            // made beside.
            let goes_on = self.writer.is_unfinished() && !self.writer.is_away();
            return if goes_on { Poll::Ready(Ok(())) } else { Poll::Pending };
        };
        let written = match ready!(Pin::new(&mut self.stream).poll_write(cx, rest)) {
            Ok(0) => return Poll::Ready(Err(End::Closed)),
            Ok(written) => written,
            Err(error) => return failed(error),
        };
        self.flush_due = true;
        self.out_at += written;
        let backlog = self.out_at < self.out.len() || self.writer.is_unfinished();
        if let Some(probe) = self.probe.as_mut().filter(|_| backlog) {
            // A client that reads a long response slowly is not silent.
            (probe.heard, probe.asked) = (Instant::now(), false);
        }
        if self.out_at == self.out.len() {
            self.out_at = 0;
            self.out.clear();
            if self.out.capacity() > KEPT_BYTES_MAX {
                self.out = Vec::new();
            }
            self.count();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_probe(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let Some(probe) = &mut self.probe else { return Poll::Pending };
        if (self.is_paused || self.writer.is_away()) && self.out.is_empty() {
            // The client may have sent a sign of life, which is not read; or it waits for an answer that is being made.
            (probe.heard, probe.asked) = (Instant::now(), false);
        }
        while probe.timer.as_mut().poll(cx).is_ready() {
            let due = probe.heard + probe.interval * if probe.asked { 2 } else { 1 };
            if Instant::now() < due {
                probe.timer.as_mut().reset(due);
            } else if probe.asked {
                return Poll::Ready(End::Cut("it did not answer the inactivity probe".to_owned()));
            } else {
                probe.asked = true;
                probe.timer.as_mut().reset(probe.heard + probe.interval * 2);
                // In the middle of a response nothing else can be written. Reading more of that response also shows
                // that the client is alive.
                if !self.writer.is_unfinished() {
                    write_probe(&mut self.out);
                    cx.waker().wake_by_ref();
                }
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
