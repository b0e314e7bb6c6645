//! Mutations (RFC 7047 section 5.1, `<mutation>`).

use super::schema::{Column, Kind, Table};
use super::value::{Atom, Names, Tags, Value};
use paceline_tables::json::Json;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub struct Mutation {
    pub column: usize,
    mutator: String,
    argument: Value,
}

const MUTATORS: [&str; 7] = ["+=", "-=", "*=", "/=", "%=", "insert", "delete"];

impl Mutation {
    pub fn read(json: &Json, table: &Table, names: Names<'_>) -> Result<Self, Tags> {
        let Some([Json::String(name), Json::String(mutator), argument]) = json.as_array() else {
            return Err(vec!["syntax error"]);
        };
        let at = table.column(name).ok_or_else(|| vec!["unknown column"])?;
        let column = &table.columns[at];
        let mut tags = Vec::new();
        if !column.can_change() {
            tags.push("constraint violation");
        }
        if !MUTATORS.contains(&&**mutator) {
            tags.push("unknown mutator");
        }
        if !tags.is_empty() {
            return Err(tags);
        }
        let argument = read_argument(argument, column, mutator, names)?;
        Ok(Self { column: at, mutator: mutator.to_string(), argument })
    }

    pub fn apply(&self, value: &Value, column: &Column) -> Result<Value, Tags> {
        let changed = match (self.mutator.as_str(), value, &self.argument) {
            ("insert", Value::Set(old), Value::Set(more)) => Value::Set(old | more),
            ("insert", Value::Map(old), Value::Map(more)) => {
                // Pairs whose key exists already are not changed.
                let mut map = more.clone();
                map.extend(old.clone());
                Value::Map(map)
            }
            ("delete", Value::Set(old), Value::Set(less)) => Value::Set(old - less),
            ("delete", Value::Map(old), Value::Map(less)) => {
                Value::Map(filtered(old, |key, value| less.get(key) != Some(value)))
            }
            ("delete", Value::Map(old), Value::Set(keys)) => {
                Value::Map(filtered(old, |key, _| !keys.contains(key)))
            }
            (_, Value::Set(old), _) => self.arithmetic(old)?,
            other => panic!("no such mutation: {other:?}"),
        };
        if changed.fits(column) { Ok(changed) } else { Err(vec!["constraint violation"]) }
    }

    fn arithmetic(&self, old: &BTreeSet<Atom>) -> Result<Value, Tags> {
        let argument = self.argument.single().unwrap();
        let mut new = BTreeSet::new();
        let mut tags = Vec::new();
        for atom in old {
            match compute(atom, &self.mutator, argument) {
                Ok(atom) => {
                    if !new.insert(atom) {
                        tags.push("constraint violation");
                    }
                }
                // Which of several errors is found first is unspecified.
                Err(tag) => tags.extend([tag, "constraint violation"]),
            }
        }
        if tags.is_empty() { Ok(Value::Set(new)) } else { Err(tags) }
    }
}

fn filtered(
    map: &BTreeMap<Atom, Atom>,
    keep: impl Fn(&Atom, &Atom) -> bool,
) -> BTreeMap<Atom, Atom> {
    map.iter().filter(|(k, v)| keep(k, v)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn compute(atom: &Atom, mutator: &str, argument: &Atom) -> Result<Atom, &'static str> {
    match (atom, argument) {
        (Atom::Integer(x), Atom::Integer(y)) => {
            // Wide enough for every result, so that only the final result is checked for its range.
            let (x, y) = (i128::from(*x), i128::from(*y));
            let wide = match mutator {
                "+=" => x + y,
                "-=" => x - y,
                "*=" => x * y,
                "/=" => x.checked_div(y).ok_or("domain error")?,
                _ => x.checked_rem(y).ok_or("domain error")?,
            };
            i64::try_from(wide).map(Atom::Integer).map_err(|_| "range error")
        }
        (Atom::Real(x), Atom::Real(y)) => {
            let real = match mutator {
                "+=" => x.0 + y.0,
                "-=" => x.0 - y.0,
                "*=" => x.0 * y.0,
                _ if y.0 == 0.0 => return Err("domain error"),
                _ => x.0 / y.0,
            };
            if real.is_finite() { Ok(Atom::real(real)) } else { Err("range error") }
        }
        other => panic!("cannot compute with {other:?}"),
    }
}

fn read_argument(
    json: &Json,
    column: &Column,
    mutator: &str,
    names: Names<'_>,
) -> Result<Value, Tags> {
    match mutator {
        "insert" | "delete" if column.is_scalar() => Err(vec!["syntax error"]),
        "insert" => Value::read(json, column, (0, column.max), names),
        "delete" => {
            let whole = Value::read(json, column, (0, usize::MAX), &mut *names);
            if whole.is_ok() || column.value.is_none() {
                return whole;
            }
            // A map's pairs can also be deleted by a set of keys.
            let keys = Column { value: None, ..column.clone() };
            Value::read(json, &keys, (0, usize::MAX), names)
        }
        _ if !column.is_numeric() => Err(vec!["syntax error"]),
        "%=" if column.key.kind == Kind::Real => Err(vec!["syntax error"]),
        _ => {
            let mut scalar = Column::special("number");
            scalar.key.kind = column.key.kind;
            Value::read(json, &scalar, (1, 1), names)
        }
    }
}
