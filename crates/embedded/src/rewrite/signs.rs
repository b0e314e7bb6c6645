//! Operators and brackets.

use super::{Group, Rewriter};
use crate::failure::Failure;
use crate::token::Tok;
use paceline_postgres::text::Kind;

/// Operators that SQLite spells otherwise. `REGEXP`, `MATCH` and `GLOB` call functions that the engine defines.
const OPERATORS: &[(&str, &str)] = &[
    ("~", "REGEXP"),
    ("!~", "NOT REGEXP"),
    ("~*", "MATCH"),
    ("!~*", "NOT MATCH"),
    ("~~", "LIKE"),
    ("!~~", "NOT LIKE"),
    ("~~*", "GLOB"),
    ("!~~*", "NOT GLOB"),
];

/// Operators that mean the same in SQLite.
const SAME: &[&str] = &[
    "+", "-", "*", "/", "%", "=", "<", ">", "<=", ">=", "<>", "!=", "||", "->", "->>", "&", "|",
    "<<", ">>",
];

impl Rewriter<'_, '_> {
    pub(super) fn sign(&mut self, tok: Tok<'_>) -> Result<(), Failure> {
        match tok.text {
            "::" => self.cast(),
            "[" => self.bracket(),
            "]" => self.close_bracket(),
            sign => {
                self.at += 1;
                // Before an operand `~` is the complement of bits, as in SQLite.
                let is_prefix = self.operand.is_none();
                self.operator(sign, is_prefix)
            }
        }
    }

    pub(super) fn operator(&mut self, sign: &str, is_prefix: bool) -> Result<(), Failure> {
        if is_prefix && ["+", "-", "~", "*"].contains(&sign) {
            self.plain(sign);
            return Ok(());
        }
        if let Some((_, other)) = OPERATORS.iter().find(|(own, _)| *own == sign) {
            self.plain(*other);
            return Ok(());
        }
        if let Some(quantified) = self.quantified(sign)? {
            return quantified;
        }
        match SAME.contains(&sign) {
            true => {
                self.plain(sign);
                Ok(())
            }
            false if sign == "^" => {
                Err(Failure::unsupported("the operator ^").hint("Use power(a, b)."))
            }
            false => Err(Failure::unsupported(format!("the operator {sign}"))),
        }
    }

    /// `= ANY (array)` and `<> ALL (array)`, which are `IN` and `NOT IN`.
    fn quantified(&mut self, sign: &str) -> Result<Option<Result<(), Failure>>, Failure> {
        let is_any = self.peek_is(0, "any") || self.peek_is(0, "some");
        let is_all = self.peek_is(0, "all");
        if !(is_any || is_all) || !self.peek_kind(1, Kind::Open) {
            return Ok(None);
        }
        let word = match (sign, is_any) {
            ("=", true) => "IN",
            ("<>" | "!=", false) => "NOT IN",
            _ => return Err(Failure::unsupported(format!("{sign} with ANY or ALL"))),
        };
        self.at += 1;
        self.plain(word);
        if self.peek_is(1, "select") || self.peek_is(1, "values") || self.peek_is(1, "with") {
            return Ok(Some(self.open(Group::Plain, "(")));
        }
        self.plain("( SELECT value FROM json_each ( pl_array_json");
        Ok(Some(self.open(Group::Wrapped(") )"), "(")))
    }

    fn bracket(&mut self) -> Result<(), Failure> {
        let is_array = self.out.last().is_some_and(|last| last == "pl_array");
        if is_array {
            return self.open(Group::Array, "(");
        }
        let Some(start) = self.operand else {
            return Err(Failure::syntax("syntax error at or near \"[\""));
        };
        let array = self.out.split_off(start).join(" ");
        self.operand("pl_subscript");
        self.open(Group::Subscript, "(")?;
        self.plain(format!("{array} ,"));
        Ok(())
    }

    fn close_bracket(&mut self) -> Result<(), Failure> {
        let group = self.innermost().group;
        if !matches!(group, Group::Array | Group::Subscript) || self.opens.len() == 1 {
            return Err(Failure::syntax("syntax error at or near \"]\""));
        }
        let head = self.innermost().head;
        self.opens.pop();
        self.at += 1;
        self.plain(")");
        self.operand = Some(if group == Group::Array { head.saturating_sub(1) } else { head });
        Ok(())
    }
}
