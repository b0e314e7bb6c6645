//! The invariants, one file each, checked on what can be observed from outside.
//!
//! Invariants never ask the model. Some check every history; some have a scenario of their own, long enough to
//! show what short ones cannot.

mod backs;
mod circles;
mod conflicts;
mod dead;
mod given_back;
mod holders;
mod idle;
mod limits;
mod servers;
mod sites;
mod stops;
mod why;
mod windows;

pub mod fair_shares;
pub mod long_run;
pub mod predicted;
pub mod starvation;

use crate::seen::Seen;

/// A condition that must hold after every step.
pub trait Invariant {
    /// Its name in a failure.
    fn name(&self) -> &'static str;

    /// Checks one step.
    ///
    /// # Errors
    ///
    /// When the invariant is broken; the text says how.
    fn look(&mut self, seen: &Seen) -> Result<(), String>;

    /// Checks the end, when all requests have ended.
    ///
    /// # Errors
    ///
    /// When the invariant is broken; the text says how.
    fn finish(&mut self, last: &Seen) -> Result<(), String> {
        let _ = last;
        Ok(())
    }
}

/// Every invariant that checks every history.
#[must_use]
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(limits::Limits::default()),
        Box::new(windows::Windows::default()),
        Box::new(conflicts::Conflicts::default()),
        Box::new(dead::Dead::default()),
        Box::new(stops::Stops::default()),
        Box::new(given_back::GivenBack),
        Box::new(idle::Idle),
        Box::new(servers::Servers::default()),
        Box::new(sites::Sites::default()),
        Box::new(holders::Holders::default()),
        Box::new(why::Why::default()),
        Box::new(circles::Circles::default()),
    ]
}
