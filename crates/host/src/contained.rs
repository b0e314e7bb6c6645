//! What a panic ends: one connection, or the process.
//!
//! A panic in the task of one connection must not end the others, so the doors run these tasks in [`contained`].
//! Everywhere else a panic ends the process at once: a listener, a timer or a committer that silently stopped would be
//! worse, and a restart restores everything from the journal. A panic while shared state is locked ends the process
//! too: the mutex is poisoned, and every lock of shared state is taken with [`broken`], which ends the process.
//! Unwinding drops the guards that release what the connection held, and these take the same locks, so the process ends
//! in the same moment.

use std::cell::Cell;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::PoisonError;
use std::task::Poll;

thread_local! {
    /// Whether a panic of this thread ends only the connection it works for.
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// The task of a connection panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panicked;

impl fmt::Display for Panicked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a fault of the daemon ended the connection")
    }
}

/// From now on a panic ends the process unless it is [`contained`]. It is reported as before in either case.
pub fn end_with_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        if !IS_CONTAINED.get() {
            std::process::abort();
        }
    }));
}

/// Runs the task of one connection. A panic ends only this task.
///
/// # Errors
///
/// When it panicked.
pub async fn contained<T>(task: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut task = pin!(task);
    std::future::poll_fn(|cx| {
        let _scope = Scope::begin(true);
        // After a panic the task is not polled again, and what it shares with others is behind locks.
        match std::panic::catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    })
    .await
}

/// Does work for one connection on a thread that works for others too. A panic ends only this work.
pub(crate) fn contained_work<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    let _scope = Scope::begin(true);
    std::panic::catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked)
}

/// Does work that others wait for and that would not be repeated: here a panic ends the process.
pub(crate) fn for_all<T>(work: impl FnOnce() -> T) -> T {
    let _scope = Scope::begin(false);
    work()
}

/// Ends the process, because shared state is inconsistent: a thread panicked while changing it.
pub fn broken<T>(_: PoisonError<T>) -> T {
    tracing::error!("a panic while shared state was locked; the daemon exits");
    std::process::abort()
}

/// Sets whether panics are contained, until it is dropped.
struct Scope {
    before: bool,
}

impl Scope {
    fn begin(is_contained: bool) -> Self {
        Self { before: IS_CONTAINED.replace(is_contained) }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        IS_CONTAINED.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::{Panicked, broken, contained, end_with_panics, for_all};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, ExitStatus};
    use std::sync::{Arc, Mutex};

    /// The environment variable that names the fault which [`strike`] plants in a separate process.
    const FAULT: &str = "PACELINE_TEST_FAULT";

    fn run(task: impl Future<Output = ()>) -> Result<(), Panicked> {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(contained(task))
    }

    /// Does nothing except in a process that [`ends`] started.
    #[test]
    fn strike() {
        let Ok(fault) = std::env::var(FAULT) else { return };
        end_with_panics();
        let shared = Arc::new(Mutex::new(1));
        match fault.as_str() {
            "in a connection" => {
                assert_eq!(run(async { panic!("planted") }), Err(Panicked));
                assert_eq!(run(async {}), Ok(()), "the next one is served");
            }
            "under a lock" => {
                let own = Arc::clone(&shared);
                let _ = run(async move {
                    let _held = own.lock().unwrap_or_else(broken);
                    panic!("planted");
                });
                drop(shared.lock().unwrap_or_else(broken));
            }
            "for all" => drop(run(async { for_all(|| panic!("planted")) })),
            "elsewhere" => drop(std::thread::spawn(|| panic!("planted")).join()),
            "after a connection" => {
                let _ = run(async { panic!("planted") });
                panic!("planted again");
            }
            other => panic!("{other}"),
        }
        std::process::exit(0);
    }

    fn ends(fault: &str) -> ExitStatus {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "contained::tests::strike"]).env(FAULT, fault);
        command.output().unwrap().status
    }

    #[test]
    fn a_panic_ends_its_connection_and_elsewhere_the_process_d4() {
        assert!(ends("in a connection").success());
        for fault in ["under a lock", "for all", "elsewhere", "after a connection"] {
            let status = ends(fault);
            assert_eq!(status.signal(), Some(6), "{fault}: {status}");
        }
    }
}
