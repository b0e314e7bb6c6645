//! Comdb2's rulesets: imported in one transaction, with the pools that they name, and exported again.

use super::{database, execute, transact};
use crate::{ChangeOp, export_rules, import_rules};
use paceline_engine::{Engine, Plan};
use paceline_model::Model;
use paceline_model::schema::schema;
use paceline_tables::Database;
use std::sync::Arc;

const FILE: &str = "version 2\npool reports threads 2\n\
    rule 1 action SET_POOL pool reports flags {STOP}; mode {GLOB}; sql SELECT*\n\
    rule 2 action REJECT user etl\n";

fn import(database: &mut Database, text: &str) -> Vec<(ChangeOp, String)> {
    let import = import_rules(database.store(), text, true).unwrap();
    execute(database, &import.operations).unwrap();
    import.edits.iter().map(|edit| (edit.op, format!("{} {}", edit.kind, edit.name))).collect()
}

/// The ruleset of the configuration of the rows.
fn exported(database: &Database) -> String {
    let mut model = Model::new(Arc::new(schema().unwrap())).unwrap();
    let config = model.config(database.store()).unwrap();
    let plan = Plan::new(&Engine::new(0).snapshot(), config).unwrap();
    export_rules(plan.snapshot()).unwrap()
}

#[test]
fn rules_and_pools_are_imported_together() {
    use ChangeOp::{Insert, Update};
    let mut database = database();
    let named = |op, name: &str| (op, name.to_owned());
    let made = import(&mut database, FILE);
    assert_eq!(
        made,
        [named(Insert, "pool reports"), named(Insert, "rule 1"), named(Insert, "rule 2")]
    );
    let first = exported(&database);
    assert!(first.contains("pool reports threads 2"), "{first}");
    // The pool is there now, and rules of the same numbers are replaced.
    let again = import(&mut database, FILE);
    assert_eq!(again, [named(Update, "rule 1"), named(Update, "rule 2")]);
    assert_eq!(exported(&database), first);
    assert_eq!(import(&mut database, &first).len(), 2);
    assert_eq!(exported(&database), first);
}

#[test]
fn a_pool_without_a_range_gets_one_and_other_rules_stay() {
    let mut database = database();
    transact(
        &mut database,
        r#"[{"op": "insert", "table": "Pool", "row": {"name": "reports"}},
            {"op": "insert", "table": "Pool", "row": {"name": "x", "priority_min": -1, "priority_max": -1}},
            {"op": "insert", "table": "Rule", "row": {"number": 7, "criteria": "kind exact sql"}}]"#,
    );
    let import = import_rules(database.store(), FILE, false).unwrap();
    let pool = import.edits.first().unwrap();
    assert_eq!((pool.op, pool.priority), (ChangeOp::Update, Some((-2, -2))));
    execute(&mut database, &import.operations).unwrap();
    let mut model = Model::new(Arc::new(schema().unwrap())).unwrap();
    let config = model.config(database.store()).unwrap();
    let numbers: Vec<u32> = config.rules.iter().map(|rule| rule.number).collect();
    assert_eq!(numbers, [1, 2, 7]);
    let started = config.pools.list().iter().find(|pool| &*pool.name == "reports").unwrap();
    assert_eq!(format!("{:?}", started.state), "Started");
}

#[test]
fn a_wrong_file_changes_nothing_and_names_its_place() {
    let database = database();
    let wrong = FILE.replace("REJECT", "REJET");
    let error = import_rules(database.store(), &wrong, false).unwrap_err();
    assert_eq!((error.line, error.column), (4, 15), "{error}");
}
