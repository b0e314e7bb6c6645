//! The lexer: the tokens of a text, blanks and comments included.
//!
//! Owns the form of every token, as PostgreSQL's and SQLite's own lexers define it. Promises that the tokens cover the
//! text without a gap, that each begins and ends between two characters, and that every byte is looked at a bounded
//! number of times. A string, comment or quoted name without its end is a token of its own kind that reaches to the
//! end of the text; the server refuses such a statement.
//!
//! The lexer must find the same ends of strings and comments as the server, or a client could hide a statement in
//! what only one of the two takes for a string. Hence three fine points of PostgreSQL: `E'a'` that is continued after
//! a newline stays a string with backslashes, a comment contains comments, and `--` ends at `\r` too. In SQLite none
//! of the three is so.
//!
//! Never allocates, and never decodes a literal.

mod byte;
mod literal;

use byte::Class;
pub(super) use byte::is_word as is_word_byte;

/// Whose rules the text follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL with `standard_conforming_strings = on`.
    Postgres,
    /// PostgreSQL with `standard_conforming_strings = off`: a backslash in `'...'` escapes the next character.
    PostgresBackslash,
    /// SQLite and Comdb2.
    Sqlite,
}

impl Dialect {
    /// Whether this is one of the two forms of PostgreSQL.
    pub const fn is_postgres(self) -> bool {
        !matches!(self, Self::Sqlite)
    }
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// White space.
    Blank,
    /// `-- ...` without its newline, or `/* ... */`.
    Comment,
    /// A keyword or a name without quotes.
    Word,
    /// A name in quotes: `"..."`, `U&"..."`; in SQLite also `[...]` and backticks.
    Quoted,
    /// `'...'`, `E'...'`, `N'...'`, `U&'...'` and `$tag$...$tag$`. Parts that PostgreSQL joins are one token.
    String,
    /// `X'...'` and `B'...'`.
    Bits,
    /// A number without its sign.
    Number,
    /// `$1`; in SQLite `?`, `?1`, `:a`, `@a`, `#a` and `$a`.
    Parameter,
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// `,`.
    Comma,
    /// `.`.
    Dot,
    /// `;`.
    Semicolon,
    /// An operator, `::`, `[`, `]` and other signs.
    Sign,
    /// A string, a quoted name or a comment without its end.
    Unterminated,
    /// No token of the dialect: one byte, or in SQLite a literal that is not well formed.
    Unknown,
}

/// A token and its place in the text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Its first byte.
    pub start: usize,
    /// The byte after its last one.
    pub end: usize,
}

impl Token {
    /// The text of the token; empty if the token is not of this text.
    pub fn text<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.start..self.end).unwrap_or_default()
    }

    /// Whether the token separates others and says nothing itself.
    pub const fn is_blank(&self) -> bool {
        matches!(self.kind, Kind::Blank | Kind::Comment)
    }
}

/// The tokens of a text, in order.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    dialect: Dialect,
    /// Up to here every byte is a `+` or `-` that is a token alone.
    signs_end: usize,
    /// How many bytes were looked at.
    #[cfg(test)]
    pub(super) steps: u64,
}

impl<'a> Lexer<'a> {
    /// Begins at the first byte of the text.
    pub const fn new(text: &'a str, dialect: Dialect) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            dialect,
            signs_end: 0,
            #[cfg(test)]
            steps: 0,
        }
    }

    /// The next token that is neither blank nor a comment.
    #[inline]
    pub fn next_solid(&mut self) -> Option<Token> {
        loop {
            let token = self.next()?;
            if !token.is_blank() {
                return Some(token);
            }
        }
    }

    /// The text that is lexed.
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// Whose rules it follows.
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Kind and end of the token whose first byte is `first`.
    fn token(&mut self, start: usize, first: u8) -> (Kind, usize) {
        let one = start + 1;
        match byte::class(first) {
            Class::Blank => (Kind::Blank, self.run(one, byte::is_blank)),
            Class::Letter => self.word(start, first),
            Class::Digit => self.number(start),
            Class::Quote => self.string(one, self.dialect == Dialect::PostgresBackslash),
            Class::DoubleQuote => self.quoted(one, b'"'),
            Class::Dollar => self.dollar(start),
            Class::Open => (Kind::Open, one),
            Class::Close => (Kind::Close, one),
            Class::Comma => (Kind::Comma, one),
            Class::Semicolon => (Kind::Semicolon, one),
            Class::Dot => self.dot(start),
            Class::Bracket if self.dialect.is_postgres() => (Kind::Sign, one),
            Class::Bracket => self.bracket(start, first),
            Class::Colon if self.dialect.is_postgres() => self.colon(start),
            Class::Colon => self.variable(start),
            Class::Operator => self.operator(start, first),
            Class::Unknown => (Kind::Unknown, one),
        }
    }

    fn word(&mut self, start: usize, first: u8) -> (Kind, usize) {
        // Only one letter directly before a quote is a prefix: `xE'...'` is a name and a string.
        if matches!(self.byte(start + 1), b'\'' | b'&')
            && let Some(found) = self.prefixed(start, first)
        {
            return found;
        }
        (Kind::Word, self.run(start + 1, byte::is_word))
    }

    /// A comment if one begins at `start`, otherwise the longest operator.
    fn operator(&mut self, start: usize, first: u8) -> (Kind, usize) {
        if start < self.signs_end {
            return (Kind::Sign, start + 1);
        }
        let second = self.byte(start + 1);
        match (first, second) {
            (b'-', b'-') => (Kind::Comment, self.line_end(start + 2)),
            (b'/', b'*') => self.block_comment(start),
            _ if self.dialect == Dialect::Sqlite => self.sqlite_operator(start, first, second),
            _ => (Kind::Sign, self.postgres_operator(start)),
        }
    }

    /// The end of the operator, by the rules of PostgreSQL: it ends before a comment; and if it contains none of the
    /// characters that standard SQL lacks, it does not end in `+` or `-`, so that `a=-1` needs no space.
    fn postgres_operator(&mut self, start: usize) -> usize {
        let (mut at, mut kept, mut is_own) = (start, start + 1, false);
        loop {
            let here = self.byte(at);
            let begins_comment = matches!((here, self.byte(at + 1)), (b'-', b'-') | (b'/', b'*'));
            if byte::class(here) != Class::Operator || begins_comment {
                break;
            }
            at += 1;
            is_own |=
                matches!(here, b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'%');
            if !matches!(here, b'+' | b'-') {
                kept = at;
            }
        }
        self.looked(at - start);
        if is_own {
            return at;
        }
        // What is left of the run is known, and need not be looked at once for every sign in it.
        self.signs_end = at;
        kept
    }

    fn sqlite_operator(&mut self, start: usize, first: u8, second: u8) -> (Kind, usize) {
        let len = match (first, second) {
            (b'@' | b'#', _) => return self.variable(start),
            (b'?', _) => return (Kind::Parameter, self.run(start + 1, |b| b.is_ascii_digit())),
            (b'`', _) => return self.quoted(start + 1, b'`'),
            (b'!' | b'^', _) if second != b'=' || first == b'^' => {
                return (Kind::Unknown, start + 1);
            }
            (b'-', b'>') if self.byte(start + 2) == b'>' => 3,
            (b'-', b'>') => 2,
            (b'=' | b'<' | b'>' | b'!', b'=') => 2,
            (b'<', b'>' | b'<') | (b'>', b'>') | (b'|', b'|') => 2,
            _ => 1,
        };
        (Kind::Sign, start + len)
    }

    fn colon(&self, start: usize) -> (Kind, usize) {
        let len = if matches!(self.byte(start + 1), b':' | b'=') { 2 } else { 1 };
        (Kind::Sign, start + len)
    }

    fn dot(&mut self, start: usize) -> (Kind, usize) {
        match self.byte(start + 1) {
            b'0'..=b'9' => self.number(start),
            b'.' if self.dialect.is_postgres() => (Kind::Sign, start + 2),
            _ => (Kind::Dot, start + 1),
        }
    }

    /// The end of a comment that ends with its line.
    fn line_end(&mut self, from: usize) -> usize {
        let rest = self.rest(from);
        let found = if self.dialect.is_postgres() {
            memchr::memchr2(b'\n', b'\r', rest)
        } else {
            memchr::memchr(b'\n', rest)
        };
        let end = found.map_or(self.bytes.len(), |at| from + at);
        self.looked(end - from);
        end
    }

    fn block_comment(&mut self, start: usize) -> (Kind, usize) {
        let len = self.bytes.len();
        let from = start + 2;
        if self.dialect.is_postgres() {
            let end = self.nested_end(from);
            self.looked(end.unwrap_or(len) - start);
            return end.map_or((Kind::Unterminated, len), |end| (Kind::Comment, end));
        }
        if from == len {
            // SQLite takes `/*` at the very end for two operators.
            return (Kind::Sign, start + 1);
        }
        let end = memchr::memmem::find(self.rest(from), b"*/").map_or(len, |at| from + at + 2);
        self.looked(end - start);
        (Kind::Comment, end)
    }

    /// The end of a comment that may contain others.
    fn nested_end(&self, from: usize) -> Option<usize> {
        let (mut at, mut depth) = (from, 1usize);
        while depth > 0 {
            at += memchr::memchr2(b'*', b'/', self.rest(at))?;
            match (self.byte(at), self.byte(at + 1)) {
                (b'*', b'/') => {
                    depth -= 1;
                    at += 2;
                }
                (b'/', b'*') => {
                    depth += 1;
                    at += 2;
                }
                _ => at += 1,
            }
        }
        Some(at)
    }

    /// The first byte from `at` on that is not wanted.
    fn run(&mut self, at: usize, wanted: impl Fn(u8) -> bool) -> usize {
        let rest = self.rest(at);
        let len = rest.iter().position(|byte| !wanted(*byte)).unwrap_or(rest.len());
        self.looked(len + 1);
        at + len
    }

    /// The byte at this place; 0, which belongs to no token, after the end.
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn rest(&self, at: usize) -> &'a [u8] {
        self.bytes.get(at..).unwrap_or_default()
    }

    /// Counts bytes that were looked at, for the test that time is linear.
    #[inline]
    #[cfg_attr(not(test), allow(clippy::unused_self))]
    fn looked(&mut self, _bytes: usize) {
        #[cfg(test)]
        {
            self.steps += _bytes as u64;
        }
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    #[inline]
    fn next(&mut self) -> Option<Token> {
        let start = self.at;
        let first = *self.bytes.get(start)?;
        self.looked(1);
        let (kind, end) = self.token(start, first);
        self.at = end;
        Some(Token { kind, start, end })
    }
}

#[cfg(test)]
mod tests;
