//! The answers that clients receive.

use super::{Edit, Flight, What, World};
use crate::client::Done;
use crate::model::{Hold, LockItem, Model, PermitItem, SessionItem};
use paceline_host::registry::{HeldSession, HoldError, PermitView, SessionView};
use paceline_host::{Granted, LockAnswer, LockChange, Outgoing, Reply};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;

impl World {
    /// Handles a completed action of a client.
    pub(super) fn land(&mut self, number: u64, done: Done) -> Result<(), String> {
        let Some(flight) = self.flights.remove(&number) else {
            // The client left meanwhile. What is bound to its connection ends with it.
            match done {
                Done::Session(Ok((session, _))) => {
                    self.daemon()?.registry.connection_ended(std::slice::from_ref(&session.key));
                }
                Done::Lock(Ok(_)) => self.model.untold.extend(self.model.left.remove(&number)),
                _ => {}
            }
            return Ok(());
        };
        match (&flight.what, done) {
            (What::Begin { .. }, Done::Session(Ok((session, view)))) => {
                self.began(&flight, &session, view)
            }
            (What::Ask { .. }, Done::Permit(Ok((view, is_new)))) => {
                self.told_permit(number, &flight, &view, is_new)
            }
            (What::Lock { name, session, steals }, Done::Lock(Ok(fencing))) => {
                self.told_lock(name, session, (*steals, flight.since), fencing)
            }
            (What::Lock { name, session, steals }, Done::Lock(Err(_))) => {
                if *steals {
                    self.model.doubt_lock(name);
                    self.model.stolen.insert(name.clone(), self.step);
                }
                // A grant that was not written may be on a disk that failed.
                self.model.left.insert(number, (name.clone(), session.clone()));
                Ok(())
            }
            (What::Settle { name, request }, Done::Released(is_written)) => {
                self.settled(name, *request, is_written)
            }
            (What::GiveUp { key }, Done::Released(is_written)) => {
                self.gave_up(key, is_written);
                Ok(())
            }
            (What::Unlock { name, session }, Done::Unlocked(done)) => {
                self.unlocked(number, (name, session), done)
            }
            (What::Edit(edit), Done::Edited(outcome)) => {
                self.edited(*edit, &outcome);
                self.check_claims()
            }
            (_, Done::Permit(Err(error))) => {
                self.note(|_| format!("#{number} has no permit: {error:?}"));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn began(
        &mut self,
        flight: &Flight,
        shared: &Arc<HeldSession>,
        view: SessionView,
    ) -> Result<(), String> {
        let What::Begin { user, lease, process } = &flight.what else { return Ok(()) };
        self.note(|_| format!("session {} began", shared.name()));
        let expires = view.lease.map(|(_, ends)| ends);
        let item = SessionItem {
            name: shared.name().to_owned(),
            user: user.clone(),
            lease: *lease,
            expires,
            process: *process,
            hold: Hold::Held,
        };
        self.model.sessions.insert(shared.key.clone(), item);
        let may_hold =
            |roles: &BTreeMap<String, String>| roles.get(user).is_some_and(|role| role != "viewer");
        if process.is_some() && !self.roles.since(flight.since).all(may_hold) {
            self.model.doubt_session(&shared.key);
        }
        let daemon = self.daemon()?;
        if process.is_some() {
            let (role, granted) = daemon.host.access().of_user(u32::MAX, user);
            match granted {
                Some(granted) if role >= Some(paceline_types::Role::Client) => {
                    let (registry, shared) = (Arc::clone(&daemon.registry), Arc::clone(shared));
                    daemon.executor.begin(Box::pin(async move {
                        if until_revoked(&granted, &shared).await {
                            registry.end_session(&shared.key);
                        }
                    }));
                }
                // The role was revoked while the session began: its connection ends.
                _ => {
                    daemon.registry.connection_ended(std::slice::from_ref(&shared.key));
                    self.model.doubt_session(&shared.key);
                }
            }
        }
        Ok(())
    }

    fn told_permit(
        &mut self,
        number: u64,
        flight: &Flight,
        view: &PermitView,
        is_new: bool,
    ) -> Result<(), String> {
        let What::Ask { claims, graphs, session, lease, user, named } = &flight.what else {
            return Ok(());
        };
        let request = view.request.0;
        let other = named.as_ref().is_some_and(|(_, other)| *other);
        self.note(|_| format!("#{number} has permit {} ({request}), new {is_new}", view.name));
        // A client that asked before may receive the answer late.
        if self.model.gone.requests.get(&request).is_some_and(|told| *told < flight.since) {
            return Err(format!("request {request} was given back, and is told again"));
        }
        if !is_new {
            // Another client asked for it, and received the answer, or will.
            let known = self.model.permits.get(&view.name).filter(|known| known.request == request);
            return match known.is_some_and(|known| known.other != other) {
                true => Err(format!("{} ({request}) was asked for with another body", view.name)),
                false => Ok(()),
            };
        }
        if named.is_none() {
            // If several clients ask for it together, another may have asked before.
            self.check_waited(number, view)?;
        }
        if !self.requests.insert(request) {
            return Err(format!("the number {request} was used before"));
        }
        let now = self.now();
        if session.as_ref().is_some_and(|key| !self.model.has_session(key, now)) {
            // Its session ends, and the permit with it.
            return Ok(());
        }
        // If several clients ask for one name, the first one may have begun the request.
        let pending = named.as_ref().and_then(|(name, _)| self.pending.remove(name));
        let (asked, graphs) = pending.unwrap_or_else(|| (flight.since, graphs.clone()));
        // A release by name releases the permit that has the name then.
        let gives_back = |flight: &Flight| matches!(&flight.what, What::Settle { name, .. } if *name == view.name);
        let is_given_back = self.flights.values().any(gives_back);
        let permit = PermitItem {
            request,
            session: session.clone(),
            lease: *lease,
            expires: view.expires_at.filter(|_| session.is_none()),
            user: user.clone(),
            other,
            claims: Model::claimed(claims, &graphs),
            has_claims: !claims.is_empty(),
            asked,
            kept: vec![],
            hold: if is_given_back { Hold::Unknown } else { Hold::Held },
        };
        self.model.granted(&view.name, permit, now)?;
        let blocked = self.blocked_by(request, asked)?;
        self.model.keep(&view.name, blocked, self.step);
        self.check_claims()
    }

    fn told_lock(
        &mut self,
        name: &str,
        session: &str,
        (steals, since): (bool, u64),
        (fencing, is_written): (u64, bool),
    ) -> Result<(), String> {
        let now = self.now();
        self.note(|_| format!("session {session} owns lock {name} ({fencing}), steals {steals}"));
        let steal_lands = |flight: &Flight| matches!(&flight.what, What::Lock { name: lock, steals: true, .. } if lock == name);
        let is_robbed = self.model.stolen.get(name).is_some_and(|step| *step > since)
            || self.flights.values().any(steal_lands);
        if steals {
            self.model.stolen.insert(name.to_owned(), self.step);
        }
        if is_robbed || !self.model.has_session(session, now) {
            // It may have lost the lock since.
            if self.model.has_session(session, now) {
                let item = LockItem { session: session.to_owned(), fencing, hold: Hold::Unknown };
                self.model.locks.insert((name.to_owned(), session.to_owned()), item);
            }
            return Ok(());
        }
        if steals && is_written {
            self.robbed(name, session);
        }
        self.model.locked(name, session, fencing, now)?;
        let hold = if is_written { Hold::Held } else { Hold::Unknown };
        let item = LockItem { session: session.to_owned(), fencing, hold };
        self.model.locks.insert((name.to_owned(), session.to_owned()), item);
        Ok(())
    }

    /// Called when a steal was answered: the owner by the numbers known so far must never own the lock again.
    fn robbed(&mut self, name: &str, by: &str) {
        if self.is_faulty || self.now() < self.repaired {
            // The answer does not wait for a full disk, or a journal that is being replaced.
            return;
        }
        let now = self.now();
        let gives_back = |flight: &Flight, by: &str| matches!(&flight.what, What::Unlock { name: lock, session } if lock == name && session == by);
        for ((lock, session), item) in &self.model.locks {
            if self.flights.values().any(|flight| gives_back(flight, session)) {
                // The lock was free, and no client has received the answer that this is on disk.
                continue;
            }
            // A lock whose session may have ended by itself may be restored with it.
            if lock == name && session != by && self.model.has_session(session, now) {
                self.model.gone.locks.insert((name.to_owned(), item.fencing));
            }
        }
    }

    fn settled(
        &mut self,
        name: &str,
        request: u64,
        is_written: Option<bool>,
    ) -> Result<(), String> {
        let Some(permit) = self.model.permits.get(name) else { return Ok(()) };
        let is_it = permit.request == request;
        let (session, expires) = (permit.session.clone(), permit.expires);
        let now = self.now();
        // Another permit has the name if its lease expired.
        let is_over = !is_it
            || expires.is_some_and(|at| at <= now)
            || session.is_some_and(|key| !self.model.has_session(&key, now));
        self.note(|_| format!("{name} ({request}) is given back, on disk: {is_written:?}"));
        match is_written {
            Some(true) => drop(self.model.gone.requests.insert(request, self.step)),
            Some(false) => drop(self.model.unwritten.requests.insert(request, self.step)),
            // It may have ended in between, by its lease or with its session.
            None if is_over => {}
            None => return Err(format!("{name} ({request}) was not there to be given back")),
        }
        if is_it {
            self.model.permits.remove(name);
        }
        Ok(())
    }

    fn gave_up(&mut self, key: &str, is_written: Option<bool>) {
        let Some(session) = self.model.sessions.remove(key) else { return };
        self.note(|_| format!("session {} is given back, on disk: {is_written:?}", session.name));
        let permits = self.model.permits.extract_if(.., |_, p| p.session.as_deref() == Some(key));
        let requests: Vec<(u64, u64)> =
            permits.map(|(_, permit)| (permit.request, self.step)).collect();
        let locks = self.model.locks.extract_if(.., |(_, session), _| session == key);
        let locks: Vec<(String, u64)> =
            locks.map(|((name, _), item)| (name, item.fencing)).collect();
        let gone = match is_written {
            Some(true) => &mut self.model.gone,
            Some(false) => &mut self.model.unwritten,
            None => return,
        };
        gone.sessions.insert(key.to_owned());
        gone.requests.extend(requests);
        gone.locks.extend(locks);
    }

    fn unlocked(
        &mut self,
        number: u64,
        (name, session): (&str, &str),
        done: Result<bool, HoldError>,
    ) -> Result<(), String> {
        let pair = (name.to_owned(), session.to_owned());
        self.model.untold.remove(&pair);
        let Some(item) = self.model.locks.remove(&pair) else { return Ok(()) };
        self.note(|_| format!("lock {name} ({}) is given back, on disk: {done:?}", item.fencing));
        match done {
            Ok(true) => drop(self.model.gone.locks.insert((name.to_owned(), item.fencing))),
            Ok(false) => {
                self.model.unwritten.locks.insert((name.to_owned(), item.fencing));
                self.model.left.insert(number, pair);
            }
            // The session may have ended in between.
            Err(_) if !self.model.has_session(session, self.now()) => {}
            Err(error) => return Err(format!("lock {name} cannot be given back: {error:?}")),
        }
        Ok(())
    }

    fn edited(&mut self, edit: Edit, outcome: &Result<(), String>) {
        self.note(|_| format!("edited: {outcome:?}"));
        match edit {
            Edit::Resources => {
                self.model.graphs.settle(self.step, outcome);
                self.model.keep_all(self.step);
            }
            Edit::Limit => self.model.limits.settle(self.step, outcome),
            Edit::Roles => self.roles.settle(self.step, outcome),
            Edit::Other => {}
        }
    }

    /// Reads the items in the outboxes of OVSDB connections.
    pub(super) fn read_connections(&mut self) -> Result<(), String> {
        let numbers: Vec<u64> = self.conns.keys().copied().collect();
        numbers.into_iter().try_for_each(|number| self.read_all_of(number))
    }

    fn read_all_of(&mut self, number: u64) -> Result<(), String> {
        while let Some(item) = self.conns.get(&number).and_then(|c| c.session.outbox.take()) {
            self.read_connection(number, item)?;
        }
        Ok(())
    }

    fn read_connection(&mut self, number: u64, item: Outgoing) -> Result<(), String> {
        let Some(conn) = self.conns.get_mut(&number) else { return Ok(()) };
        let (name, is_steal) = match item {
            Outgoing::Reply(ticket, Reply::Lock(answer)) => {
                let ticket = <[u8; 8]>::try_from(&*ticket).map(u64::from_be_bytes);
                let asked = ticket.ok().and_then(|ticket| conn.asked.remove(&ticket));
                let Some((name, is_steal)) = asked.filter(|_| answer == LockAnswer::Locked) else {
                    return Ok(());
                };
                (name, is_steal)
            }
            Outgoing::Lock(notice) if notice.change == LockChange::Stolen => {
                let owner = self.model.conn_locks.get(&*notice.lock);
                if owner.is_some_and(|(owner, _)| *owner == number) {
                    self.model.conn_locks.remove(&*notice.lock);
                }
                return Ok(());
            }
            Outgoing::Lock(notice) if conn.locks.contains(&*notice.lock) => {
                (notice.lock.to_string(), false)
            }
            _ => return Ok(()),
        };
        let by = format!("connection {number}");
        let session = conn.session.id;
        let fencing = self.daemon()?.host.locking().fencing(session, &name);
        self.note(|_| format!("{by} owns lock {name} ({fencing:?})"));
        // `None` if another session stole it meanwhile.
        let Some(fencing) = fencing else { return Ok(()) };
        if is_steal {
            self.robbed(&name, &by);
        }
        // The loser's `stolen` is queued before (L4), but in another connection, which may not have been read
        // yet.
        let loser = self.model.conn_locks.get(&name).map(|(owner, _)| *owner);
        if let Some(loser) = loser.filter(|loser| *loser != number) {
            self.read_all_of(loser)?;
        }
        // The number is looked up when the notice is read. Behind a reply that is held back, several arrive at
        // once, of which all but the last are outdated.
        if self.model.fencing.get(&name) != Some(&(fencing, by.clone())) {
            self.model.locked(&name, &by, fencing, self.now())?;
        }
        self.model.conn_locks.insert(name, (number, Hold::Held));
        Ok(())
    }
}

/// Waits until a role is revoked (true) or a session ends (false).
async fn until_revoked(granted: &Granted, session: &HeldSession) -> bool {
    let (mut revoked, mut ended) =
        (std::pin::pin!(granted.revoked()), std::pin::pin!(session.ended()));
    std::future::poll_fn(|cx| match revoked.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending => ended.as_mut().poll(cx).map(|()| false),
    })
    .await
}
