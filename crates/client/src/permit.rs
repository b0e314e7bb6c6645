//! Permits: requested, held by a guard, released when it is dropped.

use crate::client::{Client, Patience, WhenAway};
use crate::error::Error;
use crate::owed::Release;
use crate::request::{Method, PermitRequest, span};
use crate::seat::Seat;
use crate::wire::segment;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// The daemon's description of a granted permit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Grant {
    /// The permit's id.
    pub permit: String,
    /// The id of the request.
    pub request: u64,
    /// The priority that the rules gave it.
    #[serde(default)]
    pub priority: i64,
    /// The pool it runs in.
    #[serde(default)]
    pub pool: String,
    /// When it was granted, RFC 3339.
    #[serde(default)]
    pub granted_at: String,
    /// How long it waited, such as `12ms`.
    #[serde(default)]
    pub waited: String,
    /// When its lease expires, if it has one.
    #[serde(default)]
    pub expires_at: Option<String>,
}

/// A permit. It is released when it is dropped.
#[derive(Debug)]
pub struct Permit {
    client: Client,
    grant: Option<Grant>,
    seat: Option<Seat>,
}

impl Client {
    /// Asks for a permit, and waits in the queues as long as they and the request allow.
    ///
    /// On a unix socket the permit is bound to a connection of its own: it is released when the program ends, for
    /// whatever reason. Over TCP, and with a `lease` or an `id` in the request, it has a lease, and [`Permit::renew`]
    /// must be called before the lease expires.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason; otherwise see the variants of [`Error`]. While the daemon is away,
    /// [`WhenAway`] decides.
    pub fn permit(&self, request: PermitRequest) -> Result<Permit, Error> {
        self.tell_owed();
        let by_lease = !self.target().is_unix() || request.lease.is_some() || request.id.is_some();
        let asked = if by_lease {
            Permit::by_lease(self, &request)
        } else {
            Permit::in_seat(self, &request)
        };
        match asked {
            Err(Error::Unreachable { .. })
                if self.options().when_away == WhenAway::Open && !request.excludes() =>
            {
                Ok(Permit { client: self.clone(), grant: None, seat: None })
            }
            asked => asked,
        }
    }
}

impl Permit {
    fn in_seat(client: &Client, request: &PermitRequest) -> Result<Self, Error> {
        let place = request.place.or_else(|| client.new_place());
        let asked = body(&PermitRequest { place, ..request.clone() })?;
        let ask = |session: &str, waited: Duration| {
            let mut asked = with_session(asked.clone(), session);
            let left = request.max_wait.map(|longest| longest.saturating_sub(waited));
            if let (Some(left), Some(members)) = (left, asked.as_object_mut()) {
                members.insert("max_wait".into(), span(left).to_string().into());
            }
            (asked, left.map_or(Patience::Endless, Patience::After))
        };
        let (seat, value) = client.in_seat("/v1/permits", Method::Post, ask)?;
        let grant = read_grant(value)?;
        Ok(Self { client: client.clone(), grant: Some(grant), seat: Some(seat) })
    }

    fn by_lease(client: &Client, request: &PermitRequest) -> Result<Self, Error> {
        Self::ask(client, request, &body(request)?)
    }

    pub(crate) fn in_session(
        client: &Client,
        session: &str,
        request: &PermitRequest,
    ) -> Result<Self, Error> {
        Self::ask(client, request, &with_session(body(request)?, session))
    }

    fn ask(client: &Client, request: &PermitRequest, body: &Value) -> Result<Self, Error> {
        let (method, path) = match &request.id {
            Some(id) => (Method::Put, format!("/v1/permits/{}", segment(id))),
            None => (Method::Post, "/v1/permits".to_owned()),
        };
        let value = client.ask(method, &path, Some(body), patience(request))?;
        Ok(Self { client: client.clone(), grant: Some(read_grant(value)?), seat: None })
    }

    /// The daemon's description of it; `None` if the daemon was away and the client continues without it.
    #[must_use]
    pub const fn grant(&self) -> Option<&Grant> {
        self.grant.as_ref()
    }

    /// Renews its lease, and returns when the lease expires next. A permit without a lease of its own needs no
    /// renewal and returns `None`.
    ///
    /// # Errors
    /// [`Error::Expired`] if the lease expired: another client may hold what the permit held.
    pub fn renew(&mut self) -> Result<Option<&str>, Error> {
        let Some(grant) = self.grant.as_mut() else { return Ok(None) };
        if self.seat.is_some() || grant.expires_at.is_none() {
            return Ok(None);
        }
        let path = format!("/v1/permits/{}/renew", segment(&grant.permit));
        let answer = self.client.call(Method::Post, &path, None)?;
        if let Some(at) = answer.get("expires_at").and_then(Value::as_str) {
            grant.expires_at = Some(at.to_owned());
        }
        Ok(grant.expires_at.as_deref())
    }

    /// Releases it and reports whether the daemon confirmed it.
    ///
    /// # Errors If the daemon did not confirm it. If it cannot be reached, the release is sent as soon as possible.
    /// [`Error::NotFound`] if the permit expired before it was released.
    pub fn settle(mut self) -> Result<(), Error> {
        let client = self.client.clone();
        self.finish(&client)
    }

    fn finish(&mut self, client: &Client) -> Result<(), Error> {
        let Some(grant) = self.grant.take() else { return Ok(()) };
        let release = Release::permit(&grant.permit);
        match self.seat.take() {
            Some(seat) => client.release_in(seat, &release),
            None => client.give_back(release),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // A destructor cannot report a failure, and the daemon releases the permit by itself.
        let client = self.client.hasty();
        let _ = self.finish(&client);
    }
}

fn patience(request: &PermitRequest) -> Patience {
    request.max_wait.map_or(Patience::Endless, Patience::After)
}

fn body(request: &PermitRequest) -> Result<Value, Error> {
    serde_json::to_value(request).map_err(|error| Error::Protocol(error.to_string()))
}

fn with_session(mut body: Value, session: &str) -> Value {
    if let Some(members) = body.as_object_mut() {
        members.insert("session".into(), session.into());
    }
    body
}

fn read_grant(value: Value) -> Result<Grant, Error> {
    serde_json::from_value(value).map_err(|error| Error::Protocol(format!("permit: {error}")))
}
