//! The databases that are the server's own: `Paceline`, with its state, and `_Server`, which tells
//! clients what is served.

use paceline_tables::json;
use paceline_tables::schema::Schema;

/// The name of Paceline's own database.
pub const DATABASE: &str = "Paceline";

/// The table that shows the locks.
pub const LOCK_TABLE: &str = "Lock";

/// The table with the daemon's own counters, one row.
pub const DAEMON_TABLE: &str = "Daemon";

/// The database that tells clients what is served.
pub const SERVER_DATABASE: &str = "_Server";

/// The schema of [`DATABASE`].
pub fn schema() -> Result<Schema, String> {
    parse(include_str!("paceline.ovsschema"))
}

/// The schema of [`SERVER_DATABASE`].
pub fn server_schema() -> Result<Schema, String> {
    parse(include_str!("_server.ovsschema"))
}

fn parse(text: &str) -> Result<Schema, String> {
    let json = json::parse(text.as_bytes(), 128).map_err(|error| error.to_string())?;
    Schema::parse(&json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn own_schemas_are_valid() {
        assert_eq!(&*super::schema().unwrap().name, super::DATABASE);
        assert_eq!(&*super::server_schema().unwrap().name, super::SERVER_DATABASE);
    }
}
