//! Locks over HTTP: the same names and the same lines as at the OVSDB door.
//!
//! A session that asks stands in line while its request waits, and leaves the line when that ends
//! without the lock, whichever way it ends.

use crate::identity::{Identity, Role};
use crate::registry::ApiSession;
use crate::respond::{Answer, Problem, done, ok};
use crate::{App, Shared, body, query};
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Uri};
use paceline_host::{LockError, LockOperation, LockShown, valid_lock_name};
use paceline_types::Span;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// `PUT /v1/locks/{name}`
pub(crate) async fn lock(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    check_name(&name)?;
    let mut members = body::members(&headers, body, &app.limits).await?;
    let key = members.required_text("session")?;
    let steal = members.flag("steal")?.unwrap_or(false);
    let wait = members.span("wait")?.unwrap_or(Span::ZERO);
    members.finish()?;
    app.check_open()?;
    let session = app.registry.session(&key)?;
    if steal {
        identity.require(&app.host, Role::Operator, || format!("steal {name}"))?;
        session.mailbox.operate(LockOperation::Steal, &name).map_err(failed)?;
        return granted(&app, &session, &name).await;
    }
    let (owns, turn) = session.mailbox.operate(LockOperation::Lock, &name).map_err(failed)?;
    if owns {
        return granted(&app, &session, &name).await;
    }
    let in_line = InLine { session: &session, name: &name, leaves: true };
    let came = tokio::time::timeout(Duration::from_nanos(wait.0), turn);
    let came = tokio::select! {
        came = identity.while_granted(came) => came?,
        () = app.closing() => return Err(Problem::ending()),
    };
    match came {
        Ok(Ok(())) => {
            in_line.stay();
            granted(&app, &session, &name).await
        }
        Ok(Err(_)) => Err(Problem::expired("the session ended while it waited for the lock")),
        Err(_) => Err(taken(&app, &name, wait)),
    }
}

/// That a session stands in line. Dropping it leaves the line.
struct InLine<'a> {
    session: &'a ApiSession,
    name: &'a str,
    leaves: bool,
}

impl InLine<'_> {
    fn stay(mut self) {
        self.leaves = false;
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        if self.leaves {
            // It fails only if the session is over, and then there is no line to leave.
            let _ = self.session.mailbox.operate(LockOperation::Unlock, self.name);
        }
    }
}

async fn granted(app: &App, session: &Arc<ApiSession>, name: &str) -> Answer {
    let Some(fencing) = app.host.locking().fencing(session.session.id, name) else {
        // Somebody stole it in between. It was not told that it had it, so it does not stand in line
        // for it either.
        drop(InLine { session, name, leaves: true });
        return Err(taken(app, name, Span::ZERO));
    };
    let mut untold = Untold { app, session, name, fencing, is_told: false };
    session.keep_lock(&app.host, name, fencing).await?;
    untold.is_told = true;
    ok(&json!({ "lock": name, "fencing": fencing }))
}

/// A lock that its session does not know of. Dropping it gives it back.
struct Untold<'a> {
    app: &'a App,
    session: &'a ApiSession,
    name: &'a str,
    fencing: u64,
    is_told: bool,
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            // It fails only if the session is over, and then so is the lock.
            let _ = self.session.mailbox.operate(LockOperation::Unlock, self.name);
            drop(self.session.forget_lock(&self.app.host, self.name, self.fencing));
        }
    }
}

fn taken(app: &App, name: &str, wait: Span) -> Problem {
    let owner = app.host.locking().shown(name).and_then(|lock| lock.owner);
    let owner = owner.map(|(_, owner, _)| owner);
    let waited = if wait == Span::ZERO { String::new() } else { format!(" after {wait}") };
    let problem = Problem::conflict(match &owner {
        Some(owner) => format!("the lock is owned by {owner}{waited}"),
        None => format!("the lock could not be had{waited}"),
    });
    problem.with("owner", json!(owner)).hint("give wait to stand in line for it")
}

/// `DELETE /v1/locks/{name}`
pub(crate) async fn unlock(
    State(app): State<Shared>,
    Path(name): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let mut members = body::members(&headers, body, &app.limits).await?;
    let key = match query::value(&uri, "session") {
        Some(key) => key.to_owned(),
        None => members.required_text("session")?,
    };
    members.finish()?;
    let session = app.registry.session(&key)?;
    let fencing = app.host.locking().fencing(session.session.id, &name);
    session.mailbox.operate(LockOperation::Unlock, &name).map_err(failed)?;
    if let Some(fencing) = fencing {
        session.forget_lock(&app.host, &name, fencing).await;
    }
    done()
}

/// `GET /v1/locks`
pub(crate) async fn list(State(app): State<Shared>) -> Answer {
    ok(&app.host.locking().all_shown().iter().map(describe).collect::<Value>())
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
    })
}

fn check_name(name: &str) -> Result<(), Problem> {
    match valid_lock_name(name) {
        true => Ok(()),
        false => Err(Problem::bad_request(
            "the name of a lock has letters, digits and underscores and does not begin with a digit; \
             DATABASE:NAME is one too",
        )),
    }
}

fn failed(error: LockError) -> Problem {
    match error {
        LockError::MustUnlock => Problem::conflict(error.to_string())
            .hint("the session owns this lock or stands in line for it already"),
        LockError::NotLocked => Problem::conflict(error.to_string()),
        LockError::TooMany | LockError::Exhausted => Problem::resources(error.to_string()),
    }
}
