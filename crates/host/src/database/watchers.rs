//! The monitors of a database, and the transactions it has published lately.
//!
//! Monitors that watch the same are one group, whose update is encoded once for all members. Groups are found by the
//! tables they watch, so a commit looks only at the groups that watch a table it changed. Only the publishing thread,
//! in the order of the queue, and clients that leave touch this.

use crate::budget::Budget;
use crate::outbox::{Body, Content, Later, LaterBody, Outgoing, Reply, Ticket, Update};
use crate::session::Session;
use paceline_locks::SessionId;
use paceline_tables::monitor::{
    Dump, Monitor, Seen, Telling, Version, merge, steps_bytes, steps_of,
};
use paceline_tables::schema::{Schema, TableId};
use paceline_tables::{Changes, RowChange};
use paceline_types::Uuid;
use paceline_types::limits::{HISTORY_BYTES_MAX, HISTORY_TRANSACTIONS_MAX, TELL_STEPS_MAX};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use super::missed::Missed;
use super::queue::{Commit, Rewatch, Watch};
use super::tellers::{Job, Kept, Member, Tellers, UpdateJob};

/// Updating this many monitors takes well under a millisecond.
const MANY: usize = 500;

/// The most steps that the publishing thread takes to combine changes for clients that are behind: one for each
/// column that a group of monitors sees, and some for each row that a client gets.
const COMBINE_STEPS_MAX: usize = 8 * TELL_STEPS_MAX;

/// The steps of combining one row for one client.
const COMBINED_ROW_STEPS: usize = 8;

/// Encoding changed rows of more bytes than this takes more steps than [`TELL_STEPS_MAX`].
const AT_ONCE_BYTES_MAX: usize = steps_bytes(TELL_STEPS_MAX);

/// The bytes of changed rows, if they are at most `most`.
pub(super) fn row_bytes<'a>(
    rows: impl IntoIterator<Item = &'a RowChange>,
    most: usize,
) -> Option<usize> {
    rows.into_iter()
        .try_fold(0, |bytes, change| Some(bytes + change.row_bytes_within(most - bytes)?))
}

/// Monitors and history of one database.
pub(super) struct Watchers {
    groups: BTreeMap<u64, Group>,
    next_group: u64,
    /// The groups by their monitor.
    same: HashMap<Arc<Monitor>, u64>,
    /// The monitors of the groups, by the tables they watch: most commits concern few groups, so the others are
    /// not looked up.
    by_table: BTreeMap<(TableId, u64), Arc<Monitor>>,
    members: BTreeMap<(SessionId, Ticket), u64>,
    /// The same by the tables they watch, so that a commit looks only at monitors of tables that it changed.
    members_by_table: BTreeMap<(TableId, SessionId, Ticket), u64>,
    /// Distinguishes this run of this database from others, in transaction ids.
    epoch: u64,
    /// How many transactions were published.
    published: u64,
    /// Published transactions, oldest first, with the memory each takes.
    history: VecDeque<(Arc<Changes>, usize)>,
    history_bytes: usize,
    /// Whether a client knows the id of a transaction, so that remembering transactions is useful.
    is_remembering: bool,
}

struct Group {
    monitor: Arc<Monitor>,
    /// The steps of encoding a changed row, by table.
    row_steps: BTreeMap<TableId, usize>,
    members: BTreeMap<(SessionId, Ticket), Arc<Session>>,
}

impl Group {
    fn new(monitor: Arc<Monitor>) -> Self {
        let row_steps = monitor.row_steps().collect();
        Self { monitor, row_steps, members: BTreeMap::new() }
    }

    /// Whether a member is still connected.
    fn is_open(&self) -> bool {
        self.members.values().any(|session| session.outbox.closed().is_none())
    }
}

/// The work left to the publishing thread after it unlocks the watchers, and the steps it may still take
/// before.
pub(super) struct Gathered {
    pub(super) wakers: Vec<Waker>,
    /// Work that takes too long to be done here.
    pub(super) jobs: Vec<Job>,
    steps_left: usize,
    /// The steps left to combine changes for clients that are behind. They are counted separately: the
    /// conditions of one client must not prevent the updates of another from being combined.
    combine_left: usize,
}

impl Default for Gathered {
    fn default() -> Self {
        let (steps_left, combine_left) = (TELL_STEPS_MAX, COMBINE_STEPS_MAX);
        Self { wakers: Vec::new(), jobs: Vec::new(), steps_left, combine_left }
    }
}

/// One or more transactions that are sent as one update.
struct News<'a> {
    changes: &'a Arc<Changes>,
    schema: &'a Arc<Schema>,
    /// The id of the last of them.
    transaction: Uuid,
    /// The tables that have monitors, with the number of changed rows of each and their bytes. Beyond a bound
    /// bytes are not counted: encoding them takes longer than the publisher has.
    tables: Vec<(TableId, usize, usize)>,
    kept: Option<Arc<Kept>>,
    buffer: Vec<u8>,
}

/// What is made once for all members of a group.
struct Told {
    text: Text,
    /// What its monitor sees of the changes, made for the first member that is behind; `None` if that takes too
    /// long.
    seen: Option<Option<Seen>>,
}

impl From<Text> for Told {
    fn from(text: Text) -> Self {
        Self { text, seen: None }
    }
}

/// The update of a group.
enum Text {
    Nothing,
    Ready(Arc<Body>),
    /// It takes too long to be made here.
    Later(Arc<LaterBody>, Vec<Member>),
}

impl<'a> News<'a> {
    fn new(
        watchers: &Watchers,
        changes: &'a Arc<Changes>,
        schema: &'a Arc<Schema>,
        transaction: Uuid,
    ) -> Self {
        let weighed = |rows: &[RowChange]| {
            let table = rows.first().map(|change| change.table);
            let table = table.filter(|table| watchers.is_watched(*table))?;
            Some((table, rows.len(), row_bytes(rows, AT_ONCE_BYTES_MAX).unwrap_or(usize::MAX)))
        };
        let tables = changes.by_table().filter_map(weighed).collect();
        Self { changes, schema, transaction, tables, kept: None, buffer: Vec::new() }
    }

    /// The steps of making the update of a group.
    fn steps(&self, group: &Group) -> usize {
        let of_table = |(table, rows, bytes): &(TableId, usize, usize)| {
            Some(steps_of(*rows, *group.row_steps.get(table)?, *bytes))
        };
        self.tables.iter().filter_map(of_table).fold(0, usize::saturating_add)
    }

    /// The update of a group, made here if there are enough steps left.
    fn text(&mut self, group: &Group, gathered: &mut Gathered) -> Text {
        // The text counts once, for one of the clients that receive it.
        let Some(first) = group.members.values().next().filter(|_| group.is_open()) else {
            return Text::Nothing;
        };
        let budget: &Arc<Budget> = first.outbox.budget();
        let Some(left) = gathered.steps_left.checked_sub(self.steps(group)) else {
            return Text::Later(Arc::default(), Vec::new());
        };
        gathered.steps_left = left;
        self.buffer.clear();
        if group.monitor.update(self.changes, self.schema, &mut self.buffer) {
            Text::Ready(Body::new(&self.buffer, budget))
        } else {
            Text::Nothing
        }
    }

    /// The changes that one member of a group gets combined with what it has not read, if it is behind and
    /// there are enough steps left.
    fn seen<'b>(
        &self,
        update: &Update,
        session: &Session,
        seen: &'b mut Option<Option<Seen>>,
        gathered: &mut Gathered,
    ) -> Option<&'b Seen> {
        if !session.outbox.combines(update) {
            return None;
        }
        let left = &mut gathered.combine_left;
        let seen = seen.get_or_insert_with(|| Seen::within(left, &update.monitor, self.changes));
        let seen = seen.as_ref()?;
        *left = left.checked_sub(seen.rows().saturating_mul(COMBINED_ROW_STEPS))?;
        Some(seen)
    }

    /// Leaves the update of a group in the outbox of one member.
    fn leave(
        &self,
        (id, session): (&Ticket, &Arc<Session>),
        monitor: &Arc<Monitor>,
        Told { text, seen }: &mut Told,
        gathered: &mut Gathered,
    ) {
        let (of, monitor) = ((id.clone(), self.transaction), monitor.clone());
        let waker = match text {
            Text::Nothing => None,
            Text::Ready(body) => {
                let update = Update::new(of, body.clone(), monitor, self.schema.clone());
                let seen = self.seen(&update, session, seen, gathered);
                session.outbox.leave_update(update, seen)
            }
            Text::Later(place, members) => {
                let update = Update::later(of, place.clone(), monitor, self.schema.clone());
                let seen = self.seen(&update, session, seen, gathered);
                let (number, waker) = session.outbox.leave_later(update, seen);
                members.extend(number.map(|number| Member::new(session, number)));
                waker
            }
        };
        gathered.wakers.extend(waker);
    }

    /// Queues the text that takes too long to make here.
    fn finish(
        &mut self,
        monitor: &Arc<Monitor>,
        text: Text,
        gathered: &mut Gathered,
        tellers: &Tellers,
    ) {
        let Text::Later(place, members) = text else { return };
        if members.is_empty() {
            return;
        }
        let kept = self.kept.get_or_insert_with(|| tellers.keep(self.changes.memory())).clone();
        let (monitor, schema) = (monitor.clone(), self.schema.clone());
        let telling = Telling::new(monitor, schema, self.changes.clone());
        let number = self.transaction.halves().1;
        let job = UpdateJob { number, telling, place, members, _kept: kept };
        gathered.jobs.push(Job::Update(Box::new(job)));
    }
}

impl Watchers {
    pub(super) fn new(epoch: u64) -> Self {
        Self {
            groups: BTreeMap::new(),
            next_group: 0,
            same: HashMap::new(),
            by_table: BTreeMap::new(),
            members: BTreeMap::new(),
            members_by_table: BTreeMap::new(),
            epoch,
            published: 0,
            history: VecDeque::new(),
            history_bytes: 0,
            is_remembering: false,
        }
    }

    /// Whether there is a monitor of a table for which `matters` holds.
    pub(super) fn watches(&self, schema: &Schema, matters: impl Fn(TableId) -> bool) -> bool {
        schema.table_ids().filter(|table| matters(*table)).any(|table| self.is_watched(table))
    }

    fn is_watched(&self, table: TableId) -> bool {
        self.watching(table).next().is_some()
    }

    /// The groups that watch a table, and their monitors.
    pub(super) fn watching(&self, table: TableId) -> impl Iterator<Item = (u64, &Arc<Monitor>)> {
        let of_table = self.by_table.range((table, 0)..=(table, u64::MAX));
        of_table.map(|((_, number), monitor)| (*number, monitor))
    }

    /// The id of the last published transaction.
    fn last_transaction(&self) -> Uuid {
        Uuid::from_halves(self.epoch, self.published)
    }

    /// Sends the net effect of `commits` to all watchers except those in `except`. Returns the number of the
    /// first commit.
    pub(super) fn publish(
        &mut self,
        commits: &[&Commit],
        except: &BTreeSet<SessionId>,
        gathered: &mut Gathered,
        tellers: &Tellers,
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
            let mut news = News::new(self, &changes, &last.schema, self.last_transaction());
            self.tell_all(&mut news, except, gathered, tellers);
        }
        first
    }

    fn tell_all(
        &self,
        news: &mut News<'_>,
        except: &BTreeSet<SessionId>,
        gathered: &mut Gathered,
        tellers: &Tellers,
    ) {
        let tables: Vec<TableId> = news.tables.iter().map(|(table, ..)| *table).collect();
        for (at, table) in tables.iter().enumerate() {
            for (number, monitor) in self.watching(*table) {
                // A group that watches several of these tables gets all of them with the first.
                if tables.iter().take(at).any(|earlier| monitor.table(*earlier).is_some()) {
                    continue;
                }
                let Some(group) = self.groups.get(&number) else { continue };
                let mut told = Told::from(news.text(group, gathered));
                if matches!(told.text, Text::Nothing) {
                    continue;
                }
                for ((session_id, id), session) in &group.members {
                    if !except.contains(session_id) {
                        news.leave((id, session), monitor, &mut told, gathered);
                    }
                }
                news.finish(monitor, told.text, gathered, tellers);
            }
        }
    }

    /// Sends one transaction, which has this number, to the clients in `only`.
    pub(super) fn tell(
        &self,
        commit: &Commit,
        number: u64,
        only: &BTreeSet<SessionId>,
        gathered: &mut Gathered,
        tellers: &Tellers,
    ) {
        let transaction = Uuid::from_halves(self.epoch, number);
        let mut news = News::new(self, &commit.changes, &commit.schema, transaction);
        // Clients that watch the same share the encoded text, as they do when all are updated.
        let mut all: BTreeMap<u64, Told> = BTreeMap::new();
        let tables = news.tables.iter().map(|(table, ..)| *table);
        for (session, id, number) in self.concerned(tables, only) {
            let Some(group) = self.groups.get(&number) else { continue };
            let told = all.entry(number);
            let told = told.or_insert_with(|| news.text(group, gathered).into());
            if let Some(session) = group.members.get(&(session, id.clone())) {
                news.leave((id, session), &group.monitor, told, gathered);
            }
        }
        for (number, told) in all {
            let Some(group) = self.groups.get(&number) else { continue };
            news.finish(&group.monitor, told.text, gathered, tellers);
        }
    }

    /// The monitors that the clients in `only` have of any of `tables`, by client and then by id, and their groups.
    /// Looks neither at clients that watch none of the tables nor at monitors of other tables.
    pub(super) fn concerned(
        &self,
        tables: impl Iterator<Item = TableId>,
        only: &BTreeSet<SessionId>,
    ) -> Vec<(SessionId, &Ticket, u64)> {
        let first: Ticket = Arc::default();
        let (mut found, mut several) = (Vec::new(), 0);
        for table in tables {
            let before = found.len();
            let mut wanted = only.first();
            while let Some(session) = wanted {
                let from = (table, *session, first.clone());
                let mut passed = None;
                for ((of, other, id), number) in self.members_by_table.range(from..) {
                    if (of, other) != (&table, session) {
                        passed = Some(other).filter(|_| *of == table);
                        break;
                    }
                    found.push((*session, id, *number));
                }
                // The next client that has a monitor of the table may be far behind the next one in `only`.
                wanted = passed.and_then(|other| only.range(other..).next());
            }
            several += usize::from(found.len() > before);
        }
        if several > 1 {
            // A monitor of several of the tables was found with each of them.
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    fn of_session(&self, session: SessionId) -> impl Iterator<Item = (&(SessionId, Ticket), &u64)> {
        let first: Ticket = Arc::from(&[][..]);
        self.members.range((session, first)..).take_while(move |((id, _), _)| *id == session)
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

    /// Whether there are so many watchers that updating all of them takes a while, however short the update.
    pub(super) fn are_many(&self) -> bool {
        self.members.len() > MANY
    }

    /// Whether there is no monitor.
    pub(super) fn is_idle(&self) -> bool {
        self.groups.is_empty()
    }

    /// The transactions after `since` and the memory they take, if all of them are remembered.
    fn changes_since(&self, since: Uuid) -> Option<(Vec<Arc<Changes>>, usize)> {
        let (epoch, position) = since.halves();
        if epoch != self.epoch || position > self.published {
            return None;
        }
        let missed = usize::try_from(self.published - position).ok()?;
        let skip = self.history.len().checked_sub(missed)?;
        let transactions = self.history.iter().skip(skip);
        let bytes = transactions.clone().map(|(_, bytes)| bytes).sum();
        Some((transactions.map(|(changes, _)| changes.clone()).collect(), bytes))
    }

    /// Adds a monitor and answers its request. A long answer about what a returning client missed is left to
    /// the caller: the answer keeps its place until then, and later updates stay behind it.
    pub(super) fn watch(&mut self, watch: Watch, wakers: &mut Vec<Waker>) -> Option<Missed> {
        let Watch { session, ticket, id, monitor, rows, since } = watch;
        self.is_remembering |= monitor.version == Version::V3;
        let transaction = self.last_transaction();
        let known = since.and_then(|since| self.changes_since(since));
        let mut missed = None;
        let reply = match (monitor.version, known) {
            (Version::V3, Some((transactions, bytes))) => {
                let schema = rows.schema().clone();
                let (session, monitor) = (session.clone(), monitor.clone());
                let later = Arc::new(Later::default());
                let mut all = Missed {
                    session,
                    monitor,
                    schema,
                    transactions,
                    bytes,
                    transaction,
                    later,
                    telling: None,
                };
                if all.is_short() {
                    while all.go_on(usize::MAX) {}
                    all.reply()
                } else {
                    let place = Reply::Later(Arc::clone(&all.later));
                    missed = Some(all);
                    place
                }
            }
            (Version::V3, None) => Reply::Since {
                found: false,
                transaction,
                content: Content::Dump(Box::new(Dump::new(monitor.clone(), rows))),
            },
            _ => Reply::Dump(Box::new(Dump::new(monitor.clone(), rows))),
        };
        wakers.extend(session.outbox.leave(Outgoing::Reply(ticket, reply)));
        if session.outbox.closed().is_none() {
            self.add(session, id, monitor);
        }
        missed
    }

    /// Changes a monitor's conditions: sends the rows that enter or leave the view, then answers.
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
        let number = match self.same.get(&monitor) {
            Some(number) => *number,
            None => {
                self.next_group += 1;
                let number = self.next_group;
                for table in monitor.tables() {
                    self.by_table.insert((table, number), monitor.clone());
                }
                self.same.insert(monitor.clone(), number);
                self.groups.insert(number, Group::new(monitor));
                number
            }
        };
        let key = (session.id, id);
        if let Some(group) = self.groups.get_mut(&number) {
            for table in group.monitor.tables() {
                self.members_by_table.insert((table, session.id, key.1.clone()), number);
            }
            group.members.insert(key.clone(), session);
        }
        self.members.insert(key, number);
    }

    /// Removes a monitor; false if there is none.
    pub(super) fn remove(&mut self, session: SessionId, id: &Ticket) -> bool {
        let key = (session, id.clone());
        let Some(number) = self.members.remove(&key) else { return false };
        let Some(group) = self.groups.get_mut(&number) else { return true };
        group.members.remove(&key);
        for table in group.monitor.tables() {
            self.members_by_table.remove(&(table, session, id.clone()));
        }
        if group.members.is_empty()
            && let Some(Group { monitor, .. }) = self.groups.remove(&number)
        {
            self.same.remove(&monitor);
            for table in monitor.tables() {
                self.by_table.remove(&(table, number));
            }
        }
        true
    }

    /// Removes every monitor of a client that has left. Its outbox is closed already, so none is added after
    /// this.
    pub(super) fn remove_session(&mut self, session: SessionId) {
        let ids: Vec<Ticket> =
            self.of_session(session).map(|((_, ticket), _)| ticket.clone()).collect();
        for id in ids {
            self.remove(session, &id);
        }
    }

    /// Ends every monitor, because the database was converted, and forgets the history.
    pub(super) fn cancel_all(&mut self, epoch: u64, wakers: &mut Vec<Waker>) {
        for group in std::mem::take(&mut self.groups).into_values() {
            for ((_, id), session) in group.members {
                session.forget_monitor(&id);
                if session.is_change_aware() {
                    wakers.extend(session.outbox.leave(Outgoing::MonitorCanceled(id)));
                }
            }
        }
        self.same.clear();
        self.by_table.clear();
        self.members.clear();
        self.members_by_table.clear();
        self.history.clear();
        (self.history_bytes, self.epoch, self.published) = (0, epoch, 0);
    }
}
