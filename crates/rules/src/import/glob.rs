//! Globs in SQLite's notation, which Comdb2 uses, and in ours.
//!
//! SQLite negates a set by `^`, we by `!`; SQLite has no backslash; and without case, SQLite still respects the case of
//! sets and of letters other than A to Z. A glob that depends on that is written with both cases of its other letters,
//! and matched with case.

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// A part of a glob.
pub(super) enum Part {
    Star,
    Any,
    Char(char),
    Set { negated: bool, class: ClassUnicode },
}

/// Our notation of a glob in SQLite's, and whether it ignores case.
pub(super) fn import(pattern: &str, nocase: bool) -> Result<(String, bool), (usize, String)> {
    let parts = read_theirs(pattern)?;
    let by_letter = |part: &Part| match part {
        Part::Char(c) => !c.is_ascii(),
        Part::Set { class, .. } => has_case(class),
        Part::Star | Part::Any => false,
    };
    let expand = nocase && parts.iter().any(by_letter);
    let mut out = String::new();
    for part in &parts {
        match part {
            Part::Star => out.push('*'),
            Part::Any => out.push('?'),
            Part::Char(c) if expand && c.is_ascii_alphabetic() => {
                out.extend(['[', c.to_ascii_lowercase(), c.to_ascii_uppercase(), ']']);
            }
            Part::Char(c) => push_ours(&mut out, *c),
            Part::Set { negated, class } => {
                out.push_str(if *negated { "[!" } else { "[" });
                for range in class.ranges() {
                    push_ours(&mut out, range.start());
                    if range.start() != range.end() {
                        out.push('-');
                        push_ours(&mut out, range.end());
                    }
                }
                out.push(']');
            }
        }
    }
    Ok((out, nocase && !expand))
}

/// Our glob for a text in any case of A to Z, but with the case of other letters.
pub(super) fn import_text(text: &str) -> String {
    let parts = text.chars().map(|c| match c {
        c if c.is_ascii_alphabetic() => {
            format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase())
        }
        c => {
            let mut out = String::new();
            push_ours(&mut out, c);
            out
        }
    });
    parts.collect()
}

/// A literal character in our notation, in a set and elsewhere.
fn push_ours(out: &mut String, c: char) {
    if matches!(c, '\\' | '*' | '?' | '[' | ']' | '!' | '-') {
        out.push('\\');
    }
    out.push(c);
}

fn has_case(class: &ClassUnicode) -> bool {
    class.ranges().iter().any(|range| {
        !range.end().is_ascii() || (range.start()..=range.end()).any(|c| c.is_ascii_alphabetic())
    })
}

fn read_theirs(pattern: &str) -> Result<Vec<Part>, (usize, String)> {
    let chars: Vec<char> = pattern.chars().collect();
    let (mut parts, mut at) = (vec![], 0);
    while let Some(&c) = chars.get(at) {
        at += 1;
        parts.push(match c {
            '*' => Part::Star,
            '?' => Part::Any,
            '[' => {
                let set = chars.get(at..).and_then(read_set);
                let unclosed = || (at - 1, "this set has no closing bracket".to_owned());
                let (set, len) = set.ok_or_else(unclosed)?;
                at += len;
                set
            }
            c => Part::Char(c),
        });
    }
    Ok(parts)
}

/// A set in SQLite's notation, from after its bracket, and its length.
fn read_set(chars: &[char]) -> Option<(Part, usize)> {
    let negated = chars.first() == Some(&'^');
    let mut at = usize::from(negated);
    let mut ranges = vec![];
    // What a range may begin with: not a bracket at the start of the set, and not the end of another range.
    let mut prior = None;
    if chars.get(at) == Some(&']') {
        ranges.push(ClassUnicodeRange::new(']', ']'));
        at += 1;
    }
    loop {
        let c = *chars.get(at)?;
        at += 1;
        let next = chars.get(at).filter(|next| **next != ']');
        match (c, prior, next) {
            (']', _, _) => break,
            ('-', Some(low), Some(high)) => {
                // An empty range adds nothing.
                if low <= *high {
                    ranges.push(ClassUnicodeRange::new(low, *high));
                }
                at += 1;
                prior = None;
            }
            _ => {
                ranges.push(ClassUnicodeRange::new(c, c));
                prior = Some(c);
            }
        }
    }
    Some((Part::Set { negated, class: ClassUnicode::new(ranges) }, at))
}

/// The parts of a glob in our notation. It must be valid.
pub(super) fn read_ours(pattern: &str) -> Vec<Part> {
    let mut parts = vec![];
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        parts.push(match c {
            '*' => Part::Star,
            '?' => Part::Any,
            '\\' => Part::Char(chars.next().unwrap_or('\\')),
            '[' => {
                let negated = chars.next_if_eq(&'!').is_some();
                let mut ranges = vec![];
                while let Some(low) = chars.next_if(|c| *c != ']' || ranges.is_empty()) {
                    let low = if low == '\\' { chars.next().unwrap_or(low) } else { low };
                    let mut ahead = chars.clone();
                    let is_range = ahead.next() == Some('-') && ahead.next() != Some(']');
                    let mut high = low;
                    if is_range {
                        chars.next();
                        high = chars.next().unwrap_or(low);
                        high = if high == '\\' { chars.next().unwrap_or(high) } else { high };
                    }
                    ranges.push(ClassUnicodeRange::new(low, high));
                }
                chars.next();
                Part::Set { negated, class: ClassUnicode::new(ranges) }
            }
            c => Part::Char(c),
        });
    }
    parts
}

/// SQLite's notation of a glob.
pub(super) fn export(parts: &[Part], nocase: bool) -> String {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Star => out.push('*'),
            Part::Any => out.push('?'),
            Part::Char(c) if matches!(c, '*' | '?' | '[') => out.extend(['[', *c, ']']),
            Part::Char(c) => {
                let class = closed(ClassUnicode::new([ClassUnicodeRange::new(*c, *c)]), nocase);
                let has_cases = !c.is_ascii() && class.ranges().len() > 1;
                if has_cases { push_set(&mut out, false, &class) } else { out.push(*c) }
            }
            Part::Set { negated, class } => {
                push_set(&mut out, *negated, &closed(class.clone(), nocase));
            }
        }
    }
    out
}

/// The class with both cases of its letters, if it is matched without case.
fn closed(mut class: ClassUnicode, nocase: bool) -> ClassUnicode {
    if nocase {
        // It fails only where the tables for it are not compiled in.
        let _ = class.try_case_fold_simple();
    }
    class
}

fn push_set(out: &mut String, negated: bool, class: &ClassUnicode) {
    let has = |c: char| class.ranges().iter().any(|r| r.start() <= c && c <= r.end());
    let special = [']', '-', '^'].map(|c| ClassUnicodeRange::new(c, c));
    let mut plain = class.clone();
    plain.difference(&ClassUnicode::new(special));
    if !negated && plain.ranges().is_empty() && has('^') && !has(']') && !has('-') {
        return out.push('^');
    }
    // A bracket is literal as the first member, a dash where no range can begin, `^` anywhere but first.
    out.push_str(if negated { "[^" } else { "[" });
    out.extend([']', '-'].into_iter().filter(|c| has(*c)));
    for range in plain.ranges() {
        // There is no NUL in a text.
        let start = range.start().max('\u{1}');
        if start > range.end() {
            continue;
        }
        out.push(start);
        if start != range.end() {
            out.extend(['-', range.end()]);
        }
    }
    out.extend(Some('^').filter(|c| has(*c)));
    out.push(']');
}

/// The regular expression in our notation that matches the same texts.
pub(super) fn expression(parts: &[Part]) -> String {
    let mut out = String::from("^");
    for part in parts {
        match part {
            Part::Star => out.push_str("(?s:.)*"),
            Part::Any => out.push_str("(?s:.)"),
            Part::Char(c) => out.push_str(&regex_syntax::escape(&c.to_string())),
            Part::Set { negated, class } => {
                out.push_str(if *negated { "[^" } else { "[" });
                for range in class.ranges() {
                    let (start, end) = (u32::from(range.start()), u32::from(range.end()));
                    out.push_str(&format!("\\x{{{start:x}}}-\\x{{{end:x}}}"));
                }
                out.push(']');
            }
        }
    }
    out + "$"
}
