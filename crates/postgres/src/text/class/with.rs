//! `WITH`: the command that it belongs to, and whether one of its parts writes.
//!
//! The command is the first one outside parentheses that stands where no name can stand. `insert`, `update`, `delete`,
//! `merge` and `values` are also names in PostgreSQL, so the words that a name follows are known here: `WITH update AS
//! (...) SELECT` reads. A part writes if one of those words directly follows a parenthesis and the next token confirms
//! it.

use super::Command;
use crate::text::token::{Kind, Token};

/// What was read of a statement after `WITH`.
#[derive(Clone, Copy, Debug)]
pub(super) struct With {
    /// The command, once it was found.
    command: Option<Command>,
    writes: bool,
    depth: usize,
    expects_name: bool,
    is_first: bool,
    before: Before,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Parenthesis,
    /// A word that may be a command within parentheses.
    Maybe(Command),
    Other,
}

impl With {
    pub(super) const fn new() -> Self {
        Self {
            command: None,
            writes: false,
            depth: 0,
            expects_name: true,
            is_first: true,
            before: Before::Other,
        }
    }

    pub(super) fn read(&mut self, token: Token, text: &str) {
        if let Before::Maybe(command) = self.before {
            self.writes |= confirms(command, token.kind, text);
        }
        let mut before = Before::Other;
        match token.kind {
            Kind::Open => {
                self.depth += 1;
                before = Before::Parenthesis;
            }
            Kind::Close => {
                self.depth = self.depth.saturating_sub(1);
                before = Before::Parenthesis;
            }
            Kind::Comma if self.depth == 0 => self.expects_name = true,
            Kind::Quoted if self.depth == 0 => self.expects_name = false,
            Kind::Word if self.depth == 0 => self.outer(text),
            Kind::Word if self.before == Before::Parenthesis => {
                before = match Command::of(text) {
                    command @ (Command::Insert
                    | Command::Update
                    | Command::Delete
                    | Command::Merge) => Before::Maybe(command),
                    _ => Before::Other,
                };
            }
            _ => {}
        }
        self.before = before;
        self.is_first = false;
    }

    /// A word outside parentheses.
    fn outer(&mut self, word: &str) {
        if self.command.is_some() || (self.is_first && word.eq_ignore_ascii_case("RECURSIVE")) {
            return;
        }
        let command = match Command::of(word) {
            command @ (Command::Select
            | Command::Insert
            | Command::Update
            | Command::Delete
            | Command::Merge
            | Command::Replace) => Some(command),
            _ => None,
        };
        // `SELECT` and `TABLE` are never names.
        let is_reserved = word.eq_ignore_ascii_case("SELECT") || word.eq_ignore_ascii_case("TABLE");
        if command.is_some() && (is_reserved || !self.expects_name) {
            self.command = command;
            return;
        }
        // The words of `SEARCH` and `CYCLE` that a name follows, unless they are that name.
        let introduces = ["BY", "SET", "USING", "TO", "DEFAULT", "CYCLE"];
        let is_one = introduces.iter().any(|introduces| word.eq_ignore_ascii_case(introduces));
        self.expects_name = is_one && !self.expects_name;
    }

    /// The command. If none was found outside parentheses it is a query within them.
    pub(super) fn command(&self) -> Command {
        self.command.unwrap_or(Command::Select)
    }

    /// Whether a part writes.
    pub(super) const fn writes(&self) -> bool {
        self.writes
    }
}

/// Whether the token after the word shows that the word was a command.
fn confirms(command: Command, kind: Kind, text: &str) -> bool {
    match command {
        Command::Delete => kind == Kind::Word && text.eq_ignore_ascii_case("FROM"),
        Command::Update => matches!(kind, Kind::Word | Kind::Quoted),
        _ => kind == Kind::Word && text.eq_ignore_ascii_case("INTO"),
    }
}
