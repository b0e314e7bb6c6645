//! What is on its way to one client.
//!
//! Anyone may push; only the client's own connection takes. Order is the order of pushing. Bytes
//! of notifications are counted, and a client that lets them pile up past the limit is cut off
//! (promise D1); bytes of replies are counted apart, so that its connection can stop reading
//! further requests. Pushing never blocks and never runs the connection's code: it only leaves the
//! item and wakes the task.

use paceline_tables::monitor::{Dump, Monitor, merge};
use paceline_tables::schema::Schema;
use paceline_tables::{Changes, Error, OpResult, Row, Snapshot};
use paceline_types::Uuid;
use paceline_types::limits::BACKLOG_BYTES_MAX;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

/// A client that is this far behind gets further updates of a monitor combined into one.
const COMBINE_BYTES_MIN: usize = 64 << 10;

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
    /// The client now owns this lock.
    Locked(Arc<str>),
    /// The client has lost this lock to another.
    Stolen(Arc<str>),
    /// The monitor of this id is no more, because its database changed shape.
    MonitorCanceled(Ticket),
}

/// Changes that a monitor tells, encoded once for all clients that watch the same.
///
/// A client that is slow to read gets the changes that pile up as one: they are kept in `more` and
/// encoded together with the first when it is ready for them.
#[derive(Clone, Debug)]
pub struct Update {
    /// The id the client gave to its monitor.
    pub id: Ticket,
    /// The last transaction in it.
    pub transaction: Uuid,
    /// The `<table-updates>` object of `changes` alone.
    pub body: Arc<[u8]>,
    /// What the client wants to hear.
    pub monitor: Arc<Monitor>,
    /// The schema that the changes are of.
    pub schema: Arc<Schema>,
    /// The changes.
    pub changes: Arc<Changes>,
    /// Later changes, to be told together with these.
    pub more: Vec<Arc<Changes>>,
}

impl Update {
    /// Appends the `<table-updates>` object; false, and nothing, if the changes cancel out.
    pub fn write(&self, out: &mut Vec<u8>) -> bool {
        if self.more.is_empty() {
            out.extend_from_slice(&self.body);
            return true;
        }
        let all = std::iter::once(&self.changes).chain(&self.more);
        let net = merge(all.map(|changes| &**changes));
        self.monitor.update(&net, &self.schema, out)
    }

    /// Takes `later` in, if it is of the same monitor.
    fn combine(&mut self, later: &Self) -> bool {
        let same = self.id == later.id
            && Arc::ptr_eq(&self.monitor, &later.monitor)
            && Arc::ptr_eq(&self.schema, &later.schema);
        if same {
            self.more.push(later.changes.clone());
            self.transaction = later.transaction;
        }
        same
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
        /// Whether only what changed since is told.
        found: bool,
        /// The last transaction.
        transaction: Uuid,
        /// The content, or the changes.
        content: Content,
    },
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
            // A dump is written piece by piece from rows that are there anyway.
            // What an answer that is not there yet holds is counted when it is.
            Self::Later(_) | Self::Dump(_) | Self::Since { content: Content::Dump(_), .. } => 4096,
            Self::Text(text) | Self::Since { content: Content::Text(text), .. } => text.len() + 32,
            Self::Failed(error) => error_cost(error),
            Self::Word(_) => 64,
        }
    }
}

fn result_cost(result: &OpResult) -> usize {
    /// Rows looked at to estimate the others.
    const SAMPLE: usize = 16;
    match result {
        OpResult::Rows(selected) => {
            let rows = selected.rows();
            let memory = |row: &Row| row.iter().map(|v| size_of_val(v) + v.memory()).sum::<usize>();
            let sample: usize = rows.iter().take(SAMPLE).map(memory).sum();
            32 + sample * rows.len() / rows.len().clamp(1, SAMPLE)
        }
        OpResult::Error(error) => error_cost(error),
        _ => 64,
    }
}

fn error_cost(error: &Error) -> usize {
    64 + error.details.len() + error.syntax.as_ref().map_or(0, String::len)
}

/// The queue to one client.
#[derive(Debug, Default)]
pub struct Outbox {
    state: Mutex<State>,
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

#[derive(Debug, Default)]
struct State {
    items: VecDeque<(Outgoing, usize)>,
    reply_bytes: usize,
    notice_bytes: usize,
    closed: Option<&'static str>,
    finishing: Option<&'static str>,
    waker: Option<Waker>,
    interest: Interest,
}

impl Outbox {
    fn state(&self) -> MutexGuard<'_, State> {
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
            Outgoing::Update(update) => update.id.len() + update.body.len() + 128,
            Outgoing::ConditionUpdate { monitor, .. } => monitor.len() + 4096,
            Outgoing::Locked(name) | Outgoing::Stolen(name) => name.len() + 64,
            Outgoing::MonitorCanceled(monitor) => monitor.len() + 64,
        };
        if state.closed.is_some() {
            return None;
        }
        match &item {
            Outgoing::Reply(..) => state.reply_bytes += cost,
            _ => state.notice_bytes += cost,
        }
        if !state.combine(&item, cost) {
            state.items.push_back((item, cost));
        }
        if state.notice_bytes > BACKLOG_BYTES_MAX {
            state.close("it does not read the notifications it asked for");
        }
        let wanted = state.interest == Interest::Items || state.closed.is_some();
        if wanted { state.waker.take() } else { None }
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
        let State { items, reply_bytes, .. } = &mut *state;
        if let Some((_, counted)) = items.iter_mut().find(|(item, _)| is_place(item)) {
            *reply_bytes = *reply_bytes - *counted + cost;
            *counted = cost;
        }
        if state.interest == Interest::Items { state.waker.take() } else { None }
    }

    /// Takes the next item, unless that is an answer that is not there yet.
    pub fn take(&self) -> Option<Outgoing> {
        let mut state = self.state();
        if !state.is_ready() {
            return None;
        }
        let (item, cost) = state.items.pop_front()?;
        match &item {
            Outgoing::Reply(..) => state.reply_bytes -= cost,
            _ => state.notice_bytes -= cost,
        }
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

impl State {
    /// Whether there is an item to take.
    fn is_ready(&self) -> bool {
        match self.items.front() {
            Some((Outgoing::Reply(_, Reply::Later(later)), _)) => later.reply().is_some(),
            first => first.is_some(),
        }
    }

    /// Why the connection is to end, if it is and nothing waits to be sent.
    fn finishing(&self) -> Option<&'static str> {
        self.finishing.filter(|_| self.items.is_empty())
    }

    /// Makes `item` part of the last one, if both are updates and the client is behind.
    fn combine(&mut self, item: &Outgoing, cost: usize) -> bool {
        let behind = self.notice_bytes > COMBINE_BYTES_MIN;
        match (self.items.back_mut(), item) {
            (Some((Outgoing::Update(last), last_cost)), Outgoing::Update(update)) if behind => {
                let combined = last.combine(update);
                *last_cost += if combined { cost } else { 0 };
                combined
            }
            _ => false,
        }
    }

    fn close(&mut self, reason: &'static str) {
        self.closed.get_or_insert(reason);
        self.items = VecDeque::new();
        (self.reply_bytes, self.notice_bytes) = (0, 0);
    }
}
