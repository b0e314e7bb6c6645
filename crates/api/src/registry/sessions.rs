//! Sessions: begun, renewed, ended.
//!
//! A session is kept as a row before it is told, and so are its locks; the daemon's own end leaves them
//! for the next run.

use super::leases::{Leased, checked};
use super::permits::HeldPermit;
use super::{Lease, Registry, State};
use crate::mailbox::Mailbox;
use crate::respond::Problem;
use crate::token::secret;
use paceline_host::{Host, Keeper, Kept, KeptSession, Process, Session};
use paceline_tables::Error;
use paceline_types::{Role, SessionId, Span, Time};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Processes that a bound session may last as long as.
const PROCESSES_MAX: usize = 16;

/// A session as handlers use it.
pub(crate) struct ApiSession {
    /// The secret by which clients know it.
    pub(crate) key: String,
    /// What the host knows it as.
    pub(crate) session: Arc<Session>,
    /// What is told to it about locks.
    pub(crate) mailbox: Arc<Mailbox>,
    /// As it is kept. The lock is held while a change gets in line to be written, so that the last one
    /// stays.
    kept: Mutex<KeptSession>,
}

pub(super) struct SessionEntry {
    pub(super) shared: Arc<ApiSession>,
    pub(super) lease: Option<Lease>,
    pub(super) permits: BTreeSet<String>,
    /// Its row, if anything is kept.
    row: Option<Kept>,
}

/// What a session is begun with.
pub(crate) struct Beginning {
    /// What it is called; a number is added.
    pub(crate) name: String,
    /// Who begins it.
    pub(crate) user: String,
    /// Its lease, or none if it is bound to a connection.
    pub(crate) lease: Option<Option<Span>>,
    /// The process at the other end of that.
    pub(crate) process: Option<Process>,
}

/// What a client is told of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionView {
    /// The lease, unless the session is bound to a connection.
    pub(crate) lease: Option<(Span, Time)>,
}

impl Registry {
    /// Begins a session. One with a lease ends when that runs out; one without must be ended.
    pub(crate) async fn begin_session(
        &self,
        beginning: Beginning,
    ) -> Result<(Arc<ApiSession>, SessionView), Problem> {
        let span = beginning.lease.map(checked).transpose()?;
        if self.state().sessions.len() >= self.limits.sessions_max {
            return Err(Problem::exhausted("sessions", self.limits.sessions_max));
        }
        let salt = secret::<16>().map_err(|error| Problem::internal(&error.to_string()))?;
        let name = &beginning.name;
        let session = self.host.begin_session(Some(Role::Client), |id| format!("{name}#{}", id.0));
        let mut begun = Begun { host: &self.host, session: Some(Arc::clone(&session)) };
        let kept = KeptSession {
            name: session.name.clone(),
            number: session.id,
            user: beginning.user,
            salt,
            lease: span,
            processes: beginning.process.into_iter().collect(),
        };
        let row = match self.host.keeper() {
            Some(keeper) => {
                Some(keeper.keep_session(&kept).await.map_err(|error| Problem::not_kept(&error))?)
            }
            None => None,
        };
        begun.session = None;
        Ok(self.add_session(session, kept, row))
    }

    /// Puts a session into the books, its lease beginning now.
    pub(super) fn add_session(
        &self,
        session: Arc<Session>,
        kept: KeptSession,
        row: Option<Kept>,
    ) -> (Arc<ApiSession>, SessionView) {
        session.set_change_aware(true);
        session.keep_locks(kept.is_long());
        let mailbox = Mailbox::new(&self.host, &session, self.notices.clone());
        let (key, span) = (self.secret.key(&kept.salt), kept.lease);
        let kept = Mutex::new(kept);
        let shared = Arc::new(ApiSession { key: key.clone(), session, mailbox, kept });
        let mut state = self.state();
        let now = self.clock.now();
        let begin = |span| state.leases.begin(now, span, Leased::Session(key.clone()));
        let lease = span.map(begin);
        let permits = BTreeSet::new();
        let entry = SessionEntry { shared: Arc::clone(&shared), lease, permits, row };
        let view = SessionView::of(&entry);
        state.names.insert(shared.session.id, shared.session.name.clone());
        state.sessions.insert(key, entry);
        let rearm = state.leases.is_next(lease);
        drop(state);
        if rearm {
            self.rearm.notify_one();
        }
        (shared, view)
    }

    /// The session of this key.
    pub(crate) fn session(&self, key: &str) -> Result<Arc<ApiSession>, Problem> {
        let state = self.state();
        state.live(key, self.clock.now()).map(|entry| Arc::clone(&entry.shared))
    }

    /// Lets a session's lease begin anew. Answers when it ends; none if it has no lease.
    pub(crate) fn renew_session(&self, key: &str) -> Result<Option<Time>, Problem> {
        let mut state = self.state();
        let now = self.clock.now();
        let Some(lease) = state.live(key, now)?.lease else { return Ok(None) };
        state.leases.end(lease);
        let lease = state.leases.begin(now, lease.span, Leased::Session(key.to_owned()));
        if let Some(entry) = state.sessions.get_mut(key) {
            entry.lease = Some(lease);
        }
        Ok(Some(lease.ends))
    }

    /// Ends a session because whoever has it says so: everything it holds is given back, and that is
    /// written as far as the disk lets it. False if there is none.
    pub(crate) async fn give_up_session(&self, key: &str) -> bool {
        let Some((entry, mut permits)) = self.take_session(key) else { return false };
        let SessionEntry { shared, row, .. } = entry;
        let rows = permits.iter_mut().filter_map(|held| held.row.take()).chain(row);
        let deleted: Vec<_> = rows.map(Kept::forget).collect();
        self.release(&shared, permits);
        for deleted in deleted {
            deleted.await;
        }
        true
    }

    /// Ends a session whose time is over: everything it holds is given back, unless the daemon ends
    /// too and leaves it to the next run.
    pub(crate) fn end_session(&self, key: &str) {
        if let Some((entry, mut permits)) = self.take_session(key) {
            // The rows go first, so that whoever gets what is free now is written behind them.
            permits.iter_mut().for_each(|held| drop(held.row.take()));
            drop(entry.row);
            self.release(&entry.shared, permits);
        }
    }

    fn take_session(&self, key: &str) -> Option<(SessionEntry, Vec<HeldPermit>)> {
        let mut state = self.state();
        let entry = state.sessions.remove(key)?;
        state.names.remove(&entry.shared.session.id);
        if let Some(lease) = entry.lease {
            state.leases.end(lease);
        }
        let permits = entry.permits.iter().filter_map(|name| state.take_permit(name));
        let permits = permits.map(|held| *held).collect();
        Some((entry, permits))
    }

    fn release(&self, session: &ApiSession, permits: Vec<HeldPermit>) {
        if let Some(keeper) = self.host.keeper() {
            session.forget_locks(&self.host, keeper);
        }
        // Each permit tells that it is settled; the host then gives back what else there is.
        drop(permits);
        self.host.end_session(&session.session);
    }

    /// The processes are dead that the session of this name had when the daemon began: it ends, unless
    /// others were added since, which are then waited for.
    pub(super) fn processes_ended(self: &Arc<Self>, name: &str) {
        let found = {
            let state = self.state();
            let mut all = state.sessions.iter();
            let found = all.find(|(_, entry)| entry.shared.session.name == name);
            found.map(|(key, entry)| (key.clone(), entry.shared.kept().clone()))
        };
        let Some((key, mut kept)) = found else { return };
        kept.processes.retain(|process| !process.is_dead());
        if kept.processes.is_empty() {
            return self.end_session(&key);
        }
        if let Err(error) = self.watch(&[kept]) {
            tracing::error!(session = name, error, "what it holds stays held");
        }
    }

    /// A bound session lasts, if the daemon ends, as long as this process too.
    pub(crate) async fn add_process(&self, key: &str, process: Process) -> Result<(), Problem> {
        let session = self.session(key)?;
        let Some(keeper) = self.host.keeper() else { return Ok(()) };
        let written = session.add_process(keeper, process)?;
        written.await.map_err(|error| Problem::not_kept(&error))
    }

    /// The name under which lists show a session of the API.
    pub(crate) fn session_name(&self, id: SessionId) -> Option<String> {
        self.state().names.get(&id).cloned()
    }

    /// Whether there is such a session.
    pub(crate) fn has_session(&self, key: &str) -> bool {
        self.state().sessions.contains_key(key)
    }
}

/// A session of the host that nobody knows yet. Dropping it ends it.
struct Begun<'a> {
    host: &'a Host,
    session: Option<Arc<Session>>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.host.end_session(&session);
        }
    }
}

impl ApiSession {
    /// Notes one more process that it lasts as long as, and gets that in line to be written.
    fn add_process(
        &self,
        keeper: &Arc<Keeper>,
        process: Process,
    ) -> Result<impl Future<Output = Result<(), Error>> + use<>, Problem> {
        let mut kept = self.kept();
        if kept.lease.is_some() {
            let message = "pid: a session with a lease does not depend on processes";
            return Err(Problem::bad_request(message));
        }
        kept.processes.retain(|process| !process.is_dead());
        if kept.processes.len() >= PROCESSES_MAX {
            return Err(Problem::exhausted("processes of a session", PROCESSES_MAX));
        }
        kept.processes.push(process);
        Ok(keeper.change_session(&kept))
    }

    /// Keeps a lock it was just granted (L5).
    pub(crate) async fn keep_lock(
        &self,
        host: &Host,
        lock: &str,
        fencing: u64,
    ) -> Result<(), Problem> {
        let Some(keeper) = host.keeper() else { return Ok(()) };
        let is_long = self.kept().is_long();
        let written = keeper.keep_lock(&self.session.name, is_long, lock, fencing);
        written.await.map_err(|error| Problem::not_kept(&error))
    }

    /// A lock that it gave back, granted by this number, is kept no longer. It is in line to be deleted
    /// when this returns.
    pub(crate) fn forget_lock(
        &self,
        host: &Host,
        lock: &str,
        fencing: u64,
    ) -> impl Future<Output = ()> + use<> {
        let keeper = host.keeper();
        let deleted = keeper.map(|keeper| keeper.forget_lock(&self.session.name, lock, fencing));
        async move {
            if let Some(deleted) = deleted {
                // One that cannot be deleted is held again after a restart, until the session ends.
                let _ = deleted.await;
            }
        }
    }

    /// The name under which it is shown, which is also that of its row.
    pub(crate) fn name(&self) -> &str {
        &self.session.name
    }

    /// Whether its lease is too long to be waited for after a crash of the machine.
    pub(crate) fn is_long(&self) -> bool {
        self.kept().is_long()
    }

    fn kept(&self) -> MutexGuard<'_, KeptSession> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_locks(&self, host: &Host, keeper: &Arc<Keeper>) {
        for (lock, fencing) in host.locking().owned(self.session.id) {
            drop(keeper.forget_lock(&self.session.name, &lock, fencing));
        }
    }
}

impl SessionView {
    fn of(entry: &SessionEntry) -> Self {
        Self { lease: entry.lease.map(|lease| (lease.span, lease.ends)) }
    }
}

impl State {
    /// A session that is not over, whether or not it has been swept.
    pub(super) fn live(&self, key: &str, now: Time) -> Result<&SessionEntry, Problem> {
        match self.sessions.get(key) {
            Some(entry) if entry.lease.is_none_or(|lease| lease.ends > now) => Ok(entry),
            Some(_) => Err(session_expired()),
            None if self.expired.holds(key) => Err(session_expired()),
            None => {
                Err(Problem::not_found("there is no such session")
                    .hint("POST /v1/sessions begins one"))
            }
        }
    }
}

fn session_expired() -> Problem {
    Problem::expired("the lease of the session ran out, and what it held is given back")
        .hint("begin a new one with POST /v1/sessions, and renew it in time")
}
