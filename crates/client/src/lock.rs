//! Locks: taken, held by a guard, given back when it is dropped.

use crate::client::{Client, Patience};
use crate::error::Error;
use crate::owed::Release;
use crate::request::{Method, span};
use crate::seat::Seat;
use crate::session::{Session, SessionOptions, session_member};
use crate::wire::segment;
use serde_json::{Value, json};
use std::time::Duration;

/// How a lock is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockOptions {
    /// Steal it from its owner; needs the role operator.
    pub steal: bool,
    /// Stand in line for it this long; zero tries once.
    pub wait: Duration,
}

impl LockOptions {
    pub(crate) fn body(self, session: &str) -> Value {
        let mut body = json!({"session": session, "wait": span(self.wait).to_string()});
        if let (true, Some(members)) = (self.steal, body.as_object_mut()) {
            members.insert("steal".into(), true.into());
        }
        body
    }
}

/// A lock that is owned. It is given back when it is dropped.
#[derive(Debug)]
pub struct Lock {
    client: Client,
    name: String,
    fencing: u64,
    hold: Hold,
}

/// What the lock hangs on.
#[derive(Debug)]
enum Hold {
    /// Nothing any more.
    Released,
    /// A session that lives on.
    Shared(String),
    /// A session for this lock alone, which ends with it.
    Own(Session),
    /// A seat.
    Seat(Seat),
}

impl Client {
    /// Takes a lock, for a session of its own: bound to a connection on a unix socket, with a lease
    /// that [`Lock::renew`] starts anew over TCP.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another session owns it and it was not free in time.
    pub fn lock(&self, name: &str, options: &LockOptions) -> Result<Lock, Error> {
        self.tell_owed();
        if !self.target().is_unix() {
            let session = self.session(&SessionOptions::default())?;
            let mut lock = session.lock(name, options)?;
            lock.hold = Hold::Own(session);
            return Ok(lock);
        }
        let ask = |session: &str, waited: Duration| {
            let left = LockOptions { wait: options.wait.saturating_sub(waited), ..*options };
            (left.body(session), Patience::After(left.wait))
        };
        let (seat, answer) = self.in_seat(&Lock::path(name), Method::Put, ask)?;
        let fencing = fencing(&answer)?;
        Ok(Lock { client: self.clone(), name: name.into(), fencing, hold: Hold::Seat(seat) })
    }
}

impl Lock {
    pub(crate) fn path(name: &str) -> String {
        format!("/v1/locks/{}", segment(name))
    }

    pub(crate) fn in_session(
        client: &Client,
        name: &str,
        session: &str,
        answer: &Value,
    ) -> Result<Self, Error> {
        let (fencing, hold) = (fencing(answer)?, Hold::Shared(session.to_owned()));
        Ok(Self { client: client.clone(), name: name.to_owned(), fencing, hold })
    }

    /// The number of this grant, higher than that of every earlier one. What the lock guards should
    /// refuse lower numbers than it has seen.
    #[must_use]
    pub const fn fencing(&self) -> u64 {
        self.fencing
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this grant still holds: the lock was not stolen, not even for a while.
    ///
    /// # Errors
    /// If the daemon does not say.
    pub fn is_held(&self) -> Result<bool, Error> {
        match self.client.call(Method::Get, &Self::path(&self.name), None) {
            Ok(shown) => Ok(shown.get("fencing").and_then(Value::as_u64) == Some(self.fencing)),
            Err(Error::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Starts the lease of its session anew. A lock on a unix socket needs none.
    ///
    /// # Errors
    /// [`Error::Expired`] if it is too late: another session may own the lock now.
    pub fn renew(&self) -> Result<(), Error> {
        match &self.hold {
            Hold::Own(session) => session.renew(),
            Hold::Released | Hold::Shared(_) | Hold::Seat(_) => Ok(()),
        }
    }

    /// Gives it back and says whether the daemon heard it.
    ///
    /// # Errors
    /// If it did not. If the daemon cannot be reached, the release is sent as soon as it can be.
    pub fn unlock(mut self) -> Result<(), Error> {
        let client = self.client.clone();
        self.finish(&client)
    }

    fn finish(&mut self, client: &Client) -> Result<(), Error> {
        let release = |session: &str| Release {
            path: Self::path(&self.name),
            body: Some(session_member(session)),
        };
        match std::mem::replace(&mut self.hold, Hold::Released) {
            Hold::Released => Ok(()),
            Hold::Own(session) => session.end_with(client),
            Hold::Shared(session) => client.give_back(release(&session)),
            Hold::Seat(seat) => {
                let release = release(&seat.session);
                client.release_in(seat, &release)
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure, and the daemon gives it back by itself.
        let client = self.client.hasty();
        let _ = self.finish(&client);
    }
}

fn fencing(answer: &Value) -> Result<u64, Error> {
    let number = answer.get("fencing").and_then(Value::as_u64);
    number.ok_or_else(|| Error::Protocol("a lock without a fencing number".into()))
}
