//! Errors by kind: refused, not permitted, not found, unreachable, and others.

use serde_json::Value;
use std::fmt;
use std::io;
use std::time::Duration;

/// Why a call failed.
#[derive(Debug)]
pub enum Error {
    /// The daemon refused the work: an ordinary answer, with its reason.
    Refused(Box<Refusal>),
    /// The caller does not have the permission.
    NotPermitted(Box<Answer>),
    /// The named object does not exist.
    NotFound(Box<Answer>),
    /// A lease expired before it was renewed.
    Expired(Box<Answer>),
    /// Another client holds it, or it exists already.
    Conflict(Box<Answer>),
    /// Any other error of the daemon, such as an invalid request.
    Failed(Box<Answer>),
    /// The daemon cannot be reached, or disconnected before it answered.
    Unreachable {
        /// The address or path of the daemon.
        target: String,
        /// The system's error.
        source: io::Error,
    },
    /// The answer is not one of Paceline's API.
    Protocol(String),
}

/// An error in the daemon's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP status; 0 if the system reported the error before the daemon could answer.
    pub status: u16,
    /// The kind, one word, such as `constraint`.
    pub error: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What to try next, if the daemon says so.
    pub hint: Option<String>,
    /// The complete answer, with all its members.
    pub body: Value,
}

/// Why work was refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// One word, such as `queue_full` or `rejected`.
    pub reason: String,
    /// The id of the request.
    pub request: Option<u64>,
    /// How long to wait before a retry has a chance.
    pub retry_after: Option<Duration>,
    /// The answer with its message.
    pub answer: Answer,
}

impl Refusal {
    /// Whether a queue was full or the wait too long, so that the same work may pass later.
    #[must_use]
    pub fn is_queue(&self) -> bool {
        matches!(self.reason.as_str(), "queue_full" | "too_long" | "expired" | "draining")
    }
}

impl Answer {
    /// Reads the body of an error. If the body is not from the API, only the status describes the error.
    pub(crate) fn new(status: u16, body: Value) -> Self {
        let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            status,
            error: text("error").unwrap_or_default(),
            message: text("message").unwrap_or_else(|| format!("the daemon answered {status}")),
            hint: text("hint"),
            body,
        }
    }

    fn into_refusal(self) -> Refusal {
        let seconds = self.body.get("retry_after").and_then(Value::as_f64);
        Refusal {
            reason: self.body.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned(),
            request: self.body.get("request").and_then(Value::as_u64),
            retry_after: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            answer: self,
        }
    }
}

impl Error {
    /// The error in an answer with an error status.
    pub(crate) fn from_answer(status: u16, body: Value) -> Self {
        let answer = Answer::new(status, body);
        if answer.error == "refused" {
            return Self::Refused(Box::new(answer.into_refusal()));
        }
        let answer = Box::new(answer);
        match status {
            401 | 403 => Self::NotPermitted(answer),
            404 => Self::NotFound(answer),
            409 => Self::Conflict(answer),
            410 => Self::Expired(answer),
            _ => Self::Failed(answer),
        }
    }

    /// What to try next, if the daemon says so.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.answer()?.hint.as_deref()
    }

    /// The daemon's answer, if there is one.
    #[must_use]
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Refused(refusal) => Some(&refusal.answer),
            Self::NotPermitted(answer)
            | Self::NotFound(answer)
            | Self::Expired(answer)
            | Self::Conflict(answer)
            | Self::Failed(answer) => Some(answer),
            Self::Unreachable { .. } | Self::Protocol(_) => None,
        }
    }

    /// Whether the daemon itself ends, and not a pool: the same may be granted when it is back.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        let Self::Refused(refusal) = self else { return false };
        refusal.reason == "draining" && refusal.answer.body.pointer("/place/pool").is_none()
    }

    /// Whether the daemon could not be reached.
    #[must_use]
    pub const fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { target, source } if source.kind() == io::ErrorKind::NotFound => {
                write!(f, "no daemon listens on {target}")
            }
            Self::Unreachable { target, source } => {
                write!(f, "the daemon at {target} cannot be reached: {source}")
            }
            Self::Protocol(what) => write!(f, "the daemon's answer cannot be read: {what}"),
            _ => f.write_str(self.answer().map_or("", |answer| &answer.message)),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Error;
    use serde_json::{Value, json};
    use std::time::Duration;

    fn error(status: u16, word: &str) -> Error {
        Error::from_answer(status, json!({"error": word, "message": "m", "hint": "h"}))
    }

    #[test]
    fn kinds_are_told_apart() {
        assert!(matches!(error(401, "unauthenticated"), Error::NotPermitted(_)));
        assert!(matches!(error(403, "permission"), Error::NotPermitted(_)));
        assert!(matches!(error(404, "not_found"), Error::NotFound(_)));
        assert!(matches!(error(409, "conflict"), Error::Conflict(_)));
        assert!(matches!(error(409, "refused"), Error::Refused(_)));
        assert!(matches!(error(410, "expired"), Error::Expired(_)));
        assert!(matches!(error(422, "constraint"), Error::Failed(_)));
        assert_eq!(error(422, "constraint").to_string(), "m");
        assert_eq!(error(422, "constraint").hint(), Some("h"));
    }

    #[test]
    fn a_refusal_carries_its_reason() {
        let body = json!({"error": "refused", "message": "m", "reason": "too_long", "request": 17,
            "retry_after": 1.5, "place": {"pool": "batch"}});
        let Error::Refused(refusal) = Error::from_answer(503, body) else { panic!() };
        assert!(refusal.is_queue());
        assert_eq!(refusal.request, Some(17));
        assert_eq!(refusal.retry_after, Some(Duration::from_millis(1500)));
        assert_eq!(refusal.answer.body["place"]["pool"], "batch");
    }

    #[test]
    fn odd_bodies_are_no_panic() {
        assert_eq!(Error::from_answer(502, Value::Null).to_string(), "the daemon answered 502");
        for seconds in [json!(-1), json!(1e300), json!("x")] {
            let body = json!({"error": "refused", "retry_after": seconds});
            let Error::Refused(refusal) = Error::from_answer(503, body) else { panic!() };
            assert_eq!(refusal.retry_after, None);
        }
    }
}
