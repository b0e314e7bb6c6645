//! One try of a transaction against the head.
//!
//! Promises that a long transaction runs on a thread that no task of the runtime needs. The tasks which wait for
//! the head meanwhile block no such thread either (`Hosted::head`). The length is estimated from the operations. An estimate may be too
//! low, so a transaction that takes more steps than it says is undone and runs again aside.

use super::queue::{Answer, Commit, Entry};
use super::waits::Request;
use super::{CHANGES_NEED, Head, Hosted, aside};
use crate::control::Planned;
use crate::outbox::Reply;
use paceline_tables::{Context, Done, Error, Estimate, OpResult, Outcome, Work, tag};
use paceline_types::limits::{CHANGE_STEPS_MAX, READ_AT_ONCE_STEPS_MAX, WAITS_STEPS_MAX};
use std::sync::Arc;

/// Whether a transaction came to the limit of what it may take.
fn is_exhausted(outcome: &Outcome) -> bool {
    let Outcome::Done(Done { results, .. }) = outcome else { return false };
    results.iter().any(|result| matches!(result, OpResult::Error(e) if e.tag == tag::RESOURCES))
}

impl Hosted {
    /// Tries `request` against the head. Answers the parked transactions to be tried again.
    pub(super) fn attempt(
        self: &Arc<Self>,
        head: &mut Head,
        request: Request,
        number: Option<u64>,
    ) -> Vec<u64> {
        let estimate = Estimate::of(&request.operations, head.database.store());
        let most = match estimate {
            Estimate { only_reads: true, .. } => READ_AT_ONCE_STEPS_MAX,
            Estimate { may_wait: true, .. } => WAITS_STEPS_MAX,
            // A change by this client is refused in any case, so it must not keep others waiting.
            _ if request.session.role() < Some(CHANGES_NEED) => READ_AT_ONCE_STEPS_MAX,
            _ => CHANGE_STEPS_MAX,
        };
        if estimate.work <= READ_AT_ONCE_STEPS_MAX {
            let (outcome, steps) =
                self.execute_for(head, &request, most.min(READ_AT_ONCE_STEPS_MAX));
            let is_all = most <= READ_AT_ONCE_STEPS_MAX && !estimate.only_reads;
            if is_all || !is_exhausted(&outcome) {
                return self.conclude(head, request, number, outcome, steps);
            }
        }
        if estimate.only_reads {
            self.read_beside(head, request);
            return Vec::new();
        }
        aside(|| {
            let (outcome, steps) = self.execute_for(head, &request, most);
            self.conclude(head, request, number, outcome, steps)
        })
    }

    /// Runs the operations of `request` if they take at most so many steps. Answers how many they took, too.
    fn execute_for(&self, head: &mut Head, request: &Request, most: u64) -> (Outcome, u64) {
        let session = &request.session;
        let context = Context {
            elapsed_ms: self.clock.now().ms_since(request.created),
            owns_lock: &|name| self.locking.owns(session.id, name),
            read_only: self.policy.read_only || session.read_only,
            maintained: &self.maintained,
        };
        let mut work = match session.role() < Some(CHANGES_NEED) && self.is_writable(session) {
            true => Work::without_changes(most),
            false => Work::at_most(most),
        };
        let mut outcome = head.database.execute_within(&request.operations, &context, &mut work);
        head.steps += work.spent();
        if work.is_change_refused()
            && let Outcome::Done(Done { results, .. }) = &mut outcome
            && let Err(refused) = self.check_changes(session)
        {
            let is_error = |result: &&mut OpResult| matches!(result, OpResult::Error(_));
            results.iter_mut().filter(is_error).for_each(|result| {
                *result = OpResult::Error(refused.clone());
            });
        }
        (outcome, work.spent())
    }

    /// Does what the outcome of `request` asks for: answers it, parks it, or leaves its changes for the committer. Answers
    /// the parked transactions to be tried again.
    fn conclude(
        self: &Arc<Self>,
        head: &mut Head,
        request: Request,
        number: Option<u64>,
        outcome: Outcome,
        steps: u64,
    ) -> Vec<u64> {
        let mut done = match outcome {
            Outcome::Done(done) => done,
            Outcome::Waiting { timeout_ms, interest } => {
                self.park(head, request, number, timeout_ms, (interest, steps));
                return Vec::new();
            }
        };
        head.pin_large(&request, &mut done.results);
        let mut answer = Answer {
            session: request.session.clone(),
            ticket: request.ticket.clone(),
            reply: Reply::Results(done.results),
        };
        let Some(changes) = done.changes else {
            // A file that is broken cannot be synced, and an error is the answer at once.
            let broken = head.broken.clone().filter(|_| done.durable);
            if let Some(error) = broken {
                return self.refuse(head, answer, error);
            }
            head.answer(answer, done.durable, Some(request));
            return Vec::new();
        };
        if let Some(error) = head.broken.clone() {
            head.undo(&changes);
            return self.refuse(head, answer, error);
        }
        let Planned { consequence, graphs, renamed } =
            match self.judge(head, &request.session, &changes) {
                Ok(planned) => planned,
                Err(error) => {
                    head.undo(&changes);
                    if let Reply::Results(results) = &mut answer.reply {
                        results.push(OpResult::Error(error));
                    }
                    head.answer(answer, false, Some(request));
                    return Vec::new();
                }
            };
        let changes = self.with_claims(head, changes, (graphs, renamed));
        let woken = head.waits.touched_by(&changes);
        head.push(Entry::Commit(Commit {
            consequence,
            bytes: changes.memory(),
            changes,
            schema: head.database.schema().clone(),
            comment: done.comment,
            durable: done.durable || self.policy.durable,
            answer: Some(answer),
            done: None,
        }));
        woken
    }

    /// Answers that the journal's file is broken. Every such answer is a reason to try again to
    /// replace it.
    fn refuse(self: &Arc<Self>, head: &mut Head, mut answer: Answer, error: Error) -> Vec<u64> {
        if let Reply::Results(results) = &mut answer.reply {
            results.push(OpResult::Error(error));
        }
        head.answer(answer, false, None);
        self.repair_later();
        Vec::new()
    }
}
