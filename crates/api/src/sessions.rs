//! Sessions over HTTP.

use crate::connection::{Connection, Origin};
use crate::identity::Identity;
use crate::respond::{Answer, Problem, created, done, ok, released};
use crate::{App, Shared, body};
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::HeaderMap;
use paceline_host::Process;
use paceline_host::registry::{Beginning, HeldSession, SessionView};
use paceline_types::Role;
use serde_json::{Value, json};
use std::sync::Arc;

/// The longest name of a session.
const NAME_CHARS_MAX: usize = 128;

/// `POST /v1/sessions`
pub(crate) async fn begin(
    State(app): State<Shared>,
    Extension(connection): Extension<Arc<Connection>>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let mut members = body::members(&app, &identity, &headers, body).await?;
    let name = members.text("name")?;
    let lease = members.span("lease")?;
    let bound = members.flag("bound")?.unwrap_or(false);
    let sealed = members.flag("sealed")?.unwrap_or(false);
    members.finish()?;
    if sealed && !bound {
        return Err(Problem::bad_request(
            "sealed: only with bound, for the connection it is bound to",
        ));
    }
    app.check_open()?;
    let name = match name {
        // The user follows the name that the client chose, so that one client cannot impersonate another.
        Some(name) => {
            format!("{}:{}@{}", checked_name("name", name)?, identity.name, identity.host)
        }
        None => identity.title(),
    };
    if bound {
        if lease.is_some() {
            let message = "lease: a bound session has none, it lasts as long as its connection";
            return Err(Problem::bad_request(message));
        }
        let begun = begin_bound(&app, &connection, identity, name).await;
        if sealed && begun.is_ok() {
            connection.seal();
        }
        return begun;
    }
    let Identity { name: user, is_owner, .. } = identity;
    let beginning = Beginning { name, user, is_owner, lease: Some(lease), process: None };
    let (session, view) = app.registry.begin_session(beginning).await?;
    created(&describe(&app, &session.key, view))
}

async fn begin_bound(
    app: &App,
    connection: &Arc<Connection>,
    identity: Identity,
    name: String,
) -> Answer {
    if !matches!(connection.origin, Origin::Unix { .. }) {
        let message =
            "bound: only on the unix socket, where the end of a process ends its connection";
        return Err(Problem::bad_request(message).hint("ask for a session with a lease"));
    }
    let bound_max = app.limits.bound_max;
    let check = |bound: &mut Vec<String>| {
        if bound.len() >= bound_max {
            bound.retain(|key| app.registry.has_session(key));
        }
        match bound.len() >= bound_max {
            true => Err(Problem::exhausted("sessions bound to one connection", bound_max)),
            false => Ok(()),
        }
    };
    connection.change_bound(check)?;
    let process = connection.pid.and_then(Process::of);
    let (user, is_owner) = (identity.name, identity.is_owner);
    let beginning = Beginning { name, user, is_owner, lease: None, process };
    let (session, view) = app.registry.begin_session(beginning).await?;
    connection.change_bound(|bound| bound.push(session.key.clone()));
    if let Some(granted) = identity.granted {
        let (registry, session) = (Arc::clone(&app.registry), Arc::clone(&session));
        // Otherwise an idle connection would not be checked, and could hold things forever. A session that
        // outlives its connection ends with the role, too.
        tokio::spawn(async move {
            tokio::select! {
                () = granted.revoked() => registry.end_session(&session.key),
                () = session.ended() => {}
            }
        });
    }
    created(&describe(app, &session.key, view))
}

/// Ends a bound session of the last run when the role of its user is revoked, or if it was revoked meanwhile.
/// It has no connection that would end with the role.
pub(crate) fn watch_role(app: &App, session: Arc<HeldSession>, user: &str) {
    let (role, granted) = app.host.access().of_name(user);
    if role.is_none_or(|role| role < Role::Client) {
        tracing::info!(session = session.name(), user, "ended a session: its user has no role");
        return app.registry.end_session(&session.key);
    }
    let Some(granted) = granted else { return };
    let registry = Arc::clone(&app.registry);
    tokio::spawn(async move {
        tokio::select! {
            () = granted.revoked() => registry.end_session(&session.key),
            () = session.ended() => {}
        }
    });
}

/// `POST /v1/sessions/{session}/processes`
pub(crate) async fn add_process(
    State(app): State<Shared>,
    Extension(connection): Extension<Arc<Connection>>,
    Extension(identity): Extension<Identity>,
    Path(key): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let mut members = body::members(&app, &identity, &headers, body).await?;
    let pid = members.number("pid")?;
    members.finish()?;
    let pid = pid.ok_or_else(|| Problem::bad_request("pid: expected the number of a process"))?;
    let Origin::Unix { uid, .. } = connection.origin else {
        return Err(Problem::bad_request("pid: only on the unix socket, on the same machine"));
    };
    // Only root may bind a session to the processes of other users.
    let process = Process::of(pid).filter(|process| uid == 0 || process.user() == Some(uid));
    let process = process.ok_or_else(|| {
        Problem::not_found(format!("pid: there is no process {pid} of the same user"))
    })?;
    app.registry.add_process(&key, process).await?;
    done()
}

/// A name that can be shown.
pub(crate) fn checked_name(member: &str, name: String) -> Result<String, Problem> {
    let fits = !name.is_empty()
        && name.chars().count() <= NAME_CHARS_MAX
        && !name.chars().any(char::is_control);
    match fits {
        true => Ok(name),
        false if name.is_empty() => {
            Err(Problem::bad_request(format!("{member}: expected a text, but it is empty")))
        }
        false => Err(Problem::bad_request(format!(
            "{member}: expected 1 to {NAME_CHARS_MAX} characters that can be shown"
        ))),
    }
}

fn describe(app: &App, key: &str, view: SessionView) -> Value {
    match view.lease {
        Some((span, ends)) => json!({
            "session": key,
            "lease": span.to_string(),
            "expires_at": app.wall.now().text(ends),
        }),
        None => json!({ "session": key, "bound": true }),
    }
}

/// `POST /v1/sessions/{session}/renew`
pub(crate) async fn renew(State(app): State<Shared>, Path(key): Path<String>) -> Answer {
    let ends = app.registry.renew_session(&key)?;
    let now = app.wall.now();
    ok(&json!({ "expires_at": ends.map(|ends| now.text(ends)) }))
}

/// `DELETE /v1/sessions/{session}`
pub(crate) async fn end(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(key): Path<String>,
) -> Answer {
    // An expired session does not exist any more, whether or not it has been removed.
    let session = app.registry.session(&key).ok();
    let is_live = session.is_some();
    match app.registry.give_up_session(&key).await.filter(|written| is_live || !written) {
        Some(is_written) => {
            // The key of the session is a secret of its user; its name is not.
            if let Some(session) = session.filter(|session| *session.user != *identity.name) {
                let object = format!("the session {} of {}", session.name(), session.user);
                app.host.record(&identity.title(), "end", &object);
            }
            released(is_written)
        }
        None => Err(Problem::not_found("there is no such session")),
    }
}

#[cfg(test)]
mod tests {
    use super::begin_bound;
    use crate::connection::{Connection, Origin};
    use crate::identity::{Identity, Role};
    use crate::token::hash;

    /// D1: the task that watches a bound session ends with the session, not with the connection.
    #[test]
    fn a_session_that_ended_leaves_no_task_behind_d1() {
        let (runtime, app) = crate::app_for_tests();
        let origin = Origin::Unix { uid: 0, user: "root".into() };
        let connection = Connection::new(origin, None);
        let granted = app.host.access().of_token(&hash("secret"));
        assert!(granted.is_some(), "a role that can be taken away is what a task waits for");
        let tasks = || runtime.metrics().num_alive_tasks();
        let before = tasks();
        for _ in 0..200 {
            let (name, host) = ("ann".to_owned(), "unix".into());
            let (role, granted) = (Role::Client, granted.clone());
            let identity = Identity { name, role, host, granted, is_owner: false };
            let begun = begin_bound(&app, &connection, identity, "test".to_owned());
            assert!(runtime.block_on(begun).is_ok());
            let key = connection.change_bound(|bound| bound.pop()).unwrap();
            app.registry.end_session(&key);
            runtime.block_on(async {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
            });
        }
        assert_eq!(tasks(), before);
    }
}
