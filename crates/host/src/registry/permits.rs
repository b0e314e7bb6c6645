//! Permits that are held: registered, renewed, settled. How they are asked for is in `ask.rs`.

use super::ask::{Chosen, Pending, Untold};
use super::leases::{LeaseKey, Leased, checked};
use super::shares::Share;
use super::{Entries, HeldSession, HoldError, Lease, Registry};
use crate::control::{self, Permit};
use crate::kept::{PlaceHash, UNSYNCED_LEASE_MAX};
use paceline_engine::Grant;
use paceline_types::{RequestId, Span, Time};
use std::sync::Arc;

/// Releases that are remembered because they are not on disk.
const UNWRITTEN_MAX: usize = 100_000;

/// A name in use.
pub(super) enum Slot {
    /// Requested, and not granted yet.
    Pending(Arc<Pending>, usize),
    /// Granted, and a client has it.
    Held(Box<HeldPermit>),
}

/// A permit that a client holds. Dropping it settles the request, unless the daemon shuts down and leaves it to
/// the next run.
pub(super) struct HeldPermit {
    pub(super) permit: Permit,
    pub(super) view: PermitView,
    pub(super) digest: Option<[u8; 32]>,
    lease: Option<Lease>,
    of: Belonging,
    /// Its part of its user's share.
    _share: Share,
}

/// What a permit belongs to: sessions by their keys, or a lease of its own.
#[derive(Default)]
pub(super) struct Belonging {
    pub(super) session: Option<String>,
    pub(super) locks_of: Option<String>,
    pub(super) span: Option<Span>,
}

impl Belonging {
    /// The sessions that the permit ends with.
    fn sessions(&self) -> impl Iterator<Item = &String> {
        self.session.iter().chain(&self.locks_of)
    }
}

/// A permit as its client sees it.
#[derive(Clone, Debug)]
pub struct PermitView {
    /// Its name; empty if it has ended already.
    pub name: String,
    /// Its request.
    pub request: RequestId,
    /// The priority that the rules gave it.
    pub priority: i8,
    /// The name of its pool.
    pub pool: Box<str>,
    /// When it was granted: microseconds since 1970.
    pub granted_us: i64,
    /// How long it waited.
    pub waited: Span,
    /// When its lease, or that of its session, ends.
    pub expires_at: Option<Time>,
    /// The user who asked.
    pub user: String,
}

/// The terms under which a permit is held.
#[derive(Clone)]
pub struct Terms {
    /// The session it belongs to.
    pub session: Option<Arc<HeldSession>>,
    /// Another session that owns the locks it requires. The permit ends with either.
    pub locks_of: Option<Arc<HeldSession>>,
    /// Its own lease, if it belongs to no session.
    pub lease: Option<Span>,
    /// The user who asked.
    pub user: String,
    /// Whether the kernel identifies the user as root or the user who runs the daemon.
    pub is_owner: bool,
    /// Identifies the request if it waits and its client asks again after an orderly shutdown of the daemon.
    pub place: Option<PlaceHash>,
    /// The client, if its disconnection can be noticed.
    pub asker: Option<Arc<dyn Asker>>,
}

/// A client that waits for an answer.
pub trait Asker: Send + Sync {
    /// Whether it has disconnected by now.
    fn has_left(&self) -> bool;
}

impl Terms {
    /// Checks that the client has not disconnected while it waited: otherwise the permit is passed on to the
    /// next one.
    pub(super) fn check_here(&self) -> Result<(), HoldError> {
        match self.asker.as_ref().is_some_and(|asker| asker.has_left()) {
            true => Err(HoldError::Left),
            false => Ok(()),
        }
    }

    /// Checks the lease, before a request is made.
    ///
    /// # Errors
    ///
    /// When it is out of bounds.
    pub fn check(&self) -> Result<(), HoldError> {
        checked(self.lease).map(|_| ())
    }

    /// The terms as they are kept, with the name that the client chose and the digest of its body.
    pub(super) fn kept(&self, chosen: Option<&Chosen>) -> Result<control::Terms, HoldError> {
        let span = self.span()?;
        let session = self.session.as_ref();
        let is_long = match session {
            Some(session) => session.is_long,
            None => span.is_some_and(|span| span > UNSYNCED_LEASE_MAX),
        };
        Ok(control::Terms {
            name: chosen.map(|chosen| chosen.name.clone()).unwrap_or_default(),
            user: self.user.clone(),
            session: session.map(|session| session.name().to_owned()).unwrap_or_default(),
            lease: span,
            is_long,
            digest: chosen.map(|chosen| hex(&chosen.digest)).unwrap_or_default(),
            place: self.place,
        })
    }

    /// Its own lease, if it belongs to no session.
    fn span(&self) -> Result<Option<Span>, HoldError> {
        self.session.is_none().then(|| checked(self.lease)).transpose()
    }
}

impl Registry {
    /// A running or ended request as its client sees it.
    pub(super) fn describe(&self, permit: &Permit, user: &str) -> PermitView {
        let Grant { priority, pool, since, .. } = *permit.grant();
        let granted_us = self.host.control().granted_us(permit.id(), since);
        let control = self.host.control();
        let name = control.snapshot().pools().by_id(pool).map(|pool| pool.name.clone());
        // A deleted pool counts it under its name until it ends.
        let pool = name.or_else(|| control.slot_name(permit.id()));
        PermitView {
            name: String::new(),
            request: permit.id(),
            priority: priority.number(),
            pool: pool.unwrap_or_default(),
            granted_us,
            waited: permit.grant().waited(),
            expires_at: None,
            user: user.to_owned(),
        }
    }

    /// Waits until everything granted so far is on disk.
    pub(super) async fn written(&self) -> Result<(), HoldError> {
        let Some(keeper) = self.host.keeper() else { return Ok(()) };
        keeper.written().await.map_err(HoldError::NotWritten)
    }

    /// The same for a release; returns whether it is on disk. A failed write is retried automatically, and a
    /// client that repeats the release learns whether it is on disk by then.
    pub(super) async fn forgotten(&self, what: impl FnOnce() -> String) -> bool {
        let is_written = self.written().await.is_ok();
        if is_written && self.state().unwritten.is_empty() {
            return true;
        }
        let what = what();
        let is_all_written = self.host.keeper().is_none_or(|keeper| keeper.is_written());
        let mut state = self.state();
        if is_all_written {
            state.unwritten.clear();
        }
        match is_written {
            true => drop(state.unwritten.remove(&what)),
            false if state.unwritten.len() < UNWRITTEN_MAX => drop(state.unwritten.insert(what)),
            false => {}
        }
        is_written
    }

    /// Handles the release of something that is not held: whether its earlier release is on disk by now; `None`
    /// if it was not held before either, or its release is known to be on disk.
    pub(super) async fn released_again(&self, what: &str) -> Option<bool> {
        let is_known = self.state().unwritten.contains(what);
        if is_known { Some(self.forgotten(|| what.to_owned()).await) } else { None }
    }

    /// Registers a permit for the client that is answered next. It must be on disk, and its session must exist.
    pub(super) fn hold(
        &self,
        untold: &mut Untold,
        terms: &Terms,
        chosen: Option<&Chosen>,
        share: Share,
    ) -> Result<PermitView, HoldError> {
        let span = terms.span()?;
        // It is taken only here, and the clients that wait for it get the outcome.
        let permit = untold.0.take().ok_or(HoldError::PermitOver)?;
        let mut view = self.describe(&permit, &terms.user);
        view.name = match chosen {
            Some(chosen) => chosen.name.clone(),
            None => control::Terms::default().name_of(view.request),
        };
        let key = |session: &Option<Arc<HeldSession>>| session.as_ref().map(|one| one.key.clone());
        let of = Belonging { session: key(&terms.session), locks_of: key(&terms.locks_of), span };
        let digest = chosen.map(|chosen| chosen.digest);
        self.add_permit(permit, view, digest, of, share).map_err(|failed| {
            let (permit, error) = *failed;
            untold.0 = Some(permit);
            error
        })
    }

    /// Registers a permit, with its lease beginning now.
    pub(super) fn add_permit(
        &self,
        permit: Permit,
        mut view: PermitView,
        digest: Option<[u8; 32]>,
        of: Belonging,
        share: Share,
    ) -> Result<PermitView, Box<(Permit, HoldError)>> {
        let name = view.name.clone();
        let mut state = self.state();
        let now = self.clock.now();
        for key in of.sessions() {
            if let Err(error) = state.live(key, now) {
                return Err(Box::new((permit, error)));
            }
        }
        let lease = match of.session.as_ref().and_then(|key| state.sessions.get(key)) {
            Some(session) => session.lease,
            None => of.span.map(|span| state.leases.begin(now, span, Leased::Permit(name.clone()))),
        };
        for key in of.sessions() {
            if let Some(entry) = state.sessions.get_mut(key) {
                entry.permits.insert(name.clone());
            }
        }
        view.expires_at = lease.map(|lease| lease.ends);
        let own_lease = lease.filter(|_| of.session.is_none());
        let held =
            HeldPermit { view: view.clone(), digest, lease: own_lease, of, permit, _share: share };
        state.by_request.insert(view.request, name.clone());
        let rearm = state.leases.must_wake(own_lease);
        state.permits.insert(name, Slot::Held(Box::new(held)));
        drop(state);
        if rearm {
            self.rearm.notify_one();
        }
        Ok(view)
    }

    /// Renews the lease of a permit or of its session. Returns when it expires.
    ///
    /// # Errors
    ///
    /// When there is no such permit, or its lease expired.
    pub fn renew_permit(&self, name: &str) -> Result<Option<Time>, HoldError> {
        let mut state = self.state();
        let now = self.clock.now();
        let held = match state.permits.get(name) {
            Some(Slot::Held(held)) => held,
            _ if state.expired.holds(name) => return Err(HoldError::PermitExpired),
            _ => return Err(HoldError::NoPermit),
        };
        if let Some(session) = held.of.session.clone() {
            drop(state);
            return self.renew_session(&session);
        }
        let Some(lease) = held.lease else { return Ok(None) };
        if lease.ends <= now {
            return Err(HoldError::PermitExpired);
        }
        state.leases.end(lease);
        let lease = state.leases.begin(now, lease.span, Leased::Permit(name.to_owned()));
        if let Some(Slot::Held(held)) = state.permits.get_mut(name) {
            (held.lease, held.view.expires_at) = (Some(lease), Some(lease.ends));
        }
        Ok(Some(lease.ends))
    }

    /// Settles a permit at the request of its client. Returns whether that is on disk; `None` if there is no
    /// such permit.
    pub async fn settle(&self, name: &str) -> Option<bool> {
        let held = self.state().take_permit(name);
        let what = || format!("permit {name}");
        let Some(held) = held else { return self.released_again(&what()).await };
        // It calls the engine, which must not happen under the lock.
        held.permit.settle();
        Some(self.forgotten(what).await)
    }

    /// Settles a permit whose lease expired, unless another one has its name by now.
    pub(super) fn end_permit(&self, name: &str, lease: LeaseKey) {
        let mut state = self.state();
        let is_it = match state.permits.get(name) {
            Some(Slot::Held(held)) => held.lease.map(|own| own.key()) == Some(lease),
            _ => false,
        };
        let held = if is_it { state.take_permit(name) } else { None };
        drop(state);
        // Dropping it calls the engine, which must not happen under the lock.
        drop(held);
    }

    /// One permit.
    ///
    /// # Errors
    ///
    /// When there is no such permit.
    pub fn permit(&self, name: &str) -> Result<PermitView, HoldError> {
        let state = self.state();
        match state.permits.get(name) {
            Some(Slot::Held(held)) => Ok(state.view(held)),
            _ => Err(HoldError::NoPermit),
        }
    }

    /// The permits by name, `count` at most.
    #[must_use]
    pub fn permits(&self, count: usize) -> Vec<PermitView> {
        let state = self.state();
        let held = state.permits.values().filter_map(|slot| match slot {
            Slot::Held(held) => Some(state.view(held)),
            Slot::Pending(..) => None,
        });
        held.take(count).collect()
    }

    /// The name of the permit that a request holds.
    #[must_use]
    pub fn permit_of(&self, request: RequestId) -> Option<String> {
        self.state().by_request.get(&request).cloned()
    }
}

impl Entries {
    /// Removes a permit, to be dropped without the lock.
    pub(super) fn take_permit(&mut self, name: &str) -> Option<Box<HeldPermit>> {
        let Some(Slot::Held(_)) = self.permits.get(name) else { return None };
        let Some(Slot::Held(held)) = self.permits.remove(name) else { return None };
        self.by_request.remove(&held.view.request);
        if let Some(lease) = held.lease {
            self.leases.end(lease);
        }
        for key in held.of.sessions() {
            if let Some(entry) = self.sessions.get_mut(key) {
                entry.permits.remove(name);
            }
        }
        Some(held)
    }

    /// A permit as its client sees it; a permit of a session has the session's lease.
    pub(super) fn view(&self, held: &HeldPermit) -> PermitView {
        let session = held.of.session.as_ref().and_then(|key| self.sessions.get(key));
        let lease = session.map_or(held.lease, |entry| entry.lease);
        PermitView { expires_at: lease.map(|lease| lease.ends), ..held.view.clone() }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
