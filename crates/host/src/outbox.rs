//! What is on its way to one client.
//!
//! Any thread may push; only the client's own connection takes. Items leave in the order of pushing. Bytes of
//! notifications are counted, and a client that lets them pile up beyond its share is disconnected (promise D1). Bytes
//! of replies are counted separately, so that the connection can stop reading requests. Memory that is used for this
//! client only counts in the budget of its peer. A client that has taken everything may be sent one item whatever
//! others leave unread. Pushing never blocks and never runs the connection's code: it only leaves the item and wakes
//! the task.

use crate::budget::{Budget, Part};
use crate::database::SELECTED_ROWS_MIN;
use crate::locking::{LockAnswer, LockNotice};
use crate::update::Told;
pub(crate) use crate::update::{Body, LaterBody};
pub use crate::update::{SharedText, Update, UpdateText};
use paceline_tables::monitor::{Dump, Monitor, Net, Seen};
use paceline_tables::{Error, OpResult, Snapshot};
use paceline_types::Uuid;
use paceline_types::limits::{
    BACKLOG_BYTES_MAX, REPLY_BYTES_MAX, SHARE_BYTES_MIN, SNAPSHOT_REPLY_BYTES,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

/// A client that is this far behind gets further updates of a monitor combined into one.
const COMBINE_BYTES_MIN: usize = 64 << 10;

/// So is one for which this many items wait, if the next update takes long to make.
const UNTOLD_ITEMS_MAX: usize = 16;

/// The most that waits behind an answer that is not made yet.
const EXCUSED_BYTES_MAX: usize = 4 * BACKLOG_BYTES_MAX;

/// What the bookkeeping of an item takes.
pub(crate) const ITEM_BYTES: usize = 256;

/// What the door gave with a request, to be given back with its reply: the request's id.
pub type Ticket = Arc<[u8]>;

/// Something to be sent to a client.
#[derive(Debug)]
pub enum Outgoing {
    /// The answer to a request.
    Reply(Ticket, Reply),
    /// Changes that a monitor tells.
    Update(Update),
    /// Rows that come into view or go out of it because a monitor's conditions changed.
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
    /// The client got a lock, or lost one to another.
    Lock(LockNotice),
    /// The monitor of this id is no more, because its database changed shape.
    MonitorCanceled(Ticket),
}

impl Outgoing {
    /// Bytes that this alone keeps in memory: rows that the database has too, or that are weighed with its
    /// snapshots, and a text that goes to several clients are not among them.
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

    /// Whether the client gets one of these for each of its requests, so that it gets no more of them when its
    /// requests are no longer read.
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
    /// The same, with whether the client's last transaction was known and the last one now.
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
    /// A JSON text that is ready.
    Text(Vec<u8>),
    /// An answer that is still being read. It keeps its place; the connection takes it, and what is
    /// behind it, when it is there.
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
    /// Puts the answer in.
    pub(crate) fn set(&self, reply: Reply) {
        *self.reply() = Some(reply);
    }

    /// Takes the answer out, if it is there.
    pub(crate) fn take(&self) -> Option<Reply> {
        self.reply().take()
    }

    fn reply(&self) -> MutexGuard<'_, Option<Reply>> {
        crate::sync::lock(&self.0)
    }
}

/// What a client that comes back gets.
#[derive(Debug)]
pub enum Content {
    /// Everything.
    Dump(Box<Dump>),
    /// What changed, as a `<table-updates>` object.
    Text(Vec<u8>),
}

impl Reply {
    /// Bytes this holds or will take to send, roughly.
    pub(crate) fn cost(&self) -> usize {
        match self {
            Self::Results(results) => results.iter().map(result_cost).sum(),
            // What an answer that is not there yet holds is counted when it is.
            Self::Later(_) => 4096,
            Self::Dump(_) | Self::Since { content: Content::Dump(_), .. } => SNAPSHOT_REPLY_BYTES,
            Self::Text(text) | Self::Since { content: Content::Text(text), .. } => text.len() + 32,
            Self::Failed(error) => error_cost(error),
            Self::Word(_) | Self::Lock(_) => 64,
        }
    }
}

impl Reply {
    fn own(&self) -> usize {
        match self {
            Self::Results(results) => ITEM_BYTES + results.iter().map(result_own).sum::<usize>(),
            Self::Dump(_) | Self::Since { content: Content::Dump(_), .. } => ITEM_BYTES,
            other => ITEM_BYTES + other.cost(),
        }
    }
}

/// What a result alone keeps in memory. Rows are weighed with the snapshot that they are of, if that is kept; if
/// not, they are few and small, and each counts.
fn result_own(result: &OpResult) -> usize {
    match result {
        OpResult::Rows(selected) => match selected.beside_pinned() {
            Some(beside) => 64 + size_of_val(selected.rows()) + beside,
            None => result_cost(result),
        },
        other => result_cost(other),
    }
}

fn result_cost(result: &OpResult) -> usize {
    match result {
        OpResult::Rows(selected) => {
            // More rows than this are pinned, so that an estimate of what it takes to send them will do.
            let (rows, weighed) = (selected.rows().len(), SELECTED_ROWS_MIN);
            let memory = selected.memory(weighed, REPLY_BYTES_MAX);
            32 + memory.saturating_mul(rows) / rows.clamp(1, weighed)
        }
        OpResult::Error(error) => error_cost(error),
        _ => 64,
    }
}

fn error_cost(error: &Error) -> usize {
    64 + error.details.len() + error.syntax.as_ref().map_or(0, String::len)
}

/// The queue to one client.
#[derive(Debug)]
pub struct Outbox {
    budget: Arc<Budget>,
    state: Mutex<Unsent>,
}

/// What a connection wants to be woken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interest {
    /// Something to take, or the end.
    #[default]
    Items,
    /// The end only: it cannot send more just now.
    End,
}

#[derive(Debug)]
struct Unsent {
    items: VecDeque<Item>,
    /// How many items were taken; so the number of the first that waits.
    taken: u64,
    reply_bytes: usize,
    notice_bytes: usize,
    /// What of that came while the first item was not made yet: the client could not read it.
    excused: usize,
    closed: Option<&'static str>,
    finishing: Option<&'static str>,
    waker: Option<Waker>,
    interest: Interest,
    /// What the items alone keep in memory.
    part: Part,
}

/// Something that waits.
#[derive(Debug)]
struct Item {
    item: Outgoing,
    /// What it counts for towards the bounds of this client.
    cost: usize,
    /// What it counts for towards the bound of all.
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

    /// What the connections of its peer may keep together.
    #[must_use]
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn state(&self) -> MutexGuard<'_, Unsent> {
        crate::sync::lock(&self.state)
    }

    /// Leaves `item` for the client. Answers the task to wake, which the caller does once it holds
    /// no lock of its own.
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

    /// Whether an update is to be combined with the one before it: the client is behind, and that is of the same monitor.
    pub(crate) fn combines(&self, update: &Update) -> bool {
        let state = self.state();
        state.closed.is_none() && state.combines(update)
    }

    /// Leaves an update. A client that is behind gets it together with the one before it, if the caller gives
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

    /// Leaves an update that takes too long to be made here. A client that is behind in reading gets its changes combined
    /// like any other. If not, answers the update's number, to be given to [`Outbox::told`] when its text is made; and the
    /// task to wake.
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

    /// Takes note that the text of the update of this number is there. Answers the task to wake.
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

    /// Puts an answer in the place that was kept for it, whether or not that is here already. Answers the
    /// task to wake.
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

    /// Takes the next item, unless that is an answer that is not there yet.
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

    /// Asks for `waker` to be woken when what `interest` says happens. Answers whether it has
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

    /// Takes back what [`Outbox::register`] asked for: the connection is awake and will look by
    /// itself.
    pub fn awake(&self) {
        self.state().waker = None;
    }

    /// Wakes the connection if it waits for items: something else has changed that it looks at.
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

    /// Cuts the client off: what waits is dropped and its connection ends.
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

    /// Ends the connection once what waits is sent.
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

    /// Why the connection is to end once what waits is sent, if it is.
    #[must_use]
    pub fn finishing(&self) -> Option<&'static str> {
        self.state().finishing()
    }

    /// Why the client is cut off, if it is.
    #[must_use]
    pub fn closed(&self) -> Option<&'static str> {
        self.state().closed
    }
}

/// What became of an update to a client that is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combined {
    /// It is part of the one before it.
    Joined,
    /// The next ones can join it.
    Begun,
    /// It stays as it is.
    Not,
}

impl Unsent {
    /// Whether the client has left so much unread that further updates are combined.
    fn is_behind(&self) -> bool {
        self.notice_bytes > COMBINE_BYTES_MIN
    }

    /// Whether an update is to be combined with the last item.
    fn combines(&self, update: &Update) -> bool {
        let is_late = match update.told {
            Told::Later(_) => self.items.len() > UNTOLD_ITEMS_MAX,
            _ => !self.is_ready(),
        };
        let is_same = |last: &Item| matches!(&last.item, Outgoing::Update(last) if last.is_of_monitor_of(update));
        (is_late || self.is_behind()) && self.items.back().is_some_and(is_same)
    }

    /// Combines an update, of which its monitor has `seen` this, with the last item, if it is to be.
    fn combine(&mut self, update: &mut Update, seen: Option<&Seen>) -> Combined {
        let Some(seen) = seen.filter(|_| self.combines(update)) else { return Combined::Not };
        let Self { items, notice_bytes, part, .. } = self;
        let Some(Item { item: Outgoing::Update(last), cost: counted, own }) = items.back_mut()
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

    /// Puts an update behind what waits. Answers the task to wake.
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

    /// Why the connection is to end, if it is and nothing waits to be sent.
    fn finishing(&self) -> Option<&'static str> {
        self.finishing.filter(|_| self.items.is_empty())
    }

    fn push(&mut self, item: Outgoing, cost: usize) {
        let own = item.own();
        self.part.set(self.part.bytes() + own);
        self.items.push_back(Item { item, cost, own });
    }

    /// Cuts a client off that reads nothing; not for the first item after it had taken everything, if others leave too
    /// much. Answers the task to wake.
    fn after_leaving(&mut self, is_first: bool) -> Option<Waker> {
        if !self.items.is_empty() && !self.is_ready() {
            self.excused = self.notice_bytes;
        }
        let budget = self.part.budget();
        let allowed = budget.share(BACKLOG_BYTES_MAX) + self.excused;
        if is_first && !budget.is_exceeded() {
            // It has all the time to read this one.
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

/// Takes note that an item keeps `now` bytes.
fn recount(part: &mut Part, own: &mut usize, now: usize) {
    part.set(part.bytes() - *own + now);
    *own = now;
}
