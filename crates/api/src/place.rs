//! The place of a waiter: a secret that a client chooses for one request, and sends again when it asks again.
//!
//! The host keeps only a hash of the secret, of the user, and of the request. So a place reveals nothing to its
//! readers, and is of no use to another user, nor for another request.

use crate::members::Members;
use crate::respond::Problem;
use paceline_host::PlaceHash;
use paceline_types::{Mode, Request, Unknown, limits};
use sha2::{Digest as _, Sha256};

/// The member `place` of a body.
pub(crate) fn read(members: &mut Members) -> Result<Option<String>, Problem> {
    let Some(place) = members.text("place")? else { return Ok(None) };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if limits::PLACE_BYTES.contains(&place.len()) && place.bytes().all(fits) {
        return Ok(Some(place));
    }
    let (min, max) = (limits::PLACE_BYTES.start(), limits::PLACE_BYTES.end());
    let message = format!("place: expected {min} to {max} of the characters A-Z a-z 0-9 . _ -");
    Err(Problem::bad_request(message).hint("choose it at random, for each request anew"))
}

/// The hash of a place in a request for a permit. How long the request waits and what it belongs to may differ
/// when the client asks again; everything that decides where and for what it waits may not.
pub(crate) fn of_permit(user: &str, place: &str, request: &Request, once: bool) -> PlaceHash {
    let mut hash = Fields::new("permit", user, place);
    let mut attributes: Vec<(&str, &str)> = request.attributes.iter().collect();
    attributes.sort_unstable();
    hash.count(attributes.len());
    for (name, value) in attributes {
        hash.text(name);
        hash.text(value);
    }
    hash.count(request.claims.len());
    for claim in &request.claims {
        hash.text(&claim.resource);
        hash.count(usize::from(claim.mode == Mode::Shared));
    }
    hash.count(request.locks.len());
    request.locks.iter().for_each(|lock| hash.text(lock));
    hash.count(request.cost as usize);
    hash.count(match request.unknown {
        Unknown::Refuse => 0,
        Unknown::Wait => 1,
        Unknown::Create => 2,
    });
    hash.count(usize::from(once));
    hash.finish()
}

/// The hash of a place in a request for a lock.
pub(crate) fn of_lock(user: &str, place: &str, name: &str) -> PlaceHash {
    let mut hash = Fields::new("lock", user, place);
    hash.text(name);
    hash.finish()
}

/// Hashes fields one after the other, each with its length, so that two different lists of fields never give
/// the same bytes.
struct Fields(Sha256);

impl Fields {
    fn new(kind: &str, user: &str, place: &str) -> Self {
        let mut fields = Self(Sha256::new());
        [kind, user, place].into_iter().for_each(|text| fields.text(text));
        fields
    }

    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.update(text.as_bytes());
    }

    fn finish(self) -> PlaceHash {
        PlaceHash(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::{of_lock, of_permit};
    use paceline_types::{Attributes, Claim, Mode, Request, SessionId, Span, Unknown};
    use std::collections::BTreeSet;

    fn request() -> Request {
        let mut attributes = Attributes::new();
        attributes.set("task", "etl").unwrap();
        attributes.set("frontend", "api").unwrap();
        let claims = vec![Claim { resource: "disk".into(), mode: Mode::Exclusive }];
        Request { claims, ..Request::new(attributes) }
    }

    /// Every difference that makes it another request makes another hash.
    #[test]
    fn a_place_is_for_one_user_and_one_request() {
        let mut changed: Vec<Request> = (0..7).map(|_| request()).collect();
        changed[0].attributes.set("task", "etl2").unwrap();
        changed[1].attributes.set("more", "x").unwrap();
        changed[2].claims[0].mode = Mode::Shared;
        changed[3].claims[0].resource = "dis".into();
        changed[4].locks.push("k".into());
        changed[5].cost = 2;
        changed[6].unknown = Unknown::Wait;
        let mut hashes = BTreeSet::from([
            of_permit("ann", "p", &request(), false),
            of_permit("ann", "p", &request(), true),
            of_permit("bob", "p", &request(), false),
            of_permit("ann", "q", &request(), false),
            of_permit("an", "np", &request(), false),
            of_lock("ann", "p", "disk"),
            of_lock("ann", "p", "dis"),
            of_lock("bob", "p", "disk"),
        ]);
        hashes.extend(changed.iter().map(|request| of_permit("ann", "p", request, false)));
        assert_eq!(hashes.len(), 15);
    }

    /// A client that asks again has a new session and less time, and may list its attributes in another order.
    #[test]
    fn what_differs_when_it_asks_again_does_not_matter() {
        let mut again = request();
        again.attributes = Attributes::new();
        again.attributes.set("frontend", "api").unwrap();
        again.attributes.set("task", "etl").unwrap();
        (again.wait_max, again.session) = (Some(Span::ZERO), Some(SessionId(7)));
        again.within = vec![SessionId(8)];
        let hash = |request| of_permit("ann", "p", request, false);
        assert_eq!(hash(&again), hash(&request()));
    }
}
