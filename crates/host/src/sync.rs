//! Taking the locks of shared state.
//!
//! A poisoned lock ends the process ([`crate::broken`]). With the feature `simulated`, a simulator can run other
//! threads before a lock is taken, and while another thread holds it: so it decides in which order threads get the
//! locks. Without the feature none of that is compiled.

use std::sync::{Condvar, Mutex, MutexGuard, TryLockError};

/// Takes a lock.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(feature = "simulated")]
    simulated::wait_for(mutex);
    mutex.lock().unwrap_or_else(crate::broken)
}

/// Releases a lock until another thread may have changed the state it guards, and takes it again. The caller
/// checks whether its condition holds. A thread that changes the state calls [`Condvar::notify_all`].
pub(crate) fn wait<'a, T>(
    mutex: &'a Mutex<T>,
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
) -> MutexGuard<'a, T> {
    #[cfg(feature = "simulated")]
    if simulated::is_simulated() {
        drop(guard);
        simulated::run_others();
        return lock(mutex);
    }
    let _ = mutex;
    changed.wait(guard).unwrap_or_else(crate::broken)
}

/// Takes a lock if it is free.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    #[cfg(feature = "simulated")]
    simulated::let_others_run();
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(crate::broken(poisoned)),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// How often a taken lock is tried before the caller waits for it, and after how many of these tries the thread
/// yields to others.
const LOOKS: u32 = 16;
const YIELDS: u32 = 4;

/// Takes a lock that is free, or that another thread holds only for a few microseconds.
pub(crate) fn try_briefly<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for look in 0..LOOKS {
        if let Some(guard) = try_lock(mutex) {
            return Some(guard);
        }
        if cfg!(feature = "simulated") {
            return None;
        }
        if look % (LOOKS / YIELDS) == LOOKS / YIELDS - 1 {
            std::thread::yield_now();
        } else {
            (0..64).for_each(|_| std::hint::spin_loop());
        }
    }
    None
}

#[cfg(feature = "simulated")]
pub(crate) mod simulated {
    use std::cell::Cell;
    use std::sync::{Mutex, TryLockError};

    /// Runs other threads: `must` if another thread holds the lock; otherwise the simulator decides whether to.
    pub type Yield = fn(must: bool);

    thread_local! {
        static YIELD: Cell<Option<Yield>> = const { Cell::new(None) };
    }

    /// From now on this thread calls `run_others` before it takes a lock.
    pub fn yield_at_locks(run_others: Option<Yield>) {
        YIELD.set(run_others);
    }

    /// Lets the simulator run other threads, if this thread yields at locks.
    pub(super) fn let_others_run() {
        if let Some(run_others) = YIELD.get() {
            run_others(false);
        }
    }

    /// Whether this thread yields at locks.
    pub(super) fn is_simulated() -> bool {
        YIELD.get().is_some()
    }

    /// Runs other threads, because this thread waits for them.
    pub(super) fn run_others() {
        if let Some(run_others) = YIELD.get() {
            run_others(true);
        }
    }

    /// Returns when the lock is free, if this thread yields at locks.
    pub(super) fn wait_for<T>(mutex: &Mutex<T>) {
        let Some(run_others) = YIELD.get() else { return };
        run_others(false);
        while matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)) {
            run_others(true);
        }
    }
}
