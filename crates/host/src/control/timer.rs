//! The thread that calls the engine when the engine asks for it.
//!
//! It sleeps until the earliest time it was armed for, and is woken earlier only by an earlier time. It ends with the
//! engine. With a simulator's clock, a task does the same.

use super::Control;
use crate::clock::Clock;
use crate::tasks::Tasks;
use paceline_types::Time;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;

/// When the engine is to be called next.
#[derive(Debug, Default)]
pub(super) struct Timer {
    armed: Mutex<Armed>,
    changed: Condvar,
    /// Notifies the task, as `changed` notifies the thread.
    rearmed: Notify,
}

#[derive(Debug, Default)]
struct Armed {
    at: Option<Time>,
    closed: bool,
}

impl Timer {
    /// Schedules a call of the engine at `at`, unless an earlier one is scheduled.
    pub fn arm(&self, at: Time) {
        let mut armed = self.armed();
        if armed.at.is_none_or(|armed| at < armed) {
            armed.at = Some(at);
            drop(armed);
            self.changed.notify_one();
            self.rearmed.notify_one();
        }
    }

    /// Sleeps until the engine is to be called; false when the engine was dropped.
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
        self.rearmed.notify_one();
    }

    fn armed(&self) -> MutexGuard<'_, Armed> {
        crate::sync::lock(&self.armed)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.timer.close();
    }
}

impl Control {
    /// Starts calling the engine whenever it asks for that.
    pub(crate) fn run_timer(self: &Arc<Self>, tasks: &Tasks) {
        if !self.clock.is_made() {
            return spawn(self);
        }
        let (timer, weak, clock) = (Arc::clone(&self.timer), Arc::downgrade(self), self.clock);
        tasks.spawn(async move {
            while !timer.armed().closed {
                let at = timer.armed().at;
                match at {
                    Some(at) if at <= clock.now() => {
                        timer.armed().at = None;
                        let Some(control) = weak.upgrade() else { return };
                        control.wake();
                    }
                    Some(at) => drop(clock.timeout_at(at, timer.rearmed.notified()).await),
                    None => timer.rearmed.notified().await,
                }
            }
        });
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
        tracing::error!(%error, "cannot start the timer: requests that wait will not be woken");
    }
}
