//! `LIKE`, `ILIKE` and regular expressions. SQLite spells them as operators that call functions.

use super::{PURE, Shared, argument};
use crate::failure::{Failure, state};
use regex_automata::meta::{Config, Regex};
use regex_automata::util::syntax;
use rusqlite::functions::Context;
use rusqlite::{Connection, Result};
use std::sync::Arc;

/// The most memory that a compiled pattern may take.
const PATTERN_BYTES_MAX: usize = 1 << 20;

pub fn define(connection: &Connection, shared: &Arc<Shared>) -> Result<()> {
    // `x LIKE y` calls like(y, x); ILIKE is written as GLOB, which PostgreSQL does not have.
    for (name, ignores_case) in [("like", false), ("glob", true)] {
        for count in [2, 3] {
            connection.create_scalar_function(name, count, PURE, move |context| {
                let (Some(pattern), Some(text)) = (argument(context, 0), argument(context, 1))
                else {
                    return Ok(None);
                };
                let escape = match context.len() {
                    3 => argument(context, 2).and_then(|text| text.chars().next()),
                    _ => Some('\\'),
                };
                let fold = |text: String| if ignores_case { text.to_lowercase() } else { text };
                Ok(Some(like(&fold(pattern), &fold(text), escape)))
            })?;
        }
    }
    // `x REGEXP y` is `x ~ y`, and `x MATCH y` is `x ~* y`.
    for (name, ignores_case) in [("regexp", false), ("match", true)] {
        let kept = Arc::clone(shared);
        connection.create_scalar_function(name, 2, PURE, move |context| {
            let Some(text) = argument(context, 1) else { return Ok(None) };
            if argument(context, 0).is_none() {
                return Ok(None);
            }
            let regex = compiled(context, ignores_case, &kept)?;
            Ok(Some(regex.is_match(&text)))
        })?;
    }
    Ok(())
}

/// The pattern, compiled once per statement.
fn compiled(context: &Context<'_>, ignores_case: bool, shared: &Shared) -> Result<Arc<Regex>> {
    let pattern = argument(context, 0).unwrap_or_default();
    context.get_or_create_aux(0, |_| -> std::result::Result<Regex, rusqlite::Error> {
        Regex::builder()
            .configure(Config::new().nfa_size_limit(Some(PATTERN_BYTES_MAX)))
            .syntax(syntax::Config::new().case_insensitive(ignores_case).nest_limit(50))
            .build(&pattern)
            .map_err(|error| {
                let message = format!("invalid regular expression: {error}");
                shared.fail(Failure::new(state(b"2201B"), message))
            })
    })
}

/// Matches `%` and `_`, in time of at most the product of the lengths and without recursion.
fn like(pattern: &str, text: &str, escape: Option<char>) -> bool {
    let pattern: Vec<(char, bool)> = literals(pattern, escape);
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(('%', false)) => {
                star = Some((p, t));
                p += 1;
                continue;
            }
            Some(('_', false)) => {
                (p, t) = (p + 1, t + 1);
                continue;
            }
            Some((c, _)) if *c == text[t] => {
                (p, t) = (p + 1, t + 1);
                continue;
            }
            _ => {}
        }
        let Some((at, from)) = star else { return false };
        star = Some((at, from + 1));
        (p, t) = (at + 1, from + 1);
    }
    pattern[p..].iter().all(|part| *part == ('%', false))
}

/// The characters of a pattern, and whether each is escaped.
fn literals(pattern: &str, escape: Option<char>) -> Vec<(char, bool)> {
    let mut chars = pattern.chars();
    let mut found = vec![];
    while let Some(c) = chars.next() {
        match Some(c) == escape {
            true => found.extend(chars.next().map(|next| (next, true))),
            false => found.push((c, false)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn patterns_match_as_in_postgresql() {
        for (pattern, text, matches) in [
            ("a%", "abc", true),
            ("a%", "Abc", false),
            ("%b_", "abc", true),
            ("a\\%", "a%", true),
            ("a\\%", "ab", false),
            ("%a%b%", "xxaxxbxx", true),
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
        ] {
            assert_eq!(like(pattern, text, Some('\\')), matches, "{text} like {pattern}");
        }
    }
}
