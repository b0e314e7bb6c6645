//! The running list of rules is the saved one after a restart, whatever happened to the rules of files before.

use super::owning::{SERVES, apply, named};
use super::{database, execute, json, transact};
use crate::{Document, How, save_rules};
use paceline_model::Model;
use paceline_tables::Database;
use paceline_tables::value::Datum;
use paceline_types::UuidSource;

const STARTS: How = How { starts: true, ..SERVES };

/// A rule of a file.
fn rule(number: usize, action: &str) -> String {
    format!("[[rule]]\nnumber = {number}\nmatch.task = 't{number}'\n{action}\n")
}

/// What the daemon does with the rows when it starts.
fn restart(database: &mut Database, uuids: &mut UuidSource) {
    let model = Model::new(database.schema().clone()).unwrap();
    let puts = model.restart(database.store(), uuids);
    database.maintain(puts).unwrap();
}

fn save(database: &mut Database) {
    let operations = save_rules(database.store());
    execute(database, &operations).unwrap();
}

/// The rules of a list in the order of their numbers, each with the values of these columns.
fn list(database: &Database, table: &str, columns: &[&str]) -> Vec<Vec<Datum>> {
    let id = database.schema().table_id(table).unwrap();
    let columns = columns.iter().map(|name| database.schema().table(id).column_id(name).unwrap());
    let columns: Vec<_> = columns.collect();
    let rows = database.store().rows(id);
    let mut rows: Vec<Vec<Datum>> =
        rows.map(|row| columns.iter().map(|id| row[id.index()].clone()).collect()).collect();
    rows.sort_by_key(|row| row[0].single().and_then(|number| number.as_integer()));
    rows
}

/// The numbers of the running and of the saved rules.
fn numbers(database: &Database) -> [Vec<String>; 2] {
    ["Rule", "Saved_Rule"].map(|table| super::applying::keys(database, table, "number"))
}

fn renumber(database: &mut Database, table: &str, from: usize, to: usize) {
    transact(database, &format!("[{}]", renumbering(table, from, to)));
}

fn renumbering(table: &str, from: usize, to: usize) -> String {
    format!(
        r#"{{"op": "update", "table": "{table}", "where": [["number", "==", {from}]], "row": {{"number": {to}}}}}"#
    )
}

const CLEAR: &str = r#"[{"op": "delete", "table": "Rule", "where": []}]"#;

/// A database with rules 10 and 20 of a file, of which 20 was renumbered to 25 and saved.
fn renumbered() -> (Database, String) {
    let text = [rule(10, "set = 12"), rule(20, "reject = true")].concat();
    let mut database = database();
    apply(&mut database, &named("a.toml", &text), SERVES);
    renumber(&mut database, "Rule", 20, 25);
    save(&mut database);
    (database, text)
}

#[test]
fn a_renumbered_and_saved_rule_of_a_file_is_back_after_a_restart() {
    let (mut database, text) = renumbered();
    transact(&mut database, CLEAR);
    for seed in 5..8 {
        restart(&mut database, &mut UuidSource::from_number(seed));
        let applied = apply(&mut database, &named("a.toml", &text), STARTS);
        assert_eq!((applied.changes.len(), applied.operations.len()), (0, 0), "start {seed}");
        assert_eq!(numbers(&database), [["10", "25"], ["10", "25"]], "start {seed}");
    }
}

/// The file inserts the rule that was cleared under its old number; the restart gives it the saved one.
#[test]
fn a_cleared_rule_that_its_file_changed_stays_in_force() {
    let (mut database, text) = renumbered();
    transact(&mut database, CLEAR);
    let text = text.replace("reject = true", "reject = true\nlog = true");
    apply(&mut database, &named("a.toml", &text), SERVES);
    assert_eq!(numbers(&database), [vec!["20"], vec!["10", "25"]]);
    restart(&mut database, &mut UuidSource::from_number(5));
    apply(&mut database, &named("a.toml", &text), STARTS);
    assert_eq!(numbers(&database), [["10", "25"], ["10", "25"]]);
    let running = list(&database, "Rule", &["number", "action", "log", "file"]);
    assert_eq!(running, list(&database, "Saved_Rule", &["number", "action", "log", "file"]));
}

/// Two rules swapped their numbers, were saved and cleared. If the file drops one, the other stays.
#[test]
fn a_rule_that_the_file_drops_takes_no_other_along() {
    let text = [rule(10, "set = 12"), rule(20, "reject = true")].concat();
    let mut database = database();
    apply(&mut database, &named("a.toml", &text), SERVES);
    for (from, to) in [(20, 99), (10, 20), (99, 10)] {
        renumber(&mut database, "Rule", from, to);
    }
    save(&mut database);
    transact(&mut database, CLEAR);
    restart(&mut database, &mut UuidSource::from_number(5));
    apply(&mut database, &named("a.toml", &text), STARTS);
    apply(&mut database, &named("a.toml", &rule(20, "reject = true")), SERVES);
    for table in ["Rule", "Saved_Rule"] {
        let left = list(&database, table, &["number", "action"]);
        assert_eq!(left, [[json_number(10), crate::document::text("reject")]], "{table}");
    }
}

/// A running rule of a file has no saved row until it is saved, which may be under another number.
#[test]
fn a_rule_that_was_saved_anew_stays_a_rule_of_its_file() {
    let text = rule(20, "reject = true");
    let mut database = database();
    apply(&mut database, &named("a.toml", &text), SERVES);
    transact(&mut database, r#"[{"op": "delete", "table": "Saved_Rule", "where": []}]"#);
    renumber(&mut database, "Rule", 20, 25);
    save(&mut database);
    let again = apply(&mut database, &named("a.toml", &text), SERVES);
    assert_eq!((again.changes.len(), numbers(&database)), (0, [["25"], ["25"]].map(strings)));
    restart(&mut database, &mut UuidSource::from_number(5));
    apply(&mut database, &named("a.toml", &text), STARTS);
    assert_eq!(numbers(&database), [["25"], ["25"]]);
}

fn strings(numbers: [&str; 1]) -> Vec<String> {
    numbers.map(str::to_owned).to_vec()
}

fn json_number(number: i64) -> Datum {
    Datum::One(paceline_tables::value::Atom::Integer(number))
}

/// The columns that both lists have.
const COLUMNS: [&str; 8] =
    ["number", "criteria", "action", "disabled", "log", "then", "when", "file"];

/// A database, the files that it is served with, and what they say.
struct World {
    database: Database,
    files: [Vec<(usize, usize)>; 2],
    /// Whether the files were applied as they are.
    is_applied: bool,
    random: UuidSource,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            database: database(),
            files: [vec![], vec![]],
            is_applied: false,
            random: UuidSource::from_number(seed),
        };
        world.edit_file();
        world.serve(SERVES);
        world
    }

    fn below(&mut self, n: usize) -> usize {
        (self.random.next_u64() % n as u64) as usize
    }

    /// One of few numbers, so that they meet.
    fn number(&mut self) -> usize {
        [10, 11, 20, 25, 30][self.below(5)]
    }

    fn document(&self) -> Document {
        let text = |file: &[(usize, usize)]| -> String {
            let each = file.iter().map(|(number, set)| rule(*number, &format!("set = {set}")));
            // A file without objects is one that was emptied, which is allowed.
            each.collect::<String>() + "# end\n"
        };
        let [a, b] = [("a.toml", 0), ("b.toml", 1)];
        let of = |(name, index): (&str, usize)| named(name, &text(&self.files[index]));
        Document::join(vec![of(a), of(b)]).unwrap()
    }

    /// Applies the files as the daemon does: not at all if there is a conflict.
    fn serve(&mut self, how: How) {
        let applied = self.document().apply(self.database.store(), how);
        self.is_applied = applied.conflicts.is_empty();
        if self.is_applied {
            execute(&mut self.database, &applied.operations).unwrap();
        }
    }

    /// Changes, adds or drops a rule of a file, or moves it to the other one.
    fn edit_file(&mut self) {
        let (number, file, set) = (self.number(), self.below(2), self.below(5));
        for rules in &mut self.files {
            rules.retain(|(own, _)| *own != number);
        }
        if self.below(4) > 0 {
            self.files[file].push((number, set));
        }
        self.is_applied = false;
    }

    /// Runs operations that may fail, such as on a number that is in use.
    fn try_transact(&mut self, operations: &str) {
        let parsed = json::parse(operations.as_bytes(), 128).unwrap();
        let _ = execute(&mut self.database, parsed.as_array().unwrap());
    }

    fn step(&mut self) -> String {
        let (one, other) = (self.number(), self.number());
        let table = if self.below(4) == 0 { "Saved_Rule" } else { "Rule" };
        let delete = format!(
            r#"[{{"op": "delete", "table": "{table}", "where": [["number", "==", {one}]]}}]"#
        );
        let insert = format!(
            r#"[{{"op": "insert", "table": "{table}", "row": {{"number": {one}, "action": "lower 1"}}}}]"#
        );
        let swaps = [(one, 99), (other, one), (99, other)];
        let swap = swaps.map(|(from, to)| renumbering(table, from, to)).join(", ");
        match self.below(9) {
            0 => self.try_transact(&delete),
            1 => self.try_transact(&insert),
            2 => self.try_transact(&format!("[{swap}]")),
            3 | 4 => self.try_transact(&format!("[{}]", renumbering(table, one, other))),
            5 => self.try_transact(CLEAR),
            6 => save(&mut self.database),
            7 => self.serve(SERVES),
            _ => {
                self.edit_file();
                self.serve(SERVES);
            }
        }
        format!("{table} {one} {other}: {:?}", numbers(&self.database))
    }

    fn list(&self, table: &str, columns: usize) -> Vec<Vec<Datum>> {
        list(&self.database, table, &COLUMNS[..columns])
    }

    /// A restart with the files as they are; what was said of the lists.
    fn restart(&mut self, story: &[String]) {
        let columns = COLUMNS.len();
        let saved = self.list("Saved_Rule", columns);
        let was_applied = self.is_applied;
        restart(&mut self.database, &mut self.random);
        assert_eq!(self.list("Rule", columns), saved, "before the files\n{story:#?}");
        self.serve(STARTS);
        let running = self.list("Rule", columns);
        assert_eq!(running, self.list("Saved_Rule", columns), "after the files\n{story:#?}");
        if was_applied && self.is_applied {
            // A file takes over a rule of its number that was made by hand, so the owner may be another.
            let without_file = |list: Vec<Vec<Datum>>| -> Vec<Vec<Datum>> {
                list.into_iter().map(|row| row[..columns - 1].to_vec()).collect()
            };
            assert_eq!(without_file(running), without_file(saved), "the same rules\n{story:#?}");
        }
        let again = self.document().apply(self.database.store(), SERVES);
        assert!(!self.is_applied || again.operations.is_empty(), "{again:?}\n{story:#?}");
    }
}

#[test]
fn the_running_rules_are_the_saved_ones_after_a_restart() {
    let (mut restarts, mut rules) = (0, 0);
    for seed in 0..400 {
        let mut world = World::new(seed);
        let mut story = vec![format!("seed {seed}")];
        for _ in 0..6 {
            for _ in 0..world.below(8) {
                let told = world.step();
                story.push(format!("{told} {:?} {}", world.files, world.is_applied));
            }
            world.restart(&story);
            story.push(format!("restart {:?} {}", numbers(&world.database), world.is_applied));
            restarts += 1;
            rules += world.list("Rule", 1).len();
        }
    }
    assert!(rules > restarts, "{rules} rules in {restarts} restarts");
}
