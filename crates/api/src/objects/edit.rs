//! Parts of transactions that several kinds of objects use.

use super::database::{self, first_row, select_one};
use super::{Object, Row, columns_of, describe, identity, no_such, tests_of, warned};
use crate::App;
use crate::identity::Identity;
use crate::respond::{Answer, Problem, ok};
use axum::http::header::{HeaderMap, HeaderValue, IF_NONE_MATCH};
use paceline_tables::Transaction;
use paceline_tables::value::Datum;

/// Makes a transaction fail if the row with these columns no longer exists.
pub(super) fn expect_there<O: Object>(transaction: Transaction, found: &Row) -> Transaction {
    let names = found.keys().map(String::as_str);
    transaction.expect(O::KIND.table, tests_of(found), names, [columns_of(found)])
}

/// Whether the headers ask to create an object and not to replace one. If two clients create the same at once,
/// the unique index of the table lets one through.
pub(super) fn only_creates(headers: &HeaderMap) -> Result<bool, Problem> {
    match headers.get(IF_NONE_MATCH).map(HeaderValue::as_bytes) {
        None => Ok(false),
        Some(b"*") => Ok(true),
        Some(_) => Err(Problem::bad_request("the header if-none-match can only be *")
            .hint("objects have no versions; leave it out to replace what is there")),
    }
}

/// Sets a column of an existing row, if `check` allows it. Returns the object.
pub(super) async fn set<O: Object>(
    app: &App,
    caller: &Identity,
    key: &str,
    (column, value): (&str, Datum),
    check: impl FnOnce(&Row) -> Result<(), Problem>,
) -> Answer {
    let Some(old) = select_one::<O>(app, caller, key).await? else {
        return Err(no_such::<O>(app, caller, key).await);
    };
    check(&old)?;
    let (table, found) = (O::KIND.table, identity::<O>(key)?);
    let changed = expect_there::<O>(database::begin(app)?, &found)
        .update(table, tests_of(&found), [(column, value)])
        .select(table, tests_of(&found));
    let results = database::edit(app, caller, changed).await;
    let results = results.map_err(|error| database::problem::<O>(&error, key))?;
    let row = first_row(&results).unwrap_or_default();
    let object = describe::<O>(&row);
    ok(&warned::<O>(app, key, &row, object))
}
