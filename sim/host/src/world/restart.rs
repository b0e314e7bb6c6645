//! The daemon starts, is killed, shuts down in order, and starts again.

use super::act::LOCKS;
use super::{Edit, USERS, What, World};
use crate::model::{Gone, Graph, Hold};
use paceline_journal::disk::Faults;
use paceline_types::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Leases up to this long may be lost with the machine.
const UNSYNCED: Span = paceline_host::UNSYNCED_LEASE_MAX;

/// The initial resources: each with its parents.
const FIRST: [(&str, &[usize]); 6] =
    [("a", &[]), ("b", &[0]), ("c", &[0]), ("d", &[1]), ("e", &[]), ("f", &[2, 4])];

impl World {
    /// The first start, and the initial configuration.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        self.daemon = Some(self.machine.start(Faults::default())?);
        let mut graph = Graph::default();
        let mut uuids: Vec<String> = vec![];
        let mut operations: Vec<String> = vec![];
        for (name, parents) in FIRST {
            let uuid =
                paceline_types::UuidSource::from_number(self.rng.next()).next_uuid().to_string();
            let parents: BTreeSet<String> =
                parents.iter().filter_map(|index| uuids.get(*index).cloned()).collect();
            let set: Vec<String> = parents.iter().map(|p| format!("[\"uuid\", \"{p}\"]")).collect();
            operations.push(format!(
                "{{\"op\": \"insert\", \"table\": \"Resource\", \"uuid\": \"{uuid}\", \"row\": {{\"name\": \
                 \"{name}\", \"persistent\": true, \"parents\": [\"set\", [{}]]}}}}",
                set.join(", ")
            ));
            uuids.push(uuid.clone());
            graph.0.insert(uuid, (name.to_owned(), parents));
        }
        operations.push(format!(
            "{{\"op\": \"insert\", \"table\": \"Checkpoint\", \"row\": {{\"name\": \"few\", \"at\": \"frontend api\", \
             \"key\": \"user\", \"concurrency\": {}, \"persistent\": true, \"queue_max_len\": 50, \
             \"queue_max_delay\": \"60s\"}}}}",
            self.model.limits.told()
        ));
        let mut roles = BTreeMap::new();
        for user in USERS {
            operations.push(format!(
                "{{\"op\": \"insert\", \"table\": \"User\", \"row\": {{\"name\": \"{user}\", \"role\": \"client\"}}}}"
            ));
            roles.insert(user.to_owned(), "client".to_owned());
        }
        self.model.graphs.ask(graph);
        self.roles.ask(roles);
        self.begin_edit(Edit::Resources, &operations.join(", "))?;
        self.settle_down(0)?;
        self.roles.settle(self.step, &Ok(()));
        let (graph, _, roles) = self.configured()?;
        match self.model.graphs.told() == &graph && self.roles.told() == &roles {
            true => Ok(()),
            false => Err(format!("the configuration is not there: {graph:?} {roles:?}")),
        }
    }

    /// Ends the daemon, in one way or another, and starts it again.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        match self.rng.below(10) {
            0..3 => {
                let kill_at = Some(self.rng.between(1, 12));
                self.note(|_| format!("is killed at call {kill_at:?} of the disk"));
                self.is_faulty = true;
                self.daemon()?.faults.set(Faults { kill_at, ..Faults::default() });
                Ok(())
            }
            3 | 4 => {
                self.note(|_| "is killed".to_owned());
                self.killed(false)
            }
            5 | 6 => {
                self.note(|_| "power is lost".to_owned());
                self.killed(true)
            }
            _ => self.stop(),
        }
    }

    /// Called when the daemon is dead.
    pub(super) fn killed(&mut self, loses_power: bool) -> Result<(), String> {
        let Some(daemon) = self.daemon.take() else { return Ok(()) };
        let seed = self.rng.next();
        match loses_power {
            true => self.machine.lose_power(daemon, seed),
            false => self.machine.kill(daemon),
        }
        self.model.unwritten = Gone::default();
        if loses_power {
            // Releases were written, but perhaps not synced.
            self.model.gone = Gone::default();
            self.lose_unsynced();
        }
        self.start_again()
    }

    /// Shuts the daemon down in order.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        let is_healthy = !self.is_faulty || self.rng.chance(70);
        if is_healthy {
            self.is_faulty = false;
            self.daemon()?.faults.set(Faults::default());
        }
        self.note(|_| format!("ends in order, with a good disk: {is_healthy}"));
        self.leave_places(is_healthy);
        self.daemon()?.host.retire();
        for _ in 0..self.rng.below(20) {
            self.step += 1;
            let choices = self.daemon()?.executor.choices();
            self.go_on(&choices)?;
            let done = std::mem::take(
                &mut *self.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
            );
            self.read_connections()?;
            for (number, done) in done {
                self.land(number, done)?;
            }
        }
        let tasks: Vec<u64> = self.flights.values().map(|flight| flight.task).collect();
        let Some(daemon) = self.daemon.take() else { return Ok(()) };
        tasks.into_iter().for_each(|task| daemon.executor.cancel(task));
        self.machine.stop(daemon);
        if is_healthy {
            self.model.gone.take(&mut self.model.unwritten);
        }
        self.model.unwritten = Gone::default();
        self.start_again()
    }

    /// After a power loss only what was synced is certain. All processes are dead.
    fn lose_unsynced(&mut self) {
        let is_long = |lease: Option<Span>| lease.is_some_and(|lease| lease > UNSYNCED);
        self.model.sessions.retain(|_, session| session.process.is_none());
        for session in self.model.sessions.values_mut().filter(|one| !is_long(one.lease)) {
            session.hold = Hold::Lost;
        }
        let sessions = &self.model.sessions;
        let is_lost = |key: &String| sessions.get(key).is_some_and(|one| one.hold == Hold::Lost);
        let is_there = |key: &String| sessions.contains_key(key);
        self.model.permits.retain(|_, permit| permit.session.as_ref().is_none_or(is_there));
        for permit in self.model.permits.values_mut() {
            let is_kept = match &permit.session {
                Some(key) => !is_lost(key),
                None => permit.has_claims || is_long(permit.lease),
            };
            if !is_kept {
                permit.hold = Hold::Lost;
            }
        }
        self.model.locks.retain(|_, lock| is_there(&lock.session));
        // A release that was not synced may be undone.
        let pairs = LOCKS.iter().flat_map(|lock| {
            sessions.keys().map(move |session| ((*lock).to_owned(), session.clone()))
        });
        self.model.untold.extend(pairs);
        for lock in self.model.locks.values_mut().filter(|lock| is_lost(&lock.session)) {
            lock.hold = Hold::Lost;
        }
    }

    /// Starts the daemon, perhaps not at the first try.
    fn start_again(&mut self) -> Result<(), String> {
        let now = self.now();
        self.open_places();
        // The outcome of actions under way is unknown.
        let asked = self.flights.values().filter_map(|flight| match &flight.what {
            What::Lock { name, session, .. } | What::Unlock { name, session } => {
                Some((name.clone(), session.clone()))
            }
            _ => None,
        });
        self.model.untold.extend(asked);
        self.model.untold.extend(std::mem::take(&mut self.model.left).into_values());
        let doubted = self.model.locks.iter().filter(|(_, lock)| lock.hold == Hold::Unknown);
        self.model.untold.extend(doubted.map(|(pair, _)| pair.clone()));
        self.flights.clear();
        self.slow = None;
        self.pending.clear();
        self.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
        self.conns.clear();
        self.model.conn_locks.clear();
        self.admin = None;
        let held: BTreeSet<String> = self
            .model
            .permits
            .iter()
            .filter(|(_, permit)| self.model.has_permit(permit, now))
            .map(|(name, _)| name.clone())
            .collect();
        self.model.permits.retain(|name, _| held.contains(name));
        let locks: BTreeSet<(String, String)> = self
            .model
            .locks
            .iter()
            .filter(|(_, lock)| self.model.has_lock(lock, now))
            .map(|(key, _)| key.clone())
            .collect();
        self.model.locks.retain(|key, _| locks.contains(key));
        self.model.sessions.retain(|_, session| {
            session.hold != Hold::Unknown && session.expires.is_none_or(|at| at > now)
        });
        for _ in 0..self.rng.below(3) {
            let faults = match self.rng.below(3) {
                0 => Faults { full_after: Some(self.rng.below(200)), ..Faults::default() },
                1 => Faults { kill_at: Some(self.rng.between(1, 9)), ..Faults::default() },
                _ => Faults { sync_error: Some(self.rng.between(1, 4)), ..Faults::default() },
            };
            self.note(|_| format!("starts with {faults:?}"));
            match self.machine.start(faults) {
                // If the disk does not fail during the start, the daemon is killed now.
                Ok(daemon) => self.machine.kill(daemon),
                Err(error) => self.note(|_| format!("does not start: {error}")),
            }
        }
        let daemon = self.machine.start(Faults::default());
        self.daemon = Some(daemon.map_err(|error| format!("does not start: {error}"))?);
        self.is_faulty = false;
        self.note(|_| "has started".to_owned());
        self.started()
    }

    /// Checks that what clients hold exists, and what they released does not.
    fn started(&mut self) -> Result<(), String> {
        let (graph, limit, roles) = self.configured()?;
        if !self.model.graphs.find(self.step, &graph) {
            return Err(format!("an edit of resources is lost: {graph:?}"));
        }
        self.model.keep_all(self.step);
        if !self.model.limits.find(self.step, &limit) {
            return Err(format!("an edit of the limit is lost: {limit}"));
        }
        if !self.roles.find(self.step, &roles) {
            return Err(format!("an edit of roles is lost: {roles:?}"));
        }
        let tokens = self.token_rows()?;
        self.tokens.retain(|token, _| tokens.contains(&format!("t{token}")));
        let daemon = self.daemon()?;
        for view in daemon.registry.permits(1_000) {
            if self.model.gone.requests.contains_key(&view.request.0) {
                return Err(format!("permit {} ({}) came back", view.name, view.request.0));
            }
        }
        for lock in daemon.host.locking().shown_from("", 1_000) {
            if let Some((_, owner, fencing)) = &lock.owner
                && self.model.gone.locks.contains(&(lock.name.to_string(), *fencing))
            {
                return Err(format!("lock {} ({fencing}) came back to {owner}", lock.name));
            }
        }
        let back = self.model.gone.sessions.iter().find(|key| daemon.registry.has_session(key));
        if let Some(key) = back {
            return Err(format!("session {key} came back"));
        }
        self.renew_all();
        self.check_held()?;
        self.check_claims()
    }

    /// Leases begin again with the daemon.
    fn renew_all(&mut self) {
        let now = self.now();
        for session in self.model.sessions.values_mut().filter(|one| one.hold == Hold::Held) {
            session.expires = session.lease.map(|lease| now.plus(lease));
        }
        for permit in self.model.permits.values_mut().filter(|one| one.hold == Hold::Held) {
            permit.expires = permit.lease.map(|lease| now.plus(lease));
        }
    }
}
