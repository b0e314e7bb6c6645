//! Who watches a database, and what it has published lately.
//!
//! Monitors that want the same are one group: its update is encoded once for all its members.
//! Touched only by whoever publishes, in the order of the queue, and by clients that leave.

use crate::outbox::{Content, Outgoing, Reply, Ticket, Update};
use crate::session::Session;
use paceline_locks::SessionId;
use paceline_tables::Changes;
use paceline_tables::monitor::{Dump, Monitor, Version, merge};
use paceline_tables::schema::{Schema, TableId};
use paceline_types::Uuid;
use paceline_types::limits::{HISTORY_BYTES_MAX, HISTORY_TRANSACTIONS_MAX};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use super::queue::{Commit, Rewatch, Watch};

/// Monitors and history of one database.
pub(super) struct Watchers {
    groups: BTreeMap<u64, Group>,
    next_group: u64,
    members: BTreeMap<(SessionId, Ticket), u64>,
    /// Tells this run of this database from others, in transaction ids.
    epoch: u64,
    /// How many transactions were published.
    published: u64,
    /// Published transactions, oldest first, with the memory each takes.
    history: VecDeque<(Arc<Changes>, usize)>,
    history_bytes: usize,
    /// Whether anyone knows the id of a transaction, so that remembering them is of use.
    is_remembering: bool,
}

struct Group {
    monitor: Arc<Monitor>,
    members: BTreeMap<(SessionId, Ticket), Arc<Session>>,
}

impl Watchers {
    pub(super) fn new(epoch: u64) -> Self {
        Self {
            groups: BTreeMap::new(),
            next_group: 0,
            members: BTreeMap::new(),
            epoch,
            published: 0,
            history: VecDeque::new(),
            history_bytes: 0,
            is_remembering: false,
        }
    }

    /// Whether somebody watches a table of which `matters` says so.
    pub(super) fn watches(&self, matters: impl Fn(TableId) -> bool) -> bool {
        let monitors = self.groups.values().map(|group| &group.monitor);
        monitors.flat_map(|monitor| monitor.tables()).any(matters)
    }

    /// The id of the last published transaction.
    fn last_transaction(&self) -> Uuid {
        Uuid::from_halves(self.epoch, self.published)
    }

    /// Tells everyone who watches, but for those in `except`, about the net effect of `commits`.
    /// Answers the number of the first of them.
    pub(super) fn publish(
        &mut self,
        commits: &[&Commit],
        except: &BTreeSet<SessionId>,
        wakers: &mut Vec<Waker>,
    ) -> u64 {
        let first = self.published + 1;
        for commit in commits {
            self.published += 1;
            self.remember(&commit.changes);
        }
        if let Some(last) = commits.last().filter(|_| !self.groups.is_empty()) {
            let changes = match commits {
                [only] => only.changes.clone(),
                _ => Arc::new(merge(commits.iter().map(|commit| &*commit.changes))),
            };
            let wanted = |session: &SessionId| !except.contains(session);
            self.send(&changes, &last.schema, self.published, wanted, wakers);
        }
        first
    }

    /// Tells those in `only` about one transaction, which has this number.
    pub(super) fn tell(
        &self,
        commit: &Commit,
        number: u64,
        only: &BTreeSet<SessionId>,
        wakers: &mut Vec<Waker>,
    ) {
        let wanted = |session: &SessionId| only.contains(session);
        self.send(&commit.changes, &commit.schema, number, wanted, wakers);
    }

    fn send(
        &self,
        changes: &Arc<Changes>,
        schema: &Arc<Schema>,
        number: u64,
        wanted: impl Fn(&SessionId) -> bool,
        wakers: &mut Vec<Waker>,
    ) {
        let transaction = Uuid::from_halves(self.epoch, number);
        let mut body = Vec::new();
        for group in self.groups.values() {
            let mut members = group.members.iter().filter(|((id, _), _)| wanted(id)).peekable();
            body.clear();
            if members.peek().is_none() || !group.monitor.update(changes, schema, &mut body) {
                continue;
            }
            let shared: Arc<[u8]> = body.as_slice().into();
            for ((_, id), session) in members {
                let (id, monitor) = (id.clone(), group.monitor.clone());
                let update = Update::new(id, transaction, shared.clone(), monitor, schema.clone());
                wakers.extend(session.outbox.leave_update(update, changes));
            }
        }
    }

    fn remember(&mut self, changes: &Arc<Changes>) {
        if !self.is_remembering {
            return;
        }
        let bytes = changes.memory();
        self.history_bytes += bytes;
        self.history.push_back((changes.clone(), bytes));
        while self.history.len() > HISTORY_TRANSACTIONS_MAX
            || self.history_bytes > HISTORY_BYTES_MAX
        {
            let Some((_, bytes)) = self.history.pop_front() else { break };
            self.history_bytes -= bytes;
        }
    }

    /// Whether nobody watches.
    pub(super) fn is_idle(&self) -> bool {
        self.groups.is_empty()
    }

    /// The changes after transaction `since`, if all of them are remembered.
    fn changes_since(&self, since: Uuid) -> Option<Changes> {
        let (epoch, position) = since.halves();
        if epoch != self.epoch || position > self.published {
            return None;
        }
        let missed = usize::try_from(self.published - position).ok()?;
        let skip = self.history.len().checked_sub(missed)?;
        Some(merge(self.history.iter().skip(skip).map(|(changes, _)| &**changes)))
    }

    /// Adds a monitor and answers its request.
    pub(super) fn watch(&mut self, watch: Watch, wakers: &mut Vec<Waker>) {
        let Watch { session, ticket, id, monitor, rows, since } = watch;
        self.is_remembering |= monitor.version == Version::V3;
        let known = since.and_then(|since| self.changes_since(since));
        let reply = match (monitor.version, known) {
            (Version::V3, Some(changes)) => {
                let mut text = Vec::new();
                if !monitor.update(&changes, rows.schema(), &mut text) {
                    text.extend_from_slice(b"{}");
                }
                let transaction = self.last_transaction();
                Reply::Since { found: true, transaction, content: Content::Text(text) }
            }
            (Version::V3, None) => Reply::Since {
                found: false,
                transaction: self.last_transaction(),
                content: Content::Dump(Box::new(Dump::new(monitor.clone(), rows))),
            },
            _ => Reply::Dump(Box::new(Dump::new(monitor.clone(), rows))),
        };
        wakers.extend(session.outbox.leave(Outgoing::Reply(ticket, reply)));
        if session.outbox.closed().is_none() {
            self.add(session, id, monitor);
        }
    }

    /// Changes a monitor's conditions: tells what comes into view and goes out of it, then answers.
    pub(super) fn rewatch(&mut self, rewatch: Rewatch, wakers: &mut Vec<Waker>) {
        let Rewatch { session, ticket, old_id, new_id, from, to, rows } = rewatch;
        let removed = self.remove(session.id, &old_id);
        if removed && session.outbox.closed().is_none() {
            self.add(session.clone(), new_id.clone(), to.clone());
        }
        let transaction = self.last_transaction();
        let moved = Outgoing::ConditionUpdate { monitor: new_id, transaction, from, to, rows };
        wakers.extend(session.outbox.leave(moved));
        wakers.extend(session.outbox.leave(Outgoing::Reply(ticket, Reply::Text(b"{}".to_vec()))));
    }

    fn add(&mut self, session: Arc<Session>, id: Ticket, monitor: Arc<Monitor>) {
        let same = self.groups.iter().find(|(_, group)| group.monitor == monitor);
        let number = match same {
            Some((number, _)) => *number,
            None => {
                self.next_group += 1;
                let group = Group { monitor, members: BTreeMap::new() };
                self.groups.insert(self.next_group, group);
                self.next_group
            }
        };
        let key = (session.id, id);
        if let Some(group) = self.groups.get_mut(&number) {
            group.members.insert(key.clone(), session);
        }
        self.members.insert(key, number);
    }

    /// Takes a monitor away; false if there is none.
    pub(super) fn remove(&mut self, session: SessionId, id: &Ticket) -> bool {
        let key = (session, id.clone());
        let Some(number) = self.members.remove(&key) else { return false };
        if let Some(group) = self.groups.get_mut(&number) {
            group.members.remove(&key);
            if group.members.is_empty() {
                self.groups.remove(&number);
            }
        }
        true
    }

    /// Takes every monitor of a client away that has left. Its outbox is closed already, so none is
    /// added after this.
    pub(super) fn remove_session(&mut self, session: SessionId) {
        let first: Ticket = Arc::from(&[][..]);
        let of_session = self.members.range((session, first)..);
        let ids: Vec<Ticket> = of_session
            .take_while(|((id, _), _)| *id == session)
            .map(|((_, ticket), _)| ticket.clone())
            .collect();
        for id in ids {
            self.remove(session, &id);
        }
    }

    /// Ends every monitor, because the database changes shape, and forgets the history.
    pub(super) fn cancel_all(&mut self, epoch: u64, wakers: &mut Vec<Waker>) {
        for group in std::mem::take(&mut self.groups).into_values() {
            for ((_, id), session) in group.members {
                session.forget_monitor(&id);
                if session.is_change_aware() {
                    wakers.extend(session.outbox.leave(Outgoing::MonitorCanceled(id)));
                }
            }
        }
        self.members.clear();
        self.history.clear();
        (self.history_bytes, self.epoch, self.published) = (0, epoch, 0);
    }
}
