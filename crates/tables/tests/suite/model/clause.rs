//! Clauses of conditions (RFC 7047 section 5.1, `<condition>`).

use super::schema::{Column, Table};
use super::value::{Names, Tags, Value};
use paceline_tables::json::Json;
use std::cmp::Ordering;

#[derive(Clone, Debug)]
pub enum Clause {
    Constant(bool),
    Compare { column: usize, function: String, argument: Value },
}

const FUNCTIONS: [&str; 8] = ["<", "<=", "==", "!=", ">=", ">", "includes", "excludes"];

impl Clause {
    pub fn read(json: &Json, table: &Table, names: Names<'_>) -> Result<Self, Tags> {
        if let Json::Bool(constant) = json {
            return Ok(Self::Constant(*constant));
        }
        let Some([Json::String(name), Json::String(function), argument]) = json.as_array() else {
            return Err(vec!["syntax error"]);
        };
        let at = table.column(name).ok_or_else(|| vec!["unknown column"])?;
        let column = &table.columns[at];
        if !FUNCTIONS.contains(&&**function) {
            return Err(vec!["unknown function"]);
        }
        let order = matches!(&**function, "<" | "<=" | ">=" | ">");
        if order && (!column.is_numeric() || column.max > 1) {
            return Err(vec!["syntax error"]);
        }
        let argument = Value::read(argument, column, argument_size(column, function), names)?;
        Ok(Self::Compare { column: at, function: function.to_string(), argument })
    }

    pub fn holds(&self, row: &[Value]) -> bool {
        let (column, function, argument) = match self {
            Self::Constant(constant) => return *constant,
            Self::Compare { column, function, argument } => (*column, function, argument),
        };
        let value = &row[column];
        let order = || Some(value.single()?.cmp(argument.single()?));
        match function.as_str() {
            "==" => value == argument,
            "!=" => value != argument,
            "includes" => argument.within(value),
            "excludes" => argument.apart_from(value),
            "<" => order() == Some(Ordering::Less),
            "<=" => order().is_some_and(Ordering::is_le),
            ">=" => order().is_some_and(Ordering::is_ge),
            ">" => order() == Some(Ordering::Greater),
            other => panic!("no function {other}"),
        }
    }
}

/// `includes` and `excludes` compare with sets and maps that need not fit the column.
fn argument_size(column: &Column, function: &str) -> (usize, usize) {
    match function {
        "<" | "<=" | ">=" | ">" => (1, 1),
        "includes" if !column.is_scalar() => (0, column.max),
        "excludes" if !column.is_scalar() => (0, usize::MAX),
        _ => (column.min, column.max),
    }
}
