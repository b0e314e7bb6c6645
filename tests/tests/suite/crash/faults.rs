//! A disk that writes little at a time, becomes full, fails, or is in use when the daemon dies.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use paceline_tests::daemon::was_killed;
use paceline_tests::{Client, Daemon, Launch, Scratch};
use rustix::process::Signal;
use serde_json::json;

use super::ledger::{self, Answer, Entry};

const COMPACTED: &[&str] = &["compacted the journal", "database=db"];
const NOT_COMPACTED: &[&str] = &["cannot compact the journal", "database=db"];

/// A folder with a fresh database.
struct Place {
    scratch: Scratch,
    file: PathBuf,
}

impl Place {
    fn new() -> Self {
        let scratch = Scratch::new();
        let file = ledger::create(&scratch);
        Self { scratch, file }
    }

    fn launch(&self) -> Launch {
        Launch::serving(&self.scratch, &self.file)
    }

    fn launch_with(&self, faults: &str) -> Launch {
        self.launch().option("--journal-faults", faults)
    }

    /// The transactions of writer 0 that a daemon without faults finds. Also checks that no temporary file is left.
    fn transactions(&self) -> i64 {
        let daemon = self.launch().start().unwrap();
        let there = ledger::contents(&mut daemon.connect());
        assert!(!self.scratch.join("db.db.tmp").exists(), "half a compaction is left");
        assert!(daemon.terminate().status.success());
        there.get(&0).copied().unwrap_or(0)
    }
}

/// Promise J5: operations that do not depend on the change that found the disk full continue, even if they were sent
/// together with it.
#[test]
fn reads_behind_a_refused_change_are_answered_j5() {
    let place = Place::new();
    let daemon = place.launch_with("full-after=20000").start().unwrap();
    let mut client = daemon.connect();
    let mut i = 0;
    while ledger::transact(&mut client, &Entry::new(0, i, false)) == Answer::Acknowledged {
        i += 1;
    }
    let request = |id: &str, method: &str, params: &serde_json::Value| {
        json!({"id": id, "method": method, "params": params}).to_string()
    };
    let count = json!(["db", {"op": "select", "table": "Counter", "where": [], "columns": ["n"]}]);
    let breath = [
        request("change", "transact", &Entry::new(0, i, true).params()),
        request("echo", "echo", &json!([7])),
        request("read", "transact", &count),
        request("watch", "monitor", &json!(["db", "m", {"Counter": {"columns": ["n"]}}])),
    ];
    client.send(breath.concat().as_bytes()).unwrap();
    let mut replies = BTreeMap::new();
    for _ in &breath {
        let message = client.message().unwrap();
        replies.insert(message["id"].as_str().unwrap().to_owned(), message);
    }
    assert!(replies["change"]["result"].to_string().contains("resources exhausted"));
    assert_eq!(replies["echo"]["result"], json!([7]));
    assert_eq!(replies["read"]["result"], json!([{"rows": [{"n": i}]}]));
    let watched = replies["watch"]["result"]["Counter"].as_object().unwrap();
    assert!(watched.values().all(|row| row["new"]["n"] == i), "{watched:?}");
}

/// A conversion and a compaction both replace the file; one waits for the other.
#[test]
fn a_database_is_converted_while_it_is_compacted() {
    let place = Place::new();
    let daemon = place.launch().start().unwrap();
    let mut client = daemon.connect();
    client.call("set_db_change_aware", &json!([true])).unwrap();
    let schema = client.call("get_schema", &json!(["db"])).unwrap();
    for i in 0..20 {
        assert_eq!(ledger::transact(&mut client, &Entry::new(0, i, false)), Answer::Acknowledged);
        daemon.signal(Signal::USR1);
        assert_eq!(client.call("convert", &json!(["db", schema])).unwrap(), json!({}));
    }
    daemon.kill();
    assert_eq!(place.transactions(), 20);
}

#[test]
fn short_writes_are_finished() {
    for faults in ["short-write=1", "short-write=7", "short-write=100"] {
        let place = Place::new();
        let daemon = place.launch_with(faults).start().unwrap();
        let mut client = daemon.connect();
        for i in 0..6 {
            let answer = ledger::transact(&mut client, &Entry::new(0, i, i % 2 == 0));
            assert_eq!(answer, Answer::Acknowledged, "{faults}");
            if i == 3 {
                daemon.signal(Signal::USR1);
                daemon.log_line(COMPACTED).unwrap();
            }
        }
        daemon.kill();
        assert_eq!(place.transactions(), 6, "{faults}");
        let daemon = place.launch_with(faults).start().unwrap();
        assert_eq!(ledger::contents(&mut daemon.connect()), BTreeMap::from([(0, 6)]), "{faults}");
    }
}

/// A client that monitors A, and has read the initial rows.
fn watcher(daemon: &Daemon) -> Client {
    let mut client = daemon.connect();
    client.call("monitor", &json!(["db", "m", {"A": {"columns": ["i"]}}])).unwrap();
    client
}

/// Receives an update for the rows of `count` transactions and nothing else.
fn hear(watcher: &mut Client, count: i64) {
    for _ in 0..count {
        assert_eq!(watcher.message().unwrap()["method"], "update");
    }
    watcher.call("echo", &json!([])).unwrap();
}

/// Reads, locks and unlocks continue while nothing can be written.
fn check_goes_on(client: &mut Client, transactions: i64) {
    assert_eq!(ledger::contents(client).get(&0).copied().unwrap_or(0), transactions);
    assert_eq!(client.call("unlock", &json!(["held"])).unwrap(), json!({}));
    ledger::lock(client, "held");
}

#[test]
fn a_full_disk_refuses_and_undoes_j5() {
    // The disk becomes full at different places of a record.
    for room in (20_000..21_000).step_by(97) {
        let place = Place::new();
        let daemon = place.launch_with(&format!("full-after={room}")).start().unwrap();
        let (mut client, mut watcher) = (daemon.connect(), watcher(&daemon));
        ledger::lock(&mut client, "held");
        let mut i = 0;
        let error = loop {
            match ledger::transact(&mut client, &Entry::new(0, i, i % 3 == 0)) {
                Answer::Acknowledged => i += 1,
                Answer::Refused(error) => break error,
                Answer::None => panic!("the daemon died"),
            }
        };
        assert_eq!(error, "resources exhausted", "room {room}");
        assert!(i > 5, "room {room}: only {i} transactions fit");
        hear(&mut watcher, i);
        check_goes_on(&mut client, i);
        for durable in [true, false] {
            let answer = ledger::transact(&mut client, &Entry::new(0, i, durable));
            assert_eq!(answer, Answer::Refused("resources exhausted".into()), "room {room}");
        }
        hear(&mut watcher, 0);
        check_goes_on(&mut client, i);
        daemon.kill();
        assert_eq!(place.transactions(), i, "room {room}");
    }
}

#[test]
fn room_that_comes_back_is_used_without_a_restart_j5() {
    let place = Place::new();
    // The limit causes a signal that by default would end the daemon.
    let daemon = place.launch().start().unwrap();
    let (mut client, mut watcher) = (daemon.connect(), watcher(&daemon));
    ledger::lock(&mut client, "held");
    let mut i = 0;
    for extra in [0, 1, 60, 200] {
        let acknowledged = ledger::transact(&mut client, &Entry::new(0, i, true));
        assert_eq!(acknowledged, Answer::Acknowledged, "{extra} bytes of room");
        i += 1;
        hear(&mut watcher, 1);
        let size = fs::metadata(&place.file).unwrap().len();
        daemon.limit_file_size(Some(size + extra));
        for durable in [true, false] {
            let answer = ledger::transact(&mut client, &Entry::new(0, i, durable));
            assert_eq!(answer, Answer::Refused("resources exhausted".into()), "{extra}");
        }
        hear(&mut watcher, 0);
        check_goes_on(&mut client, i);
        assert_eq!(fs::metadata(&place.file).unwrap().len(), size, "what was refused is cut off");
        daemon.limit_file_size(None);
    }
    assert_eq!(ledger::transact(&mut client, &Entry::new(0, i, true)), Answer::Acknowledged);
    hear(&mut watcher, 1);
    daemon.kill();
    assert_eq!(place.transactions(), i + 1);
}

#[test]
fn a_disk_gone_read_only_is_a_clear_word_j6() {
    let mut hits = 0;
    // The calls up to the first write. Behind it a record that is refused because it cannot be synced cannot be taken back
    // either: a read-only disk keeps it (SECURITY.md, "Not promised").
    for number in 1..=36 {
        let place = Place::new();
        let faults = format!("read-only-at={number}");
        let daemon = match place.launch_with(&faults).start() {
            Ok(daemon) => daemon,
            Err(ended) => {
                assert!(ended.log.contains("ead-only file system"), "{faults}: {ended:?}");
                continue;
            }
        };
        let mut client = daemon.connect();
        ledger::lock(&mut client, "held");
        let acknowledged = (0..5)
            .take_while(|i| {
                let entry = Entry::new(0, *i, i % 2 == 0);
                client.request("transact", &entry.params().to_string()).unwrap();
                let reply = client.message().unwrap();
                let results = reply["result"].as_array().unwrap();
                let error = results.iter().find(|result| !result["error"].is_null());
                if let Some(error) = error {
                    assert_eq!(error["error"], "I/O error", "{faults}: {reply}");
                    let details = error["details"].as_str().unwrap_or_default();
                    assert!(details.contains("ead-only file system"), "{faults}: {reply}");
                }
                error.is_none()
            })
            .count();
        hits += usize::from(acknowledged < 5);
        check_goes_on(&mut client, i64::try_from(acknowledged).unwrap());
        daemon.kill();
        assert_eq!(place.transactions(), i64::try_from(acknowledged).unwrap(), "{faults}");
    }
    assert!(hits > 0, "no fault met a transaction");
}

/// The result of a scripted session.
struct Session {
    acknowledged: i64,
    sent: i64,
    refused: Vec<String>,
    /// Whether the daemon died before SIGTERM.
    died: bool,
}

/// Ordinary and durable transactions, a compaction, and more transactions, until the daemon dies or the script ends.
/// A refused transaction is sent again; if the file is broken, after it was replaced.
fn play(daemon: Daemon) -> Session {
    let mut client = daemon.connect();
    let mut session = Session { acknowledged: 0, sent: 0, refused: Vec::new(), died: false };
    for step in 0..8 {
        if step == 4 {
            daemon.signal(Signal::USR1);
            session.died |= daemon.log_line_of(&[COMPACTED, NOT_COMPACTED]).is_err();
        }
        // The second attempt is refused because the file is known to be broken, which makes the daemon replace it.
        // The third attempt must succeed.
        for attempt in 0..3 {
            let entry = Entry::new(0, session.acknowledged, step % 2 == 1);
            session.sent = session.acknowledged + 1;
            match ledger::transact(&mut client, &entry) {
                Answer::Acknowledged => {
                    session.acknowledged += 1;
                    break;
                }
                Answer::Refused(error) => session.refused.push(error),
                Answer::None => {
                    session.died = true;
                    return session;
                }
            }
            let there = ledger::contents(&mut client).get(&0).copied().unwrap_or(0);
            assert_eq!(there, session.acknowledged, "a refused transaction is seen");
            if attempt == 1 {
                daemon.log_line(COMPACTED).unwrap();
            }
            assert!(attempt < 2, "the file is not replaced: {:?}", session.refused);
        }
    }
    let ended = daemon.terminate();
    session.died |= was_killed(ended.status);
    assert!(session.died || ended.status.success(), "{ended:?}");
    session
}

#[test]
fn a_failing_disk_refuses_undoes_and_is_replaced_j4() {
    for (fault, numbers, least) in [
        ("sync-error", 1..=25, 2),
        ("write-error", 1..=25, 2),
        ("rename-error", 1..=4, 0),
        ("truncate-error", 1..=4, 0),
    ] {
        let mut hits = 0;
        for number in numbers {
            let place = Place::new();
            let faults = format!("{fault}={number}");
            let acknowledged = match place.launch_with(&faults).start() {
                Ok(daemon) => {
                    let session = play(daemon);
                    assert!(!session.died, "{faults}");
                    let known = |error: &String| error == "I/O error";
                    assert!(session.refused.iter().all(known), "{faults}: {:?}", session.refused);
                    hits += usize::from(!session.refused.is_empty());
                    session.acknowledged
                }
                // If something fails before it is ready, the daemon exits with a message about the file.
                Err(ended) => {
                    assert_eq!(ended.status.code(), Some(1), "{faults}: {ended:?}");
                    assert!(ended.log.contains("cannot "), "{faults}: {ended:?}");
                    0
                }
            };
            assert_eq!(place.transactions(), acknowledged, "{faults}");
        }
        assert!(hits >= least, "{fault} met {hits} transactions, so it showed nothing");
    }
}

/// The refused transaction is the last change before the exit.
#[test]
fn what_a_failed_sync_refused_stays_refused_after_sigterm_j4() {
    let mut hits = 0;
    for number in 10..=20 {
        let place = Place::new();
        let faults = format!("sync-error={number}");
        let Ok(daemon) = place.launch_with(&faults).start() else { continue };
        let mut client = daemon.connect();
        let mut transact = |i| ledger::transact(&mut client, &Entry::new(0, i, true));
        let acknowledged = (0..5).take_while(|i| transact(*i) == Answer::Acknowledged).count();
        hits += usize::from(acknowledged < 5);
        daemon.terminate();
        assert_eq!(place.transactions(), i64::try_from(acknowledged).unwrap(), "{faults}");
    }
    assert!(hits > 0, "no fault met a transaction");
}

/// The sync of a transaction fails while the journal is being rewritten, and the rewriting continues.
#[test]
fn what_a_failed_sync_refused_is_not_in_a_compaction_under_way_j4() {
    let mut hits = 0;
    for number in 14..=22 {
        let place = Place::new();
        // Short writes make the compaction take longer than a few transactions.
        let faults = format!("short-write=16,sync-error={number}");
        let Ok(daemon) = place.launch_with(&faults).start() else { continue };
        let mut client = daemon.connect();
        let mut large = Entry::new(0, 0, false);
        large.text = "x".repeat(512 << 10);
        if ledger::transact(&mut client, &large) != Answer::Acknowledged {
            continue;
        }
        daemon.signal(Signal::USR1);
        let mut writer = daemon.connect();
        let mut acknowledged = 0;
        for i in 0..20 {
            match ledger::transact(&mut writer, &Entry::new(1, i, true)) {
                Answer::Acknowledged => acknowledged += 1,
                Answer::Refused(error) => {
                    assert_eq!(error, "I/O error", "{faults}");
                    hits += 1;
                    break;
                }
                Answer::None => panic!("{faults}: the daemon died"),
            }
        }
        // While the file is broken, a change is refused and makes the daemon replace the file, unless the running
        // compaction does that or fails first.
        let mut next = || ledger::transact(&mut writer, &Entry::new(2, 0, true));
        let mut attempts = 1;
        while next() != Answer::Acknowledged {
            daemon.log_line_of(&[COMPACTED, NOT_COMPACTED]).unwrap();
            attempts += 1;
            assert!(attempts <= 3, "{faults}: the file is not replaced");
        }
        let before = ledger::contents(&mut client);
        assert_eq!(before.get(&1).copied().unwrap_or(0), acknowledged, "{faults}");
        daemon.kill();
        let daemon = place.launch().start().unwrap();
        assert_eq!(ledger::contents(&mut daemon.connect()), before, "{faults}");
    }
    assert!(hits > 0, "no fault met a transaction");
}

#[test]
fn every_call_is_a_safe_point_to_be_killed_at_j1_j8() {
    let mut points = 0;
    loop {
        points += 1;
        let place = Place::new();
        let session = match place.launch_with(&format!("kill-at={points}")).start() {
            Ok(daemon) => play(daemon),
            Err(ended) => {
                assert!(ended.was_killed(), "{points}: {ended:?}");
                Session { acknowledged: 0, sent: 0, refused: Vec::new(), died: true }
            }
        };
        assert_eq!(session.refused, [] as [String; 0], "{points}");
        let there = place.transactions();
        let possible = session.acknowledged..=session.sent;
        assert!(possible.contains(&there), "{points}: {there} of {possible:?}");
        if !session.died {
            break;
        }
    }
    assert!(points > 40, "{points} calls are too few to have met them all");
}
