//! Locks of sessions: requested, waited for, released.
//!
//! A session waits in line while its request waits, and leaves the line when the request ends without the lock,
//! whichever way it ends.

use super::ask::{check, see_who_left};
use super::standings::Turn;
use super::{HeldSession, HoldError, Registry};
use crate::LockOperation;
use crate::access::Granted;
use crate::kept::PlaceHash;
use paceline_types::Span;

/// How a lock is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// In line, for this long at most; with the place by which the request is recognised after an orderly
    /// shutdown of the daemon.
    Wait(Span, Option<PlaceHash>),
    /// At once, from its owner.
    Steal,
}

impl Registry {
    /// Makes a session own a lock. Returns its fencing number, and whether the ownership is on disk. Only a
    /// steal does not require that: the owner has lost the lock already. `granted` is the grant of the client's
    /// role, if that can be revoked, and `ending` resolves when the door closes.
    ///
    /// # Errors
    ///
    /// When the session does not own the lock; then it does not wait in line either.
    pub async fn lock(
        &self,
        session: &HeldSession,
        name: &str,
        asking: Asking,
        granted: Option<&Granted>,
        ending: impl Future<Output = ()>,
    ) -> Result<(u64, bool), HoldError> {
        if self.host.policy().read_only {
            return Err(HoldError::ReadOnly);
        }
        let asked = match asking {
            Asking::Wait(_, place) => session.standings.lock(name, place)?,
            Asking::Steal => session.standings.operate(LockOperation::Steal, name)?,
        };
        // If the client does not receive the answer that its session owns the lock, the lock is released.
        let untold = Untold { session, name, number: asked.number, is_told: false };
        if let Asking::Wait(wait, _) = asking
            && !asked.owns
        {
            let came = self.clock.timeout_at(self.clock.now().plus(wait), asked.turn);
            let came = tokio::select! {
                biased;
                came = Granted::during(granted, came) => came.ok_or(HoldError::TakenAway)?,
                () = ending => return Err(HoldError::Ending),
            };
            check(granted)?;
            match came {
                Some(Ok(Turn::Came)) => {}
                Some(Ok(Turn::GivenUp)) => return Err(HoldError::GivenUp),
                Some(Err(_)) => return Err(HoldError::SessionEnded),
                None => return Err(self.taken(name, wait)),
            }
            see_who_left().await;
        }
        // `None` if another session stole it meanwhile, or this one released it.
        let fencing = self.host.locking().fencing(session.session.id, name);
        let fencing = fencing.ok_or_else(|| self.taken(name, Span::ZERO))?;
        let is_written = match asking {
            Asking::Wait(..) => self.written().await.map(|()| true)?,
            Asking::Steal => self.written().await.is_ok(),
        };
        untold.told();
        Ok((fencing, is_written))
    }

    /// Releases a lock of a session, or removes the session from its line. Returns whether that is on disk.
    ///
    /// # Errors
    ///
    /// When the session neither owns the lock nor waits for it.
    pub async fn unlock(&self, session: &HeldSession, name: &str) -> Result<bool, HoldError> {
        let what = format!("lock {name} of {}", session.key);
        if let Err(error) = session.standings.operate(LockOperation::Unlock, name) {
            return self.released_again(&what).await.ok_or(error);
        }
        Ok(self.forgotten(|| what).await)
    }

    fn taken(&self, name: &str, waited: Span) -> HoldError {
        HoldError::Taken { owner: self.host.locking().owner_name(name), waited }
    }
}

/// A lock that a session requested and its client does not know of yet. Dropping it releases the lock.
struct Untold<'a> {
    session: &'a HeldSession,
    name: &'a str,
    /// The number of the operation that requested it.
    number: u64,
    is_told: bool,
}

impl Untold<'_> {
    fn told(mut self) {
        self.is_told = true;
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.session.standings.give_back(self.name, self.number);
        }
    }
}
