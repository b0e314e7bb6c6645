//! Permits: given, renewed, settled; and those that several clients ask for under one name.
//!
//! A name that a client chose is first pending: whoever asks for it with the same body waits along,
//! and when the last of them leaves, the request leaves its queue. Then it is held.

use super::leases::{LeaseKey, Leased, checked};
use super::{ApiSession, Lease, Registry, State};
use crate::respond::Problem;
use crate::token::hex;
use paceline_host::{Grant, Kept, KeptPermit, Permit, UNSYNCED_LEASE_MAX, Waiting};
use paceline_types::{Request, RequestId, Span, Time};
use std::sync::Arc;

/// A name in use.
pub(super) enum Slot {
    /// Asked for, and not given yet.
    Pending(Arc<Pending>, usize),
    /// Given.
    Held(Box<HeldPermit>),
}

/// A permit that several clients may wait for.
pub(crate) struct Pending {
    digest: [u8; 32],
    /// Whoever holds this lock waits for all of them; the next one goes on where it left.
    pub(crate) stage: tokio::sync::Mutex<Stage>,
}

/// How far a permit that several may wait for has come.
pub(crate) enum Stage {
    /// Nobody has submitted the request.
    New,
    /// It waits.
    Waiting(Waiting),
    /// It may run, and is not written down yet.
    Granted(Permit),
    /// It was given.
    Given,
    /// It was turned away, for all who wait.
    Refused(Problem),
}

/// A permit that somebody holds. Dropping it settles the request.
pub(super) struct HeldPermit {
    /// Its row, which goes before what it holds: whoever gets that is written behind it.
    pub(super) row: Option<Kept>,
    _permit: Permit,
    view: PermitView,
    digest: Option<[u8; 32]>,
    lease: Option<Lease>,
    session: Option<String>,
}

/// What a client is told of a permit.
#[derive(Clone, Debug)]
pub(crate) struct PermitView {
    pub(crate) name: String,
    pub(crate) request: RequestId,
    pub(crate) priority: i8,
    pub(crate) pool: Box<str>,
    /// Microseconds since 1970.
    pub(crate) granted_us: i64,
    pub(crate) waited: Span,
    pub(crate) expires_at: Option<Time>,
    pub(crate) user: String,
}

/// Under which terms a permit is held.
#[derive(Clone)]
pub(crate) struct Terms {
    /// The session it belongs to.
    pub(crate) session: Option<Arc<ApiSession>>,
    /// Its own lease, if it belongs to none.
    pub(crate) lease: Option<Span>,
    /// Who asked.
    pub(crate) user: String,
}

impl Terms {
    /// That the lease is one, before anything is asked for.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        checked(self.lease).map(|_| ())
    }
}

/// A permit that is on disk and in no book yet.
pub(crate) struct Written {
    pub(super) view: PermitView,
    pub(super) row: Option<Kept>,
    pub(super) digest: Option<[u8; 32]>,
    /// Its own lease, if it belongs to no session.
    pub(super) span: Option<Span>,
}

/// What asking for a chosen name leads to.
pub(crate) enum Join {
    /// It is held already.
    Held(PermitView),
    /// It is asked for, by this client alone or with others.
    Along(Given),
}

/// That a client waits for a chosen name. When the last one is dropped before the permit is given, the
/// request leaves its queue.
pub(crate) struct Given {
    registry: Arc<Registry>,
    name: String,
    pub(crate) pending: Arc<Pending>,
}

impl Registry {
    /// Asks for a name with a body of this digest.
    pub(crate) fn join(self: &Arc<Self>, name: &str, digest: [u8; 32]) -> Result<Join, Problem> {
        // A name whose lease has run out is free again.
        self.end_due();
        let mut state = self.state();
        let conflict = || {
            Problem::conflict("a permit of this id was asked for with another body")
                .hint("choose another id, or send the same body")
        };
        match state.permits.get_mut(name) {
            Some(Slot::Held(held)) if held.digest == Some(digest) => {
                return Ok(Join::Held(held.view.clone()));
            }
            Some(Slot::Pending(pending, clients)) if pending.digest == digest => {
                *clients += 1;
                let pending = Arc::clone(pending);
                return Ok(Join::Along(self.given(name, pending)));
            }
            Some(_) => return Err(conflict()),
            None => {}
        }
        let pending = Arc::new(Pending { digest, stage: tokio::sync::Mutex::new(Stage::New) });
        state.permits.insert(name.to_owned(), Slot::Pending(Arc::clone(&pending), 1));
        Ok(Join::Along(self.given(name, pending)))
    }

    fn given(self: &Arc<Self>, name: &str, pending: Arc<Pending>) -> Given {
        Given { registry: Arc::clone(self), name: name.to_owned(), pending }
    }

    /// What a client is told of a request that runs, or did.
    pub(crate) fn describe(&self, permit: &Permit, user: &str) -> PermitView {
        let Grant { priority, pool, arrival, since, .. } = *permit.grant();
        let snapshot = self.host.control().snapshot();
        let pool = snapshot.pools().by_id(pool).map(|pool| pool.name.clone());
        PermitView {
            name: String::new(),
            request: permit.id(),
            priority: priority.number(),
            pool: pool.unwrap_or_default(),
            granted_us: self.wall.now().us(since),
            waited: since.since(arrival),
            expires_at: None,
            user: user.to_owned(),
        }
    }

    /// Writes a permit that was just given to the disk. Whoever stops waiting for that leaves nothing
    /// behind.
    pub(crate) async fn write(
        &self,
        permit: &Permit,
        request: Request,
        terms: &Terms,
        chosen: Option<&(String, [u8; 32])>,
    ) -> Result<Written, Problem> {
        let mut view = self.describe(permit, &terms.user);
        view.name = match chosen {
            Some((name, _)) => name.clone(),
            None => own_name(view.request),
        };
        let span = terms.session.is_none().then(|| checked(terms.lease)).transpose()?;
        let digest = chosen.map(|(_, digest)| *digest);
        let Some(keeper) = self.host.keeper() else {
            return Ok(Written { view, row: None, digest, span });
        };
        let session = terms.session.as_ref();
        let is_long = session.map_or_else(
            || span.is_some_and(|span| span > UNSYNCED_LEASE_MAX),
            |session| session.is_long(),
        );
        let kept = KeptPermit {
            name: view.name.clone(),
            number: view.request,
            request,
            priority: view.priority,
            user: view.user.clone(),
            session: session.map(|session| session.name().to_owned()).unwrap_or_default(),
            lease: span,
            is_long,
            digest: digest.map(|digest| hex(&digest)).unwrap_or_default(),
            granted_us: view.granted_us,
            waited: view.waited,
        };
        let row = keeper.keep_permit(&kept).await.map_err(|error| Problem::not_kept(&error))?;
        Ok(Written { view, row: Some(row), digest, span })
    }

    /// Writes down a permit that is on disk. It is settled at once if its session is over.
    pub(crate) fn hold(
        &self,
        permit: Permit,
        written: Written,
        terms: &Terms,
    ) -> Result<PermitView, Problem> {
        let session = terms.session.as_ref().map(|session| session.key.clone());
        self.add_permit(permit, written, session)
    }

    /// Puts a permit into the books, its lease beginning now.
    pub(super) fn add_permit(
        &self,
        permit: Permit,
        written: Written,
        session: Option<String>,
    ) -> Result<PermitView, Problem> {
        let Written { mut view, row, digest, span } = written;
        let name = view.name.clone();
        let mut state = self.state();
        let now = self.clock.now();
        let lease = match &session {
            Some(key) => state.live(key, now)?.lease,
            None => span.map(|span| state.leases.begin(now, span, Leased::Permit(name.clone()))),
        };
        if let Some(entry) = session.as_ref().and_then(|key| state.sessions.get_mut(key)) {
            entry.permits.insert(name.clone());
        }
        view.expires_at = lease.map(|lease| lease.ends);
        let own_lease = lease.filter(|_| session.is_none());
        let held = HeldPermit {
            row,
            view: view.clone(),
            digest,
            lease: own_lease,
            session,
            _permit: permit,
        };
        state.by_request.insert(view.request, name.clone());
        let rearm = state.leases.is_next(own_lease);
        state.permits.insert(name, Slot::Held(Box::new(held)));
        drop(state);
        if rearm {
            self.rearm.notify_one();
        }
        Ok(view)
    }

    /// Lets a permit's lease, or its session's, begin anew. Answers when it ends.
    pub(crate) fn renew_permit(&self, name: &str) -> Result<Option<Time>, Problem> {
        let mut state = self.state();
        let now = self.clock.now();
        let held = match state.permits.get(name) {
            Some(Slot::Held(held)) => held,
            _ if state.expired.holds(name) => return Err(permit_expired()),
            _ => return Err(no_such_permit()),
        };
        if let Some(session) = held.session.clone() {
            drop(state);
            return self.renew_session(&session);
        }
        let Some(lease) = held.lease else { return Ok(None) };
        if lease.ends <= now {
            return Err(permit_expired());
        }
        state.leases.end(lease);
        let lease = state.leases.begin(now, lease.span, Leased::Permit(name.to_owned()));
        if let Some(Slot::Held(held)) = state.permits.get_mut(name) {
            (held.lease, held.view.expires_at) = (Some(lease), Some(lease.ends));
        }
        Ok(Some(lease.ends))
    }

    /// Settles a permit because whoever has it says so, and waits until that is written as far as the
    /// disk lets it; false if there is none.
    pub(crate) async fn settle(&self, name: &str) -> bool {
        let held = self.state().take_permit(name);
        let Some(mut held) = held else { return false };
        let deleted = held.row.take().map(Kept::forget);
        // Dropping it tells the engine, which must not happen under the lock.
        drop(held);
        if let Some(deleted) = deleted {
            deleted.await;
        }
        true
    }

    /// Settles a permit whose lease ran out, unless another one has its name by now.
    pub(super) fn end_permit(&self, name: &str, lease: LeaseKey) {
        let mut state = self.state();
        let is_it = match state.permits.get(name) {
            Some(Slot::Held(held)) => held.lease.map(|own| own.key()) == Some(lease),
            _ => false,
        };
        let held = if is_it { state.take_permit(name) } else { None };
        drop(state);
        // Dropping it tells the engine, which must not happen under the lock.
        drop(held);
    }

    /// One permit.
    pub(crate) fn permit(&self, name: &str) -> Result<PermitView, Problem> {
        let state = self.state();
        match state.permits.get(name) {
            Some(Slot::Held(held)) => Ok(state.view(held)),
            _ => Err(no_such_permit()),
        }
    }

    /// The permits by name, `count` at most.
    pub(crate) fn permits(&self, count: usize) -> Vec<PermitView> {
        let state = self.state();
        let held = state.permits.values().filter_map(|slot| match slot {
            Slot::Held(held) => Some(state.view(held)),
            Slot::Pending(..) => None,
        });
        held.take(count).collect()
    }

    /// The name of the permit that a request holds.
    pub(crate) fn permit_of(&self, request: RequestId) -> Option<String> {
        self.state().by_request.get(&request).cloned()
    }
}

impl State {
    /// Takes a permit out, to be dropped without the lock.
    pub(super) fn take_permit(&mut self, name: &str) -> Option<Box<HeldPermit>> {
        let Some(Slot::Held(_)) = self.permits.get(name) else { return None };
        let Some(Slot::Held(held)) = self.permits.remove(name) else { return None };
        self.by_request.remove(&held.view.request);
        if let Some(lease) = held.lease {
            self.leases.end(lease);
        }
        if let Some(entry) = held.session.as_ref().and_then(|key| self.sessions.get_mut(key)) {
            entry.permits.remove(name);
        }
        Some(held)
    }

    /// What a client is told; the lease of a session is the session's.
    fn view(&self, held: &HeldPermit) -> PermitView {
        let session = held.session.as_ref().and_then(|key| self.sessions.get(key));
        let lease = session.map_or(held.lease, |entry| entry.lease);
        PermitView { expires_at: lease.map(|lease| lease.ends), ..held.view.clone() }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        let mut state = self.registry.state();
        let Some(Slot::Pending(pending, clients)) = state.permits.get_mut(&self.name) else {
            return;
        };
        if !Arc::ptr_eq(pending, &self.pending) {
            return;
        }
        *clients -= 1;
        let last = if *clients == 0 { state.permits.remove(&self.name) } else { None };
        drop(state);
        // The waiter in it leaves its queue, which must not happen under the lock.
        drop(last);
    }
}

/// The name of a permit for which the client chose none. Numbers of requests are not used again.
fn own_name(request: RequestId) -> String {
    format!("p-{}", request.0)
}

/// Whether a name is one that permits get by themselves.
pub(crate) fn is_own_name(name: &str) -> bool {
    let number = name.strip_prefix("p-").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn no_such_permit() -> Problem {
    Problem::not_found("there is no such permit").hint("GET /v1/permits lists them")
}

fn permit_expired() -> Problem {
    Problem::expired("the lease of the permit ran out, and what it held is given back")
        .hint("ask for a new permit, and renew it in time or ask for a longer lease")
}
