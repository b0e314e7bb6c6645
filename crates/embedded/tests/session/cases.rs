//! What clients send and get.

use super::{another, check, manage, open, talk};
use paceline_embedded::Options;
use std::sync::Arc;

const TABLE: &str = "CREATE TABLE t (id serial PRIMARY KEY, name varchar(20) NOT NULL, ok boolean, n numeric(10,2))";
const ROWS: &str = "INSERT INTO t (name, ok, n) VALUES ('00123', true, 1.5), ('b', false, NULL)";

#[test]
fn a_query_is_answered_to_its_end() {
    check(
        &["", "SELECT 1 AS a; SELECT 'x'", "SELECT 1; SELEC; SELECT 2", "SELECT $1"],
        &[
            "I",
            "Z I",
            "T a:int4",
            "D 1",
            "C SELECT 1",
            "T ?column?:text",
            "D x",
            "C SELECT 1",
            "Z I",
            "T ?column?:int4",
            "D 1",
            "C SELECT 1",
            "E 42601",
            "Z I",
            "T ?column?:text",
            "D NULL",
            "C SELECT 1",
            "Z I",
        ],
    );
}

#[test]
fn types_are_those_of_postgresql() {
    check(
        &[
            TABLE,
            ROWS,
            "SELECT * FROM t WHERE name = '00123'",
            "SELECT count(*), sum(id), max(name), name = 'b' AS is_b, n * 2 AS twice, id::bigint FROM t GROUP BY name ORDER BY 3",
            "SELECT true AND false, 1 + 1, 1.5, now() IS NULL, '7'::int, CAST('1' AS smallint), 'a' || 'b', length('abc')",
            "SELECT t.ok, (SELECT max(id) FROM t), CASE WHEN ok THEN 1 ELSE 2 END, coalesce(n, 0) FROM t LIMIT 1",
            "SELECT x.total FROM (SELECT count(*) AS total FROM t) x",
        ],
        &[
            "C CREATE TABLE",
            "Z I",
            "C INSERT 0 2",
            "Z I",
            "T id:int4 name:varchar ok:bool n:numeric",
            "D 1|00123|t|1.50",
            "C SELECT 1",
            "Z I",
            "T count:int8 sum:int8 max:varchar is_b:bool twice:numeric id:int8",
            "D 1|1|00123|f|3|1",
            "D 1|2|b|t|NULL|2",
            "C SELECT 2",
            "Z I",
            "T ?column?:bool ?column?:int4 ?column?:numeric ?column?:bool int4:int4 int2:int2 ?column?:text length:int4",
            "D f|2|1.5|f|7|1|ab|3",
            "C SELECT 1",
            "Z I",
            "T ok:bool max:int4 case:int4 coalesce:numeric",
            "D t|2|1|1.5",
            "C SELECT 1",
            "Z I",
            "T total:int8",
            "D 2",
            "C SELECT 1",
            "Z I",
        ],
    );
}

#[test]
fn the_extended_protocol_describes_without_effects() {
    check(
        &[
            TABLE,
            "P i | INSERT INTO t (name, n) VALUES ($1, $2) RETURNING id",
            "DS i",
            "S",
            "SELECT count(*) FROM t",
            "B - i | a | 1.5",
            "E -",
            "B - i | b | NULL",
            "E -",
            "S",
            "P - | SELECT id, name FROM t WHERE id = $1 AND name LIKE $2 LIMIT $3",
            "DS -",
            "b - - | 1 | % | 5",
            "E -",
            "S",
            "P i | SELECT 1",
            "S",
            "CS i",
            "DS i",
            "S",
            "P - 23 | SELECT $1 + 1",
            "B - - | x",
            "S",
            "B - missing",
            "E -",
            "S",
        ],
        &[
            "C CREATE TABLE",
            "Z I",
            "1",
            "t varchar numeric",
            "T id:int4",
            "Z I",
            "T count:int8",
            "D 0",
            "C SELECT 1",
            "Z I",
            "2",
            "D 1",
            "C INSERT 0 1",
            "2",
            "D 2",
            "C INSERT 0 1",
            "Z I",
            "1",
            "t int4 varchar int8",
            "T id:int4 name:varchar",
            "2",
            "D [00, 00, 00, 01]|a",
            "C SELECT 1",
            "Z I",
            "E 42P05",
            "Z I",
            "3",
            "E 26000",
            "Z I",
            "1",
            "E 22P02",
            "Z I",
            "E 26000",
            "Z I",
        ],
    );
}

#[test]
fn a_portal_goes_on_where_it_stopped() {
    check(
        &[
            "BEGIN",
            "P - | SELECT * FROM generate_series(1, 5) AS i",
            "B p -",
            "E p 2",
            "E p 2",
            "E p 2",
            "E p 2",
            "S",
            "COMMIT",
            "BEGIN; DECLARE c CURSOR FOR SELECT i FROM generate_series(1, 4) AS i; FETCH 2 FROM c; MOVE 1 IN c; FETCH ALL c; CLOSE c; COMMIT",
        ],
        &[
            "C BEGIN",
            "Z T",
            "1",
            "2",
            "D 1",
            "D 2",
            "s",
            "D 3",
            "D 4",
            "s",
            "D 5",
            "C SELECT 1",
            "E 34000",
            "Z E",
            "C ROLLBACK",
            "Z I",
            "C BEGIN",
            "C DECLARE CURSOR",
            "T i:int8",
            "D 1",
            "D 2",
            "C FETCH 2",
            "C MOVE 1",
            "T i:int8",
            "D 4",
            "C FETCH 1",
            "C CLOSE CURSOR",
            "C COMMIT",
            "Z I",
        ],
    );
}

#[test]
fn rows_beyond_memory_are_kept_in_a_file() {
    let options = Options { portal_bytes_max: 1000, ..Options::default() };
    let (_database, mut session) = open(options, Arc::new(manage::Pools::default()));
    let answer = talk(
        &mut session,
        &[
            "P - | SELECT i FROM generate_series(1, 3000) AS i",
            "B - -",
            "E - 10",
            "E - 1000",
            "E - 0",
            "S",
        ],
    );
    assert_eq!(answer.iter().filter(|line| line.starts_with('D')).count(), 3000);
    assert_eq!(answer.iter().rev().take(3).collect::<Vec<_>>(), ["Z I", "C SELECT 1990", "D 3000"]);
}

#[test]
fn transactions_have_postgresqls_states() {
    check(
        &[
            TABLE,
            "BEGIN",
            ROWS,
            "SELECT missing",
            "SELECT 1",
            "COMMIT",
            "SELECT count(*) FROM t",
            "BEGIN",
            ROWS,
            "SAVEPOINT s",
            "SELECT missing",
            "ROLLBACK TO s",
            "COMMIT",
            "SELECT count(*) FROM t",
            "INSERT INTO t (name) VALUES ('c'); INSERT INTO t (name) VALUES (NULL)",
            "SELECT count(*) FROM t",
            "P - | INSERT INTO t (name) VALUES ('d')",
            "B - -",
            "E -",
            "P - | SELECT missing",
            "S",
            "SELECT count(*) FROM t",
            "BEGIN READ ONLY",
            ROWS,
            "ROLLBACK",
            "COMMIT",
            "SAVEPOINT s",
        ],
        &[
            "C CREATE TABLE",
            "Z I",
            "C BEGIN",
            "Z T",
            "C INSERT 0 2",
            "Z T",
            "E 42703",
            "Z E",
            "E 25P02",
            "Z E",
            "C ROLLBACK",
            "Z I",
            "T count:int8",
            "D 0",
            "C SELECT 1",
            "Z I",
            "C BEGIN",
            "Z T",
            "C INSERT 0 2",
            "Z T",
            "C SAVEPOINT",
            "Z T",
            "E 42703",
            "Z E",
            "C ROLLBACK",
            "Z T",
            "C COMMIT",
            "Z I",
            "T count:int8",
            "D 2",
            "C SELECT 1",
            "Z I",
            "C INSERT 0 1",
            "E 23502",
            "Z I",
            "T count:int8",
            "D 2",
            "C SELECT 1",
            "Z I",
            "1",
            "2",
            "C INSERT 0 1",
            "E 42703",
            "Z I",
            "T count:int8",
            "D 2",
            "C SELECT 1",
            "Z I",
            "C BEGIN",
            "Z T",
            "E 25006",
            "Z E",
            "C ROLLBACK",
            "Z I",
            "N 25P01",
            "C COMMIT",
            "Z I",
            "E 25P01",
            "Z I",
        ],
    );
}

#[test]
fn errors_have_postgresqls_codes() {
    let cases = [
        ("SELECT * FROM missing", "42P01"),
        ("SELECT missing(1)", "42883"),
        ("INSERT INTO t (id, name) VALUES (1, 'x')", "23505"),
        ("CREATE TABLE t (a int)", "42P07"),
        ("SELECT 'x'::int", "22P02"),
        ("SELECT 3000000000::int", "22003"),
        ("SELECT 'a' ~ '('", "2201B"),
        ("SELECT DISTINCT ON (id) id FROM t", "0A000"),
        ("SELECT 1 'unterminated", "42601"),
        ("ATTACH 'other.db' AS other", "0A000"),
        ("PRAGMA journal_mode = delete", "42501"),
        ("PRAGMA writable_schema = 1", "42501"),
        ("SELECT load_extension('x')", "0A000"),
        ("VACUUM INTO 'copy.db'", "0A000"),
        ("DELETE FROM pg_class", "42501"),
        ("CREATE TABLE pg_mine (a int)", "42501"),
        ("CREATE EXTENSION x", "0A000"),
        ("LISTEN x", "0A000"),
        ("SET client_encoding = 'LATIN1'", "22023"),
        ("SET missing = 1", "42704"),
        ("SHOW missing", "42704"),
        ("EXECUTE missing", "26000"),
        ("FETCH 1 FROM missing", "34000"),
        ("COPY t FROM '/etc/passwd'", "42501"),
    ];
    let (_database, mut session) = open(Options::default(), Arc::new(manage::Pools::default()));
    talk(&mut session, &[TABLE, ROWS]);
    for (text, state) in cases {
        assert_eq!(talk(&mut session, &[text]), [format!("E {state}"), "Z I".into()], "{text}");
    }
}

#[test]
fn copy_goes_both_ways() {
    check(
        &[
            TABLE,
            "COPY t (name, ok, n) FROM STDIN",
            "d a\\tt",
            "d \\t1.25\\nx\\tf\\t\\N\\n",
            "c",
            "COPY t (name, n) FROM STDIN WITH (FORMAT csv, HEADER)",
            "d name,n\\n\"q,\"\"r\",2\\n",
            "c",
            "COPY t (name) FROM STDIN",
            "f stop",
            "COPY t (name, n) FROM STDIN",
            "d only\\n",
            "d more\\n",
            "c",
            "COPY (SELECT name, ok, n FROM t ORDER BY id) TO STDOUT",
            "COPY t (name) TO STDOUT CSV",
        ],
        &[
            "C CREATE TABLE",
            "Z I",
            "G ...",
            "C COPY 2",
            "Z I",
            "G ...",
            "C COPY 1",
            "Z I",
            "G ...",
            "E 57014",
            "Z I",
            "G ...",
            "E 22P04",
            "Z I",
            "H ...",
            "d a\tt\t1.25",
            "d x\tf\t\\N",
            "d q,\"r\t\\N\t2.00",
            "c",
            "C COPY 3",
            "Z I",
            "H ...",
            "d a",
            "d x",
            "d \"q,\"\"r\"",
            "c",
            "C COPY 3",
            "Z I",
        ],
    );
}

#[test]
fn limits_hold() {
    let options = Options {
        statements_max: 2,
        portals_max: 1,
        statement_bytes_max: 100,
        ..Options::default()
    };
    let (_database, mut session) = open(options, Arc::new(manage::Pools::default()));
    let long = format!("SELECT '{}'", "x".repeat(100));
    assert_eq!(talk(&mut session, &[&long]), ["E 54000", "Z I"]);
    let lines = ["P a | SELECT 1", "P b | SELECT 1", "P c | SELECT 1", "S"];
    assert_eq!(talk(&mut session, &lines), ["1", "1", "E 53400", "Z I"]);
    assert_eq!(talk(&mut session, &["B x a", "B y a", "S"]), ["2", "E 53400", "Z I"]);
    let deep = format!("SELECT {}1{}", "(".repeat(30), ")".repeat(30));
    assert_eq!(talk(&mut session, &[&deep]).last().unwrap(), "Z I");
}

#[test]
fn a_statement_ends_at_its_time_or_when_it_is_cancelled() {
    let (_database, mut session) = open(Options::default(), Arc::new(manage::Pools::default()));
    let endless = "SELECT count(*) FROM generate_series(1, 100000000000)";
    assert_eq!(
        talk(&mut session, &["SET statement_timeout = 20", endless, "SELECT 1"])[..4],
        ["C SET", "Z I", "E 57014", "Z I"]
    );
    talk(&mut session, &["RESET statement_timeout"]);
    let canceller = session.canceller();
    let thread = std::thread::spawn(move || {
        // The statement begins some time after; a cancel before it is ignored, so it is repeated.
        while !DONE.load(std::sync::atomic::Ordering::Relaxed) {
            canceller.cancel();
            std::thread::yield_now();
        }
    });
    assert_eq!(talk(&mut session, &[endless]), ["E 57014", "Z I"]);
    DONE.store(true, std::sync::atomic::Ordering::Relaxed);
    thread.join().unwrap();
    assert_eq!(talk(&mut session, &["SELECT 1"]).len(), 4);
}

static DONE: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

#[test]
fn sessions_see_what_others_committed() {
    let (database, mut one) = open(Options::default(), Arc::new(manage::Pools::default()));
    let mut two = another(&database, Arc::new(manage::Pools::default()));
    talk(&mut one, &[TABLE, "BEGIN", ROWS]);
    talk(&mut two, &["SET lock_timeout = 20"]);
    assert_eq!(talk(&mut two, &[ROWS]), ["E 55P03", "Z I"]);
    talk(&mut one, &["COMMIT"]);
    assert_eq!(talk(&mut two, &["SELECT count(*) FROM t"])[1], "D 2");
}
