//! One object through every door: the command line, the API, a TOML file and `ovsdb-client` show and change the same.
//! Edits of one transaction happen together; of two conflicting edits one fails.

use paceline_tests::server::paceline_binary;
use paceline_tests::tool::{self, Running};
use paceline_tests::{Client, Daemon, Launch, Scratch};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::sync::Barrier;
use std::thread;

/// A daemon with an OVSDB socket at the path that [`Daemon::connect`] uses.
pub fn launch(scratch: &Scratch) -> Launch {
    let socket = format!("punix:{}", scratch.path().join("db.sock").display());
    Launch::new(scratch).option("--ovsdb", socket)
}

fn file(max: u32) -> String {
    format!("[[pool]]\nname = \"batch\"\npriority = [-127, -1]\nthreads = {{ max = {max} }}\n")
}

fn cli(daemon: &Daemon, words: &[&str]) -> Result<String, String> {
    let data = daemon.data();
    let binary = paceline_binary();
    let mut all = words.to_vec();
    all.extend(["--data", data.to_str().unwrap()]);
    tool::run(binary.to_str().unwrap(), &all)
}

fn ovsdb_client(daemon: &Daemon, words: &[&str]) -> Result<String, String> {
    let remote = format!("unix:{}", daemon.socket().display());
    let mut all = vec!["--timeout=30", "-voff", words[0], &remote];
    all.extend(&words[1..]);
    tool::run("ovsdb-client", &all)
}

/// The pool `batch` as one door shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Batch {
    threads: i64,
    delay: Option<String>,
    state: String,
    persistent: bool,
}

impl Batch {
    fn new(threads: i64, delay: Option<&str>, state: &str, persistent: bool) -> Self {
        Self { threads, delay: delay.map(str::to_owned), state: state.to_owned(), persistent }
    }

    fn of_json(pool: &Value) -> Self {
        let delay = pool["queue"]["max_delay"].as_str();
        let state = pool["state"].as_str().unwrap();
        let persistent = pool["persistent"].as_bool().unwrap();
        Self::new(pool["threads"]["max"].as_i64().unwrap(), delay, state, persistent)
    }

    /// From columns as OVSDB writes them, with an empty set for none.
    fn of_columns(threads: &Value, delay: &Value, state: &Value, persistent: &Value) -> Self {
        let state = state.as_str().unwrap();
        Self::new(threads.as_i64().unwrap(), delay.as_str(), state, persistent.as_bool().unwrap())
    }
}

const COLUMNS: [&str; 4] = ["threads_max", "queue_max_delay", "state", "persistent"];

/// The same object as every door shows it.
fn shown(daemon: &Daemon) -> Vec<(&'static str, Batch)> {
    let named = |pools: &Value| {
        let pools = pools.as_array().unwrap().iter();
        Batch::of_json(pools.clone().find(|pool| pool["name"] == "batch").unwrap())
    };
    let mut api = daemon.api();
    let list: Value = serde_json::from_str(&cli(daemon, &["pools", "--json"]).unwrap()).unwrap();
    let mut words = vec!["dump", "--format=json", "Paceline", "Pool"];
    words.extend(COLUMNS);
    let dump: Value = serde_json::from_str(&ovsdb_client(daemon, &words).unwrap()).unwrap();
    let headings = dump["headings"].as_array().unwrap();
    let row = dump["data"].as_array().unwrap();
    assert_eq!(row.len(), 1, "the default pool is no row: {dump}");
    let column = |name: &str| &row[0][headings.iter().position(|own| own == name).unwrap()];
    let [threads, delay, state, persistent] = COLUMNS.map(column);
    let select = json!({"op": "select", "table": "Pool", "where": [["name", "==", "batch"]]});
    let selected = daemon.connect().call("transact", &json!(["Paceline", select])).unwrap();
    let row = &selected[0]["rows"][0];
    vec![
        ("GET one", Batch::of_json(&api.get("/v1/pools/batch").expect(200))),
        ("GET list", named(&api.get("/v1/pools").expect(200))),
        ("paceline pools", named(&list)),
        ("ovsdb-client dump", Batch::of_columns(threads, delay, state, persistent)),
        ("select", {
            let [threads, delay, state, persistent] = COLUMNS.map(|name| &row[name]);
            Batch::of_columns(threads, delay, state, persistent)
        }),
    ]
}

#[track_caller]
fn expect_everywhere(daemon: &Daemon, expected: &Batch) {
    for (door, batch) in shown(daemon) {
        assert_eq!(batch, *expected, "{door}");
    }
}

/// A monitor of the pool, by `ovsdb-client`: one line of JSON for each change.
fn monitor(daemon: &Daemon) -> Running {
    let remote = format!("unix:{}", daemon.socket().display());
    let columns = COLUMNS.join(",");
    let words = ["-voff", "--format=json", "monitor", &remote, "Paceline", "Pool", &columns];
    let monitor = Running::start("ovsdb-client", &words);
    assert!(monitor.line().contains("initial"));
    monitor
}

/// The values after the next change that the monitor reports.
fn told(monitor: &Running) -> Batch {
    let table: Value = serde_json::from_str(&monitor.line()).unwrap();
    let headings = table["headings"].as_array().unwrap();
    let row = table["data"].as_array().unwrap().iter().find(|row| row[1] == "new");
    let row = row.unwrap_or_else(|| panic!("no new row: {table}"));
    let column = |name: &str| &row[headings.iter().position(|own| own == name).unwrap()];
    let [threads, delay, state, persistent] = COLUMNS.map(column);
    Batch::of_columns(threads, delay, state, persistent)
}

#[test]
fn one_object_edited_through_every_door_is_the_same_everywhere() {
    let scratch = Scratch::new();
    let config = scratch.write("paceline.toml", file(8));
    let daemon = launch(&scratch).option("--config", &config).start().unwrap();
    let mut expected = Batch::new(8, None, "started", true);
    expect_everywhere(&daemon, &expected);
    let monitor = monitor(&daemon);
    let check = |expected: &Batch| {
        assert_eq!(told(&monitor), *expected, "monitor");
        expect_everywhere(&daemon, expected);
    };

    let body = json!({"threads": {"max": 7}, "queue": {"max_delay": "90s"}});
    let _ = daemon.api().call("PATCH", "/v1/pools/batch", &body).expect(200);
    expected = Batch::new(7, Some("90s"), "started", true);
    check(&expected);

    cli(&daemon, &["pools", "configure", "batch", "--threads", "0..6"]).unwrap();
    expected.threads = 6;
    check(&expected);
    cli(&daemon, &["pools", "stop", "batch"]).unwrap();
    expected.state = "stopped".to_owned();
    check(&expected);
    cli(&daemon, &["pools", "unpersist", "batch"]).unwrap();
    expected.persistent = false;
    check(&expected);

    let update = json!(["Paceline", {"op": "update", "table": "Pool",
        "where": [["name", "==", "batch"]],
        "row": {"threads_max": 5, "queue_max_delay": ["set", []], "state": "started"}}]);
    ovsdb_client(&daemon, &["transact", &update.to_string()]).unwrap();
    expected = Batch::new(5, None, "started", false);
    check(&expected);

    // The file is applied again.
    let _ = scratch.write("paceline.toml", file(4));
    daemon.signal(Signal::HUP);
    daemon.log_line(&["applied the configuration", "changes=1"]).unwrap();
    // Settings that were edited otherwise stay.
    check(&Batch::new(4, None, "started", false));
}

fn insert(table: &str, row: &Value) -> Value {
    json!({"op": "insert", "table": table, "row": row})
}

/// All configuration as `ovsdb-client` dumps it.
pub fn dump(daemon: &Daemon) -> String {
    let words = ["dump", "Paceline"];
    let dump = ovsdb_client(daemon, &words).unwrap();
    // The count of requests is a figure, not configuration.
    dump.lines().filter(|line| !line.contains("Daemon")).collect::<Vec<_>>().join("\n")
}

#[test]
fn of_several_edits_in_one_transaction_all_happen_or_none() {
    let scratch = Scratch::new();
    let daemon = launch(&scratch).start().unwrap();
    let good = [
        insert(
            "Pool",
            &json!({"name": "p", "priority_min": 1, "priority_max": 9,
            "state": "started"}),
        ),
        insert("Resource", &json!({"name": "disk"})),
        insert("Rule", &json!({"number": 10, "criteria": "", "action": "set 5"})),
    ];
    let bad = [
        insert("Rule", &json!({"number": 20, "criteria": "text ~ a(b", "action": "set 5"})),
        insert("Rule", &json!({"number": 20, "when": "user ==", "action": "set 5"})),
        insert("Checkpoint", &json!({"name": "c", "at": "pool nowhere", "concurrency": 1})),
        insert("Pool", &json!({"name": "q", "priority_min": 9, "priority_max": 20})),
        insert("Pool", &json!({"name": "p"})),
        json!({"op": "insert", "table": "Resource", "uuid-name": "itself",
            "row": {"name": "loop", "parents": ["named-uuid", "itself"]}}),
    ];
    let explain =
        |daemon: &Daemon| daemon.api().call("POST", "/v1/explain", &json!({})).expect(200);
    let (before, decided) = (dump(&daemon), explain(&daemon));
    for (at, bad) in bad.iter().enumerate() {
        // The bad operation is first, last and in between.
        for place in [0, 1, 3] {
            let mut operations = good.to_vec();
            operations.insert(place, bad.clone());
            let mut transaction = vec![json!("Paceline")];
            transaction.extend(operations);
            let text = Value::Array(transaction).to_string();
            let told = ovsdb_client(&daemon, &["transact", &text]).unwrap_or_else(|error| error);
            assert!(told.contains("\"error\"") || told.contains("error"), "{at}: {told}");
            assert_eq!(dump(&daemon), before, "{at}: {told}");
            assert_eq!(explain(&daemon), decided, "the engine decides as before");
        }
    }
    let mut transaction = vec![json!("Paceline")];
    transaction.extend(good);
    let text = Value::Array(transaction).to_string();
    let told = ovsdb_client(&daemon, &["transact", &text]).unwrap();
    assert!(!told.contains("error"), "{told}");
    assert_eq!(explain(&daemon)["pool"], "p");
}

/// Creates a pool with this range; returns the error if there is one.
type Make<'a> = &'a (dyn Fn(&str, (i64, i64)) -> Option<String> + Sync);

#[test]
fn of_two_edits_that_overlap_exactly_one_loses() {
    let scratch = Scratch::new();
    let daemon = launch(&scratch).start().unwrap();
    let api = |name: &str, (low, high): (i64, i64)| {
        let body = json!({"priority": [low, high]});
        let answer = daemon.api().call("PUT", &format!("/v1/pools/{name}"), &body);
        match answer.status {
            201 => None,
            _ => {
                assert_eq!((answer.status, &answer.body["error"]), (422, &json!("constraint")));
                assert_eq!(answer.body["place"]["row"], name, "{}", answer.text);
                Some(answer.body["message"].as_str().unwrap().to_owned())
            }
        }
    };
    let ovsdb = |name: &str, (low, high): (i64, i64)| {
        let row = json!({"name": name, "priority_min": low, "priority_max": high});
        let transaction = json!(["Paceline", insert("Pool", &row)]);
        let result = daemon.connect().call("transact", &transaction).unwrap();
        let failed = result.as_array().unwrap().iter().find(|result| !result["error"].is_null())?;
        assert_eq!(failed["error"], "constraint violation", "{result}");
        Some(failed["details"].as_str().unwrap().to_owned())
    };
    for round in 0..60 {
        let makes: [Make; 2] = match round % 3 {
            0 => [&api, &api],
            1 => [&ovsdb, &ovsdb],
            _ => [&api, &ovsdb],
        };
        let (start, names) = (Barrier::new(2), [format!("a{round}"), format!("b{round}")]);
        let ranges = [(1, 10), (10, 20)];
        let lost: Vec<Option<String>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|at| {
                    let (start, name, range, make) = (&start, &names[at], ranges[at], makes[at]);
                    scope.spawn(move || {
                        start.wait();
                        make(name, range)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let losers: Vec<usize> = (0..2).filter(|at| lost[*at].is_some()).collect();
        assert_eq!(losers.len(), 1, "round {round}: {lost:?}");
        let (winner, told) = (&names[1 - losers[0]], lost[losers[0]].as_ref().unwrap());
        assert!(told.contains("overlap") && told.contains(winner.as_str()), "{told}");
        delete_only(&mut daemon.connect(), winner);
    }
}

/// Deletes the pool, which must be the only one.
fn delete_only(client: &mut Client, name: &str) {
    let select = json!({"op": "select", "table": "Pool", "where": [], "columns": ["name"]});
    let delete = json!({"op": "delete", "table": "Pool", "where": [["name", "==", name]]});
    let result = client.call("transact", &json!(["Paceline", select, delete])).unwrap();
    assert_eq!(result, json!([{"rows": [{"name": name}]}, {"count": 1}]));
}
