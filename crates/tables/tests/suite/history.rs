//! Undo and snapshots: undone transactions leave no trace, snapshots never change.

use crate::model::schema::{Base, Column, Kind, Limit, Schema, Table};
use crate::model::{Model, Tables};
use crate::random::Random;
use crate::world::{World, contents};
use paceline_tables::json::Json;
use paceline_tables::{Changes, Snapshot};
use std::sync::Arc;

/// A world with the changes that can still be undone and the snapshots taken on the way.
struct History {
    world: World,
    /// What changed, and the content before.
    done: Vec<(Arc<Changes>, Tables)>,
    snapshots: Vec<(Snapshot, Tables)>,
}

impl History {
    fn new(world: World) -> Self {
        Self { world, done: Vec::new(), snapshots: Vec::new() }
    }

    fn go_on(&mut self, random: &mut Random) {
        let before = self.world.model.tables.clone();
        if let Some(changes) = self.world.step(random) {
            self.done.push((changes, before));
        }
    }

    /// Undoes the latest `count` transactions, the newest first.
    fn undo(&mut self, count: usize) {
        for _ in 0..count {
            let Some((changes, before)) = self.done.pop() else { return };
            self.world.note("undo".to_owned());
            self.world.real.undo(&changes);
            self.world.model.tables = before;
            self.world.check_state();
        }
    }

    fn take_snapshot(&mut self) {
        let tables = self.world.model.tables.clone();
        self.world.note("snapshot".to_owned());
        self.snapshots.push((self.world.real.snapshot(), tables));
    }

    fn check_snapshots(&self) {
        let schema = self.world.schema();
        for (snapshot, tables) in &self.snapshots {
            assert_eq!(&contents(&schema, |table| snapshot.rows(table)), tables, "snapshot");
            for table in snapshot.schema().table_ids() {
                // A reader that stops after every row sees each row once.
                let (mut slot, mut count) = (0, 0);
                while let Some((at, _)) = snapshot.rows_from(table, slot).next() {
                    (slot, count) = (at + 1, count + 1);
                }
                assert_eq!(count, tables[table.index()].len());
            }
        }
    }

    fn live(&mut self, random: &mut Random, events: usize) {
        for _ in 0..events {
            match random.below(10) {
                0 => self.undo(random.between(1, 8)),
                1 => self.undo(1),
                2 => self.take_snapshot(),
                _ => self.go_on(random),
            }
        }
        self.check_snapshots();
        self.undo(usize::MAX);
        assert!(self.world.model.tables.iter().all(|rows| rows.is_empty()));
        for _ in 0..4 {
            self.go_on(random);
        }
        self.check_snapshots();
    }
}

#[test]
fn undo_and_snapshots_restore_and_keep_the_content() {
    for seed in 10_000..10_600 {
        let mut random = Random::new(seed);
        let mut history = History::new(World::new(seed, &mut random));
        history.live(&mut random, 30);
    }
}

/// A table that fills several chunks of slots, with an index, and rows that exist only while referred to.
fn large_schema() -> Schema {
    let column = |name: &str, key: Base, max: usize, min: usize| Column {
        key,
        min,
        max,
        mutable: true,
        ..Column::special(name)
    };
    let special = || vec![Column::special("_uuid"), Column::special("_version")];
    let to_child =
        Base { limit: Limit::Reference { table: 0, strong: true }, ..Base::plain(Kind::Uuid) };
    let to_parent =
        Base { limit: Limit::Reference { table: 1, strong: false }, ..Base::plain(Kind::Uuid) };
    let mut child = special();
    child.push(column("of", to_parent, usize::MAX, 0));
    let mut parent = special();
    parent.push(column("child", to_child, usize::MAX, 0));
    parent.push(column("number", Base::plain(Kind::Integer), 1, 1));
    let table = |name: &str, columns, root, indexes| Table {
        name: name.to_owned(),
        columns,
        max_rows: usize::MAX,
        root,
        indexes,
    };
    Schema {
        tables: vec![
            table("Child", child, false, vec![]),
            table("Parent", parent, true, vec![vec![3]]),
        ],
    }
}

/// Inserts `count` parents with one child each, numbered from `first`.
fn fill(world: &mut World, first: usize, count: usize) {
    let operations: Vec<String> = (first..first + count)
        .flat_map(|n| {
            [
                format!(r#"{{"op":"insert","table":"Child","uuid-name":"c{n}","row":{{"of":["named-uuid","p{n}"]}}}}"#),
                format!(
                    r#"{{"op":"insert","table":"Parent","uuid-name":"p{n}","row":{{"number":{n},"child":["named-uuid","c{n}"]}}}}"#
                ),
            ]
        })
        .collect();
    run(world, &format!("[{}]", operations.join(",")));
}

fn run(world: &mut World, text: &str) -> Option<Arc<Changes>> {
    let operations = paceline_tables::json::parse(text.as_bytes(), 100).unwrap();
    world.run(operations.as_array().unwrap(), false, None)
}

#[test]
fn large_tables_behave_like_small_ones() {
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let mut world = World::of(large_schema(), seed);
        for first in [0, 60, 120, 180, 240] {
            fill(&mut world, first + 1_000, 60);
        }
        let rows = |model: &Model| model.tables.iter().map(|rows| rows.len()).collect::<Vec<_>>();
        assert_eq!(rows(&world.model), [300, 300]);
        let mut history = History::new(world);
        history.take_snapshot();
        for text in [
            // Slots of deleted rows are reused.
            r#"[{"op":"delete","table":"Parent","where":[["number","<",1150]]}]"#,
            r#"[{"op":"mutate","table":"Parent","where":[],"mutations":[["number","+=",1]]}]"#,
            r#"[{"op":"mutate","table":"Parent","where":[["number",">",1290]],"mutations":[["number","*=",0]]}]"#,
        ] {
            let before = history.world.model.tables.clone();
            if let Some(changes) = run(&mut history.world, text) {
                history.done.push((changes, before));
            }
        }
        assert_eq!(rows(&history.world.model), [150, 150]);
        history.check_snapshots();
        history.undo(1);
        assert_eq!(rows(&history.world.model), [150, 150]);
        history.undo(1);
        assert_eq!(rows(&history.world.model), [300, 300]);
        for _ in 0..20 {
            history.go_on(&mut random);
        }
        history.check_snapshots();
    }
}

/// An empty transaction does nothing and reports no changes.
#[test]
fn empty_transaction() {
    let mut world = World::of(large_schema(), 0);
    assert!(world.run(&[] as &[Json], false, None).is_none());
}
