//! Comdb2's normalised form of a statement, and its fingerprint.
//!
//! Owns the form that Comdb2 gives a statement so that statements that differ only in values, white space, comments
//! and case are one: values become `?`, keywords capitals, names small letters, and a space stays only between two
//! words. The fingerprint is the MD5 of that form. For a statement that Comdb2 would accept, both are the same as
//! Comdb2's, byte for byte, with its quirks: `+` and `-` after `)` vanish, a string after `FROM` is a name, and the
//! arguments of `EXEC PROCEDURE` are left out. Rules that name fingerprints can so be taken over.
//!
//! Where PostgreSQL reads a text differently, [`Dialect::Postgres`] does too: `$$...$$` and `E'...'` are strings,
//! comments nest, `$1::int` is a parameter and a cast, `a[1]` has an index. And a string is never a name: `IS DISTINCT
//! FROM 'x'` would otherwise carry the value into the fingerprint. Nor does an unfinished string get into it.
//!
//! Promises one pass, and no memory but the caller's buffer, except for a name that contains its own quote. Takes one
//! statement, as [`super::split()`] finds it.

mod keyword;

use super::cursor;
use super::token::{Dialect, Kind, Lexer, Token, is_word_byte};
use keyword::Keyword;
use md5::{Digest, Md5};
use std::fmt;

/// The MD5 of the normalised form. Written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 16]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Writes the normalised form to `out`, which is emptied first, and returns its fingerprint.
pub fn fingerprint(statement: &str, dialect: Dialect, out: &mut String) -> Fingerprint {
    normalize(statement, dialect, out);
    Fingerprint(Md5::digest(out.as_bytes()).into())
}

/// Writes the normalised form to `out`, which is emptied first.
pub fn normalize(statement: &str, dialect: Dialect, out: &mut String) {
    out.clear();
    let mut form = Form {
        dialect,
        out,
        last: Last::Start,
        takes_string_as_name: false,
        is_procedure: false,
        depth: 0,
        list: None,
    };
    for token in Lexer::new(statement, dialect) {
        if !token.is_blank() && !form.read(token, statement) {
            break;
        }
    }
    if form.last != Last::Semicolon {
        out.push(';');
    }
}

/// The form under construction.
struct Form<'a> {
    dialect: Dialect,
    out: &'a mut String,
    last: Last,
    /// Whether the next string is a name, as in `FROM 'table'`.
    takes_string_as_name: bool,
    /// After `EXEC PROCEDURE`.
    is_procedure: bool,
    /// How many parentheses are open. Comdb2 counts below zero too.
    depth: isize,
    /// The parenthesis after `IN`, as long as only values follow it: its place in the form, and its depth.
    list: Option<(usize, isize)>,
}

/// What the token before was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Start,
    /// A value.
    Value,
    /// A name.
    Name,
    Keyword(Keyword),
    Open,
    Semicolon,
    Other,
}

impl Last {
    /// Whether a `+` or `-` after it has two operands for Comdb2. A `)` is none.
    fn is_operand(self) -> bool {
        matches!(self, Self::Value | Self::Name | Self::Keyword(Keyword::Null))
    }
}

impl Form<'_> {
    /// Adds a token. False if nothing more may follow.
    fn read(&mut self, token: Token, statement: &str) -> bool {
        let text = token.text(statement);
        let before = self.last;
        let last = match token.kind {
            Kind::Open if self.is_procedure && self.depth == 0 => {
                self.out.push_str("()");
                self.last = Last::Open;
                return false;
            }
            Kind::Open => {
                self.depth += 1;
                if before == Last::Keyword(Keyword::In) {
                    self.list = Some((self.out.len(), self.depth));
                }
                self.out.push('(');
                Last::Open
            }
            Kind::Close => self.close(),
            Kind::Word => self.word(text, before),
            Kind::Quoted => self.quoted(text),
            Kind::String if self.takes_string_as_name => self.quoted(text),
            Kind::String | Kind::Bits | Kind::Number | Kind::Parameter | Kind::Unterminated => {
                self.out.push('?');
                Last::Value
            }
            Kind::Sign if matches!(text, "+" | "-") => {
                if before.is_operand() {
                    self.out.push_str(text);
                }
                Last::Other
            }
            Kind::Semicolon => {
                self.out.push(';');
                Last::Semicolon
            }
            Kind::Unknown if text == "{" => return self.block(token.start, statement),
            _ => self.plain(text, Last::Other),
        };
        self.takes_string_as_name = self.names_follow(last, before);
        self.last = last;
        true
    }

    fn close(&mut self) -> Last {
        if let Some((start, _)) = self.list.take_if(|(_, depth)| *depth == self.depth) {
            self.out.truncate(start + 1);
            self.out.push_str("?,?,?");
        }
        self.depth -= 1;
        self.out.push(')');
        Last::Other
    }

    fn word(&mut self, word: &str, before: Last) -> Last {
        let Some(keyword) = Keyword::of(word) else {
            self.separate();
            self.list = None;
            self.push_lower(word);
            return Last::Name;
        };
        match keyword {
            Keyword::Null => {
                let is_test = matches!(before, Last::Keyword(Keyword::Is | Keyword::Not));
                self.out.push_str(if is_test { " NULL" } else { "?" });
                return Last::Keyword(keyword);
            }
            Keyword::Select => {
                self.list = None;
                self.is_procedure |= before == Last::Keyword(Keyword::Exec);
            }
            Keyword::Procedure => self.is_procedure |= before == Last::Keyword(Keyword::Exec),
            _ => {}
        }
        self.plain(word, Last::Keyword(keyword))
    }

    /// A name in quotes: without them if it could be written so.
    fn quoted(&mut self, quoted: &str) -> Last {
        let name = cursor::unquote_whole(quoted);
        self.list = None;
        if is_one_name(&name) {
            self.separate();
            self.push_lower(&name);
        } else {
            self.out.push('"');
            let start = self.out.len();
            for (part, piece) in name.split('"').enumerate() {
                self.out.push_str(if part > 0 { "\"\"" } else { "" });
                self.out.push_str(piece);
            }
            self.lower_from(start);
            self.out.push('"');
        }
        Last::Name
    }

    /// `{`: the text of a Comdb2 procedure or schema reaches to the end, and stays as it is.
    fn block(&mut self, start: usize, statement: &str) -> bool {
        let block = statement.get(start..).unwrap_or_default();
        if block.ends_with('}') {
            self.separate();
            self.out.push_str(block);
        } else {
            self.plain(block, Last::Other);
        }
        self.last = Last::Other;
        false
    }

    /// A word that is kept, in capitals, or a sign.
    fn plain(&mut self, text: &str, last: Last) -> Last {
        if text.as_bytes().first().is_some_and(|byte| is_word_byte(*byte)) {
            self.separate();
        }
        let start = self.out.len();
        self.out.push_str(text);
        self.upper_from(start);
        last
    }

    /// A space if the form ends with a word.
    fn separate(&mut self) {
        if self.out.as_bytes().last().is_some_and(|byte| is_word_byte(*byte)) {
            self.out.push(' ');
        }
    }

    fn push_lower(&mut self, text: &str) {
        let start = self.out.len();
        self.out.push_str(text);
        self.lower_from(start);
    }

    fn lower_from(&mut self, start: usize) {
        if let Some(text) = self.out.get_mut(start..) {
            text.make_ascii_lowercase();
        }
    }

    fn upper_from(&mut self, start: usize) {
        if let Some(text) = self.out.get_mut(start..) {
            text.make_ascii_uppercase();
        }
    }

    /// Whether the next string is a name. After `INSERT INTO t(` only the first of several is.
    fn names_follow(&self, last: Last, before: Last) -> bool {
        if self.dialect.is_postgres() {
            return false;
        }
        let with_columns = Last::Keyword(Keyword::TableWithColumns);
        match last {
            Last::Keyword(Keyword::Table | Keyword::TableWithColumns) => true,
            Last::Open => self.takes_string_as_name,
            Last::Name => before == with_columns,
            _ => false,
        }
    }
}

/// Whether a name in quotes would be the same name without them, by Comdb2's own test: it is one token, and no keyword.
fn is_one_name(name: &str) -> bool {
    let first = Lexer::new(name, Dialect::Sqlite).next().filter(|token| token.end == name.len());
    first.is_some_and(|token| match token.kind {
        Kind::Word => Keyword::of(name).is_none(),
        Kind::Quoted => true,
        _ => false,
    })
}

#[cfg(test)]
mod tests;
