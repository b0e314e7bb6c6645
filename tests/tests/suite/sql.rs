//! The SQL door in front of a PostgreSQL server: real clients, governed statements, and what is left when a side dies.

use paceline_tests::postgres::{Said, user};
use paceline_tests::{Postgres, SqlDoor, until};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

mod wire;

/// A psql that runs in the background, until it is waited for or killed.
struct Background(Child);

impl Background {
    fn start(door: &SqlDoor, text: &str) -> Self {
        let mut command = door.psql();
        command.args(["-c", text]).stdin(Stdio::null());
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal).unwrap();
    }

    fn wait(self) -> Said {
        Said::of(&self.0.wait_with_output().unwrap())
    }
}

/// Statements that run at the server and contain this text.
fn running(postgres: &Postgres, text: &str) -> String {
    let own = "pid <> pg_backend_pid() and state = 'active'";
    postgres.ask(&format!(
        "select count(*) from pg_stat_activity where {own} and query like '%{text}%'"
    ))
}

/// The states of the requests that the daemon lists.
fn states(door: &SqlDoor) -> Vec<String> {
    let listed = door.daemon.api().get("/v1/requests");
    let requests = listed.body.as_array().unwrap().clone();
    requests.iter().map(|request| request["state"].as_str().unwrap().to_owned()).collect()
}

fn count(door: &SqlDoor, state: &str) -> usize {
    states(door).iter().filter(|own| *own == state).count()
}

/// A pool with one slot for statements that contain `pg_sleep`.
const ONE_REPORT: &str = "[[pool]]\nname = \"reports\"\npriority = [-20, -10]\nthreads = 1\n\
    [[rule]]\nnumber = 1\nmatch = { text = { glob = \"*pg_sleep*\" } }\nset = -15\n";

#[test]
fn psql_and_pgbench_are_served_in_every_mode() {
    let door = SqlDoor::start("connections = { max = 4 }", "");
    let script = "create table t(a int);\ninsert into t select generate_series(1, 1000);\n\
        \\copy t to data.txt\n\\copy t from data.txt\nselect count(*) from t;\n\\d t\n";
    let file = door.scratch.write("script.sql", script);
    let mut psql = door.psql();
    psql.current_dir(door.scratch.path()).args(["-v", "ON_ERROR_STOP=1", "-f"]).arg(file);
    let said = Said::of(&psql.output().unwrap()).ok();
    assert!(said.contains("2000") && said.contains("a|integer"), "{said}");
    let pgbench = |args: &[&str]| {
        let mut command = Command::new("pgbench");
        command.args(["-p", "5433", "-U", &user(), "-h"]).arg(door.daemon.data());
        Said::of(&command.args(args).arg("app").output().unwrap())
    };
    assert!(pgbench(&["-i", "-q"]).is_ok);
    for mode in ["simple", "extended", "prepared"] {
        let said = pgbench(&["-n", "-S", "-M", mode, "-c", "32", "-j", "2", "-t", "50"]);
        assert!(said.out.contains("processed: 1600/1600"), "{mode}: {said:?}");
        let said = pgbench(&["-n", "-M", mode, "-c", "4", "-j", "2", "-t", "20"]);
        assert!(said.out.contains("processed: 80/80"), "{mode}: {said:?}");
    }
    assert_eq!(
        door.postgres.ask(
            "select sum(abalance) = (select sum(delta) from pgbench_history) from pgbench_accounts"
        ),
        "t"
    );
    // Never more connections than the target allows.
    let clients = "select count(*) <= 4 from pg_stat_activity where datname = 'app' and pid <> pg_backend_pid()";
    assert_eq!(door.postgres.ask(clients), "t");
}

#[test]
fn drivers_of_python_are_served() {
    let door = SqlDoor::start("connections = { max = 8 }", "");
    let python = std::env::current_exe().unwrap();
    let python = python.ancestors().nth(3).unwrap().join("venv/bin/python");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/sql.py");
    let mut command = Command::new(python);
    command.arg(script).arg(door.daemon.data()).args(["5433", &user()]);
    let said = Said::of(&command.output().unwrap());
    assert_eq!((said.out.as_str(), said.is_ok), ("all clients are served", true), "{said:?}");
}

/// A statement runs in the pool that its priority selects. One that waits is listed, gets one notice, and others go on.
#[test]
fn a_statement_waits_for_its_pool_and_says_so() {
    let door = SqlDoor::start("", ONE_REPORT);
    let first = Background::start(&door, "select pg_sleep(3), 'first'");
    until(|| count(&door, "running"), |running| *running == 1);
    let second = Background::start(&door, "select pg_sleep(0), 'second'");
    until(|| count(&door, "waiting"), |waiting| *waiting == 1);
    assert_eq!(door.run(&["select 'point'"]).ok(), "point");
    assert_eq!(running(&door.postgres, "second"), "0", "nothing of it has reached the server");
    let listed = door.daemon.api().get("/v1/requests").body;
    let texts: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["select pg_sleep(3), 'first'", "select pg_sleep(0), 'second'"]);
    assert_eq!(first.wait().ok(), "|first");
    let second = second.wait();
    assert_eq!(second.out, "|second", "{second:?}");
    assert!(
        second.err.contains("NOTICE:  00000: the statement waits for a slot of pool \"reports\""),
        "{second:?}"
    );
    assert_eq!(second.err.matches("NOTICE").count(), 1, "{second:?}");
}

/// A full queue refuses at once, with the SQLSTATE and the pool.
#[test]
fn a_full_queue_refuses_at_once() {
    let config = ONE_REPORT.replace("threads = 1", "threads = 1\nqueue = { max_len = 0 }");
    let door = SqlDoor::start("", &config);
    let first = Background::start(&door, "select pg_sleep(100)");
    until(|| count(&door, "running"), |running| *running == 1);
    let refused = door.run(&["select pg_sleep(0)", "select 'lives'"]);
    assert_eq!(refused.out, "lives");
    assert!(
        refused.err.contains("ERROR:  53300: the statement was refused: the queue is full"),
        "{refused:?}"
    );
    assert!(refused.err.contains("DETAIL:  pool \"reports\": the queue is full"), "{refused:?}");
    first.signal(Signal::INT);
    assert!(first.wait().err.contains("57014"));
}

/// Q1: what a rule rejects does not run, and nothing of its transaction or batch commits.
#[test]
fn nothing_of_a_rejected_transaction_commits_q1() {
    let rule =
        "[[rule]]\nnumber = 7\nmatch = { text = { regex = \"(?i)^drop\" } }\nreject = true\n";
    let door = SqlDoor::start("", rule);
    let _ = door.run(&["create table t(a int)", "create table u(a int)"]).ok();
    let said = door.run(&["drop table t"]);
    assert!(said.err.contains("ERROR:  42501: the statement was rejected by a rule"), "{said:?}");
    assert!(said.err.contains("DETAIL:  rejected by rule 7"), "{said:?}");
    for texts in [
        &["begin", "insert into t values (1)", "drop table u", "commit", "select 'lives'"][..],
        &["insert into t values (2); drop table u", "select 'lives'"],
        &[
            "begin; insert into t values (3)",
            "drop table u",
            "insert into t values (4)",
            "commit",
            "select 'lives'",
        ],
    ] {
        let said = door.run(texts);
        assert!(said.err.contains("42501"), "{said:?}");
        assert_eq!(said.out.lines().last(), Some("lives"), "{said:?}");
    }
    assert_eq!(door.postgres.ask("select count(*) from t"), "0");
    assert_eq!(door.postgres.ask("select count(*) from u"), "0", "it was not dropped");
}

/// Cancel: a statement that waits ends with 57014 and never reaches the server; one that runs is cancelled there (Q3).
#[test]
fn a_cancel_ends_the_own_statement_waiting_or_running_q3() {
    let door = SqlDoor::start("", ONE_REPORT);
    let first = Background::start(&door, "select pg_sleep(100), 'first'");
    until(|| running(&door.postgres, "first"), |count| count == "1");
    let second = Background::start(&door, "select pg_sleep(100), 'second'");
    until(|| count(&door, "waiting"), |waiting| *waiting == 1);
    second.signal(Signal::INT);
    assert!(second.wait().err.contains("ERROR:  57014: canceling statement due to user request"));
    assert_eq!(states(&door), ["running"]);
    first.signal(Signal::INT);
    assert!(first.wait().err.contains("57014"));
    until(|| states(&door).len(), |count| *count == 0);
    assert_eq!(running(&door.postgres, "pg_sleep"), "0");
}

/// A client that dies: its place in the queue or its slot is free, and its statement does not run on.
#[test]
fn a_killed_client_leaves_nothing_behind() {
    let door = SqlDoor::start("connections = { max = 2 }", ONE_REPORT);
    let first = Background::start(&door, "select pg_sleep(100), 'first'");
    until(|| running(&door.postgres, "first"), |count| count == "1");
    let second = Background::start(&door, "select pg_sleep(100), 'second'");
    until(|| count(&door, "waiting"), |waiting| *waiting == 1);
    second.signal(Signal::KILL);
    until(|| count(&door, "waiting"), |waiting| *waiting == 0);
    first.signal(Signal::KILL);
    until(|| states(&door).len(), |count| *count == 0);
    until(|| running(&door.postgres, "pg_sleep"), |count| count == "0");
    // In a transaction: it is rolled back, and the server serves others.
    let _ = door.run(&["create table t(a int)"]).ok();
    let mut idle = door.psql();
    let mut idle = idle.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    idle.stdin.as_mut().unwrap().write_all(b"begin;\ninsert into t values (1);\n").unwrap();
    let open = "select count(*) from pg_stat_activity where state = 'idle in transaction'";
    until(|| door.postgres.ask(open), |count| count == "1");
    idle.kill().unwrap();
    idle.wait().unwrap();
    until(|| door.postgres.ask(open), |count| count == "0");
    assert_eq!(door.run(&["select count(*) from t"]).ok(), "0");
    assert_eq!(door.run(&["select pg_sleep(0), 'third'"]).ok(), "|third", "the slot is free");
}

/// A server that dies: the client gets an error with the right SQLSTATE, and the next statement is served.
#[test]
fn a_killed_server_ends_its_statement_only() {
    let door = SqlDoor::start("connections = { max = 3 }", "");
    let other = Background::start(&door, "select pg_sleep(2), 'other'");
    let first = Background::start(&door, "select pg_sleep(100), 'first'");
    until(|| running(&door.postgres, "first"), |count| count == "1");
    let kill = "select pg_terminate_backend(pid) from pg_stat_activity where query like '%first%' and pid <> pg_backend_pid()";
    assert_eq!(door.postgres.ask(kill), "t");
    let said = first.wait();
    assert!(said.err.contains("57P01") && said.err.contains("terminating connection"), "{said:?}");
    assert_eq!(door.run(&["select 'lives'"]).ok(), "lives");
    assert_eq!(other.wait().ok(), "|other");
    // The whole server, and back.
    assert_eq!(door.run(&["select 1"]).ok(), "1");
    door.postgres.stop();
    let said = door.run(&["select 2"]);
    assert!(said.err.contains("no server of \"app\""), "{said:?}");
    door.postgres.begin();
    assert_eq!(door.run(&["select 3"]).ok(), "3");
}

/// Q2: what one client does to its session is never seen by another, on one server connection.
#[test]
fn no_session_state_is_seen_by_another_client_q2() {
    let door = SqlDoor::start("connections = { max = 1 }", "");
    let traces = [
        ("set timezone to 'Asia/Tokyo'", "show timezone", "Etc/UTC"),
        ("set datestyle to 'German'", "show datestyle", "ISO, MDY"),
        ("set search_path to pg_catalog", "show search_path", "\"$user\", public"),
        ("set work_mem to '7MB'", "show work_mem", "4MB"),
        ("select set_config('work_mem', '9MB', false)", "show work_mem", "4MB"),
        (
            "create temp table secret(a int)",
            "select count(*) from pg_class where relname = 'secret'",
            "0",
        ),
        (
            "select pg_advisory_lock(7)",
            "select count(*) from pg_locks where locktype = 'advisory'",
            "0",
        ),
        (
            "prepare p as select 1",
            "select count(*) from pg_prepared_statements where name = 'p'",
            "0",
        ),
        ("listen news", "select count(*) from pg_listening_channels()", "0"),
        ("declare c cursor with hold for select 1", "select count(*) from pg_cursors", "0"),
    ];
    let zone = door.run(&["show timezone"]).ok();
    for (act, look, expected) in traces {
        let said = door.run(&[act]);
        assert!(said.is_ok, "{act}: {said:?}");
        let expected = if look == "show timezone" { zone.as_str() } else { expected };
        assert_eq!(door.run(&[look]).ok(), expected, "{act}");
    }
    // Its own session keeps what it set.
    assert_eq!(
        door.run(&["set timezone to 'Asia/Tokyo'", "select 1", "show timezone"]).ok(),
        "1\nAsia/Tokyo"
    );
    assert_eq!(door.run(&["set work_mem to '7MB'", "show work_mem"]).ok(), "7MB");
}

/// A target that an edit changes: idle sessions go on with the new settings, and a deleted one refuses new clients.
#[test]
fn a_reload_drops_no_connection() {
    let door = SqlDoor::start("connections = { max = 2 }", "");
    let slow = Background::start(&door, "select pg_sleep(1), 'slow'");
    until(|| running(&door.postgres, "slow"), |count| count == "1");
    let config = SqlDoor::config(&door.postgres, "connections = { max = 3 }", "");
    let _ = door.scratch.write("sql.toml", config);
    door.daemon.signal(Signal::HUP);
    door.daemon.log_line(&["applied the configuration"]).unwrap();
    assert_eq!(slow.wait().ok(), "|slow");
    assert_eq!(door.run(&["select 'new'"]).ok(), "new");
    let other = door.psql().args(["-d", "other", "-c", "select 1"]).output().unwrap();
    let said = Said::of(&other);
    assert!(said.err.contains("database \"other\" does not exist"), "{said:?}");
    // A session that was there before follows its target, too.
    let mut old = door.psql();
    let old = old.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut old = old.spawn().unwrap();
    let mut input = old.stdin.take().unwrap();
    input.write_all(b"select 'before';\n").unwrap();
    let mut line = String::new();
    BufReader::new(old.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "before\n");
    let _ = door.scratch.write("sql.toml", "# nothing\n");
    door.daemon.signal(Signal::HUP);
    door.daemon.log_line(&["applied the configuration"]).unwrap();
    input.write_all(b"select 'after';\n").unwrap();
    drop(input);
    let said = Said::of(&old.wait_with_output().unwrap());
    assert_eq!(said.out, "", "{said:?}");
    assert!(said.err.contains("08001") && said.err.contains("the target was deleted"), "{said:?}");
}

/// SIGTERM: an open transaction finishes, an idle client is told, and the daemon ends.
#[test]
fn a_transaction_finishes_before_the_daemon_ends() {
    let door = SqlDoor::start("", "");
    let _ = door.run(&["create table t(a int)"]).ok();
    let open = Background::start(&door, "insert into t select 1 from pg_sleep(1)");
    until(|| running(&door.postgres, "insert into t"), |count| count == "1");
    door.daemon.signal(Signal::TERM);
    let said = open.wait();
    assert!(said.is_ok, "{said:?}");
    let ended = door.daemon.wait();
    assert!(ended.status.success(), "{}", ended.log);
    assert_eq!(door.postgres.ask("select count(*) from t"), "1");
}
