//! Rows of targets: their meaning, and every possible error in them.

use crate::world::World;
use paceline_engine::Engine;
use paceline_routing::{Pooling, SqlConnections, SqlEngine, SqlLogin, SqlTarget, Upstream};
use paceline_types::{Span, UuidSource};

/// Inserts a row that is kept only if the whole configuration is valid. Returns the warnings.
fn try_insert(world: &mut World, row: &str) -> Result<Vec<String>, String> {
    let insert = format!(r#"[{{"op": "insert", "table": "Sql_Target", "row": {row}}}]"#);
    let changes = world.transact(&insert)?;
    assert!(world.model.concerns(&changes));
    let plan = world.model.plan(&Engine::new(1).snapshot(), world.database.store());
    plan.map(|plan| plan.warnings().to_vec()).map_err(|error| {
        world.database.undo(&changes);
        error.to_string()
    })
}

/// The only target.
fn read(row: &str) -> SqlTarget {
    let mut world = World::new();
    let _ = try_insert(&mut world, row).unwrap();
    world.model.config(world.database.store()).unwrap().sql_targets.remove(0)
}

#[test]
fn a_row_is_a_target() {
    let plain = read(r#"{"name": "app", "upstream": "postgresql://db/app"}"#);
    let upstream = Upstream::new("postgresql://db/app".parse().unwrap());
    let engine = SqlEngine::Upstream(Box::new(upstream.clone()));
    assert_eq!(plain, SqlTarget::new(plain.id, "app", engine));
    let full = read(
        r#"{"name": "app", "upstream": "postgresql://db/app", "pooling": "session", "connections_max": 5,
            "connections_min": 2, "connections_idle": "1m", "connections_lifetime": "2m", "login_user": "web",
            "login_password_file": "/etc/web.pw", "notice": false}"#,
    );
    let connections = SqlConnections {
        max: 5,
        min: 2,
        idle: Span::from_secs(60),
        lifetime: Span::from_secs(120),
    };
    let login = SqlLogin::User { user: "web".into(), password_file: Some("/etc/web.pw".into()) };
    let upstream = Upstream { pooling: Pooling::Session, connections, login, ..upstream };
    assert_eq!(full.upstream(), Some(&upstream));
    assert!(plain.notice && !full.notice);
    // The name of the database that the door itself adds can be taken.
    let own = read(r#"{"name": "paceline", "sqlite": "notes.db"}"#);
    assert_eq!(own.engine, SqlEngine::Sqlite { file: "notes.db".parse().unwrap() });
}

#[test]
fn every_error_names_its_column() {
    let upstream = r#""upstream": "postgresql://db/app""#;
    let sqlite = r#""sqlite": "a.db""#;
    for (columns, expected) in [
        (String::new(), "upstream: expected upstream or sqlite"),
        (format!("{upstream}, {sqlite}"), "sqlite: expected none, because upstream is set"),
        (
            r#""upstream": "postgresql://me@db/app""#.into(),
            "upstream: character 16: expected hosts only",
        ),
        (r#""sqlite": "../a.db""#.into(), "sqlite: expected the name of a file"),
        (
            format!(r#"{sqlite}, "pooling": "session""#),
            "pooling: pooling is a setting of targets with upstream",
        ),
        (
            format!(r#"{sqlite}, "connections_max": 3"#),
            "connections_max: connections.max is a setting",
        ),
        (format!(r#"{sqlite}, "login_user": "a""#), "login_user: login.user is a setting"),
        (format!(r#"{upstream}, "connections_min": 21"#), "connections_min: expected at most 20"),
        (
            format!(r#"{upstream}, "connections_idle": "0s""#),
            "connections_idle: expected at least 1ms",
        ),
        (format!(r#"{upstream}, "login_user": """#), "login_user: expected the name of a user"),
        (format!(r#"{upstream}, "login_password_file": "/a""#), "login_user: expected the user of"),
        (
            format!(r#"{upstream}, "login_user": "a", "login_password_file": "a.pw""#),
            "login_password_file: expected an absolute path",
        ),
    ] {
        let columns = if columns.is_empty() { columns } else { format!(", {columns}") };
        let error = try_insert(&mut World::new(), &format!(r#"{{"name": "app"{columns}}}"#));
        let error = error.unwrap_err();
        assert!(error.starts_with(&format!("Sql_Target app: {expected}")), "{columns}: {error}");
    }
    let mut world = World::new();
    let row = r#"{"name": "app", "sqlite": "a.db"}"#;
    let _ = try_insert(&mut world, row).unwrap();
    assert!(try_insert(&mut world, row).is_err(), "each name once");
}

/// A restart deletes transient targets.
#[test]
fn persistent_targets_are_kept() {
    let mut world = World::new();
    for row in [
        r#"{"name": "kept", "sqlite": "a.db", "persistent": true}"#,
        r#"{"name": "gone", "sqlite": "b.db"}"#,
    ] {
        let warnings = try_insert(&mut world, row).unwrap();
        let last = warnings.last().unwrap();
        assert!(last.contains("sqlite does nothing"), "{last}");
    }
    let puts = world.model.restart(world.database.store(), &mut UuidSource::from_number(2));
    world.database.maintain(puts).unwrap();
    let left = world.model.config(world.database.store()).unwrap().sql_targets;
    assert_eq!(left.iter().map(|target| &*target.name).collect::<Vec<_>>(), ["kept"]);
}
