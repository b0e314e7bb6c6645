//! What has left of the responses of one connection, and what is held for a client that does not read.
//!
//! `h2` takes frames and does not report when they have left. Only what the socket has taken counts here: a
//! stream ends when its last frame has left, and its bytes are those that were written. A client that reads the
//! connection reads all streams that wait for their turn on it, so they share its progress.

use super::frames::{CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Head, Part};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// What one stream may hold for its client.
const STREAM_HELD_MAX: usize = 128 << 10;

/// What all streams of a connection may hold so, buffers included. Above it streams take turns, and only where little is
/// on its way to the client each may hold `PIECE`. With a hundred streams that is less than 1 MiB.
const CONNECTION_HELD_MAX: usize = 384 << 10;

/// What keeps a socket busy. While `h2` has less, what the connection holds cannot leave before windows of single streams
/// open: then the others go on in small pieces.
const QUEUED_MIN: i64 = 32 << 10;

/// What a stream may hold then.
const PIECE: usize = 4 << 10;

/// The shortest piece that is queued behind another: each costs some hundred bytes besides its own.
pub(super) const PIECE_MIN: usize = 4 << 10;

/// The window of a connection at its beginning (RFC 9113 6.9.2).
const FIRST_WINDOW: i64 = 65_535;

/// What all streams of a connection share.
#[derive(Debug)]
pub(super) struct Outlet {
    streams: RefCell<BTreeMap<u32, Rc<Sent>>>,
    /// Streams that would read on but wait for their turn, the first one first.
    turns: RefCell<VecDeque<u32>>,
    /// Whether a stream has its turn and has not read since.
    is_given: Cell<bool>,
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
    turn: Cell<Turn>,
    waker: RefCell<Option<Waker>>,
}

/// Whether a stream waits for its turn.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Turn {
    #[default]
    Idle,
    Waits,
    /// It is its turn, and it has not read since.
    Has,
    /// It has read since.
    Uses,
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
            turns: RefCell::default(),
            is_given: Cell::new(false),
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
        self.note(head, part);
        self.pass_turn();
    }

    fn note(&self, head: Head, part: Part<'_>) {
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

    /// Whether it holds so much that its streams take turns.
    fn is_short(&self) -> bool {
        self.held.get() >= CONNECTION_HELD_MAX
    }

    /// What a stream may hold whose turn it is.
    fn held_max(&self) -> usize {
        match self.is_short() {
            false => STREAM_HELD_MAX,
            true if self.queued.get() < QUEUED_MIN => PIECE,
            true => 0,
        }
    }

    /// It is the next one's turn, if that could read anything.
    fn pass_turn(&self) {
        if self.is_given.get() || self.held_max() == 0 {
            return;
        }
        let Some(next) = self.turns.borrow_mut().pop_front() else { return };
        if let Some(sent) = self.streams.borrow().get(&next) {
            self.is_given.set(true);
            sent.turn.set(Turn::Has);
            sent.wake();
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
        match self.sent.turn.get() {
            Turn::Waits => self.outlet.turns.borrow_mut().retain(|stream| *stream != self.stream),
            Turn::Has | Turn::Uses => self.outlet.is_given.set(false),
            Turn::Idle => {}
        }
        self.outlet.pass_turn();
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

    /// The task is woken when something has left, or it is its turn: it may have got that while it was polled.
    pub fn wait(&self, cx: &Context<'_>) {
        if self.sent.turn.get() == Turn::Has {
            cx.waker().wake_by_ref();
        }
        let mut waker = self.sent.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Whether its connection holds so much that streams take turns.
    pub fn is_short(&self) -> bool {
        self.outlet.is_short()
    }

    /// How much it may hold: nothing more, if others are before it.
    pub fn held_max(&self) -> usize {
        match self.sent.turn.get() {
            Turn::Has | Turn::Uses => self.outlet.held_max(),
            Turn::Idle if self.outlet.turns.borrow().is_empty() => self.outlet.held_max(),
            Turn::Idle | Turn::Waits => 0,
        }
    }

    /// How much it may read at a time before its head is whole. Heads take no turns.
    pub fn head_max(&self) -> usize {
        if self.is_short() { PIECE } else { STREAM_HELD_MAX }
    }

    /// It has read on.
    pub fn use_turn(&self) {
        if self.sent.turn.get() == Turn::Has {
            self.sent.turn.set(Turn::Uses);
        }
    }

    /// It has read what it can for now. One that was `stopped`, as it may hold nothing more, waits for its turn; else that
    /// is the next one's.
    pub fn end_turn(&self, stopped: bool) {
        let turn = self.sent.turn.get();
        if matches!(turn, Turn::Has | Turn::Uses) {
            self.outlet.is_given.set(false);
        }
        if stopped {
            let mut turns = self.outlet.turns.borrow_mut();
            match turn {
                Turn::Waits => {}
                // Others were quicker: it stays the next one.
                Turn::Has => turns.push_front(self.stream),
                Turn::Idle | Turn::Uses => turns.push_back(self.stream),
            }
            self.sent.turn.set(Turn::Waits);
        } else if turn != Turn::Waits {
            self.sent.turn.set(Turn::Idle);
        }
        self.outlet.pass_turn();
    }

    /// Whether it holds so little that it would read on if it may.
    pub fn has_room(&self, pending: usize) -> bool {
        self.queued() + pending <= STREAM_HELD_MAX / 2
    }

    /// Whether it would read on, and others are before it.
    pub fn waits_for_turn(&self) -> bool {
        self.sent.turn.get() == Turn::Waits
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
    /// its connection, which is not read faster: then each step on the connection counts. A window of the stream
    /// that the client keeps closed does not count. Which of the two it is can be known only where the
    /// connection's window has been open for as long: until then what the client lets it send may go to others.
    pub fn patience(&self, wait: Duration) -> Option<Instant> {
        let outlet = &self.outlet;
        let is_held_up =
            self.queued() > 0 || !self.has_no_head() || self.waits_for_turn() || outlet.is_tight();
        let last = outlet.last.get();
        let held_up =
            if is_held_up { Some(last) } else { outlet.tight.get().map(|at| at.min(last)) };
        held_up.map(|at| at + wait).filter(|until| *until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::{CONNECTION_HELD_MAX, Flow, Outlet, PIECE, STREAM_HELD_MAX, Turn};
    use crate::serve::h2::frames::{DATA, END_HEADERS, END_STREAM, Frames, HEADERS};
    use std::collections::VecDeque;
    use std::rc::Rc;
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

    /// A connection with so many streams.
    fn streams(outlet: &Rc<Outlet>, count: u32) -> Vec<Flow> {
        (0..count).map(|n| Flow::new(outlet, 2 * n + 1)).collect()
    }

    /// The stream reads as much as it may, and `h2` takes all of it or nothing. Returns how much.
    fn read(flow: &mut Flow, is_taken: bool) -> usize {
        let max = flow.held_max();
        let room = max.saturating_sub(flow.held);
        if room > 0 {
            flow.use_turn();
            if is_taken {
                flow.give(room);
            }
            flow.hold(flow.held + if is_taken { 0 } else { room });
        }
        flow.end_turn(max == 0);
        room
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_connection_holds_bounds_its_streams_d1() {
        for is_taken in [false, true] {
            let outlet = Outlet::new();
            let mut flows = streams(&outlet, 100);
            let mut held = 0;
            for _ in 0..3 {
                held += flows.iter_mut().map(|flow| read(flow, is_taken)).sum::<usize>();
            }
            assert!(held <= CONNECTION_HELD_MAX + STREAM_HELD_MAX + 100 * PIECE, "{held}");
            drop(flows);
            assert_eq!(Flow::new(&outlet, 1).held_max(), STREAM_HELD_MAX, "it is given back");
        }
    }

    /// Streams whose own windows are closed hold all that the connection may: the others go on.
    #[tokio::test(start_paused = true)]
    async fn who_has_room_goes_on_beside_closed_windows_d1() {
        let outlet = Outlet::new();
        let mut flows = streams(&outlet, 100);
        let (closed, open) = flows.split_at_mut(10);
        closed.iter_mut().for_each(|flow| _ = read(flow, false));
        for flow in open {
            assert_eq!(read(flow, true), PIECE);
            flow.sent.bytes.set(flow.given);
            outlet.queued.set(0);
            flow.hold(0);
        }
    }

    /// A socket that takes what `h2` has, the oldest first. A stream whose data has left would read on at once.
    #[tokio::test(start_paused = true)]
    async fn streams_read_in_turns_once_their_connection_holds_enough() {
        let outlet = Outlet::new();
        let mut flows = streams(&outlet, 100);
        let (mut read_by, mut leaving) = (vec![0; flows.len()], VecDeque::new());
        let mut read_on = |flow: &mut Flow, leaving: &mut VecDeque<_>| {
            let len = read(flow, true);
            if len > 0 {
                read_by[flow.stream as usize / 2] += len;
                leaving.push_back((flow.stream as usize / 2, len));
            }
        };
        flows.iter_mut().for_each(|flow| read_on(flow, &mut leaving));
        for _ in 0..2_000 {
            let (at, len) = leaving.pop_front().expect("somebody always has something");
            let sent = &flows[at].sent;
            sent.bytes.set(sent.bytes.get() + len as u64);
            outlet.queued.set(outlet.queued.get() - len as i64);
            flows[at].hold(0);
            outlet.pass_turn();
            read_on(&mut flows[at], &mut leaving);
            while let Some(next) = flows.iter_mut().find(|flow| flow.sent.turn.get() == Turn::Has) {
                read_on(next, &mut leaving);
            }
        }
        let (least, most) = (read_by.iter().min().unwrap(), read_by.iter().max().unwrap());
        assert!(*least > 0 && most - least <= 2 * STREAM_HELD_MAX, "{least} to {most}");
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
