//! The ends of strings, quoted names, numbers and parameters.

use super::{Dialect, Kind, Lexer, byte};

impl Lexer<'_> {
    /// The literal or the quoted name of which one letter at `start` is the prefix.
    pub(super) fn prefixed(&mut self, start: usize, first: u8) -> Option<(Kind, usize)> {
        let quote = self.byte(start + 1) == b'\'';
        if self.dialect == Dialect::Sqlite {
            return (quote && matches!(first, b'x' | b'X')).then(|| self.sqlite_bits(start));
        }
        match (first.to_ascii_lowercase(), self.byte(start + 2)) {
            (b'e', _) if quote => Some(self.string(start + 2, true)),
            (b'n', _) if quote => {
                Some(self.string(start + 2, self.dialect == Dialect::PostgresBackslash))
            }
            (b'b' | b'x', _) if quote => match self.string(start + 2, false) {
                (Kind::String, end) => Some((Kind::Bits, end)),
                unterminated => Some(unterminated),
            },
            (b'u', b'\'') if !quote => Some(self.string(start + 3, false)),
            (b'u', b'"') if !quote => Some(self.quoted(start + 3, b'"')),
            _ => None,
        }
    }

    /// The string whose opening quote is before `from`, with all its continuations.
    pub(super) fn string(&mut self, mut from: usize, has_backslashes: bool) -> (Kind, usize) {
        loop {
            let end = if has_backslashes {
                self.backslash_end(from)
            } else {
                self.quote_end(from, b'\'')
            };
            self.looked(end.unwrap_or(self.bytes.len()) - from);
            let Some(end) = end else { return (Kind::Unterminated, self.bytes.len()) };
            match self.continuation(end) {
                Some(next) => from = next,
                None => return (Kind::String, end),
            }
        }
    }

    /// The name in quotes whose opening quote is before `from`.
    pub(super) fn quoted(&mut self, from: usize, quote: u8) -> (Kind, usize) {
        let end = self.quote_end(from, quote);
        self.looked(end.unwrap_or(self.bytes.len()) - from);
        end.map_or((Kind::Unterminated, self.bytes.len()), |end| (Kind::Quoted, end))
    }

    /// The end of what a quote closes. Two quotes stand for one.
    fn quote_end(&self, from: usize, quote: u8) -> Option<usize> {
        let mut at = from;
        loop {
            at += memchr::memchr(quote, self.rest(at))? + 1;
            if self.byte(at) != quote {
                return Some(at);
            }
            at += 1;
        }
    }

    /// The end of a string in which a backslash makes the next byte an ordinary one.
    fn backslash_end(&self, from: usize) -> Option<usize> {
        let mut at = from;
        loop {
            at += memchr::memchr2(b'\'', b'\\', self.rest(at))? + 1;
            match (self.byte(at - 1), self.byte(at)) {
                (b'\\', _) | (_, b'\'') => at += 1,
                _ => return Some(at),
            }
        }
    }

    /// Where a string that ends at `end` goes on: PostgreSQL joins strings that only blanks with a newline, and
    /// comments to the end of a line, separate. The prefix of the first one holds for all.
    fn continuation(&mut self, end: usize) -> Option<usize> {
        if !self.dialect.is_postgres() {
            return None;
        }
        let (mut at, mut has_newline) = (end, false);
        let found = loop {
            match (self.byte(at), self.byte(at + 1)) {
                (b'\n' | b'\r', _) => {
                    has_newline = true;
                    at += 1;
                }
                (here, _) if byte::is_blank(here) => at += 1,
                (b'-', b'-') => at = self.line_end(at + 2),
                (b'\'', _) => break has_newline.then_some(at + 1),
                _ => break None,
            }
        };
        self.looked(at - end);
        found
    }

    /// `$1`, `$tag$...$tag$`, or in SQLite a variable.
    pub(super) fn dollar(&mut self, start: usize) -> (Kind, usize) {
        if self.dialect == Dialect::Sqlite {
            return self.variable(start);
        }
        let second = self.byte(start + 1);
        if second.is_ascii_digit() {
            return (Kind::Parameter, self.run(start + 2, |byte| byte.is_ascii_digit()));
        }
        let tag_end = self.run(start + 1, |byte| byte != b'$' && byte::is_word(byte));
        if self.byte(tag_end) != b'$' {
            return (Kind::Unknown, start + 1);
        }
        let from = tag_end + 1;
        let tag = self.bytes.get(start..from).unwrap_or_default();
        let end = memchr::memmem::find(self.rest(from), tag).map(|at| from + at + tag.len());
        self.looked(end.unwrap_or(self.bytes.len()) - from);
        end.map_or((Kind::Unterminated, self.bytes.len()), |end| (Kind::String, end))
    }

    /// A variable of SQLite: a sign and a name.
    pub(super) fn variable(&mut self, start: usize) -> (Kind, usize) {
        let end = self.run(start + 1, byte::is_word);
        let kind = if end == start + 1 { Kind::Unknown } else { Kind::Parameter };
        (kind, end)
    }

    /// `[...]` as a quoted name. There is no way to write a `]` in it.
    pub(super) fn bracket(&mut self, start: usize, first: u8) -> (Kind, usize) {
        if first == b']' {
            return (Kind::Unknown, start + 1);
        }
        let end = memchr::memchr(b']', self.rest(start + 1)).map(|at| start + at + 2);
        self.looked(end.unwrap_or(self.bytes.len()) - start);
        end.map_or((Kind::Unterminated, self.bytes.len()), |end| (Kind::Quoted, end))
    }

    /// `x'...'` in SQLite, where anything but pairs of hexadecimal digits makes it no literal.
    fn sqlite_bits(&mut self, start: usize) -> (Kind, usize) {
        let from = start + 2;
        let digits = self.run(from, |byte| byte.is_ascii_hexdigit());
        if self.byte(digits) == b'\'' {
            let kind = if (digits - from).is_multiple_of(2) { Kind::Bits } else { Kind::Unknown };
            return (kind, digits + 1);
        }
        let end = memchr::memchr(b'\'', self.rest(digits)).map(|at| digits + at + 1);
        self.looked(end.unwrap_or(self.bytes.len()) - digits);
        end.map_or((Kind::Unterminated, self.bytes.len()), |end| (Kind::Unknown, end))
    }

    /// A number. Letters that follow are the next word for PostgreSQL before version 15, an error after it.
    pub(super) fn number(&mut self, start: usize) -> (Kind, usize) {
        if self.byte(start) == b'0'
            && let Some(end) = self.radix(start)
        {
            return (Kind::Number, end);
        }
        let mut at = self.digits(start, |byte| byte.is_ascii_digit());
        let is_range = self.dialect.is_postgres() && self.byte(at + 1) == b'.' && at > start;
        if self.byte(at) == b'.' && !is_range {
            at = self.digits(at + 1, |byte| byte.is_ascii_digit());
        }
        if matches!(self.byte(at), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(at + 1), b'+' | b'-'));
            if self.byte(at + 1 + sign).is_ascii_digit() {
                at = self.digits(at + 1 + sign, |byte| byte.is_ascii_digit());
            }
        }
        if self.dialect == Dialect::Sqlite && byte::is_word(self.byte(at)) {
            return (Kind::Unknown, self.run(at, byte::is_word));
        }
        (Kind::Number, at)
    }

    /// The end of `0x1F`, and in PostgreSQL of `0o17` and `0b11`.
    fn radix(&mut self, start: usize) -> Option<usize> {
        let wanted: fn(u8) -> bool = match self.byte(start + 1) {
            b'x' | b'X' => |byte| byte.is_ascii_hexdigit(),
            b'o' | b'O' if self.dialect.is_postgres() => |byte| matches!(byte, b'0'..=b'7'),
            b'b' | b'B' if self.dialect.is_postgres() => |byte| matches!(byte, b'0' | b'1'),
            _ => return None,
        };
        let from = start + 2;
        let underscore = self.dialect.is_postgres() && self.byte(from) == b'_';
        let end = self.digits(from + usize::from(underscore), wanted);
        (end > from + usize::from(underscore)).then_some(end)
    }

    /// The end of digits, with a single `_` allowed between two of them.
    fn digits(&mut self, from: usize, wanted: fn(u8) -> bool) -> usize {
        let mut end = self.run(from, wanted);
        while end > from && self.byte(end) == b'_' && wanted(self.byte(end + 1)) {
            end = self.run(end + 1, wanted);
        }
        end
    }
}
