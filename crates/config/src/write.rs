//! Texts and keys in TOML notation.

use std::fmt::Write;

/// A text in the simplest quotes that fit it.
pub(crate) fn quoted(text: &str) -> String {
    let is_literal = text.contains(['"', '\\']) && !text.contains('\'');
    if is_literal && !text.contains(char::is_control) {
        return format!("'{text}'");
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c)),
            c => write!(out, "{c}"),
        };
    }
    out.push('"');
    out
}

/// A key, in quotes if it needs them.
pub(crate) fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { quoted(name) }
}

#[cfg(test)]
mod tests {
    use super::{key, quoted};

    #[test]
    fn texts_take_the_plainest_quotes() {
        for (text, expected) in [
            ("plain", r#""plain""#),
            ("it's", r#""it's""#),
            (r#"rate("x")"#, r#"'rate("x")'"#),
            (r"^\d+$", r"'^\d+$'"),
            (r#"both " and '"#, r#""both \" and '""#),
            ("a\nb\u{7f}\u{1}", r#""a\nb\u007f\u0001""#),
        ] {
            assert_eq!(quoted(text), expected);
            let toml = format!("{} = {}", key("a.b"), quoted(text));
            let toml = toml_edit::Document::parse(toml).unwrap();
            assert_eq!(toml.as_table().get("a.b").unwrap().as_str(), Some(text));
        }
        assert_eq!([key("x-user"), key("a b"), key("")], ["x-user", "\"a b\"", "\"\""]);
    }
}
