//! Locks: acquired, held by a guard, released when it is dropped.

use crate::client::{Client, Patience};
use crate::error::Error;
use crate::owed::Release;
use crate::place::Place;
use crate::request::{Method, span};
use crate::seat::Seat;
use crate::session::{Session, SessionOptions, session_member};
use crate::wire::segment;
use serde_json::{Value, json};
use std::time::Duration;

/// How to acquire a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockOptions {
    /// Steal the lock from its owner; requires the role operator.
    pub steal: bool,
    /// How long to wait for it; zero tries once.
    pub wait: Duration,
    /// By which the daemon knows the request when it is sent again after a restart. On a unix socket, and if the client
    /// waits for a daemon that is away, [`Client::lock`] chooses one without this.
    pub place: Option<Place>,
}

impl LockOptions {
    pub(crate) fn body(self, session: &str) -> Value {
        let mut body = json!({"session": session, "wait": span(self.wait).to_string()});
        if let Some(members) = body.as_object_mut() {
            members.extend(self.steal.then(|| ("steal".to_owned(), true.into())));
            members.extend(self.place.map(|place| ("place".to_owned(), place.text().into())));
        }
        body
    }
}

/// A lock that is owned. It is released when it is dropped.
#[derive(Debug)]
pub struct Lock {
    client: Client,
    name: String,
    fencing: u64,
    hold: Hold,
}

/// What holds the lock.
#[derive(Debug)]
enum Hold {
    /// It is released.
    Released,
    /// A session that continues after the lock is released.
    Shared(String),
    /// A session for this lock alone, which ends with it.
    Own(Session),
    /// A seat.
    Seat(Seat),
}

impl Client {
    /// Acquires a lock in a session of its own. On a unix socket the session is bound to a connection; over TCP it
    /// has a lease that [`Lock::renew`] renews.
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
        let place = options.place.or_else(|| self.new_place());
        let ask = |session: &str, waited: Duration| {
            let left = LockOptions { wait: options.wait.saturating_sub(waited), place, ..*options };
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

    /// The fencing number of this grant, higher than that of every earlier grant. The resource that the lock protects
    /// should refuse numbers lower than the highest it has seen.
    #[must_use]
    pub const fn fencing(&self) -> u64 {
        self.fencing
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this grant is still valid: the lock was not stolen, not even temporarily.
    ///
    /// # Errors
    /// If the daemon does not answer.
    pub fn is_held(&self) -> Result<bool, Error> {
        match self.client.call(Method::Get, &Self::path(&self.name), None) {
            Ok(shown) => Ok(shown.get("fencing").and_then(Value::as_u64) == Some(self.fencing)),
            Err(Error::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Renews the lease of its session. On a unix socket this is not needed.
    ///
    /// # Errors
    /// [`Error::Expired`] if the lease has expired: another session may own the lock now.
    pub fn renew(&self) -> Result<(), Error> {
        match &self.hold {
            Hold::Own(session) => session.renew(),
            Hold::Released | Hold::Shared(_) | Hold::Seat(_) => Ok(()),
        }
    }

    /// Releases the lock and reports whether the daemon confirmed it.
    ///
    /// # Errors If the daemon did not confirm it. If it cannot be reached, the release is sent as soon as possible.
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
        // A destructor cannot report a failure, and the daemon releases the lock by itself.
        let client = self.client.hasty();
        let _ = self.finish(&client);
    }
}

fn fencing(answer: &Value) -> Result<u64, Error> {
    let number = answer.get("fencing").and_then(Value::as_u64);
    number.ok_or_else(|| Error::Protocol("a lock without a fencing number".into()))
}
