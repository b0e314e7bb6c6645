//! Rows of frontends, backends and servers: their meaning, and every possible error in a text.

use crate::Figures;
use crate::world::World;
use paceline_checkpoints::Stats;
use paceline_engine::{Config, Engine};
use paceline_routing::{
    Address, Backend, BackendTls, Balance, Certificate, ErrorBody, Frontend, Health, LogFormat,
    Server, UseBackend, UserFrom,
};
use paceline_tables::Changes;
use paceline_types::{BackendId, On, Role, ServerId, Span, UuidSource};
use std::sync::Arc;

impl World {
    fn insert(&mut self, table: &str, row: &str) -> Result<Arc<Changes>, String> {
        self.transact(&format!(r#"[{{"op": "insert", "table": "{table}", "row": {row}}}]"#))
    }

    /// Inserts a row that is kept only if the whole configuration is valid.
    fn try_insert(&mut self, table: &str, row: &str) -> Result<(), String> {
        let changes = self.insert(table, row)?;
        let snapshot = Engine::new(1).snapshot();
        self.model.plan(&snapshot, self.database.store()).map(drop).map_err(|error| {
            self.database.undo(&changes);
            error.to_string()
        })
    }

    fn config(&mut self) -> Config {
        self.model.config(self.database.store()).unwrap()
    }
}

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

#[test]
fn rows_without_settings_have_the_defaults() {
    let mut world = World::new();
    world.insert("Frontend", r#"{"name": "web", "listen": "127.0.0.1:8080"}"#).unwrap();
    world.insert("Backend", r#"{"name": "app"}"#).unwrap();
    let row = r#"{"backend": "app", "name": "a", "address": "app.internal:80"}"#;
    world.insert("Server", row).unwrap();
    let config = world.config();
    assert_eq!(config.frontends, [Frontend::new("web", vec![address("127.0.0.1:8080")])]);
    let server = Server::new(ServerId(1), "a", address("app.internal:80"));
    let backend = Backend { servers: vec![server], ..Backend::new(BackendId(1), "app") };
    assert_eq!(config.backends, [backend]);
    assert_eq!(world.model.http_threads(world.database.store()), Ok(None));
    world.insert("Http", r#"{"threads": 2}"#).unwrap();
    assert_eq!(world.model.http_threads(world.database.store()), Ok(Some(2)));
    assert!(world.insert("Http", "{}").is_err(), "there is one row of it");
}

#[test]
fn every_column_of_a_frontend_is_a_setting() {
    let mut world = World::new();
    world
        .insert(
            "Frontend",
            r#"{"name": "web", "listen": ["set", ["[::1]:80", "127.0.0.1:80", "unix:/run/w.sock"]],
                "backend": "app",
                "use_backend": ["map", [[2, "b when method == \"GET\""], [1, "a when x when y"]]],
                "tls_certificate": ["map", [[1, "/c/1.pem"], [0, "/c/0.pem"]]],
                "tls_key": ["map", [[0, "/c/0.key"], [1, "/c/1.key"]]],
                "http2": false, "proxy_protocol": true,
                "trusted": ["set", ["10.0.0.0/8", "192.0.2.1"]], "user": "bearer",
                "upgrades": "WebSocket", "max_body": 1048576, "max_connections": 50,
                "timeout_header": "1s", "timeout_body": "2s", "timeout_idle": "3s",
                "timeout_queue": "4s", "timeout_tunnel": "5s",
                "errors": ["map", [[503, "/e/503.html"]]], "access_log": "common",
                "log_values": ["map", [["rate", "rate(\"c\")"]]]}"#,
        )
        .unwrap();
    let config = world.config();
    let [found] = &*config.frontends else { panic!("{config:?}") };
    let use_backend =
        |when: &str, backend: &str| UseBackend { when: when.to_owned(), backend: backend.into() };
    let file = |n: u8| Certificate {
        certificate: format!("/c/{n}.pem").into(),
        key: format!("/c/{n}.key").into(),
    };
    let plain = Frontend::new("web", vec![]);
    let expected = Frontend {
        listen: found.listen.clone(),
        backend: Some("app".into()),
        use_backend: vec![use_backend("x when y", "a"), use_backend("method == \"GET\"", "b")],
        certificates: vec![file(0), file(1)],
        http2: false,
        proxy_protocol: true,
        trusted: vec!["10.0.0.0/8".parse().unwrap(), "192.0.2.1".parse().unwrap()],
        user_from: Some(UserFrom::Bearer),
        upgrades: vec!["websocket".into()],
        body_bytes_max: Some(1 << 20),
        connections_max: 50,
        timeouts: paceline_routing::FrontendTimeouts {
            header: Span::from_secs(1),
            body: Span::from_secs(2),
            idle: Span::from_secs(3),
            queue: Some(Span::from_secs(4)),
            tunnel: Span::from_secs(5),
        },
        errors: vec![ErrorBody { status: 503, file: "/e/503.html".into() }],
        access_log: Some(LogFormat::Common),
        log_values: vec![("rate".into(), "rate(\"c\")".to_owned())],
        ..plain
    };
    assert_eq!(*found, expected);
    let mut listen: Vec<String> = found.listen.iter().map(ToString::to_string).collect();
    listen.sort();
    assert_eq!(listen, ["127.0.0.1:80", "[::1]:80", "unix:/run/w.sock"]);
    let none =
        r#"[{"op": "update", "table": "Frontend", "where": [], "row": {"upgrades": "none"}}]"#;
    world.transact(none).unwrap();
    assert_eq!(world.config().frontends[0].upgrades, []);
}

#[test]
fn every_column_of_backends_and_servers_is_a_setting() {
    let mut world = World::new();
    world
        .insert(
            "Backend",
            r#"{"name": "app", "balance": "power-of-two", "queue_max_len": 5,
                "queue_max_delay": "6s", "retries": 0, "health": true, "health_path": "/up",
                "health_host": "h", "health_interval": "1s", "health_timeout": "500ms",
                "health_rise": 1, "health_fall": 9, "timeout_connect": "1s",
                "timeout_response": "2s", "timeout_idle": "3s", "tls": true, "tls_ca": "/c/ca.pem",
                "tls_name": "api.internal", "tls_verify": false, "tls_certificate": "/c/1.pem",
                "tls_key": "/c/1.key"}"#,
        )
        .unwrap();
    world.insert("Backend", r#"{"name": "plain", "health": true, "tls": true}"#).unwrap();
    let row = r#"{"backend": "app", "name": "a", "address": "unix:/run/a", "weight": 0,
                  "max_connections": 7}"#;
    world.insert("Server", row).unwrap();
    let config = world.config();
    let [app, plain] = &*config.backends else { panic!("{config:?}") };
    let health = Health {
        path: Some("/up".into()),
        host: Some("h".into()),
        interval: Span::from_secs(1),
        timeout: Span::from_ms(500),
        rise: 1,
        fall: 9,
    };
    let expected = Backend {
        id: BackendId(1),
        name: "app".into(),
        balance: Balance::PowerOfTwo,
        servers: vec![Server {
            id: ServerId(1),
            name: "a".into(),
            address: address("unix:/run/a"),
            weight: 0,
            connections_max: Some(7),
        }],
        queue_len_max: Some(5),
        queue_delay_max: Some(Span::from_secs(6)),
        retries: 0,
        health: Some(health),
        timeouts: paceline_routing::BackendTimeouts {
            connect: Span::from_secs(1),
            response: Span::from_secs(2),
            idle: Span::from_secs(3),
        },
        tls: Some(BackendTls {
            ca: Some("/c/ca.pem".into()),
            name: Some("api.internal".into()),
            verify: false,
            certificate: Some(Certificate {
                certificate: "/c/1.pem".into(),
                key: "/c/1.key".into(),
            }),
        }),
    };
    assert_eq!(*app, expected);
    assert_eq!(plain.health, Some(Health::default()));
    assert_eq!(plain.tls, Some(BackendTls::default()));
}

#[test]
fn texts_that_mean_nothing_say_where_and_change_nothing() {
    let mut world = World::new();
    world.insert("Backend", r#"{"name": "app"}"#).unwrap();
    let frontend = |more: &str| format!(r#"{{"name": "web", "listen": "127.0.0.1:80", {more}}}"#);
    let server =
        |address: &str| format!(r#"{{"backend": "app", "name": "a", "address": "{address}"}}"#);
    for (table, row, error) in [
        (
            "Frontend",
            r#"{"name": "web"}"#.to_owned(),
            "Frontend web: listen: expected an address to listen on",
        ),
        (
            "Frontend",
            r#"{"name": "web", "listen": "80"}"#.to_owned(),
            "Frontend web: listen: expected an address such as \"127.0.0.1:80\"",
        ),
        (
            "Frontend",
            r#"{"name": "web", "listen": "localhost:80"}"#.to_owned(),
            "Frontend web: listen: expected an IP address to listen on, found \"localhost:80\"",
        ),
        (
            "Frontend",
            frontend(r#""use_backend": ["map", [[3, "app if x"]]]"#),
            "Frontend web: use_backend: 3: expected \"BACKEND when EXPRESSION\"",
        ),
        (
            "Frontend",
            frontend(r#""tls_certificate": ["map", [[0, "/a"]]]"#),
            "Frontend web: tls_key: 0: expected the key of this certificate",
        ),
        (
            "Frontend",
            frontend(r#""tls_key": ["map", [[0, "/a"]]]"#),
            "Frontend web: tls_certificate: 0: expected the certificate of this key",
        ),
        (
            "Frontend",
            frontend(r#""tls_key": ["map", [[0, "a"]]], "tls_certificate": ["map", [[0, "/a"]]]"#),
            "Frontend web: tls_key: 0: expected an absolute path of at most 4095 bytes, found \"a\"",
        ),
        (
            "Frontend",
            frontend(r#""errors": ["map", [[503, "a.html"]]]"#),
            "Frontend web: errors: 503: expected an absolute path",
        ),
        (
            "Frontend",
            frontend(r#""trusted": "10.0.0.0/33""#),
            "Frontend web: trusted: expected an address, or a network such as",
        ),
        (
            "Frontend",
            frontend(r#""upgrades": "a b""#),
            "Frontend web: upgrades: expected a protocol such as \"websocket\", found \"a b\"",
        ),
        (
            "Frontend",
            frontend(r#""upgrades": ["set", ["none", "websocket"]]"#),
            "Frontend web: upgrades: expected a protocol such as \"websocket\", found \"none\"",
        ),
        (
            "Frontend",
            frontend(r#""timeout_idle": "soon""#),
            "Frontend web: timeout_idle: expected a number and a unit",
        ),
        (
            "Frontend",
            frontend(r#""timeout_header": "0s""#),
            "Frontend web: timeout_header: expected at least 1ms, found 0s",
        ),
        (
            "Backend",
            r#"{"name": "b", "health_path": "/x"}"#.to_owned(),
            "Backend b: health_path: expected none, because health is false",
        ),
        (
            "Backend",
            r#"{"name": "b", "health": true, "health_path": "x"}"#.to_owned(),
            "Backend b: health_path: expected a path such as \"/health\", found \"x\"",
        ),
        (
            "Backend",
            r#"{"name": "b", "health": true, "health_path": "/x\r\nEvil: 1"}"#.to_owned(),
            "Backend b: health_path: expected a path",
        ),
        (
            "Backend",
            r#"{"name": "b", "health": true, "health_host": "a b"}"#.to_owned(),
            "Backend b: health_host: expected the name of a host, found \"a b\"",
        ),
        (
            "Backend",
            r#"{"name": "b", "health": true, "health_interval": "0s"}"#.to_owned(),
            "Backend b: health_interval: expected at least 1ms, found 0s",
        ),
        (
            "Backend",
            r#"{"name": "b", "tls_verify": false}"#.to_owned(),
            "Backend b: tls_verify: expected none, because tls is false",
        ),
        (
            "Backend",
            r#"{"name": "b", "tls": true, "tls_ca": "ca.pem"}"#.to_owned(),
            "Backend b: tls_ca: expected an absolute path of at most 4095 bytes, found \"ca.pem\"",
        ),
        (
            "Backend",
            r#"{"name": "b", "tls": true, "tls_certificate": "/c"}"#.to_owned(),
            "Backend b: tls_key: expected the key of the certificate",
        ),
        (
            "Backend",
            r#"{"name": "b", "tls": true, "tls_key": "/k"}"#.to_owned(),
            "Backend b: tls_certificate: expected the certificate of the key",
        ),
        (
            "Backend",
            r#"{"name": "b", "tls": true, "tls_name": "a b"}"#.to_owned(),
            "Backend b: tls_name: expected the name of a host or an IP address, found \"a b\"",
        ),
        ("Server", server("app"), "Server app/a: address: expected an address such as"),
        (
            "Server",
            server("app:0"),
            "Server app/a: address: expected a port to connect to, found \"app:0\"",
        ),
        (
            "Server",
            server("app:80").replace(r#""app", "#, r#""ap", "#),
            "Server ap/a: backend: there is no backend \"ap\"",
        ),
        // It would have no backend after the next restart.
        (
            "Server",
            server("app:80").replace('}', r#", "persistent": true}"#),
            "Server app/a: backend: there is no backend \"app\" (at the next start",
        ),
    ] {
        let failed = world.try_insert(table, &row).unwrap_err();
        assert!(failed.starts_with(error), "{row}:\n  {failed}\n  {error}");
    }
    for (table, row) in [
        ("Backend", r#"{"name": "b", "balance": "by-lot"}"#.to_owned()),
        ("Backend", r#"{"name": "app"}"#.to_owned()),
        ("Frontend", frontend(r#""errors": ["map", [[200, "/a"]]]"#)),
        ("Frontend", frontend(r#""access_log": "xml""#)),
        ("Frontend", frontend(r#""max_connections": 0"#)),
        ("Http", r#"{"threads": 0}"#.to_owned()),
    ] {
        let error = world.insert(table, &row).unwrap_err();
        assert!(error.contains("constraint violation"), "{row}: {error}");
    }
    assert_eq!((world.config().frontends, world.config().backends.len()), (vec![], 1));
}

#[test]
fn what_a_checkpoint_counts_is_requests_unless_said() {
    let mut world = World::new();
    world.insert("Checkpoint", r#"{"name": "r", "at": "frontend web"}"#).unwrap();
    let row = r#"{"name": "c", "at": "frontend web", "on": "connection"}"#;
    world.insert("Checkpoint", row).unwrap();
    let on: Vec<On> = world.config().checkpoints.iter().map(|spec| spec.on).collect();
    assert_eq!(on, [On::Request, On::Connection]);
}

#[test]
fn servers_keep_their_numbers_and_show_their_figures() {
    let mut world = World::new();
    world.insert("Backend", r#"{"name": "app"}"#).unwrap();
    for name in ["a", "b"] {
        let row = format!(r#"{{"backend": "app", "name": "{name}", "address": "app:80"}}"#);
        world.insert("Server", &row).unwrap();
    }
    let before = world.config().backends;
    let moved = r#"[{"op": "update", "table": "Server", "where": [["name", "==", "a"]],
                     "row": {"address": "app:81"}}]"#;
    world.transact(moved).unwrap();
    let after = world.config().backends;
    assert_eq!(before[0].servers[0].id, after[0].servers[0].id);
    assert_ne!(before[0].servers, after[0].servers);

    let mut figures = Figures::default();
    figures.servers.insert(after[0].servers[0].id, (true, 3));
    let puts = world.model.figures(&figures, world.database.store());
    assert_eq!(puts.len(), 1, "nothing is known of the other");
    // The backend reports the requests that wait for its servers.
    let waiting = Stats { queued_now: 2, refused_full: 3, expired: 4, ..Stats::default() };
    figures.backends.insert(after[0].id, waiting);
    let puts = world.model.figures(&figures, world.database.store());
    assert_eq!(puts.len(), 2, "the server and the backend");
    world.database.maintain(puts).unwrap();
    let again = world.model.figures(&figures, world.database.store());
    assert!(again.is_empty(), "they are there already");
}

#[test]
fn a_restart_keeps_what_is_persistent() {
    let mut world = World::new();
    for (name, persistent) in [("kept", true), ("gone", false)] {
        let row = format!(
            r#"{{"name": "{name}", "listen": "127.0.0.1:80", "persistent": {persistent}}}"#
        );
        world.insert("Frontend", &row).unwrap();
        world
            .insert("Backend", &format!(r#"{{"name": "{name}", "persistent": {persistent}}}"#))
            .unwrap();
        let row = format!(
            r#"{{"backend": "{name}", "name": "a", "address": "app:80", "persistent": {persistent}}}"#
        );
        world.insert("Server", &row).unwrap();
    }
    world.insert("Http", r#"{"threads": 3}"#).unwrap();
    let puts = world.model.restart(world.database.store(), &mut UuidSource::from_number(2));
    world.database.maintain(puts).unwrap();
    let config = world.config();
    let frontends: Vec<&str> = config.frontends.iter().map(|frontend| &*frontend.name).collect();
    let servers: Vec<(&str, usize)> =
        config.backends.iter().map(|b| (&*b.name, b.servers.len())).collect();
    assert_eq!((frontends, servers), (vec!["kept"], vec![("kept", 1)]));
    assert_eq!(world.model.http_threads(world.database.store()), Ok(Some(3)));
}

#[test]
fn operators_edit_what_is_transient_and_admins_the_rest() {
    for (table, row, role) in [
        ("Frontend", r#"{"name": "f", "listen": "127.0.0.1:80"}"#, Role::Operator),
        ("Frontend", r#"{"name": "f", "listen": "127.0.0.1:80", "persistent": true}"#, Role::Admin),
        ("Backend", r#"{"name": "b"}"#, Role::Operator),
        ("Backend", r#"{"name": "b", "persistent": true}"#, Role::Admin),
        ("Server", r#"{"backend": "b", "name": "s", "address": "a:1"}"#, Role::Operator),
        (
            "Server",
            r#"{"backend": "b", "name": "s", "address": "a:1", "persistent": true}"#,
            Role::Admin,
        ),
        ("Http", r#"{"threads": 1}"#, Role::Admin),
        ("Api", r#"{"show_text": true}"#, Role::Admin),
    ] {
        let mut world = World::new();
        let changes = world.insert(table, row).unwrap();
        assert_eq!(world.model.least_role(&changes).0, role, "{row}");
        assert_eq!(world.model.concerns(&changes), !["Http", "Api"].contains(&table));
        let delete = format!(r#"[{{"op": "delete", "table": "{table}", "where": []}}]"#);
        let changes = world.transact(&delete).unwrap();
        assert_eq!(world.model.least_role(&changes).0, role, "{row}");
    }
}

/// A user that may not name a file learns which column names one.
#[test]
fn the_column_that_names_a_file_is_told() {
    for (table, row, place) in [
        ("Frontend", r#"{"name": "f", "errors": ["map", [[503, "/a"]]]}"#, Some(("f", "errors"))),
        ("Frontend", r#"{"name": "f", "listen": "unix:/a"}"#, Some(("f", "listen"))),
        (
            "Server",
            r#"{"backend": "b", "name": "s", "address": "unix:/a"}"#,
            Some(("b/s", "address")),
        ),
        ("Server", r#"{"backend": "b", "name": "s", "address": "a:1"}"#, None),
    ] {
        let mut world = World::new();
        let changes = world.insert(table, row).unwrap();
        let found = world
            .model
            .named_file(&changes)
            .map(|error| (error.row.unwrap(), error.column.unwrap()));
        assert_eq!(found, place.map(|(row, column)| (row.into(), column.into())), "{row}");
    }
}

/// The daemon may read files that an operator may not, and sends error bodies to all clients.
#[test]
fn only_admins_name_files_that_are_shown() {
    let mut world = World::new();
    let role = |world: &mut World, operations: &str| {
        let changes = world.transact(operations).unwrap();
        world.model.least_role(&changes).0
    };
    let insert = r#"[{"op": "insert", "table": "Frontend", "row": {"name": "f",
                      "errors": ["map", [[503, "/a"]]]}}]"#;
    assert_eq!(role(&mut world, insert), Role::Admin);
    let update = |row: &str| {
        format!(r#"[{{"op": "update", "table": "Frontend", "where": [], "row": {row}}}]"#)
    };
    for (row, needed) in [
        (r#"{"max_body": 5}"#, Role::Operator),
        (r#"{"errors": ["map", [[503, "/b"]]]}"#, Role::Admin),
        (r#"{"errors": ["map", [[503, "/b"], [502, "/b"]]]}"#, Role::Admin),
        (r#"{"errors": ["map", [[502, "/b"]]]}"#, Role::Operator),
        (r#"{"errors": ["map", []]}"#, Role::Operator),
    ] {
        assert_eq!(role(&mut world, &update(row)), needed, "{row}");
    }
}

/// The daemon would connect to its own API's socket, or replace a file, with its own permissions.
#[test]
fn only_admins_name_sockets() {
    let mut world = World::new();
    let role = |world: &mut World, operations: &str| {
        let changes = world.transact(operations).unwrap();
        world.model.least_role(&changes).0
    };
    let insert = |table: &str, row: &str| {
        format!(r#"[{{"op": "insert", "table": "{table}", "row": {row}}}]"#)
    };
    let update = |table: &str, row: &str| {
        format!(r#"[{{"op": "update", "table": "{table}", "where": [], "row": {row}}}]"#)
    };
    for (operations, needed) in [
        (
            insert("Server", r#"{"backend": "b", "name": "s", "address": "127.0.0.1:80"}"#),
            Role::Operator,
        ),
        (update("Server", r#"{"address": "unix:/run/api.sock"}"#), Role::Admin),
        (update("Server", r#"{"weight": 2}"#), Role::Operator),
        (update("Server", r#"{"address": "unix:/run/b.sock"}"#), Role::Admin),
        (update("Server", r#"{"address": "127.0.0.1:81"}"#), Role::Operator),
        (insert("Frontend", r#"{"name": "f", "listen": "unix:/run/f.sock"}"#), Role::Admin),
        (
            update("Frontend", r#"{"listen": ["set", ["unix:/run/f.sock", "127.0.0.1:80"]]}"#),
            Role::Operator,
        ),
        (
            update("Frontend", r#"{"listen": ["set", ["unix:/run/f.sock", "unix:/run/g.sock"]]}"#),
            Role::Admin,
        ),
        (update("Frontend", r#"{"listen": "127.0.0.1:80"}"#), Role::Operator),
    ] {
        assert_eq!(role(&mut world, &operations), needed, "{operations}");
    }
}

#[test]
fn as_many_frontends_backends_and_servers_as_there_may_be() {
    let mut world = World::new();
    for (table, max) in [("Frontend", 1_000), ("Backend", 10_000), ("Server", 100_000)] {
        let insert = |n: usize| {
            format!(r#"{{"op": "insert", "table": "{table}", "row": {{"name": "n{n}"}}}}"#)
        };
        let all: Vec<String> = (0..max).map(insert).collect();
        world.transact(&format!("[{}]", all.join(","))).unwrap();
        let error = world.transact(&format!("[{}]", insert(max))).unwrap_err();
        assert!(error.contains("constraint violation"), "{error}");
    }
}
