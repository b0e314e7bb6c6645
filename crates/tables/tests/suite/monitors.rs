//! Monitors: a client that replays its updates always has the content that it asked for.

use crate::generate::{Shape, condition_change, requests};
use crate::model::schema::Column;
use crate::model::value::Value;
use crate::model::{Clause, Tables};
use crate::random::Random;
use crate::world::{DEPTH, World};
use paceline_tables::json::{self, Json, Object};
use paceline_tables::monitor::{self, Dump, Monitor, Moving, Requests, Version, merge};
use paceline_tables::{Changes, RowChange};
use paceline_types::Uuid;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The same update, made row by row.
fn tell_in_pieces(watching: &Arc<Monitor>, world: &World, changes: &Changes) -> Option<Vec<u8>> {
    let schema = world.real.schema().clone();
    let watched = |change: &&RowChange| watching.table(change.table).is_some();
    let rows = changes.rows.iter().filter(watched).count();
    let mut telling = monitor::Telling::new(watching.clone(), schema, Arc::new(changes.clone()));
    let pieces = std::iter::from_fn(|| telling.go_on(1).then_some(())).count();
    assert!(pieces + 1 >= rows, "{rows} rows in {pieces} pieces");
    telling.into_text()
}

const KINDS: [&str; 4] = ["initial", "insert", "delete", "modify"];

/// One table of a monitor, from its requests.
struct Watched {
    table: usize,
    /// Each column with the kinds of change it is reported for.
    columns: Vec<(usize, [bool; 4])>,
    /// No clause means every row.
    clauses: Vec<Clause>,
    /// Kinds that some request selects, even one without columns.
    kinds: [bool; 4],
}

/// A client's copy of the rows: the columns it asked for.
type Replica = BTreeMap<usize, BTreeMap<Uuid, BTreeMap<usize, Value>>>;

struct Client {
    version: Version,
    requests: Json,
    monitor: Arc<Monitor>,
    watched: Vec<Watched>,
    replica: Replica,
    /// The rest of the initial content, while it is still being sent.
    dump: Option<(Dump, Vec<u8>)>,
    pending: Vec<Arc<Changes>>,
}

fn clauses(world: &World, table: usize, json: Option<&Json>) -> Vec<Clause> {
    let schema = &world.model.schema.tables[table];
    let list = json.and_then(Json::as_array).unwrap_or_default();
    list.iter().map(|clause| Clause::read(clause, schema, &mut |_| Uuid::ZERO).unwrap()).collect()
}

fn watch(world: &World, requests: &Json) -> Vec<Watched> {
    let mut all = Vec::new();
    for (name, list) in requests.as_object().unwrap().iter() {
        let table = world.model.schema.table(name).unwrap();
        let schema = &world.model.schema.tables[table];
        let mut watched =
            Watched { table, columns: Vec::new(), clauses: Vec::new(), kinds: [false; 4] };
        let mut every = false;
        for request in list.as_array().unwrap_or(std::slice::from_ref(list)) {
            let request = request.as_object().unwrap();
            let select = request.get("select").and_then(Json::as_object);
            let told =
                |kind: &str| select.and_then(|select| select.get(kind)) != Some(&Json::Bool(false));
            let kinds = KINDS.map(told);
            let columns: Vec<usize> = match request.get("columns").and_then(Json::as_array) {
                None => (1..schema.columns.len()).collect(),
                Some(names) => names
                    .iter()
                    .map(|name| schema.column(name.as_str().unwrap()).unwrap())
                    .collect(),
            };
            watched.columns.extend(columns.into_iter().map(|column| (column, kinds)));
            (0..4).for_each(|kind| watched.kinds[kind] |= kinds[kind]);
            let clauses = clauses(world, table, request.get("where"));
            every |= clauses.is_empty();
            watched.clauses.extend(clauses);
        }
        if every {
            watched.clauses.clear();
        }
        all.push(watched);
    }
    all
}

impl Watched {
    fn sees(&self, row: &[Value]) -> bool {
        self.clauses.is_empty() || self.clauses.iter().any(|clause| clause.holds(row))
    }

    fn view(&self, tables: &Tables) -> BTreeMap<Uuid, BTreeMap<usize, Value>> {
        let rows = tables[self.table].iter().filter(|(_, row)| self.sees(row));
        let project = |row: &[Value]| {
            self.columns.iter().map(|(column, _)| (*column, row[*column].clone())).collect()
        };
        rows.map(|(uuid, row)| (*uuid, project(row))).collect()
    }
}

/// The rows of a `<table-updates>` text, each as table, UUID and update.
fn rows_of(world: &World, text: &[u8]) -> Vec<(usize, Uuid, Object)> {
    let updates = json::parse(text, DEPTH).unwrap_or_else(|error| {
        panic!("{error} in {}", String::from_utf8_lossy(text));
    });
    let mut rows = Vec::new();
    for (name, updates) in updates.as_object().unwrap().iter() {
        let table = world.model.schema.table(name).unwrap();
        let updates = updates.as_object().unwrap();
        assert!(!updates.is_empty(), "a table without rows was told");
        for (uuid, update) in updates.iter() {
            rows.push((table, uuid.parse().unwrap(), update.as_object().unwrap().clone()));
        }
    }
    rows
}

/// The columns an update names, with their values or differences.
fn values<'a>(row: &'a Json, columns: &'a [Column]) -> impl Iterator<Item = (usize, Value)> + 'a {
    row.as_object().unwrap().iter().map(|(name, value)| {
        let at = columns.iter().position(|column| column.name == name).unwrap();
        (at, Value::read_any(value, &columns[at]))
    })
}

/// One row of an update, and what is needed to interpret it.
struct Telling<'a> {
    watched: &'a Watched,
    columns: &'a [Column],
    uuid: Uuid,
    initial: bool,
}

impl Telling<'_> {
    /// All columns of a row; an update may omit those that have their default.
    fn whole(&self, row: &Json) -> BTreeMap<usize, Value> {
        let told = self.watched.columns.iter().map(|(column, _)| *column);
        let mut fields: BTreeMap<usize, Value> =
            told.map(|at| (at, Value::default_of(&self.columns[at]))).collect();
        for (at, value) in values(row, self.columns) {
            assert!(fields.insert(at, value).is_some(), "column nobody asked for");
        }
        fields
    }

    /// RFC 7047 section 4.1.6: old and new rows.
    fn replay(&self, update: &Object, rows: &mut BTreeMap<Uuid, BTreeMap<usize, Value>>) {
        let uuid = self.uuid;
        assert!(update.iter().all(|(name, _)| name == "new" || name == "old"));
        match (update.get("old"), update.get("new")) {
            (None, Some(new)) => {
                assert_eq!(new.as_object().unwrap().len(), self.watched.columns.len());
                assert!(rows.insert(uuid, self.whole(new)).is_none(), "{uuid} came twice");
            }
            (Some(old), Some(new)) => {
                assert!(!self.initial);
                let row = rows.get_mut(&uuid).unwrap();
                let new = self.whole(new);
                let old: BTreeMap<usize, Value> = values(old, self.columns).collect();
                let changed = row.iter().filter(|(at, value)| new[at] != **value);
                let changed = changed.map(|(at, value)| (*at, value.clone()));
                assert_eq!(old, changed.collect(), "old values of {uuid}");
                *row = new;
            }
            (Some(old), None) => {
                assert!(!self.initial);
                assert_eq!(rows.remove(&uuid).unwrap(), self.whole(old), "deleted {uuid}");
            }
            (None, None) => panic!("{uuid} is told without a row"),
        }
    }

    /// The update2 notation: whole rows and differences.
    fn replay_difference(
        &self,
        update: &Object,
        rows: &mut BTreeMap<Uuid, BTreeMap<usize, Value>>,
    ) {
        let uuid = self.uuid;
        assert_eq!(update.len(), 1);
        let (word, told) = update.iter().next().unwrap();
        assert_eq!(word == "initial", self.initial);
        match word {
            "initial" | "insert" => {
                assert!(rows.insert(uuid, self.whole(told)).is_none(), "{uuid} came twice");
            }
            "modify" => {
                let row = rows.get_mut(&uuid).unwrap();
                for (at, by) in values(told, self.columns) {
                    let new = row[&at].patched(&by, &self.columns[at]);
                    assert_ne!(new, row[&at], "an unchanged column was told");
                    row.insert(at, new);
                }
            }
            "delete" => assert!(rows.remove(&uuid).is_some(), "{uuid} went twice"),
            other => panic!("no update: {other}"),
        }
    }
}

impl Client {
    fn attach(random: &mut Random, world: &mut World, shape: Shape) -> Self {
        let version = *random.pick(&[Version::V1, Version::V2, Version::V3]);
        random.calm = true;
        let requests = requests(random, &world.model, version != Version::V1, shape);
        world.note(format!("monitor {version:?} {}", requests.to_text()));
        let monitor = Requests::new(&requests).unwrap().parse(world.real.schema(), version);
        let monitor = Arc::new(monitor.unwrap());
        let watched = watch(world, &requests);
        let dump = Dump::new(monitor.clone(), world.real.snapshot());
        let replica = watched.iter().map(|watched| (watched.table, BTreeMap::new())).collect();
        let pending = Vec::new();
        let dump = Some((dump, Vec::new()));
        Self { version, requests, monitor, watched, replica, dump, pending }
    }

    /// Takes the next piece of the initial content, and all of it if `whole`.
    fn read_dump(&mut self, random: &mut Random, world: &World, whole: bool) {
        let Some((dump, text)) = &mut self.dump else { return };
        loop {
            let (start, least) = (text.len(), random.between(1, 300));
            let more = dump.write(least, text);
            assert!(!more || text.len() >= start + least, "a piece is too short");
            if !more {
                let text = std::mem::take(text);
                self.dump = None;
                self.apply(world, &text, true);
                return;
            }
            if !whole {
                return;
            }
        }
    }

    /// Replays the pending changes, one by one or as their net effect.
    fn catch_up(&mut self, world: &World, merged: bool) {
        let pending = std::mem::take(&mut self.pending);
        let pending: Vec<Changes> = if merged {
            let net = merge(pending.iter().map(|changes| &**changes));
            let place = |change: &RowChange| (change.table, change.uuid);
            assert!(net.rows.is_sorted_by(|a, b| place(a) < place(b)), "a row is told twice");
            let real = |change: &RowChange| change.old.is_some() || change.new.is_some();
            assert!(net.rows.iter().all(real), "a row that came and went is told");
            vec![net]
        } else {
            pending.iter().map(|changes| Changes::clone(changes)).collect()
        };
        for changes in &pending {
            let mut text = b"before".to_vec();
            let told = self.monitor.update(changes, world.real.schema(), &mut text);
            assert_eq!(told, text.len() > 6, "what is told and what is written must agree");
            let in_pieces = tell_in_pieces(&self.monitor, world, changes);
            assert_eq!(in_pieces.as_deref().unwrap_or_default(), &text[6..]);
            if told {
                self.apply(world, &text[6..], false);
            }
        }
    }

    fn change_condition(&mut self, random: &mut Random, world: &mut World) {
        let change = condition_change(random, &world.model, &self.requests);
        world.note(format!("condition change {}", change.to_text()));
        let to = self.monitor.with_conditions(&change, world.real.schema()).unwrap();
        let to = Arc::new(to);
        let (from, rows) = (self.monitor.clone(), world.real.snapshot());
        let mut moving = Moving::new(from, to.clone(), rows);
        let mut text = Vec::new();
        while moving.write(1, &mut text) {}
        assert_eq!(moving.has_begun(), !text.is_empty());
        if moving.has_begun() {
            self.apply(world, &text, false);
        }
        self.monitor = to;
        for (name, list) in change.as_object().unwrap().iter() {
            let table = world.model.schema.table(name).unwrap();
            let request = list.as_array().unwrap()[0].as_object().unwrap();
            let clauses = clauses(world, table, request.get("where"));
            self.watched.iter_mut().find(|w| w.table == table).unwrap().clauses = clauses;
        }
    }

    fn apply(&mut self, world: &World, text: &[u8], initial: bool) {
        for (table, uuid, update) in rows_of(world, text) {
            let columns = &world.model.schema.tables[table].columns;
            let watched = self.watched.iter().find(|watched| watched.table == table).unwrap();
            let rows = self.replica.get_mut(&table).unwrap();
            let telling = Telling { watched, columns, uuid, initial };
            if self.version == Version::V1 {
                telling.replay(&update, rows);
            } else {
                telling.replay_difference(&update, rows);
            }
        }
    }

    fn check(&self, world: &World) {
        for watched in &self.watched {
            assert_eq!(self.replica[&watched.table], watched.view(&world.model.tables), "replica");
        }
    }
}

#[test]
fn replaying_updates_gives_the_servers_content() {
    for seed in 20_000..21_000 {
        let mut random = Random::new(seed);
        let mut world = World::new(seed, &mut random);
        let mut clients: Vec<Client> = Vec::new();
        for _ in 0..25 {
            if clients.len() < 3 && random.chance(20) {
                clients.push(Client::attach(&mut random, &mut world, Shape::AllKinds));
            }
            let changes = world.step(&mut random);
            for client in &mut clients {
                client.pending.extend(changes.clone());
                client.read_dump(&mut random, &world, false);
                if client.dump.is_some() || random.chance(40) {
                    continue;
                }
                client.catch_up(&world, random.chance(50));
                client.check(&world);
                if client.version != Version::V1 && random.chance(25) {
                    client.change_condition(&mut random, &mut world);
                    client.check(&world);
                }
            }
        }
        for client in &mut clients {
            client.read_dump(&mut random, &world, true);
            client.catch_up(&world, random.chance(50));
            client.check(&world);
        }
    }
}

/// Checks that each kind of update contains only columns that select it; returns the kinds by row.
fn kinds_told(
    world: &World,
    client: &Client,
    text: &[u8],
    initial: bool,
) -> BTreeMap<(usize, Uuid), usize> {
    let mut told = BTreeMap::new();
    for (table, uuid, update) in rows_of(world, text) {
        let members: Vec<&str> = update.iter().map(|(name, _)| name).collect();
        let kind = match members.as_slice() {
            ["new"] | ["initial"] if initial => 0,
            ["new"] | ["insert"] => 1,
            ["old"] | ["delete"] => 2,
            _ => 3,
        };
        let watched = client.watched.iter().find(|watched| watched.table == table).unwrap();
        assert!(watched.kinds[kind], "{} was not selected", KINDS[kind]);
        for (_, row) in update.iter().filter(|(_, row)| **row != Json::Null) {
            for (at, _) in values(row, &world.model.schema.tables[table].columns) {
                let wants = watched.columns.iter().any(|(c, kinds)| *c == at && kinds[kind]);
                assert!(wants, "column {at} was told for {}", KINDS[kind]);
            }
        }
        told.insert((table, uuid), kind);
    }
    told
}

#[test]
fn kinds_that_were_not_selected_are_never_told() {
    for seed in 30_000..30_500 {
        let mut random = Random::new(seed);
        let mut world = World::new(seed, &mut random);
        (0..random.below(6)).for_each(|_| drop(world.step(&mut random)));
        let mut client = Client::attach(&mut random, &mut world, Shape::SomeKinds);
        let (mut dump, mut text) = client.dump.take().unwrap();
        while dump.write(random.between(1, 300), &mut text) {}
        let told = kinds_told(&world, &client, &text, true);
        for watched in &client.watched {
            for uuid in watched.view(&world.model.tables).keys() {
                assert_eq!(told.contains_key(&(watched.table, *uuid)), watched.kinds[0]);
            }
        }
        for _ in 0..15 {
            let before = world.model.tables.clone();
            let Some(changes) = world.step(&mut random) else { continue };
            let mut text = Vec::new();
            let told = if client.monitor.update(&changes, world.real.schema(), &mut text) {
                kinds_told(&world, &client, &text, false)
            } else {
                BTreeMap::new()
            };
            for watched in &client.watched {
                check_told(watched, &told, &before, &world.model.tables);
            }
        }
    }
}

/// Checks that every selected change is reported, and as the correct kind.
fn check_told(
    watched: &Watched,
    told: &BTreeMap<(usize, Uuid), usize>,
    before: &Tables,
    after: &Tables,
) {
    let (before, after) = (watched.view(before), watched.view(after));
    for uuid in before.keys().chain(after.keys()) {
        let got = told.get(&(watched.table, *uuid)).copied();
        let expected = match (before.get(uuid), after.get(uuid)) {
            (None, _) => watched.kinds[1].then_some(1),
            (_, None) => watched.kinds[2].then_some(2),
            (Some(old), Some(new)) => {
                let mut wanted = watched.columns.iter().filter(|(_, kinds)| kinds[3]);
                wanted.any(|(column, _)| old[column] != new[column]).then_some(3)
            }
        };
        assert_eq!(got, expected, "{uuid}");
    }
}
