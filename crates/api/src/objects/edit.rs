//! Pieces of transactions that several kinds of objects need.

use super::database::{self, Row, first_row, select, select_one};
use super::{Object, describe, is_row, no_such};
use crate::App;
use crate::identity::Identity;
use crate::respond::{Answer, Problem, ok};
use axum::http::header::{HeaderMap, HeaderValue, IF_NONE_MATCH};
use serde_json::{Value, json};

/// The operation that fails the transaction if the row is gone.
pub(super) fn assert_there<O: Object>(key: &str) -> Result<Value, Problem> {
    let columns = super::identity::<O>(key)?;
    let names: Vec<&String> = columns.keys().collect();
    Ok(json!({
        "op": "wait", "timeout": 0, "table": O::KIND.table, "where": is_row::<O>(key)?,
        "columns": names, "until": "==", "rows": [columns],
    }))
}

/// Whether whoever sent these headers wants to make something, and not to replace it. Of two who make
/// the same at once the unique index of the table lets one through.
pub(super) fn only_creates(headers: &HeaderMap) -> Result<bool, Problem> {
    match headers.get(IF_NONE_MATCH).map(HeaderValue::as_bytes) {
        None => Ok(false),
        Some(b"*") => Ok(true),
        Some(_) => Err(Problem::bad_request("the header if-none-match can only be *")
            .hint("objects have no versions; leave it out to replace what is there")),
    }
}

/// Sets columns of a row that is there, if `check` has nothing against it; answers the object.
pub(super) async fn set<O: Object>(
    app: &App,
    identity: &Identity,
    key: &str,
    columns: Value,
    check: impl FnOnce(&Row) -> Result<(), Problem>,
) -> Answer {
    let Some(old) = select_one::<O>(app, identity, key).await? else {
        return Err(no_such::<O>(key));
    };
    check(&old)?;
    let found = is_row::<O>(key)?;
    let operations = vec![
        assert_there::<O>(key)?,
        json!({ "op": "update", "table": O::KIND.table, "where": found, "row": columns }),
        select(O::KIND.table, found),
    ];
    let results = database::edit(app, identity, operations).await;
    let results = results.map_err(|error| database::problem::<O>(&error, key))?;
    ok(&first_row(&results).as_ref().map(describe::<O>).unwrap_or_default())
}
