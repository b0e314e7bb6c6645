//! Examples of values, for the reference page and for tests of each setting.
//!
//! Promises that an example is a value that the setting accepts and that differs from its default.

use crate::setting::{Default, Each, Holds, Setting, Shape};

impl Setting {
    /// A value other than the default, in JSON; `None` for a table, whose settings have examples of their own.
    #[must_use]
    pub fn example(&self) -> Option<String> {
        if let Some(example) = self.example {
            return Some(example.to_owned());
        }
        Some(match &self.holds {
            Holds::Table(_) => return None,
            Holds::Switch(_) => "true".into(),
            Holds::Flag(_) | Holds::Choice | Holds::Own(_, Shape::Flag) => {
                if self.default == Default::Value("true") { "false".into() } else { "true".into() }
            }
            Holds::Integer(min, max) | Holds::Own(_, Shape::Integer(min, max)) => {
                self.other_number(*min, *max).to_string()
            }
            Holds::OneOf(words) | Holds::Own(_, Shape::OneOf(words)) => {
                let quoted = words.iter().map(|word| format!("\"{word}\""));
                return quoted.rev().find(|word| !self.is_default(word));
            }
            Holds::Span => "\"7s\"".into(),
            Holds::Rate => "\"10/s\"".into(),
            Holds::Address => "\"127.0.0.1:8081\"".into(),
            Holds::File => "\"/etc/paceline/example.pem\"".into(),
            Holds::Texts(Each::Listen) => "[\"127.0.0.1:8080\"]".into(),
            Holds::Texts(Each::Network) => "[\"10.0.0.0/8\"]".into(),
            Holds::Texts(Each::Protocol) => "[\"chat\"]".into(),
            Holds::Map => "{\"who\": \"user\"}".into(),
            Holds::NumberedMap(..) => "{\"503\": \"/etc/paceline/503.html\"}".into(),
            Holds::Own(_, Shape::Pair(..)) => "[10, 20]".into(),
            Holds::Own(_, Shape::Patterns(_)) => "{\"user\": {\"glob\": \"etl-*\"}}".into(),
            Holds::Own(_, Shape::Texts) => "[\"disk\"]".into(),
            _ => "\"example\"".into(),
        })
    }

    /// Whether this is the default of the setting.
    pub(crate) fn is_default(&self, value: &str) -> bool {
        matches!(self.default, Default::Value(default) if default == value)
    }

    /// A number other than the default.
    fn other_number(&self, min: i64, max: i64) -> i64 {
        let default: Option<i64> = match self.default {
            Default::Value(value) => value.parse().ok(),
            _ => None,
        };
        match default {
            Some(number) if number < max => number + 1,
            Some(number) => number - 1,
            None => min.max(3).min(max),
        }
    }
}

/// A JSON value in the notation of the file: members of objects have bare names and an equals sign.
#[must_use]
pub fn as_toml(json: &str) -> String {
    let mut toml = String::new();
    let mut rest = json;
    while let Some(start) = rest.find('"') {
        let (before, text) = rest.split_at(start);
        toml.push_str(&spaced(before));
        let end = end_of_text(text);
        let (text, behind) = text.split_at(end);
        match behind.strip_prefix(':') {
            Some(behind) => {
                toml.push_str(text.trim_matches('"'));
                toml.push_str(" =");
                rest = behind;
            }
            None => {
                toml.push_str(text);
                rest = behind;
            }
        }
    }
    toml.push_str(&spaced(rest));
    toml
}

/// The file has blanks inside braces.
fn spaced(part: &str) -> String {
    part.replace('{', "{ ").replace('}', " }")
}

/// The end of the text that starts with a quotation mark.
fn end_of_text(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::as_toml;

    #[test]
    fn objects_become_tables() {
        for (json, toml) in [
            ("3", "3"),
            (r#""a\": b""#, r#""a\": b""#),
            (r#"["a", "b"]"#, r#"["a", "b"]"#),
            (r#"{"user": {"glob": "etl-*"}}"#, r#"{ user = { glob = "etl-*" } }"#),
            (r#"[{"when": "path == \"/\"", "n": 1}]"#, r#"[{ when = "path == \"/\"", n = 1 }]"#),
        ] {
            assert_eq!(as_toml(json), toml);
        }
    }
}
