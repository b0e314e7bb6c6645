//! Types: `x::type`, `CAST(x AS type)` and `type 'literal'`.

use super::{Group, Rewriter};
use crate::failure::Failure;
use crate::token::quote_literal;
use crate::types::{Declared, Type};
use paceline_postgres::text::Kind;
use paceline_postgres::wire::SqlState;

/// Words that follow the first word of a type.
const MORE: &[(&str, &[&str])] = &[
    ("double", &["precision"]),
    ("character", &["varying"]),
    ("char", &["varying"]),
    ("national", &["character", "varying"]),
    ("bit", &["varying"]),
];

impl Rewriter<'_, '_> {
    /// Takes the name of a type.
    pub(super) fn type_name(&mut self) -> Result<String, Failure> {
        let schema = self.peek(0).and_then(|tok| tok.name());
        if schema.is_some_and(|name| name == "pg_catalog" || name == "public")
            && self.peek_kind(1, Kind::Dot)
        {
            self.at += 2;
        }
        let first = self.peek(0).filter(|tok| matches!(tok.kind, Kind::Word | Kind::Quoted));
        let Some(first) = first else { return Err(Failure::syntax("a type is expected")) };
        self.at += 1;
        let mut name = match first.kind {
            Kind::Quoted if first.text == "\"char\"" => first.text.to_owned(),
            _ => first.name().unwrap_or_default(),
        };
        let more = MORE.iter().find(|(word, _)| *word == name).map_or(&[][..], |(_, more)| more);
        for word in more {
            if self.peek_is(0, word) {
                self.at += 1;
                name.push(' ');
                name.push_str(word);
            }
        }
        if self.peek_kind(0, Kind::Open) && self.peek_kind(1, Kind::Number) {
            let end = crate::token::closing(self.toks, self.at);
            for tok in self.toks.get(self.at..=end).unwrap_or_default() {
                name.push_str(tok.text);
            }
            self.at = end + 1;
        }
        let is_time = name.starts_with("time");
        if is_time && self.peek_is(1, "time") && self.peek_is(2, "zone") {
            name.push_str(if self.peek_is(0, "with") { " with time zone" } else { "" });
            self.at += 3;
        }
        while self.peek(0).is_some_and(|tok| tok.is_sign("[")) {
            name.push_str("[]");
            self.at = crate::token::closing(self.toks, self.at) + 1;
        }
        Ok(name)
    }

    /// `operand::type`.
    pub(super) fn cast(&mut self) -> Result<(), Failure> {
        self.at += 1;
        let Some(start) = self.operand else {
            return Err(Failure::syntax("syntax error at or near \"::\""));
        };
        let name = self.type_name()?;
        if self.define.is_active() {
            // SQLite's DDL takes no call in most places, and a literal says enough.
            return Ok(());
        }
        let operand = self.out.split_off(start).join(" ");
        let text = self.cast_text(&operand, &name)?;
        self.operand(text);
        Ok(())
    }

    /// At `AS` within `CAST(`.
    pub(super) fn cast_as(&mut self) -> Result<(), Failure> {
        self.at += 1;
        let name = self.type_name()?;
        let piece = self.innermost().piece;
        let operand = self.out.split_off(piece + 1).join(" ");
        let text = self.cast_text(&operand, &name)?;
        self.plain(text);
        Ok(())
    }

    /// Begins `CAST(`; its parentheses stay around what it becomes.
    pub(super) fn cast_open(&mut self) -> Result<(), Failure> {
        self.at += 1;
        self.operand = None;
        self.open(Group::Cast, "(")
    }

    pub(super) fn cast_text(&mut self, operand: &str, name: &str) -> Result<String, Failure> {
        let is_literal = operand.starts_with('\'') && operand.ends_with('\'');
        let is_value = is_literal || operand.starts_with('?');
        if name == "regnamespace" || name == "regrole" {
            let (table, column) = match name {
                "regrole" => ("pg_roles", "rolname"),
                _ => ("pg_namespace", "nspname"),
            };
            return Ok(self.object(operand, is_value, table, column));
        }
        let Some(declared) = Declared::read(name) else {
            let message = format!("type \"{name}\" does not exist");
            return Err(Failure::new(SqlState::UNDEFINED_OBJECT, message));
        };
        Ok(match declared.kind {
            Type::Regclass => {
                let operand = match is_literal {
                    true => quote_literal(&plain_name(operand)),
                    false => operand.to_owned(),
                };
                self.object(&operand, is_value, "pg_class", "relname")
            }
            Type::Regtype if is_value => format!("pl_type_oid( {operand} )"),
            Type::Regtype => format!("format_type( {operand} , NULL )"),
            Type::Interval => return Err(Failure::unsupported("type interval")),
            Type::Varchar | Type::Bpchar if declared.modifier > 4 => {
                format!("substr( CAST( {operand} AS TEXT ) , 1 , {} )", declared.modifier - 4)
            }
            Type::Text | Type::Varchar | Type::Bpchar | Type::Name | Type::Char => {
                format!("CAST( {operand} AS TEXT )")
            }
            Type::Numeric => match declared.scale() {
                Some(scale) => format!("round( pl_cast( {operand} , 'numeric' ) , {scale} )"),
                None => format!("pl_cast( {operand} , 'numeric' )"),
            },
            Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid => {
                // The outer cast gives the result an affinity, so that it can be compared with a text.
                format!("CAST( pl_cast( {operand} , '{}' ) AS INTEGER )", declared.kind.name())
            }
            kind => format!("pl_cast( {operand} , '{}' )", kind.name()),
        })
    }

    /// A name becomes the identifier of an object, and an identifier its name.
    fn object(&mut self, operand: &str, is_value: bool, table: &str, column: &str) -> String {
        self.result.relations.insert(table.to_owned());
        match is_value {
            true => format!(
                "CAST( coalesce( ( SELECT oid FROM {table} WHERE {column} = {operand} ) , {operand} ) AS INTEGER )"
            ),
            false => format!(
                "coalesce( ( SELECT pl_o.{column} FROM {table} AS pl_o WHERE pl_o.oid = {operand} ) , {operand} )"
            ),
        }
    }
}

/// The name in a literal such as `'public."T"'`.
fn plain_name(literal: &str) -> String {
    let inner = literal.trim_matches('\'').replace("''", "'");
    let inner = inner.strip_prefix("public.").unwrap_or(&inner);
    let inner = inner.strip_prefix("pg_catalog.").unwrap_or(inner);
    match inner.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => inner.to_ascii_lowercase(),
    }
}
