//! PostgreSQL's text becomes SQLite's, token by token.
//!
//! One pass from left to right. What SQLite spells the same is copied; what it spells otherwise is replaced where it
//! stands, or, for `::` and a few others, together with the operand before it, whose first piece is remembered. No
//! query is recognised as a whole. What cannot work is refused by name with 0A000; the rest is left to SQLite, whose
//! parser has the last word.
//!
//! - `words`: keywords and functions; `signs`: operators and brackets; `cast`: types;
//! - `define`: `CREATE TABLE` and its like; `relation`: catalogues and management.

mod cast;
mod define;
mod relation;
mod signs;
mod words;

pub use relation::{Call, Target};

use crate::failure::Failure;
use crate::token::{Tok, quote_literal, string_value};
use paceline_postgres::text::Kind;
use std::collections::BTreeSet;

/// A statement for SQLite.
#[derive(Debug, Default)]
pub struct Rewritten {
    pub sql: String,
    /// The tables of the engine that it reads.
    pub relations: BTreeSet<String>,
    /// The management functions that it calls, in the order of the text.
    pub calls: Vec<Call>,
    /// The highest number of a client's parameter.
    pub parameters: usize,
}

/// Which tables of management there are.
pub trait Names {
    fn has_table(&self, name: &str) -> bool;
}

/// The most parentheses that may be open at once.
const DEPTH_MAX: usize = 200;

/// Rewrites one statement.
pub fn rewrite_tokens(toks: &[Tok<'_>], names: &dyn Names) -> Result<Rewritten, Failure> {
    let mut rewriter = Rewriter::new(toks, names);
    rewriter.result.parameters = parameters(toks)?;
    rewriter.begin()?;
    while rewriter.at < toks.len() {
        rewriter.step()?;
    }
    rewriter.end_series();
    rewriter.result.sql = rewriter.out.join(" ");
    Ok(rewriter.result)
}

/// The highest number after a `$`.
pub fn parameters(toks: &[Tok<'_>]) -> Result<usize, Failure> {
    let mut highest = 0;
    for tok in toks.iter().filter(|tok| tok.kind == Kind::Parameter) {
        let number: usize = tok.text.trim_start_matches('$').parse().unwrap_or(usize::MAX);
        if !(1..=PARAMETERS_MAX).contains(&number) {
            return Err(Failure::syntax(format!("there is no parameter {}", tok.text)));
        }
        highest = highest.max(number);
    }
    Ok(highest)
}

/// The most parameters of a statement: SQLite's limit, less what calls need.
pub const PARAMETERS_MAX: usize = 32_000;

/// What an open parenthesis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Plain,
    /// `CAST(... AS type)`.
    Cast,
    /// A function whose arguments are separated by these words.
    Worded(&'static [&'static str]),
    /// `ARRAY[...]`.
    Array,
    /// `x[...]`.
    Subscript,
    /// Closes with this text in addition.
    Wrapped(&'static str),
}

#[derive(Debug)]
struct Open {
    /// The piece of the parenthesis.
    piece: usize,
    /// The first piece of what it belongs to, such as a function's name.
    head: usize,
    group: Group,
    /// Whether the tokens directly inside are of a FROM clause.
    in_from: bool,
    has_limit: bool,
    /// The array whose elements make rows of this SELECT.
    series: Option<String>,
}

struct Rewriter<'t, 'a> {
    toks: &'t [Tok<'a>],
    at: usize,
    names: &'t dyn Names,
    out: Vec<String>,
    opens: Vec<Open>,
    cases: Vec<usize>,
    /// The first piece of the operand that was just written.
    operand: Option<usize>,
    define: define::Define,
    result: Rewritten,
}

impl<'t, 'a> Rewriter<'t, 'a> {
    fn new(toks: &'t [Tok<'a>], names: &'t dyn Names) -> Self {
        let outermost = Open {
            piece: 0,
            head: 0,
            group: Group::Plain,
            in_from: false,
            has_limit: false,
            series: None,
        };
        Self {
            toks,
            at: 0,
            names,
            out: vec![],
            opens: vec![outermost],
            cases: vec![],
            operand: None,
            define: define::Define::default(),
            result: Rewritten::default(),
        }
    }

    /// Takes one token, or several that belong together.
    fn step(&mut self) -> Result<(), Failure> {
        let tok = self.toks[self.at];
        match tok.kind {
            Kind::Word => self.word(tok),
            Kind::Quoted => {
                self.at += 1;
                self.name(tok.text.to_owned());
                Ok(())
            }
            Kind::String => {
                self.at += 1;
                let value = string_value(tok.text)
                    .ok_or_else(|| Failure::syntax(format!("invalid escape in {}", tok.text)))?;
                self.operand(quote_literal(&value));
                Ok(())
            }
            Kind::Bits if tok.text.starts_with(['b', 'B']) => {
                Err(Failure::unsupported("a bit string"))
            }
            Kind::Number => {
                self.at += 1;
                self.operand(tok.text.replace('_', ""));
                Ok(())
            }
            Kind::Bits => {
                self.at += 1;
                self.operand(tok.text.to_owned());
                Ok(())
            }
            Kind::Parameter => {
                self.at += 1;
                self.operand(tok.text.replace('$', "?"));
                Ok(())
            }
            Kind::Open if self.expanded()? => Ok(()),
            Kind::Open => self.open(Group::Plain, "("),
            Kind::Close => self.close(),
            Kind::Comma => {
                self.at += 1;
                self.plain(",");
                self.after_comma();
                Ok(())
            }
            Kind::Dot
                if self.peek_is(1, "x")
                    && self.previous().is_some_and(|t| t.kind == Kind::Close) =>
            {
                // The element of an expanded array, which is the element itself here.
                self.at += 2;
                Ok(())
            }
            Kind::Dot => {
                // The operand continues: `a.b` begins at `a`.
                self.at += 1;
                self.out.push(".".into());
                Ok(())
            }
            Kind::Sign => self.sign(tok),
            Kind::Unterminated => Err(Failure::syntax("unterminated string, name or comment")),
            _ => Err(Failure::syntax(format!("syntax error at or near \"{}\"", tok.text))),
        }
    }

    /// Writes a piece that is no operand.
    fn plain(&mut self, text: impl Into<String>) {
        self.out.push(text.into());
        self.operand = None;
    }

    /// Writes a piece that is an operand by itself.
    fn operand(&mut self, text: impl Into<String>) {
        self.operand = Some(self.out.len());
        self.out.push(text.into());
    }

    /// Writes a name, which continues the operand after a dot.
    fn name(&mut self, text: String) {
        match self.out.last().map(String::as_str) {
            Some(".") if self.operand.is_some() => self.out.push(text),
            _ => self.operand(text),
        }
    }

    fn open(&mut self, group: Group, text: &str) -> Result<(), Failure> {
        if self.opens.len() > DEPTH_MAX {
            let message = format!("more than {DEPTH_MAX} parentheses are open");
            return Err(Failure::new(
                paceline_postgres::wire::SqlState::STATEMENT_TOO_COMPLEX,
                message,
            ));
        }
        self.at += 1;
        let piece = self.out.len();
        let head = self.operand.filter(|_| group != Group::Array).unwrap_or(piece);
        self.opens.push(Open {
            piece,
            head,
            group,
            in_from: false,
            has_limit: false,
            series: None,
        });
        self.plain(text);
        self.after_open();
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.at += 1;
        self.end_series();
        self.before_close();
        if self.opens.len() == 1 {
            return Err(Failure::syntax("syntax error at or near \")\""));
        }
        let Some(open) = self.opens.pop() else { return Ok(()) };
        self.plain(")");
        if let Group::Wrapped(more) = open.group {
            self.out.push(more.into());
        }
        self.operand = Some(open.head);
        if self.innermost().in_from {
            self.column_aliases(open.piece)?;
        }
        Ok(())
    }

    fn innermost(&mut self) -> &mut Open {
        let last = self.opens.len() - 1;
        &mut self.opens[last]
    }

    /// The token `ahead` places after the current one.
    fn peek(&self, ahead: usize) -> Option<Tok<'a>> {
        self.toks.get(self.at + ahead).copied()
    }

    fn peek_is(&self, ahead: usize, word: &str) -> bool {
        self.peek(ahead).is_some_and(|tok| tok.is(word))
    }

    fn peek_kind(&self, ahead: usize, kind: Kind) -> bool {
        self.peek(ahead).is_some_and(|tok| tok.kind == kind)
    }

    /// The token before the current one.
    fn previous(&self) -> Option<Tok<'a>> {
        self.toks.get(self.at.checked_sub(1)?).copied()
    }

    /// Whether a table or a table function is expected here.
    fn wants_table(&mut self) -> bool {
        let Some(previous) = self.previous() else { return false };
        let in_from = self.innermost().in_from;
        previous.is_any(&["from", "join", "into", "update", "only"])
            || (in_from && previous.kind == Kind::Comma)
            || (in_from && previous.kind == Kind::Dot)
    }

    /// Rewrites some of the tokens by themselves and joins what they need to the result.
    fn nested(&mut self, toks: &[Tok<'_>]) -> Result<String, Failure> {
        let mut inner = Rewriter::new(toks, self.names);
        inner.result.parameters = self.result.parameters;
        if self.define.is_active() {
            inner.define = define::Define::Default;
        }
        inner.result.calls = std::mem::take(&mut self.result.calls);
        inner.result.relations = std::mem::take(&mut self.result.relations);
        let mut steps = || -> Result<(), Failure> {
            while inner.at < toks.len() {
                inner.step()?;
            }
            Ok(())
        };
        let done = steps();
        self.result.calls = std::mem::take(&mut inner.result.calls);
        self.result.relations = std::mem::take(&mut inner.result.relations);
        done?;
        Ok(inner.out.join(" "))
    }
}

#[cfg(test)]
mod tests;
