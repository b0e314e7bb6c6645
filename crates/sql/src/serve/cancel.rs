//! The sessions of a worker, by the number that a cancel request names them with.
//!
//! Promises that a cancel request is heard only with the session's secret, which is compared in constant time, and that
//! nothing tells a wrong one from a right one.

use ring::rand::{SecureRandom as _, SystemRandom};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::task::{Context, Waker};

/// The longest secret, which protocol 3.2 uses.
const SECRET_BYTES: usize = 32;

/// The secret of a session that speaks protocol 3.0.
pub(crate) const SHORT_SECRET_BYTES: usize = 4;

/// All sessions of a worker.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_number: RefCell<BTreeMap<u32, Rc<Slot>>>,
    last: Cell<u32>,
}

/// What others may tell a session.
#[derive(Debug)]
pub(crate) struct Slot {
    pub number: u32,
    secret: [u8; SECRET_BYTES],
    /// How long the secret is that this session was given.
    secret_len: Cell<usize>,
    cancels: Cell<u32>,
    waker: RefCell<Option<Waker>>,
    sessions: Weak<Sessions>,
}

/// A session that is registered; it is not when this is dropped.
#[derive(Debug)]
pub(crate) struct Registered(pub Rc<Slot>);

impl Sessions {
    /// Registers a session; none if there are no random numbers to be had.
    pub fn enter(self: &Rc<Self>) -> Option<Registered> {
        let mut secret = [0; SECRET_BYTES];
        SystemRandom::new().fill(&mut secret).ok()?;
        let mut by_number = self.by_number.borrow_mut();
        let mut number = self.last.get();
        loop {
            // 0 is no process.
            number = number.wrapping_add(1).max(1) & i32::MAX as u32;
            if number > 0 && !by_number.contains_key(&number) {
                break;
            }
        }
        self.last.set(number);
        let slot = Rc::new(Slot {
            number,
            secret,
            secret_len: Cell::new(SHORT_SECRET_BYTES),
            cancels: Cell::new(0),
            waker: RefCell::default(),
            sessions: Rc::downgrade(self),
        });
        by_number.insert(number, Rc::clone(&slot));
        Some(Registered(slot))
    }

    /// Tells a session to cancel its statement, if the secret is its own.
    pub fn cancel(&self, number: u32, secret: &[u8]) {
        let slot = self.by_number.borrow().get(&number).cloned();
        if let Some(slot) = slot.filter(|slot| slot.is_secret(secret)) {
            slot.cancels.set(slot.cancels.get().saturating_add(1));
            slot.wake();
        }
    }

    /// Wakes all sessions, so that they see that the daemon ends.
    pub fn wake_all(&self) {
        let all: Vec<Rc<Slot>> = self.by_number.borrow().values().cloned().collect();
        all.iter().for_each(|slot| slot.wake());
    }
}

impl Slot {
    /// Uses the long secret of protocol 3.2.
    pub fn lengthen(&self) {
        self.secret_len.set(SECRET_BYTES);
    }

    /// What a client must present to cancel.
    pub fn secret(&self) -> &[u8] {
        self.secret.get(..self.secret_len.get()).unwrap_or_default()
    }

    /// Takes one request to cancel, if there is any. Otherwise the task is woken by the next one.
    pub fn take_cancel(&self, cx: &Context<'_>) -> bool {
        let count = self.cancels.get();
        self.cancels.set(count.saturating_sub(1));
        if count == 0 {
            let mut waker = self.waker.borrow_mut();
            if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
        }
        count > 0
    }

    fn is_secret(&self, given: &[u8]) -> bool {
        let secret = self.secret();
        let differences = secret.iter().zip(given).fold(0, |sum, (own, given)| sum | (own ^ given));
        secret.len() == given.len() && differences == 0
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(sessions) = self.0.sessions.upgrade() {
            sessions.by_number.borrow_mut().remove(&self.0.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sessions;
    use std::rc::Rc;
    use std::task::{Context, Waker};

    #[test]
    fn only_the_own_secret_cancels_q3() {
        let sessions = Rc::new(Sessions::default());
        let one = sessions.enter().unwrap();
        let two = sessions.enter().unwrap();
        let cx = Context::from_waker(Waker::noop());
        two.0.lengthen();
        assert_eq!((one.0.secret().len(), two.0.secret().len()), (4, 32));
        sessions.cancel(one.0.number, two.0.secret());
        sessions.cancel(one.0.number, &one.0.secret()[..3]);
        sessions.cancel(two.0.number, &two.0.secret()[..4]);
        sessions.cancel(77, one.0.secret());
        assert!(!one.0.take_cancel(&cx) && !two.0.take_cancel(&cx));
        sessions.cancel(two.0.number, two.0.secret());
        assert!(!one.0.take_cancel(&cx) && two.0.take_cancel(&cx) && !two.0.take_cancel(&cx));
        let number = one.0.number;
        drop(one);
        sessions.cancel(number, &[0; 4]);
        assert_eq!(sessions.by_number.borrow().len(), 1);
    }
}
