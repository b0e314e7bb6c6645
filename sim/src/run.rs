//! Runs one seed from start to end: the subject and the model side by side, step by step, with every invariant
//! checked.

use crate::history::{self, History, Step};
use crate::invariants;
use crate::seen::Seen;
use crate::subject::{Naive, Owned, Subject};
use crate::{compare, trace};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// How many of the last lines a failure shows.
const TAIL: usize = 40;

/// What failed, where, and how to reproduce it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The history.
    pub seed: u64,
    /// What failed.
    pub text: String,
    /// The steps until then.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.trace.len().saturating_sub(TAIL);
        for line in &self.trace[from..] {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "seed {}: {}", self.seed, self.text)?;
        write!(f, "again: cargo run -p paceline-sim -- --seed {}", self.seed)
    }
}

impl std::error::Error for Failure {}

/// Runs a subject through the history of a seed.
///
/// # Errors
///
/// When it differs from the model or breaks an invariant.
pub fn run(seed: u64, subject: &mut dyn Subject) -> Result<Vec<String>, Failure> {
    Race::new(subject).of(seed, Race::run)
}

/// The same with a restart half way, when all waiters have left.
///
/// # Errors
///
/// As above.
pub fn run_with_restart(seed: u64, subject: &mut dyn Subject) -> Result<Vec<String>, Failure> {
    Race::new(subject).of(seed, Race::run_with_restart)
}

struct Race<'a> {
    subject: &'a mut dyn Subject,
    naive: Naive,
    invariants: Vec<Box<dyn invariants::Invariant>>,
    trace: Vec<String>,
    last: Option<Seen>,
}

impl<'a> Race<'a> {
    fn new(subject: &'a mut dyn Subject) -> Self {
        let (naive, invariants) = (Naive::new(), invariants::all());
        Self { subject, naive, invariants, trace: vec![], last: None }
    }

    /// The result of a seed, run in one way or another.
    fn of(
        mut self,
        seed: u64,
        run: fn(&mut Self, u64) -> Result<(), String>,
    ) -> Result<Vec<String>, Failure> {
        match run(&mut self, seed) {
            Ok(()) => Ok(self.trace),
            Err(text) => Err(Failure { seed, text, trace: self.trace }),
        }
    }

    fn run(&mut self, seed: u64) -> Result<(), String> {
        let mut history = History::new(seed);
        let (now, config) = history.start();
        self.trace.push(format!("seed {seed}: {:?}", history.profile));
        self.trace.push(format!("{config:#?}"));
        let first = Step::Configure(Box::new(config), "start".into());
        self.step(now, first, &history.owned)?;
        for _ in 0..history.profile.steps {
            let (now, step) = history.step(&self.naive.model);
            self.step(now, step, &history.owned)?;
        }
        self.finish(&history.owned)
    }

    /// The configuration has nothing that remembers more than which request holds what, and until the restart
    /// nothing is edited: what a holder held under an older graph is not restored.
    fn run_with_restart(&mut self, seed: u64) -> Result<(), String> {
        let mut history = History::new(seed);
        let edits = std::mem::take(&mut history.profile.mix[5]);
        history.profile.when = 0;
        let (now, mut config) = history.start();
        history::without_memory(&mut config);
        self.trace.push(format!("seed {seed}: {:?}", history.profile));
        self.trace.push(format!("{config:#?}"));
        self.step(now, Step::Configure(Box::new(config), "start".into()), &history.owned)?;
        for _ in 0..history.profile.steps / 2 {
            let (now, step) = history.step(&self.naive.model);
            self.step(now, step, &history.owned)?;
        }
        let now = self.naive.model.now;
        while let Some(id) = self.naive.model.first_waiter() {
            self.step(now, Step::Cancel(id), &history.owned)?;
        }
        self.trace.push(format!("{now:>16} restart"));
        self.subject.restart(now);
        self.naive.restart(now);
        history.profile.mix[5] = edits;
        for _ in 0..history.profile.steps / 2 {
            let (now, mut step) = history.step(&self.naive.model);
            if let Step::Configure(config, _) = &mut step {
                history::without_memory(config);
            }
            self.step(now, step, &history.owned)?;
        }
        self.finish(&history.owned)
    }

    /// Ends all requests; then nothing may be left.
    fn finish(&mut self, owned: &Owned) -> Result<(), String> {
        let now = self.naive.model.now;
        while let Some((id, request)) = self.naive.model.requests.first_key_value() {
            let id = *id;
            let runs = request.stage == crate::model::Stage::Running;
            self.step(now, if runs { Step::Settle(id) } else { Step::Cancel(id) }, owned)?;
            self.step(now, Step::Settle(id), owned)?;
        }
        let Some(last) = &self.last else { return Ok(()) };
        for invariant in &mut self.invariants {
            invariant.finish(last).map_err(|text| format!("{}: {text}", invariant.name()))?;
        }
        Ok(())
    }

    /// A panic of the subject is a failure like any other, with its seed and trace.
    fn apply(&mut self, now: u64, step: &Rc<Step>, owned: &Owned) -> Result<Seen, String> {
        let subject = &mut self.subject;
        catch_unwind(AssertUnwindSafe(|| subject.apply(now, step, owned))).map_err(|cause| {
            self.trace.push(format!("{now:>16} {}", trace::step(step)));
            let text = cause.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
            format!("panicked: {}", text.unwrap_or("without a text"))
        })
    }

    fn step(&mut self, now: u64, step: Step, owned: &Owned) -> Result<(), String> {
        let step = Rc::new(step);
        let expected = self.naive.expect(now, &step, owned);
        let seen = self.apply(now, &step, owned)?;
        self.trace.push(trace::line(&seen));
        if let Some(text) = compare::difference(&expected, &seen) {
            for (what, seen) in [("expected", &expected), ("seen", &seen)] {
                let all = seen.alive.iter();
                self.trace.extend(all.map(|(id, sight)| format!("    {what}: {id} {sight:?}")));
            }
            return Err(text);
        }
        for invariant in &mut self.invariants {
            invariant.look(&seen).map_err(|text| format!("{}: {text}", invariant.name()))?;
        }
        self.last = Some(seen);
        Ok(())
    }
}
