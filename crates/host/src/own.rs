//! The server's own databases: `Paceline`, with its state, and `_Server`, which lists the databases that are
//! served.

use paceline_tables::json;
use paceline_tables::schema::Schema;

pub use paceline_model::schema::{
    DAEMON as DAEMON_TABLE, DATABASE, FILE as FILE_TABLE, LEASED_LOCK as LEASED_LOCK_TABLE,
    LOCK as LOCK_TABLE, PERMIT as PERMIT_TABLE, RESOURCE as RESOURCE_TABLE,
    SESSION as SESSION_TABLE, SQL_PASSWORD as SQL_PASSWORD_TABLE, TOKEN as TOKEN_TABLE,
    WAITER as WAITER_TABLE, schema,
};

/// The database that lists the served databases for clients.
pub const SERVER_DATABASE: &str = "_Server";

/// The schema of [`SERVER_DATABASE`].
pub fn server_schema() -> Result<Schema, String> {
    let json = json::parse(include_bytes!("_server.ovsschema"), 128);
    let json = json.map_err(|error| error.to_string())?;
    Schema::parse(&json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_servers_schema_is_valid() {
        assert_eq!(&*super::server_schema().unwrap().name, super::SERVER_DATABASE);
    }
}
