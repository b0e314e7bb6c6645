//! Tables that the engine fills, management functions, and functions that return rows.

use super::Rewriter;
use crate::catalog;
use crate::failure::Failure;
use crate::management::{Function, Returns};
use crate::token::{closing, items, quote_name};
use paceline_postgres::text::Kind;
use paceline_postgres::wire::SqlState;

/// A call of a management function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub function: &'static Function,
    /// Name, if the client wrote one, and the expression for SQLite.
    pub args: Vec<(Option<String>, String)>,
    pub target: Target,
}

/// Where the result of a call goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The parameter with this number.
    Parameter(usize),
    /// The table of the engine with this name.
    Table(String),
}

/// Words that may follow a table and are no alias.
const NO_ALIAS: &[&str] = &[
    "where",
    "join",
    "left",
    "right",
    "inner",
    "outer",
    "cross",
    "full",
    "natural",
    "on",
    "using",
    "group",
    "order",
    "having",
    "limit",
    "offset",
    "union",
    "except",
    "intersect",
    "window",
    "fetch",
    "for",
    "tablesample",
    "returning",
    "set",
    "values",
    "select",
    "with",
    "and",
    "or",
    "not",
    "default",
    "when",
    "then",
    "else",
    "end",
    "is",
    "in",
    "like",
    "between",
    "do",
    "from",
];

impl<'t, 'a> Rewriter<'t, 'a> {
    /// Schemas, tables and functions of the engine. Returns whether it took some tokens.
    pub(super) fn relation(&mut self, lower: &str) -> Result<bool, Failure> {
        if self.peek_kind(1, Kind::Dot)
            && let Some(second) = self.peek(2).and_then(|tok| tok.name())
            && let Some(is_done) = self.qualified(lower, &second)
        {
            return Ok(is_done);
        }
        if self.peek_kind(1, Kind::Open) {
            return self.function(lower);
        }
        if self.peek_kind(1, Kind::Dot) || !self.wants_table() {
            return Ok(false);
        }
        if catalog::find(lower).is_some() || self.names.has_table(lower) {
            self.result.relations.insert(lower.to_owned());
            self.at += 1;
            self.operand(lower);
            return Ok(true);
        }
        Ok(false)
    }

    /// `schema.name`.
    fn qualified(&mut self, schema: &str, name: &str) -> Option<bool> {
        match schema {
            "pg_catalog" | "public" | "pg_temp" => {
                self.at += 2;
                self.operand = None;
                return Some(true);
            }
            "information_schema" | "paceline" => {}
            _ => return None,
        }
        let table = format!("{schema}.{name}");
        if name == "_pg_expandarray" {
            self.at += 2;
            self.operand = None;
            return Some(true);
        }
        if catalog::find(&table).is_none() && !self.names.has_table(&table) {
            return None;
        }
        if self.peek_kind(3, Kind::Dot) {
            // A column of the table: the table is known by its last name.
            self.at += 2;
            self.operand = None;
            return Some(true);
        }
        self.at += 3;
        self.operand(quote_name(&table));
        if !self.has_alias() {
            self.plain(format!("AS {}", quote_name(name)));
        }
        self.result.relations.insert(table);
        Some(true)
    }

    fn has_alias(&self) -> bool {
        self.peek(0).is_some_and(|tok| match tok.kind {
            Kind::Quoted => true,
            Kind::Word => !tok.is_any(NO_ALIAS),
            _ => false,
        })
    }

    fn function(&mut self, lower: &str) -> Result<bool, Failure> {
        if let Some(function) = Function::find(lower) {
            self.management(function)?;
            return Ok(true);
        }
        if lower.starts_with("comdb2_") {
            let message = format!("function {lower} does not exist");
            return Err(Failure::new(SqlState::UNDEFINED_FUNCTION, message));
        }
        if !self.wants_table() {
            return self.elements(lower);
        }
        match lower {
            "generate_series" => self.series()?,
            "unnest" => self.unnest()?,
            "pg_partition_ancestors" => self.no_rows()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn management(&mut self, function: &'static Function) -> Result<(), Failure> {
        let is_table = self.wants_table();
        if function.returns == Returns::Rows && !is_table {
            let what = format!("{} outside of FROM", function.name);
            let hint = format!("Write SELECT * FROM {}(...).", function.name);
            return Err(Failure::unsupported(what).hint(hint));
        }
        let inside = self.arguments();
        let mut args = vec![];
        for item in items(inside) {
            let (name, value) = match item {
                [name, sign, value @ ..] if sign.is_sign("=>") || sign.is_sign(":=") => {
                    (name.name(), value)
                }
                value => (None, value),
            };
            args.push((name, self.nested(value)?));
        }
        function.check(args.iter().map(|(name, _)| name.as_deref()))?;
        let number = self.result.calls.len();
        let target = if is_table {
            let name = format!("{}#{number}", function.name);
            self.operand(quote_name(&name));
            if !self.has_alias() {
                self.plain(format!("AS {}", function.name));
            }
            Target::Table(name)
        } else {
            let parameter = self.result.parameters + 1 + number;
            self.operand(format!("?{parameter}"));
            Target::Parameter(parameter)
        };
        self.result.calls.push(Call { function, args, target });
        Ok(())
    }

    /// Takes a name and its parentheses, and returns the tokens within.
    fn arguments(&mut self) -> &'t [crate::token::Tok<'a>] {
        let end = closing(self.toks, self.at + 1);
        let inside = self.toks.get(self.at + 2..end).unwrap_or_default();
        self.at = (end + 1).min(self.toks.len());
        inside
    }

    /// `generate_series(a, b [, step])` in FROM.
    fn series(&mut self) -> Result<(), Failure> {
        let inside = self.arguments();
        let args: Result<Vec<String>, Failure> =
            items(inside).into_iter().map(|item| self.nested(item)).collect();
        let args = args?;
        let (from, to, step) = match args.as_slice() {
            [from, to] => (from, to, "1"),
            [from, to, step] => (from, to, step.as_str()),
            _ => return Err(Failure::syntax("generate_series takes two or three arguments")),
        };
        let (alias, columns) = self.table_alias("generate_series");
        let column = columns.first().cloned().unwrap_or_else(|| alias.clone());
        self.operand(format!(
            "( WITH RECURSIVE pl_s(v) AS ( SELECT {from} WHERE {from} <= {to} UNION ALL SELECT v + {step} FROM pl_s \
             WHERE v + {step} <= {to} ) SELECT v AS {} FROM pl_s ) AS {}",
            quote_name(&column),
            quote_name(&alias)
        ));
        Ok(())
    }

    fn unnest(&mut self) -> Result<(), Failure> {
        let inside = self.arguments();
        let array = self.nested(inside)?;
        let (alias, columns) = self.table_alias("unnest");
        let column = columns.first().cloned().unwrap_or_else(|| alias.clone());
        let ordinal = columns.get(1).map_or("ordinality", String::as_str);
        self.operand(format!(
            "( SELECT value AS {}, key + 1 AS {} FROM json_each( pl_array_json( {array} ) ) ) AS {}",
            quote_name(&column),
            quote_name(ordinal),
            quote_name(&alias)
        ));
        Ok(())
    }

    /// `unnest(array)` and `generate_subscripts(array, 1)` as columns: the SELECT has a row for each element. All such
    /// columns of one SELECT go in step.
    fn elements(&mut self, lower: &str) -> Result<bool, Failure> {
        let column = match lower {
            "unnest" | "_pg_expandarray" => "pl_element",
            "generate_subscripts" => "pl_place",
            _ => return Ok(false),
        };
        let inside = self.arguments();
        let array = items(inside).into_iter().next().unwrap_or_default();
        let array = self.nested(array)?;
        self.operand(format!("{column}( {array} , pl_n.key )"));
        self.innermost().series.get_or_insert(array);
        Ok(true)
    }

    /// `(information_schema._pg_expandarray(array)).n`, the place of an element, counted from 1. Returns whether it
    /// took it.
    pub(super) fn expanded(&mut self) -> Result<bool, Failure> {
        let is_call = self.peek_is(1, "information_schema") && self.peek_is(3, "_pg_expandarray");
        let end = closing(self.toks, self.at);
        let is_place = self.toks.get(end + 2).is_some_and(|tok| tok.is("n"));
        if !is_call || !is_place {
            return Ok(false);
        }
        let array = self.toks.get(self.at + 5..end.saturating_sub(1)).unwrap_or_default();
        let array = self.nested(array)?;
        self.at = end + 3;
        self.operand("( pl_n.key + 1 )");
        self.innermost().series.get_or_insert(array);
        Ok(true)
    }

    /// Where the FROM clause ends, joins the elements of an array that the SELECT returns.
    pub(super) fn end_series(&mut self) {
        let open = self.innermost();
        let (in_from, series) = (open.in_from, open.series.take());
        if let Some(array) = series {
            let word = if in_from { "," } else { "FROM" };
            self.plain(format!("{word} json_each( pl_array_json( {array} ) ) AS pl_n"));
        }
    }

    /// A function of PostgreSQL that has no rows here.
    fn no_rows(&mut self) -> Result<(), Failure> {
        self.arguments();
        let (alias, columns) = self.table_alias("relid");
        let columns = if columns.is_empty() { vec![alias.clone()] } else { columns };
        let columns: Vec<String> =
            columns.iter().map(|name| format!("NULL AS {}", quote_name(name))).collect();
        let alias = quote_name(&alias);
        self.operand(format!("( SELECT {} WHERE 0 ) AS {alias}", columns.join(" , ")));
        Ok(())
    }

    /// Takes `[WITH ORDINALITY] [AS alias [(columns)]]`.
    fn table_alias(&mut self, otherwise: &str) -> (String, Vec<String>) {
        if self.peek_is(0, "with") && self.peek_is(1, "ordinality") {
            self.at += 2;
        }
        self.at += usize::from(self.peek_is(0, "as"));
        if !self.has_alias() {
            return (otherwise.to_owned(), vec![]);
        }
        let alias = self.peek(0).and_then(|tok| tok.name()).unwrap_or_default();
        self.at += 1;
        if !self.peek_kind(0, Kind::Open) {
            return (alias, vec![]);
        }
        let end = closing(self.toks, self.at);
        let inside = self.toks.get(self.at + 1..end).unwrap_or_default();
        self.at = (end + 1).min(self.toks.len());
        (alias, inside.iter().filter_map(|tok| tok.name()).collect())
    }

    /// `(SELECT ...) AS alias (columns)`, whose names SQLite takes only in a WITH.
    pub(super) fn column_aliases(&mut self, piece: usize) -> Result<(), Failure> {
        let skips = usize::from(self.peek_is(0, "as"));
        let is_alias = self.peek(skips).is_some_and(|tok| match tok.kind {
            Kind::Quoted => true,
            Kind::Word => !tok.is_any(NO_ALIAS),
            _ => false,
        });
        let first = self.toks.get(self.at + skips + 2);
        let is_list = first.is_some_and(|tok| matches!(tok.kind, Kind::Word | Kind::Quoted))
            && !first.is_some_and(|tok| tok.is_any(&["select", "values", "with"]));
        if !is_alias || !self.peek_kind(skips + 1, Kind::Open) || !is_list {
            return Ok(());
        }
        let (alias, columns) = self.table_alias("");
        let columns: Vec<String> = columns.iter().map(|name| quote_name(name)).collect();
        self.out.insert(piece, format!("( WITH pl_c( {} ) AS", columns.join(" , ")));
        self.operand = Some(piece);
        self.out.push(format!("SELECT * FROM pl_c ) AS {}", quote_name(&alias)));
        Ok(())
    }
}
