//! Writers that detect afterwards whether anything was lost, torn or reordered.
//!
//! Transaction `i` of writer `w` inserts a row into A and one into B, points the row of transaction `i - 1` to
//! itself, and increments the writer's row in Counter. So if any part of it is missing, or is there without the rest,
//! [`contents`] detects it. A refused transaction is sent again under the same number, so the numbers of a writer
//! never have a gap.

use std::collections::BTreeMap;
use std::path::PathBuf;

use paceline_tests::client::Frame;
use paceline_tests::server::create_databases;
use paceline_tests::{Client, Scratch};
use serde_json::{Value, json};

const SCHEMA: &str = r#"{"name": "db", "version": "1.0.0", "tables": {
    "A": {"columns": {"w": {"type": "integer"}, "i": {"type": "integer"},
                      "next": {"type": "integer"}, "text": {"type": "string"}},
          "isRoot": true, "indexes": [["w", "i"]]},
    "B": {"columns": {"w": {"type": "integer"}, "i": {"type": "integer"}}, "isRoot": true},
    "Counter": {"columns": {"w": {"type": "integer"}, "n": {"type": "integer"}},
                "isRoot": true, "indexes": [["w"]]}}}"#;

/// The number of transactions of each writer; no entry means none.
pub type Contents = BTreeMap<i64, i64>;

/// A fresh database file.
pub fn create(scratch: &Scratch) -> PathBuf {
    create_databases(scratch, &[SCHEMA]).unwrap().remove(0)
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Entry {
    pub w: i64,
    pub i: i64,
    pub durable: bool,
    /// The text in the row of A, which the next transaction removes.
    pub text: String,
}

impl Entry {
    pub fn new(w: i64, i: i64, durable: bool) -> Self {
        Self { w, i, durable, text: String::new() }
    }

    /// The parameters of `transact`.
    pub fn params(&self) -> Value {
        let Self { w, i, durable, text } = self;
        let mut operations = vec![
            json!("db"),
            json!({"op": "insert", "table": "A", "row": {"w": w, "i": i, "next": -1, "text": text}}),
            json!({"op": "update", "table": "A", "where": [["w", "==", w], ["i", "==", i - 1]],
                   "row": {"next": i, "text": ""}}),
            json!({"op": "insert", "table": "B", "row": {"w": w, "i": i}}),
        ];
        operations.push(match i {
            0 => json!({"op": "insert", "table": "Counter", "row": {"w": w, "n": 1}}),
            _ => json!({"op": "mutate", "table": "Counter", "where": [["w", "==", w]],
                        "mutations": [["n", "+=", 1]]}),
        });
        if *durable {
            operations.push(json!({"op": "commit", "durable": true}));
        }
        Value::Array(operations)
    }
}

/// The response to a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is committed.
    Acknowledged,
    /// It was refused with this error.
    Refused(String),
    /// The daemon died first.
    None,
}

/// Sends a transaction and reads its answer.
pub fn transact(client: &mut Client, entry: &Entry) -> Answer {
    match client.request("transact", &entry.params().to_string()) {
        Ok(_) => read_answer(client),
        Err(_) => Answer::None,
    }
}

/// Reads the response to a transaction; no other message may arrive before it.
pub fn read_answer(client: &mut Client) -> Answer {
    let Frame::Message(text) = client.frame().unwrap() else { return Answer::None };
    let message: Value = serde_json::from_slice(&text).unwrap();
    let results = message["result"].as_array().unwrap_or_else(|| panic!("{message}"));
    match results.iter().find_map(|result| result["error"].as_str()) {
        Some(error) => Answer::Refused(error.to_owned()),
        None => Answer::Acknowledged,
    }
}

/// The committed transactions. Fails if a transaction is incomplete, or if one is missing before another.
pub fn contents(client: &mut Client) -> Contents {
    let select = |table: &str, columns: &[&str]| json!({"op": "select", "table": table, "where": [], "columns": columns});
    let params = json!([
        "db",
        select("A", &["w", "i", "next"]),
        select("B", &["w", "i"]),
        select("Counter", &["w", "n"])
    ]);
    let result = client.call("transact", &params).unwrap();
    let table = |index: usize, columns: &[&str]| -> Vec<Vec<i64>> {
        let rows = result[index]["rows"].as_array().unwrap_or_else(|| panic!("{result}")).iter();
        let row = |row: &Value| columns.iter().map(|name| row[name].as_i64().unwrap()).collect();
        let mut rows: Vec<Vec<i64>> = rows.map(row).collect();
        rows.sort();
        rows
    };
    let counters = table(2, &["w", "n"]);
    let expected = |entry: &dyn Fn(i64, i64, i64) -> Vec<i64>| -> Vec<Vec<i64>> {
        let of_writer = |c: &Vec<i64>| (0..c[1]).map(|i| entry(c[0], i, c[1])).collect::<Vec<_>>();
        counters.iter().flat_map(of_writer).collect()
    };
    let next = |i: i64, n: i64| if i + 1 == n { -1 } else { i + 1 };
    assert_eq!(table(0, &["w", "i", "next"]), expected(&|w, i, n| vec![w, i, next(i, n)]));
    assert_eq!(table(1, &["w", "i"]), expected(&|w, i, _| vec![w, i]));
    counters.iter().map(|counter| (counter[0], counter[1])).collect()
}

/// The fencing number of an owned lock.
pub fn fencing(client: &mut Client, lock: &str) -> i64 {
    let select = json!({"op": "select", "table": "Lock", "where": [["name", "==", lock]],
                        "columns": ["fencing"]});
    let result = client.call("transact", &json!(["Paceline", select])).unwrap();
    result[0]["rows"][0]["fencing"].as_i64().unwrap_or_else(|| panic!("{result}"))
}

/// Takes a free lock, and returns its fencing number.
pub fn lock(client: &mut Client, name: &str) -> i64 {
    assert_eq!(client.call("lock", &json!([name])).unwrap(), json!({"locked": true}));
    fencing(client, name)
}

/// Numbers that look random and are the same in every run (xorshift).
#[derive(Debug)]
pub struct Chance(pub u64);

impl Chance {
    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
