//! Sessions: begun, renewed, ended.
//!
//! A session is written as a row before it is acknowledged, and so are its locks. When the daemon shuts down,
//! they are left for the next run.

use super::leases::{Leased, checked};
use super::permits::HeldPermit;
use super::shares::{Amount, Share};
use super::standings::Standings;
use super::{Entries, HoldError, Lease, Registry};
use crate::{Host, KeptSession, Process, Processes, Session};
use paceline_types::{Role, SessionId, Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most processes that a bound session may be bound to.
const PROCESSES_MAX: usize = 16;

/// A session that is kept.
pub struct HeldSession {
    /// The secret by which clients refer to it.
    pub key: String,
    /// The user who began it.
    pub user: String,
    /// The session of the host.
    pub session: Arc<Session>,
    /// Its locks.
    pub(super) standings: Arc<Standings>,
    /// Whether its lease is too long to be waited for after a crash of the machine.
    pub(super) is_long: bool,
}

pub(super) struct SessionEntry {
    pub(super) shared: Arc<HeldSession>,
    pub(super) lease: Option<Lease>,
    pub(super) permits: BTreeSet<String>,
    /// The process at the other end of its connection.
    own: Option<Process>,
    /// The processes that its client registered: it outlives its connection while one of them is alive.
    registered: Vec<Process>,
    /// Its part of the share of the user who began it.
    _share: Share,
}

/// The parameters of a new session.
pub struct Beginning {
    /// Its name; a number is added.
    pub name: String,
    /// The user who begins it.
    pub user: String,
    /// Whether the kernel identifies the user as root or the user who runs the daemon.
    pub is_owner: bool,
    /// Its lease, or `None` if it is bound to a connection.
    pub lease: Option<Option<Span>>,
    /// The process at the other end of that connection.
    pub process: Option<Process>,
}

/// A session as its client sees it.
#[derive(Clone, Copy, Debug)]
pub struct SessionView {
    /// The lease, unless the session is bound to a connection.
    pub lease: Option<(Span, Time)>,
}

impl Registry {
    /// Begins a session. A session with a lease ends when the lease expires; a session without one must be
    /// ended.
    ///
    /// # Errors
    ///
    /// When there are too many, or it cannot be written.
    pub async fn begin_session(
        &self,
        beginning: Beginning,
    ) -> Result<(Arc<HeldSession>, SessionView), HoldError> {
        let span = beginning.lease.map(checked).transpose()?;
        let Beginning { user, is_owner, .. } = &beginning;
        let share = self.shares.take(user, *is_owner, Amount::SESSION)?;
        let salt = self.salt()?;
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
        if let Some(keeper) = self.host.keeper() {
            keeper.keep_session(kept.clone());
        }
        self.written().await?;
        begun.session = None;
        Ok(self.add_session(session, &kept, share))
    }

    /// Registers a session, with its lease beginning now.
    pub(super) fn add_session(
        &self,
        session: Arc<Session>,
        kept: &KeptSession,
        share: Share,
    ) -> (Arc<HeldSession>, SessionView) {
        session.set_change_aware(true);
        session.keep_locks(kept.is_long());
        let standings = Standings::new(&self.host, &session, self.notices.clone(), share.taker());
        let (key, span, is_long) = ((self.keys)(&kept.salt), kept.lease, kept.is_long());
        let user = kept.user.clone();
        let shared = Arc::new(HeldSession { key: key.clone(), user, session, standings, is_long });
        let mut state = self.state();
        let now = self.clock.now();
        let begin = |span| state.leases.begin(now, span, Leased::Session(key.clone()));
        let lease = span.map(begin);
        let entry = SessionEntry {
            shared: Arc::clone(&shared),
            lease,
            permits: BTreeSet::new(),
            own: kept.processes.first().copied(),
            registered: Vec::new(),
            _share: share,
        };
        let view = SessionView::of(&entry);
        state.names.insert(shared.session.id, shared.session.name.clone());
        state.keys.insert(shared.session.name.clone(), key.clone());
        state.sessions.insert(key, entry);
        let rearm = state.leases.must_wake(lease);
        drop(state);
        if rearm {
            self.rearm.notify_one();
        }
        (shared, view)
    }

    /// The session of this key.
    ///
    /// # Errors
    ///
    /// When there is none, or its lease expired.
    pub fn session(&self, key: &str) -> Result<Arc<HeldSession>, HoldError> {
        let state = self.state();
        state.live(key, self.clock.now()).map(|entry| Arc::clone(&entry.shared))
    }

    /// Renews the lease of a session. Returns when it expires; `None` if it has no lease.
    ///
    /// # Errors
    ///
    /// When there is no such session, or its lease expired.
    pub fn renew_session(&self, key: &str) -> Result<Option<Time>, HoldError> {
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

    /// Ends a session at the request of its client: everything it holds is released. Returns whether that is on
    /// disk; `None` if there is no such session.
    pub async fn give_up_session(&self, key: &str) -> Option<bool> {
        let what = format!("session {key}");
        let Some((entry, permits)) = self.take_session(key) else {
            return self.released_again(&what).await;
        };
        self.together(|| {
            permits.into_iter().for_each(|held| held.permit.settle());
            let keeper = self.host.keeper();
            keeper.iter().for_each(|keeper| keeper.end_session(entry.shared.name(), true));
            self.host.give_up_session(&entry.shared.session);
        });
        Some(self.forgotten(|| what).await)
    }

    /// Ends a session whose lease expired: everything it holds is released, unless the daemon shuts down too
    /// and leaves it to the next run.
    pub fn end_session(&self, key: &str) {
        let Some((entry, permits)) = self.take_session(key) else { return };
        self.together(|| {
            drop(permits);
            let keeper = self.host.keeper();
            keeper.iter().for_each(|keeper| keeper.end_session(entry.shared.name(), false));
            self.host.end_session(&entry.shared.session);
        });
    }

    /// Ends the sessions that are bound to a connection, which has ended (P4), except those with a registered
    /// process that is alive: they end when it is dead (C4). When the daemon shuts down, its clients keep what
    /// they hold in the next run.
    pub fn connection_ended(self: &Arc<Self>, keys: &[String]) {
        if self.host.is_retired() {
            return;
        }
        for key in keys {
            match self.outliving(key) {
                Some(kept) => self.watch_on(&kept),
                None => self.end_session(key),
            }
        }
    }

    /// A session whose connection has ended, if a registered process is alive. From now on only registered
    /// processes count, also for the next run of the daemon.
    fn outliving(&self, key: &str) -> Option<KeptSession> {
        let keeper = self.host.keeper()?;
        let state = self.state();
        let entry = state.sessions.get(key).filter(|entry| !entry.registered.is_empty())?;
        let (name, own) = (entry.shared.name().to_owned(), entry.own);
        let registered = entry.registered.clone();
        drop(state);
        if registered.iter().all(|process| keeper.processes().is_dead(process)) {
            return None;
        }
        let kept = keeper.change_session(&name, |kept| {
            kept.processes.retain(|process| Some(*process) != own || registered.contains(process));
            kept.clone()
        });
        keeper.write();
        kept
    }

    /// Runs `give_back`, and writes all its releases together.
    pub(super) fn together(&self, give_back: impl FnOnce()) {
        match self.host.keeper() {
            Some(keeper) => keeper.together(give_back),
            None => give_back(),
        }
    }

    fn take_session(&self, key: &str) -> Option<(SessionEntry, Vec<HeldPermit>)> {
        let mut state = self.state();
        let entry = state.sessions.remove(key)?;
        state.names.remove(&entry.shared.session.id);
        state.keys.remove(entry.shared.name());
        if let Some(lease) = entry.lease {
            state.leases.end(lease);
        }
        let permits = entry.permits.iter().filter_map(|name| state.take_permit(name));
        let permits = permits.map(|held| *held).collect();
        Some((entry, permits))
    }

    /// Called when the processes are dead that the session of this name had when the daemon began. The session
    /// ends, unless others were added since, which are then watched.
    pub(super) fn processes_ended(self: &Arc<Self>, name: &str) {
        let key = self.state().keys.get(name).cloned();
        let (Some(key), Some(keeper)) = (key, self.host.keeper()) else { return };
        let Some(mut kept) = keeper.session(name) else { return };
        kept.processes.retain(|process| !keeper.processes().is_dead(process));
        match kept.processes.is_empty() {
            true => self.end_session(&key),
            false => self.watch_on(&kept),
        }
    }

    /// Ends a session when its processes are dead.
    fn watch_on(self: &Arc<Self>, kept: &KeptSession) {
        if let Err(error) = self.watch(std::slice::from_ref(kept)) {
            tracing::error!(
                session = kept.name,
                error,
                "cannot watch the processes of a session; what it holds stays held"
            );
        }
    }

    /// Binds a session to a further process, which it lasts as long as if its connection or the daemon ends.
    ///
    /// # Errors
    ///
    /// When there is no such session, it has a lease, or it cannot be written.
    pub async fn add_process(&self, key: &str, process: Process) -> Result<(), HoldError> {
        let session = self.session(key)?;
        let Some(keeper) = self.host.keeper() else { return Ok(()) };
        let processes = keeper.processes();
        let add = |kept: &mut KeptSession| add_process(kept, process, processes);
        let added = keeper.change_session(session.name(), add);
        added.unwrap_or(Err(HoldError::SessionExpired))?;
        let living = keeper.session(session.name()).map(|kept| kept.processes).unwrap_or_default();
        self.register(key, process, &living)?;
        self.written().await
    }

    /// Makes a session outlive its connection as long as a process does; `living` are those of its processes
    /// that are alive.
    fn register(&self, key: &str, process: Process, living: &[Process]) -> Result<(), HoldError> {
        let mut state = self.state();
        // Its connection may have ended before the process was registered.
        let entry = state.sessions.get_mut(key).ok_or(HoldError::SessionExpired)?;
        entry.registered.retain(|other| living.contains(other) && *other != process);
        entry.registered.push(process);
        Ok(())
    }

    /// The name under which lists show a session of the API.
    #[must_use]
    pub fn session_name(&self, id: SessionId) -> Option<String> {
        self.state().names.get(&id).cloned()
    }

    /// The salt from which the secret of a session is derived, together with that of the daemon.
    fn salt(&self) -> Result<String, HoldError> {
        let mut bytes = [0u8; 16];
        self.clock.fill_random(&mut bytes).map_err(HoldError::NoSecret)?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Whether there is such a session.
    #[must_use]
    pub fn has_session(&self, key: &str) -> bool {
        self.state().sessions.contains_key(key)
    }
}

/// A session of the host that no client knows yet. Dropping it ends it.
struct Begun<'a> {
    host: &'a Host,
    session: Option<Arc<Session>>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let keeper = self.host.keeper();
            keeper.iter().for_each(|keeper| keeper.end_session(&session.name, true));
            self.host.give_up_session(&session);
            keeper.iter().for_each(|keeper| keeper.write());
        }
    }
}

#[cfg(test)]
thread_local! {
    /// How often this thread read the name of a session, for tests that count steps.
    static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl HeldSession {
    #[cfg(test)]
    pub(super) const LOOKS: &std::thread::LocalKey<std::cell::Cell<usize>> = &LOOKS;

    /// Waits until it has ended.
    pub async fn ended(&self) {
        self.standings.closed().await;
    }

    /// The name under which it is shown, which is also that of its row.
    #[must_use]
    pub fn name(&self) -> &str {
        #[cfg(test)]
        Self::LOOKS.set(Self::LOOKS.get() + 1);
        &self.session.name
    }
}

/// Adds a process that a session lasts as long as.
fn add_process(
    kept: &mut KeptSession,
    process: Process,
    processes: &dyn Processes,
) -> Result<(), HoldError> {
    if kept.lease.is_some() {
        return Err(HoldError::NotBound);
    }
    kept.processes.retain(|process| !processes.is_dead(process));
    if kept.processes.contains(&process) {
        return Ok(());
    }
    if kept.processes.len() >= PROCESSES_MAX {
        return Err(HoldError::TooMany("processes of a session", PROCESSES_MAX));
    }
    kept.processes.push(process);
    Ok(())
}

impl SessionView {
    fn of(entry: &SessionEntry) -> Self {
        Self { lease: entry.lease.map(|lease| (lease.span, lease.ends)) }
    }
}

impl Entries {
    /// A session that has not ended, whether or not it has been swept.
    pub(super) fn live(&self, key: &str, now: Time) -> Result<&SessionEntry, HoldError> {
        match self.sessions.get(key) {
            Some(entry) if entry.lease.is_none_or(|lease| lease.ends > now) => Ok(entry),
            Some(_) => Err(HoldError::SessionExpired),
            None if self.expired.holds(key) => Err(HoldError::SessionExpired),
            None => Err(HoldError::NoSession),
        }
    }
}
