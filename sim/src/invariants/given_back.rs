//! Everything is released exactly once: when all requests have ended, every figure is zero, no request is alive
//! and no timer runs. (That a second settle is refused is part of the end of every history.)

use super::Invariant;
use crate::seen::Seen;

/// Needs no memory: only the end is checked.
#[derive(Default)]
pub struct GivenBack;

impl Invariant for GivenBack {
    fn name(&self) -> &'static str {
        "everything is given back"
    }

    fn look(&mut self, seen: &Seen) -> Result<(), String> {
        let runs = seen.alive.values().filter(|s| s.spot == crate::model::Spot::Running).count();
        let counted: u64 = seen.figures.running.values().sum();
        // Requests whose pool was deleted still run and are counted nowhere.
        if counted > runs as u64 {
            return Err(format!("the pools count {counted} that run, but {runs} do"));
        }
        Ok(())
    }

    fn finish(&mut self, last: &Seen) -> Result<(), String> {
        if !last.alive.is_empty() {
            return Err(format!("still alive: {:?}", last.alive));
        }
        if !last.figures.are_zero() {
            return Err(format!("still counted: {:?}", last.figures));
        }
        if let Some(at) = last.timeout {
            return Err(format!("a timer is left at {at}"));
        }
        Ok(())
    }
}
