//! What would happen to a request, as a dry run: nothing is counted, spent or held.
//!
//! Walks the same path with the same rooms, in their present state. After the first place where the request
//! would wait, the rest is reported as if the request arrived there at once.

use crate::engine::Engine;
use crate::gate::is_gate;
use crate::input::Live;
use crate::prepare::{Filled, List, Prepared, Step, fill};
use crate::snapshot::Snapshot;
use crate::why::WaitsFor;
use crate::work::Work;
use paceline_checkpoints::{KeyHash, Mode, Outlook};
use paceline_routing::Choice;
use paceline_rules::{Candidates, Outcome as RuleOutcome, Rule, Ruleset, Then, Trace, Verdict};
use paceline_types::{
    Attributes, CheckpointId, Known, Place, Priority, Reason, Refusal, RequestId, SessionId, Span,
    Time, Unknown,
};
use std::fmt;
use std::sync::Arc;

/// What would happen to a request.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The time of the dry run.
    pub now: Time,
    /// The backend it would be sent to, if its frontend is configured.
    pub backend: Option<Box<str>>,
    /// The server that it would get, if that is known.
    pub server: Option<Box<str>>,
    /// Every rule that would be reached, and its result; until [`Explanation::complete`] only the rules whose
    /// patterns match.
    pub trace: Trace,
    /// The configuration whose rules were tried, and the attributes as the rules saw them; none if no rule was tried.
    pub tried: Option<(Arc<Snapshot>, Attributes)>,
    /// The rules that match, in order.
    pub matched: Vec<Rule>,
    /// Priority and pool, unless it is rejected.
    pub admitted: Option<(Priority, Box<str>)>,
    /// The checkpoints on its way that apply to it.
    pub checkpoints: Vec<CheckpointOutlook>,
    /// The outcome.
    pub foreseen: Foreseen,
}

/// What a checkpoint would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointOutlook {
    /// The checkpoint and the key.
    pub place: Place,
    /// What it would do if it enforces.
    pub outlook: Outlook,
    /// Whether it enforces.
    pub enforces: bool,
}

/// The outcome that is foreseen for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreseen {
    /// It would run at once.
    Start,
    /// It would wait.
    Wait {
        /// What it would wait for first.
        waits_for: WaitsFor,
        /// Until when, if that is known.
        until: Option<Time>,
    },
    /// It would be refused.
    Refuse(Refusal),
}

impl Engine {
    /// What would happen to a request that was submitted now. `owns` says whether a session owns a lock. Events
    /// that are due are handled first, as they would be before a submit.
    #[must_use]
    pub fn explain(
        &mut self,
        now: Time,
        prepared: &Prepared,
        owns: &dyn Fn(SessionId, &str) -> bool,
    ) -> Explanation {
        self.handle_timeout(now);
        let Prepared(mut work) = prepared.clone();
        if let Some(refusal) = self.exhausted(prepared.request()) {
            let mut explanation = self.ask_rules(&work, &[], false);
            (explanation.backend, explanation.foreseen) = (None, Foreseen::Refuse(refusal));
            return explanation;
        }
        if work.draft.generation != self.snapshot.generation {
            work.draft.refresh(&self.snapshot, None);
        }
        let counted = self.would_count(&work);
        let routed = self.would_choose_backend(&mut work.draft, &counted);
        let mut explanation = self.ask_rules(&work, &counted, routed.is_ok());
        if let Err(refusal) = routed {
            explanation.foreseen = Foreseen::Refuse(refusal);
            return explanation;
        }
        let priority = match explanation.trace.decision.verdict {
            Verdict::Priority(priority) => priority,
            Verdict::Rejected { rule } => {
                let refusal = Refusal::lasting(Reason::Rejected { rule });
                explanation.foreseen = Foreseen::Refuse(refusal);
                return explanation;
            }
        };
        work.begin(explanation.now, RequestId(u64::MAX), priority, &self.snapshot);
        if work.draft.is_connection() {
            explanation.foreseen = self.foresee(work, &counted, &mut explanation);
            return explanation;
        }
        let pool = self.snapshot.pools.pool_for(priority);
        explanation.admitted = Some((priority, pool.name.clone()));
        explanation.server = self.would_have(&work);
        explanation.foreseen = match self.check_admission(&work.draft, priority, owns) {
            Err(refusal) => Foreseen::Refuse(refusal),
            Ok(()) => self.foresee(work, &counted, &mut explanation),
        };
        explanation
    }

    /// What the rules decide, if they apply.
    fn ask_rules(
        &self,
        work: &Work,
        counted: &[(CheckpointId, KeyHash)],
        are_asked: bool,
    ) -> Explanation {
        let attributes = &work.draft.request.attributes;
        let live = Live { attributes, priority: Priority::START, engine: self, counted };
        let (trace, tried) = match are_asked && !work.draft.is_connection() {
            true => {
                let trace = self.snapshot.rules.trace(&work.draft.candidates, &live);
                (trace, Some((Arc::clone(&self.snapshot), attributes.clone())))
            }
            false => (Ruleset::default().trace(&Candidates::default(), &live), None),
        };
        let backend = work.draft.destination.map(|_| attributes.known(Known::Backend));
        Explanation {
            now: self.now,
            backend: backend.filter(|name| !name.is_empty()).map(Into::into),
            server: None,
            matched: self.matched(&trace),
            admitted: None,
            checkpoints: vec![],
            foreseen: Foreseen::Start,
            trace,
            tried,
        }
    }

    /// The server that it would get if it reached the choice now.
    fn would_have(&self, work: &Work) -> Option<Box<str>> {
        let backend = work.draft.destination.and_then(|destination| destination.chosen.backend)?;
        let Choice::Server(server) = self.fleet.preview(backend) else { return None };
        self.snapshot.routing.server_name(server).map(Into::into)
    }

    /// The counters of the frontend's `count` checkpoints that would count the request before the
    /// rules see it.
    fn would_count(&self, work: &Work) -> Vec<(CheckpointId, KeyHash)> {
        let counts = work.draft.counts.iter();
        let filled = counts.map(|step| {
            let filled = step.filled.unwrap_or_else(|| self.evaluate_count(&work.draft, *step));
            (step.position.2, filled)
        });
        filled.filter(|(_, filled)| filled.applies).map(|(id, filled)| (id, filled.key)).collect()
    }

    fn matched(&self, trace: &Trace) -> Vec<Rule> {
        let rules = self.snapshot.rules.rules();
        let matched = trace.steps.iter().filter(|s| matches!(s.outcome, RuleOutcome::Matched(_)));
        matched.filter_map(|step| rules.get(step.rule as usize).cloned()).collect()
    }

    /// Checks checkpoints, claims and slots; the first that does not let it pass decides.
    fn foresee(
        &self,
        mut work: Box<Work>,
        counted: &[(CheckpointId, KeyHash)],
        explanation: &mut Explanation,
    ) -> Foreseen {
        let lost = self.no_server(&work).map(Foreseen::Refuse);
        let is_lost = lost.is_some();
        let is_before = |step: &Step| step.position.0 <= List::Backend;
        let is_met = |step: &Step| is_before(step) && !(is_lost && is_gate(step.position.2));
        let mut foreseen = self.foresee_some(&work, is_met, counted, explanation);
        if !is_lost {
            // It has its server only from here on.
            if let Some(name) = &explanation.server {
                work.draft.request.attributes.put(Known::Server, name);
                work.draft.plan_server(&self.snapshot, work.priority);
            }
            let behind = |step: &Step| !is_before(step);
            foreseen = foreseen.or(self.foresee_some(&work, behind, counted, explanation));
        }
        match foreseen.or(lost) {
            Some(foreseen) => foreseen,
            None if work.draft.is_connection() => Foreseen::Start,
            None => self.foresee_slot(&work, explanation.now),
        }
    }

    /// Checks some of the checkpoints on its way; the first that does not let it pass decides.
    fn foresee_some(
        &self,
        work: &Work,
        is_met: impl Fn(&Step) -> bool,
        counted: &[(CheckpointId, KeyHash)],
        explanation: &mut Explanation,
    ) -> Option<Foreseen> {
        let mut foreseen = None;
        for step in work.draft.steps.iter().filter(|step| is_met(step)) {
            let (_, _, id) = step.position;
            let Some(checkpoint) = self.snapshot.checkpoints.checkpoint(id) else { continue };
            let attributes = &work.draft.request.attributes;
            let live = Live { attributes, priority: work.priority, engine: self, counted };
            let filled: Filled = fill(checkpoint, &self.snapshot, &live);
            if !filled.applies {
                continue;
            }
            let ticket = crate::walk::ticket(work, filled, None);
            let outlook = self.checkpoints.preview(explanation.now, id, &ticket);
            let place = self.checkpoint_place(work, id);
            let enforces = checkpoint.spec.mode == Mode::Enforce;
            if enforces && foreseen.is_none() {
                foreseen = match outlook {
                    Outlook::Pass => None,
                    Outlook::Queue { pass_at } => {
                        let waits_for = WaitsFor::Checkpoint { place: place.clone() };
                        Some(Foreseen::Wait { waits_for, until: pass_at })
                    }
                    Outlook::Refuse(turned) => {
                        Some(Foreseen::Refuse(self.turned_away(work, id, turned)))
                    }
                };
            }
            explanation.checkpoints.push(CheckpointOutlook { place, outlook, enforces });
        }
        foreseen
    }

    /// Checks claims and slots.
    fn foresee_slot(&self, work: &Work, now: Time) -> Foreseen {
        let pool = self.snapshot.pool_name(work.pool);
        let missing = self.foresee_creation(work);
        let is_aside = missing.is_some();
        let waits_for = if let Some(resource) = missing {
            WaitsFor::Creation { resource }
        } else if !self.pools.is_open(work.pool) {
            WaitsFor::Start { pool }
        } else if let Some(waits_for) = self.foresee_claims(work) {
            waits_for
        } else if !self.pools.has_slot(work.pool) {
            WaitsFor::Slot { pool }
        } else {
            return Foreseen::Start;
        };
        if !is_aside
            && let Some(wanted) = &work.draft.wanted
            && let Some(refusal) =
                self.would_wait_for_itself(&work.draft.request, wanted, work.rank)
        {
            return Foreseen::Refuse(refusal);
        }
        match self.cannot_wait(work, now) {
            Some(refusal) => Foreseen::Refuse(refusal),
            None => Foreseen::Wait { waits_for, until: None },
        }
    }

    /// The resource that a request would wait for aside, because it does not exist.
    fn foresee_creation(&self, work: &Work) -> Option<Box<str>> {
        let wanted = work.draft.wanted.as_ref()?;
        let missing = wanted.unknown().next()?;
        (work.draft.request.unknown == Unknown::Wait).then(|| missing.resource.clone())
    }

    fn foresee_claims(&self, work: &Work) -> Option<WaitsFor> {
        let mut wanted = work.draft.wanted.clone()?;
        self.claims.check(&mut wanted, work.rank).err()?;
        let blockers = self.claims.blockers_of(&wanted, work.rank, 1);
        let first = blockers.nearest.into_iter().next();
        Some(first.map_or(WaitsFor::Turn, |b| WaitsFor::Resource { resource: b.resource }))
    }
}

impl Explanation {
    /// Evaluates the rules whose patterns do not match. This may take long, and needs no engine.
    #[must_use]
    pub fn complete(mut self) -> Self {
        if let Some((snapshot, attributes)) = &self.tried {
            snapshot.rules.complete(&mut self.trace, attributes);
        }
        self
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(backend) = &self.backend {
            write!(f, "backend \"{backend}\"")?;
            match &self.server {
                Some(server) => writeln!(f, ", server \"{server}\"")?,
                None => writeln!(f)?,
            }
        }
        for rule in &self.matched {
            let then = if rule.then == Then::Stop { "stop" } else { "continue" };
            writeln!(f, "rule {} matched: {}, {then}", rule.number, rule.action)?;
        }
        if let Some((priority, pool)) = &self.admitted {
            writeln!(f, "priority {priority}, pool \"{pool}\"")?;
        }
        for checkpoint in &self.checkpoints {
            checkpoint.write(f, self.now)?;
        }
        match &self.foreseen {
            Foreseen::Start => writeln!(f, "would start"),
            Foreseen::Wait { waits_for, until } => {
                let text = waits_for.to_string();
                let text = text.strip_prefix("waits ").unwrap_or(&text);
                write!(f, "would wait {text}")?;
                write_until(f, *until, self.now)
            }
            Foreseen::Refuse(refusal) => writeln!(f, "would be refused: {refusal}"),
        }
    }
}

impl CheckpointOutlook {
    fn write(&self, f: &mut fmt::Formatter<'_>, now: Time) -> fmt::Result {
        write!(f, "{}{}: ", self.place, if self.enforces { "" } else { " (watches)" })?;
        match self.outlook {
            Outlook::Pass => writeln!(f, "would pass"),
            Outlook::Queue { pass_at } => {
                f.write_str("would wait")?;
                write_until(f, pass_at, now)
            }
            Outlook::Refuse(_) => writeln!(f, "would refuse"),
        }
    }
}

fn write_until(f: &mut fmt::Formatter<'_>, until: Option<Time>, now: Time) -> fmt::Result {
    match until {
        Some(at) => writeln!(f, ", for {}", Span(at.0.saturating_sub(now.0)).brief()),
        None => writeln!(f),
    }
}
