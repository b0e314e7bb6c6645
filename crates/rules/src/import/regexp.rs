//! Regular expressions in the notation of SQLite's extension, which Comdb2 uses, and in ours.
//!
//! SQLite's differs from ours in many details: a dot matches line ends too; `^` at the start binds all alternatives;
//! classes such as `\w` and the folding of case know ASCII alone; brackets have other rules; and some combinations that
//! SQLite accepts do not mean what they say (a repetition of a repetition, something behind `$`). The latter are
//! refused. Importing parses SQLite's notation (this file); exporting writes a parsed expression of ours (`show`).

mod show;

pub(super) use show::export;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// The deepest nesting of groups.
const NEST_MAX: usize = 50;

/// The most repetitions in braces. Fewer fit in a rule.
const REPEAT_MAX: u32 = 10_000;

/// Why an expression is refused: the index of a character, and the reason.
type Refused = (usize, String);

/// Our notation of an expression in SQLite's, and whether it ignores case.
pub(super) fn import(pattern: &str, nocase: bool) -> Result<(String, bool), Refused> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut parser = Parser::new(&chars, nocase);
    let plain = parser.whole()?;
    // Our folding of case goes beyond ASCII, SQLite's does not.
    if !(nocase && parser.has_beyond) {
        return Ok((plain, nocase));
    }
    let mut parser = Parser { expand: true, ..Parser::new(&chars, nocase) };
    Ok((parser.whole()?, false))
}

struct Parser<'p> {
    chars: &'p [char],
    at: usize,
    nocase: bool,
    /// Whether both cases are written out.
    expand: bool,
    depth: usize,
    has_dot: bool,
    /// Whether it has characters beyond ASCII.
    has_beyond: bool,
}

struct Alternatives {
    text: String,
    is_single: bool,
    /// Whether one of them ends with `$`.
    has_end: bool,
}

/// What was read last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    /// Something that can be repeated.
    Atom,
    /// `^` or `\b`.
    Look,
    Repeated,
    /// Something that ends with `$`.
    End,
}

impl<'p> Parser<'p> {
    fn new(chars: &'p [char], nocase: bool) -> Self {
        let (expand, has_dot, has_beyond) = (false, false, false);
        Self { chars, at: 0, nocase, expand, depth: 0, has_dot, has_beyond }
    }

    /// The whole expression.
    fn whole(&mut self) -> Result<String, Refused> {
        let is_anchored = self.take('^');
        let alternatives = self.alternatives()?;
        if self.at < self.chars.len() {
            return self.refuse(self.at, "this parenthesis closes no group");
        }
        let flags = if self.has_dot { "(?s)" } else { "" };
        let text = alternatives.text;
        Ok(match (is_anchored, alternatives.is_single) {
            (true, true) => format!("{flags}^{text}"),
            (true, false) => format!("{flags}^({text})"),
            (false, _) => format!("{flags}{text}"),
        })
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn refuse<T>(&self, at: usize, why: &str) -> Result<T, Refused> {
        Err((at, why.to_owned()))
    }

    fn alternatives(&mut self) -> Result<Alternatives, Refused> {
        let (mut text, mut has_end) = self.sequence()?;
        let mut is_single = true;
        while self.take('|') {
            let (next, next_has_end) = self.sequence()?;
            text.push('|');
            text.push_str(&next);
            is_single = false;
            has_end |= next_has_end;
        }
        Ok(Alternatives { text, is_single, has_end })
    }

    /// One alternative, and whether it ends with `$`.
    fn sequence(&mut self) -> Result<(String, bool), Refused> {
        let (mut out, mut last) = (String::new(), Last::Nothing);
        while let Some(c) = self.peek().filter(|c| !matches!(c, '|' | ')')) {
            let at = self.at;
            self.at += 1;
            if last == Last::End {
                return self.refuse(at, "Comdb2 matches nothing behind \"$\"");
            }
            if matches!(c, '*' | '+' | '?' | '{') {
                match last {
                    Last::Atom => {}
                    Last::Repeated => {
                        return self.refuse(at, "expected no repetition of a repetition");
                    }
                    _ => return self.refuse(at, "expected something to repeat before this"),
                }
                out.push_str(&self.repetition(c, at)?);
                last = Last::Repeated;
                continue;
            }
            last = self.element(c, at, &mut out)?;
        }
        Ok((out, last == Last::End))
    }

    fn element(&mut self, c: char, at: usize, out: &mut String) -> Result<Last, Refused> {
        match c {
            '(' => {
                self.depth += 1;
                if self.depth > NEST_MAX {
                    return self.refuse(at, "expected at most 50 groups within each other");
                }
                let inner = self.alternatives()?;
                self.depth -= 1;
                if !self.take(')') {
                    return self.refuse(at, "this group has no closing parenthesis");
                }
                out.push_str(&format!("({})", inner.text));
                return Ok(if inner.has_end { Last::End } else { Last::Atom });
            }
            '.' => {
                self.has_dot = true;
                out.push('.');
            }
            '^' => {
                out.push('^');
                return Ok(Last::Look);
            }
            '$' => {
                out.push('$');
                return Ok(Last::End);
            }
            '[' => self.class(at, out)?,
            '\\' => return self.escape(at, out),
            c => self.literal(c, out),
        }
        Ok(Last::Atom)
    }

    fn literal(&mut self, c: char, out: &mut String) {
        self.has_beyond |= !c.is_ascii();
        if self.expand && c.is_ascii_alphabetic() {
            out.extend(['[', c.to_ascii_uppercase(), c.to_ascii_lowercase(), ']']);
        } else {
            out.push_str(&regex_syntax::escape(&c.to_string()));
        }
    }

    /// A backslash outside brackets, and what follows.
    fn escape(&mut self, at: usize, out: &mut String) -> Result<Last, Refused> {
        let class = match self.peek() {
            Some('b') => "(?-u:\\b)",
            Some('d') => "[0-9]",
            Some('D') => "[^0-9]",
            Some('s') => "[\\t-\\r ]",
            Some('S') => "[^\\t-\\r ]",
            Some('w') => "[0-9A-Za-z_]",
            Some('W') => "[^0-9A-Za-z_]",
            _ => {
                let c = self.escaped(at)?;
                self.literal(c, out);
                return Ok(Last::Atom);
            }
        };
        out.push_str(class);
        Ok(if self.next() == Some('b') { Last::Look } else { Last::Atom })
    }

    /// The character that an escape means.
    fn escaped(&mut self, at: usize) -> Result<char, Refused> {
        let c = match self.next() {
            Some('a') => '\u{7}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(c) if "\\()*.+?[$^{|}]".contains(c) => c,
            Some(c @ ('x' | 'u')) => {
                let len = if c == 'x' { 2 } else { 4 };
                let digits = self.chars.get(self.at..self.at + len).unwrap_or_default();
                let digits: String = digits.iter().filter(|c| c.is_ascii_hexdigit()).collect();
                self.at += len;
                let number = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == len);
                match number.and_then(char::from_u32).filter(|c| *c != '\0') {
                    Some(c) => c,
                    None => return self.refuse(at, "expected the number of a character"),
                }
            }
            _ => return self.refuse(at, "expected an escape that SQLite knows"),
        };
        if self.nocase && c.is_ascii_uppercase() {
            return self.refuse(at, "in mode NOCASE, Comdb2 never matches this capital letter");
        }
        Ok(c)
    }

    /// A set in brackets. The first character is literal, whatever it is.
    fn class(&mut self, open: usize, out: &mut String) -> Result<(), Refused> {
        let negated = self.take('^');
        let mut ranges = vec![];
        loop {
            let at = self.at;
            let low = self.member(open)?;
            let high = if self.take('-') { self.member(open)? } else { low };
            if low > high {
                return self.refuse(at, "this range is empty, expected its lower end first");
            }
            ranges.push(ClassUnicodeRange::new(low, high));
            if self.take(']') {
                break;
            }
        }
        let mut class = ClassUnicode::new(ranges);
        self.has_beyond |= class.ranges().iter().any(|range| !range.end().is_ascii());
        if self.nocase {
            // SQLite compares lower case texts with it, so that capital letters in it never match.
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new('A', 'Z')]));
        }
        if self.expand {
            let mut upper = class.clone();
            upper.intersect(&ClassUnicode::new([ClassUnicodeRange::new('a', 'z')]));
            let upper = upper.ranges().iter().map(|range| {
                let [start, end] = [range.start(), range.end()].map(|c| c.to_ascii_uppercase());
                ClassUnicodeRange::new(start, end)
            });
            class.union(&ClassUnicode::new(upper.collect::<Vec<_>>()));
        }
        if class.ranges().is_empty() {
            return self.refuse(open, "Comdb2 matches no character with this set");
        }
        out.push_str(if negated { "[^" } else { "[" });
        for range in class.ranges() {
            push_member(out, range.start());
            if range.start() != range.end() {
                out.push('-');
                push_member(out, range.end());
            }
        }
        out.push(']');
        Ok(())
    }

    fn member(&mut self, open: usize) -> Result<char, Refused> {
        let at = self.at;
        match self.next() {
            None => self.refuse(open, "this set has no closing bracket"),
            Some('[') if self.peek() == Some(':') => {
                self.refuse(at, "Comdb2 has no classes like [:alpha:]")
            }
            Some('\\') => self.escaped(at),
            Some(c) if self.nocase => Ok(c.to_ascii_lowercase()),
            Some(c) => Ok(c),
        }
    }

    fn repetition(&mut self, c: char, at: usize) -> Result<String, Refused> {
        if c != '{' {
            return Ok(c.to_string());
        }
        let min = self.number(at)?;
        let max = if self.take(',') { self.number(at)? } else { min };
        if !self.take('}') {
            return self.refuse(at, "expected a repetition like {2}, {2,} or {2,4}");
        }
        match (min, max) {
            (0, 0) => self.refuse(at, "expected a repetition of at least one"),
            (min, 0) => Ok(format!("{{{min},}}")),
            (min, max) if max < min => {
                self.refuse(at, "expected the lower number of repetitions first")
            }
            (min, max) if min == max => Ok(format!("{{{min}}}")),
            (min, max) => Ok(format!("{{{min},{max}}}")),
        }
    }

    fn number(&mut self, at: usize) -> Result<u32, Refused> {
        let mut number = 0u32;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            self.at += 1;
            number = number.saturating_mul(10).saturating_add(digit);
            if number > REPEAT_MAX {
                return self.refuse(at, "expected at most 10000 repetitions");
            }
        }
        Ok(number)
    }
}

/// A member of a set in our notation.
fn push_member(out: &mut String, c: char) {
    if c.is_ascii_alphanumeric() || (!c.is_ascii() && !c.is_control()) {
        out.push(c);
    } else {
        out.push_str(&format!("\\x{:02x}", u32::from(c)));
    }
}
