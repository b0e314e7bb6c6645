//! Displays a rule so that it parses as the same rule.

use super::RESERVED;
use crate::rule::{Action, Criterion, PatternMode, Rule, Then};
use std::fmt::{self, Write};

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)?;
        for (index, criterion) in self.criteria.iter().enumerate() {
            write!(f, "{}{criterion}", if index == 0 { " " } else { " and " })?;
        }
        if let Some(when) = &self.when {
            f.write_str(" when ")?;
            show(f, when)?;
        }
        write!(f, " {}", self.action)?;
        f.write_str(match self.then {
            Then::Continue => " continue",
            Then::Stop => " stop",
        })?;
        f.write_str(if self.log { " log" } else { "" })?;
        f.write_str(if self.disabled { " disabled" } else { "" })
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.attribute.to_string();
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            write!(f, "\"")?;
            escape(f, &name)?;
            write!(f, "\"")?;
        } else {
            show(f, &name)?;
        }
        write!(f, " {} ", self.mode)?;
        f.write_str(if self.nocase { "nocase " } else { "" })?;
        show(f, &self.pattern)
    }
}

impl fmt::Display for PatternMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Glob => "glob",
            Self::Regex => "regex",
        })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Set(priority) => write!(f, "set {priority}"),
            Self::Raise(n) => write!(f, "raise {n}"),
            Self::Lower(n) => write!(f, "lower {n}"),
            Self::Reject => f.write_str("reject"),
        }
    }
}

/// Displays a text in the simplest form that parses back.
fn show(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "_-.:/@*?%+,=".contains(c);
    if !text.is_empty() && text.chars().all(harmless) && !RESERVED.contains(&text) {
        return f.write_str(text);
    }
    if text.contains(['\\', '"']) && !text.contains(breaks_line) {
        return write!(f, "'{}'", text.replace('\'', "''"));
    }
    f.write_str("\"")?;
    escape(f, text)?;
    f.write_str("\"")
}

fn escape(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if breaks_line(c) => write!(f, "\\u{{{:x}}}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    Ok(())
}

/// Characters that a line of text cannot contain unescaped.
fn breaks_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}
