//! One try of a transaction against the head.
//!
//! Promises that a long transaction runs on a thread that no task of the runtime needs. The tasks that wait for
//! the head meanwhile block no such thread either (`Hosted::head`). The length is estimated from the
//! operations. An estimate may be too low, so a transaction that takes more steps than estimated is undone and
//! runs again on such a thread.

use super::allowed::Unkept;
use super::queue::{Answer, Commit};
use super::waits::Request;
use super::{CHANGES_NEED, Head, Hosted, aside};
use crate::outbox::Reply;
use paceline_tables::{Context, Done, Estimate, OpResult, Outcome, Work, tag};
use paceline_types::limits::{CHANGE_STEPS_MAX, READ_AT_ONCE_STEPS_MAX, WAITS_STEPS_MAX};
use std::sync::Arc;

/// Whether a transaction reached its limit of steps.
fn is_exhausted(outcome: &Outcome) -> bool {
    let Outcome::Done(Done { results, .. }) = outcome else { return false };
    results.iter().any(|result| matches!(result, OpResult::Error(e) if e.tag == tag::RESOURCES))
}

impl Hosted {
    /// Tries `request` against the head. Returns the parked transactions to be tried again.
    pub(super) fn attempt(
        self: &Arc<Self>,
        head: &mut Head,
        request: Request,
        number: Option<u64>,
    ) -> Vec<u64> {
        let estimate = Estimate::of(&*request.operations, head.database.store());
        let most = match estimate {
            Estimate { only_reads: true, .. } => READ_AT_ONCE_STEPS_MAX,
            Estimate { may_wait: true, .. } => WAITS_STEPS_MAX,
            // A change by this client is refused in any case, so it must not delay others.
            _ if request.asker.who().role < Some(CHANGES_NEED) => READ_AT_ONCE_STEPS_MAX,
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

    /// Runs the operations of `request` for at most `most` steps. Returns the outcome and the steps taken.
    fn execute_for(&self, head: &mut Head, request: &Request, most: u64) -> (Outcome, u64) {
        let (who, session) = (request.asker.who(), request.asker.session());
        let owns = |name: &str| session.is_some_and(|one| self.locking.owns(one.id, name));
        let context = Context {
            elapsed_ms: self.clock.now().ms_since(request.created),
            owns_lock: &owns,
            read_only: self.policy.read_only || who.read_only,
            maintained: &self.maintained,
        };
        let mut work = match who.role < Some(CHANGES_NEED) && self.is_writable(who) {
            true => Work::without_changes(most),
            false => Work::at_most(most),
        };
        let mut outcome = head.database.execute_within(&*request.operations, &context, &mut work);
        head.steps += work.spent();
        if work.is_change_refused()
            && let Outcome::Done(Done { results, .. }) = &mut outcome
            && let Err(refused) = self.check_changes(who)
        {
            let is_error = |result: &&mut OpResult| matches!(result, OpResult::Error(_));
            results.iter_mut().filter(is_error).for_each(|result| {
                *result = OpResult::Error(refused.clone());
            });
        }
        (outcome, work.spent())
    }

    /// Handles the outcome of `request`: answers it, parks it, or leaves its changes for the committer. Returns
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
        let mut answer = Answer { to: request.asker.clone(), reply: Reply::Results(done.results) };
        let Some(changes) = done.changes else {
            // A broken file cannot be synced, so the answer is an error at once.
            if let Some(error) = head.broken.clone().filter(|_| done.durable) {
                answer.add_error(error);
                head.answer(answer, false, None);
                self.repair_later();
                return Vec::new();
            }
            head.answer(answer, done.durable, Some(request));
            return Vec::new();
        };
        match self.keep(head, request.asker.who(), changes) {
            Ok((changes, consequence)) => {
                let commit = Commit {
                    consequence,
                    bytes: changes.memory(),
                    comment: done.comment,
                    durable: done.durable || self.policy.durable,
                    answer: Some(answer),
                    ..Commit::own(changes, head.database.schema().clone())
                };
                self.submit(head, commit)
            }
            Err(unkept) => {
                let again = matches!(unkept, Unkept::Refused(_)).then_some(request);
                answer.add_error(unkept.into_error());
                head.answer(answer, false, again);
                Vec::new()
            }
        }
    }
}
