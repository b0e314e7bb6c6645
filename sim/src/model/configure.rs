//! Edits of the configuration.
//!
//! The new configuration applies at once, in all its parts. Then grants are made, and then the waiters that
//! changed checkpoints dismiss move, by rank.

use super::checkpoints::{TICKS, position};
use super::config::{At, Checkpoint, Config, Limit, Pool, Resource, Unknown};
use super::seats::GONE;
use super::servers::is_gate;
use super::{Model, Passed, Position, Queued, Rank, Reason, Stage};

/// Waiters of each counter, in the order in which they would have been served.
type Lines = Vec<Vec<(u64, Queued)>>;

/// Waiters that a changed checkpoint dismisses.
enum Move {
    Nobody,
    /// They continue from there: the checkpoint was deleted, and nothing is returned to it.
    On(Lines, Position),
    /// They arrive once more.
    Again(Lines, Checkpoint),
    /// The waiters that find room there now.
    HandOver(Checkpoint),
}

impl Model {
    /// Uses another configuration from now on.
    pub fn configure(&mut self, now: u64, config: Config) {
        self.begin(now);
        self.edits += 1;
        self.editing = true;
        let old = std::mem::replace(&mut self.config, config);
        self.frontend_renamed(&old);
        self.add_gates();
        self.sites_changed();
        let mut moves: Vec<Move> =
            old.checkpoints.iter().map(|checkpoint| self.checkpoint_changed(checkpoint)).collect();
        self.adopt_holders(&old);
        let gates = self.config.checkpoints.iter().filter(|at| is_gate(at.id));
        moves.extend(gates.cloned().map(Move::HandOver));
        self.pools_changed(&old);
        self.servers_changed(&old);
        self.resources_changed(&old);
        self.grant();
        self.give_back_later();
        while let Some((_, index)) =
            (0..moves.len()).filter_map(|index| Some((self.next_of(&moves[index])?, index))).min()
        {
            self.move_next(&mut moves[index]);
        }
        self.due();
    }

    /// There is one frontend at most, and it keeps its address, whatever its name is.
    fn frontend_renamed(&mut self, old: &Config) {
        let ([old], [new]) = (&old.frontends[..], &self.config.frontends[..]) else { return };
        for request in self.requests.values_mut() {
            if request.arrival.frontend == old.name {
                request.arrival.frontend = new.name;
            }
        }
    }

    /// The rank of the next waiter that a changed checkpoint dismisses.
    fn next_of(&self, moves: &Move) -> Option<Rank> {
        let of_lines = |lines: &Lines| {
            let heads = lines.iter().filter_map(|line| line.first());
            heads.map(|(id, _)| self.requests[id].rank).min()
        };
        match moves {
            Move::Nobody => None,
            Move::On(lines, _) | Move::Again(lines, _) => of_lines(lines),
            Move::HandOver(at) => self.next_handed(at).map(|(id, _)| self.requests[&id].rank),
        }
    }

    fn move_next(&mut self, moves: &mut Move) {
        match moves {
            Move::Nobody => {}
            Move::On(lines, from) => {
                if let Some((id, was)) = self.take_next(lines) {
                    self.leave_gate(id, &was);
                    self.walk(id, Some(*from));
                }
            }
            Move::Again(lines, at) => {
                if let Some((id, was)) = self.take_next(lines) {
                    if let Some(index) = self.again.iter().position(|again| *again == was) {
                        self.again.remove(index);
                    }
                    self.walk_again(id, at, &was);
                }
            }
            Move::HandOver(at) => self.hand_over_next(at),
        }
    }

    fn take_next(&self, lines: &mut Lines) -> Option<(u64, Queued)> {
        let heads = lines.iter_mut().filter(|line| !line.is_empty());
        heads.min_by_key(|line| self.requests[&line[0].0].rank).map(|line| line.remove(0))
    }

    fn checkpoint_changed(&mut self, old: &Checkpoint) -> Move {
        let Some(new) = self.checkpoint(old.id).cloned() else {
            if !is_gate(old.id) {
                self.buried.push((old.name, old.id));
            }
            return Move::On(self.empty(old), position(old));
        };
        let kind = std::mem::discriminant(&old.limit) != std::mem::discriminant(&new.limit);
        if kind || old.key != new.key || old.connection != new.connection {
            let waiters = self.empty(old);
            self.seat_holders(old.id, &new);
            return self.will_arrive_again(waiters, new);
        }
        if old.period() != new.period() {
            self.met.retain(|met| met.0 != new.id);
            self.keep_what_is_spent(new.id);
        }
        if old.limit != new.limit || old.watch != new.watch {
            self.keep_what_is_spent(new.id);
            self.rate_changed(old, &new);
        }
        if old.fair != new.fair {
            let waiters = self.lines(old);
            return self.will_arrive_again(waiters, new);
        }
        if new.watch && !old.watch {
            let waiters = self.lines(&new);
            return self.will_arrive_again(waiters, new);
        }
        if old.limit != new.limit || old.watch != new.watch {
            return Move::HandOver(new);
        }
        Move::Nobody
    }

    /// Waiters that will arrive again are in no queue, but still count as waiting.
    fn will_arrive_again(&mut self, lines: Lines, at: Checkpoint) -> Move {
        for (id, _) in lines.iter().flatten() {
            if let Some(request) = self.requests.get_mut(id) {
                request.stage = Stage::Moving;
            }
        }
        for (_, was) in lines.iter().flatten() {
            self.forget_tags_if_empty(was.checkpoint, was.seat.counter);
        }
        self.again.extend(lines.iter().flatten().map(|(_, was)| was.clone()));
        Move::Again(lines, at)
    }

    /// What was spent before an edit is not refunded after it.
    fn keep_what_is_spent(&mut self, checkpoint: u32) {
        for request in self.requests.values_mut() {
            let its = request.walk.iter_mut().filter(|passed| passed.checkpoint == checkpoint);
            its.for_each(|passed| passed.spent = None);
        }
    }

    /// The debt stays, in units of cost. Only a debt that grew while the checkpoint watched is capped at the
    /// burst.
    fn rate_changed(&mut self, old: &Checkpoint, new: &Checkpoint) {
        let (Limit::Rate { n: n0, d: d0, .. }, Limit::Rate { n, d, burst }) =
            (old.limit, new.limit)
        else {
            return;
        };
        let [n0, d0, n, d] = [n0, d0, n, d].map(i128::from);
        let now = i128::from(self.now) * TICKS;
        let latest = whole_up(now + i128::from(burst) * d * TICKS / n);
        for counter in self.counters.iter_mut().filter(|c| c.checkpoint == new.id) {
            if counter.tat <= now {
                counter.tat = whole_up(counter.tat);
                continue;
            }
            let (owed, by) = ((counter.tat - now) * n0 * d, d0 * n * TICKS);
            counter.tat = now + (owed + by - 1) / by * TICKS;
            if old.watch {
                counter.tat = counter.tat.min(latest);
            }
        }
    }

    /// Forgets all counters of a checkpoint. Returns its former waiters, which are in no queue now.
    fn empty(&mut self, at: &Checkpoint) -> Lines {
        let mut waiters = self.lines(at);
        let all = waiters.iter_mut().flatten();
        all.for_each(|(_, queued)| queued.seat.counter = Some(GONE));
        self.counters.retain(|counter| counter.checkpoint != at.id);
        self.met.retain(|met| met.0 != at.id);
        for request in self.requests.values_mut() {
            if is_gate(at.id) {
                request.walk.retain(|passed| passed.checkpoint != at.id);
            }
            let its = request.walk.iter_mut().filter(|passed| passed.checkpoint == at.id);
            its.for_each(|passed| (passed.seat.counter, passed.spent) = (Some(GONE), None));
        }
        for (id, _) in waiters.iter().flatten() {
            if let Some(request) = self.requests.get_mut(id) {
                request.stage = Stage::Moving;
            }
        }
        waiters
    }

    /// Counts the requests that passed a checkpoint by the key they have there now, one after the other.
    fn seat_holders(&mut self, old: u32, new: &Checkpoint) {
        let ids: Vec<u64> = self.requests.keys().copied().collect();
        for id in ids {
            for index in 0..self.requests[&id].walk.len() {
                if self.requests[&id].walk[index].checkpoint != old {
                    continue;
                }
                let mut arrival = self.as_seen_at(id, new);
                if self.requests[&id].backend.is_some() && is_early(new) {
                    arrival.backend = "";
                }
                let key = new.key.map(|attribute| arrival.value(attribute));
                let seat = self.take_seat(new, key);
                if let Some(request) = self.requests.get_mut(&id) {
                    request.walk[index] = Passed { checkpoint: new.id, seat, spent: None };
                }
            }
        }
    }

    /// A new checkpoint counts the requests that passed a deleted one of its name.
    fn adopt_holders(&mut self, old: &Config) {
        let is_new = |at: &&Checkpoint| old.checkpoints.iter().all(|other| other.id != at.id);
        let new: Vec<Checkpoint> = self.config.checkpoints.iter().filter(is_new).cloned().collect();
        for at in new.iter().filter(|at| !is_gate(at.id)) {
            let dead: Vec<_> = self.buried.extract_if(.., |(name, _)| *name == at.name).collect();
            self.seat_dead_holders(&dead, at);
        }
    }

    fn seat_dead_holders(&mut self, dead: &[(&str, u32)], at: &Checkpoint) {
        // All of them at once, in the order of the requests.
        let [first, more @ ..] = dead else { return };
        for passed in self.requests.values_mut().flat_map(|request| &mut request.walk) {
            if more.iter().any(|(_, id)| *id == passed.checkpoint) {
                passed.checkpoint = first.1;
            }
        }
        self.seat_holders(first.1, at);
    }

    /// The waiters of each counter, in its own order.
    fn lines(&self, at: &Checkpoint) -> Lines {
        let waiters = self.waiters(at);
        let mut counters: Vec<Option<&str>> =
            waiters.iter().map(|(_, queued)| queued.seat.counter).collect();
        counters.sort_unstable();
        counters.dedup();
        let fair = at.fair.is_some();
        let queued = |id: u64| waiters.iter().find(|(other, _)| *other == id).cloned();
        let line = |of| self.order_of(at.id, of, fair).into_iter().filter_map(queued).collect();
        counters.into_iter().map(line).collect()
    }

    fn waiters(&self, at: &Checkpoint) -> Vec<(u64, Queued)> {
        let ids = self.by_rank(self.requests.keys().copied().collect());
        let queued = ids.into_iter().map(|id| (id, &self.requests[&id].stage));
        let its = queued.filter_map(|(id, stage)| match stage {
            Stage::Queued(queued) if queued.checkpoint == at.id => Some((id, queued.clone())),
            _ => None,
        });
        its.collect()
    }

    /// A request in the queue of a deleted pool gets the pool of its priority at once; a request at a
    /// checkpoint, when it next moves. A request that runs in a deleted pool takes a slot of the next new pool
    /// of that name.
    fn pools_changed(&mut self, old: &Config) {
        let is_in = |pool: &Pool, config: &Config| config.pools.iter().any(|at| at.id == pool.id);
        let gone = old.pools.iter().filter(|pool| !is_in(pool, &self.config));
        self.gone_pools.extend(gone.map(|pool| (pool.name, pool.id)));
        for pool in self.config.pools.iter().filter(|pool| !is_in(pool, old)) {
            let dead: Vec<_> =
                self.gone_pools.extract_if(.., |(name, _)| *name == pool.name).collect();
            let running = self.requests.values_mut().filter(|one| one.stage == Stage::Running);
            for request in running.filter(|one| !one.arrival.connection) {
                if dead.iter().any(|(_, id)| *id == request.pool) {
                    request.pool = pool.id;
                }
            }
        }
        let stands = |stage: &Stage| matches!(stage, Stage::InPool(_));
        let all = self.requests.iter().filter(|(_, request)| stands(&request.stage));
        let ids: Vec<u64> = all.map(|(id, _)| *id).collect();
        for id in ids {
            self.leave_gone_pool(id);
        }
    }

    /// Finds the pool of a request's priority again if its pool was deleted.
    pub(super) fn leave_gone_pool(&mut self, id: u64) {
        if self.pool_of(id).is_none() {
            let pool = self.pool_for(self.requests[&id].priority).id;
            if let Some(request) = self.requests.get_mut(&id) {
                request.pool = pool;
            }
        }
    }

    /// Holders also hold what their sub-trees gained. Waiters whose resource was deleted leave the line; they
    /// are refused unless they wait for it.
    fn resources_changed(&mut self, old: &Config) {
        self.holders_gain();
        self.follow_names(old);
        let mut refused = vec![];
        for id in self.line() {
            let Some(name) = self.missing(id) else { continue };
            if let Some(request) = self.requests.get_mut(&id)
                && let Stage::InPool(place) = &mut request.stage
            {
                place.in_line = false;
            }
            if self.requests[&id].arrival.unknown == Unknown::Refuse {
                refused.push((id, Reason::UnknownResource(name)));
            }
        }
        // A request that the same edit finds and that blocks itself is refused first.
        let own = self.find_aside().into_iter().map(|id| (id, Reason::BlocksItself));
        let refused: Vec<_> = own.chain(refused).collect();
        refused.iter().for_each(|(id, reason)| self.tell_refused(*id, reason.clone()));
        self.editing = false;
        self.end_all(refused.into_iter().map(|(id, _)| (id, false)).collect());
    }

    /// A request that is in line or runs knows a resource by its new name. For requests that are aside names
    /// are names; requests that sleep at a checkpoint keep the names they arrived with.
    fn follow_names(&mut self, old: &Config) {
        let follows = |stage: &Stage| match stage {
            Stage::InPool(place) => place.in_line,
            Stage::Running => true,
            Stage::Moving | Stage::Queued(_) => false,
        };
        let those = self.requests.iter().filter(|(_, request)| follows(&request.stage));
        let ids: Vec<u64> = those.map(|(id, _)| *id).collect();
        for id in ids {
            for index in 0..self.requests[&id].claims.len() {
                let bound = self.requests[&id].claims[index].bound;
                let is_it = |resource: &&Resource| Some(resource.id) == bound;
                let kept = self.config.resources.iter().find(is_it).map(|r| r.name);
                let gone = old.resources.iter().find(is_it).map(|r| r.name);
                let Some(name) = kept.or(gone) else { continue };
                // The same edit may have added another resource of that name.
                let other = if kept.is_none() { self.find_resource(name) } else { None };
                if let Some(request) = self.requests.get_mut(&id) {
                    request.claims[index].name = name;
                    if request.stage != Stage::Running && other.is_some() {
                        request.claims[index].bound = other;
                    }
                }
            }
        }
    }
}

impl Model {
    fn holders_gain(&mut self) {
        let running = self.requests.iter().filter(|(_, r)| r.stage == Stage::Running);
        let ids: Vec<u64> = running.map(|(id, _)| *id).collect();
        for id in ids {
            for index in 0..self.requests[&id].claims.len() {
                let held = self.covers(&self.requests[&id].claims[index]);
                if let Some(request) = self.requests.get_mut(&id) {
                    request.claims[index].granted = held;
                }
            }
        }
    }
}

/// The first whole nanosecond at or after these ticks, in ticks.
fn whole_up(ticks: i128) -> i128 {
    ticks + (-ticks).rem_euclid(TICKS)
}

/// Whether a checkpoint counts before the rules, when no request has a backend yet.
pub(super) fn is_early(at: &Checkpoint) -> bool {
    matches!(at.at, At::Frontend(_)) && at.limit == Limit::Count
}
