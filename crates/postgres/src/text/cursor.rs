//! Reads the words of a statement one after the other, with one token to look at before it is taken.
//!
//! Owns what a name is: PostgreSQL folds a name without quotes to lower case and cuts every name to
//! [`IDENTIFIER_BYTES_MAX`] bytes, so two spellings of one name give the same text here. Blanks and comments are never
//! seen. Allocates only for a name that is not written as it is stored.

use super::token::{Dialect, Kind, Lexer, Token};
use std::borrow::Cow;

/// The longest name that PostgreSQL stores, in bytes. It cuts longer ones.
pub const IDENTIFIER_BYTES_MAX: usize = 63;

/// The tokens of a statement, without blanks and comments.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    lexer: Lexer<'a>,
    ahead: Option<Token>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, dialect: Dialect) -> Self {
        let mut lexer = Lexer::new(text, dialect);
        let ahead = lexer.next_solid();
        Self { lexer, ahead }
    }

    /// Takes the next token.
    pub(super) fn next(&mut self) -> Option<Token> {
        let token = self.ahead?;
        self.ahead = self.lexer.next_solid();
        Some(token)
    }

    /// Takes the next token if it is this word.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        let is_next = self.is_word(word);
        if is_next {
            self.next();
        }
        is_next
    }

    /// Takes the next token if it is one of these words.
    pub(super) fn eat_any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.eat(word))
    }

    /// Takes the next token if it is of this kind.
    pub(super) fn eat_kind(&mut self, kind: Kind) -> Option<&'a str> {
        let token = self.peek().filter(|token| token.kind == kind)?;
        self.next();
        Some(token.text(self.text()))
    }

    /// Takes the next token if it is this sign.
    pub(super) fn eat_sign(&mut self, sign: &str) -> bool {
        let is_next = self
            .peek()
            .is_some_and(|token| token.kind == Kind::Sign && token.text(self.text()) == sign);
        if is_next {
            self.next();
        }
        is_next
    }

    /// Takes the next token if it is a name, with or without quotes.
    pub(super) fn name(&mut self) -> Option<Cow<'a, str>> {
        let token = self.peek()?;
        let name = match token.kind {
            Kind::Word => fold(token.text(self.text())),
            Kind::Quoted => unquote(token.text(self.text())),
            _ => return None,
        };
        self.next();
        Some(name)
    }

    /// Skips what is between parentheses, if the next token opens one.
    pub(super) fn skip_parentheses(&mut self) {
        if self.peek().is_none_or(|token| token.kind != Kind::Open) {
            return;
        }
        let mut depth = 0usize;
        while let Some(token) = self.next() {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// The next token and the lexer after it, for what reads to the end.
    pub(super) const fn rest(&mut self) -> (Option<Token>, &mut Lexer<'a>) {
        (self.ahead.take(), &mut self.lexer)
    }

    /// The next token, which stays.
    pub(super) const fn peek(&self) -> Option<Token> {
        self.ahead
    }

    /// Whether the next token is this word.
    pub(super) fn is_word(&self, word: &str) -> bool {
        self.peek().is_some_and(|token| {
            token.kind == Kind::Word && token.text(self.text()).eq_ignore_ascii_case(word)
        })
    }

    pub(super) const fn is_end(&self) -> bool {
        self.ahead.is_none()
    }

    pub(super) const fn text(&self) -> &'a str {
        self.lexer.text()
    }
}

/// A name without quotes, as it is stored.
fn fold(word: &str) -> Cow<'_, str> {
    let word = cut(word);
    if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(word.to_ascii_lowercase());
    }
    Cow::Borrowed(word)
}

/// A name in quotes, as it is stored. `U&"..."` with an escape is left as it is written: the escape character may be
/// given after the name, and only the server can decode it.
pub(super) fn unquote(quoted: &str) -> Cow<'_, str> {
    if quoted.starts_with(['U', 'u']) && quoted.contains('\\') {
        return Cow::Borrowed(quoted);
    }
    match unquote_whole(quoted) {
        Cow::Borrowed(name) => Cow::Borrowed(cut(name)),
        Cow::Owned(name) => Cow::Owned(cut(&name).to_owned()),
    }
}

/// What is between the quotes, with two quotes read as one.
pub(super) fn unquote_whole(quoted: &str) -> Cow<'_, str> {
    let quoted =
        quoted.strip_prefix(['U', 'u']).map_or(quoted, |rest| rest.trim_start_matches('&'));
    let mut inner = quoted.chars();
    let open = inner.next().unwrap_or('"');
    inner.next_back();
    let inner = inner.as_str();
    if open == '[' || !inner.contains(open) {
        return Cow::Borrowed(inner);
    }
    let mut quote = [0; 4];
    let quote = open.encode_utf8(&mut quote);
    Cow::Owned(inner.replace(&quote.repeat(2), quote))
}

/// The name, cut between two characters.
fn cut(name: &str) -> &str {
    name.get(..name.floor_char_boundary(IDENTIFIER_BYTES_MAX)).unwrap_or(name)
}
