//! Permits over HTTP: requested, waited for, renewed, released.
//!
//! The answer to a client that waits is a future. When its connection ends, the future is dropped, and with it the
//! place in the queue.

use crate::connection::Connection;
use crate::identity::Identity;
use crate::members::Members;
use crate::moment::rfc3339;
use crate::request::Asked;
use crate::respond::{Answer, Problem, created, ok, released};
use crate::turns::wait;
use crate::{App, Shared, body, large};
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::HeaderMap;
use paceline_host::RequestError;
use paceline_host::registry::{AskError, Chosen, PermitView};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::task::Poll;

/// The longest id that a client may choose.
const ID_BYTES_MAX: usize = 128;

/// Attributes of more bytes are matched with the rules aside.
const MATCHED_BYTES_MAX: usize = 16 << 10;

/// Most permits that a list shows.
const LISTED_MAX: usize = 10_000;

/// `POST /v1/permits`
pub(crate) async fn ask(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Extension(connection): Extension<Arc<Connection>>,
    members: Members,
) -> Answer {
    let Asked { request, mut terms, once } = Asked::permit(members, &identity, &app)?;
    terms.asker = Some(connection);
    app.check_open()?;
    let granted = identity.granted.as_deref();
    let bytes = request.attributes.bytes();
    let asked = match once {
        true => {
            matched(&app, &identity, bytes, app.registry.ask_once(request, &terms, granted)).await
        }
        false => matched(&app, &identity, bytes, app.registry.ask(request, &terms, granted)).await,
    };
    let view = asked.map_err(|error| no_permit(&app, error))?;
    let described = describe(&app, &identity, &view);
    if once { ok(&described) } else { created(&described) }
}

/// `PUT /v1/permits/{permit}`
pub(crate) async fn ask_by_name(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Extension(connection): Extension<Arc<Connection>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    check_id(&name)?;
    let members = body::members(&app, &identity, &headers, body).await?;
    let held = check_own(&app, &identity, &name, "ask again for")?;
    let owner = held.as_ref().map_or(&identity.name, |view| &view.user);
    // The text is as long as the body, so it is dropped early: the request may wait for hours.
    let digest: [u8; 32] = {
        let body = format!("{owner}\0{}", members.canonical());
        Sha256::digest(body.as_bytes()).into()
    };
    let asked = Asked::permit(members, &identity, &app)?;
    if asked.once {
        let message = "once: a permit that is settled at once has no id";
        return Err(Problem::bad_request(message).hint("send it with POST /v1/permits"));
    }
    let Asked { request, mut terms, .. } = asked;
    terms.asker = Some(connection);
    let (chosen, granted) = (Chosen { name, digest }, identity.granted.as_deref());
    let bytes = request.attributes.bytes();
    let asking = app.registry.ask_by_name(request, &terms, &chosen, granted);
    let given = matched(&app, &identity, bytes, asking).await;
    let (view, is_new) = given.map_err(|error| no_permit(&app, error))?;
    let described = describe(&app, &identity, &view);
    if is_new { created(&described) } else { ok(&described) }
}

/// Asks for a permit. Matching many bytes with the rules takes long, so it is done aside, and in turns by user.
async fn matched<T>(
    app: &App,
    identity: &Identity,
    bytes: usize,
    asking: impl Future<Output = T>,
) -> T {
    if bytes <= MATCHED_BYTES_MAX {
        return asking.await;
    }
    let turn = wait(&app.answers.matching, identity).await;
    let mut asking = Box::pin(asking);
    // The request is matched and submitted at once. It may wait for long after that.
    let first = std::future::poll_fn(|cx| {
        Poll::Ready(tokio::task::block_in_place(|| asking.as_mut().poll(cx)))
    });
    let first = first.await;
    drop(turn);
    match first {
        Poll::Ready(asked) => asked,
        Poll::Pending => asking.await,
    }
}

/// `POST /v1/permits/{permit}/renew`
pub(crate) async fn renew(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(name): Path<String>,
) -> Answer {
    check_own(&app, &identity, &name, "renew")?;
    let ends = app.registry.renew_permit(&name)?;
    let now = app.wall.now();
    ok(&json!({ "expires_at": ends.map(|ends| now.text(ends)) }))
}

/// `GET /v1/permits`
pub(crate) async fn list(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
) -> Answer {
    large::list(&app, &identity, |text| {
        let permits = app.registry.permits(LISTED_MAX);
        text.json(&permits.iter().map(|view| describe(&app, &identity, view)).collect::<Vec<_>>())
    })
    .await
}

/// `GET /v1/permits/{permit}`
pub(crate) async fn one(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(name): Path<String>,
) -> Answer {
    ok(&describe(&app, &identity, &app.registry.permit(&name)?))
}

/// `DELETE /v1/permits/{permit}`
pub(crate) async fn settle(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(name): Path<String>,
) -> Answer {
    let held = check_own(&app, &identity, &name, "give back")?;
    match app.registry.settle(&name).await {
        Some(is_written) => {
            // The permit's name is a secret of its user.
            if let Some(view) = held.filter(|view| view.user != identity.name) {
                let object = format!("the permit of request {} of {}", view.request.0, view.user);
                app.host.record(&identity.title(), "give back", &object);
            }
            released(is_written)
        }
        None => Err(Problem::not_found("there is no such permit")
            .hint("it may be released already, or its lease expired")),
    }
}

/// Checks that a permit, if it exists, is the caller's, or that the caller is an operator. Returns the permit.
fn check_own(
    app: &App,
    identity: &Identity,
    name: &str,
    verb: &str,
) -> Result<Option<PermitView>, Problem> {
    let Ok(view) = app.registry.permit(name) else { return Ok(None) };
    let what = || format!("{verb} the permit of request {}", view.request.0);
    identity.require_own(&app.host, &view.user, what)?;
    Ok(Some(view))
}

fn no_permit(app: &App, error: AskError) -> Problem {
    match error {
        AskError::Refused(id, refusal) => Problem::refused(id, &refusal, app.wall.now()),
        AskError::Hold(error) => error.into(),
    }
}

pub(crate) fn no_request(error: RequestError) -> Problem {
    match error {
        RequestError::NoSession => {
            Problem::bad_request("require_locks: only a permit of a session can require locks")
                .hint("begin one with POST /v1/sessions and name it in session")
        }
        RequestError::Cost { .. } => Problem::bad_request(format!("cost: {error}")),
        RequestError::Locks { .. } | RequestError::Lock { .. } => {
            Problem::bad_request(format!("require_locks: {error}"))
        }
        RequestError::Claims { .. } => Problem::bad_request(format!("claims: {error}")),
        RequestError::Resource { .. } | RequestError::Connection => {
            Problem::bad_request(error.to_string())
        }
    }
}

/// Whether a name has the form that permits get by default.
fn is_own_name(name: &str) -> bool {
    let number = name.strip_prefix("p-").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn check_id(id: &str) -> Result<(), Problem> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if is_own_name(id) {
        let message = "p- and a number is the name of a permit for which no id was chosen";
        return Err(Problem::bad_request(message).hint("choose another id"));
    }
    match !id.is_empty() && id.len() <= ID_BYTES_MAX && id.bytes().all(fits) {
        true => Ok(()),
        false => Err(Problem::bad_request(format!(
            "the id of a permit has 1 to {ID_BYTES_MAX} of the characters A-Z a-z 0-9 . _ -"
        ))),
    }
}

/// A permit as it is sent.
#[derive(Serialize)]
struct Described<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    permit: Option<&'a str>,
    request: u64,
    priority: i8,
    pool: &'a str,
    granted_at: String,
    waited: String,
    user: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

/// A permit as it is sent to a client, with its name only if the client may use it.
fn describe<'a>(app: &App, identity: &Identity, view: &'a PermitView) -> Described<'a> {
    let is_told = !view.name.is_empty() && identity.sees(&view.user);
    Described {
        permit: is_told.then_some(&view.name),
        request: view.request.0,
        priority: view.priority,
        pool: &view.pool,
        granted_at: rfc3339(view.granted_us),
        waited: view.waited.to_string(),
        user: &view.user,
        expires_at: view.expires_at.map(|ends| app.wall.now().text(ends)),
    }
}
