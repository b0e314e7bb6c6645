//! The functions of PostgreSQL that SQLite lacks, or has under the same name with another meaning.
//!
//! All are pure but for the clock and what the session says of itself, so views, defaults and checks may use them.
//! Functions with side effects are never called by SQLite: see `session::prepare`.

mod pattern;
mod system;
pub use system::VERSION;
mod text;
pub use text::quote_ident;
mod time;

use crate::failure::Failure;
use crate::guard::Guard;
use crate::schema::Schema;
use crate::types::{Declared, Type};
use crate::values::{self, array_item, array_items};
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};

/// What functions know of their session.
#[derive(Debug, Default)]
pub struct Shared {
    pub guard: Guard,
    pub schema: Mutex<Arc<Schema>>,
    pub settings: Mutex<crate::session::Settings>,
    /// When the transaction began, in microseconds since 1970.
    pub now: AtomicI64,
    pub user: String,
    pub database: String,
    pub process: u32,
}

impl Shared {
    /// Keeps a failure with its code, and gives SQLite its text.
    fn fail(&self, failure: Failure) -> rusqlite::Error {
        let error = rusqlite::Error::UserFunctionError(failure.message.clone().into());
        self.guard.fail(failure);
        error
    }
}

const PURE: FunctionFlags = FunctionFlags::SQLITE_UTF8
    .union(FunctionFlags::SQLITE_DETERMINISTIC)
    .union(FunctionFlags::SQLITE_INNOCUOUS);
const STABLE: FunctionFlags = FunctionFlags::SQLITE_UTF8.union(FunctionFlags::SQLITE_INNOCUOUS);

/// Defines all functions on a connection.
pub fn define(connection: &Connection, shared: &Arc<Shared>) -> Result<()> {
    casts(connection, shared)?;
    arrays(connection)?;
    pattern::define(connection, shared)?;
    text::define(connection)?;
    time::define(connection, shared)?;
    system::define(connection, shared)
}

/// Defines a function whose result is NULL if it returns none.
fn pure<F>(connection: &Connection, name: &str, count: i32, run: F) -> Result<()>
where
    F: Fn(&Context<'_>) -> Result<Option<Value>> + Send + 'static,
{
    connection.create_scalar_function(name, count, PURE, move |context| {
        run(context).map(|value| value.unwrap_or(Value::Null))
    })
}

fn stable<F>(connection: &Connection, name: &str, count: i32, run: F) -> Result<()>
where
    F: Fn(&Context<'_>) -> Result<Option<Value>> + Send + 'static,
{
    connection.create_scalar_function(name, count, STABLE, move |context| {
        run(context).map(|value| value.unwrap_or(Value::Null))
    })
}

/// An argument as text; none for NULL.
fn argument(context: &Context<'_>, at: usize) -> Option<String> {
    shown(context.get_raw(at))
}

fn shown(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(values::float_text(number)),
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Blob(bytes) => Some(values::hex_text(bytes)),
    }
}

fn whole(context: &Context<'_>, at: usize) -> Option<i64> {
    match context.get_raw(at) {
        ValueRef::Integer(number) => Some(number),
        #[allow(clippy::cast_possible_truncation)]
        ValueRef::Real(number) => Some(number as i64),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok()?.trim().parse().ok(),
        _ => None,
    }
}

fn casts(connection: &Connection, shared: &Arc<Shared>) -> Result<()> {
    let kept = Arc::clone(shared);
    pure(connection, "pl_cast", 2, move |context| {
        let kind = argument(context, 1).and_then(|name| Declared::read(&name));
        let kind = kind.map_or(Type::Text, |declared| declared.kind);
        cast(context.get_raw(0), kind).map(Some).map_err(|failure| kept.fail(failure))
    })?;
    pure(connection, "pl_type_oid", 1, |context| {
        let text = argument(context, 0).unwrap_or_default();
        let found = Declared::read(&text).map(|declared| declared.kind.oid().into());
        Ok(found.or_else(|| text.parse().ok()).map(Value::Integer))
    })
}

/// `x::type` for a value that SQLite computed.
fn cast(value: ValueRef<'_>, kind: Type) -> std::result::Result<Value, Failure> {
    Ok(match (value, kind) {
        (ValueRef::Null, _) => Value::Null,
        (ValueRef::Integer(number), Type::Bool) => Value::Integer((number != 0).into()),
        (ValueRef::Integer(number), kind) if kind.is_integer() => {
            Value::Integer(values::ranged(number.into(), kind)?)
        }
        #[allow(clippy::cast_possible_truncation)]
        (ValueRef::Real(number), kind) if kind.is_integer() => {
            Value::Integer(values::ranged(number.round_ties_even() as i128, kind)?)
        }
        #[allow(clippy::cast_precision_loss)]
        (ValueRef::Integer(number), Type::Float4 | Type::Float8) => Value::Real(number as f64),
        (ValueRef::Integer(_) | ValueRef::Real(_), kind) if kind.is_number() => {
            Value::try_from(value).unwrap_or(Value::Null)
        }
        (ValueRef::Blob(bytes), Type::Bytea) => Value::Blob(bytes.to_vec()),
        (value, kind) => values::from_text(&shown(value).unwrap_or_default(), kind)?,
    })
}

fn arrays(connection: &Connection) -> Result<()> {
    pure(connection, "pl_array", -1, |context| {
        let items: Vec<String> = (0..context.len())
            .map(|at| argument(context, at).map_or_else(|| "NULL".into(), |text| array_item(&text)))
            .collect();
        Ok(Some(Value::Text(format!("{{{}}}", items.join(",")))))
    })?;
    pure(connection, "pl_array_json", 1, |context| {
        let Some(text) = argument(context, 0) else { return Ok(None) };
        let items = items_of(&text).unwrap_or_default();
        let items: Vec<String> = items.iter().map(|item| json(item.as_deref())).collect();
        Ok(Some(Value::Text(format!("[{}]", items.join(",")))))
    })?;
    pure(connection, "pl_subscript", 2, |context| {
        let (text, at) = (argument(context, 0), whole(context, 1));
        let items = text.as_deref().and_then(items_of).unwrap_or_default();
        // A vector of the catalogues begins at 0, every other array at 1.
        let first = i64::from(text.is_some_and(|text| text.starts_with('{')));
        let at = at.and_then(|at| usize::try_from(at - first).ok());
        Ok(at.and_then(|at| items.get(at).cloned().flatten()).map(natural))
    })?;
    pure(connection, "pl_element", 2, |context| {
        let items = argument(context, 0).as_deref().and_then(items_of).unwrap_or_default();
        let at = whole(context, 1).and_then(|at| usize::try_from(at).ok());
        Ok(at.and_then(|at| items.get(at).cloned().flatten()).map(natural))
    })?;
    pure(connection, "pl_place", 2, |context| {
        let first = argument(context, 0).is_some_and(|text| text.starts_with('{'));
        Ok(whole(context, 1).map(|at| Value::Integer(at + i64::from(first))))
    })?;
    pure(connection, "array_to_string", 2, |context| {
        let (text, between) = (argument(context, 0), argument(context, 1).unwrap_or_default());
        let items = text.as_deref().and_then(items_of);
        let join = |items: Vec<Option<String>>| {
            items.into_iter().flatten().collect::<Vec<_>>().join(&between)
        };
        Ok(items.map(join).map(Value::Text))
    })?;
    for name in ["array_length", "array_upper"] {
        pure(connection, name, 2, |context| {
            let items = argument(context, 0).as_deref().and_then(items_of);
            let length = items.map(|items| items.len()).filter(|length| *length > 0);
            Ok(length.and_then(|length| i64::try_from(length).ok()).map(Value::Integer))
        })?;
    }
    connection.create_aggregate_function("pl_array_agg", 1, PURE, Collect)
}

/// `{a,b}`, or the numbers of a vector such as `1 2`.
fn items_of(text: &str) -> Option<Vec<Option<String>>> {
    match text.trim_start().starts_with('{') {
        true => array_items(text),
        false => Some(text.split_whitespace().map(|item| Some(item.to_owned())).collect()),
    }
}

/// An element as a number if it is one, so that it equals numbers.
fn natural(text: String) -> Value {
    match text.parse::<i64>() {
        Ok(number) if number.to_string() == text => Value::Integer(number),
        _ => Value::Text(text),
    }
}

fn json(item: Option<&str>) -> String {
    let Some(text) = item else { return "null".into() };
    if let Value::Integer(number) = natural(text.to_owned()) {
        return number.to_string();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `array_agg`.
struct Collect;

impl Aggregate<Vec<String>, Value> for Collect {
    fn init(&self, _: &mut Context<'_>) -> Result<Vec<String>> {
        Ok(vec![])
    }

    fn step(&self, context: &mut Context<'_>, items: &mut Vec<String>) -> Result<()> {
        items.push(
            shown(context.get_raw(0)).map_or_else(|| "NULL".into(), |text| array_item(&text)),
        );
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, items: Option<Vec<String>>) -> Result<Value> {
        Ok(Value::Text(format!("{{{}}}", items.unwrap_or_default().join(","))))
    }
}
