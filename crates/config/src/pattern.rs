//! A pattern of a rule in one line, as the command line takes and shows it: in the notation of the file.
//!
//! `etl-7` is a pattern in the rule's mode, `{ glob = "etl-*", nocase = true }` names its own, and a list has several
//! patterns for one attribute. Promises that the text which [`show_pattern`] returns is read as the same pattern.

use crate::write::quoted;
use toml_edit::{InlineTable, Value};

/// The modes that a table may name.
const MODES: [&str; 3] = ["exact", "glob", "regex"];

/// What a table looks like.
const EXPECTED: &str =
    "expected a table such as { glob = \"etl-*\" } or { regex = \"^etl\", nocase = true }";

/// A pattern as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Its own mode, if it names one.
    pub mode: Option<&'static str>,
    /// Whether it ignores case, if it says so.
    pub nocase: Option<bool>,
    /// The pattern itself.
    pub text: String,
}

impl Pattern {
    fn plain(text: &str) -> Self {
        Self { mode: None, nocase: None, text: text.to_owned() }
    }
}

/// Reads the patterns of one attribute. A text that begins with `{` is a table; one that is a list of texts and tables is
/// that list; any other text is a pattern without a mode of its own, such as the glob `[ab]*`.
///
/// # Errors
///
/// What was expected instead of a table.
pub fn parse_patterns(text: &str) -> Result<Vec<Pattern>, String> {
    let trimmed = text.trim();
    if trimmed.starts_with('{') {
        let value: Value = trimmed.parse().map_err(|_| wrong(trimmed))?;
        return pattern(&value).map(|pattern| vec![pattern]).ok_or_else(|| wrong(trimmed));
    }
    let list = trimmed.starts_with('[').then(|| trimmed.parse::<Value>().ok()).flatten();
    let list = list.as_ref().and_then(Value::as_array).filter(|list| !list.is_empty());
    match list {
        // A list that has anything else in it is a glob or a regular expression that looks like one.
        Some(list) if list.iter().all(|one| one.is_str() || one.is_inline_table()) => {
            list.iter().map(|one| pattern(one).ok_or_else(|| wrong(trimmed))).collect()
        }
        _ => Ok(vec![Pattern::plain(text)]),
    }
}

fn wrong(text: &str) -> String {
    let literal = match text.starts_with('{') {
        true => format!("; write {{ exact = {} }} for this very text", quoted(text)),
        false => String::new(),
    };
    format!("{EXPECTED}{literal}")
}

fn pattern(value: &Value) -> Option<Pattern> {
    match value {
        Value::String(text) => Some(Pattern::plain(text.value())),
        Value::InlineTable(table) => with_mode(table),
        _ => None,
    }
}

fn with_mode(table: &InlineTable) -> Option<Pattern> {
    let (mut nocase, mut found) = (None, None);
    for (key, value) in table.iter() {
        match MODES.into_iter().find(|mode| *mode == key) {
            Some(mode) if found.is_none() => found = Some((mode, value.as_str()?)),
            None if key == "nocase" => nocase = Some(value.as_bool()?),
            _ => return None,
        }
    }
    let (mode, text) = found?;
    Some(Pattern { mode: Some(mode), nocase, text: text.to_owned() })
}

/// A pattern as [`parse_patterns`] reads it, without a mode if it is an exact one that heeds case.
#[must_use]
pub fn show_pattern(mode: &str, nocase: bool, text: &str) -> String {
    let is_plain = || parse_patterns(text).is_ok_and(|read| read == [Pattern::plain(text)]);
    match nocase {
        true => format!("{{ {mode} = {}, nocase = true }}", quoted(text)),
        false if mode == "exact" && !text.contains(char::is_control) && is_plain() => {
            text.to_owned()
        }
        false => format!("{{ {mode} = {} }}", quoted(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Pattern, parse_patterns, show_pattern};

    #[test]
    fn tables_and_lists_are_read_and_other_texts_are_patterns() {
        let own =
            |mode, nocase, text: &str| Pattern { mode: Some(mode), nocase, text: text.to_owned() };
        for (text, expected) in [
            ("etl-7", vec![Pattern::plain("etl-7")]),
            ("glob a*", vec![Pattern::plain("glob a*")]),
            ("", vec![Pattern::plain("")]),
            (" a ", vec![Pattern::plain(" a ")]),
            (r#"{ glob = "etl-*" }"#, vec![own("glob", None, "etl-*")]),
            (r"{regex='^\d+$',nocase=true}", vec![own("regex", Some(true), r"^\d+$")]),
            (r#"{ nocase = false, exact = "{x}" }"#, vec![own("exact", Some(false), "{x}")]),
            (r#"["a", { glob = "b*" }]"#, vec![Pattern::plain("a"), own("glob", None, "b*")]),
            // These are globs and regular expressions.
            ("[ab]*", vec![Pattern::plain("[ab]*")]),
            ("[12]", vec![Pattern::plain("[12]")]),
            ("[]", vec![Pattern::plain("[]")]),
        ] {
            assert_eq!(parse_patterns(text).unwrap(), expected, "{text}");
        }
        for text in [
            "{",
            "{}",
            "{ globb = 'a' }",
            "{ glob = 1 }",
            "{ glob = 'a', regex = 'b' }",
            "{ nocase = true }",
            "{a}b",
        ] {
            let error = parse_patterns(text).unwrap_err();
            assert!(error.contains("{ glob = ") && error.contains("{ exact = "), "{error}");
        }
        assert!(parse_patterns("['a', { globb = 'b' }]").unwrap_err().contains("expected a table"));
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for mode in super::MODES {
            for nocase in [true, false] {
                for text in ["a", "", "a*", "{x}", "['a']", "a\nb", "\"'\\", " a ", "[ab]*"] {
                    let shown = show_pattern(mode, nocase, text);
                    let [read] = &parse_patterns(&shown).unwrap()[..] else { panic!("{shown}") };
                    assert_eq!(read.text, text, "{shown}");
                    assert_eq!(read.mode.unwrap_or("exact"), mode, "{shown}");
                    assert_eq!(read.nocase.unwrap_or(false), nocase, "{shown}");
                }
            }
        }
        assert_eq!(show_pattern("exact", false, "etl"), "etl");
        assert_eq!(show_pattern("glob", true, "a*"), r#"{ glob = "a*", nocase = true }"#);
    }
}
