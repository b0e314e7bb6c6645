//! The thread that calls the engine when it asks for it.
//!
//! It sleeps until the earliest time it was armed for, and is woken before that only when something
//! earlier comes. It ends with the engine.

use super::Control;
use crate::clock::Clock;
use paceline_types::Time;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// When the engine is to be called.
#[derive(Debug, Default)]
pub(super) struct Timer {
    armed: Mutex<Armed>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Armed {
    at: Option<Time>,
    closed: bool,
}

impl Timer {
    /// Has the engine called at `at`, or earlier if that was asked for already.
    pub fn arm(&self, at: Time) {
        let mut armed = self.armed();
        if armed.at.is_none_or(|armed| at < armed) {
            armed.at = Some(at);
            drop(armed);
            self.changed.notify_one();
        }
    }

    /// Sleeps until the engine is to be called; false when it is gone.
    fn sleep(&self, clock: Clock) -> bool {
        let mut armed = self.armed();
        while !armed.closed {
            let now = clock.now();
            armed = match armed.at {
                Some(at) if at <= now => {
                    armed.at = None;
                    return true;
                }
                Some(at) => {
                    let left = Duration::from_nanos(at.0 - now.0);
                    let waited = self.changed.wait_timeout(armed, left);
                    waited.unwrap_or_else(crate::broken).0
                }
                None => self.changed.wait(armed).unwrap_or_else(crate::broken),
            };
        }
        false
    }

    fn close(&self) {
        self.armed().closed = true;
        self.changed.notify_one();
    }

    fn armed(&self) -> MutexGuard<'_, Armed> {
        self.armed.lock().unwrap_or_else(crate::broken)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.timer.close();
    }
}

/// Starts the thread.
pub(super) fn spawn(control: &Arc<Control>) {
    let (timer, weak) = (Arc::clone(&control.timer), Arc::downgrade(control));
    let clock = control.clock;
    let spawned = std::thread::Builder::new().name("paceline-timer".into()).spawn(move || {
        while timer.sleep(clock) {
            let Some(control) = weak.upgrade() else { return };
            control.wake();
        }
    });
    if let Err(error) = spawned {
        tracing::error!(%error, "cannot start the timer: nothing that waits will be woken");
    }
}
