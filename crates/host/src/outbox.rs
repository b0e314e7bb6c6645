//! The items on their way to one client.
//!
//! Any thread may push; only the client's own connection takes. Items leave in the order of pushing. Bytes of
//! notifications are counted, and a client that lets them pile up beyond its share is disconnected (promise D1). Bytes
//! of replies are counted separately, so that the connection can stop reading requests. Memory that is used for this
//! client only counts in the budget of its peer. A client that has taken everything may be sent one item whatever
//! others leave unread. Pushing never blocks and never runs the connection's code: it only leaves the item and wakes
//! the task.

mod cost;

use crate::budget::{Budget, Part};
use crate::locking::{LockAnswer, LockNotice};
use crate::update::Told;
pub(crate) use crate::update::{Body, LaterBody};
pub use crate::update::{SharedText, Update, UpdateText};
use cost::{error_cost, result_cost, result_own};
use paceline_tables::monitor::{Dump, Monitor, Net, Seen};
use paceline_tables::{Error, OpResult, Snapshot};
use paceline_types::Uuid;
use paceline_types::limits::{BACKLOG_BYTES_MAX, SHARE_BYTES_MIN, SNAPSHOT_REPLY_BYTES};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

/// A client that is this far behind gets further updates of a monitor combined into one.
const COMBINE_BYTES_MIN: usize = 64 << 10;

/// So does a client for which this many items wait, if the next update takes long to make.
const UNTOLD_ITEMS_MAX: usize = 16;

/// That many of the last updates are searched for one of the same monitor, which the next can be combined with.
const COMBINE_LOOKS_MAX: usize = 64;

/// The most bytes that may wait behind an answer that is not made yet.
const EXCUSED_BYTES_MAX: usize = 4 * BACKLOG_BYTES_MAX;

/// The memory that the bookkeeping of an item takes.
pub(crate) const ITEM_BYTES: usize = 256;

/// What the door passed with a request, to be returned with its reply: the request's id.
pub type Ticket = Arc<[u8]>;

/// Something to be sent to a client.
#[derive(Debug)]
pub enum Outgoing {
    /// The answer to a request.
    Reply(Ticket, Reply),
    /// Changes that a monitor reports.
    Update(Update),
    /// Rows that enter or leave the view because a monitor's conditions changed.
    ConditionUpdate {
        /// The id the client gave to its monitor.
        monitor: Ticket,
        /// The last transaction.
        transaction: Uuid,
        /// The conditions before.
        from: Arc<Monitor>,
        /// The conditions from now on.
        to: Arc<Monitor>,
        /// The content they are applied to.
        rows: Snapshot,
    },
    /// The client was granted a lock, or another client stole one.
    Lock(LockNotice),
    /// The monitor of this id was cancelled, because its database was converted.
    MonitorCanceled(Ticket),
}

impl Outgoing {
    /// Bytes that only this item keeps in memory. Rows that the database has too, or that are weighed with its
    /// snapshots, do not count, nor does a text that is sent to several clients.
    #[must_use]
    pub fn own(&self) -> usize {
        match self {
            Self::Reply(ticket, Reply::Later(later)) => {
                ticket.len() + later.reply().as_ref().map_or(ITEM_BYTES, Reply::own)
            }
            Self::Reply(ticket, reply) => ticket.len() + reply.own(),
            Self::Update(update) => update.own(),
            Self::ConditionUpdate { monitor, .. } => monitor.len() + ITEM_BYTES,
            Self::Lock(notice) => notice.lock.len() + ITEM_BYTES,
            Self::MonitorCanceled(monitor) => monitor.len() + ITEM_BYTES,
        }
    }

    /// Whether the client receives one of these per request, so that it receives no more when its requests are
    /// no longer read.
    fn is_asked_for(&self) -> bool {
        matches!(self, Self::Reply(..) | Self::ConditionUpdate { .. })
    }
}

/// The content of an answer.
#[derive(Debug)]
pub enum Reply {
    /// A result for each operation of a transaction.
    Results(Vec<OpResult>),
    /// The initial content of a monitor.
    Dump(Box<Dump>),
    /// The same, with whether the client's last transaction was known, and the last transaction now.
    Since {
        /// Whether only what changed since is sent.
        found: bool,
        /// The last transaction.
        transaction: Uuid,
        /// The content, or the changes.
        content: Content,
    },
    /// The answer to a lock operation.
    Lock(LockAnswer),
    /// A complete JSON text.
    Text(Vec<u8>),
    /// The same, shared with other clients.
    Shared(Arc<[u8]>),
    /// An answer that is still being read. It keeps its place; the connection takes it, and the items behind
    /// it, when it is complete.
    Later(Arc<Later>),
    /// The request failed.
    Failed(Error),
    /// The request failed with a plain word.
    Word(&'static str),
}

/// The place of an answer that is still being read.
#[derive(Debug, Default)]
pub struct Later(Mutex<Option<Reply>>);

impl Later {
    /// Stores the answer.
    pub(crate) fn set(&self, reply: Reply) {
        *self.reply() = Some(reply);
    }

    /// Takes the answer, if it is complete.
    pub(crate) fn take(&self) -> Option<Reply> {
        self.reply().take()
    }

    fn reply(&self) -> MutexGuard<'_, Option<Reply>> {
        crate::sync::lock(&self.0)
    }
}

/// What a returning client receives.
#[derive(Debug)]
pub enum Content {
    /// Everything.
    Dump(Box<Dump>),
    /// The changes, as a `<table-updates>` object.
    Text(Vec<u8>),
}

impl Reply {
    /// Bytes this holds or will take to send, roughly.
    pub(crate) fn cost(&self) -> usize {
        match self {
            Self::Results(results) => results.iter().map(result_cost).sum(),
            // An answer that is not complete yet is counted when it is.
            Self::Later(_) => 4096,
            Self::Dump(_) | Self::Since { content: Content::Dump(_), .. } => SNAPSHOT_REPLY_BYTES,
            Self::Text(text) | Self::Since { content: Content::Text(text), .. } => text.len() + 32,
            Self::Shared(text) => text.len() + 32,
            Self::Failed(error) => error_cost(error),
            Self::Word(_) | Self::Lock(_) => 64,
        }
    }
}

impl Reply {
    fn own(&self) -> usize {
        match self {
            Self::Results(results) => ITEM_BYTES + results.iter().map(result_own).sum::<usize>(),
            Self::Dump(_) | Self::Since { content: Content::Dump(_), .. } | Self::Shared(_) => {
                ITEM_BYTES
            }
            other => ITEM_BYTES + other.cost(),
        }
    }
}

/// The queue to one client.
#[derive(Debug)]
pub struct Outbox {
    budget: Arc<Budget>,
    state: Mutex<Unsent>,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interest {
    /// An item to take, or the end.
    #[default]
    Items,
    /// The end only: it cannot send more at present.
    End,
}

#[derive(Debug)]
struct Unsent {
    items: VecDeque<Item>,
    /// How many items were taken, which is the number of the first waiting item.
    taken: u64,
    reply_bytes: usize,
    notice_bytes: usize,
    /// The part of `notice_bytes` that arrived while the first item was not complete: the client could not read
    /// it.
    excused: usize,
    closed: Option<&'static str>,
    finishing: Option<&'static str>,
    waker: Option<Waker>,
    interest: Interest,
    /// The memory that only these items keep.
    part: Part,
}

/// An item that waits.
#[derive(Debug)]
struct Item {
    item: Outgoing,
    /// The bytes it counts for towards the bounds of this client.
    cost: usize,
    /// The bytes it counts for towards the budget.
    own: usize,
}

impl Outbox {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        let state = Unsent {
            items: VecDeque::new(),
            taken: 0,
            reply_bytes: 0,
            notice_bytes: 0,
            excused: 0,
            closed: None,
            finishing: None,
            waker: None,
            interest: Interest::default(),
            part: budget.part(),
        };
        Self { budget: Arc::clone(budget), state: Mutex::new(state) }
    }

    /// The budget of its peer.
    #[must_use]
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn state(&self) -> MutexGuard<'_, Unsent> {
        crate::sync::lock(&self.state)
    }

    /// Leaves `item` for the client. Returns the task to wake, which the caller does once it holds no lock of
    /// its own.
    pub(crate) fn leave(&self, item: Outgoing) -> Option<Waker> {
        let mut state = self.state();
        let cost = match &item {
            Outgoing::Reply(ticket, Reply::Later(later)) => {
                ticket.len() + later.reply().as_ref().map_or(4096, Reply::cost)
            }
            Outgoing::Reply(ticket, reply) => ticket.len() + reply.cost(),
            Outgoing::Update(update) => update.cost(),
            Outgoing::ConditionUpdate { monitor, .. } => monitor.len() + SNAPSHOT_REPLY_BYTES,
            Outgoing::Lock(notice) => notice.lock.len() + 64,
            Outgoing::MonitorCanceled(monitor) => monitor.len() + 64,
        };
        if state.closed.is_some() {
            return None;
        }
        match item.is_asked_for() {
            true => state.reply_bytes += cost,
            false => state.notice_bytes += cost,
        }
        state.push(item, cost);
        let is_first = state.items.len() == 1;
        state.after_leaving(is_first)
    }

    /// Whether an update is to be combined with the last one of the same monitor: the client is behind, and only
    /// updates are between them.
    pub(crate) fn combines(&self, update: &Update) -> bool {
        let state = self.state();
        state.closed.is_none() && state.combines(update).is_some()
    }

    /// Leaves an update. A client that is behind gets it combined with the last one of the same monitor, if the caller passes
    /// what its monitor has seen.
    pub(crate) fn leave_update(&self, mut update: Update, seen: Option<&Seen>) -> Option<Waker> {
        let mut state = self.state();
        if state.closed.is_some() {
            return None;
        }
        if state.combine(&mut update, seen) == Combined::Joined {
            return state.after_leaving(false);
        }
        state.leave_notice(update)
    }

    /// Leaves an update that takes too long to be made here. A client that is behind gets its changes combined
    /// as usual. Otherwise returns the number of the update, to be passed to [`Outbox::told`] when its text is
    /// made, and the task to wake.
    pub(crate) fn leave_later(
        &self,
        mut update: Update,
        seen: Option<&Seen>,
    ) -> (Option<u64>, Option<Waker>) {
        let mut state = self.state();
        if state.closed.is_some() {
            return (None, None);
        }
        let combined = state.combine(&mut update, seen);
        let number = state.taken + state.items.len() as u64;
        match combined {
            Combined::Joined => (None, state.after_leaving(false)),
            Combined::Begun => (None, state.leave_notice(update)),
            Combined::Not => (Some(number), state.leave_notice(update)),
        }
    }

    /// Notes that the text of the update of this number is complete. Returns the task to wake.
    pub(crate) fn told(&self, number: u64) -> Option<Waker> {
        let mut state = self.state();
        let at = usize::try_from(number.checked_sub(state.taken)?).ok()?;
        let Unsent { items, notice_bytes, part, .. } = &mut *state;
        let Item { item: Outgoing::Update(update), cost: counted, own } = items.get_mut(at)? else {
            return None;
        };
        let cost = update.cost();
        *notice_bytes = *notice_bytes - *counted + cost;
        *counted = cost;
        recount(part, own, update.own());
        let is_first = state.items.len() == 1;
        state.after_leaving(is_first)
    }

    /// Leaves `item` and wakes the connection.
    pub fn push(&self, item: Outgoing) {
        if let Some(waker) = self.leave(item) {
            waker.wake();
        }
    }

    /// Puts an answer in its reserved place, whether or not that is in the queue already. Returns the task to
    /// wake.
    pub(crate) fn fill(&self, later: &Arc<Later>, reply: Reply) -> Option<Waker> {
        let mut state = self.state();
        let cost = reply.cost();
        *later.reply() = Some(reply);
        let is_place = |item: &Outgoing| match item {
            Outgoing::Reply(_, Reply::Later(place)) => Arc::ptr_eq(place, later),
            _ => false,
        };
        let Unsent { items, reply_bytes, part, .. } = &mut *state;
        if let Some(place) = items.iter_mut().find(|waiting| is_place(&waiting.item)) {
            *reply_bytes = *reply_bytes - place.cost + cost;
            place.cost = cost;
            recount(part, &mut place.own, place.item.own());
        }
        let is_first = state.items.len() == 1;
        state.after_leaving(is_first)
    }

    /// Takes the next item, unless that is an answer that is not complete yet.
    pub fn take(&self) -> Option<Outgoing> {
        let mut state = self.state();
        if !state.is_ready() {
            return None;
        }
        let Item { item, cost, own } = state.items.pop_front()?;
        state.taken += 1;
        let rest = state.part.bytes() - own;
        state.part.set(rest);
        match item.is_asked_for() {
            true => state.reply_bytes -= cost,
            false => state.notice_bytes -= cost,
        }
        state.excused = state.excused.min(state.notice_bytes);
        if state.items.is_empty() {
            // An idle client holds no buffer.
            state.items = VecDeque::new();
        }
        Some(match item {
            Outgoing::Reply(ticket, Reply::Later(later)) => {
                let reply = later.reply().take();
                Outgoing::Reply(ticket, reply.unwrap_or(Reply::Word("canceled")))
            }
            other => other,
        })
    }

    /// Registers `waker` to be woken when the event of `interest` happens. Returns whether it has happened
    /// already.
    pub fn register(&self, waker: &Waker, interest: Interest) -> bool {
        let mut state = self.state();
        let items = interest == Interest::Items && state.is_ready();
        let finishing = interest == Interest::Items && state.finishing().is_some();
        if items || finishing || state.closed.is_some() {
            return true;
        }
        state.interest = interest;
        match &mut state.waker {
            Some(known) if known.will_wake(waker) => {}
            known => *known = Some(waker.clone()),
        }
        false
    }

    /// Cancels [`Outbox::register`]: the connection is awake and will check by itself.
    pub fn awake(&self) {
        self.state().waker = None;
    }

    /// Wakes the connection if it waits for items, because other state that it checks has changed.
    pub(crate) fn look_again(&self) {
        let waker = {
            let mut state = self.state();
            if state.interest == Interest::Items { state.waker.take() } else { None }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Bytes of replies that wait to be sent.
    #[must_use]
    pub fn reply_bytes(&self) -> usize {
        self.state().reply_bytes
    }

    /// Disconnects the client: waiting items are dropped and its connection ends.
    pub fn close(&self, reason: &'static str) {
        let waker = {
            let mut state = self.state();
            state.close(reason);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends the connection once all waiting items are sent.
    pub fn finish(&self, reason: &'static str) {
        let waker = {
            let mut state = self.state();
            state.finishing.get_or_insert(reason);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Why the connection is to end now that all items are sent, if it is.
    #[must_use]
    pub fn finishing(&self) -> Option<&'static str> {
        self.state().finishing()
    }

    /// Why the client was disconnected, if it was.
    #[must_use]
    pub fn closed(&self) -> Option<&'static str> {
        self.state().closed
    }
}

/// What happened to an update for a client that is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combined {
    /// It was combined with an earlier one.
    Joined,
    /// Later updates can be combined with it.
    Begun,
    /// It stays as it is.
    Not,
}

impl Unsent {
    /// Whether the client has left so many bytes unread that further updates are combined.
    fn is_behind(&self) -> bool {
        self.notice_bytes > COMBINE_BYTES_MIN
    }

    /// The item that an update is to be combined with: the last update of the same monitor. Replies and other
    /// notices are not passed, because the client would receive a change before an answer that has not seen it.
    fn combines(&self, update: &Update) -> Option<usize> {
        let is_late = match update.told {
            Told::Later(_) => self.items.len() > UNTOLD_ITEMS_MAX,
            _ => !self.is_ready(),
        };
        if !(is_late || self.is_behind()) {
            return None;
        }
        let last = self.items.iter().enumerate().rev().take(COMBINE_LOOKS_MAX);
        let mut updates = last.map_while(|(at, Item { item, .. })| match item {
            Outgoing::Update(earlier) => Some((at, earlier)),
            _ => None,
        });
        updates.find(|(_, earlier)| earlier.is_of_monitor_of(update)).map(|(at, _)| at)
    }

    /// Combines an update, of which its monitor has `seen` this, with an earlier one, if they are to be combined.
    fn combine(&mut self, update: &mut Update, seen: Option<&Seen>) -> Combined {
        let Some((seen, at)) = seen.and_then(|seen| Some((seen, self.combines(update)?))) else {
            return Combined::Not;
        };
        let Self { items, notice_bytes, part, .. } = self;
        let Some(Item { item: Outgoing::Update(last), cost: counted, own }) = items.get_mut(at)
        else {
            return Combined::Not;
        };
        let Told::Net(net) = &mut last.told else {
            let mut net = Net::default();
            net.add(seen);
            update.told = Told::Net(net);
            return Combined::Begun;
        };
        net.add(seen);
        last.transaction = update.transaction;
        let cost = last.cost();
        *notice_bytes = *notice_bytes - *counted + cost;
        *counted = cost;
        recount(part, own, last.own());
        Combined::Joined
    }

    /// Adds an update at the end. Returns the task to wake.
    fn leave_notice(&mut self, update: Update) -> Option<Waker> {
        let cost = update.cost();
        self.notice_bytes += cost;
        self.push(Outgoing::Update(update), cost);
        let is_first = self.items.len() == 1;
        self.after_leaving(is_first)
    }

    /// Whether there is an item to take.
    fn is_ready(&self) -> bool {
        match self.items.front() {
            Some(Item { item: Outgoing::Reply(_, Reply::Later(later)), .. }) => {
                later.reply().is_some()
            }
            Some(Item { item: Outgoing::Update(update), .. }) => update.is_ready(),
            first => first.is_some(),
        }
    }

    /// Why the connection is to end, if it is and no item waits.
    fn finishing(&self) -> Option<&'static str> {
        self.finishing.filter(|_| self.items.is_empty())
    }

    fn push(&mut self, item: Outgoing, cost: usize) {
        let own = item.own();
        self.part.set(self.part.bytes() + own);
        self.items.push_back(Item { item, cost, own });
    }

    /// Disconnects a client that does not read, but not for the first item after it had taken everything, even
    /// if others leave too much unread. Returns the task to wake.
    fn after_leaving(&mut self, is_first: bool) -> Option<Waker> {
        if !self.items.is_empty() && !self.is_ready() {
            self.excused = self.notice_bytes;
        }
        let budget = self.part.budget();
        let allowed = budget.share(BACKLOG_BYTES_MAX) + self.excused;
        if is_first && !budget.is_exceeded() {
            // The client may take its time to read this one.
        } else if self.notice_bytes > allowed.min(EXCUSED_BYTES_MAX) {
            self.close("it does not read the notifications it asked for");
        } else if budget.is_spent() && self.part.bytes() > SHARE_BYTES_MIN {
            self.close("no memory is left for its answers: clients leave too much unread");
        }
        let wanted = self.interest == Interest::Items || self.closed.is_some();
        if wanted { self.waker.take() } else { None }
    }

    fn close(&mut self, reason: &'static str) {
        self.closed.get_or_insert(reason);
        self.items = VecDeque::new();
        self.part.set(0);
        (self.reply_bytes, self.notice_bytes, self.excused) = (0, 0, 0);
    }
}

/// Sets the bytes that an item keeps to `now`.
fn recount(part: &mut Part, own: &mut usize, now: usize) {
    part.set(part.bytes() - *own + now);
    *own = now;
}
