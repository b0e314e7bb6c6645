//! A TOML text through the API: applied, compared, exported; and copies of the database.

use crate::client::{Answer, Client, PATIENCE};
use crate::world::World;
use paceline_api::Limits;
use paceline_host::{Mode, RealDisk, load_file};
use serde_json::{Value, json};
use std::io::Read as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Copies are bounded for the whole process, so tests that make some take turns.
static COPYING: Mutex<()> = Mutex::new(());

const TEXT: &str = r#"
[[pool]]
name = "batch"
priority = [-127, -1]
threads = { max = 8 }

[[rule]]
number = 10
match = { user = "etl-*" }
mode = "glob"
lower = 20
"#;

fn apply(client: &mut Client, query: &str, text: &str) -> Answer {
    send(client, query, "application/toml", text.as_bytes())
}

fn send(client: &mut Client, query: &str, media: &str, body: &[u8]) -> Answer {
    let length = body.len();
    let head = format!(
        "POST /v1/apply{query} HTTP/1.1\r\nhost: p\r\ncontent-type: {media}\r\n\
         content-length: {length}\r\n\r\n"
    );
    client.raw(&[head.as_bytes(), body].concat());
    client.answer()
}

fn names(client: &mut Client) -> Vec<Value> {
    let pools = client.get("/v1/pools").expect(200);
    pools.as_array().unwrap().iter().map(|pool| pool["name"].clone()).collect()
}

/// The daemon does not know where a text was read unless the query says so.
#[test]
fn relative_files_are_looked_for_in_the_directory_that_is_told() {
    let world = World::new();
    let mut client = world.unix();
    let text = "[[frontend]]\nname = 'web'\nlisten = '127.0.0.1:0'\nerrors = { 503 = 'e.html' }\n";
    let error = apply(&mut client, "?dry_run", text).expect_error(422, "constraint");
    assert_eq!(
        (&error["errors"][0]["line"], &error["errors"][0]["column"]),
        (&json!(4), &json!(18))
    );
    assert!(error["errors"][0]["hint"].as_str().unwrap().contains("whole path"), "{error}");
    for query in ["?directory=etc", "?directory=", "?directory=%2", "?directory=%00"] {
        apply(&mut client, query, text).expect_error(400, "bad_request");
    }
    apply(&mut client, "?directory=%2Fsrv%2Fmy%20files", text).expect(200);
    let frontend = client.get("/v1/frontends/web").expect(200);
    assert_eq!(frontend["errors"], json!({ "503": "/srv/my files/e.html" }));
}

#[test]
fn a_text_is_compared_then_applied_then_there_is_nothing_to_change() {
    let world = World::new();
    let mut client = world.unix();
    let created = json!([
        { "op": "create", "kind": "pool", "name": "batch" },
        { "op": "create", "kind": "rule", "name": "10" },
    ]);
    assert_eq!(apply(&mut client, "?dry_run=true", TEXT).expect(200), created);
    assert_eq!(apply(&mut client, "?dry_run", TEXT).expect(200), created);
    for query in ["?dryrun=true", "?dry_run=true&dry_run=false", "?dry_run=", "?dry_run=yes"] {
        apply(&mut client, query, TEXT).expect_error(400, "bad_request");
    }
    assert_eq!(names(&mut client), ["default"], "nothing was done");
    let mut events = world.events();
    assert_eq!(apply(&mut client, "", TEXT).expect(200), created);
    let event = events.next("config");
    assert!(event["who"].as_str().unwrap().starts_with("api:"), "{event}");
    let pool = json!({ "op": "insert", "table": "Pool", "row": "batch" });
    assert!(event["changes"].as_array().unwrap().contains(&pool), "{event}");
    assert_eq!(apply(&mut client, "", TEXT).expect(200), json!([]));
    let exported = client.get("/v1/config");
    assert_eq!(exported.header("content-type"), Some("application/toml"));
    assert_eq!(apply(&mut client, "", &exported.text).expect(200), json!([]));
    // Objects that were made by hand stay; objects that the file made and no longer names are deleted.
    client.put("/v1/pools/hand", json!({})).expect(201);
    let changed = TEXT.replace("max = 8", "max = 3").replace("[[rule]]", "[[x]]");
    let changed = changed.split_once("[[x]]").unwrap().0;
    assert_eq!(
        apply(&mut client, "", changed).expect(200),
        json!([
            { "op": "delete", "kind": "rule", "name": "10" },
            { "op": "change", "kind": "pool", "name": "batch", "members": ["threads"] },
        ])
    );
    // The output of a failed program deletes nothing.
    for blank in ["", " \n\n"] {
        apply(&mut client, "", blank).expect_error(422, "constraint");
    }
    assert!(names(&mut client).len() > 2);
    apply(&mut client, "", "# nothing").expect(200);
    assert_eq!(names(&mut client), ["default", "hand"]);
}

#[test]
fn an_export_applied_again_only_takes_over_what_was_made_by_hand() {
    let world = World::new();
    let mut client = world.unix();
    let fresh = client.get("/v1/config").text;
    assert!(fresh.lines().all(|line| line.starts_with('#')), "{fresh}");
    assert_eq!(apply(&mut client, "", &fresh).expect(200), json!([]));
    client.put("/v1/pools/hand", json!({ "priority": [3, 4], "started": true })).expect(201);
    client.put("/v1/resources/disk", json!({})).expect(201);
    let text = client.get("/v1/config").text;
    let taken = |kind: &str, name: &str| json!({ "op": "change", "kind": kind, "name": name, "members": [], "taken_over": true });
    let taken = json!([taken("pool", "hand"), taken("resource", "disk")]);
    assert_eq!(apply(&mut client, "?dry_run=true", &text).expect(200), taken);
    assert_eq!(apply(&mut client, "", &text).expect(200), taken);
    assert_eq!(apply(&mut client, "", &text).expect(200), json!([]), "it is the file's by now");
    assert_eq!(client.get("/v1/config").text, text);
}

#[test]
fn what_was_made_by_hand_and_is_in_the_way_of_a_text_is_named_with_what_to_do() {
    let world = World::new();
    let mut client = world.unix();
    apply(&mut client, "", "[[backend]]\nname = 'app'\n").expect(200);
    let server = json!({ "address": "127.0.0.1:1" });
    client.put("/v1/servers/app/d", server).expect(201);
    client
        .put("/v1/frontends/web", json!({ "listen": "127.0.0.1:0", "backend": "app" }))
        .expect(201);
    let error = apply(&mut client, "", "# nothing").expect_error(422, "constraint");
    assert_eq!(error["place"]["row"], "web", "{error}");
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.starts_with("frontend web is not of the file: change or delete it"), "{error}");
    client.delete("/v1/frontends/web").expect(204);
    let gone = |kind: &str, name: &str| json!({ "op": "delete", "kind": kind, "name": name });
    assert_eq!(
        apply(&mut client, "", "# nothing").expect(200),
        json!([gone("backend", "app"), gone("server", "app/d")])
    );
}

#[test]
fn every_error_of_a_text_is_told_with_its_place_and_nothing_is_changed() {
    let world = World::new();
    let mut client = world.unix();
    let text = "[[pool]]\nname = \"batch\"\nprioritty = [1, 2]\n\n[[rule]]\nwhen = \"user ==\"\nthen = \"go\"\n";
    for query in ["", "?dry_run=true"] {
        let error = apply(&mut client, query, text).expect_error(422, "constraint");
        let errors = error["errors"].as_array().unwrap();
        assert_eq!(errors.len(), 2, "{error}");
        assert_eq!((&errors[0]["line"], &errors[0]["column"]), (&json!(3), &json!(1)));
        assert!(errors[0]["hint"].as_str().unwrap().contains("priority"), "{error}");
        assert_eq!(errors[1]["line"], 7);
    }
    // A valid text may conflict with existing objects: the place in the text is reported.
    client.put("/v1/pools/hand", json!({ "priority": [-9, -8], "started": true })).expect(201);
    for query in ["?dry_run=true", ""] {
        let error = apply(&mut client, query, TEXT).expect_error(422, "constraint");
        assert_eq!(error["errors"][0]["line"], 4, "{error}");
        assert_eq!(names(&mut client), ["default", "hand"]);
    }
    // An attempt that was a dry run or failed left nothing behind that hinders the next.
    client.delete("/v1/pools/hand").expect(204);
    apply(&mut client, "", TEXT).expect(200);
}

/// A text belongs to a file, and only what changed in it is changed.
#[test]
fn what_was_edited_otherwise_is_drift_and_what_is_of_another_file_is_not_touched() {
    let world = World::new();
    let mut client = world.unix();
    apply(&mut client, "?file=a.toml", TEXT).expect(200);
    client.post("/v1/pools/batch/stop", json!({})).expect(200);
    client.post("/v1/rules/clear", json!({})).expect(204);
    let drift = json!([
        { "op": "drift", "kind": "pool", "name": "batch", "members": ["started"] },
        { "op": "drift", "kind": "rule", "name": "10", "deleted": true },
    ]);
    for query in ["?file=a.toml&dry_run", "?file=a.toml"] {
        assert_eq!(apply(&mut client, query, TEXT).expect(200), drift);
    }
    let reset = json!([
        { "op": "change", "kind": "pool", "name": "batch", "members": ["started"] },
        { "op": "create", "kind": "rule", "name": "10" },
    ]);
    assert_eq!(apply(&mut client, "?file=a.toml&reset", TEXT).expect(200), reset);

    let error = apply(&mut client, "?file=b.toml", TEXT).expect_error(422, "constraint");
    assert_eq!(error["errors"].as_array().unwrap().len(), 2, "{error}");
    assert!(error["message"].as_str().unwrap().contains("belongs to the file a.toml"), "{error}");
    assert_eq!(apply(&mut client, "?file=b.toml", "# nothing").expect(200), json!([]));
    apply(&mut client, "?file=b.toml&take_over", TEXT).expect(200);
    assert_eq!(apply(&mut client, "?file=a.toml", "# nothing").expect(200), json!([]));
    let error = apply(&mut client, "?file=b.toml&deletions_max=1", "# nothing");
    assert_eq!(error.expect_error(409, "conflict")["deletions"], 2);
    assert_eq!(client.get("/v1/config?file=a.toml").text.matches("name =").count(), 0);
    assert_eq!(client.get("/v1/config?file=b.toml").text.matches("name =").count(), 1);

    let zero = "[[pool]]\nname = 'zero'\npriority = [0, 0]\n";
    let error = apply(&mut client, "?strict", zero).expect_error(422, "constraint");
    assert_eq!(error["errors"][0]["line"], 3, "{error}");
    let told = apply(&mut client, "", zero).expect(200);
    assert_eq!(told[1]["op"], "warning", "{told}");
    for query in ["?file=", "?file=%00", "?deletions_max=many", "?reset=maybe"] {
        apply(&mut client, query, zero).expect_error(400, "bad_request");
    }
}

#[test]
fn texts_that_are_none_are_refused() {
    let world = World::with(Limits { config_bytes_max: 1_000, ..Limits::default() });
    let mut client = world.unix();
    send(&mut client, "", "application/json", b"{}").expect_error(415, "media_type");
    send(&mut client, "", "text/plain; charset=utf-8", b"#").expect(200);
    send(&mut client, "", "application/toml", b"\xff").expect_error(400, "bad_request");
    send(&mut client, "?dry_run=maybe", "text/plain", b"").expect_error(400, "bad_request");
    send(&mut client, "", "text/plain", &[b'#'; 1_000]).expect(200);
    send(&mut client, "", "text/plain", &[b'#'; 1_001]).expect_error(413, "too_large");
}

#[test]
fn a_violation_names_the_row_it_is_about_also_if_another_was_edited() {
    let world = World::new();
    let mut client = world.unix();
    client.put("/v1/pools/p", json!({ "priority": [3, 4], "started": true })).expect(201);
    let checkpoint = json!({ "at": "pool p", "rate": "5/s" });
    client.put("/v1/checkpoints/a%3A%20b", checkpoint).expect(201);
    let error = client.delete("/v1/pools/p").expect_error(422, "constraint");
    let place = json!({ "table": "Checkpoint", "row": "a: b", "column": "at" });
    assert_eq!(error["place"], place, "{error}");
}

#[test]
fn whoever_only_creates_never_replaces() {
    let world = World::new();
    let mut client = world.unix();
    let mut create = |name: &str, value: &str| {
        let head = format!(
            "PUT /v1/pools/{name} HTTP/1.1\r\nhost: p\r\nif-none-match: {value}\r\n\
             content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        client.raw(head.as_bytes());
        client.answer()
    };
    create("new", "*").expect(201);
    create("new", "*").expect_error(409, "conflict");
    create("default", "*").expect_error(409, "conflict");
    create("other", "\"v1\"").expect_error(400, "bad_request");
    // Of many at once one succeeds.
    let made = std::thread::scope(|scope| {
        let race = || {
            let mut client = world.unix();
            let request = "PUT /v1/resources/r HTTP/1.1\r\nhost: p\r\nif-none-match: *\r\n\r\n";
            client.raw(request.as_bytes());
            client.answer().status
        };
        let racers: Vec<_> = (0..8).map(|_| scope.spawn(race)).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(made.iter().filter(|status| **status == 201).count(), 1, "{made:?}");
    assert_eq!(made.iter().filter(|status| **status == 409).count(), 7, "{made:?}");
}

/// The bytes of a copy.
fn copy(client: &mut Client) -> Vec<u8> {
    client.send("GET", "/v1/backup", None);
    let (status, headers) = client.head();
    assert_eq!(status, 200);
    let length = headers.iter().find(|(name, _)| name == "content-length").unwrap();
    let mut bytes = vec![0; length.1.parse().unwrap()];
    client.stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// The configuration in a copy, which must be complete.
fn exported(world: &World, bytes: &[u8]) -> String {
    let file = world.directory.join("copy.db");
    std::fs::write(&file, bytes).unwrap();
    let loaded = load_file(Arc::new(RealDisk), &file, Mode::ReadOnly).unwrap();
    assert!(loaded.recovery.torn.is_none());
    paceline_config::export(&loaded.database.snapshot())
}

#[test]
fn a_copy_is_a_database_with_everything_that_was_answered() {
    let _alone = COPYING.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::new();
    let mut client = world.unix();
    apply(&mut client, "", TEXT).expect(200);
    client.get("/v1/backup?database=None").expect_error(404, "not_found");
    client.get("/v1/backup?database=_Server").expect_error(404, "not_found");
    let bytes = copy(&mut client);
    let text = client.get("/v1/config").text;
    assert_eq!(exported(&world, &bytes), text);
    assert!(text.contains("batch"));
}

#[test]
fn copies_under_load_have_all_that_was_answered_before() {
    let _alone = COPYING.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::new();
    let answered = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = world.unix();
            for number in 1..=200 {
                client.put(&format!("/v1/resources/r{number:03}"), json!({})).expect(201);
                answered.store(number, Ordering::SeqCst);
            }
        });
        let mut client = world.unix();
        while answered.load(Ordering::SeqCst) < 200 {
            let before = answered.load(Ordering::SeqCst);
            let bytes = copy(&mut client);
            let text = exported(&world, &bytes);
            let has = |number: u32| text.contains(&format!("\"r{number:03}\""));
            assert!((1..=before).all(has), "{before}: {text}");
            // Later objects are a prefix of the rest, without gaps.
            let last = (1..=200).rev().find(|number| has(*number)).unwrap_or(0);
            assert!((1..=last).all(has), "{last}: {text}");
        }
    });
}

#[test]
fn few_copies_are_in_memory_at_a_time() {
    let _alone = COPYING.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::new();
    // More than the buffers of a socket hold.
    let text: String =
        (0..20_000).map(|n| format!("[[resource]]\nname = \"a-rather-long-name-{n}\"\n")).collect();
    apply(&mut world.unix(), "", &text).expect(200);
    let mut held: Vec<Client> = (0..2).map(|_| world.unix()).collect();
    for client in &mut held {
        client.send("GET", "/v1/backup", None);
        assert_eq!(client.head().0, 200);
    }
    let error = world.unix().get("/v1/backup").expect_error(503, "refused");
    assert_eq!(error["reason"], "exhausted");
    drop(held);
    // The places are released when the daemon notices that the clients no longer read.
    let started = Instant::now();
    let mut client = world.unix();
    loop {
        client.send("GET", "/v1/backup", None);
        let (status, headers) = client.head();
        let length = headers.iter().find(|(name, _)| name == "content-length").unwrap();
        let mut bytes = vec![0; length.1.parse().unwrap()];
        client.stream.read_exact(&mut bytes).unwrap();
        if status == 200 {
            break;
        }
        assert!(started.elapsed() < PATIENCE);
    }
}

/// J7: which transactions are on disk before they are answered.
#[test]
fn the_daemon_tells_how_it_writes_and_what_it_serves_j7() {
    let world = World::new();
    let mut client = world.unix();
    let status = client.get("/v1/status").expect(200);
    assert_eq!((&status["sync"], &status["read_only"]), (&json!("asked"), &json!(false)));
    assert_eq!(status["databases"], json!(["Paceline"]));
    assert_eq!(status["warnings"], json!([]));
    assert!(status["open_files_max"].as_u64().unwrap() > 0, "{status}");
    // A count that is limited before the rate that follows it draws a warning.
    let text = "[[checkpoint]]\nname = \"a\"\nat = \"frontend api\"\nconcurrency = 1\n\
                [[checkpoint]]\nname = \"b\"\nat = \"frontend api\"\nrate = \"5/s\"\n";
    apply(&mut client, "", text).expect(200);
    let status = client.get("/v1/status").expect(200);
    assert_eq!(status["warnings"].as_array().unwrap().len(), 1, "{status}");
}
