//! What has left of the responses of one connection, and what is held for a client that does not read.
//!
//! `h2` takes frames and does not tell when they are gone. Only what the socket has taken counts here: a
//! stream is over when its last frame is, and its bytes are those that were written. Whoever reads the
//! connection at all reads all streams that wait for their turn on it, so they share its progress.

use super::frames::{CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Head, Part};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// What one stream may hold for its client.
const STREAM_HELD_MAX: usize = 128 << 10;

/// What all streams of a connection may hold so, buffers included; above it each may only hold `PIECE`. With a hundred
/// streams that is less than 1 MiB.
const CONNECTION_HELD_MAX: usize = 384 << 10;

/// What a stream may always hold.
const PIECE: usize = 4 << 10;

/// The shortest piece that is queued behind another: each costs some hundred bytes besides its own.
pub(super) const PIECE_MIN: usize = 4 << 10;

/// The window of a connection at its beginning (RFC 9113 6.9.2).
const FIRST_WINDOW: i64 = 65_535;

/// What all streams of a connection share.
#[derive(Debug)]
pub(super) struct Outlet {
    streams: RefCell<BTreeMap<u32, Rc<Sent>>>,
    /// Bytes that are held for the client, within `h2` or before it.
    held: Cell<usize>,
    /// What of that is within `h2`.
    queued: Cell<i64>,
    /// What the client lets the connection send, less what was sent.
    window: Cell<i64>,
    /// When the client last let the connection send nothing more, if it ever did.
    tight: Cell<Option<Instant>>,
    /// When the socket last took something of a body.
    last: Cell<Instant>,
    is_over: Cell<bool>,
}

/// What has left of one stream.
#[derive(Debug, Default)]
struct Sent {
    bytes: Cell<u64>,
    /// Heads, those before the last one included.
    heads: Cell<u32>,
    /// Whether the block that is being written is the end of the stream.
    is_last_block: Cell<bool>,
    has_ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Sent {
    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl Outlet {
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            streams: RefCell::default(),
            held: Cell::new(0),
            queued: Cell::new(0),
            window: Cell::new(FIRST_WINDOW),
            tight: Cell::new(None),
            last: Cell::new(Instant::now()),
            is_over: Cell::new(false),
        })
    }

    /// The socket has taken this part of a frame.
    pub fn wrote(&self, head: Head, part: Part<'_>) {
        if !matches!(head.kind, DATA | HEADERS | CONTINUATION) {
            return;
        }
        let streams = self.streams.borrow();
        let sent = streams.get(&head.stream);
        match part {
            Part::Payload(bytes) if head.kind == DATA => {
                self.window.set(self.window.get() - bytes.len() as i64);
                self.last.set(Instant::now());
                if let Some(sent) = sent {
                    sent.bytes.set(sent.bytes.get() + bytes.len() as u64);
                    self.queued.set(self.queued.get() - bytes.len() as i64);
                }
            }
            Part::Begin | Part::Payload(_) => {}
            Part::End => {
                let Some(sent) = sent else { return };
                if head.kind == DATA {
                    sent.has_ended.set(head.has(END_STREAM));
                } else {
                    let is_last =
                        sent.is_last_block.get() || (head.kind == HEADERS && head.has(END_STREAM));
                    sent.is_last_block.set(is_last);
                    if head.has(END_HEADERS) {
                        sent.heads.set(sent.heads.get() + 1);
                        sent.has_ended.set(is_last);
                    }
                }
                sent.wake();
            }
        }
    }

    /// The client lets the connection send so much more.
    pub fn widen(&self, by: u32) {
        self.note_tight();
        self.window.set(self.window.get() + i64::from(by));
    }

    /// Whether the client lets the connection send nothing more, or less than streams that have something queued would
    /// send.
    fn is_tight(&self) -> bool {
        self.window.get() - self.queued.get() < PIECE_MIN as i64
    }

    /// To be called before that may end and after it may have begun.
    fn note_tight(&self) {
        if self.is_tight() {
            self.tight.set(Some(Instant::now()));
        }
    }

    /// Nothing more is written: the connection is gone.
    pub fn end(&self) {
        self.is_over.set(true);
        self.streams.borrow().values().for_each(|sent| sent.wake());
    }
}

/// One stream's way out.
#[derive(Debug)]
pub(super) struct Flow {
    outlet: Rc<Outlet>,
    sent: Rc<Sent>,
    stream: u32,
    /// Bytes and heads that `h2` was given.
    given: u64,
    heads: u32,
    /// What it holds, as its connection has it.
    held: usize,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.outlet.note_tight();
        self.outlet.queued.set(self.outlet.queued.get() - self.queued() as i64);
        self.outlet.held.set(self.outlet.held.get() - self.held);
        self.outlet.streams.borrow_mut().remove(&self.stream);
    }
}

impl Flow {
    pub fn new(outlet: &Rc<Outlet>, stream: u32) -> Self {
        let sent = Rc::<Sent>::default();
        outlet.streams.borrow_mut().insert(stream, Rc::clone(&sent));
        Self { outlet: Rc::clone(outlet), sent, stream, given: 0, heads: 0, held: 0 }
    }

    /// `h2` was given so many bytes of the body.
    pub fn give(&mut self, len: usize) {
        self.given += len as u64;
        self.outlet.queued.set(self.outlet.queued.get() + len as i64);
        self.outlet.note_tight();
    }

    /// `h2` was given a head.
    pub const fn give_head(&mut self) {
        self.heads += 1;
    }

    /// So many bytes are held besides those that `h2` has, buffers included.
    pub fn hold(&mut self, besides: usize) {
        let held = self.queued() + besides;
        self.outlet.held.set(self.outlet.held.get() - self.held + held);
        self.held = held;
    }

    /// The task is woken when something has left.
    pub fn wait(&self, cx: &Context<'_>) {
        let mut waker = self.sent.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Whether its connection holds so much that each stream may only hold little.
    pub fn is_short(&self) -> bool {
        self.outlet.held.get() >= CONNECTION_HELD_MAX
    }

    /// How much it may hold.
    pub fn held_max(&self) -> usize {
        if self.is_short() { PIECE } else { STREAM_HELD_MAX }
    }

    /// Bytes of the body that have left.
    pub fn bytes(&self) -> u64 {
        self.sent.bytes.get()
    }

    /// Bytes of the body that `h2` has.
    pub fn queued(&self) -> usize {
        (self.given - self.bytes()) as usize
    }

    /// Whether all heads have left.
    pub fn has_no_head(&self) -> bool {
        self.sent.heads.get() >= self.heads
    }

    /// Whether the last frame has left.
    pub fn has_ended(&self) -> bool {
        self.sent.has_ended.get()
    }

    /// Whether nothing more can leave.
    pub fn is_cut(&self) -> bool {
        self.outlet.is_over.get() && !self.has_ended()
    }

    /// Until when a client that has `wait` for the next step is waited for. What holds this stream up may be
    /// its connection, which is not read faster: then each step on the connection counts. A window of its
    /// own that the client keeps closed is its own affair. Which of the two it is can be told only where the
    /// connection's window has been open for as long: until then what the client lets it send may go to others.
    pub fn patience(&self, wait: Duration) -> Option<Instant> {
        let outlet = &self.outlet;
        let is_held_up = self.queued() > 0 || !self.has_no_head() || outlet.is_tight();
        let last = outlet.last.get();
        let held_up =
            if is_held_up { Some(last) } else { outlet.tight.get().map(|at| at.min(last)) };
        held_up.map(|at| at + wait).filter(|until| *until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::{CONNECTION_HELD_MAX, Flow, Outlet, PIECE, STREAM_HELD_MAX};
    use crate::serve::h2::frames::{DATA, END_HEADERS, END_STREAM, Frames, HEADERS};
    use std::time::Duration;

    fn write(outlet: &Outlet, kind: u8, flags: u8, stream: u8, len: u8) {
        let mut frame = vec![0, 0, len, kind, flags, 0, 0, 0, stream];
        frame.resize(9 + usize::from(len), 0);
        Frames::default().pass(&frame, |head, part| outlet.wrote(head, part));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_has_ended_when_its_last_frame_is_written() {
        let outlet = Outlet::new();
        let (mut data, mut trailers) = (Flow::new(&outlet, 1), Flow::new(&outlet, 3));
        for flow in [&mut data, &mut trailers] {
            flow.give_head();
            flow.give(20);
        }
        write(&outlet, HEADERS, END_HEADERS, 1, 5);
        assert!(data.has_no_head() && !trailers.has_no_head());
        write(&outlet, DATA, 0, 1, 10);
        assert_eq!((data.bytes(), data.queued(), data.has_ended()), (10, 10, false));
        write(&outlet, DATA, END_STREAM, 1, 10);
        assert_eq!((data.bytes(), data.queued(), data.has_ended()), (20, 0, true));
        write(&outlet, HEADERS, END_STREAM, 3, 5);
        assert!(!trailers.has_ended(), "the block goes on");
        outlet.end();
        assert!(trailers.is_cut() && !data.is_cut());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_connection_holds_bounds_its_streams_d1() {
        let outlet = Outlet::new();
        let mut flows: Vec<Flow> = (0..100).map(|n| Flow::new(&outlet, 2 * n + 1)).collect();
        let mut held = 0;
        for flow in &mut flows {
            let len = flow.held_max();
            flow.hold(len);
            held += len;
        }
        assert!(held <= CONNECTION_HELD_MAX + STREAM_HELD_MAX + 100 * PIECE, "{held}");
        drop(flows);
        assert_eq!(Flow::new(&outlet, 1).held_max(), STREAM_HELD_MAX, "it is given back");
    }

    /// On a made-up clock: a client that reads one of many streams and widens the connection's window by what it has read,
    /// whenever the others look.
    #[tokio::test(start_paused = true)]
    async fn who_waits_for_the_connections_window_is_held_up_however_often_it_opens_d2() {
        let wait = Duration::from_secs(30);
        let outlet = Outlet::new();
        let (mut served, waiting) = (Flow::new(&outlet, 1), Flow::new(&outlet, 3));
        served.give(65_535);
        for _ in 0..100 {
            tokio::time::advance(Duration::from_secs(1)).await;
            write(&outlet, DATA, 0, 1, 100);
            outlet.widen(10_000);
            assert!(waiting.patience(wait).is_some() && waiting.patience(wait).is_some());
            served.give(10_000);
        }
        outlet.widen(100_000);
        for _ in 0..31 {
            tokio::time::advance(Duration::from_secs(1)).await;
            write(&outlet, DATA, 0, 1, 100);
        }
        assert!(
            waiting.patience(wait).is_none(),
            "there was room for it, and only its own window stops it"
        );
    }

    /// On a made-up clock.
    #[tokio::test(start_paused = true)]
    async fn a_step_of_the_connection_counts_for_those_that_it_holds_up_d2() {
        let wait = Duration::from_secs(30);
        let outlet = Outlet::new();
        let (mut queued, closed) = (Flow::new(&outlet, 1), Flow::new(&outlet, 3));
        let mut other = Flow::new(&outlet, 5);
        queued.give(10);
        other.give(200);
        tokio::time::advance(Duration::from_secs(29)).await;
        write(&outlet, DATA, 0, 5, 100);
        tokio::time::advance(Duration::from_secs(29)).await;
        assert!(queued.patience(wait).is_some());
        assert!(closed.patience(wait).is_none(), "only its own window stops it");
        other.give(65_535);
        assert!(closed.patience(wait).is_some(), "the connection's window is used up");
        outlet.widen(100_000);
        let until = closed.patience(wait).expect("the window may be another's");
        assert!(until <= tokio::time::Instant::now() + wait, "but not for ever");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(queued.patience(wait).is_none(), "nothing has been read for too long");
    }
}
