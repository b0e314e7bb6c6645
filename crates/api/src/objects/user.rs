//! Users: their roles, and the passwords of SQL clients, which are rows of another table and never shown.

use super::Object;
use super::fields::Reading;
use super::values::{Row, text, text_in};
use crate::members::Members;
use crate::respond::Problem;
use paceline_catalogue::{Kind, USERS};
use paceline_host::{own, system_users};
use paceline_tables::Transaction;
use paceline_tables::value::{Atom, Datum};
use paceline_types::{Uuid, nearest};
use serde_json::{Map, Value};

/// The member that sets the password. A column of this name is only between reading and writing.
const VERIFIER: &str = "sql_verifier";

/// The column that refers to the row of the password, and the member that shows whether there is one.
const PASSWORD: &str = "sql_password";

/// The table User: users of this machine that may use the unix sockets besides the daemon's own user and root, and
/// users of SQL clients.
pub(super) struct User;

impl Object for User {
    const KIND: &'static Kind = &USERS;

    fn read(members: &mut Members, _reading: &Reading, row: &mut Row) -> Result<(), Problem> {
        // A GET shows whether there is a password; sending that back changes nothing.
        members.take(PASSWORD);
        match members.given(VERIFIER) {
            None => {}
            Some(Value::Null) => _ = row.insert(PASSWORD.into(), Datum::Empty),
            Some(Value::String(verifier)) => _ = row.insert(VERIFIER.into(), text(&verifier)),
            Some(other) => return Err(members.wrong(VERIFIER, "a text", &other)),
        }
        Ok(())
    }

    fn show(row: &Row, object: &mut Map<String, Value>) {
        let has_password = row.get(PASSWORD).is_some_and(|password| !password.is_empty());
        if has_password {
            object.insert(PASSWORD.into(), true.into());
        }
    }

    fn write_parts(row: &mut Row, transaction: Transaction) -> Result<Transaction, Problem> {
        let Some(verifier) = row.remove(VERIFIER) else { return Ok(transaction) };
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| Problem::internal(&error.to_string()))?;
        let [high, low] = [0, 8].map(|at| {
            bytes.iter().skip(at).take(8).fold(0, |all, byte| all << 8 | u64::from(*byte))
        });
        let uuid = Uuid::from_halves(high, low);
        row.insert(PASSWORD.into(), Datum::One(Atom::Uuid(uuid)));
        Ok(transaction.insert_as(own::SQL_PASSWORD_TABLE, uuid, [("verifier", verifier)]))
    }

    fn doubt(key: &str, row: &Row) -> Option<String> {
        let names = system_users();
        // A user of SQL clients need not be one of this machine.
        let is_for_sql = text_in(row, "role").is_none()
            || row.get(PASSWORD).is_some_and(|password| !password.is_empty());
        if is_for_sql || names.iter().any(|name| name == key) {
            return None;
        }
        let near = nearest(key, names.iter().map(String::as_str));
        let near = near.map(|near| format!(", did you mean \"{near}\"?")).unwrap_or_default();
        Some(format!("user \"{key}\": this machine knows no user of that name{near}"))
    }
}
