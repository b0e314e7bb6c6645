//! Tests of the normalised form: what Comdb2's own tests and rules show, its quirks, and PostgreSQL's texts.

use super::{fingerprint, normalize};
use crate::text::Dialect;

fn form(statement: &str, dialect: Dialect) -> String {
    let mut out = String::from("old");
    normalize(statement, dialect, &mut out);
    out
}

fn check(dialect: Dialect, cases: &[(&str, &str)]) {
    for (statement, expected) in cases {
        assert_eq!(form(statement, dialect), *expected, "{statement}");
    }
}

/// Statement, form and fingerprint, as Comdb2 shows them.
fn golden(dialect: Dialect, cases: &[(&str, &str, &str)]) {
    let mut out = String::new();
    for (statement, form, hex) in cases {
        let found = fingerprint(statement, dialect, &mut out);
        assert_eq!((out.as_str(), found.to_string().as_str()), (*form, *hex), "{statement}");
    }
}

const GOLDEN: &[(&str, &str, &str)] = &[
    ("SELECT 1", "SELECT?;", "4f16a8ec9db90f803e406659938b2602"),
    ("SELECT 1+1", "SELECT?+?;", "a8aba85dbb41e02489b5aa47de3b8a0a"),
    ("select 1 + 2 + 3", "SELECT?+?+?;", "786cc49d023ab390f05efa16804083f2"),
    ("SELECT 1+1+1+1", "SELECT?+?+?+?;", "542a619b69c1d9d779c053eb768ddd5b"),
    ("SELECT 1+1+1+1+1", "SELECT?+?+?+?+?;", "d9c583aa63e58193e29a9963f472acb0"),
    ("SELECT comdb2_host()", "SELECT comdb2_host();", "69d1558c950bbb908f4b8df0d63e2cf4"),
    (
        "EXEC PROCEDURE sys.cmd.send('reql stat')",
        "EXEC PROCEDURE sys.cmd.send();",
        "ba65a98635122c91120d37676cbfc1ef",
    ),
    (
        "SELECT 1 UNION SELECT 2 UNION SELECT 3",
        "SELECT?UNION SELECT?UNION SELECT?;",
        "0a17a3dd4178baa9b98ef60fb54a1992",
    ),
    (
        "EXEC PROCEDURE test_fp_close()",
        "EXEC PROCEDURE test_fp_close();",
        "162437a391bff4c53dd483b904a05184",
    ),
    ("EXEC PROCEDURE test_fp()", "EXEC PROCEDURE test_fp();", "23476e0d735c4cf482b94c485e3d7127"),
    (
        "SELECT SUM(x) AS z FROM fp1",
        "SELECT sum(x)AS z FROM fp1;",
        "2d4fbab7f6a9c85c75bbb7fb6b43c863",
    ),
    (
        "EXEC PROCEDURE test_fp_emit()",
        "EXEC PROCEDURE test_fp_emit();",
        "3dcb487a727f69d0d6753bf9046d642b",
    ),
    (
        "INSERT INTO fp1(x) VALUES(3);",
        "INSERT INTO fp1(x)VALUES(?);",
        "5bef07d72bc6a66e49bef817dd3bab9d",
    ),
    (
        "SELECT * FROM fp1 ORDER BY x;",
        "SELECT*FROM fp1 ORDER BY x;",
        "5e7c0c2caf9a22cac49643a5a01d7760",
    ),
    (
        "CREATE PROCEDURE test_fp_emit VERSION '1' {\nlocal function main()\n  local t, rc = db:exec('SELECT 1')\n  db:emit(t)\nend}",
        "CREATE PROCEDURE test_fp_emit VERSION?{\nlocal function main()\n  local t, rc = db:exec('SELECT 1')\n  db:emit(t)\nend};",
        "732794692d8ab4e61b93a41745a9072a",
    ),
    (
        "CREATE TABLE fp1(x INTEGER);",
        "CREATE TABLE fp1(x integer);",
        "84496375cf558c93e22ce29e18ea7187",
    ),
    ("SELECT COUNT(*) FROM fp1;", "SELECT count(*)FROM fp1;", "b12bfa0963ad238396f59e2e1e96b218"),
    ("SELECT 1 AS xyz", "SELECT?AS xyz;", "b16c596087126535ffc0e991e3477d8a"),
    (
        "SELECT x AS w FROM fp1 ORDER BY x",
        "SELECT x AS w FROM fp1 ORDER BY x;",
        "c7f22188d3a63015bac874fd692fd350",
    ),
    (
        "SELECT x + x AS y FROM fp1 ORDER BY x",
        "SELECT x+x AS y FROM fp1 ORDER BY x;",
        "cb377fe3503a8413402ff6fdbf8d9f11",
    ),
    (
        "SELECT x, x + x, SUM(x) FROM fp1 ORDER BY x;",
        "SELECT x,x+x,sum(x)FROM fp1 ORDER BY x;",
        "d12630393a2ab9bf00df2f53a9355b10",
    ),
    (
        "CREATE PROCEDURE test_fp_close VERSION '1' {\nlocal function main()\n  local s, rc = db:prepare('SELECT 1 UNION SELECT 2 UNION SELECT 3')\n  local row, rc = s:fetch()\n  db:emit(row)\n  row, rc = s:fetch();\n  db:emit(row)\n  s:close()\nend}",
        "CREATE PROCEDURE test_fp_close VERSION?{\nlocal function main()\n  local s, rc = db:prepare('SELECT 1 UNION SELECT 2 UNION SELECT 3')\n  local row, rc = s:fetch()\n  db:emit(row)\n  row, rc = s:fetch();\n  db:emit(row)\n  s:close()\nend};",
        "e2f0f5672b403145980c4535f8ad0253",
    ),
    (
        "DELETE FROM fp1 WHERE x = 2;",
        "DELETE FROM fp1 WHERE x=?;",
        "ea1c1d9dd89564e809f6501de86061dd",
    ),
    ("SELECT 1,2,3,4,5", "SELECT?,?,?,?,?;", "c868ab16d94b512fb381974224dae18e"),
    ("select * from t", "SELECT*FROM t;", "c4fe7ad6cc25bb59daf8101f2196edf6"),
    (
        "select * from t2 where a < 40;",
        "SELECT*FROM t2 WHERE a<?;",
        "f57a9e3c17f13606af3630d8ebb27f3f",
    ),
    (
        "select * from comdb2_query_plans where fingerprint='f57a9e3c17f13606af3630d8ebb27f3f'",
        "SELECT*FROM comdb2_query_plans WHERE fingerprint=?;",
        "bb1b8ba88d815c2bac18af4618bae9dc",
    ),
    (
        "select a, 2 from t2 where a = 1;",
        "SELECT a,?FROM t2 WHERE a=?;",
        "0c725849afac1771d141eb55e60a9038",
    ),
    (
        "SELECT * FROM comdb2_transaction_logs('{1:0}') LIMIT 0",
        "SELECT*FROM comdb2_transaction_logs(?)LIMIT?;",
        "c30b0528f036eab64a7953ed7c55af40",
    ),
    (
        "SELECT * FROM t1 ORDER BY x",
        "SELECT*FROM t1 ORDER BY x;",
        "4dbd3f5448e1ad53fd4e558cafee6578",
    ),
    (
        "SELECT host, is_master, coherent_state FROM comdb2_cluster ORDER BY CASE is_master WHEN 'Y' THEN 1 ELSE 0 END",
        "SELECT host,is_master,coherent_state FROM comdb2_cluster ORDER BY CASE is_master WHEN?THEN?ELSE?END;",
        "ebf7f5d84127ec96341ca52ed9a9797e",
    ),
    ("SELECT comdb2_semver()", "SELECT comdb2_semver();", "512ec5eacc7776e1878a42258b635124"),
    (
        "SELECT value FROM comdb2_tunables WHERE name = 'x'",
        "SELECT value FROM comdb2_tunables WHERE name=?;",
        "7549f81f7876a39f5b218547590760e2",
    ),
    ("select count(*) from t1", "SELECT count(*)FROM t1;", "aa98684e80e6fa9bd1cb3ee39443df7e"),
    (
        "select * from carray1 order by 1",
        "SELECT*FROM carray1 ORDER BY?;",
        "786a016d5d737d34389e6bc6d35f2d50",
    ),
    (
        "delete from t1 where alltypes_u_short=7",
        "DELETE FROM t1 WHERE alltypes_u_short=?;",
        "40dbcf93e21ff2d500766c084d01cee2",
    ),
    (
        "create table carray1 (a int, b double, c cstring(32), d longlong, e blob)",
        "CREATE TABLE carray1(a int,b double,c cstring(?),d longlong,e blob);",
        "d31abc248f09fd1099a22a5c6f0e895e",
    ),
];

/// Texts that only SQLite and Comdb2 read as they are meant.
const GOLDEN_SQLITE: &[(&str, &str, &str)] = &[
    (
        "SELECT * FROM 'sqlite_stat1' LIMIT 0 -- should show table name",
        "SELECT*FROM sqlite_stat1 LIMIT?;",
        "002dcfc6d511a5d625fa142f7f0df9f4",
    ),
    (
        "select a, @test from t2 where a = 1",
        "SELECT a,?FROM t2 WHERE a=?;",
        "0c725849afac1771d141eb55e60a9038",
    ),
    (
        "update t1 set alltypes_u_int=1+@v_alltypes_int where alltypes_u_short=@v_alltypes_u_short",
        "UPDATE t1 SET alltypes_u_int=?+?WHERE alltypes_u_short=?;",
        "2e0c049885d2ecdb2b780faddea256c0",
    ),
    (
        "update t1 set alltypes_u_int=alltypes_u_int+? where alltypes_u_short=?",
        "UPDATE t1 SET alltypes_u_int=alltypes_u_int+?WHERE alltypes_u_short=?;",
        "f2c85b80eb883ee3c1eb184a8bca4e4d",
    ),
    (
        "select lsn, generation, payload from comdb2_transaction_logs(?, ?, ?, ?)",
        "SELECT lsn,generation,payload FROM comdb2_transaction_logs(?,?,?,?);",
        "14d532803022f07f6a9db4caaffdaa75",
    ),
];

#[test]
fn forms_and_fingerprints_are_those_of_comdb2() {
    golden(Dialect::Sqlite, GOLDEN);
    golden(Dialect::Sqlite, GOLDEN_SQLITE);
    golden(Dialect::Postgres, GOLDEN);
    golden(Dialect::PostgresBackslash, GOLDEN);
}

#[test]
fn values_and_null_become_question_marks() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        check(
            dialect,
            &[
                ("VALUES (1, 1.5e3, 'a', NULL, x'00', true)", "VALUES(?,?,?,?,?,true);"),
                ("SELECT a IS NULL, a IS NOT NULL, NULL", "SELECT a IS NULL,a IS NOT NULL,?;"),
                ("SELECT a NOT NULL", "SELECT a NOT NULL;"),
                ("SELECT t.KEY, Key, \"Key\"", "SELECT t.KEY,KEY,\"key\";"),
                ("SELECT 'it''s' 'x'", "SELECT??;"),
                ("", ";"),
                (";", ";"),
                ("SELECT 1 ; -- end", "SELECT?;"),
            ],
        );
    }
}

#[test]
fn lists_of_values_have_one_form() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        check(
            dialect,
            &[
                ("a IN (1)", "a IN(?,?,?);"),
                ("a IN ()", "a IN(?,?,?);"),
                ("a NOT IN (1, -2, 'x', NULL, (3))", "a NOT IN(?,?,?);"),
                ("a IN (1, b, 3)", "a IN(?,b,?);"),
                ("a IN (SELECT 1)", "a IN(SELECT?);"),
                ("a IN (1, (2), b IN (3, 4))", "a IN(?,(?),b IN(?,?,?));"),
                ("a IN (CURRENT_DATE)", "a IN(?,?,?);"),
                ("IN (1)", "IN(?,?,?);"),
                ("a IN b (1)", "a IN b(?);"),
            ],
        );
    }
}

#[test]
fn signs_vanish_unless_a_name_or_value_is_before_them() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        check(
            dialect,
            &[
                ("SELECT -1, +1, - -1", "SELECT?,?,?;"),
                ("SELECT a-1, 1 - 1, 'a' + NULL - 2", "SELECT a-?,?-?,?+?-?;"),
                ("SELECT (a)-1, f(x) + 2", "SELECT(a)?,f(x)?;"),
                ("SELECT a = -1, CURRENT_DATE - 1", "SELECT a=?,CURRENT_DATE?;"),
            ],
        );
    }
}

#[test]
fn names_lose_quotes_that_they_do_not_need() {
    check(
        Dialect::Sqlite,
        &[
            (
                "SELECT \"Ab\", [c D], `e`, \"f\"\"g\", \"select\", \"\"",
                "SELECT ab,\"c d\",e,\"f\"\"g\",\"select\",\"\";",
            ),
            ("SELECT \"a\"\"b\"FROM \"t u\"WHERE x", "SELECT\"a\"\"b\"FROM\"t u\"WHERE x;"),
            ("SELECT \"[A]\", \"1\", \"x'00'\", \"lz4\"", "SELECT [a],\"1\",\"x'00'\",\"lz4\";"),
            ("SELECT 'a' FROM 'B' JOIN 'c d'", "SELECT?FROM b JOIN\"c d\";"),
            // Comdb2 takes only the first of several columns for a name.
            ("INSERT INTO 'a'('i', 'j') VALUES ('k')", "INSERT INTO a(i,?)VALUES(?);"),
            ("CREATE TABLE 't' ('a' int)", "CREATE TABLE t(a int);"),
            ("UPDATE 'a' SET b = 'c'", "UPDATE a SET b=?;"),
            ("SELECT * FROM ('a')", "SELECT*FROM(a);"),
            ("SELECT ÄÖ, \"Äö\"", "SELECT ÄÖ,Äö;"),
            ("1abc x1", "1ABC x1;"),
            ("EXECUTE PROCEDURE p (1, (2)) x", "EXECUTE PROCEDURE p();"),
            ("create table t1 {schema { x }", "CREATE TABLE t1 {schema { x };"),
            ("create table t1 {schema", "CREATE TABLE t1{SCHEMA;"),
            ("SELECT $1::int", "SELECT?:?;"),
        ],
    );
}

#[test]
fn postgres_texts_are_read_as_postgres_reads_them() {
    check(
        Dialect::Postgres,
        &[
            ("SELECT $1::int, $2 + 1", "SELECT?::int,?+?;"),
            ("SELECT $$a;'b$$, $t$x$t$, E'\\'', U&'x', B'01'", "SELECT?,?,?,?,?;"),
            ("SELECT /* a /* b */ c */ 1 -- x", "SELECT?;"),
            ("SELECT 'a'\n'b'", "SELECT?;"),
            ("SELECT a[1:2], ARRAY[1, 2]", "SELECT a[?:?],array[?,?];"),
            ("SELECT a->>'b', f(a)->'b', a @> '{}'", "SELECT a->>?,f(a)->?,a@>?;"),
            (
                "SELECT a IS DISTINCT FROM 'secret', EXTRACT(year FROM '2020')",
                "SELECT a IS DISTINCT FROM?,extract(year FROM?);",
            ),
            ("SELECT U&\"a\\0062\", \"Ab\"", "SELECT\"a\\0062\",ab;"),
            ("SELECT 1 FROM t WHERE a = 'secret", "SELECT?FROM t WHERE a=?;"),
            ("SELECT 0x1F, 1_000, a@-1", "SELECT?,?,a@-?;"),
            ("INSERT INTO t(a) VALUES ($1) RETURNING id", "INSERT INTO t(a)VALUES(?)returning id;"),
        ],
    );
}
