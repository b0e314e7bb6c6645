//! The statements of a text: where each begins and ends.
//!
//! Promises to find exactly the statements that the server would run, because a rule must see each of them: `SELECT 1;
//! DROP TABLE t` is two statements, and a `;` in a string or in the body of a function ends none. PostgreSQL parses
//! the whole text before it runs any of it, so only texts that it can parse matter; in such a text a `;` is not the
//! end of a statement in two places only:
//!
//! - between `BEGIN ATOMIC` and its `END`, in `CREATE FUNCTION` or `PROCEDURE`, also within `CREATE SCHEMA`. The `END`
//!   is the one directly after a `;` or after `ATOMIC`: the `END` of a `CASE`, or `end` as the name of a column, never
//!   is. So neither has to be counted, and neither can be used to keep the body open;
//! - in the parentheses of `CREATE RULE`.
//!
//! In SQLite it is `CREATE TRIGGER`, which ends with the `END` directly after a `;`. Every other `;` ends a statement,
//! in parentheses too: the server refuses such a text, and a rule sees more of it rather than less.
//!
//! Whatever the text, the pieces contain every token but the `;` between them; only a piece without any token is left
//! out. A comment belongs to the statement before which or within which it stands. Never changes the text.

use super::token::{Dialect, Kind, Lexer, Token};
use std::ops::Range;

/// The places of the statements of a text, in order.
pub fn split(text: &str, dialect: Dialect) -> Statements<'_> {
    Statements { lexer: Lexer::new(text, dialect), at: 0, is_done: false }
}

/// The places of the statements of a text, without their `;` and the white space around them.
#[derive(Clone, Debug)]
pub struct Statements<'a> {
    lexer: Lexer<'a>,
    /// Where the next statement begins.
    at: usize,
    is_done: bool,
}

impl Statements<'_> {
    /// The place of a piece without the white space around it.
    fn piece(&self, end: usize) -> Range<usize> {
        let piece = self.lexer.text().get(self.at..end).unwrap_or_default();
        let is_blank = |c: char| matches!(c, ' ' | '\t'..='\r');
        let after = piece.trim_start_matches(is_blank);
        let start = end - after.len();
        let trimmed = after.trim_end_matches(is_blank);
        // In SQLite a comment that is never closed needs one character after `/*`; without it, they are operators.
        let is_comment = self.lexer.dialect() == Dialect::Sqlite && trimmed.ends_with("/*");
        start..start + if is_comment { after.len() } else { trimmed.len() }
    }
}

impl Iterator for Statements<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        if self.is_done {
            return None;
        }
        let text = self.lexer.text();
        let rest = text.as_bytes().get(self.at..).unwrap_or_default();
        // A text without any further `;` is one statement, whatever it says, as soon as it has one token.
        let has_more = memchr::memchr(b';', rest).is_some();
        let mut body = Body::new(self.lexer.dialect());
        let mut is_empty = true;
        while let Some(token) = self.lexer.next_solid() {
            if token.kind == Kind::Semicolon && !body.holds() {
                let piece = self.piece(token.start);
                self.at = token.end;
                if !is_empty {
                    return Some(piece);
                }
                continue;
            }
            is_empty = false;
            if !has_more {
                break;
            }
            body.read(token, token.text(text));
        }
        self.is_done = true;
        (!is_empty).then(|| self.piece(text.len()))
    }
}

/// How far the words were read that begin a statement with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// Before the first token.
    Start,
    /// After `EXPLAIN` in SQLite, which explains triggers too.
    Explain,
    /// After `CREATE`, and `OR REPLACE`, `TEMP` and the like.
    Create,
    /// After `CREATE SCHEMA` or the body of a routine: there may be more to create.
    Schema,
    /// After `CREATE` within `CREATE SCHEMA`.
    SchemaCreate,
    /// A function or procedure.
    Routine,
    /// A rule: its actions may be in parentheses.
    Rule,
    /// A trigger of SQLite, before its `BEGIN`.
    Trigger,
    /// A trigger of SQLite, in its body.
    TriggerBody,
    /// A statement without a body.
    Plain,
}

/// Whether a `;` is part of a statement, decided token by token.
#[derive(Clone, Copy, Debug)]
struct Body {
    is_postgres: bool,
    head: Head,
    /// How many bodies of routines are open.
    level: usize,
    /// How many parentheses are open.
    depth: usize,
    before: Before,
}

/// What the token before was, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Begin,
    /// `;` within a body, or `ATOMIC`: here a statement of the body begins, or the body ends.
    Boundary,
    /// `.` or `AS`: what follows is a name, even if it looks like a keyword.
    Name,
    Other,
}

impl Body {
    const fn new(dialect: Dialect) -> Self {
        let is_postgres = dialect.is_postgres();
        Self { is_postgres, head: Head::Start, level: 0, depth: 0, before: Before::Other }
    }

    /// Whether a `;` would not end the statement.
    fn holds(&self) -> bool {
        self.level > 0
            || self.head == Head::TriggerBody
            || (self.head == Head::Rule && self.depth > 0)
    }

    fn read(&mut self, token: Token, text: &str) {
        let mut before = Before::Other;
        match token.kind {
            Kind::Open => self.depth += 1,
            Kind::Close => self.depth = self.depth.saturating_sub(1),
            Kind::Semicolon if self.depth == 0 => {
                before = Before::Boundary;
                if self.is_postgres {
                    self.head = Head::Start;
                }
            }
            Kind::Dot => before = Before::Name,
            Kind::Word if self.depth == 0 => before = self.word(text),
            _ => {}
        }
        if !matches!(token.kind, Kind::Word | Kind::Semicolon) {
            self.head = match self.head {
                Head::Start | Head::Explain | Head::Create => Head::Plain,
                Head::SchemaCreate => Head::Schema,
                head => head,
            };
        }
        self.before = before;
    }

    fn word(&mut self, word: &str) -> Before {
        let is = |wanted: &str| word.eq_ignore_ascii_case(wanted);
        match self.head {
            Head::TriggerBody if self.before == Before::Boundary && is("END") => {
                self.head = Head::Plain;
            }
            Head::Trigger if is("BEGIN") => self.head = Head::TriggerBody,
            Head::Routine if self.before == Before::Begin && is("ATOMIC") => {
                self.level += 1;
                self.head = Head::Start;
                return Before::Boundary;
            }
            Head::Start if self.level > 0 && self.before == Before::Boundary && is("END") => {
                self.level -= 1;
                self.head = Head::Schema;
            }
            Head::Plain | Head::Rule | Head::Trigger | Head::TriggerBody => {}
            head => self.head = self.next_head(head, word),
        }
        match () {
            () if is("BEGIN") => Before::Begin,
            () if is("AS") => Before::Name,
            () => Before::Other,
        }
    }

    fn next_head(&self, head: Head, word: &str) -> Head {
        let is = |wanted: &str| word.eq_ignore_ascii_case(wanted);
        let is_create = is("CREATE") && self.before != Before::Name;
        match head {
            Head::Start | Head::Explain if is_create => Head::Create,
            Head::Start if !self.is_postgres && is("EXPLAIN") => Head::Explain,
            Head::Explain if is("QUERY") || is("PLAN") => Head::Explain,
            Head::Create | Head::SchemaCreate if is("OR") || is("REPLACE") => head,
            Head::Create if !self.is_postgres && (is("TEMP") || is("TEMPORARY")) => head,
            Head::Create if !self.is_postgres && is("TRIGGER") => Head::Trigger,
            Head::Create | Head::SchemaCreate
                if self.is_postgres && (is("FUNCTION") || is("PROCEDURE")) =>
            {
                Head::Routine
            }
            Head::Create if self.is_postgres && is("RULE") => Head::Rule,
            Head::Create if self.is_postgres && is("SCHEMA") => Head::Schema,
            Head::Schema | Head::Routine if is_create => Head::SchemaCreate,
            Head::Schema | Head::SchemaCreate => Head::Schema,
            Head::Routine => Head::Routine,
            _ => Head::Plain,
        }
    }
}

#[cfg(test)]
mod tests;
