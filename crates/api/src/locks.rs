//! Locks over HTTP: the same names and the same lines as at the OVSDB door.

use crate::identity::{Identity, Role};
use crate::respond::{Answer, Problem, ok, released};
use crate::{Shared, body, large, place, query};
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Uri};
use paceline_host::LockShown;
use paceline_host::registry::Asking;
use paceline_types::{LOCK_NAME_RULE, Span, valid_lock_name};
use serde_json::{Value, json};

/// Most locks that a list shows.
const LISTED_MAX: u64 = 10_000;

/// `PUT /v1/locks/{name}`
pub(crate) async fn lock(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    check_name(&name)?;
    let mut members = body::members(&app, &identity, &headers, body).await?;
    let key = members.required_text("session")?;
    let steal = members.flag("steal")?.unwrap_or(false);
    let wait = members.span("wait")?.unwrap_or(Span::ZERO);
    let place = place::read(&mut members)?;
    members.finish()?;
    app.check_open()?;
    let session = app.registry.session(&key)?;
    if steal {
        identity.require(&app.host, Role::Operator, || format!("steal {name}"))?;
    }
    let place = place.map(|place| place::of_lock(&identity.name, &place, &name));
    let asking = if steal { Asking::Steal } else { Asking::Wait(wait, place) };
    let granted = identity.granted.as_deref();
    let locked = app.registry.lock(&session, &name, asking, granted, app.closing()).await?;
    ok(&match locked {
        (fencing, true) => json!({ "lock": name, "fencing": fencing }),
        // The owner has lost it, but would own it again if the daemon was killed now.
        (fencing, false) => json!({ "lock": name, "fencing": fencing, "written": false }),
    })
}

/// `DELETE /v1/locks/{name}`
pub(crate) async fn unlock(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(name): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let mut members = body::members(&app, &identity, &headers, body).await?;
    let key = match query::value(&uri, "session") {
        Some(key) => key.to_owned(),
        None => members.required_text("session")?,
    };
    members.finish()?;
    let session = app.registry.session(&key)?;
    let is_written = app.registry.unlock(&session, &name).await?;
    if *session.user != *identity.name {
        let object =
            format!("the lock {name} of the session {} of {}", session.name(), session.user);
        app.host.record(&identity.title(), "unlock", &object);
    }
    released(is_written)
}

/// `GET /v1/locks`
pub(crate) async fn list(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    uri: Uri,
) -> Answer {
    let first = query::text(&uri, "first")?.unwrap_or_default();
    let count = query::number(&uri, "count", LISTED_MAX, LISTED_MAX)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    large::list(&app, &identity, |text| {
        let locks = app.host.locking().shown_from(&first, count);
        text.json(&locks.iter().map(describe).collect::<Value>())
    })
    .await
}

/// `GET /v1/locks/{name}`
pub(crate) async fn one(State(app): State<Shared>, Path(name): Path<String>) -> Answer {
    match app.host.locking().shown(&name) {
        Some(lock) => ok(&describe(&lock)),
        None => Err(Problem::not_found("nobody owns this lock or waits for it")),
    }
}

fn describe(lock: &LockShown) -> Value {
    json!({
        "name": &*lock.name,
        "owner": lock.owner.as_ref().map(|(_, name, _)| name),
        "fencing": lock.owner.as_ref().map(|(_, _, fencing)| fencing),
        "waiters": lock.waiters,
        "waiting": lock.waiting,
    })
}

fn check_name(name: &str) -> Result<(), Problem> {
    match valid_lock_name(name) {
        true => Ok(()),
        false => Err(Problem::bad_request(format!("the name of a lock has {LOCK_NAME_RULE}"))),
    }
}
