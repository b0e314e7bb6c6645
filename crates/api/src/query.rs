//! The part of a target behind the question mark.

use crate::respond::Problem;
use axum::http::Uri;

/// The value of `name`, if it is there. Values are taken as they stand: all that the API asks for are
/// numbers and names without characters that must be escaped.
pub(crate) fn value<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    let pairs = uri.query().unwrap_or_default().split('&');
    pairs.filter_map(|pair| pair.split_once('=')).find(|(own, _)| *own == name).map(|(_, v)| v)
}

/// The number under `name`, or `default`; never more than `max`.
pub(crate) fn number(uri: &Uri, name: &str, default: u64, max: u64) -> Result<u64, Problem> {
    match value(uri, name) {
        None => Ok(default.min(max)),
        Some(text) => text.parse::<u64>().map(|number| number.min(max)).map_err(|_| {
            let found = crate::respond::shown(text);
            Problem::bad_request(format!("{name}: expected a whole number, found {found:?}"))
        }),
    }
}

/// Whether `name` is `true`; it may be missing.
pub(crate) fn flag(uri: &Uri, name: &str) -> Result<bool, Problem> {
    match value(uri, name) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(text) => {
            let found = crate::respond::shown(text);
            Err(Problem::bad_request(format!("{name}: expected true or false, found {found:?}")))
        }
    }
}
