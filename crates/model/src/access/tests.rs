//! Changes and the least role for each, as promised for identity and roles.

use super::{Grant, SqlVerifier, TokenRow};
use crate::world::World;
use paceline_tables::Changes;
use paceline_types::Role;

const HASH: &str = "00ff00000000000000000000000000000000000000000000000000000000000a";

#[test]
fn a_change_needs_the_role_that_the_promises_name() {
    let token = format!(
        r#"[{{"op": "insert", "table": "Token", "row": {{"name": "ci", "role": "client",
            "user": "ci", "hash": "{HASH}"}}}}]"#
    );
    let table: &[(&str, Role, &str)] = &[
        (
            r#"[{"op": "insert", "table": "Pool", "row": {"name": "p"}}]"#,
            Role::Admin,
            "insert Pool p",
        ),
        (
            r#"[{"op": "update", "table": "Pool", "where": [["name", "==", "p"]],
              "row": {"threads_max": 3}}]"#,
            Role::Operator,
            "update Pool p",
        ),
        (
            r#"[{"op": "update", "table": "Pool", "where": [], "row": {"persistent": true}}]"#,
            Role::Admin,
            "update Pool p",
        ),
        (
            r#"[{"op": "update", "table": "Pool", "where": [], "row": {"persistent": true,
              "state": "stopped"}}]"#,
            Role::Operator,
            "update Pool p",
        ),
        (
            r#"[{"op": "update", "table": "Pool", "where": [], "row": {"persistent": false}}]"#,
            Role::Admin,
            "update Pool p",
        ),
        (r#"[{"op": "delete", "table": "Pool", "where": []}]"#, Role::Admin, "delete Pool p"),
        (
            r#"[{"op": "insert", "table": "Pool", "row": {"name": "default", "threads_max": 3}}]"#,
            Role::Operator,
            "insert Pool default",
        ),
        (
            r#"[{"op": "insert", "table": "Rule", "row": {"number": 7}}]"#,
            Role::Operator,
            "insert Rule 7",
        ),
        (
            r#"[{"op": "insert", "table": "Saved_Rule", "row": {"number": 7}}]"#,
            Role::Admin,
            "insert Saved_Rule 7",
        ),
        (r#"[{"op": "delete", "table": "Rule", "where": []}]"#, Role::Operator, "delete Rule 7"),
        (
            r#"[{"op": "insert", "table": "Checkpoint", "row": {"name": "c", "at": "frontend api"}}]"#,
            Role::Operator,
            "insert Checkpoint c",
        ),
        (
            r#"[{"op": "insert", "table": "Resource", "row": {"name": "r", "persistent": true}}]"#,
            Role::Admin,
            "insert Resource r",
        ),
        // An operator may not delete what an admin made persistent.
        (
            r#"[{"op": "delete", "table": "Resource", "where": []}]"#,
            Role::Admin,
            "delete Resource r",
        ),
        (
            r#"[{"op": "insert", "table": "Sql_Target", "row": {"name": "t", "sqlite": "a.db"}}]"#,
            Role::Admin,
            "insert Sql_Target t",
        ),
        (
            r#"[{"op": "update", "table": "Sql_Target", "where": [], "row": {"notice": false}}]"#,
            Role::Operator,
            "update Sql_Target t",
        ),
        (
            r#"[{"op": "update", "table": "Sql_Target", "where": [], "row": {"sqlite": "b.db"}}]"#,
            Role::Admin,
            "update Sql_Target t",
        ),
        (
            r#"[{"op": "delete", "table": "Sql_Target", "where": []}]"#,
            Role::Admin,
            "delete Sql_Target t",
        ),
        (
            r#"[{"op": "insert", "table": "User", "row": {"name": "eva", "role": "viewer"}}]"#,
            Role::Admin,
            "insert User eva",
        ),
        (&token, Role::Admin, "insert Token ci"),
        (r#"[{"op": "delete", "table": "Token", "where": []}]"#, Role::Admin, "delete Token ci"),
        // The row that needs the highest role decides.
        (
            r#"[{"op": "insert", "table": "Rule", "row": {"number": 8}},
              {"op": "delete", "table": "Saved_Rule", "where": []}]"#,
            Role::Admin,
            "delete Saved_Rule 7",
        ),
    ];
    let mut world = World::new();
    for (operations, role, what) in table {
        let changes = world.transact(operations).unwrap();
        let found = world.model.least_role(&changes);
        assert_eq!((found.0, found.1.as_str()), (*role, *what), "{operations}");
    }
    assert_eq!(world.model.least_role(&Changes::default()).0, Role::Viewer);
}

/// Only admins may name files and disable the verification of certificates; operators may do everything else.
#[test]
fn files_and_trust_in_servers_need_admin() {
    let table: &[(&str, Role)] = &[
        (r#""tls": true"#, Role::Operator),
        (r#""tls_name": "api.internal""#, Role::Operator),
        (r#""tls_verify": true"#, Role::Operator),
        (r#""tls_ca": "/ca""#, Role::Admin),
        (r#""tls_ca": "/ca", "retries": 1"#, Role::Operator),
        (r#""tls_certificate": "/c", "tls_key": "/k""#, Role::Admin),
        (r#""tls_key": "/other""#, Role::Admin),
        (r#""tls_ca": ["set", []], "tls_certificate": ["set", []]"#, Role::Operator),
        (r#""tls_verify": false"#, Role::Admin),
        (r#""tls_verify": false, "retries": 2"#, Role::Operator),
        (r#""tls_verify": ["set", []]"#, Role::Operator),
        // Without TLS nothing is verified either.
        (r#""tls": false, "tls_name": ["set", []], "tls_key": ["set", []]"#, Role::Admin),
    ];
    let mut world = World::new();
    world.transact(r#"[{"op": "insert", "table": "Backend", "row": {"name": "b"}}]"#).unwrap();
    for (row, role) in table {
        let update =
            format!(r#"[{{"op": "update", "table": "Backend", "where": [], "row": {{{row}}}}}]"#);
        let changes = world.transact(&update).unwrap();
        assert_eq!(world.model.least_role(&changes).0, *role, "{row}");
    }
    for (row, role) in [
        (r#""tls": true"#, Role::Operator),
        (r#""tls": true, "tls_verify": false"#, Role::Admin),
        (r#""tls": true, "tls_ca": "/ca""#, Role::Admin),
    ] {
        let mut world = World::new();
        let insert =
            format!(r#"[{{"op": "insert", "table": "Backend", "row": {{"name": "b", {row}}}}}]"#);
        let changes = world.transact(&insert).unwrap();
        assert_eq!(world.model.least_role(&changes).0, role, "{row}");
    }
}

/// Objects of a file are deleted when the next version of the file does not name them. So setting or removing the
/// owner of a row needs the role that deleting it needs.
#[test]
fn whose_text_made_a_row_is_said_by_those_who_may_delete_it() {
    let update = |table: &str, applied: bool| {
        let applied = if applied { r#""a.toml""# } else { r#"["set", []]"# };
        format!(
            r#"[{{"op": "update", "table": "{table}", "where": [], "row": {{"file": {applied}}}}}]"#
        )
    };
    let rows: &[(&str, &str, Role, Role)] = &[
        ("Pool", r#"{"name": "p"}"#, Role::Admin, Role::Admin),
        ("Resource", r#"{"name": "r", "persistent": true}"#, Role::Admin, Role::Admin),
        (
            "Checkpoint",
            r#"{"name": "c", "at": "frontend api", "persistent": true}"#,
            Role::Admin,
            Role::Admin,
        ),
        // An operator creates and deletes transient rows, with a file or without.
        ("Resource", r#"{"name": "r", "file": "a.toml"}"#, Role::Operator, Role::Operator),
        (
            "Checkpoint",
            r#"{"name": "c", "at": "frontend api", "file": "a.toml"}"#,
            Role::Operator,
            Role::Operator,
        ),
        ("Rule", r#"{"number": 7, "file": "a.toml"}"#, Role::Operator, Role::Operator),
        ("Pool", r#"{"name": "default", "file": "a.toml"}"#, Role::Operator, Role::Operator),
    ];
    for (table, row, make, say) in rows {
        let mut world = World::new();
        let insert = format!(r#"[{{"op": "insert", "table": "{table}", "row": {row}}}]"#);
        let changes = world.transact(&insert).unwrap();
        assert_eq!(world.model.least_role(&changes).0, *make, "{row}");
        let was_applied = row.contains("file");
        for applied in [!was_applied, was_applied] {
            let changes = world.transact(&update(table, applied)).unwrap();
            assert_eq!(world.model.least_role(&changes).0, *say, "{table} {row} {applied}");
        }
    }
}

#[test]
fn rows_give_roles_and_what_cannot_be_read_is_named() {
    let mut world = World::new();
    let row = format!(
        r#"[{{"op": "insert", "table": "Token", "row": {{"name": "ci", "role": "client",
            "user": "build", "hash": "{HASH}", "expires": 5}}}},
            {{"op": "insert", "table": "User", "row": {{"name": "eva", "role": "admin"}}}}]"#
    );
    let changes = world.transact(&row).unwrap();
    assert!(world.model.concerns_grants(&changes) && !world.model.concerns(&changes));
    let mut hash = [0; 32];
    (hash[1], hash[31]) = (255, 10);
    let token = Grant::Token(TokenRow {
        name: "ci".into(),
        hash,
        role: Role::Client,
        user: "build".into(),
        expires_ms: Some(5),
    });
    let user = Grant::User { name: "eva".into(), role: Some(Role::Admin), verifier: None };
    assert_eq!(world.model.grants(world.database.store()).unwrap(), [user, token.clone()]);
    let changes = world.transact(r#"[{"op": "delete", "table": "Token", "where": []}]"#).unwrap();
    assert_eq!(
        world.model.grant_changes(&changes, world.database.store()).unwrap(),
        [(Some(token), None)]
    );

    let bad = row.replace(HASH, &HASH.replace('f', "F")).replace("eva", "eve");
    let changes = world.transact(&bad).unwrap();
    let error =
        world.model.grant_changes(&changes, world.database.store()).unwrap_err().to_string();
    assert_eq!(error, "Token ci: hash: expected 64 hexadecimal digits in lower case");
    world.database.undo(&changes);
    for (what, with) in [(HASH, "00"), ("client", "root"), ("\"ci\"", "\"\"")] {
        assert!(world.transact(&row.replace("eva", "eve").replace(what, with)).is_err(), "{with}");
    }
}

#[test]
fn as_many_tokens_and_users_as_there_may_be() {
    const ROWS_MAX: usize = 10_000;
    let mut world = World::new();
    for table in ["User", "Token"] {
        let row = |number: usize| match table {
            "User" => format!(r#"{{"name": "u{number}", "role": "viewer"}}"#),
            _ => format!(
                r#"{{"name": "t{number}", "role": "viewer", "user": "u", "hash": "{number:064x}"}}"#
            ),
        };
        let insert =
            |number| format!(r#"{{"op": "insert", "table": "{table}", "row": {}}}"#, row(number));
        let all: Vec<String> = (0..ROWS_MAX).map(insert).collect();
        world.transact(&format!("[{}]", all.join(","))).unwrap();
        let error = world.transact(&format!("[{}]", insert(ROWS_MAX))).unwrap_err();
        assert!(error.contains("constraint violation"), "{error}");
    }
}

/// Every file that a frontend names is read with the permissions of the daemon.
#[test]
fn files_of_frontends_need_admin() {
    let pair = r#""tls_certificate": ["map", [[0, "/c"]]], "tls_key": ["map", [[0, "/k"]]]"#;
    let table = [
        (r#""http2": false"#.to_owned(), Role::Operator),
        (pair.to_owned(), Role::Admin),
        (format!(r#"{pair}, "http2": true"#), Role::Operator),
        (pair.replace("/c", "/dev/zero"), Role::Admin),
        (pair.replace("/k", "/other"), Role::Admin),
        (r#""tls_certificate": ["map", []], "tls_key": ["map", []]"#.to_owned(), Role::Operator),
        (pair.to_owned(), Role::Admin),
        // A file named as a key may not be sent as a page.
        (r#""errors": ["map", [[503, "/k"]]]"#.to_owned(), Role::Admin),
    ];
    let mut world = World::new();
    let row = r#"{"name": "f", "listen": "127.0.0.1:1"}"#;
    world.transact(&format!(r#"[{{"op": "insert", "table": "Frontend", "row": {row}}}]"#)).unwrap();
    for (row, role) in table {
        let update =
            format!(r#"[{{"op": "update", "table": "Frontend", "where": [], "row": {{{row}}}}}]"#);
        let changes = world.transact(&update).unwrap();
        assert_eq!(world.model.least_role(&changes).0, role, "{row}");
    }
}

const VERIFIER: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=\
                        :wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

/// A password is a row of its own, which is deleted with its user, is never changed, and must be a verifier.
#[test]
fn a_user_may_have_a_password_and_no_role() {
    let mut world = World::new();
    let with = |verifier: &str, user: &str| {
        format!(
            r#"[{{"op": "insert", "table": "Sql_Password", "uuid-name": "p", "row": {{"verifier": "{verifier}"}}}},
                {user}]"#
        )
    };
    let insert = r#"{"op": "insert", "table": "User",
                     "row": {"name": "app", "sql_password": ["named-uuid", "p"]}}"#;
    let changes = world.transact(&with(VERIFIER, insert)).unwrap();
    assert_eq!(world.model.least_role(&changes).0, Role::Admin);
    let verifier = SqlVerifier::parse(VERIFIER).unwrap();
    let app = |verifier| Grant::User { name: "app".into(), role: None, verifier };
    let expected = app(Some(verifier.clone()));
    assert_eq!(
        world.model.grants(world.database.store()).unwrap(),
        std::slice::from_ref(&expected)
    );
    let found = world.model.grant_changes(&changes, world.database.store()).unwrap();
    assert_eq!(found, [(None, Some(expected))]);
    assert!(!format!("{found:?}").contains("W22Za"), "{found:?}");
    assert_eq!(verifier.verifier().iterations(), 4_096);

    let update = r#"{"op": "update", "table": "User", "where": [["name", "==", "app"]],
                     "row": {"sql_password": ["named-uuid", "p"]}}"#;
    for bad in ["secret", &VERIFIER.replace("4096", "0"), &VERIFIER.replace("$WG5d", "$")] {
        let changes = world.transact(&with(bad, update)).unwrap();
        let error = world.model.grant_changes(&changes, world.database.store());
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("User app: sql_password: expected a verifier such as"),
            "{error}"
        );
        assert!(!error.contains(bad), "{error}");
        world.database.undo(&changes);
    }
    let change =
        r#"[{"op": "update", "table": "Sql_Password", "where": [], "row": {"verifier": "x"}}]"#;
    assert!(world.transact(change).is_err(), "it belongs to its user for ever");
    let delete = r#"[{"op": "delete", "table": "User", "where": []}]"#;
    let changes = world.transact(delete).unwrap();
    assert_eq!(changes.rows.len(), 2, "the password is deleted too");
    let found = world.model.grant_changes(&changes, world.database.store()).unwrap();
    assert_eq!(found, [(Some(app(None)), None)]);
}
