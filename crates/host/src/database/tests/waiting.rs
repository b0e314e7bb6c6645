//! Requests and commits that wait, and how they count.

use super::backlog::change;
use super::*;
use paceline_tables::value::Atom;
use paceline_types::limits::SESSION_BYTES_MAX;

/// D1: the id of a request counts for as long as the request waits: for a row to change, for a conversion or for the disk.
#[test]
fn ids_of_requests_that_wait_count_d1() {
    let world = World::new("long-ids");
    let things = world.open(SCHEMA);
    let client = world.client(Role::Admin);
    let long = |number: usize| format!("\"{number}{}\"", "x".repeat(1 << 20));
    let wait = r#"[{"op": "wait", "table": "Thing", "where": [], "columns": ["name"],
                    "until": "==", "rows": [{"name": "never"}]}]"#;
    (0..20).for_each(|number| transact(&things, &client, &long(number), wait));
    let waiting = things.head().waits.all().len();
    assert_eq!(waiting, (SESSION_BYTES_MAX >> 20) - 1, "the others are refused");
    things.end_session(&client);
    hold_back(&things);
    let client = world.client(Role::Admin);
    let insert = r#"[{"op": "insert", "table": "Thing", "row": {"name": "one"}}]"#;
    let comment = r#"[{"op": "comment", "comment": "x"}]"#;
    for (number, text) in [insert, comment].into_iter().enumerate() {
        let before = client.waiting_bytes();
        transact(&things, &client, &long(number), text);
        assert!(client.waiting_bytes() - before > 1 << 20, "{text}");
    }
    let before = client.waiting_bytes();
    things.unwatch(&client, ticket(&long(2)), ticket(&long(3)));
    assert!(client.waiting_bytes() - before > 2 << 20);
    publish(&things);
    assert_eq!(received(&client).len(), 3);
    assert!(client.is_settled());
}

/// D1: a commit that waits for the disk counts for the values that it keeps, old and new, however short the request was.
#[test]
fn commits_that_wait_for_the_disk_count_for_what_they_keep_d1() {
    const COUNT: usize = 10_000;
    let world = World::new("waiting-commits");
    let things = world.open(SCHEMA);
    let client = world.client(Role::Admin);
    let tags: Vec<String> = (0..COUNT).map(|tag| tag.to_string()).collect();
    let insert = format!(
        r#"[{{"op": "insert", "table": "Thing", "row": {{"tags": ["set", [{}]]}}}}]"#,
        tags.join(",")
    );
    change(&things, &client, &insert);
    hold_back(&things);
    for tag in 0..10 {
        let before = client.waiting_bytes();
        let mutate = format!(
            r#"[{{"op": "mutate", "table": "Thing", "where": [],
                  "mutations": [["tags", "insert", {}]]}}]"#,
            COUNT + tag
        );
        transact(&things, &client, "1", &mutate);
        let counted = client.waiting_bytes() - before;
        assert!(counted >= COUNT * size_of::<Atom>(), "{counted}");
    }
    publish(&things);
    assert_eq!(received(&client).len(), 10);
    assert!(client.is_settled());
}
