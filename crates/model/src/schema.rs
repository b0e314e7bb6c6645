//! The schema of the database `Paceline`, and the names of its tables.

use paceline_tables::json;
use paceline_tables::schema::Schema;

/// The name of the database.
pub const DATABASE: &str = "Paceline";

/// The daemon's own counters, one row.
pub const DAEMON: &str = "Daemon";

/// The files of the configuration, each with what it said when it was last applied.
pub const FILE: &str = "File";

/// Every lock, with owner, waiters and fencing number.
pub const LOCK: &str = "Lock";

/// The sessions of clients that outlive the daemon.
pub const SESSION: &str = "Session";

/// The locks that such sessions own.
pub const LEASED_LOCK: &str = "Leased_Lock";

/// The permits that outlive the daemon.
pub const PERMIT: &str = "Permit";

/// The pools.
pub const POOL: &str = "Pool";

/// The running list of rules.
pub const RULE: &str = "Rule";

/// The saved list of rules.
pub const SAVED_RULE: &str = "Saved_Rule";

/// The checkpoints.
pub const CHECKPOINT: &str = "Checkpoint";

/// The resources.
pub const RESOURCE: &str = "Resource";

/// The settings of the HTTP door that are none of one frontend's, at most one row.
pub const HTTP: &str = "Http";

/// The frontends of the HTTP door.
pub const FRONTEND: &str = "Frontend";

/// The backends.
pub const BACKEND: &str = "Backend";

/// The servers of all backends; each names its backend.
pub const SERVER: &str = "Server";

/// The users of this machine that have a role.
pub const USER: &str = "User";

/// The tokens of the API, each as a hash.
pub const TOKEN: &str = "Token";

/// The schema of this version.
///
/// # Errors
///
/// Never, as a test shows: the text is part of the program.
pub fn schema() -> Result<Schema, String> {
    let json = json::parse(include_bytes!("paceline.ovsschema"), 128);
    let json = json.map_err(|error| error.to_string())?;
    Schema::parse(&json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{
        BACKEND, CHECKPOINT, DAEMON, DATABASE, FILE, FRONTEND, HTTP, LOCK, POOL, RESOURCE, RULE,
        SAVED_RULE, SERVER, TOKEN, USER, schema,
    };

    #[test]
    fn the_schema_is_valid_and_has_every_table() {
        let schema = schema().unwrap();
        assert_eq!(&*schema.name, DATABASE);
        for table in [
            DAEMON, FILE, LOCK, POOL, RULE, SAVED_RULE, CHECKPOINT, RESOURCE, HTTP, FRONTEND,
            BACKEND, SERVER, USER, TOKEN,
        ] {
            assert!(schema.table_id(table).is_some(), "{table}");
        }
    }
}
