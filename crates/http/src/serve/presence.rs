//! A connection of a client as all workers see it: whether it may end for another, and how its task is woken.
//!
//! Its own worker makes it idle and busy, which costs an atomic operation each. Any worker may displace it while it is
//! idle (`Connections::displace`). A displaced connection ends and begins no request, unless it finds that a response is
//! still being sent on it (`unsent.rs`): then it stays, and another connection has to end.
//!
//! | bit         | set                                          | cleared                                  |
//! | ----------- | -------------------------------------------- | ---------------------------------------- |
//! | `IDLE`      | by its worker, when it waits for a request   | by its worker, when it looks for one     |
//! | `LISTED`    | under the lock of `Connections`, when it becomes idle | under that lock, when a search finds it busy |
//! | `SPARED`    | when it gets its place in the list           | when it looks for a request              |
//! | `DISPLACED` | when a search has it end, if it is `IDLE`    | by its worker, if it stays               |
//! | `ENDED`     | under the lock, when its place is given back | never                                    |
//!
//! A connection stays listed when it becomes busy, so that most requests take no lock. A search that finds it busy strikes
//! it off, and it lists itself when it is idle again. So a search that finds none has looked at all that are idle.

use crate::serve::connections::{Connections, FrontendNumber};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};

const IDLE: u8 = 1;
const LISTED: u8 = 2;
const SPARED: u8 = 4;
const DISPLACED: u8 = 8;
const ENDED: u8 = 16;

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct Presence {
    state: AtomicU8,
    /// That of its task, which is always the same.
    waker: OnceLock<Waker>,
    all: Arc<Connections>,
    /// The name that its frontend had when it was accepted, and what tells frontends apart.
    pub frontend: Box<str>,
    pub frontend_number: FrontendNumber,
    /// The number of its client's account, and its place in the list. They change under the lock of `Connections` only.
    account: AtomicU64,
    ticket: AtomicU64,
}

/// What a search makes of a connection that is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It has a request, and is not listed any more.
    Busy,
    /// It is idle, but has been used since it was listed: it is to be listed anew.
    Spared,
    /// It ends, and is not listed any more.
    Displaced,
}

impl Presence {
    /// A connection at this frontend that has not become idle yet.
    pub fn new(
        all: Arc<Connections>,
        frontend: Box<str>,
        frontend_number: FrontendNumber,
        account: u64,
    ) -> Self {
        let (state, waker) = (AtomicU8::new(0), OnceLock::new());
        let (account, ticket) = (AtomicU64::new(account), AtomicU64::new(0));
        Self { state, waker, all, frontend, frontend_number, account, ticket }
    }

    /// The connection's task waits, and wants to be woken when the daemon ends or the connection has to.
    pub fn wait(&self, cx: &Context<'_>) {
        let waker = self.waker.get_or_init(|| cx.waker().clone());
        debug_assert!(waker.will_wake(cx.waker()), "a connection has one task");
    }

    /// Has the connection's task look again.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// The connection has no request and waits for one. `wait` was called before, so that it can be woken.
    pub fn set_idle(self: &Arc<Self>) {
        // No other thread makes it idle.
        if self.state.load(Ordering::Relaxed) & IDLE != 0 {
            return;
        }
        let before = self.state.fetch_or(IDLE, Ordering::AcqRel);
        if before & (LISTED | DISPLACED) == 0 {
            self.all.list(self);
        }
    }

    /// The connection looks for a request, and is not displaced while it does. Returns whether it may begin one: not if
    /// it has to end for another connection.
    pub fn begin(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        if state & IDLE != 0 {
            state = self.state.fetch_and(!(IDLE | SPARED), Ordering::AcqRel);
        }
        state & DISPLACED == 0
    }

    /// The connection does not end for another, because a response is still being sent on it. Its worker calls this after
    /// `begin`, so no other thread displaces it meanwhile. It is listed when it becomes idle again.
    pub fn stay(&self) {
        self.state.fetch_and(!DISPLACED, Ordering::AcqRel);
        self.all.look_again();
    }

    /// Whether it has to end for another connection: it has no request, and begins none.
    pub fn is_displaced(&self) -> bool {
        self.state.load(Ordering::Acquire) & DISPLACED != 0
    }

    /// Whether it has ended. Then its place is given back.
    pub fn has_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) & ENDED != 0
    }

    /// A search has come to it. `spares` says whether it is passed over if it was used since it was listed. For this and all
    /// methods below, the caller holds the lock of `Connections`.
    pub fn claim(&self, spares: bool) -> Claim {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let (next, claim) = match () {
                () if state & IDLE == 0 => (state & !LISTED, Claim::Busy),
                () if spares && state & SPARED == 0 => (state, Claim::Spared),
                () => ((state | DISPLACED) & !LISTED, Claim::Displaced),
            };
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            match self.state.compare_exchange_weak(state, next, success, failure) {
                Ok(_) => return claim,
                Err(now) => state = now,
            }
        }
    }

    /// It has this place in the list from now on.
    pub fn set_listed(&self, ticket: u64) {
        self.ticket.store(ticket, Ordering::Relaxed);
        self.state.fetch_or(LISTED | SPARED, Ordering::AcqRel);
    }

    /// It is not listed from now on. Returns whether it was.
    pub fn set_unlisted(&self) -> bool {
        self.state.fetch_and(!LISTED, Ordering::AcqRel) & LISTED != 0
    }

    /// Its place is given back.
    pub fn set_ended(&self) {
        self.state.fetch_or(ENDED, Ordering::AcqRel);
    }

    /// It is another client's from now on.
    pub fn move_to(&self, account: u64) {
        self.account.store(account, Ordering::Relaxed);
    }

    pub fn account(&self) -> u64 {
        self.account.load(Ordering::Relaxed)
    }

    pub fn ticket(&self) -> u64 {
        self.ticket.load(Ordering::Relaxed)
    }
}
