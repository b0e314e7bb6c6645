//! The audit log of the daemon, and files of older versions. Tests promise A1 from outside.

use paceline_tests::{Launch, Scratch};
use rustix::process::Signal;
use serde_json::{Value, json};

fn launch(scratch: &Scratch) -> Launch {
    let socket = format!("punix:{}", scratch.path().join("db.sock").display());
    Launch::new(scratch).option("--ovsdb", socket)
}

#[test]
fn edits_and_steals_are_recorded_with_who_and_what_a1() {
    let scratch = Scratch::new();
    let daemon = launch(&scratch).start().unwrap();
    let mut client = daemon.connect();
    let insert = json!({"op": "insert", "table": "Pool", "row": {"name": "batch"}});
    client.call("transact", &json!(["Paceline", insert])).unwrap();
    let bad = json!({"op": "insert", "table": "Pool", "row": {"name": "b", "state": "started"}});
    client.call("transact", &json!(["Paceline", bad])).unwrap();
    let update = json!({"op": "update", "table": "Pool", "where": [],
        "row": {"group": "a secret", "threads_max": 2}});
    client.call("transact", &json!(["Paceline", update])).unwrap();
    client.call("steal", &json!(["x"])).unwrap();
    daemon.signal(Signal::TERM);
    daemon.wait();

    let text = std::fs::read_to_string(scratch.path().join("data/audit.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "what was refused changed nothing: {text}");
    let pool = json!([{"op": "insert", "table": "Pool", "row": "batch"}]);
    assert_eq!((&lines[0]["what"], &lines[0]["changes"]), (&json!("edit"), &pool));
    assert_eq!(lines[1]["changes"][0]["columns"], json!("group threads_max"));
    assert_eq!((&lines[2]["what"], &lines[2]["object"]), (&json!("steal"), &json!("x")));
    let who = lines[0]["who"].as_str().unwrap();
    assert!(who.contains(&format!("pid={}", std::process::id())), "{who}");
    assert!(!text.contains("a secret"), "no values in it: {text}");
}

/// A full disk refuses no steal, so it must not hide one: a steal that cannot be recorded is recorded when there is
/// room, complete and in order (A1, J5).
#[test]
fn steals_on_a_full_disk_are_recorded_when_there_is_room_a1() {
    const STEALS: usize = 50;
    let scratch = Scratch::new();
    let daemon = launch(&scratch).start().unwrap();
    let mut api = daemon.api();
    let sessions = [(); 2].map(|()| {
        let begun = api.call("POST", "/v1/sessions", &json!({"lease": "1h"})).expect(201);
        begun["session"].as_str().unwrap().to_owned()
    });
    let steal = |session: &String| json!({"session": session, "steal": true});
    let _ = api.call("PUT", "/v1/locks/x", &steal(&sessions[0])).expect(200);
    // The journal has no room, and the audit log has room for half a record.
    daemon.limit_file_size(Some(200));
    for number in 1..=STEALS {
        let stolen = api.call("PUT", "/v1/locks/x", &steal(&sessions[number % 2])).expect(200);
        assert_eq!(stolen["written"], false, "{stolen}");
        // The session that lost the lock leaves the queue, to steal it back.
        let loser = &sessions[(number + 1) % 2];
        let _ = api.delete(&format!("/v1/locks/x?session={loser}")).expect(200);
    }
    daemon.limit_file_size(None);
    let log = daemon.terminate().log;
    let text = std::fs::read_to_string(scratch.path().join("data/audit.log")).unwrap();
    let line = |line: &str| {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    let lines: Vec<Value> = text.lines().map(line).collect();
    let steals = lines.iter().filter(|line| line["what"] == "steal").count();
    assert!(steals >= STEALS, "{steals} of {STEALS}: {text}");
    let told = log.lines().filter(|line| line.contains("cannot write the audit log"));
    assert_eq!(told.count(), 1, "{log}");
}

/// The file of a daemon that had only locks is converted to the current schema.
#[test]
fn an_older_file_is_brought_to_this_schema() {
    let scratch = Scratch::new();
    let old = json!({"name": "Paceline", "version": "0.1.0", "tables": {
        "Daemon": {"columns": {"name": {"type": "string"},
            "fencing_reserved": {"type": {"key": {"type": "integer", "minInteger": 0}}}},
            "isRoot": true, "maxRows": 1},
        "Lock": {"columns": {"name": {"type": "string"},
            "owner": {"type": {"key": "string", "min": 0, "max": 1}, "ephemeral": true},
            "waiters": {"type": {"key": "integer", "value": "string", "min": 0,
                "max": "unlimited"}, "ephemeral": true},
            "fencing": {"type": {"key": {"type": "integer", "minInteger": 0}}, "ephemeral": true}},
            "indexes": [["name"]], "isRoot": true}}});
    let schema = scratch.path().join("old.ovsschema");
    std::fs::write(&schema, old.to_string()).unwrap();
    std::fs::create_dir(scratch.path().join("data")).unwrap();
    let file = scratch.path().join("data/paceline.db");
    let paths = [&file, &schema].map(|path| path.to_str().unwrap().to_owned());
    paceline_tests::tool::run("ovsdb-tool", &["create", &paths[0], &paths[1]]).unwrap();

    let daemon = launch(&scratch).start().unwrap();
    let insert = json!({"op": "insert", "table": "Resource", "row": {"name": "r"}});
    let result = daemon.connect().call("transact", &json!(["Paceline", insert])).unwrap();
    assert!(result[0]["uuid"].is_array(), "{result}");
    drop(daemon);

    let newer = old.to_string().replace("0.1.0", "99.0.0");
    std::fs::write(&schema, newer).unwrap();
    std::fs::remove_dir_all(scratch.path().join("data")).unwrap();
    std::fs::create_dir(scratch.path().join("data")).unwrap();
    paceline_tests::tool::run("ovsdb-tool", &["create", &paths[0], &paths[1]]).unwrap();
    let ended = launch(&scratch).start().unwrap_err();
    assert!(ended.log.contains("holds the database Paceline 99.0.0"), "{}", ended.log);
}
