//! Ended requests stay ended: a request that was refused, expired, cancelled or settled is never reported
//! again, and no request starts twice.

use super::Invariant;
use crate::history::Step;
use crate::model::{Effect, Outcome};
use crate::seen::{Answer, Seen};
use std::collections::BTreeSet;

/// Remembers which requests wait, run and have ended.
#[derive(Default)]
pub struct Dead {
    waiting: BTreeSet<u64>,
    running: BTreeSet<u64>,
    gone: BTreeSet<u64>,
}

impl Invariant for Dead {
    fn name(&self) -> &'static str {
        "the dead stay dead"
    }

    fn look(&mut self, seen: &Seen) -> Result<(), String> {
        if let (Step::Reroute(id), Answer::Back) = (&*seen.step, &seen.answer) {
            if !self.running.remove(id) {
                return Err(format!("request {id} went back, but {}", self.state(*id)));
            }
            self.waiting.insert(*id);
        }
        for effect in &seen.effects {
            match effect {
                Effect::Log(..) => {}
                Effect::Start(id) if self.waiting.remove(id) => drop(self.running.insert(*id)),
                Effect::Refuse(id, _) if self.waiting.remove(id) => drop(self.gone.insert(*id)),
                Effect::End(id, true) if self.running.remove(id) => drop(self.gone.insert(*id)),
                Effect::End(id, false) if self.waiting.remove(id) => drop(self.gone.insert(*id)),
                Effect::Start(id) | Effect::Refuse(id, _) | Effect::End(id, _) => {
                    return Err(format!("{effect:?}, but {}", self.state(*id)));
                }
            }
        }
        self.answered(seen)?;
        for id in self.waiting.iter().chain(&self.running) {
            if !seen.alive.contains_key(id) {
                return Err(format!("request {id} vanished, {}", self.state(*id)));
            }
        }
        match seen.alive.keys().find(|id| self.gone.contains(id)) {
            Some(id) => Err(format!("request {id} is alive, but {}", self.state(*id))),
            None => Ok(()),
        }
    }
}

impl Dead {
    fn answered(&mut self, seen: &Seen) -> Result<(), String> {
        match (&*seen.step, &seen.answer) {
            (Step::Settle(id) | Step::Withdraw(id), Answer::Done(true))
                if !self.running.remove(id) =>
            {
                Err(format!("request {id} was settled, but {}", self.state(*id)))
            }
            (Step::Settle(id) | Step::Withdraw(id), Answer::Done(false))
                if self.running.contains(id) =>
            {
                Err(format!("request {id} was not settled, but {}", self.state(*id)))
            }
            (Step::Cancel(id), Answer::Done(true)) if !self.waiting.remove(id) => {
                Err(format!("request {id} was cancelled, but {}", self.state(*id)))
            }
            (Step::Cancel(id), Answer::Done(false)) if self.waiting.contains(id) => {
                Err(format!("request {id} was not cancelled, but {}", self.state(*id)))
            }
            (Step::Settle(id) | Step::Withdraw(id) | Step::Cancel(id), Answer::Done(true)) => {
                self.gone.insert(*id);
                Ok(())
            }
            (Step::End(id), Answer::Ended(ran)) => self.ended(*id, *ran),
            (_, Answer::Submitted(id, outcome)) => {
                let set = match outcome {
                    Outcome::Started => &mut self.running,
                    Outcome::Waiting => &mut self.waiting,
                    Outcome::Refused(_) => &mut self.gone,
                };
                set.insert(*id);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn ended(&mut self, id: u64, ran: Option<bool>) -> Result<(), String> {
        let was = match ran {
            Some(true) => self.running.remove(&id),
            Some(false) => self.waiting.remove(&id),
            None => !self.running.contains(&id) && !self.waiting.contains(&id),
        };
        if !was {
            return Err(format!("request {id} ended, ran {ran:?}, but {}", self.state(id)));
        }
        if ran.is_some() {
            self.gone.insert(id);
        }
        Ok(())
    }

    fn state(&self, id: u64) -> &'static str {
        if self.running.contains(&id) {
            "it runs"
        } else if self.waiting.contains(&id) {
            "it waits"
        } else if self.gone.contains(&id) {
            "it is gone"
        } else {
            "nobody knows it"
        }
    }
}
