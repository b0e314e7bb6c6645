//! Targets of the SQL door in the file: the example, errors with their places, and the word for no login.

use super::{SQL_EXAMPLE, apply, column, database, object, read, wrong};
use crate::export;

#[test]
fn the_example_is_read_checked_and_exported() {
    let document = read(SQL_EXAMPLE).within("/etc/paceline");
    let app = object(&document, "Sql_Target", "app");
    assert_eq!(column(app, "login_password_file"), "/etc/paceline/web.pw");
    assert_eq!(column(app, "connections_lifetime"), "1h");
    let reports = object(&document, "Sql_Target", "reports");
    assert_eq!(
        (column(reports, "login_user"), column(reports, "notice")),
        ("-".into(), "false".into())
    );
    assert_eq!(document.files().len(), 1, "{:?}", document.files());
    let warnings = document.check().unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let mut first = database();
    apply(&mut first, &document);
    let exported = export(&first.snapshot());
    for line in [
        "connections = { max = 20, min = 2, idle = \"10m\", lifetime = \"1h\" }",
        "login = { user = \"web\", password_file = \"/etc/paceline/web.pw\" }",
        "notice = false",
    ] {
        assert!(exported.contains(line), "{line}: {exported}");
    }
    let mut second = database();
    apply(&mut second, &read(&exported));
    assert_eq!(export(&second.snapshot()), exported);
}

#[test]
fn errors_name_the_key_and_its_place() {
    let head = "[[sql_target]]\nname = \"app\"\n";
    for (lines, expected) in [
        ("", "1:1: `upstream`: expected upstream or sqlite"),
        ("upstream = \"mysql://db/app\"\n", "3:1: `upstream`: character 1: expected a URL"),
        ("upstream = 5432\n", "3:12: `upstream`: expected a text"),
        ("sqlite = \"/tmp/notes.db\"\n", "3:1: `sqlite`: expected the name of a file"),
        ("sqlite = \"a.db\"\nupstream = \"postgresql://a/b\"\n", "3:1: `sqlite`: expected none"),
        (
            "sqlite = \"a.db\"\npooling = \"session\"\n",
            "4:1: `pooling`: pooling is a setting of targets",
        ),
        (
            "sqlite = \"a.db\"\nlogin = { user = \"a\" }\n",
            "4:11: `login.user`: login.user is a setting of targets with upstream",
        ),
        (
            "upstream = \"postgresql://a/b\"\nlogin = \"me\"\n",
            "4:9: `login`: expected a table or \"client\"",
        ),
        (
            "upstream = \"postgresql://a/b\"\nconnections = { min = 30 }\n",
            "4:17: `connections.min`: expected at most 20",
        ),
        (
            "upstream = \"postgresql://a/b\"\nconnections = { max = 0 }\n",
            "4:23: `connections.max`: expected a whole number from 1",
        ),
        ("upstrem = \"postgresql://a/b\"\n", "3:1: unknown key `upstrem` in [[sql_target]]"),
    ] {
        let found = wrong(&format!("{head}{lines}"));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{expected}: {found:?}");
    }
    let twice = wrong(
        "[[sql_target]]\nname = \"a\"\nsqlite = \"a\"\n[[sql_target]]\nname = \"a\"\nsqlite = \"b\"\n",
    );
    assert_eq!(twice, ["5:1: sql_target `a` is on line 2 already"]);
    // An error in one target does not hide that of another.
    let both =
        wrong("[[sql_target]]\nname = \"a\"\n[[sql_target]]\nname = \"b\"\nupstream = \"x\"\n");
    assert_eq!(both.len(), 2, "{both:?}");
}
