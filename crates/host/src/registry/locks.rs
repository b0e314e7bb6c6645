//! Locks of sessions: requested, waited for, released.
//!
//! A session stands in line while its request waits, and leaves the line when the request ends without the lock,
//! whichever way it ends.

use super::ask::{check, see_who_left};
use super::standings::Turn;
use super::{HeldSession, HoldError, Registry};
use crate::LockOperation;
use crate::access::Granted;
use paceline_types::Span;

/// How a lock is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// In line, for this long at most.
    Wait(Span),
    /// At once, from its owner.
    Steal,
}

impl Registry {
    /// Has a session own a lock: its fencing number, and whether it is on disk that the session owns it,
    /// which only a steal does not wait for: the owner has lost the lock already. `granted` is what gives the client its role, if
    /// that can be taken away, and `ending` is when the door closes.
    ///
    /// # Errors
    ///
    /// When it does not own it; then it does not stand in line either.
    pub async fn lock(
        &self,
        session: &HeldSession,
        name: &str,
        asking: Asking,
        granted: Option<&Granted>,
        ending: impl Future<Output = ()>,
    ) -> Result<(u64, bool), HoldError> {
        let operation = match asking {
            Asking::Wait(_) => LockOperation::Lock,
            Asking::Steal => LockOperation::Steal,
        };
        let asked = session.standings.operate(operation, name)?;
        // If the client is not answered that its session owns the lock, what it asked for is released.
        let untold = Untold { session, name, number: asked.number, is_told: false };
        if let Asking::Wait(wait) = asking
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
        // None if another session stole it meanwhile, or this one gave it back.
        let fencing = self.host.locking().fencing(session.session.id, name);
        let fencing = fencing.ok_or_else(|| self.taken(name, Span::ZERO))?;
        let is_written = match asking {
            Asking::Wait(_) => self.written().await.map(|()| true)?,
            Asking::Steal => self.written().await.is_ok(),
        };
        untold.told();
        Ok((fencing, is_written))
    }

    /// Has a session give a lock back, or leave its line; whether that is on disk.
    ///
    /// # Errors
    ///
    /// When it does neither own it nor stand in line.
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

/// What a session asked for and its client does not know yet. Dropping it releases it.
struct Untold<'a> {
    session: &'a HeldSession,
    name: &'a str,
    /// The number of the operation that asked.
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
