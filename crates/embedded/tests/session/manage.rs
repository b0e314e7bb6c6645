//! A management that counts, and tests of how statements reach it.

use super::{check, open, talk};
use paceline_embedded::{Column, Failure, Management, Options, Output, Rows, Type, Value};
use paceline_postgres::wire::SqlState;
use std::sync::{Arc, Mutex};

/// Keeps the calls that it got.
#[derive(Default)]
pub struct Pools {
    calls: Mutex<Vec<String>>,
}

impl Management for Pools {
    fn call(&self, function: &str, args: &[(Option<&str>, Value)]) -> Result<Output, Failure> {
        self.calls.lock().unwrap().push(format!("{function} {args:?}"));
        match function {
            "comdb2_new_rule" => Ok(Output::Value(Value::Int(7))),
            "comdb2_list_pools" => self.table(function).map(Output::Rows),
            "comdb2_drop_pool" => {
                Err(Failure::new(SqlState::UNDEFINED_OBJECT, "no such pool").hint("Create it."))
            }
            _ => Ok(Output::Void),
        }
    }

    fn table(&self, name: &str) -> Result<Rows, Failure> {
        let columns = self.columns(name).unwrap_or_default();
        let row = |name: &str, threads| vec![Value::Text(name.into()), Value::Int(threads)];
        Ok(Rows { columns, rows: vec![row("batch", 2), row("fast", 8)] })
    }

    fn columns(&self, name: &str) -> Option<Vec<Column>> {
        let known = ["comdb2_list_pools", "comdb2_threadpools", "paceline.pool"];
        known
            .contains(&name)
            .then(|| vec![Column::new("name", Type::Text), Column::new("threads", Type::Int4)])
    }
}

#[test]
fn tables_and_functions_are_joined_like_tables() {
    check(
        &[
            "SELECT * FROM comdb2_list_pools() WHERE threads > 2",
            "SELECT p.name, t.threads FROM comdb2_threadpools p JOIN paceline.pool t ON t.name = p.name ORDER BY 1",
            "SELECT pool.name FROM paceline.pool LIMIT 1",
            "SELECT paceline.pool.threads + 1 FROM paceline.pool LIMIT 1",
            "SELECT comdb2_list_pools()",
            "SELECT * FROM paceline.missing",
            "SELECT comdb2_nothing()",
            "SELECT comdb2_create_pool()",
            "INSERT INTO comdb2_threadpools VALUES ('x', 1)",
            "SELECT comdb2_drop_pool('x')",
        ],
        &[
            "T name:text threads:int4",
            "D fast|8",
            "C SELECT 1",
            "Z I",
            "T name:text threads:int4",
            "D batch|2",
            "D fast|8",
            "C SELECT 2",
            "Z I",
            "T name:text",
            "D batch",
            "C SELECT 1",
            "Z I",
            "T ?column?:int4",
            "D 3",
            "C SELECT 1",
            "Z I",
            "E 0A000",
            "Z I",
            "E 42P01",
            "Z I",
            "E 42883",
            "Z I",
            "E 42883",
            "Z I",
            "E 42501",
            "Z I",
            "E 42704",
            "Z I",
        ],
    );
}

/// However a planner would evaluate it, a call in the text is one call; describing and explaining is none.
#[test]
fn a_call_in_the_text_is_one_call() {
    let calls = |lines: &[&str]| {
        let pools = Arc::new(Pools::default());
        let (_database, mut session) =
            open(Options::default(), Arc::clone(&pools) as Arc<dyn Management>);
        let answer = talk(&mut session, lines);
        assert!(!answer.iter().any(|line| line.starts_with('E')), "{answer:?}");
        let calls = pools.calls.lock().unwrap();
        calls.clone()
    };
    let once = ["comdb2_create_pool [(None, Text(\"a\"))]"];
    for text in [
        "SELECT comdb2_create_pool('a')",
        "SELECT comdb2_create_pool('a') FROM generate_series(1, 5)",
        "SELECT x, x FROM (SELECT comdb2_create_pool('a') AS x) WHERE x = '' OR x <> '' ORDER BY x",
        "SELECT 1 WHERE comdb2_create_pool('a') = '' OR true",
        "SELECT * FROM comdb2_create_pool('a') AS f, generate_series(1, 3)",
        "WITH w AS (SELECT comdb2_create_pool('a') AS x) SELECT * FROM w a, w b",
        "SELECT comdb2_create_pool($$a$$::text)",
        "SELECT comdb2_create_pool(lower('A'))",
    ] {
        assert_eq!(calls(&[text]), once, "{text}");
    }
    let named =
        ["comdb2_new_rule [(Some(\"user\"), Text(\"bob\")), (Some(\"is_on\"), Bool(true))]"];
    assert_eq!(calls(&["SELECT comdb2_new_rule(user => 'bob', is_on => true)"]), named);
    let prepared = ["P s | SELECT comdb2_create_pool($1)", "DS s", "B - s | a", "DP -", "S"];
    assert!(calls(&prepared).is_empty());
    assert_eq!(calls(&["P s | SELECT comdb2_create_pool($1)", "B - s | a", "E -", "S"]), once);
    assert!(calls(&["EXPLAIN SELECT comdb2_create_pool('a')"]).is_empty());
}
