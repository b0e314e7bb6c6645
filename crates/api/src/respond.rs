//! The one place where refusals and errors become statuses and bodies.
//!
//! Every answer that is not a success is a [`Problem`]: a status, a word that programs match on, one sentence for
//! people, and details. Only this module picks a status for an error.

use crate::moment::Now;
use crate::permits::no_request;
use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use paceline_host::LockError;
use paceline_host::registry::HoldError;
use paceline_tables::{Error, tag};
use paceline_types::Span;
use paceline_types::{Place, Reason, Refusal, RequestId};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Room for most answers: that of a permit has about 250 bytes.
const ANSWER_BYTES: usize = 320;

/// The media type of most answers.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer that is not a success.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    members: Map<String, Value>,
    header: Option<(HeaderName, HeaderValue)>,
}

/// What a handler answers.
pub(crate) type Answer = Result<Response, Problem>;

impl Problem {
    fn new(status: StatusCode, word: &str, message: impl Into<String>) -> Self {
        let mut members = Map::new();
        members.insert("error".into(), word.into());
        members.insert("message".into(), Value::String(message.into()));
        Self { status, members, header: None }
    }

    /// The request is invalid: the message names the mistake, and where it is.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// The caller is not authenticated.
    pub(crate) fn unauthenticated(message: &str) -> Self {
        let hint = "send the token in the header Authorization: Bearer TOKEN; the first one is in the \
                    file token of the data directory";
        let mut problem =
            Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", message).hint(hint);
        problem.header = Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        problem
    }

    /// The caller may not do that.
    pub(crate) fn permission() -> Self {
        let message = "caller does not have the necessary permission";
        Self::new(StatusCode::FORBIDDEN, "permission", message)
    }

    /// There is no such object.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// The path exists, but does not accept the method.
    pub(crate) fn method(message: impl Into<String>) -> Self {
        // The router adds which methods it accepts.
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", message)
    }

    /// It conflicts with the present state.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// A lease expired, or a session ended.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "expired", message)
    }

    /// The body is too long.
    pub(crate) fn too_large(bytes_max: usize) -> Self {
        let message = format!("the body is longer than {bytes_max} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    /// The target of the request is too long.
    pub(crate) fn target_too_long(bytes_max: usize) -> Self {
        let message = format!("the target of the request is longer than {bytes_max} bytes");
        Self::new(StatusCode::URI_TOO_LONG, "target_too_long", message)
    }

    /// The body has another media type.
    pub(crate) fn media_type(expected: &str, found: &str) -> Self {
        let message = format!("the body must be {expected}, but content-type says {found:?}");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", message)
    }

    /// The request cannot work.
    pub(crate) fn constraint(message: impl Into<String>, place: Value) -> Self {
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "constraint", message);
        problem.with("place", place)
    }

    /// A configuration text has errors, each with `line`, `column` and `message`.
    pub(crate) fn configuration(errors: Vec<Value>) -> Self {
        let first = errors.first().map_or(String::new(), |first| {
            let text = first["message"].as_str().unwrap_or_default();
            let file = first["file"].as_str().map(|file| format!("{file}: ")).unwrap_or_default();
            format!("{file}line {}, column {}: {text}", first["line"], first["column"])
        });
        let message = match errors.len() {
            0 | 1 => first,
            count => format!("{first} (and {} more errors)", count - 1),
        };
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "constraint", message);
        problem.with("errors", Value::Array(errors))
    }

    /// The disk is full, or a bound of the daemon is reached.
    pub(crate) fn resources(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "resources", message)
    }

    /// A grant could not be written, and was released.
    pub(crate) fn not_kept(error: &Error) -> Self {
        match error.tag {
            tag::RESOURCES => Self::resources(error.details.clone()),
            // The journal logs it, once a second and not for each client.
            tag::IO => Self::failed(),
            _ => Self::internal(&error.to_string()),
        }
    }

    /// The daemon shuts down: nothing new is accepted, and waiters continue.
    pub(crate) fn ending() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "refused", "the daemon is ending")
            .with("reason", "draining".into())
            .hint("ask again when it is back")
    }

    /// The daemon accepts no changes and no locks.
    pub(crate) fn read_only() -> Self {
        let message = "the daemon is read-only: it accepts no changes and no locks";
        Self::new(StatusCode::CONFLICT, "refused", message)
            .with("reason", "read_only".into())
            .hint("start it without --read-only if it should accept them")
    }

    /// A bug, or a disk that fails: the log has the details.
    pub(crate) fn internal(details: &str) -> Self {
        tracing::error!(details, "the API answered with an internal error");
        Self::failed()
    }

    fn failed() -> Self {
        let message = "the daemon failed internally; its log has the details";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    /// The maximum number of something is reached.
    pub(crate) fn exhausted(what: &str, max: usize) -> Self {
        let message = format!("resources exhausted: no more than {max} {what} at a time");
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "refused", message);
        problem.with("reason", "exhausted".into())
    }

    /// The engine refused a request.
    pub(crate) fn refused(id: RequestId, refusal: &Refusal, now: Now) -> Self {
        let (word, lasting) = reason(&refusal.reason);
        let asked = refusal.status.and_then(|status| StatusCode::from_u16(status).ok());
        let status = match lasting {
            true => StatusCode::CONFLICT,
            false => asked.unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
        };
        let mut problem = Self::new(status, "refused", refusal.to_string());
        problem = problem.with("reason", word.into()).with("request", id.0.into());
        problem.describe(&refusal.reason);
        problem = match next_try(&refusal.reason) {
            Some(hint) => problem.hint(hint),
            None => problem,
        };
        if let Some(at) = refusal.retry_at {
            let seconds = at.since(now.time).0.div_ceil(1_000_000_000);
            problem.header = Some((RETRY_AFTER, seconds.into()));
            problem = problem.with("retry_after", seconds.into());
        }
        problem
    }

    /// Adds the details of a reason.
    fn describe(&mut self, reason: &Reason) {
        let (name, value) = match reason {
            Reason::Rejected { rule } => ("rule", (*rule).into()),
            Reason::QueueFull { place: at, .. }
            | Reason::TooLong { place: at, .. }
            | Reason::Expired { place: at, .. }
            | Reason::CostTooHigh { place: at, .. } => ("place", place(at)),
            Reason::Draining { pool } => ("place", json!({ "pool": pool })),
            Reason::UnknownResource { resource, .. }
            | Reason::TooWide { resource, .. }
            | Reason::BlocksItself { resource, .. }
            | Reason::Deadlock { resource, .. } => ("place", json!({ "resource": resource })),
            Reason::NotOwner { lock } => ("place", json!({ "lock": lock })),
            Reason::NoBackend { frontend } => ("place", json!({ "frontend": frontend })),
            Reason::NoServer { backend } | Reason::BackendDeleted { backend } => {
                ("place", json!({ "backend": backend }))
            }
            Reason::Cancelled { by, .. } => ("by", (**by).into()),
            Reason::Exhausted { .. } | Reason::Ending => return,
        };
        self.members.insert(name.into(), value);
        let (name, span) = match reason {
            Reason::TooLong { max, .. } => ("max", max),
            Reason::Expired { waited, .. } => ("waited", waited),
            _ => return,
        };
        self.members.insert(name.into(), span.to_string().into());
    }

    /// The same, with another sentence for people.
    pub(crate) fn message(self, message: String) -> Self {
        self.with("message", Value::String(message))
    }

    /// Adds what to try next.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        self.with("hint", Value::String(hint.into()))
    }

    /// Adds a member.
    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.members.insert(name.into(), value);
        self
    }
}

/// The word of a reason, and whether a retry without changes has no chance.
pub(crate) fn reason(reason: &Reason) -> (&'static str, bool) {
    match reason {
        Reason::Rejected { .. } => ("rejected", true),
        Reason::QueueFull { .. } => ("queue_full", false),
        Reason::TooLong { .. } => ("too_long", false),
        Reason::Expired { .. } => ("expired", false),
        Reason::CostTooHigh { .. } => ("cost_too_high", true),
        Reason::Draining { .. } | Reason::Ending => ("draining", false),
        Reason::NoBackend { .. } => ("no_backend", true),
        Reason::NoServer { .. } => ("no_server", false),
        Reason::BackendDeleted { .. } => ("no_backend", false),
        Reason::UnknownResource { .. } => ("unknown_resource", true),
        Reason::TooWide { .. } => ("too_wide", true),
        Reason::BlocksItself { .. } => ("blocks_itself", true),
        Reason::Deadlock { .. } => ("deadlock", false),
        Reason::NotOwner { .. } => ("not_owner", true),
        Reason::Cancelled { .. } => ("cancelled", true),
        Reason::Exhausted { .. } => ("exhausted", false),
    }
}

/// What a client whose request was refused can do, if that is not obvious.
fn next_try(reason: &Reason) -> Option<&'static str> {
    Some(match reason {
        // However long a request may wait, the queue has no room for it.
        Reason::QueueFull { .. } => "ask again when fewer requests wait",
        Reason::TooLong { .. } | Reason::Expired { .. } => {
            "ask again later, or with a longer max_wait if the queue allows it"
        }
        Reason::Deadlock { .. } => "release what the session holds, and ask again",
        _ => return None,
    })
}

/// A queue's place.
pub(crate) fn place(place: &Place) -> Value {
    match place {
        Place::Checkpoint { name, key: Some(key) } => json!({ "checkpoint": name, "key": key }),
        Place::Checkpoint { name, key: None } => json!({ "checkpoint": name }),
        Place::Pool(name) => json!({ "pool": name }),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = json_response(self.status, &Value::Object(self.members));
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// A JSON answer.
pub(crate) fn json_response(status: StatusCode, value: &impl Serialize) -> Response {
    // Writing fails only for maps whose keys are not texts, which do not occur here.
    let mut text = Vec::with_capacity(ANSWER_BYTES);
    let _ = serde_json::to_writer(&mut text, value);
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// 200 with a value.
pub(crate) fn ok(value: &impl Serialize) -> Answer {
    Ok(json_response(StatusCode::OK, value))
}

/// 201 with a value.
pub(crate) fn created(value: &impl Serialize) -> Answer {
    Ok(json_response(StatusCode::CREATED, value))
}

/// 204.
pub(crate) fn done() -> Answer {
    Ok(StatusCode::NO_CONTENT.into_response())
}

impl From<HoldError> for Problem {
    fn from(error: HoldError) -> Self {
        match error {
            HoldError::OtherBody => {
                Self::conflict("a permit of this id was asked for with another body")
                    .hint("choose another id, or send the same body")
            }
            HoldError::NoPermit => {
                Self::not_found("there is no such permit").hint("GET /v1/permits lists them")
            }
            HoldError::PermitExpired => {
                Self::expired("the lease of the permit expired, and what it held was released")
                    .hint("ask for a new permit, and renew it in time or ask for a longer lease")
            }
            HoldError::PermitOver => Self::expired("the permit was granted and has ended"),
            HoldError::NoSession => {
                Self::not_found("there is no such session").hint("POST /v1/sessions begins one")
            }
            HoldError::SessionExpired => {
                Self::expired("the lease of the session expired, and what it held was released")
                    .hint("begin a new one with POST /v1/sessions, and renew it in time")
            }
            HoldError::SessionEnded => Self::expired("the session ended while the request waited"),
            HoldError::GivenUp => {
                Self::conflict("the session left the line while the request waited")
            }
            // No client reads this.
            HoldError::Left => Self::conflict("the client disconnected while the request waited"),
            HoldError::NotBound => {
                Self::bad_request("pid: a session with a lease does not depend on processes")
            }
            HoldError::TooMany(what, max) => Self::exhausted(what, max)
                .hint("release what is no longer needed, or retry when others have"),
            HoldError::Lease { min, max, found } => {
                Self::bad_request(format!("lease: expected {min} to {max}, found {found}"))
            }
            HoldError::NotWritten(error) => Self::not_kept(&error),
            HoldError::NoSecret(error) => Self::internal(&error),
            HoldError::Request(error) => no_request(error),
            HoldError::TakenAway => {
                Self::unauthenticated("the token or the role was revoked meanwhile")
            }
            HoldError::Ending => Self::ending(),
            HoldError::ReadOnly => Self::read_only(),
            HoldError::Lock(error) => of_lock(error),
            HoldError::Taken { owner, waited } => taken(owner.as_deref(), waited),
        }
    }
}

fn of_lock(error: LockError) -> Problem {
    match error {
        LockError::MustUnlock => Problem::conflict(error.to_string())
            .hint("the session owns this lock or stands in line for it already"),
        LockError::NotLocked => Problem::conflict(error.to_string()),
        LockError::TooMany | LockError::TooManyTogether(_) | LockError::Exhausted => {
            Problem::resources(error.to_string())
        }
        LockError::Ended => HoldError::SessionEnded.into(),
    }
}

fn taken(owner: Option<&str>, waited: Span) -> Problem {
    let problem = Problem::conflict(match (owner, waited) {
        (Some(owner), Span::ZERO) => format!("the lock is owned by {owner}"),
        (Some(owner), waited) => format!("waited {waited}; the lock is still owned by {owner}"),
        (None, Span::ZERO) => "the lock was not granted".to_owned(),
        (None, waited) => format!("waited {waited}; the lock was not granted"),
    });
    problem.with("owner", owner.into()).hint("give wait to stand in line for it")
}

/// 204 for a release, or 200 that says so if it is not on disk yet. It is retried until it is, but a daemon
/// that is killed before then finds it held.
pub(crate) fn released(is_written: bool) -> Answer {
    match is_written {
        true => done(),
        false => ok(&serde_json::json!({ "released": true, "written": false })),
    }
}

/// The answer to a path that does not exist. `lists` are the paths that are followed by the name of an object.
pub(crate) fn no_such_path(uri: &axum::http::Uri, lists: &[&str]) -> Problem {
    let path = uri.path();
    let mut behind =
        lists.iter().filter_map(|list| Some((*list, path.strip_prefix(*list)?.strip_prefix('/')?)));
    match behind.next() {
        Some((list, "")) => Problem::not_found("the name at the end of the path is empty")
            .hint(format!("add a name: {list}/NAME")),
        Some((list, name)) if name.contains('/') => {
            let escaped = shown(&name.replace('/', "%2F"));
            Problem::not_found(format!("there is no {}", shown(path)))
                .hint(format!("a slash within a name is written %2F: {list}/{escaped}"))
        }
        _ => Problem::not_found(format!("there is no {}", shown(path)))
            .hint("GET /v1/openapi.json lists every path"),
    }
}

/// The answer to a method that a path does not accept.
pub(crate) async fn no_such_method(method: axum::http::Method, uri: axum::http::Uri) -> Problem {
    Problem::method(format!("{} does not take {method}", shown(uri.path())))
        .hint(format!("the header {ALLOW} lists what it takes"))
}

/// As much of a text as an error shows.
pub(crate) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
