//! Keywords and functions that SQLite spells otherwise.

use super::{Group, Rewriter};
use crate::failure::Failure;
use crate::token::Tok;
use crate::types::Declared;
use paceline_postgres::text::Kind;

/// Words that stand for a call without parentheses.
const VALUES: &[(&str, &str)] = &[
    ("current_timestamp", "now()"),
    ("localtimestamp", "pl_localtimestamp()"),
    ("current_date", "pl_current_date()"),
    ("current_user", "current_user_name()"),
    ("current_role", "current_user_name()"),
    ("session_user", "current_user_name()"),
    ("user", "current_user_name()"),
    ("current_catalog", "current_database()"),
    ("current_schema", "current_schema()"),
];

/// Functions that exist in SQLite under another name.
const FUNCTIONS: &[(&str, &str)] = &[
    ("greatest", "pl_greatest"),
    ("least", "pl_least"),
    ("char_length", "length"),
    ("character_length", "length"),
    ("octet_length", "octet_length"),
    ("array_agg", "pl_array_agg"),
    ("bool_and", "min"),
    ("every", "min"),
    ("bool_or", "max"),
    ("random", "pl_random"),
    ("left", "pl_left"),
    ("right", "pl_right"),
    ("json_agg", "json_group_array"),
    ("jsonb_agg", "json_group_array"),
    ("json_build_object", "json_object"),
    ("jsonb_build_object", "json_object"),
];

/// Words after which an expression of a FROM clause has ended.
const AFTER_FROM: &[&str] = &[
    "where",
    "group",
    "order",
    "having",
    "limit",
    "offset",
    "union",
    "except",
    "intersect",
    "select",
    "set",
    "returning",
    "window",
    "values",
];

impl Rewriter<'_, '_> {
    pub(super) fn word(&mut self, tok: Tok<'_>) -> Result<(), Failure> {
        let lower = tok.text.to_ascii_lowercase();
        let after_dot = self.previous().is_some_and(|previous| previous.kind == Kind::Dot);
        if after_dot && self.operand.is_some() {
            self.at += 1;
            self.name(lower);
            return Ok(());
        }
        if self.definition(&lower)? || self.relation(&lower)? || self.clause(&lower)? {
            return Ok(());
        }
        if let Some(done) = self.call(&lower)? {
            return done;
        }
        if self.literal(&lower)? {
            return Ok(());
        }
        let is_call = self.peek_kind(1, Kind::Open);
        let is_name = self.previous().is_some_and(|previous| previous.is("as"));
        let value = VALUES.iter().find(|(word, _)| *word == lower && !is_call && !is_name);
        self.at += 1;
        match value {
            Some((_, call)) => self.operand(*call),
            None => self.name(lower),
        }
        Ok(())
    }

    /// Words that belong to a clause. Returns whether it took some.
    fn clause(&mut self, lower: &str) -> Result<bool, Failure> {
        if AFTER_FROM.contains(&lower) {
            self.end_series();
            self.innermost().in_from = false;
        }
        match lower {
            "from" if matches!(self.innermost().group, Group::Worded(_)) => self.comma_word(),
            "for" if matches!(self.innermost().group, Group::Worded(_)) => self.comma_word(),
            "in" if matches!(self.innermost().group, Group::Worded(words) if words.contains(&"in")) =>
            {
                self.comma_word();
            }
            "from" | "using" => {
                let is_distinct = self.previous().is_some_and(|tok| tok.is("distinct"));
                self.innermost().in_from |= !is_distinct && lower == "from";
                self.take_plain(lower);
            }
            "join" | "into" | "update" => self.take_plain(lower),
            "as" if self.innermost().group == Group::Cast => self.cast_as()?,
            "case" => {
                self.cases.push(self.out.len());
                self.take_plain(lower);
            }
            "end" if !self.cases.is_empty() => {
                let start = self.cases.pop();
                self.take_plain(lower);
                self.operand = start;
            }
            "ilike" => self.replace(1, "GLOB"),
            "similar" => return Err(Failure::unsupported("SIMILAR TO")),
            "lateral" => return Err(Failure::unsupported("LATERAL")),
            "tablesample" => return Err(Failure::unsupported("TABLESAMPLE")),
            "distinct" if self.peek_is(1, "on") && self.peek_kind(2, Kind::Open) => {
                return Err(Failure::unsupported("DISTINCT ON"));
            }
            "unknown" if self.previous().is_some_and(|tok| tok.is_any(&["is", "not"])) => {
                self.replace(1, "NULL");
            }
            "only" if self.previous().is_some_and(|tok| tok.is_any(&["from", "update"])) => {
                self.at += 1;
            }
            "collate" => self.collation(),
            "for" if self.peek(1).is_some_and(|t| t.is_any(&["update", "share", "no", "key"])) => {
                self.skip_locking();
            }
            "limit" | "offset" | "row" | "rows" | "fetch" => return Ok(self.limit(lower)),
            "overriding" if self.peek_is(2, "value") => self.at += 3,
            "cascade" | "restrict" if self.at + 1 == self.toks.len() => self.at += 1,
            "left" | "right" if self.peek_kind(1, Kind::Open) => return Ok(false),
            word if KEYWORDS.contains(&word) && !self.peek_kind(1, Kind::Dot) => {
                self.take_plain(lower);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// LIMIT, OFFSET and FETCH. Returns whether it took the word.
    fn limit(&mut self, lower: &str) -> bool {
        match lower {
            "limit" if self.peek_is(1, "all") => self.replace(2, "LIMIT -1"),
            "limit" => {
                self.innermost().has_limit = true;
                self.take_plain(lower);
            }
            "offset" => {
                let has_limit = std::mem::replace(&mut self.innermost().has_limit, true);
                self.replace(1, if has_limit { "OFFSET" } else { "LIMIT -1 OFFSET" });
            }
            "row" | "rows"
                if self.innermost().has_limit && self.operand.is_some() && self.opens.len() < 3 =>
            {
                self.at += 1;
            }
            "fetch" if self.peek(1).is_some_and(|tok| tok.is_any(&["first", "next"])) => {
                self.fetch_first();
            }
            _ => return false,
        }
        true
    }

    fn take_plain(&mut self, lower: &str) {
        self.at += 1;
        self.plain(lower.to_ascii_uppercase());
    }

    /// Replaces `count` tokens by a text that is no operand.
    pub(super) fn replace(&mut self, count: usize, text: &str) {
        self.at += count;
        self.plain(text);
    }

    fn comma_word(&mut self) {
        self.replace(1, ",");
    }

    /// `COLLATE name`: the orders of PostgreSQL's collations are those of SQLite's default here.
    fn collation(&mut self) {
        let skips = if self.peek_kind(2, Kind::Dot) { 4 } else { 2 };
        let name = self.peek(skips - 1).and_then(|tok| tok.name()).unwrap_or_default();
        if ["nocase", "rtrim", "binary"].contains(&name.to_ascii_lowercase().as_str()) {
            return self.replace(skips, &format!("COLLATE {name}"));
        }
        self.at += skips;
    }

    /// `FOR UPDATE` and its like: a transaction that writes holds the whole database.
    fn skip_locking(&mut self) {
        while self.peek(0).is_some_and(|tok| tok.kind != Kind::Close) {
            self.at += 1;
        }
    }

    fn fetch_first(&mut self) {
        let has_count = self.peek(2).is_some_and(|tok| !tok.is_any(&["row", "rows"]));
        let count = self.peek(2).filter(|_| has_count).map_or("1", |tok| tok.text);
        let text = format!("LIMIT {}", count.replace('$', "?"));
        self.replace(if has_count { 3 } else { 2 }, &text);
        while self.peek(0).is_some_and(|tok| tok.is_any(&["row", "rows", "only"])) {
            self.at += 1;
        }
    }

    /// Functions with a syntax of their own. Returns what came of it.
    fn call(&mut self, lower: &str) -> Result<Option<Result<(), Failure>>, Failure> {
        let is_call = self.peek_kind(1, Kind::Open);
        Ok(Some(match lower {
            "cast" if is_call => self.cast_open(),
            "array" if self.peek(1).is_some_and(|tok| tok.is_sign("[")) => {
                self.at += 1;
                self.operand("pl_array");
                self.step()
            }
            "array" if is_call => {
                self.at += 1;
                self.plain("( WITH pl_t(a) AS");
                self.operand = None;
                self.open(Group::Wrapped("SELECT pl_array_agg( a ) FROM pl_t )"), "(")
            }
            "operator" if is_call => self.named_operator(),
            "extract" if is_call && self.peek_is(3, "from") => {
                let field = self.peek(2).and_then(|tok| tok.name()).unwrap_or_default();
                self.at += 1;
                self.operand("date_part");
                let opened = self.open(Group::Plain, "(");
                self.at += 2;
                self.plain(format!("{} ,", crate::token::quote_literal(&field)));
                opened
            }
            "trim"
                if is_call
                    && self.peek(2).is_some_and(|t| t.is_any(&["both", "leading", "trailing"])) =>
            {
                self.trim()
            }
            "substring" if is_call => self.worded("substr", &["from", "for"]),
            "position" if is_call => self.worded("pl_position", &["in"]),
            _ if is_call => {
                let Some((_, own)) = FUNCTIONS.iter().find(|(name, _)| *name == lower) else {
                    return Ok(None);
                };
                self.at += 1;
                self.name((*own).to_owned());
                Ok(())
            }
            _ => return Ok(None),
        }))
    }

    /// `TRIM(BOTH characters FROM text)`.
    fn trim(&mut self) -> Result<(), Failure> {
        let end = crate::token::closing(self.toks, self.at + 1);
        let inside = self.toks.get(self.at + 2..end).unwrap_or_default();
        let name = match inside.first() {
            Some(side) if side.is("leading") => "ltrim",
            Some(side) if side.is("trailing") => "rtrim",
            _ => "trim",
        };
        let Some(from) = inside.iter().position(|tok| tok.is("from")) else {
            return Err(Failure::syntax("FROM is expected in TRIM"));
        };
        let characters = match inside.get(1..from).unwrap_or_default() {
            [] => "' '".to_owned(),
            characters => self.nested(characters)?,
        };
        let text = self.nested(inside.get(from + 1..).unwrap_or_default())?;
        self.at = (end + 1).min(self.toks.len());
        self.operand(format!("{name}( {text} , {characters} )"));
        Ok(())
    }

    fn worded(&mut self, name: &str, words: &'static [&'static str]) -> Result<(), Failure> {
        self.at += 1;
        self.operand(name);
        self.open(Group::Worded(words), "(")
    }

    /// `OPERATOR(pg_catalog.~)`.
    fn named_operator(&mut self) -> Result<(), Failure> {
        let end = crate::token::closing(self.toks, self.at + 1);
        let sign = self.toks.get(end.wrapping_sub(1)).filter(|tok| tok.kind == Kind::Sign);
        let Some(sign) = sign.map(|tok| tok.text) else {
            return Err(Failure::syntax("an operator is expected after OPERATOR"));
        };
        self.at = end + 1;
        let is_prefix = self.operand.is_none();
        self.operator(sign, is_prefix)
    }

    /// `DATE '2026-01-31'` and other literals of a type.
    fn literal(&mut self, lower: &str) -> Result<bool, Failure> {
        const PREFIXES: &[&str] = &[
            "date",
            "timestamp",
            "timestamptz",
            "time",
            "interval",
            "bool",
            "uuid",
            "json",
            "jsonb",
            "int",
            "numeric",
        ];
        let is_timestamp = self.peek_is(2, "time") && self.peek_kind(4, Kind::String);
        if !PREFIXES.contains(&lower) || !(self.peek_kind(1, Kind::String) || is_timestamp) {
            return Ok(false);
        }
        let name = self.type_name()?;
        if Declared::read(&name).is_none() {
            return Ok(false);
        }
        let value = self.peek(0).map_or("", |tok| tok.text);
        let value = crate::token::string_value(value).unwrap_or_default();
        self.at += 1;
        let text = self.cast_text(&crate::token::quote_literal(&value), &name)?;
        self.operand(text);
        Ok(true)
    }
}

/// Words that are no operand, so that `::` after them is an error and `~` a prefix.
const KEYWORDS: &[&str] = &[
    "select",
    "where",
    "and",
    "or",
    "not",
    "when",
    "then",
    "else",
    "on",
    "order",
    "group",
    "by",
    "having",
    "in",
    "is",
    "like",
    "between",
    "union",
    "except",
    "intersect",
    "values",
    "set",
    "returning",
    "with",
    "insert",
    "delete",
    "as",
    "distinct",
    "asc",
    "desc",
    "left",
    "right",
    "inner",
    "outer",
    "cross",
    "full",
    "natural",
    "exists",
    "escape",
    "default",
];
