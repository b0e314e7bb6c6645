//! `SET`, `RESET` and `SHOW`, in all the forms that PostgreSQL has for one variable.

use super::super::{Action, Scope, Setting, Value};
use super::modes;
use crate::text::cursor::Cursor;
use crate::text::token::{Dialect, Kind};
use std::borrow::Cow;

/// Reads on after `SET`.
pub(super) fn set<'a>(cursor: &mut Cursor<'a>, dialect: Dialect) -> Option<Action<'a>> {
    let scope = scope(cursor);
    let mut ahead = cursor.clone();
    if ahead.eat("CHARACTERISTICS") {
        ahead.eat("AS");
        ahead.eat("TRANSACTION");
        modes(&mut ahead);
        *cursor = ahead;
        return Some(Action::SetCharacteristics);
    }
    if cursor.eat("TRANSACTION") {
        modes(cursor);
        return Some(Action::SetTransaction);
    }
    if cursor.eat("CONSTRAINTS") {
        return Some(Action::SetConstraints);
    }
    let (name, needs_sign) = match special(cursor) {
        Some(name) => (Cow::Borrowed(name), false),
        None => (dotted(cursor)?, true),
    };
    if needs_sign && !cursor.eat_sign("=") && !cursor.eat("TO") {
        return None;
    }
    let start = cursor.peek().map_or(cursor.text().len(), |token| token.start);
    let text = cursor.text().get(start..).unwrap_or_default().trim_end();
    let value = value(cursor, dialect, !needs_sign);
    Some(Action::Set(Setting { scope, name, value, text }))
}

/// Reads on after `RESET`.
pub(super) fn reset<'a>(cursor: &mut Cursor<'a>) -> Option<Action<'a>> {
    if cursor.eat("ALL") {
        return Some(Action::ResetAll);
    }
    variable(cursor).map(Action::Reset)
}

/// A variable, under whatever syntax.
pub(super) fn variable<'a>(cursor: &mut Cursor<'a>) -> Option<Cow<'a, str>> {
    let mut ahead = cursor.clone();
    if ahead.eat("TRANSACTION") && ahead.eat("ISOLATION") && ahead.eat("LEVEL") {
        *cursor = ahead;
        return Some(Cow::Borrowed("transaction_isolation"));
    }
    special(cursor).map(Cow::Borrowed).or_else(|| dotted(cursor))
}

/// `SESSION` or `LOCAL`, unless it is the variable, or `SESSION AUTHORIZATION` begins.
fn scope(cursor: &mut Cursor<'_>) -> Scope {
    let mut ahead = cursor.clone();
    let scope = if ahead.eat("LOCAL") {
        Scope::Local
    } else if ahead.eat("SESSION") {
        Scope::Session
    } else {
        return Scope::Session;
    };
    let is_variable = ahead.clone().eat_sign("=") || ahead.is_word("TO");
    if !is_variable && !ahead.is_word("AUTHORIZATION") {
        *cursor = ahead;
    }
    scope
}

/// The variable that is set without `=` or `TO`.
fn special(cursor: &mut Cursor<'_>) -> Option<&'static str> {
    let known: &[(&[&str], &str)] = &[
        (&["TIME", "ZONE"], "timezone"),
        (&["SESSION", "AUTHORIZATION"], "session_authorization"),
        (&["XML", "OPTION"], "xmloption"),
        (&["SCHEMA"], "search_path"),
        (&["NAMES"], "client_encoding"),
        (&["ROLE"], "role"),
    ];
    for (words, name) in known {
        let mut ahead = cursor.clone();
        if words.iter().all(|word| ahead.eat(word)) {
            // `SET role = x` and `SET role TO x` are the ordinary form of the same variable.
            let _ = ahead.eat_sign("=") || ahead.eat("TO");
            *cursor = ahead;
            return Some(name);
        }
    }
    None
}

/// A name with dots.
fn dotted<'a>(cursor: &mut Cursor<'a>) -> Option<Cow<'a, str>> {
    let mut name = cursor.name()?;
    while cursor.eat_kind(Kind::Dot).is_some() {
        let part = cursor.name()?;
        let whole = name.to_mut();
        whole.push('.');
        whole.push_str(&part);
    }
    Some(name)
}

/// One literal or name up to the end of the statement. Without any, where `is_special`, the default is meant.
fn value<'a>(cursor: &mut Cursor<'a>, dialect: Dialect, is_special: bool) -> Option<Value<'a>> {
    if cursor.is_end() {
        return is_special.then_some(Value::Default);
    }
    if cursor.eat("DEFAULT") || (is_special && cursor.eat("LOCAL")) {
        return cursor.is_end().then_some(Value::Default);
    }
    let is_negative = cursor.eat_sign("-");
    if !is_negative {
        cursor.eat_sign("+");
    }
    let value = if let Some(number) = cursor.eat_kind(Kind::Number) {
        if is_negative { Cow::Owned(format!("-{number}")) } else { Cow::Borrowed(number) }
    } else if is_negative {
        return None;
    } else if let Some(string) = cursor.eat_kind(Kind::String) {
        literal(string, dialect)?
    } else {
        cursor.name()?
    };
    cursor.is_end().then_some(Value::Text(value))
}

/// The text that a string stands for; none if it has escapes or several parts.
fn literal(string: &str, dialect: Dialect) -> Option<Cow<'_, str>> {
    if string.starts_with('$') {
        let tag = string.get(1..)?.find('$')? + 2;
        return string.get(tag..string.len().checked_sub(tag)?).map(Cow::Borrowed);
    }
    let open = string.find('\'')?;
    let inner = string.get(open + 1..string.len().checked_sub(1)?)?;
    let has_escapes = open > 0 || dialect == Dialect::PostgresBackslash;
    if has_escapes && inner.contains('\\') {
        return None;
    }
    if !inner.contains('\'') {
        return Some(Cow::Borrowed(inner));
    }
    let is_one = inner.split("''").all(|part| !part.contains('\''));
    is_one.then(|| Cow::Owned(inner.replace("''", "'")))
}
