//! One client's connection: reads messages, has the host do what they ask, writes what the host leaves in the outbox.
//!
//! One task per connection. It reads even while answers wait, so that a client may send thousands of requests before it
//! reads the first answer. It stops reading when the waiting answers exceed a bound. Answers that the client does not
//! take count in the budget of all connections. An idle connection keeps at most 16 KiB of buffer. A client that is
//! silent for a probe interval is sent an echo request, and disconnected if it stays silent for another interval. The
//! probe does not run while the connection is not read (too many answers wait, or a long message waits for its turn)
//! and everything is sent: that silence is not the client's. The connection notices then as well that the client has
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
    /// What is read from a socket before it is looked at; one a thread, not one a connection.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; 64 << 10].into());
}

/// How often a connection reads or writes before others have their turn.
const TURNS_MAX: u32 = 4;

/// How long a connection may be at work after its client has left before what the client has is given back.
const AT_WORK_MAX: Duration = Duration::from_millis(100);

/// The most that a connection keeps of an empty buffer.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// Bounds of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) frame_bytes_max: usize,
    pub(crate) depth_max: usize,
    /// How long a client may be silent before it is probed; none if it need not be.
    pub(crate) probe: Option<Duration>,
}

/// A stream whose client can be watched while it is not read.
pub(crate) trait Watched {
    /// Ends when the client has left.
    fn left(&self) -> Left;
    /// The same, also while it is read.
    fn closed(&self) -> Left;
}

/// Ends when a client has left.
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
    /// Whether it is not read just now.
    is_paused: bool,
    /// Ends when the client has left, while it is not read.
    left: Option<Left>,
    /// Notices that the client has left while this task works for it.
    watcher: Option<Watcher>,
    methods: Methods,
    intake: Intake,
    writer: Writer,
    out: Vec<u8>,
    out_at: usize,
    /// What the buffer and the answer that is being written count for.
    part: Part,
    /// What that answer keeps.
    taken: usize,
    probe: Option<Probe>,
    /// Set when an encrypted stream may hold bytes back.
    flush_due: bool,
    /// Set when the stream cannot be followed: answers to what came before still leave, then the
    /// reason, then it ends.
    ending: Option<Ending>,
}

/// A task that gives back what a client has when it has left, in case its own task is at work and does not notice. It
/// ends with this.
struct Watcher(JoinHandle<()>);

impl Watcher {
    fn new(closed: Left, end: impl FnOnce() + Send + 'static) -> Self {
        Self(tokio::spawn(async move {
            closed.await;
            // Most often the connection's task notices it at once. A client may also close its sending side only, and
            // wait for answers to what it has sent.
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
    /// Whether the client has been told.
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
    /// The host cut it off, or the client broke the protocol.
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
        let intake = Intake::new(bounds.frame_bytes_max, bounds.depth_max, turns, budget.part());
        Self {
            stream,
            is_paused: false,
            left: None,
            watcher: None,
            methods,
            intake,
            writer: Writer::default(),
            out: Vec::new(),
            out_at: 0,
            part,
            taken: 0,
            probe,
            flush_due: false,
            ending: None,
        }
    }

    /// Serves the client until it leaves or is cut off.
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
                    // Others have their turn between two pieces of a long exchange.
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
            let idle = self.out.is_empty();
            if idle
                && self.methods.session().is_settled()
                && let Some(ending) = &mut self.ending
            {
                if ending.said {
                    return Poll::Ready(End::Cut(ending.reason.clone()));
                }
                // What was answered meanwhile goes first.
                ending.said = true;
                self.fill();
                if let Some(ending) = self.ending.as_ref().filter(|_| !self.writer.is_unfinished())
                {
                    write_goodbye(&ending.reason, &mut self.out);
                }
                continue;
            }
            if idle && let Some(reason) = self.methods.session().outbox.finishing() {
                return Poll::Ready(End::Cut(reason.to_owned()));
            }
            // While the socket takes nothing, new items are no reason to wake up.
            let interest = if idle { Interest::Items } else { Interest::End };
            if !self.methods.session().outbox.register(cx.waker(), interest) {
                return Poll::Pending;
            }
        }
    }

    /// Reads once and does what the messages say. Pending also while too many answers wait.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        if let Some(reason) = self.methods.session().outbox.closed() {
            return Poll::Ready(Err(End::Cut(reason.to_owned())));
        }
        self.is_paused = self.ending.is_some() || self.methods.session().is_full();
        if self.is_paused {
            return Poll::Pending;
        }
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

    /// Takes note of why the stream cannot be followed, if so, and that the client is to be watched.
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
    fn fill(&mut self) {
        if self.out_at >= PIECE_BYTES {
            // A client that always leaves a little would otherwise let it grow to all it ever got.
            self.out.drain(..self.out_at);
            self.out_at = 0;
        }
        self.take();
        self.count();
    }

    /// Counts what waits here. A client with more than the least is cut off if there is no room for one that had read
    /// everything either.
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

    fn take(&mut self) {
        while self.out.len() - self.out_at < PIECE_BYTES {
            if self.writer.go_on(&mut self.out) {
                if self.writer.is_unfinished() {
                    // There is enough to write, or it takes long to find more: others have their turn.
                    return;
                }
                continue;
            }
            let Some(item) = self.methods.session().outbox.take() else { return };
            self.taken = item.own();
            self.writer.write(item, &mut self.out);
        }
    }

    /// Writes what there is. Pending when all is written too.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        self.fill();
        let failed = |error| Poll::Ready(Err(End::Failed(error)));
        let Some(rest) = self.out.get(self.out_at..).filter(|rest| !rest.is_empty()) else {
            // An encrypted stream holds bytes back until it is flushed.
            if self.flush_due {
                match ready!(Pin::new(&mut self.stream).poll_flush(cx)) {
                    Ok(()) => self.flush_due = false,
                    Err(error) => return failed(error),
                }
            }
            // An answer whose rows take long to find goes on after others have had their turn.
            let goes_on = self.writer.is_unfinished();
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
            // A client that takes a long answer bit by bit is not silent.
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
        if self.is_paused && self.out.is_empty() {
            // The client may have sent a sign of life, which is not read.
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
                // In the middle of an answer nothing else can be written; taking more of that
                // answer counts as a sign of life too.
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
