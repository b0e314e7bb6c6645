//! The query of a target.
//!
//! Every route passes [`check`] before its handler is called, so a misspelt, repeated or unknown parameter is
//! refused and never ignored.

use crate::operation::{Form, Parameter};
use crate::respond::{Problem, shown};
use axum::http::Uri;
use paceline_types::nearest;

/// Checks that a query has only parameters in `known`, each once and with a value.
pub(crate) fn check(uri: &Uri, known: &[Parameter]) -> Result<(), Problem> {
    let mut seen: Vec<&str> = Vec::new();
    for pair in pairs(uri) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(parameter) = known.iter().find(|parameter| parameter.name == name) else {
            return Err(unknown(name, known));
        };
        if seen.contains(&name) {
            return Err(Problem::bad_request(format!("{name}: given twice in the query")));
        }
        if value.is_empty() && (pair != name || parameter.form != Form::Flag) {
            let message = format!("{name}: expected a value in the query, as in ?{name}=VALUE");
            return Err(Problem::bad_request(message));
        }
        seen.push(name);
    }
    Ok(())
}

fn pairs(uri: &Uri) -> impl Iterator<Item = &str> {
    // A question mark with nothing after it is not a query.
    uri.query().filter(|query| !query.is_empty()).into_iter().flat_map(|query| query.split('&'))
}

fn unknown(name: &str, known: &[Parameter]) -> Problem {
    let found = shown(name);
    let known: Vec<&str> = known.iter().map(|parameter| parameter.name).collect();
    let problem = Problem::bad_request(match nearest(name, known.iter().copied()) {
        Some(near) => {
            format!("{found:?}: there is no such name in the query, did you mean {near}?")
        }
        None => format!("{found:?}: there is no such name in the query"),
    });
    match known.as_slice() {
        [] => problem.hint("this path takes nothing behind a question mark"),
        known => problem.hint(format!("known names: {}", known.join(", "))),
    }
}

/// The value of `name`, if it is present; empty if it has no value. Values are not unescaped; [`text`] is for
/// values with escaped characters.
pub(crate) fn value<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    let mut parted = pairs(uri).map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    parted.find(|(own, _)| *own == name).map(|(_, value)| value)
}

/// The text under `name`, unescaped.
pub(crate) fn text(uri: &Uri, name: &str) -> Result<Option<String>, Problem> {
    let Some(value) = value(uri, name) else { return Ok(None) };
    let text = unescaped(value).and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Some).ok_or_else(|| {
        let found = shown(value);
        Problem::bad_request(format!("{name}: expected a text, escaped with %, found {found:?}"))
    })
}

/// RFC 3986, section 2.1.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        out.push(u8::try_from(high << 4 | low).ok()?);
    }
    Some(out)
}

/// The number under `name`, or `default`; never more than `max`.
pub(crate) fn number(uri: &Uri, name: &str, default: u64, max: u64) -> Result<u64, Problem> {
    match value(uri, name) {
        None => Ok(default.min(max)),
        Some(text) => text.parse::<u64>().map(|number| number.min(max)).map_err(|_| {
            let found = shown(text);
            Problem::bad_request(format!("{name}: expected a whole number, found {found:?}"))
        }),
    }
}

/// Whether `name` is `true` or has no value; false if it is missing.
pub(crate) fn flag(uri: &Uri, name: &str) -> Result<bool, Problem> {
    match value(uri, name) {
        None | Some("false") => Ok(false),
        Some("true" | "") => Ok(true),
        Some(text) => {
            let found = shown(text);
            Err(Problem::bad_request(format!("{name}: expected true or false, found {found:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{check, flag, text};
    use crate::operation::{Form, Parameter};

    #[test]
    fn names_are_known_and_stand_once_with_a_value() {
        let [first, count] = ["first", "count"].map(|name| (name, Form::Number));
        let known = [first, count, ("dry_run", Form::Flag)];
        let known = known.map(|(name, form)| Parameter { name, form, doc: "" });
        for (query, is_one) in [
            ("", true),
            ("?", true),
            ("?first=1&count=2", true),
            ("?dry_run", true),
            ("?dry_run=false", true),
            ("?dry_run=", false),
            ("?first", false),
            ("?first=", false),
            ("?first=1&first=1", false),
            ("?dry_run&dry_run=false", false),
            ("?first=1&", false),
            ("?&first=1", false),
            ("?=1", false),
            ("?First=1", false),
            ("?%66irst=1", false),
        ] {
            let uri = format!("/v1/requests{query}").parse().unwrap();
            assert_eq!(check(&uri, &known).is_ok(), is_one, "{query}");
        }
    }

    #[test]
    fn a_flag_that_stands_alone_is_true() {
        for (query, expected) in
            [("", Some(false)), ("?a", Some(true)), ("?a=true", Some(true)), ("?a=1", None)]
        {
            let uri = format!("/{query}").parse().unwrap();
            assert_eq!(flag(&uri, "a").ok(), expected, "{query}");
        }
    }

    #[test]
    fn a_text_is_unescaped() {
        for (query, expected) in [
            ("", Some(None)),
            ("?a=b", Some(Some("b"))),
            ("?a=%2Fetc%2fx+y%25%C3%A4", Some(Some("/etc/x+y%ä"))),
            ("?a=%", None),
            ("?a=%2", None),
            ("?a=%zz", None),
            ("?a=%ff", None),
        ] {
            let uri = format!("/{query}").parse().unwrap();
            let found = text(&uri, "a").ok();
            assert_eq!(found.as_ref().map(Option::as_deref), expected, "{query}");
        }
    }
}
