//! Writes one of our regular expressions in SQLite's notation.
//!
//! The parsed expression has nothing left of flags, classes by name or lazy repetitions, so that little is left that
//! SQLite cannot express: conditions between characters other than `^`, `$` and an ASCII `\b`.

use super::import;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition};

/// SQLite's notation of an expression, for a mode with or without case. A nocase expression must have been parsed as
/// such. Where `is_word` the result has no blank; it never has a semicolon or a line end.
pub(in super::super) fn export(hir: &Hir, nocase: bool, is_word: bool) -> Result<String, String> {
    let shown = |drops_equals| {
        let mut writer = Writer { out: String::new(), nocase, drops_equals };
        writer.write(hir).map(|()| writer.out)
    };
    let mut out = shown(true)?;
    if !out.is_ascii() {
        out = shown(false)?;
    }
    if is_word || out.starts_with(' ') || out.ends_with(' ') {
        out = out.replace(' ', "\\x20");
    }
    if out.is_empty() {
        out.push_str("()");
    }
    // What reads it back also knows what SQLite gets wrong.
    import(&out, nocase).map_err(|(_, why)| why)?;
    Ok(out)
}

struct Writer {
    out: String,
    nocase: bool,
    /// Whether the two characters beyond ASCII that equal ASCII letters without case are left out. Our reading of an
    /// expression in ASCII adds them again.
    drops_equals: bool,
}

impl Writer {
    fn write(&mut self, hir: &Hir) -> Result<(), String> {
        match hir.kind() {
            HirKind::Empty => self.out.push_str("()"),
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0);
                let text = text.map_err(|_| "it matches bytes that are not text".to_owned())?;
                text.chars().try_for_each(|c| self.character(c))?;
            }
            HirKind::Class(class) => self.class(&unicode(class)?)?,
            HirKind::Look(Look::Start) => self.out.push('^'),
            HirKind::Look(Look::End) => self.out.push('$'),
            HirKind::Look(Look::WordAscii) => self.out.push_str("\\b"),
            HirKind::Look(look) => return Err(refused(*look)),
            HirKind::Repetition(repetition) => self.repetition(repetition)?,
            HirKind::Capture(capture) => self.write(&capture.sub)?,
            HirKind::Concat(parts) => {
                parts.iter().try_for_each(|part| self.write(part))?;
            }
            HirKind::Alternation(parts) => {
                // In a group always: a `^` at the start of the whole expression would bind all alternatives.
                self.out.push('(');
                for (at, part) in parts.iter().enumerate() {
                    self.out.push_str(if at == 0 { "" } else { "|" });
                    self.write(part)?;
                }
                self.out.push(')');
            }
        }
        Ok(())
    }

    fn repetition(&mut self, repetition: &Repetition) -> Result<(), String> {
        let times = match (repetition.min, repetition.max) {
            (0, None) => "*".to_owned(),
            (1, None) => "+".to_owned(),
            (0, Some(1)) => "?".to_owned(),
            (min, None) => format!("{{{min},}}"),
            (min, Some(max)) if min == max => format!("{{{min}}}"),
            (min, Some(max)) => format!("{{{min},{max}}}"),
        };
        let is_any = matches!(repetition.sub.kind(), HirKind::Class(class) if is_any(class));
        self.out.push_str(if is_any { "" } else { "(" });
        self.write(&repetition.sub)?;
        self.out.push_str(if is_any { "" } else { ")" });
        self.out.push_str(&times);
        Ok(())
    }

    fn class(&mut self, class: &ClassUnicode) -> Result<(), String> {
        let is_negated = class.ranges().last().is_some_and(|range| range.end() == char::MAX);
        let mut shown = class.clone();
        if is_negated {
            shown.negate();
        }
        if self.nocase {
            // SQLite compares texts in lower case, so that capital letters say nothing.
            remove(&mut shown, 'A', 'Z');
            for (letter, equal) in [('k', '\u{212a}'), ('s', '\u{17f}')] {
                if self.drops_equals && has(&shown, letter) {
                    remove(&mut shown, equal, equal);
                }
            }
        }
        // There is no NUL in a text.
        remove(&mut shown, '\0', '\0');
        match shown.ranges() {
            [] if is_negated => self.out.push('.'),
            [] => return Err("it has a set that matches nothing".to_owned()),
            [range] if !is_negated && range.start() == range.end() => {
                return self.character(range.start());
            }
            ranges => {
                self.out.push_str(if is_negated { "[^" } else { "[" });
                for range in ranges {
                    push_member(&mut self.out, range.start());
                    if range.start() != range.end() {
                        self.out.push('-');
                        push_member(&mut self.out, range.end());
                    }
                }
                self.out.push(']');
            }
        }
        Ok(())
    }

    fn character(&mut self, c: char) -> Result<(), String> {
        match c {
            '\0' => return Err("it matches only texts with a NUL character".to_owned()),
            '\\' | '(' | ')' | '*' | '.' | '+' | '?' | '[' | '$' | '^' | '{' | '|' | '}' => {
                self.out.extend(['\\', c]);
            }
            ' ' => self.out.push(' '),
            c if c == ';' || c.is_ascii_control() => {
                self.out.push_str(&format!("\\x{:02x}", u32::from(c)));
            }
            c => self.out.push(c),
        }
        Ok(())
    }
}

fn refused(look: Look) -> String {
    let why = match look {
        Look::WordUnicode | Look::WordUnicodeNegate => {
            "Comdb2's word boundaries know only ASCII, expected (?-u:\\b)"
        }
        _ => "Comdb2 has no such condition between characters, only ^, $ and (?-u:\\b)",
    };
    why.to_owned()
}

fn unicode(class: &Class) -> Result<ClassUnicode, String> {
    match class {
        Class::Unicode(class) => Ok(class.clone()),
        Class::Bytes(class) => {
            let class = class.to_unicode_class();
            class.ok_or_else(|| "it matches bytes that are not text".to_owned())
        }
    }
}

fn has(class: &ClassUnicode, c: char) -> bool {
    class.ranges().iter().any(|range| range.start() <= c && c <= range.end())
}

fn remove(class: &mut ClassUnicode, start: char, end: char) {
    class.difference(&ClassUnicode::new([ClassUnicodeRange::new(start, end)]));
}

fn is_any(class: &Class) -> bool {
    let any = ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)]);
    matches!(class, Class::Unicode(class) if *class == any)
}

/// A member of a set. Everything but letters and digits is escaped, because SQLite's brackets have odd rules.
fn push_member(out: &mut String, c: char) {
    if c.is_ascii() && !c.is_ascii_alphanumeric() {
        out.push_str(&format!("\\x{:02x}", u32::from(c)));
    } else {
        out.push(c);
    }
}
