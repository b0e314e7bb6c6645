//! Functions on texts and numbers.

use super::{argument, pure, shown, whole};
use rusqlite::functions::Context;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};

/// The longest text that a function makes.
const TEXT_BYTES_MAX: usize = 16 << 20;

type Text = fn(&str) -> Option<String>;

pub fn define(connection: &Connection) -> Result<()> {
    let texts: [(&str, Text); 7] = [
        ("reverse", |text| Some(text.chars().rev().collect())),
        ("initcap", |text| Some(initcap(text))),
        ("quote_ident", |text| Some(quote_ident(text))),
        ("quote_literal", |text| Some(crate::token::quote_literal(text))),
        ("btrim", |text| Some(text.trim_matches(' ').to_owned())),
        // SQLite folds ASCII only.
        ("upper", |text| Some(text.to_uppercase())),
        ("lower", |text| Some(text.to_lowercase())),
    ];
    for (name, run) in texts {
        pure(connection, name, 1, move |context| {
            Ok(argument(context, 0).and_then(|text| run(&text)).map(Value::Text))
        })?;
    }
    pure(connection, "split_part", 3, |context| {
        let (Some(text), Some(by), Some(at)) =
            (argument(context, 0), argument(context, 1), whole(context, 2))
        else {
            return Ok(None);
        };
        let at = usize::try_from(at - 1).unwrap_or(usize::MAX);
        let part = if by.is_empty() {
            (at == 0).then_some(text.as_str())
        } else {
            text.split(&by).nth(at)
        };
        Ok(Some(Value::Text(part.unwrap_or_default().to_owned())))
    })?;
    pure(connection, "repeat", 2, |context| {
        let (Some(text), Some(count)) = (argument(context, 0), whole(context, 1)) else {
            return Ok(None);
        };
        let count = usize::try_from(count).unwrap_or(0);
        if count.saturating_mul(text.len()) > TEXT_BYTES_MAX {
            return Err(rusqlite::Error::UserFunctionError("requested length too large".into()));
        }
        Ok(Some(Value::Text(text.repeat(count))))
    })?;
    parts(connection)
}

fn parts(connection: &Connection) -> Result<()> {
    for (name, is_left) in [("lpad", true), ("rpad", false)] {
        for count in [2, 3] {
            pure(connection, name, count, move |context| {
                Ok(pad(context, is_left).map(Value::Text))
            })?;
        }
    }
    pure(connection, "pl_left", 2, |context| Ok(part(context, true).map(Value::Text)))?;
    pure(connection, "pl_right", 2, |context| Ok(part(context, false).map(Value::Text)))?;
    for (name, text, inner) in [("pl_position", 1, 0), ("strpos", 0, 1)] {
        pure(connection, name, 2, move |context| {
            let (Some(text), Some(inner)) = (argument(context, text), argument(context, inner))
            else {
                return Ok(None);
            };
            let at = text
                .find(&inner)
                .and_then(|at| text.get(..at))
                .map(|before| before.chars().count());
            let place = at.map_or(0, |at| i64::try_from(at + 1).unwrap_or(0));
            Ok(Some(Value::Integer(place)))
        })?;
    }
    for (name, wanted) in
        [("pl_greatest", std::cmp::Ordering::Greater), ("pl_least", std::cmp::Ordering::Less)]
    {
        pure(connection, name, -1, move |context| Ok(extreme(context, wanted)))?;
    }
    pure(connection, "chr", 1, |context| {
        let found = whole(context, 0).and_then(|code| char::from_u32(u32::try_from(code).ok()?));
        Ok(found.map(|c| Value::Text(c.to_string())))
    })?;
    pure(connection, "starts_with", 2, |context| {
        let both = argument(context, 0).zip(argument(context, 1));
        Ok(both.map(|(text, prefix)| Value::Integer(text.starts_with(&prefix).into())))
    })
}

fn initcap(text: &str) -> String {
    let mut is_start = true;
    text.chars()
        .map(|c| {
            let out = if is_start { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
            is_start = !c.is_alphanumeric();
            out
        })
        .collect()
}

/// The name, in quotes if it needs them.
pub fn quote_ident(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_owned() } else { crate::token::quote_name(name) }
}

fn pad(context: &Context<'_>, is_left: bool) -> Option<String> {
    let text = argument(context, 0)?;
    let length = usize::try_from(whole(context, 1)?).unwrap_or(0).min(TEXT_BYTES_MAX / 4);
    let fill = if context.len() == 3 { argument(context, 2)? } else { " ".into() };
    let have = text.chars().count();
    if have >= length || fill.is_empty() {
        return Some(text.chars().take(length).collect());
    }
    let filling: String = fill.chars().cycle().take(length - have).collect();
    Some(if is_left { filling + &text } else { text + &filling })
}

/// `left` and `right`; a negative count leaves out as many at the other end.
fn part(context: &Context<'_>, is_left: bool) -> Option<String> {
    let text: Vec<char> = argument(context, 0)?.chars().collect();
    let count = whole(context, 1)?;
    let length = i64::try_from(text.len()).ok()?;
    let kept = if count < 0 { length + count } else { count.min(length) };
    let kept = usize::try_from(kept).unwrap_or(0);
    let slice = if is_left { &text[..kept] } else { &text[text.len() - kept..] };
    Some(slice.iter().collect())
}

/// The greatest or least argument that is not NULL.
fn extreme(context: &Context<'_>, wanted: std::cmp::Ordering) -> Option<Value> {
    let mut best: Option<ValueRef<'_>> = None;
    for value in (0..context.len()).map(|at| context.get_raw(at)) {
        let is_better = match (best, value) {
            (_, ValueRef::Null) => false,
            (None, _) => true,
            (Some(best), value) => compare(value, best) == wanted,
        };
        best = if is_better { Some(value) } else { best };
    }
    best.and_then(|value| Value::try_from(value).ok())
}

fn compare(a: ValueRef<'_>, b: ValueRef<'_>) -> std::cmp::Ordering {
    #[allow(clippy::cast_precision_loss)]
    let number = |value: ValueRef<'_>| match value {
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        _ => None,
    };
    match (a, b) {
        (ValueRef::Integer(a), ValueRef::Integer(b)) => a.cmp(&b),
        _ => match number(a).zip(number(b)) {
            Some((a, b)) => a.total_cmp(&b),
            None => shown(a).cmp(&shown(b)),
        },
    }
}
