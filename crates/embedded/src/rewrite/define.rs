//! `CREATE TABLE`, `ALTER TABLE ... ADD` and other definitions.
//!
//! Columns get the type name that gives them the right affinity, `SERIAL` and identity columns become SQLite's row
//! number, and a default that is an expression gets the parentheses SQLite wants.

use super::Rewriter;
use crate::failure::Failure;
use crate::schema::BIG_MARK;
use crate::types::{Declared, Type};
use paceline_postgres::text::Kind;

/// How far the rewriter is within a definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Define {
    #[default]
    No,
    /// After `CREATE TABLE`, before its parenthesis.
    Table,
    /// In the parenthesis; the piece of the current column's type.
    Body(Option<usize>),
    /// In a default, where only casts are left out.
    Default,
    /// In `CREATE INDEX`.
    Index,
}

impl Define {
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Body(_) | Self::Default)
    }
}

/// Words that begin a constraint instead of a column.
const CONSTRAINTS: &[&str] =
    &["constraint", "primary", "unique", "check", "foreign", "exclude", "like"];

/// Words that end the default of a column.
const AFTER_DEFAULT: &[&str] = &[
    "not",
    "null",
    "primary",
    "unique",
    "check",
    "references",
    "constraint",
    "generated",
    "collate",
    "deferrable",
    "on",
];

impl Rewriter<'_, '_> {
    /// Looks at the first words of the statement.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        if self.peek_is(0, "truncate") {
            self.at += if self.peek_is(1, "table") { 2 } else { 1 };
            self.plain("DELETE FROM");
        } else if self.peek_is(0, "table") {
            self.at += 1;
            self.plain("SELECT * FROM");
            self.innermost().in_from = true;
        } else if self.peek_is(0, "alter") && self.peek_is(1, "table") {
            self.define = Define::Body(None);
        } else if self.peek_is(0, "reindex") {
            self.at += 1;
            self.plain("REINDEX");
            let is_kind = |tok: crate::token::Tok<'_>| tok.is_any(&["table", "index"]);
            self.at += usize::from(self.peek(0).is_some_and(is_kind));
        } else if self.peek_is(0, "create") {
            self.create()?;
        }
        Ok(())
    }

    fn create(&mut self) -> Result<(), Failure> {
        self.at += 1;
        self.plain("CREATE");
        if self.peek_is(0, "or") {
            return Err(Failure::unsupported("CREATE OR REPLACE"));
        }
        loop {
            let Some(tok) = self.peek(0) else { return Ok(()) };
            match tok.text.to_ascii_lowercase().as_str() {
                "unlogged" | "global" | "local" => self.at += 1,
                "temp" | "temporary" => self.replace(1, "TEMP"),
                "unique" => self.replace(1, "UNIQUE"),
                "table" => {
                    self.define = Define::Table;
                    self.replace(1, "TABLE");
                    return Ok(());
                }
                "index" => {
                    self.define = Define::Index;
                    self.replace(1, "INDEX");
                    self.at += usize::from(self.peek_is(0, "concurrently"));
                    return self.index_name();
                }
                "view" | "trigger" => return Ok(()),
                "sequence" | "type" | "function" | "procedure" | "role" | "user" | "schema"
                | "database" | "extension" | "domain" | "materialized" | "policy" | "rule"
                | "publication" | "aggregate" | "operator" | "collation" | "server" => {
                    let what = format!("CREATE {}", tok.text.to_ascii_uppercase());
                    return Err(Failure::unsupported(what));
                }
                _ => return Ok(()),
            }
        }
    }

    /// PostgreSQL makes up the name of an index that has none.
    fn index_name(&mut self) -> Result<(), Failure> {
        if !self.peek_is(0, "on") {
            return Ok(());
        }
        let names: Vec<String> = self
            .toks
            .get(self.at + 1..)
            .unwrap_or_default()
            .iter()
            .filter(|tok| !tok.is_any(&["using", "btree", "only"]))
            .filter_map(|tok| tok.name())
            .collect();
        self.plain(crate::token::quote_name(&format!("{}_idx", names.join("_"))));
        Ok(())
    }

    /// After a `(`.
    pub(super) fn after_open(&mut self) {
        if self.define == Define::Table && self.opens.len() == 2 {
            self.define = Define::Body(None);
            self.column();
        }
    }

    /// After a `,`.
    pub(super) fn after_comma(&mut self) {
        if matches!(self.define, Define::Body(_)) && self.opens.len() == 2 {
            self.define = Define::Body(None);
            self.column();
        }
    }

    /// Before a `)`.
    pub(super) fn before_close(&mut self) {
        if matches!(self.define, Define::Body(_)) && self.opens.len() == 2 {
            self.define = Define::No;
        }
    }

    /// The name and the type of a column.
    fn column(&mut self) {
        let Some(tok) = self.peek(0) else { return };
        if tok.is_any(CONSTRAINTS) || !matches!(tok.kind, Kind::Word | Kind::Quoted) {
            return;
        }
        let Some(name) = tok.name() else { return };
        self.at += 1;
        self.plain(crate::token::quote_name(&name));
        let has_type = self.peek(0).is_some_and(|tok| {
            matches!(tok.kind, Kind::Word | Kind::Quoted) && !tok.is_any(AFTER_DEFAULT)
        });
        if !has_type {
            return;
        }
        let Ok(declared) = self.type_name() else { return };
        self.define = Define::Body(Some(self.out.len()));
        let serial = ["serial", "serial4", "smallserial", "serial2"].contains(&declared.as_str());
        let text = match Declared::read(&declared) {
            _ if serial => "INTEGER".to_owned(),
            _ if declared == "bigserial" || declared == "serial8" => format!("INTEGER {BIG_MARK}"),
            Some(read) => match read.kind.declared() {
                Some(name) => name.to_owned(),
                // Only this very word makes a primary key SQLite's row number.
                None if read.kind == Type::Int4 => "INTEGER".to_owned(),
                None => declared,
            },
            None => declared,
        };
        self.plain(text);
    }

    /// Words of a definition. Returns whether it took some.
    pub(super) fn definition(&mut self, lower: &str) -> Result<bool, Failure> {
        match self.define {
            Define::Index if lower == "using" => self.at += 2,
            Define::Table if lower == "as" && self.opens.len() == 1 => {
                self.define = Define::No;
                return Ok(false);
            }
            Define::Body(_) if lower == "add" && self.opens.len() == 1 => {
                self.at += 1;
                self.plain("ADD COLUMN");
                self.at += usize::from(self.peek_is(0, "column"));
                if self.peek_is(0, "if") {
                    return Err(Failure::unsupported("ADD COLUMN IF NOT EXISTS"));
                }
                if self.peek(0).is_some_and(|tok| tok.is_any(CONSTRAINTS)) {
                    return Err(Failure::unsupported("ALTER TABLE ... ADD CONSTRAINT"));
                }
                self.column();
            }
            Define::Body(_) if lower == "alter" && self.opens.len() == 1 && self.at > 0 => {
                return Err(Failure::unsupported("ALTER TABLE ... ALTER COLUMN"));
            }
            Define::Body(place) if lower == "generated" => return Ok(self.identity(place)),
            Define::Body(Some(_)) if lower == "primary" && self.peek_is(1, "key") => {
                self.replace(2, "PRIMARY KEY NOT NULL");
            }
            Define::Body(_) if lower == "default" => self.default()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `GENERATED ... AS IDENTITY`, which is a row number.
    fn identity(&mut self, place: Option<usize>) -> bool {
        let skips = if self.peek_is(1, "by") { 3 } else { 2 };
        if !(self.peek_is(skips, "as") && self.peek_is(skips + 1, "identity")) {
            return false;
        }
        self.at += skips + 2;
        if self.peek_kind(0, Kind::Open) {
            self.at = crate::token::closing(self.toks, self.at) + 1;
        }
        if let Some(piece) = place.and_then(|place| self.out.get_mut(place)) {
            let is_big = Declared::read(piece).is_some_and(|declared| declared.kind == Type::Int8);
            *piece = if is_big { format!("INTEGER {BIG_MARK}") } else { "INTEGER".to_owned() };
        }
        true
    }

    fn default(&mut self) -> Result<(), Failure> {
        let start = self.at + 1;
        let mut end = start;
        while let Some(tok) = self.toks.get(end) {
            let ends = matches!(tok.kind, Kind::Comma | Kind::Close)
                || (end > start && tok.is_any(AFTER_DEFAULT));
            if ends {
                break;
            }
            end = if tok.kind == Kind::Open { crate::token::closing(self.toks, end) } else { end };
            end += 1;
        }
        let value = self.toks.get(start..end.min(self.toks.len())).unwrap_or_default();
        let text = self.nested(value)?;
        let is_literal = !text.contains(' ')
            && (text.starts_with(['\'', '-', '+'])
                || text.starts_with(|c: char| c.is_ascii_digit()))
            || ["null", "true", "false"].contains(&text.as_str());
        let text = match text.replace(' ', "").as_str() {
            "now()" => "CURRENT_TIMESTAMP".to_owned(),
            "pl_current_date()" => "CURRENT_DATE".to_owned(),
            _ if is_literal => text,
            _ => format!("( {text} )"),
        };
        self.at = end;
        self.plain(format!("DEFAULT {text}"));
        Ok(())
    }
}
