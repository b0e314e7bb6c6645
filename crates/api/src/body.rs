//! Request bodies: read within bounds of size and time, and parsed as JSON or TOML.
//!
//! Promises that unfinished bodies take little memory together, and one user's only a part of that (D1): what a body
//! takes beyond [`FREE_BYTES`] is counted as it arrives, and a body for which there is no room is refused. A body that
//! arrives too slowly is refused.

use crate::identity::Identity;
use crate::limits::Limits;
use crate::members::Members;
use crate::respond::{Problem, shown};
use crate::turns::{Turn, Turns, none};
use crate::{App, Shared, json};
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Bytes of each body that do not count: most bodies have fewer.
const FREE_BYTES: usize = 16 << 10;

/// The share of a body in the bytes that all bodies may take.
pub(crate) type Share = Turn<Arc<Turns>>;

/// How many times the length of the longest JSON body is read and discarded before a body that is too long is
/// given up.
const IGNORED_MAX: usize = 8;

/// A pause of this length ends the reading of a body that is too long.
const IGNORED_PAUSE_MAX: Duration = Duration::from_millis(100);

/// The bytes that all bodies may take.
pub(crate) fn bodies(limits: &Limits) -> Arc<Turns> {
    Arc::new(Turns::new("bytes of unfinished bodies", limits.bodies_bytes_max))
}

/// Handlers take the members of the body as an argument.
impl FromRequest<Shared> for Members {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        let identity = head.extensions.get::<Identity>();
        let identity =
            identity.ok_or_else(|| Problem::internal("a request with a body has no identity"))?;
        members(app, identity, &head.headers, body).await
    }
}

/// The members of a body that is a JSON object; no members if there is no body.
pub(crate) async fn members(
    app: &App,
    identity: &Identity,
    headers: &HeaderMap,
    body: Body,
) -> Result<Members, Problem> {
    let (members, _share) =
        members_within(app, identity, headers, body, app.limits.body_bytes_max).await?;
    Ok(members)
}

/// The same for a body with configuration texts, which may be long. It counts until the share is dropped.
pub(crate) async fn long_members(
    app: &App,
    identity: &Identity,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Members, Share), Problem> {
    members_within(app, identity, headers, body, app.limits.config_bytes_max).await
}

async fn members_within(
    app: &App,
    identity: &Identity,
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<(Members, Share), Problem> {
    let mut share = none(Arc::clone(&app.bodies), identity);
    let bytes = read(body, &app.limits, bytes_max, &mut share).await?;
    if bytes.is_empty() {
        return Ok((Members::of(Value::Object(serde_json::Map::new()))?, share));
    }
    check_media_type(headers, &["application/json"])?;
    let value = json::parse(&bytes)
        .map_err(|error| Problem::bad_request(format!("the body is not JSON: {error}")))?;
    Ok((Members::of(value)?, share))
}

/// A body that is a configuration text. It counts until the share is dropped.
pub(crate) async fn toml(
    app: &App,
    identity: &Identity,
    headers: &HeaderMap,
    body: Body,
) -> Result<(String, Share), Problem> {
    long_text(app, identity, headers, body, &["application/toml", "text/plain"]).await
}

/// A body that is a long text of one of these media types. It counts until the share is dropped.
pub(crate) async fn long_text(
    app: &App,
    identity: &Identity,
    headers: &HeaderMap,
    body: Body,
    media: &[&str],
) -> Result<(String, Share), Problem> {
    check_media_type(headers, media)?;
    let mut share = none(Arc::clone(&app.bodies), identity);
    let bytes = read(body, &app.limits, app.limits.config_bytes_max, &mut share).await?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Problem::bad_request(format!("the body is not UTF-8: see its byte {at}"))
    })?;
    Ok((text, share))
}

fn check_media_type(headers: &HeaderMap, expected: &[&str]) -> Result<(), Problem> {
    let found = headers.get(CONTENT_TYPE).map_or("", |value| value.to_str().unwrap_or("?"));
    let essence = found.split(';').next().unwrap_or_default().trim();
    if expected.iter().any(|expected| essence.eq_ignore_ascii_case(expected)) {
        return Ok(());
    }
    let hint = expected.first().map(|first| format!("send the header content-type: {first}"));
    Err(Problem::media_type(&expected.join(" or "), &shown(found)).hint(hint.unwrap_or_default()))
}

/// The whole body. A body that is too long, or finds no room, is read further for a while and discarded,
/// because a client that still sends may not read the answer. A body whose announced length exceeds that is not
/// read at all.
async fn read(
    mut body: Body,
    limits: &Limits,
    bytes_max: usize,
    share: &mut Share,
) -> Result<Vec<u8>, Problem> {
    let ignored_max = limits.body_bytes_max.saturating_mul(IGNORED_MAX);
    let read_max = bytes_max.saturating_add(ignored_max);
    if body.size_hint().lower() > read_max as u64 {
        return Err(Problem::too_large(bytes_max));
    }
    let began = Instant::now();
    let (mut bytes, mut count, mut refused) = (Vec::new(), 0, None);
    while count <= read_max {
        let seconds = count as u64 / limits.body_bytes_per_second_min.max(1);
        let time = limits.body_max + Duration::from_secs(seconds);
        let left = time.saturating_sub(began.elapsed());
        let pause_max = if refused.is_some() { IGNORED_PAUSE_MAX } else { limits.body_pause_max };
        let data = match next(&mut body, pause_max.min(left)).await {
            Ok(Some(data)) => data,
            Ok(None) => break,
            Err(Stopped::Failed(problem)) => return Err(refused.unwrap_or(problem)),
            Err(Stopped::Paused) if left < pause_max => {
                return Err(refused.unwrap_or_else(too_slow));
            }
            Err(Stopped::Paused) => return Err(refused.unwrap_or_else(|| paused(pause_max))),
        };
        count += data.len();
        if refused.is_none()
            && let Err(problem) = keep(&mut bytes, &data, bytes_max, share)
        {
            bytes = Vec::new();
            share.give_back();
            refused = Some(problem);
        }
    }
    refused.map_or(Ok(bytes), Err)
}

/// Keeps a piece, and counts its bytes.
fn keep(
    bytes: &mut Vec<u8>,
    data: &[u8],
    bytes_max: usize,
    share: &mut Share,
) -> Result<(), Problem> {
    let length = bytes.len() + data.len();
    if length > bytes_max {
        return Err(Problem::too_large(bytes_max));
    }
    if length > bytes.capacity() {
        let room = length.max(2 * bytes.capacity()).min(bytes_max);
        share.add(room.saturating_sub(FREE_BYTES).saturating_sub(share.count()))?;
        bytes.reserve_exact(room - bytes.len());
    }
    bytes.extend_from_slice(data);
    Ok(())
}

fn paused(pause_max: Duration) -> Problem {
    let pause = pause_max.as_secs_f64();
    Problem::bad_request(format!("no byte of the body arrived for {pause} s"))
}

fn too_slow() -> Problem {
    Problem::bad_request("the body arrived too slowly")
}

/// Why a body does not continue.
enum Stopped {
    Paused,
    Failed(Problem),
}

/// The next piece of a body; `None` at its end.
async fn next(body: &mut Body, pause_max: Duration) -> Result<Option<Bytes>, Stopped> {
    loop {
        // A small body arrives with its head, so there is nothing to wait for.
        if body.is_end_stream() {
            return Ok(None);
        }
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
        let Ok(frame) = timeout(pause_max, frame).await else { return Err(Stopped::Paused) };
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|error| {
            Stopped::Failed(Problem::bad_request(format!("the body did not arrive: {error}")))
        })?;
        // Frames that are not data are trailers, which are ignored.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::members;
    use crate::identity::{Identity, Role};
    use crate::{App, app_for_tests};
    use axum::body::{Body, Bytes};
    use axum::http::HeaderMap;
    use hyper::body::Frame;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    /// A body of this many pieces of 8 KiB whose end never arrives.
    struct Endless(usize);

    impl hyper::body::Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let Some(left) = self.0.checked_sub(1) else { return Poll::Pending };
            self.0 = left;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b' '; 8 << 10])))))
        }
    }

    fn user(name: &str, is_owner: bool) -> Identity {
        let (name, host) = (name.to_owned(), "unix".into());
        Identity { name, role: Role::Viewer, host, granted: None, is_owner }
    }

    /// D1: bodies that do not end take at most each user's part of the bytes, whatever other users send.
    #[test]
    fn unfinished_bodies_are_bounded_for_each_user_and_together_d1() {
        let (_runtime, app) = app_for_tests();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let all = app.limits.bodies_bytes_max;
        let users = ["a", "b", "c", "d", "e"].map(|name| user(name, false));
        let owner = user("root", true);
        let mut kept = Vec::new();
        let mut most = |identity: &Identity| {
            let before = app.bodies.count();
            // Each body is one piece shorter than the longest allowed.
            kept.extend((0..200).map(|_| begun(&app, identity, 127)));
            app.bodies.count() - before
        };
        let small = begun(&app, &users[0], 2);
        assert_eq!(app.bodies.count(), 0, "small bodies do not count");
        let each = users.each_ref().map(&mut most);
        assert!(each.iter().all(|bytes| *bytes <= all / 4), "{each:?} of {all}");
        assert!(each.iter().sum::<usize>() <= all - all / 10, "{each:?} of {all}");
        assert!(each.iter().take(3).all(|bytes| *bytes > all / 8), "{each:?} of {all}");
        assert!(most(&owner) > 0, "some is kept");
        assert!(app.bodies.count() <= all);
        drop((small, kept));
        assert_eq!(app.bodies.count(), 0);
    }

    /// A body that was read as far as it has arrived.
    fn begun<'a>(
        app: &'a App,
        identity: &Identity,
        pieces: usize,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let (identity, body) = (identity.clone(), Body::new(Endless(pieces)));
        let mut reading: Pin<Box<dyn Future<Output = ()> + 'a>> =
            Box::pin(async move { drop(members(app, &identity, &HeaderMap::new(), body).await) });
        // The task may only have yielded.
        for _ in 0..10 {
            let polled = reading.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
        }
        reading
    }
}
