//! HTTP methods, and the body of a request for a permit.

use crate::place::Place;
use paceline_types::Span;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Creates or replaces; idempotent.
    Put,
    /// Changes some members.
    Patch,
    /// Performs an action.
    Post,
    /// Deletes.
    Delete,
}

impl Method {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// A request for a permit. The daemon chooses the members that are not set.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PermitRequest {
    /// The attributes, which rules match and expressions read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Its cost at rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u32>,
    /// The resources that it claims, each with its whole sub-tree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    /// Locks that its session must own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub require_locks: Vec<String>,
    /// The id of another session that owns these locks; the permit ends with either session. Only for
    /// [`Session::permit`](crate::Session::permit).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locks_of: Option<String>,
    /// Sessions that end only after this request, such as the session of a permit that the calling process runs
    /// under. A request that would wait for what they hold is refused. Sessions that have ended already do not count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<String>,
    /// The longest wait over all queues; without it, the queues alone limit the wait.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_span")]
    pub max_wait: Option<Duration>,
    /// What to do about a resource that does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Unknown>,
    /// Hold the permit by a lease of this length, which must be renewed, and not by the connection.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_span")]
    pub lease: Option<Duration>,
    /// By which the daemon knows the request when it is sent again after a restart. On a unix socket, and if the client
    /// waits for a daemon that is away, one is chosen without this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// An id of the caller's choice, 1 to 128 of `A-Z a-z 0-9 . _ -`: asking again with the same id
    /// and body gives the same permit. Such a permit has a lease.
    #[serde(skip)]
    pub id: Option<String>,
}

/// A claim of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// The resource.
    pub resource: String,
    /// `exclusive` or `shared`.
    pub mode: &'static str,
}

/// What to do about a resource that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// Refuse the request.
    Refuse,
    /// Wait until it is created.
    Wait,
    /// Create it.
    Create,
}

impl PermitRequest {
    /// A request without attributes and claims.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an attribute.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.attributes.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Adds an exclusive claim.
    #[must_use]
    pub fn claim(mut self, resource: &str) -> Self {
        self.claims.push(Claim { resource: resource.to_owned(), mode: "exclusive" });
        self
    }

    /// Adds a shared claim.
    #[must_use]
    pub fn claim_shared(mut self, resource: &str) -> Self {
        self.claims.push(Claim { resource: resource.to_owned(), mode: "shared" });
        self
    }

    /// Requires that its session owns a lock.
    #[must_use]
    pub fn require_lock(mut self, lock: &str) -> Self {
        self.require_locks.push(lock.to_owned());
        self
    }

    /// Waits no longer than this.
    #[must_use]
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = Some(wait);
        self
    }

    /// Whether other clients rely on what it holds, so that only the daemon can grant it.
    pub(crate) fn excludes(&self) -> bool {
        !self.claims.is_empty() || !self.require_locks.is_empty()
    }
}

/// A length of time in the API's format.
pub(crate) fn span(length: Duration) -> Span {
    Span(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}

fn as_span<S: Serializer>(length: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match length {
        Some(length) => serializer.collect_str(&span(*length)),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::{PermitRequest, Unknown};
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn the_body_is_that_of_the_contract() {
        assert_eq!(serde_json::to_value(PermitRequest::new()).unwrap(), json!({}));
        let mut request = PermitRequest::new()
            .attribute("user", "etl")
            .claim("disk:da0")
            .claim_shared("tank")
            .require_lock("deploy")
            .max_wait(Duration::from_millis(1500));
        request.cost = Some(3);
        request.unknown = Some(Unknown::Create);
        request.lease = Some(Duration::from_secs(60));
        assert_eq!(
            serde_json::to_value(request).unwrap(),
            json!({
                "attributes": {"user": "etl"},
                "cost": 3,
                "claims": [{"resource": "disk:da0", "mode": "exclusive"},
                           {"resource": "tank", "mode": "shared"}],
                "require_locks": ["deploy"],
                "max_wait": "1.5s",
                "unknown": "create",
                "lease": "1m",
            })
        );
    }
}
