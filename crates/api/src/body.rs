//! Bodies of requests: read within bounds of size and time, and understood as JSON or TOML.

use crate::limits::Limits;
use crate::members::Members;
use crate::respond::{Problem, shown};
use crate::{Shared, json};
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use serde_json::Value;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::timeout;

/// How many times the longest body of JSON is read on before a body that is too long is given up.
const IGNORED_MAX: usize = 8;

/// How long a pause ends the reading of a body that is too long.
const IGNORED_PAUSE_MAX: Duration = Duration::from_millis(100);

/// Handlers take the members of the body as an argument.
impl FromRequest<Shared> for Members {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        members(&head.headers, body, &app.limits).await
    }
}

/// The members of a body that is a JSON object; none of them if there is no body.
pub(crate) async fn members(
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
) -> Result<Members, Problem> {
    let bytes = read(body, limits, limits.body_bytes_max).await?;
    if bytes.is_empty() {
        return Members::of(Value::Object(serde_json::Map::new()));
    }
    check_media_type(headers, &["application/json"])?;
    let value = json::parse(&bytes)
        .map_err(|error| Problem::bad_request(format!("the body is not JSON: {error}")))?;
    Members::of(value)
}

/// A body that is a text of the configuration.
pub(crate) async fn toml(
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
) -> Result<String, Problem> {
    check_media_type(headers, &["application/toml", "text/plain"])?;
    let bytes = read(body, limits, limits.config_bytes_max).await?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Problem::bad_request(format!("the body is not UTF-8: see its byte {at}"))
    })
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

/// The whole body. What is too long is read on for a while without being kept, because a client that
/// still sends may not look for the answer; what says that it is longer than that is not read at all.
async fn read(mut body: Body, limits: &Limits, bytes_max: usize) -> Result<Vec<u8>, Problem> {
    let ignored_max = limits.body_bytes_max.saturating_mul(IGNORED_MAX);
    let read_max = bytes_max.saturating_add(ignored_max);
    if body.size_hint().lower() > read_max as u64 {
        return Err(Problem::too_large(bytes_max));
    }
    let (mut bytes, mut count) = (Vec::new(), 0);
    loop {
        let is_over = count > bytes_max;
        let pause_max = if is_over { IGNORED_PAUSE_MAX } else { limits.body_pause_max };
        let data = match next(&mut body, pause_max).await {
            Ok(Some(data)) => data,
            Err(problem) if !is_over => return Err(problem),
            Ok(None) | Err(_) => break,
        };
        count += data.len();
        if count > read_max {
            break;
        }
        if count <= bytes_max {
            bytes.extend_from_slice(&data);
        } else {
            bytes = Vec::new();
        }
    }
    if count > bytes_max { Err(Problem::too_large(bytes_max)) } else { Ok(bytes) }
}

/// The next piece of a body; none at its end.
async fn next(body: &mut Body, pause_max: Duration) -> Result<Option<Bytes>, Problem> {
    loop {
        // A small body comes with its head, and then there is nothing to wait for.
        if body.is_end_stream() {
            return Ok(None);
        }
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
        let Ok(frame) = timeout(pause_max, frame).await else {
            let pause = pause_max.as_secs_f64();
            return Err(Problem::bad_request(format!("the body did not go on for {pause} s")));
        };
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame
            .map_err(|error| Problem::bad_request(format!("the body did not arrive: {error}")))?;
        // What is no data are trailers, which mean nothing here.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}
