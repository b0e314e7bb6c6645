//! The schema of the database `Paceline`, and the names of its tables.

use crate::columns;
use paceline_catalogue::kind_of;
use paceline_tables::json::{self, Json, Object};
use paceline_tables::schema::Schema;

/// The name of the database.
pub const DATABASE: &str = "Paceline";

/// The daemon's own counters, one row.
pub const DAEMON: &str = "Daemon";

/// The files of the configuration, each with what it said when it was last applied.
pub const FILE: &str = "File";

/// Every lock, with owner, waiters and fencing number.
pub const LOCK: &str = "Lock";

/// The sessions of clients that are kept across restarts.
pub const SESSION: &str = "Session";

/// The locks that such sessions own.
pub const LEASED_LOCK: &str = "Leased_Lock";

/// The permits that are kept across restarts.
pub const PERMIT: &str = "Permit";

/// The places of those that waited when the daemon last ended.
pub const WAITER: &str = "Waiter";

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

/// The settings of the API, at most one row.
pub const API: &str = "Api";

/// The settings of the HTTP door as a whole, at most one row.
pub const HTTP: &str = "Http";

/// The frontends of the HTTP door.
pub const FRONTEND: &str = "Frontend";

/// The backends.
pub const BACKEND: &str = "Backend";

/// The servers of all backends; each names its backend.
pub const SERVER: &str = "Server";

/// The targets of the SQL door.
pub const SQL_TARGET: &str = "Sql_Target";

/// The users, each with its role and its password.
pub const USER: &str = "User";

/// The passwords of SQL clients, each as a verifier. A row belongs to the user that refers to it, is deleted with it, and is
/// never changed.
pub const SQL_PASSWORD: &str = "Sql_Password";

/// The tokens of the API, each as a hash.
pub const TOKEN: &str = "Token";

/// The schema of this version: the text in the program, and for each kind of the catalogue a column for every setting
/// and figure. The last number of its version is the number of the catalogue's columns, so that a schema with one
/// more setting is a newer one. The numbers before it are raised in the text when a column is removed or changes its
/// meaning.
///
/// # Errors
///
/// Never, as a test shows: all of it is part of the program.
pub fn schema() -> Result<Schema, String> {
    let json = json::parse(include_bytes!("paceline.ovsschema"), 128);
    let json = json.map_err(|error| error.to_string())?;
    Schema::parse(&whole(&json)).map_err(|error| error.to_string())
}

/// The text of the schema with the columns of the catalogue.
fn whole(text: &Json) -> Json {
    let mut count = 0;
    let tables = members(text.as_object().and_then(|text| text.get("tables")));
    let tables = tables.map(|(name, table)| {
        let Some(kind) = kind_of(name) else { return (name, table.clone()) };
        let said = members(table.as_object().and_then(|table| table.get("columns")));
        // The text takes precedence, so it comes last.
        let columns: Vec<(&str, Json)> = columns::of(kind)
            .into_iter()
            .chain(said.map(|(name, said)| (name, said.clone())))
            .collect();
        let columns = Json::object(columns);
        count += columns.as_object().map_or(0, Object::len);
        (name, with(table, "columns", columns))
    });
    let text = with(text, "tables", Json::object(tables.collect::<Vec<_>>()));
    let version = text.as_object().and_then(|text| text.get("version")).and_then(Json::as_str);
    let version = version.and_then(|version| version.rsplit_once('.')).map_or("", |(main, _)| main);
    let version = Json::string(format!("{version}.{count}"));
    with(&text, "version", version)
}

fn members(object: Option<&Json>) -> impl Iterator<Item = (&str, &Json)> {
    object.and_then(Json::as_object).into_iter().flat_map(Object::iter)
}

/// An object with one member replaced.
fn with(object: &Json, name: &str, value: Json) -> Json {
    let all = members(Some(object)).map(|(name, value)| (name, value.clone()));
    Json::object(all.chain([(name, value)]).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::{DATABASE, FILE, LOCK, PERMIT, schema};
    use paceline_catalogue::KINDS;
    use paceline_tables::schema::Schema;
    use std::fmt::Write as _;
    use std::path::Path;

    #[test]
    fn the_schema_is_valid_and_has_every_table() {
        let schema = schema().unwrap();
        assert_eq!(&*schema.name, DATABASE);
        let tables = KINDS.into_iter().map(|kind| kind.table).chain([FILE, LOCK, PERMIT]);
        for table in tables {
            assert!(schema.table_id(table).is_some(), "{table}");
        }
    }

    /// The schema as a file, with a column on each line.
    fn page(schema: &Schema) -> String {
        let json = schema.to_json();
        let mut page = format!(
            "{{\n  \"name\": \"{}\",\n  \"version\": \"{}\",\n  \"tables\": {{",
            schema.name, schema.version
        );
        let tables = json.as_object().unwrap().get("tables").unwrap().as_object().unwrap();
        for (at, (name, table)) in tables.iter().enumerate() {
            let _ = write!(page, "{}\n    \"{name}\": {{", if at == 0 { "" } else { "," });
            for (at, (member, value)) in table.as_object().unwrap().iter().enumerate() {
                let _ = write!(page, "{}\n      \"{member}\": ", if at == 0 { "" } else { "," });
                if member != "columns" {
                    page += &value.to_text();
                    continue;
                }
                let columns = value.as_object().unwrap().iter();
                let line = |(name, column): (&str, &paceline_tables::json::Json)| {
                    format!("        \"{name}\": {}", column.to_text())
                };
                let columns: Vec<String> = columns.map(line).collect();
                let _ = write!(page, "{{\n{}\n      }}", columns.join(",\n"));
            }
            page += "\n    }";
        }
        page + "\n  }\n}\n"
    }

    /// `REFERENCE_UPDATE=1` writes the file.
    #[test]
    fn the_file_of_the_schema_is_made_from_it() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/paceline.ovsschema");
        let page = page(&schema().unwrap());
        if std::env::var_os("REFERENCE_UPDATE").is_some() {
            std::fs::write(&file, &page).unwrap();
        }
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            written == page,
            "docs/paceline.ovsschema is out of date: run the tests with REFERENCE_UPDATE=1"
        );
    }
}
