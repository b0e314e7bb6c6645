//! Types of results and parameters, from texts.

use super::{Scope, Tables, outputs, parameters};
use crate::token::solids;
use crate::types::{Declared, Type};

struct One;

impl Tables for One {
    fn columns(&self, name: &str) -> Option<Vec<(String, Declared)>> {
        let columns = [("id", Type::Int4), ("name", Type::Varchar), ("at", Type::Timestamptz)];
        (name == "t")
            .then(|| columns.map(|(name, kind)| (name.to_owned(), Declared::of(kind))).into())
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let toks = solids(text);
    let scope = Scope::new(&toks, &One, vec![]);
    let items = outputs(&toks, &scope).unwrap_or_default();
    let shown: Vec<String> = items
        .iter()
        .map(|item| {
            let kind = item.declared.map_or("?", |declared| declared.kind.name());
            item.name.as_ref().map_or("*".into(), |name| format!("{name}:{kind}"))
        })
        .collect();
    assert_eq!(shown.join(" "), expected, "{text}");
}

#[test]
fn results_have_names_and_types() {
    for (text, expected) in [
        ("SELECT id, x.name nick, * FROM t x", "id:int4 nick:varchar *"),
        (
            "SELECT count(*), sum(id) + 1, 'a', NULL, left(name, 2) FROM t",
            "count:int8 ?column?:int8 ?column?:text ?column?:text left:text",
        ),
        (
            "SELECT id > 1 AND NOT name LIKE 'a', id IN (1), name IS NOT NULL, id BETWEEN 1 AND 2 FROM t",
            "?column?:bool ?column?:bool ?column?:bool ?column?:bool",
        ),
        (
            "SELECT id::text, CAST(id AS bigint), '1'::numeric(3,1), (id)::int2 FROM t",
            "id:text id:int8 numeric:numeric id:int2",
        ),
        ("WITH w AS (SELECT 1) SELECT max(at), now() FROM t, w", "max:timestamptz now:timestamptz"),
        ("INSERT INTO t (id) VALUES (1) RETURNING id, name AS n", "id:int4 n:varchar"),
        ("VALUES (1, 'a')", "?column?:int4 ?column?:text"),
        ("SELECT id IS DISTINCT FROM 1 AS d FROM t", "d:bool"),
    ] {
        check(text, expected);
    }
}

#[test]
fn parameters_have_the_types_of_what_is_beside_them() {
    for (text, expected) in [
        (
            "SELECT * FROM t WHERE id = $1 AND $2 < at LIMIT $3",
            vec![Type::Int4, Type::Timestamptz, Type::Int8],
        ),
        (
            "INSERT INTO t (name, id) VALUES ($1, $2), ($3, 1)",
            vec![Type::Varchar, Type::Int4, Type::Varchar],
        ),
        (
            "UPDATE t SET at = $1 WHERE t.id IN ($2, $3)",
            vec![Type::Timestamptz, Type::Int4, Type::Int4],
        ),
        ("SELECT $1::uuid, CAST($2 AS date), $3", vec![Type::Uuid, Type::Date, Type::Text]),
        ("SELECT 1 FROM t WHERE id BETWEEN $1 AND $2", vec![Type::Int4, Type::Int4]),
    ] {
        assert_eq!(parameters(&solids(text), &One, &[], expected.len()), expected, "{text}");
    }
    assert_eq!(parameters(&solids("SELECT $1"), &One, &[20], 1), [Type::Int8]);
}

#[test]
fn deep_texts_end() {
    let deep = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
    let toks = solids(&deep);
    let scope = Scope::new(&toks, &One, vec![]);
    assert_eq!(outputs(&toks, &scope).unwrap().len(), 1);
}
