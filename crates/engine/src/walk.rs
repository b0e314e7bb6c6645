//! Classify and shape: the decision of the rules, and the way through the checkpoints.
//!
//! A request walks its checkpoints in turn and sleeps in at most one queue at a time. If it ends before it
//! runs, what it spent is refunded and what it held is released.

use crate::effect::{About, Effect, Outcome};
use crate::engine::Engine;
use crate::gate::is_gate;
use crate::input::Live;
use crate::prepare::{
    Draft, Filled, List, Position, Prepared, Step, fill, is_early_count, position,
};
use crate::work::{Stage, Work};
use paceline_checkpoints::{
    Arrival, Cause, Checked, Due, DueKind, HeldCount, How, Kept, Moved, Ticket, Turned,
};
use paceline_pools::PoolState;
use paceline_routing::{Seat, Unrouted};
use paceline_rules::Verdict;
use paceline_types::{
    BackendId, CheckpointId, Place, Priority, Reason, Refusal, RequestId, SessionId, Time, limits,
};
use std::sync::Arc;

impl Engine {
    /// Steps 1 to 4 of the path: counts the arrival, applies the rules, finds the pool, checks what the request
    /// requires.
    pub(crate) fn classify(
        &mut self,
        id: RequestId,
        Prepared(mut work): Prepared,
        owns: &dyn Fn(SessionId, &str) -> bool,
    ) -> Result<Box<Work>, Refusal> {
        if work.draft.generation != self.snapshot.generation {
            let snapshot = Arc::clone(&self.snapshot);
            work.draft.refresh(&snapshot, None);
        }
        self.count_arrival(&mut work);
        let verdict = match work.draft.is_connection() {
            true => Ok(Priority::START),
            false => self.verdict(id, &mut work.draft, owns),
        };
        match verdict {
            Ok(priority) => {
                work.begin(self.now, id, priority, &self.snapshot);
                Ok(work)
            }
            Err(refusal) => {
                self.outstanding.refund(id, std::mem::take(&mut work.held));
                Err(refusal)
            }
        }
    }

    /// The verdict of the rules about a request that is not submitted: it neither waits nor holds anything. The rules
    /// count it.
    pub fn judge(
        &mut self,
        now: Time,
        Prepared(mut work): Prepared,
        owns: &dyn Fn(SessionId, &str) -> bool,
    ) -> Result<Priority, Refusal> {
        self.begin(now);
        if work.draft.generation != self.snapshot.generation {
            let snapshot = Arc::clone(&self.snapshot);
            work.draft.refresh(&snapshot, None);
        }
        let id = self.requests.number();
        let verdict = self.verdict(id, &mut work.draft, owns);
        self.run();
        verdict
    }

    /// Moves a request on from its present place, until it sleeps, runs or is refused. `again` names a
    /// checkpoint it has to enter once more, and since when it waits there.
    ///
    /// An edit may have put checkpoints that it has not passed before its present place. It passes these too.
    /// If it has to enter a queue once more, it does that first, so that it keeps its place there.
    pub(crate) fn walk(
        &mut self,
        mut work: Box<Work>,
        again: Option<(CheckpointId, Kept)>,
    ) -> Outcome {
        self.refresh(&mut work);
        self.leave_lost_server(&mut work);
        let reached = work.position;
        let mut next = first_step(&work, again);
        let enters = again.filter(|(id, _)| find_step(&work, *id).is_some());
        if enters.is_none() && self.looks_back(&mut work) {
            next = 0;
        }
        loop {
            if let Some(backend) = wants_server(&work, next) {
                match self.find_server(work, backend) {
                    Ok(seated) => work = seated,
                    Err(outcome) => return outcome,
                }
                // An edit may have moved it this far before its server was known.
                next = behind_backend(&work);
            }
            let Some(step) = work.draft.steps.get(next).copied() else {
                if self.looks_back(&mut work) {
                    next = 0;
                    continue;
                }
                break;
            };
            next += 1;
            let (_, _, checkpoint) = step.position;
            let kept = again.filter(|(id, _)| *id == checkpoint).map(|(_, kept)| kept);
            let is_behind = Some(step.position) <= reached;
            match self.take_step(work, step, kept, is_behind) {
                Ok(moved) => work = moved,
                Err(outcome) => return outcome,
            }
            if kept.is_some() && self.looks_back(&mut work) {
                next = 0;
            }
        }
        self.enter(work)
    }

    /// Whether a request has to check its way from the beginning, because of an edit since it last did.
    fn looks_back(&self, work: &mut Work) -> bool {
        let generation = self.snapshot.generation;
        std::mem::replace(&mut work.looked_at, generation) != generation
    }

    /// Handles a request that reaches a checkpoint: it passes, unless an outcome is returned. `kept` is its
    /// place there if it enters the queue once more, and `is_behind` says whether it is past the checkpoint
    /// already.
    fn take_step(
        &mut self,
        mut work: Box<Work>,
        step: Step,
        kept: Option<Kept>,
        is_behind: bool,
    ) -> Result<Box<Work>, Outcome> {
        let (_, _, checkpoint) = step.position;
        // An edit may have moved a checkpoint it passed behind the one where it waited.
        let is_passed =
            |held: &HeldCount| held.checkpoint() == checkpoint && self.checkpoints.counts(held);
        if work.held.iter().any(is_passed) {
            return Ok(work);
        }
        if is_gate(checkpoint) {
            // An edit may also have moved the checkpoint where it waited before the gate. A request that has a
            // place at a server would wait for itself there. A request behind the gate waits there only for a
            // server.
            if work.seat.is_some() || (is_behind && kept.is_none()) {
                return Ok(work);
            }
            if let Some(refusal) = self.no_server(&work) {
                return Err(self.refuse(work, refusal));
            }
        }
        let Some(filled) = self.filled(&work, step) else { return Ok(work) };
        work.position = Some(step.position);
        let ticket = ticket(&work, filled, kept);
        match self.checkpoints.arrive(self.now, checkpoint, &ticket) {
            Arrival::Passed(held) => {
                self.requests.hold(&mut work, held);
                Ok(work)
            }
            Arrival::Queued { displaced, .. } => {
                if is_behind && kept.is_none() {
                    self.leave_behind(&mut work, step.position);
                }
                self.requests.sleep(self.now, work, checkpoint);
                if let Some(displaced) = displaced {
                    self.outstanding.spend(2);
                    self.moved(displaced);
                }
                Err(Outcome::Waiting)
            }
            Arrival::Refused(turned) => {
                let refusal = self.turned_away(&work, checkpoint, turned);
                Err(self.refuse(work, refusal))
            }
        }
    }

    /// Called when a request has to wait at a checkpoint that an edit put before others which it passed. It
    /// releases what it holds at the later ones, and its server if that is later too. Otherwise two requests
    /// could wait for each other, each holding what the other one waits for.
    fn leave_behind(&mut self, work: &mut Work, at: Position) {
        let snapshot = Arc::clone(&self.snapshot);
        let is_behind = |held: &mut HeldCount| {
            let checkpoint = snapshot.checkpoints.checkpoint(held.checkpoint());
            checkpoint.is_some_and(|other| position(other) > at && !is_counted_first(other))
        };
        let behind: Vec<HeldCount> = work.held.extract_if(.., is_behind).collect();
        self.outstanding.refund(work.rank.id, behind);
        if at.0 <= List::Backend && work.seat.is_some() {
            self.lose_server(work);
            work.position = Some(at);
        }
    }

    /// Moves the request whose event is due first.
    pub(crate) fn move_due(&mut self) -> bool {
        let due = self.checkpoints.next_due().filter(|due| due.at <= self.now);
        let expiry = self.pools.next_due().filter(|(at, _, _)| *at <= self.now);
        if let Some((at, rank, _)) = expiry {
            let in_pool = Due { at, kind: DueKind::Expire, rank };
            if due.is_none_or(|due| in_pool < due) {
                self.expire_in_pool(rank.id);
                return true;
            }
        }
        if let Some(moved) = self.checkpoints.next(self.now) {
            self.moved(moved);
        }
        due.is_some()
    }

    /// Moves one request that was handed a count.
    pub(crate) fn move_handed(&mut self) -> bool {
        match self.checkpoints.handed() {
            Some(moved) => {
                self.moved(moved);
                true
            }
            None => false,
        }
    }

    fn moved(&mut self, moved: Moved) {
        let Some(mut work) = self.requests.take(moved.request) else {
            debug_assert!(false, "a checkpoint moved a request that does not wait");
            return;
        };
        self.requests.wake(self.now, &mut work);
        // An edit may have moved the checkpoint while it waited there.
        if let Some(checkpoint) = self.snapshot.checkpoints.checkpoint(moved.checkpoint) {
            work.position = Some(position(checkpoint));
        }
        let outcome = match moved.how {
            How::Passed(held) => {
                // An edit may have brought new counters between that and now.
                match self.checkpoints.counts(&held) {
                    true => self.requests.hold(&mut work, held),
                    false => self.count_holder_again(&mut work, moved.checkpoint, held),
                }
                self.walk(work, None)
            }
            How::Gone { at, number } => {
                work.position = Some((List::of(&at), number, moved.checkpoint));
                self.walk(work, None)
            }
            How::Again(kept) => self.walk(work, Some((moved.checkpoint, kept))),
            How::Refused(turned) => {
                let refusal = self.turned_away(&work, moved.checkpoint, turned);
                self.refuse(work, refusal)
            }
        };
        self.tell(moved.request, outcome);
    }

    /// Reports the outcome of a request other than the caller's.
    pub(crate) fn tell(&mut self, id: RequestId, outcome: Outcome) {
        match outcome {
            Outcome::Started => self.effects.push_back(Effect::Start { id }),
            Outcome::Waiting => {}
            Outcome::Refused(refusal) => self.effects.push_back(Effect::Refuse { id, refusal }),
        }
    }

    /// Refuses a request that did not run, and is no longer in a queue.
    pub(crate) fn refuse(&mut self, work: Box<Work>, refusal: Refusal) -> Outcome {
        self.totals.refuse();
        self.give_back(work);
        Outcome::Refused(refusal)
    }

    /// Releases and refunds what a request that did not run held and spent.
    pub(crate) fn give_back(&mut self, mut work: Box<Work>) {
        self.requests.close(&work);
        self.return_all(&mut work, false);
    }

    /// Removes a waiter from the queue it sleeps in.
    pub(crate) fn leave_queue(&mut self, work: &mut Work) {
        match work.stage {
            Stage::Checkpoint { .. } => {
                self.requests.wake(self.now, work);
                self.checkpoints.leave(self.now, work.rank.id);
            }
            Stage::Line { deadline, .. } | Stage::Aside { deadline, .. } => {
                self.leave_line(work, deadline);
            }
            Stage::Moving | Stage::Running { .. } => {}
        }
    }

    /// Refuses a waiter, wherever it waits, and reports that.
    pub(crate) fn refuse_waiter(&mut self, id: RequestId, refusal: Refusal) {
        let Some(mut work) = self.requests.take(id) else { return };
        self.leave_queue(&mut work);
        let outcome = self.refuse(work, refusal);
        self.tell(id, outcome);
    }

    fn count_arrival(&mut self, work: &mut Work) {
        for index in 0..work.draft.counts.len() {
            let step = work.draft.counts[index];
            let filled = step.filled.unwrap_or_else(|| self.evaluate_count(&work.draft, step));
            self.totals.fail_expressions(filled.errors);
            if filled.applies {
                let (_, _, checkpoint) = step.position;
                work.held.push(self.checkpoints.count(self.now, checkpoint, filled.key));
            }
        }
    }

    fn verdict(
        &mut self,
        id: RequestId,
        draft: &mut Draft,
        owns: &dyn Fn(SessionId, &str) -> bool,
    ) -> Result<Priority, Refusal> {
        self.choose_backend(draft)?;
        let decision = match draft.decision.take() {
            Some(decision) => decision,
            None => {
                let live = self.live(draft, Priority::START);
                self.snapshot.rules.decide(&draft.candidates, &live)
            }
        };
        self.rule_counts.record(&decision);
        let rules = self.snapshot.rules.rules();
        let matched = decision.matched.iter().filter_map(|index| rules.get(*index as usize));
        let logged = matched.filter(|rule| rule.log).take(limits::LOGS_MAX);
        let mut about = None;
        self.effects.extend(logged.map(|rule| {
            let about = about.get_or_insert_with(|| About::of(&draft.request));
            Effect::Log { id, rule: rule.number, about: Arc::clone(about) }
        }));
        let priority = match decision.verdict {
            Verdict::Priority(priority) => priority,
            Verdict::Rejected { rule } => {
                return Err(Refusal::lasting(Reason::Rejected { rule }));
            }
        };
        self.check_admission(draft, priority, owns)?;
        Ok(priority)
    }

    /// Steps 3 and 4 of the path: checks that the pool accepts work, that the session owns the locks, and that
    /// the resources exist and can be claimed.
    pub(crate) fn check_admission(
        &self,
        draft: &Draft,
        priority: Priority,
        owns: &dyn Fn(SessionId, &str) -> bool,
    ) -> Result<(), Refusal> {
        let pool = self.snapshot.pools.pool_for(priority);
        if pool.state == PoolState::Draining {
            return Err(Refusal::lasting(Reason::Draining { pool: pool.name.clone() }));
        }
        self.check_required(&draft.request, owns)?;
        draft.wanted.as_ref().map_or(Ok(()), |wanted| self.check_claims(&draft.request, wanted))
    }

    fn check_required(
        &self,
        request: &paceline_types::Request,
        owns: &dyn Fn(SessionId, &str) -> bool,
    ) -> Result<(), Refusal> {
        let Some(session) = request.session else { return Ok(()) };
        match request.locks.iter().find(|lock| !owns(session, lock)) {
            Some(lock) => Err(Refusal::lasting(Reason::NotOwner { lock: lock.clone() })),
            None => Ok(()),
        }
    }

    /// Prepares a request again if the configuration has changed since.
    pub(crate) fn refresh(&mut self, work: &mut Work) {
        if work.draft.generation == self.snapshot.generation {
            return;
        }
        let snapshot = Arc::clone(&self.snapshot);
        if snapshot.pools.by_id(work.pool).is_none() {
            work.pool = snapshot.pools.pool_for(work.priority).id;
        }
        let server = work.seat.as_ref().map(Seat::server);
        if let Some(name) = server.and_then(|server| snapshot.routing.server_name(server)) {
            self.name_server(work, name);
        }
        let known = Some((work.priority, work.pool));
        self.requests.edit(&mut work.draft, |draft| draft.refresh(&snapshot, known));
    }

    /// The values of a checkpoint's expressions for a request that reaches it, if it applies.
    pub(crate) fn filled(&mut self, work: &Work, step: Step) -> Option<Filled> {
        let filled = step.filled.unwrap_or_else(|| self.evaluate(&work.draft, step, work.priority));
        self.totals.fail_expressions(filled.errors);
        filled.applies.then_some(filled)
    }

    /// The values that expressions read of a request and of the counters, as they are now.
    pub(crate) fn live<'a>(&'a self, draft: &'a Draft, priority: Priority) -> Live<'a> {
        Live { attributes: &draft.request.attributes, priority, engine: self, counted: &[] }
    }

    pub(crate) fn evaluate(&self, draft: &Draft, step: Step, priority: Priority) -> Filled {
        let (_, _, id) = step.position;
        let live = self.live(draft, priority);
        match self.snapshot.checkpoints.checkpoint(id) {
            Some(checkpoint) => fill(checkpoint, &self.snapshot, &live),
            None => Filled::default(),
        }
    }

    /// The same for a `count` checkpoint of its frontend, which precedes the choice of its backend.
    pub(crate) fn evaluate_count(&self, draft: &Draft, step: Step) -> Filled {
        let (_, _, id) = step.position;
        let live = self.live(draft, Priority::START);
        match (self.snapshot.checkpoints.checkpoint(id), draft.destination) {
            (Some(checkpoint), Some(_)) => fill(checkpoint, &self.snapshot, &Unrouted(&live)),
            (Some(checkpoint), None) => fill(checkpoint, &self.snapshot, &live),
            (None, _) => Filled::default(),
        }
    }

    /// The refusal of a checkpoint, in the terms that all doors use.
    pub(crate) fn turned_away(&self, work: &Work, id: CheckpointId, turned: Turned) -> Refusal {
        let place = self.checkpoint_place(work, id);
        let reason = match turned.cause {
            Cause::Full { max } => Reason::QueueFull { place, max },
            Cause::TooLong { wait, max } => Reason::TooLong { place, wait, max },
            Cause::Expired { waited } => {
                Reason::Expired { place, waited, resource: None, stopped: false }
            }
            Cause::CostTooHigh { burst } => {
                let burst = u64::from(burst);
                Reason::CostTooHigh { place, cost: work.draft.request.cost, burst }
            }
        };
        let status =
            self.snapshot.checkpoints.checkpoint(id).map(|checkpoint| checkpoint.spec.status);
        Refusal { reason, retry_at: turned.retry_at, status }
    }

    /// A checkpoint and the key that a request has there.
    pub(crate) fn checkpoint_place(&self, work: &Work, id: CheckpointId) -> Place {
        let Some(checkpoint) = self.snapshot.checkpoints.checkpoint(id) else {
            return Place::Checkpoint { name: "deleted".into(), key: None };
        };
        let live = self.live(&work.draft, work.priority);
        let key = checkpoint.key.as_ref().map(|key| shown(&key.key(&live).unwrap_or_default()));
        Place::Checkpoint { name: checkpoint.spec.name.clone(), key }
    }
}

/// The beginning of a key, for messages and logs: a client may send a key of many thousand bytes, and each refusal
/// contains it.
fn shown(key: &str) -> Box<str> {
    match key.len() > limits::KEY_SHOWN_BYTES_MAX {
        true => format!("{}…", &key[..key.floor_char_boundary(limits::KEY_SHOWN_BYTES_MAX)]).into(),
        false => key.into(),
    }
}

/// The backend whose server a request needs before this step, because it passed its backend's list.
fn wants_server(work: &Work, next: usize) -> Option<BackendId> {
    let destination = work.draft.destination.filter(|destination| !destination.seated)?;
    let step = work.draft.steps.get(next);
    if step.is_some_and(|step| step.position.0 <= List::Backend) {
        return None;
    }
    destination.chosen.backend
}

/// The first step after its backend's list.
fn behind_backend(work: &Work) -> usize {
    work.draft.steps.partition_point(|step| step.position.0 <= List::Backend)
}

/// Where the walk continues: after the checkpoint it reached last, wherever that is now; or at the checkpoint
/// it has to enter again.
fn first_step(work: &Work, again: Option<(CheckpointId, Kept)>) -> usize {
    let Some(reached) = work.position else { return 0 };
    if let Some(index) = again.and_then(|(id, _)| find_step(work, id)) {
        return index;
    }
    match find_step(work, reached.2) {
        Some(index) => index + 1,
        None => work.draft.steps.partition_point(|step| step.position <= reached),
    }
}

/// The index of a checkpoint on its way.
fn find_step(work: &Work, id: CheckpointId) -> Option<usize> {
    work.draft.steps.iter().position(|step| step.position.2 == id)
}

/// Whether a checkpoint counts requests before the rules: no request reaches it again.
fn is_counted_first(checkpoint: &Checked) -> bool {
    List::of(&checkpoint.spec.at) == List::Frontend && is_early_count(checkpoint)
}

pub(crate) fn ticket(work: &Work, filled: Filled, kept: Option<Kept>) -> Ticket {
    Ticket {
        rank: work.rank,
        key: filled.key,
        flow: filled.flow,
        weight: filled.weight,
        cost: work.draft.request.cost,
        deadline: work.deadline,
        kept,
    }
}
