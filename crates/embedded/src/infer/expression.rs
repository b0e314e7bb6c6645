//! Reads an expression for its type, by precedence, with a bounded depth.

use super::{Scope, function};
use crate::token::{Tok, closing, items};
use crate::types::{Declared, Type};
use paceline_postgres::text::Kind;

/// Words that end the list of a SELECT.
pub const CLAUSES: &[&str] = &[
    "from",
    "where",
    "group",
    "having",
    "window",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "union",
    "intersect",
    "except",
    "on",
    "into",
    "set",
    "values",
    "join",
    "left",
    "right",
    "inner",
    "full",
    "cross",
    "natural",
    "using",
    "returning",
];

/// Words within an expression that are no operand.
pub const OPERATORS: &[&str] = &[
    "and", "or", "not", "is", "in", "like", "ilike", "between", "similar", "collate", "as", "case",
    "when", "then", "else", "over", "filter", "distinct", "from", "at", "isnull", "notnull",
    "escape", "select",
];

const DEPTH_MAX: usize = 60;

pub struct Reader<'t, 'a> {
    toks: &'t [Tok<'a>],
    at: usize,
    scope: &'t Scope,
    depth: usize,
}

type Found = Option<Declared>;

const fn of(kind: Type) -> Found {
    Some(Declared::of(kind))
}

impl<'t, 'a> Reader<'t, 'a> {
    pub const fn new(toks: &'t [Tok<'a>], scope: &'t Scope) -> Self {
        Self { toks, at: 0, scope, depth: 0 }
    }

    /// The type of the expression, if all of it was understood.
    pub fn whole(mut self) -> Found {
        let found = self.expression(0);
        found.filter(|_| self.at >= self.toks.len())
    }

    /// The type of the first operand.
    pub fn primary_only(mut self) -> Found {
        self.primary()
    }

    fn inner(&self, toks: &'t [Tok<'a>]) -> Found {
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut reader = Reader { toks, at: 0, scope: self.scope, depth: self.depth + 1 };
        reader.expression(0)
    }

    fn peek(&self) -> Option<&'t Tok<'a>> {
        self.toks.get(self.at)
    }

    fn expression(&mut self, least: u8) -> Found {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut left = self.primary();
        while let Some(tok) = self.peek() {
            let Some(power) = power(tok) else { break };
            if power < least {
                break;
            }
            left = self.infix(left, tok, power);
        }
        self.depth -= 1;
        left
    }

    fn infix(&mut self, left: Found, tok: &Tok<'a>, power: u8) -> Found {
        self.at += 1;
        if tok.kind == Kind::Word {
            return self.infix_word(left, tok, power);
        }
        match tok.text {
            "::" => {
                let (declared, used) = type_at(&self.toks[self.at..])?;
                self.at += used;
                Some(declared)
            }
            "[" => {
                self.at = closing(self.toks, self.at - 1) + 1;
                of(Type::Text)
            }
            "||" => {
                self.expression(power + 1);
                of(Type::Text)
            }
            "->" => {
                self.expression(power + 1);
                left
            }
            "->>" => {
                self.expression(power + 1);
                of(Type::Text)
            }
            "+" | "-" | "*" | "/" | "%" | "&" | "|" | "<<" | ">>" => {
                let right = self.expression(power + 1);
                arithmetic(left, right)
            }
            _ => {
                self.expression(power + 1);
                of(Type::Bool)
            }
        }
    }

    fn infix_word(&mut self, left: Found, tok: &Tok<'a>, power: u8) -> Found {
        let skip = |reader: &mut Self, words: &[&str]| {
            while reader.peek().is_some_and(|tok| tok.is_any(words)) {
                reader.at += 1;
            }
        };
        match tok.text.to_ascii_lowercase().as_str() {
            "collate" => {
                self.at += if self.toks.get(self.at + 1).is_some_and(|t| t.kind == Kind::Dot) {
                    3
                } else {
                    1
                };
                return left;
            }
            "at" => {
                skip(self, &["time", "zone"]);
                self.expression(power + 1);
                return match left.map(|declared| declared.kind) {
                    Some(Type::Timestamptz) => of(Type::Timestamp),
                    _ => of(Type::Timestamptz),
                };
            }
            "over" | "filter" | "within" => {
                skip(self, &["group"]);
                self.at = closing(self.toks, self.at) + 1;
                return left;
            }
            "operator" => {
                self.at = closing(self.toks, self.at) + 1;
                self.expression(power + 1);
            }
            "is" => {
                skip(self, &["not", "distinct", "from"]);
                self.expression(power + 1);
            }
            "between" => {
                self.expression(power + 1);
                skip(self, &["and"]);
                self.expression(power + 1);
            }
            "not" => {
                skip(self, &["in", "like", "ilike", "similar", "to", "between"]);
                self.expression(power + 1);
                if self.peek().is_some_and(|tok| tok.is("and")) && self.depth > 0 {
                    // `NOT BETWEEN a AND b` or the next term: the type is the same.
                }
            }
            "isnull" | "notnull" => {}
            _ => {
                skip(self, &["to", "any", "all", "some"]);
                self.expression(power + 1);
            }
        }
        of(Type::Bool)
    }

    fn primary(&mut self) -> Found {
        let tok = self.peek()?;
        self.at += 1;
        match tok.kind {
            Kind::Number => number(tok.text),
            Kind::String => of(Type::Text),
            Kind::Bits => of(Type::Bytea),
            Kind::Parameter => {
                let number: usize = tok.text.trim_start_matches('$').parse().ok()?;
                let known = self.scope.parameters.get(number.checked_sub(1)?).copied().flatten();
                of(known.unwrap_or(Type::Text))
            }
            Kind::Open => {
                let end = closing(self.toks, self.at - 1).min(self.toks.len());
                let inside = self.toks.get(self.at..end)?;
                self.at = end + 1;
                self.parenthesis(inside)
            }
            Kind::Sign if tok.text == "-" || tok.text == "+" || tok.text == "~" => {
                self.expression(90)
            }
            Kind::Word | Kind::Quoted => self.word(tok),
            _ => None,
        }
    }

    fn parenthesis(&self, inside: &'t [Tok<'a>]) -> Found {
        let first = inside.first()?;
        if !first.is_any(&["select", "with", "values"]) {
            return self.inner(inside);
        }
        if self.depth > DEPTH_MAX {
            return None;
        }
        let list = super::output_list(inside)?;
        let (expression, _) = super::split_alias(items(list).into_iter().next()?);
        self.inner(expression)
    }

    fn word(&mut self, tok: &Tok<'a>) -> Found {
        let next = self.peek();
        let opens = next.is_some_and(|tok| tok.kind == Kind::Open);
        if tok.kind == Kind::Word {
            match tok.text.to_ascii_lowercase().as_str() {
                "not" => {
                    self.expression(30);
                    return of(Type::Bool);
                }
                "exists" => {
                    self.at = closing(self.toks, self.at) + 1;
                    return of(Type::Bool);
                }
                "true" | "false" => return of(Type::Bool),
                "null" => return of(Type::Text),
                "case" => return self.case(),
                "cast" if opens => return self.cast(),
                "array" if next.is_some_and(|tok| tok.is_sign("[")) || opens => {
                    self.at = closing(self.toks, self.at) + 1;
                    return of(Type::TextArray);
                }
                "distinct" | "all" => return self.expression(0),
                _ => {}
            }
            if next.is_some_and(|tok| tok.kind == Kind::String)
                && let Some(declared) = Declared::read(tok.text)
            {
                self.at += 1;
                return Some(declared);
            }
        }
        self.chain(tok)
    }

    /// `a`, `a.b`, `a.b.c`, `f(...)`, `s.f(...)`.
    fn chain(&mut self, tok: &Tok<'a>) -> Found {
        let (mut qualifier, mut name) = (None, tok.name()?);
        while self.peek().is_some_and(|tok| tok.kind == Kind::Dot) {
            let next = self.toks.get(self.at + 1)?.name()?;
            qualifier = Some(std::mem::replace(&mut name, next));
            self.at += 2;
        }
        if !self.peek().is_some_and(|tok| tok.kind == Kind::Open) {
            let column = self.scope.column(qualifier.as_deref(), &name);
            return column
                .or_else(|| function::word(&name).filter(|_| tok.kind == Kind::Word).and_then(of));
        }
        let end = closing(self.toks, self.at).min(self.toks.len());
        let inside = self.toks.get(self.at + 1..end)?;
        self.at = end + 1;
        let mut kinds =
            items(inside).into_iter().map(|item| self.inner(item).map(|found| found.kind));
        function::returns(&name, &mut kinds).and_then(of)
    }

    fn case(&mut self) -> Found {
        let (mut depth, mut found) = (1usize, None);
        while let Some(tok) = self.peek() {
            self.at += 1;
            if tok.kind == Kind::Open {
                self.at = closing(self.toks, self.at - 1) + 1;
            } else if tok.is("case") {
                depth += 1;
            } else if tok.is("end") {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            } else if depth == 1 && tok.is_any(&["then", "else"]) {
                let is_null = self.peek().is_some_and(|tok| tok.is("null"));
                let from = self.at;
                let kind = self.expression(0);
                self.at = from;
                found = if is_null { found } else { found.or(kind) };
            }
        }
        found
    }

    fn cast(&mut self) -> Found {
        let end = closing(self.toks, self.at).min(self.toks.len());
        let inside = self.toks.get(self.at + 1..end)?;
        self.at = end + 1;
        let at = inside.iter().rposition(|tok| tok.is("as"))?;
        type_at(&inside[at + 1..]).map(|(declared, _)| declared)
    }
}

/// How tightly an operator binds; none if the token is no operator.
fn power(tok: &Tok<'_>) -> Option<u8> {
    if tok.kind == Kind::Word {
        return Some(match tok.text.to_ascii_lowercase().as_str() {
            "or" => 10,
            "and" => 20,
            "is" | "isnull" | "notnull" => 40,
            "in" | "like" | "ilike" | "between" | "similar" | "not" => 45,
            "operator" => 55,
            "at" | "collate" | "over" | "filter" | "within" => 85,
            _ => return None,
        });
    }
    if tok.kind != Kind::Sign {
        return None;
    }
    Some(match tok.text {
        "=" | "<" | ">" | "<=" | ">=" | "<>" | "!=" => 42,
        "+" | "-" => 60,
        "*" | "/" | "%" => 70,
        "::" | "[" => 95,
        "]" => return None,
        _ => 55,
    })
}

fn number(text: &str) -> Found {
    if text.parse::<i32>().is_ok() {
        of(Type::Int4)
    } else if text.parse::<i64>().is_ok() {
        of(Type::Int8)
    } else {
        of(Type::Numeric)
    }
}

fn arithmetic(left: Found, right: Found) -> Found {
    let (left, right) = (left?.kind, right?.kind);
    if !left.is_number() && right.is_number() {
        return of(right).filter(|_| left == Type::Text);
    }
    if left.is_number() && !right.is_number() {
        return of(left).filter(|_| right == Type::Text);
    }
    const ORDER: &[Type] =
        &[Type::Float8, Type::Float4, Type::Numeric, Type::Int8, Type::Int4, Type::Int2];
    ORDER.iter().find(|kind| **kind == left || **kind == right).copied().and_then(of)
}

/// The type whose name begins the tokens, and how many they are.
pub fn type_at(toks: &[Tok<'_>]) -> Option<(Declared, usize)> {
    let is_schema = toks.first()?.is_any(&["pg_catalog", "public"]);
    let skipped = if is_schema && toks.get(1)?.kind == Kind::Dot { 2 } else { 0 };
    let rest = &toks[skipped..];
    let mut best = None;
    let mut text = String::new();
    for (at, tok) in rest.iter().enumerate().take(12) {
        let is_part = matches!(
            tok.kind,
            Kind::Word | Kind::Quoted | Kind::Open | Kind::Close | Kind::Comma | Kind::Number
        ) || tok.is_sign("[")
            || tok.is_sign("]");
        if !is_part {
            break;
        }
        if tok.kind == Kind::Word {
            text.push(' ');
        }
        text.push_str(tok.text);
        let is_balanced = text.matches('(').count() == text.matches(')').count();
        let is_closed = text.matches('[').count() == text.matches(']').count();
        if !is_balanced && tok.kind == Kind::Close {
            break;
        }
        if is_balanced
            && is_closed
            && let Some(declared) = Declared::read(text.trim())
        {
            best = Some((declared, skipped + at + 1));
        }
    }
    best
}
