//! From rows to configuration: rows that a plain client writes, and all their errors.

use super::Model;
use crate::schema;
use paceline_checkpoints::Limit;
use paceline_engine::{Engine, Outcome as Decided, prepare};
use paceline_pools::{DEFAULT_NAME, PoolState};
use paceline_tables::{Context, Database, Outcome, json};
use paceline_types::{Attributes, Reason, Request, Time, UuidSource};
use std::sync::Arc;

struct World {
    database: Database,
    model: Model,
    engine: Engine,
}

impl World {
    fn new() -> Self {
        let schema = Arc::new(schema::schema().unwrap());
        let database = Database::new(Arc::clone(&schema), UuidSource::from_number(1));
        let model = Model::new(schema).unwrap();
        Self { database, model, engine: Engine::new(1) }
    }

    /// Runs operations; an error of the model undoes them, as in the daemon.
    fn transact(&mut self, operations: &str) -> Result<(), String> {
        let json = json::parse(operations.as_bytes(), 128).unwrap();
        let context =
            Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
        let Outcome::Done(done) = self.database.execute(json.as_array().unwrap(), &context) else {
            panic!("nothing waits here");
        };
        let Some(changes) = done.changes else { return Err(format!("{:?}", done.results)) };
        assert!(self.model.concerns(&changes));
        match self.model.plan(&self.engine.snapshot(), self.database.store()) {
            Ok(plan) => {
                self.engine.configure(Time(0), &plan);
                Ok(())
            }
            Err(error) => {
                self.database.undo(&changes);
                Err(error.to_string())
            }
        }
    }

    fn insert(&mut self, table: &str, row: &str) -> Result<(), String> {
        self.transact(&format!(r#"[{{"op": "insert", "table": "{table}", "row": {row}}}]"#))
    }

    fn submit(&mut self, user: &str) -> Decided {
        let mut attributes = Attributes::new();
        attributes.set("user", user).unwrap();
        attributes.set("frontend", "api").unwrap();
        let prepared = prepare(&self.engine.snapshot(), Request::new(attributes)).unwrap();
        self.engine.submit(Time(0), prepared, &|_, _| false).1
    }
}

#[test]
fn a_rule_that_a_plain_client_inserts_changes_the_next_decision() {
    let mut world = World::new();
    assert_eq!(world.submit("etl-1"), Decided::Started);
    world
        .insert("Rule", r#"{"number": 10, "criteria": "user glob etl-*", "action": "reject"}"#)
        .unwrap();
    let Decided::Refused(refusal) = world.submit("etl-1") else { panic!("not refused") };
    assert_eq!(refusal.reason, Reason::Rejected { rule: 10 });
    assert_eq!(world.submit("eva"), Decided::Started);
    world.transact(r#"[{"op": "delete", "table": "Rule", "where": []}]"#).unwrap();
    assert_eq!(world.submit("etl-1"), Decided::Started);
}

#[test]
fn what_a_row_does_not_say_has_the_documented_default() {
    let mut world = World::new();
    world.insert("Pool", r#"{"name": "batch"}"#).unwrap();
    let snapshot = world.engine.snapshot();
    let pool = snapshot.pools().pool("batch").unwrap();
    assert_eq!((pool.state, pool.range, pool.persistent), (PoolState::Stopped, None, false));
    assert_eq!((pool.threads_min, pool.threads_max), (0, None));
    world.insert("Pool", r#"{"name": "default", "threads_max": 3}"#).unwrap();
    let snapshot = world.engine.snapshot();
    let pool = snapshot.pools().pool(DEFAULT_NAME).unwrap();
    assert_eq!(
        (pool.state, pool.persistent, pool.threads_max),
        (PoolState::Started, true, Some(3))
    );
    world.insert("Checkpoint", r#"{"name": "seen", "at": "frontend api"}"#).unwrap();
    let snapshot = world.engine.snapshot();
    let checkpoint = snapshot.checkpoints().iter().next().unwrap();
    assert_eq!(checkpoint.spec.limit, Limit::Count);
}

#[test]
fn several_edits_are_one() {
    let mut world = World::new();
    world
        .transact(
            r#"[{"op": "insert", "table": "Pool", "row": {"name": "low", "priority_min": -10,
                 "priority_max": -1, "state": "started"}},
                {"op": "insert", "table": "Pool", "row": {"name": "high", "priority_min": 1,
                 "priority_max": 10, "state": "started"}}]"#,
        )
        .unwrap();
    // Swapping two ranges makes them overlap in between, but not in the end.
    world
        .transact(
            r#"[{"op": "update", "table": "Pool", "where": [["name", "==", "low"]],
                 "row": {"priority_min": 1, "priority_max": 10}},
                {"op": "update", "table": "Pool", "where": [["name", "==", "high"]],
                 "row": {"priority_min": -10, "priority_max": -1}}]"#,
        )
        .unwrap();
    let snapshot = world.engine.snapshot();
    assert_eq!(snapshot.pools().pool("low").unwrap().range.unwrap().to_string(), "1 to 10");
}

#[test]
fn a_resource_keeps_its_number_through_edits() {
    let mut world = World::new();
    world
        .transact(
            r#"[{"op": "insert", "table": "Resource", "uuid-name": "tank", "row": {"name": "tank"}},
                {"op": "insert", "table": "Resource", "row": {"name": "home",
                 "parents": ["named-uuid", "tank"]}}]"#,
        )
        .unwrap();
    let graph = |world: &World| world.engine.snapshot();
    let before = graph(&world);
    let (tank, home) = (before.graph().find("tank").unwrap(), before.graph().find("home").unwrap());
    assert_eq!(before.graph().parents(home).collect::<Vec<_>>(), [tank]);
    world
        .transact(
            r#"[{"op": "update", "table": "Resource", "where": [["name", "==", "tank"]],
                 "row": {"name": "pond"}}]"#,
        )
        .unwrap();
    assert_eq!(graph(&world).graph().find("pond"), Some(tank), "a rename keeps the number");
    world
        .transact(r#"[{"op": "delete", "table": "Resource", "where": [["name", "==", "pond"]]}]"#)
        .unwrap();
    let after = graph(&world);
    assert_eq!(after.graph().parents(home).count(), 0, "the database drops the reference");
    world.insert("Resource", r#"{"name": "pond"}"#).unwrap();
    assert_ne!(graph(&world).graph().find("pond"), Some(tank), "no number is used twice");
}

#[test]
fn what_cannot_work_says_where_and_changes_nothing() {
    let mut world = World::new();
    world.insert("Pool", r#"{"name": "low", "priority_min": -10, "priority_max": -1}"#).unwrap();
    for (table, row, error) in [
        (
            "Rule",
            r#"{"number": 10, "criteria": "text regex 'a(b'", "action": "reject"}"#,
            "Rule 10: criteria: criterion 1: column 2: ",
        ),
        (
            "Rule",
            r#"{"number": 10, "criteria": "user globb a"}"#,
            "Rule 10: criteria: column 6: expected exact, glob or regex, found \"globb\"",
        ),
        (
            "Rule",
            r#"{"number": 10, "action": "set 500"}"#,
            "Rule 10: action: column 5: expected a priority of -127 to 127, found \"500\"",
        ),
        ("Rule", r#"{"number": 10, "when": "user =="}"#, "Rule 10: when: "),
        (
            "Saved_Rule",
            r#"{"number": 10, "action": "sat 5"}"#,
            "Saved_Rule 10: action: column 1: expected nothing, set, raise, lower or reject, \
             found \"sat\"",
        ),
        (
            "Pool",
            r#"{"name": "b", "priority_min": -5, "priority_max": 5}"#,
            "Pool b: priority_min: priorities -5 to 5 of pool \"b\" overlap -10 to -1 of pool \"low\"",
        ),
        (
            "Pool",
            r#"{"name": "b", "priority_min": 5}"#,
            "Pool b: priority_max: expected a number, because priority_min is set",
        ),
        (
            "Pool",
            r#"{"name": "b", "priority_min": 5, "priority_max": 4}"#,
            "Pool b: priority_max: 4 is less than priority_min, which is 5",
        ),
        (
            "Pool",
            r#"{"name": "b", "queue_max_delay": "soon"}"#,
            "Pool b: queue_max_delay: expected a number and a unit",
        ),
        (
            "Pool",
            r#"{"name": "b", "state": "started"}"#,
            "Pool b: state: pool \"b\" has no range of priorities",
        ),
        (
            "Checkpoint",
            r#"{"name": "c", "at": "everywhere"}"#,
            "Checkpoint c: at: expected \"frontend NAME\"",
        ),
        (
            "Checkpoint",
            r#"{"name": "c", "at": "frontend api", "rate": "5/fortnight"}"#,
            "Checkpoint c: rate: ",
        ),
        (
            "Checkpoint",
            r#"{"name": "c", "at": "frontend api", "rate": "5/s", "concurrency": 5}"#,
            "Checkpoint c: concurrency: a checkpoint has rate or concurrency, not both; make a second one",
        ),
        (
            "Checkpoint",
            r#"{"name": "c", "at": "frontend api", "burst": 5}"#,
            "Checkpoint c: burst: expected none, because rate is not set",
        ),
        (
            "Checkpoint",
            r#"{"name": "c", "at": "frontend api", "rate": "5/s", "queue_max_len": 10000000000}"#,
            "Checkpoint c: queue_max_len: ",
        ),
        (
            "Checkpoint",
            r#"{"name": "c", "at": "pool nowhere"}"#,
            "Checkpoint c: at: there is no pool \"nowhere\"",
        ),
    ] {
        let generation = world.engine.snapshot().generation();
        let failed = world.insert(table, row).unwrap_err();
        assert!(failed.starts_with(error), "{row}:\n  {failed}\n  {error}");
        assert_eq!(world.engine.snapshot().generation(), generation, "{row}");
    }
    let cycle = r#"[
        {"op": "insert", "table": "Resource", "uuid-name": "a", "row": {"name": "a",
         "parents": ["named-uuid", "b"]}},
        {"op": "insert", "table": "Resource", "uuid-name": "b", "row": {"name": "b",
         "parents": ["named-uuid", "a"]}}]"#;
    let failed = world.transact(cycle).unwrap_err();
    assert!(failed.contains("cycle"), "{failed}");
    let left = world.database.store().rows(world.model.tables.resource).count();
    assert_eq!(left, 0, "nothing of it stays");
}

#[test]
fn a_restart_keeps_what_is_persistent_and_fills_the_rules_from_the_saved_ones() {
    let mut world = World::new();
    world
        .transact(
            r#"[{"op": "insert", "table": "Pool", "row": {"name": "kept", "persistent": true,
                 "priority_min": 1, "priority_max": 2, "state": "stopped"}},
                {"op": "insert", "table": "Pool", "row": {"name": "bare", "persistent": true}},
                {"op": "insert", "table": "Pool", "row": {"name": "transient"}},
                {"op": "insert", "table": "Pool", "row": {"name": "default", "threads_max": 3}},
                {"op": "insert", "table": "Resource", "row": {"name": "r"}},
                {"op": "insert", "table": "Checkpoint", "row": {"name": "c", "persistent": true,
                 "at": "frontend api"}},
                {"op": "insert", "table": "Rule", "row": {"number": 10, "action": "reject"}},
                {"op": "insert", "table": "Rule", "row": {"number": 20, "action": "raise 1"}},
                {"op": "insert", "table": "Saved_Rule", "row": {"number": 20, "action": "raise 2",
                 "log": true}},
                {"op": "insert", "table": "Saved_Rule", "row": {"number": 30, "criteria":
                 "user exact eva", "when": "user == \"eva\""}}]"#,
        )
        .unwrap();
    let mut uuids = UuidSource::from_number(2);
    let puts = world.model.restart(world.database.store(), &mut uuids);
    world.database.maintain(puts).unwrap();
    let config = world.model.config(world.database.store()).unwrap();
    let pools: Vec<_> = config.pools.list().iter().map(|p| (&*p.name, p.state)).collect();
    assert_eq!(
        pools,
        [
            (DEFAULT_NAME, PoolState::Started),
            ("kept", PoolState::Started),
            ("bare", PoolState::Stopped)
        ]
    );
    let default = config.pools.pool(DEFAULT_NAME).unwrap();
    assert_eq!(default.threads_max, Some(3), "a limit does not turn into none");
    assert_eq!(config.resources, []);
    assert_eq!(config.checkpoints.len(), 1);
    let rules: Vec<String> = config.rules.iter().map(ToString::to_string).collect();
    let expected =
        ["20 raise 2 continue log", "30 user exact eva when 'user == \"eva\"' nothing continue"];
    assert_eq!(rules, expected);
    let again = world.model.restart(world.database.store(), &mut uuids);
    assert!(again.is_empty(), "a second restart has nothing to do");
}
