//! What was sent of the responses of one connection, and what is held for a client that does not read.
//!
//! `h2` takes frames and does not report when they were sent. Here data counts as sent when the socket has taken it:
//! a stream ends when its last frame was written, and its bytes are those that were written. A client that reads the
//! connection advances all streams that wait for it, so these streams share its progress.

use super::frames::{CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Head, Part};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// Bytes that one stream may hold for its client.
const STREAM_HELD_MAX: usize = 128 << 10;

/// Bytes that all streams of a connection may hold, buffers included. Above it streams take turns. Only while little
/// is on its way to the client, each may hold `PIECE`. With a hundred streams that is less than 1 MiB.
const CONNECTION_HELD_MAX: usize = 384 << 10;

/// Heads of all streams of a connection that may wait to leave. A stream whose head finds no room is not read: no window
/// holds heads up, so those before it leave as soon as the client reads.
const HEADS_HELD_MAX: usize = 256 << 10;

/// Trailers of all streams of a connection that wait behind data of their own. Windows of single streams may hold these up,
/// so they do not count as heads, which would hold up all other streams.
const TRAILERS_HELD_MAX: usize = 128 << 10;

/// What a field of a head takes besides its name and its value.
const FIELD_BYTES: usize = 200;

/// What keeps a socket busy. While `h2` has less, what the connection holds cannot leave before windows of single streams
/// open: then the others go on in small pieces.
const QUEUED_MIN: i64 = 32 << 10;

/// Bytes that a stream may hold in that case.
const PIECE: usize = 4 << 10;

/// The shortest piece that is queued behind another one: each costs some hundred bytes besides its own.
pub(super) const PIECE_MIN: usize = 4 << 10;

/// The initial window of a connection (RFC 9113 6.9.2).
const FIRST_WINDOW: i64 = 65_535;

/// What all streams of a connection share.
#[derive(Debug)]
pub(super) struct Outlet {
    streams: RefCell<BTreeMap<u32, Rc<Sent>>>,
    /// Streams that wait for their turn to read, in order.
    turns: RefCell<VecDeque<u32>>,
    /// Whether a stream has the turn and has not read since.
    is_given: Cell<bool>,
    /// Bytes that are held for the client, in `h2` or before it.
    held: Cell<usize>,
    /// What of that is within `h2`, without heads.
    queued: Cell<i64>,
    /// What heads take that `h2` has, trailers included.
    heads: Cell<usize>,
    /// What trailers take that `h2` does not have yet.
    trailers: Cell<usize>,
    /// What the client lets the connection send, less what was sent.
    window: Cell<i64>,
    /// When the client's window last was exhausted, if ever.
    tight: Cell<Option<Instant>>,
    /// When the socket last took something of a body, and of a head.
    last: Cell<Instant>,
    last_head: Cell<Instant>,
    is_over: Cell<bool>,
}

/// What was sent of one stream.
#[derive(Debug, Default)]
struct Sent {
    bytes: Cell<u64>,
    /// Heads that have left, those before the last one included.
    heads: Cell<u32>,
    /// Heads that `h2` was given, and what those take that have not left.
    heads_given: Cell<u32>,
    head_bytes: Cell<usize>,
    /// Whether it would read a head or trailers and waits until those of others have left.
    waits_for_heads: Cell<bool>,
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
    /// The stream has the turn, and has not read since.
    Has,
    /// The stream has the turn, and has read since.
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
            heads: Cell::new(0),
            trailers: Cell::new(0),
            window: Cell::new(FIRST_WINDOW),
            tight: Cell::new(None),
            last: Cell::new(Instant::now()),
            last_head: Cell::new(Instant::now()),
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
                if head.kind != DATA {
                    self.last_head.set(Instant::now());
                }
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
                        if sent.heads.get() >= sent.heads_given.get() {
                            self.free_heads(sent.head_bytes.take(), &streams);
                        }
                    }
                }
                sent.wake();
            }
        }
    }

    /// Heads of so many bytes have left or are given up. Once there is room, streams that wait for it read on.
    fn free_heads(&self, bytes: usize, streams: &BTreeMap<u32, Rc<Sent>>) {
        let before = self.heads.get();
        self.heads.set(before - bytes);
        // Not at once, so that not all are woken for one head.
        let has_room = before >= HEADS_HELD_MAX / 2 && self.heads.get() < HEADS_HELD_MAX / 2;
        if has_room {
            streams.values().filter(|sent| sent.waits_for_heads.get()).for_each(|sent| sent.wake());
        }
    }

    /// Trailers of so many bytes do not wait behind data any more. Once there is room, streams that wait for it read on.
    fn free_trailers(&self, bytes: usize) {
        let before = self.trailers.get();
        self.trailers.set(before - bytes);
        if before >= TRAILERS_HELD_MAX && self.trailers.get() < TRAILERS_HELD_MAX {
            let streams = self.streams.borrow();
            streams.values().filter(|sent| sent.waits_for_heads.get()).for_each(|sent| sent.wake());
        }
    }

    /// Whether it holds so much that its streams take turns.
    fn is_short(&self) -> bool {
        self.held.get() >= CONNECTION_HELD_MAX
    }

    /// Bytes that the stream whose turn it is may hold.
    fn held_max(&self) -> usize {
        match self.is_short() {
            false => STREAM_HELD_MAX,
            true if self.queued.get() < QUEUED_MIN => PIECE,
            true => 0,
        }
    }

    /// Passes the turn to the next stream, if that could read anything.
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

    /// The client allows the connection to send `by` more bytes.
    pub fn widen(&self, by: u32) {
        self.note_tight();
        self.window.set(self.window.get() + i64::from(by));
    }

    /// Whether the client allows the connection to send nothing more, or less than the streams with queued data would
    /// send.
    fn is_tight(&self) -> bool {
        self.window.get() - self.queued.get() < PIECE_MIN as i64
    }

    /// Called before that may end, and after it may have begun.
    fn note_tight(&self) {
        if self.is_tight() {
            self.tight.set(Some(Instant::now()));
        }
    }

    /// The connection is gone: nothing more is written.
    pub fn end(&self) {
        self.is_over.set(true);
        self.streams.borrow().values().for_each(|sent| sent.wake());
    }
}

/// The sending side of one stream.
#[derive(Debug)]
pub(super) struct Flow {
    outlet: Rc<Outlet>,
    sent: Rc<Sent>,
    stream: u32,
    /// Bytes that `h2` was given.
    given: u64,
    /// Which of its heads is that of the response, once `h2` was given it.
    answer: Option<u32>,
    /// What its trailers take that `h2` does not have yet.
    trailers: usize,
    /// What it holds, as its connection has it.
    held: usize,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.outlet.note_tight();
        self.outlet.queued.set(self.outlet.queued.get() - self.queued() as i64);
        self.outlet.held.set(self.outlet.held.get() - self.held);
        self.outlet.streams.borrow_mut().remove(&self.stream);
        self.outlet.free_heads(self.sent.head_bytes.take(), &self.outlet.streams.borrow());
        self.outlet.free_trailers(self.trailers);
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
        let outlet = Rc::clone(outlet);
        Self { outlet, sent, stream, given: 0, answer: None, trailers: 0, held: 0 }
    }

    /// `h2` was given `len` bytes of the body.
    pub fn give(&mut self, len: usize) {
        self.given += len as u64;
        self.outlet.queued.set(self.outlet.queued.get() + len as i64);
        self.outlet.note_tight();
    }

    /// `h2` was given a head.
    pub fn give_head(&mut self, fields: &HeaderMap) {
        self.give_block(memory_of(fields));
    }

    fn give_block(&self, bytes: usize) {
        let sent = &self.sent;
        sent.heads_given.set(sent.heads_given.get() + 1);
        sent.head_bytes.set(sent.head_bytes.get() + bytes);
        self.outlet.heads.set(self.outlet.heads.get() + bytes);
    }

    /// `h2` was given the head of the response.
    pub fn give_answer(&mut self, fields: &HeaderMap) {
        self.give_head(fields);
        self.answer = Some(self.sent.heads_given.get());
    }

    /// Its trailers were read, and wait until `h2` has all of its data.
    pub fn hold_trailers(&mut self, fields: &HeaderMap) {
        self.trailers = memory_of(fields);
        self.outlet.trailers.set(self.outlet.trailers.get() + self.trailers);
    }

    /// `h2` was given these trailers.
    pub fn give_trailers(&mut self) {
        let bytes = std::mem::take(&mut self.trailers);
        self.give_block(bytes);
        self.outlet.free_trailers(bytes);
    }

    /// Whether a head may be read. If not, the task is woken when it may.
    pub fn has_room_for_head(&self) -> bool {
        self.waits_unless(self.outlet.heads.get() < HEADS_HELD_MAX)
    }

    /// The same for trailers.
    pub fn has_room_for_trailers(&self) -> bool {
        let has_room = self.outlet.trailers.get() < TRAILERS_HELD_MAX;
        self.waits_unless(has_room && self.outlet.heads.get() < HEADS_HELD_MAX)
    }

    fn waits_unless(&self, has_room: bool) -> bool {
        self.sent.waits_for_heads.set(!has_room);
        has_room
    }

    /// Whether it would read a head or trailers and waits until those of other streams have left.
    pub fn waits_for_heads(&self) -> bool {
        self.sent.waits_for_heads.get()
    }

    /// `besides` bytes are held in addition to those in `h2`, buffers included.
    pub fn hold(&mut self, besides: usize) {
        let held = self.queued() + self.sent.head_bytes.get() + besides;
        self.outlet.held.set(self.outlet.held.get() - self.held + held);
        self.held = held;
    }

    /// Wakes the task when something was sent, or when it gets the turn, which may have happened during the poll.
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

    /// How much the stream may hold: nothing more, if other streams come before it.
    pub fn held_max(&self) -> usize {
        match self.sent.turn.get() {
            Turn::Has | Turn::Uses => self.outlet.held_max(),
            Turn::Idle if self.outlet.turns.borrow().is_empty() => self.outlet.held_max(),
            Turn::Idle | Turn::Waits => 0,
        }
    }

    /// How much the stream may read at a time until its head is complete. Heads take no turns.
    pub fn head_max(&self) -> usize {
        if self.is_short() { PIECE } else { STREAM_HELD_MAX }
    }

    /// The stream has read, and so uses its turn.
    pub fn use_turn(&self) {
        if self.sent.turn.get() == Turn::Has {
            self.sent.turn.set(Turn::Uses);
        }
    }

    /// The stream has read what it can for now. If it was `stopped`, because it may hold nothing more, it waits for
    /// its next turn. In both cases the turn passes on.
    pub fn end_turn(&self, stopped: bool) {
        let turn = self.sent.turn.get();
        if matches!(turn, Turn::Has | Turn::Uses) {
            self.outlet.is_given.set(false);
        }
        if stopped {
            let mut turns = self.outlet.turns.borrow_mut();
            match turn {
                Turn::Waits => {}
                // Other streams filled the room first: this one stays the next.
                Turn::Has => turns.push_front(self.stream),
                Turn::Idle | Turn::Uses => turns.push_back(self.stream),
            }
            self.sent.turn.set(Turn::Waits);
        } else if turn != Turn::Waits {
            self.sent.turn.set(Turn::Idle);
        }
        self.outlet.pass_turn();
    }

    /// Whether the stream holds so little that it would read more if it may.
    pub fn has_room(&self, pending: usize) -> bool {
        self.queued() + pending <= STREAM_HELD_MAX / 2
    }

    /// Whether the stream would read more, but other streams come before it.
    pub fn waits_for_turn(&self) -> bool {
        self.sent.turn.get() == Turn::Waits
    }

    /// Bytes of the body that were sent.
    pub fn bytes(&self) -> u64 {
        self.sent.bytes.get()
    }

    /// Bytes of the body that `h2` has.
    pub fn queued(&self) -> usize {
        (self.given - self.bytes()) as usize
    }

    /// Whether all heads were sent.
    pub fn has_no_head(&self) -> bool {
        self.sent.heads.get() >= self.sent.heads_given.get()
    }

    /// Whether the head of the response was sent.
    pub fn has_begun(&self) -> bool {
        self.answer.is_some_and(|answer| self.sent.heads.get() >= answer)
    }

    /// Whether the last frame was sent.
    pub fn has_ended(&self) -> bool {
        self.sent.has_ended.get()
    }

    /// Whether nothing more can be sent.
    pub fn is_cut(&self) -> bool {
        self.outlet.is_over.get() && !self.has_ended()
    }

    /// The deadline of a client that has `wait` for the next step. If the connection holds this stream up, because
    /// the client does not read it faster, then each step of the connection extends the deadline. A closed window of
    /// the stream does not. The two cases can be distinguished only after the connection's window was open for
    /// `wait`: until then other streams may use what the client allows.
    pub fn patience(&self, wait: Duration) -> Option<Instant> {
        let outlet = &self.outlet;
        // No window holds heads up: those that wait on their connection leave one after the other.
        let waits_for_heads = self.waits_for_heads() || !self.has_no_head();
        let is_held_up =
            self.queued() > 0 || waits_for_heads || self.waits_for_turn() || outlet.is_tight();
        let last = match waits_for_heads {
            true => outlet.last.get().max(outlet.last_head.get()),
            false => outlet.last.get(),
        };
        let held_up =
            if is_held_up { Some(last) } else { outlet.tight.get().map(|at| at.min(last)) };
        held_up.map(|at| at + wait).filter(|until| *until > Instant::now())
    }
}

/// What a head or trailers take.
pub(super) fn memory_of(fields: &HeaderMap) -> usize {
    let of_field = |(name, value): (&HeaderName, &HeaderValue)| {
        name.as_str().len() + value.len() + FIELD_BYTES
    };
    fields.iter().map(of_field).sum()
}

#[cfg(test)]
mod tests {
    use super::{
        CONNECTION_HELD_MAX, Flow, HEADS_HELD_MAX, Outlet, PIECE, STREAM_HELD_MAX,
        TRAILERS_HELD_MAX, Turn, memory_of,
    };
    use crate::serve::h2::frames::{DATA, END_HEADERS, END_STREAM, Frames, HEADERS};
    use http::{HeaderMap, HeaderValue};
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
            flow.give_head(&HeaderMap::new());
            flow.give(20);
        }
        assert!(!data.has_begun());
        data.give_answer(&HeaderMap::new());
        write(&outlet, HEADERS, END_HEADERS, 1, 5);
        assert!(!data.has_begun(), "an interim response has left");
        write(&outlet, HEADERS, END_HEADERS, 1, 5);
        assert!(data.has_begun() && !trailers.has_begun());
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

    /// Heads that do not leave keep others from being read, and make room when they leave or are given up.
    #[tokio::test(start_paused = true)]
    async fn heads_that_wait_to_leave_are_bounded_d1() {
        let outlet = Outlet::new();
        let mut flows = streams(&outlet, 100);
        let long = HeaderValue::from_bytes(&[b'x'; 30_000]).unwrap();
        let fields = HeaderMap::from_iter([("x-long".parse().unwrap(), long)]);
        for flow in &mut flows {
            if flow.has_room_for_head() {
                flow.give_head(&fields);
                flow.hold(0);
            }
        }
        let given = flows.iter().filter(|flow| !flow.has_no_head()).count();
        assert_eq!(given, HEADS_HELD_MAX.div_ceil(memory_of(&fields)));
        assert_eq!(outlet.held.get(), given * memory_of(&fields), "they count beside bodies");
        assert!(flows[given..].iter().all(Flow::waits_for_heads));
        write(&outlet, HEADERS, END_HEADERS, 1, 5);
        assert!(flows[given].has_room_for_head(), "one has left");
        flows.drain(1..given);
        assert_eq!(outlet.heads.get(), 0);
        drop(flows);
        assert_eq!(outlet.held.get(), 0);
    }

    /// Trailers keep other trailers from being read while they wait behind data or to leave, but heads only in `h2`.
    #[tokio::test(start_paused = true)]
    async fn trailers_that_wait_to_leave_are_bounded_d1() {
        let outlet = Outlet::new();
        let mut flows = streams(&outlet, 100);
        let long = HeaderValue::from_bytes(&[b'x'; 8_000]).unwrap();
        let fields = HeaderMap::from_iter([("x-long".parse().unwrap(), long)]);
        let bytes = memory_of(&fields);
        let read = |flows: &mut [Flow], gives: bool| {
            let mut count = 0;
            for flow in flows.iter_mut().filter(|flow| flow.trailers == 0) {
                if flow.has_room_for_trailers() {
                    flow.hold_trailers(&fields);
                    count += 1;
                    if gives {
                        flow.give_trailers();
                    }
                }
            }
            count
        };
        let held = read(&mut flows, false);
        assert_eq!(held, TRAILERS_HELD_MAX.div_ceil(bytes));
        assert!(flows[held..].iter().all(Flow::waits_for_heads));
        assert!(flows[held].has_room_for_head(), "no window holds heads up");
        flows.drain(..held);
        assert_eq!(outlet.trailers.get(), 0);
        assert_eq!(
            read(&mut flows, true),
            HEADS_HELD_MAX.div_ceil(bytes),
            "the client reads nothing"
        );
        drop(flows);
        assert_eq!((outlet.trailers.get(), outlet.heads.get()), (0, 0));
    }

    /// On a made-up clock: a head that waits behind others has time as long as these leave.
    #[tokio::test(start_paused = true)]
    async fn a_head_that_leaves_counts_for_those_behind_it_d2() {
        let wait = Duration::from_secs(30);
        let outlet = Outlet::new();
        let (mut queued, body) = (Flow::new(&outlet, 1), Flow::new(&outlet, 3));
        queued.give_head(&HeaderMap::new());
        tokio::time::advance(Duration::from_secs(29)).await;
        write(&outlet, HEADERS, END_HEADERS, 5, 5);
        tokio::time::advance(Duration::from_secs(29)).await;
        assert!(queued.patience(wait).is_some());
        assert!(body.patience(wait).is_none(), "nothing of a body has left");
    }

    /// A connection with so many streams.
    fn streams(outlet: &Rc<Outlet>, count: u32) -> Vec<Flow> {
        (0..count).map(|n| Flow::new(outlet, 2 * n + 1)).collect()
    }

    /// The stream reads as much as it may, and `h2` takes all of it or nothing. Returns the bytes read.
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

    /// Streams whose own windows are closed hold all that the connection may hold. The other streams continue.
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

    /// The socket takes what `h2` has, the oldest first. A stream whose data was sent would read more at once.
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

    /// On a simulated clock: a client reads one of many streams, and widens the connection's window by what it has
    /// read, whenever the other streams check.
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

    /// On a simulated clock.
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
