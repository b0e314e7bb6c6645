//! Sessions: begun, renewed, ended.

use super::leases::{Leased, checked};
use super::{Lease, Registry, State};
use crate::mailbox::Mailbox;
use crate::respond::Problem;
use crate::token::secret;
use paceline_host::Session;
use paceline_types::{SessionId, Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A session as handlers use it.
pub(crate) struct ApiSession {
    /// The secret by which clients know it.
    pub(crate) key: String,
    /// What the host knows it as.
    pub(crate) session: Arc<Session>,
    /// What is told to it about locks.
    pub(crate) mailbox: Arc<Mailbox>,
}

pub(super) struct SessionEntry {
    pub(super) shared: Arc<ApiSession>,
    pub(super) lease: Option<Lease>,
    pub(super) permits: BTreeSet<String>,
}

/// What a client is told of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionView {
    /// The lease, unless the session is bound to a connection.
    pub(crate) lease: Option<(Span, Time)>,
}

impl Registry {
    /// Begins a session. One with a lease ends when that runs out; one without must be ended.
    pub(crate) fn begin_session(
        &self,
        name: &str,
        lease: Option<Option<Span>>,
    ) -> Result<(Arc<ApiSession>, SessionView), Problem> {
        let span = lease.map(checked).transpose()?;
        if self.state().sessions.len() >= self.limits.sessions_max {
            return Err(Problem::exhausted("sessions", self.limits.sessions_max));
        }
        let key = secret::<16>().map_err(|error| Problem::internal(&error.to_string()))?;
        let key = format!("s-{key}");
        let session = self.host.begin_session(|id| format!("{name}#{}", id.0));
        session.set_change_aware(true);
        let mailbox = Mailbox::new(&self.host, &session, self.notices.clone());
        let shared = Arc::new(ApiSession { key: key.clone(), session, mailbox });
        let mut state = self.state();
        let now = self.clock.now();
        let begin = |span| state.leases.begin(now, span, Leased::Session(key.clone()));
        let lease = span.map(begin);
        let entry = SessionEntry { shared: Arc::clone(&shared), lease, permits: BTreeSet::new() };
        let view = SessionView::of(&entry);
        state.names.insert(shared.session.id, shared.session.name.clone());
        state.sessions.insert(key, entry);
        let rearm = state.leases.is_next(lease);
        drop(state);
        if rearm {
            self.rearm.notify_one();
        }
        Ok((shared, view))
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

    /// Ends a session: everything it holds is given back. False if there is none.
    pub(crate) fn end_session(&self, key: &str) -> bool {
        let mut state = self.state();
        let Some(entry) = state.sessions.remove(key) else { return false };
        state.names.remove(&entry.shared.session.id);
        if let Some(lease) = entry.lease {
            state.leases.end(lease);
        }
        let permits: Vec<_> = entry.permits.iter().map(|name| state.take_permit(name)).collect();
        drop(state);
        // Each permit tells that it is settled; the host then gives back what else there is.
        drop(permits);
        self.host.end_session(&entry.shared.session);
        true
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
