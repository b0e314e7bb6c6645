//! Objects have owners, and a file that is applied again changes only what changed in it.

use super::{database, execute, read, transact};
use crate::{Applied, Document, How, Others, export_of};
use paceline_tables::Database;

const POOLS: &str = "[[pool]]\nname = 'a'\npriority = [1, 9]\nthreads.max = 8\n\
                     [[pool]]\nname = 'b'\npriority = [11, 19]\n";
const RULES: &str = "[[rule]]\nmatch.user = 'eva'\nlower = 5\n[[rule]]\nraise = 1\n";

pub(super) const SERVES: How = How { reset: false, take_over: false, starts: false, serves: true };

pub(super) fn named(name: &str, text: &str) -> Document {
    read(text).named(name)
}

pub(super) fn apply(database: &mut Database, document: &Document, how: How) -> Applied {
    let applied = document.apply(database.store(), how);
    assert_eq!(applied.conflicts, []);
    execute(database, &applied.operations).unwrap();
    applied
}

/// The changes, with `!` before those that were made otherwise and stay.
pub(super) fn told(applied: &Applied) -> Vec<String> {
    let line = |sign: &str, change: &crate::Change| {
        let is_update = change.op == crate::ChangeOp::Update;
        let members = if is_update { change.members().join(" ") } else { String::new() };
        let line = format!("{sign}{:?} {} {} {members}", change.op, change.kind(), change.row);
        line.trim_end().to_owned()
    };
    let changes = applied.told().map(|change| line("", change));
    changes.chain(applied.drifted().map(|change| line("!", change))).collect()
}

pub(super) fn names(database: &Database, table: &str) -> Vec<String> {
    super::applying::keys(database, table, "name")
}

fn stop(database: &mut Database, pool: &str) {
    let stop = format!(
        r#"[{{"op": "update", "table": "Pool", "where": [["name", "==", "{pool}"]], "row": {{"state": "stopped"}}}}]"#
    );
    transact(database, &stop);
}

#[test]
fn what_was_edited_otherwise_stays_until_the_file_speaks_of_it_anew() {
    let mut database = database();
    let text = format!("{POOLS}{RULES}");
    apply(&mut database, &named("a.toml", &text), How::default());
    stop(&mut database, "a");
    transact(
        &mut database,
        r#"[{"op": "delete", "table": "Rule", "where": []},
        {"op": "update", "table": "Pool", "where": [["name", "==", "b"]], "row": {"threads_max": 3}}]"#,
    );
    let drift =
        ["!Update pool a started", "!Update pool b threads", "!Delete rule 10", "!Delete rule 20"];
    let again = apply(&mut database, &named("a.toml", &text), How::default());
    assert_eq!((again.operations.len(), told(&again)), (0, drift.map(str::to_owned).to_vec()));

    // Another key of the same objects is changed alone; the new value in the file counts.
    let text = text.replace("max = 8", "max = 4").replace("raise = 1", "raise = 2");
    let applied = apply(&mut database, &named("a.toml", &text), How::default());
    assert_eq!(
        told(&applied),
        [
            "Update pool a threads",
            "Update saved-rule 20 action",
            "Insert rule 20",
            "!Update pool a started",
            "!Update pool b threads",
            "!Delete rule 10"
        ]
    );
    let applied =
        apply(&mut database, &named("a.toml", &text), How { reset: true, ..How::default() });
    assert_eq!(
        told(&applied),
        ["Update pool a started", "Update pool b threads", "Insert rule 10"]
    );
    assert_eq!(apply(&mut database, &named("a.toml", &text), How::default()).operations, []);
}

/// A restart starts pools and deletes transient objects, so then the file's settings count.
#[test]
fn what_does_not_survive_a_restart_is_as_the_file_says() {
    let text = format!(
        "{POOLS}started = false\n[[resource]]\nname = 'r'\npersistent = false\n\
         [[backend]]\nname = 'app'\npersistent = false\nservers = [{{ address = '127.0.0.1:1' }}]\n"
    );
    let mut database = database();
    apply(&mut database, &named("a.toml", &text), SERVES);
    let model = paceline_model::Model::new(database.schema().clone()).unwrap();
    let puts = model.restart(database.store(), &mut paceline_types::UuidSource::from_number(5));
    database.maintain(puts).unwrap();
    transact(
        &mut database,
        r#"[{"op": "update", "table": "Pool", "where": [], "row": {"threads_max": 2}}]"#,
    );
    let starts = How { starts: true, ..SERVES };
    let applied = apply(&mut database, &named("a.toml", &text), starts);
    let expected = [
        "Update pool b started",
        "Insert backend app",
        "Insert server app/127.0.0.1:1",
        "Insert resource r",
        "!Update pool a threads",
        "!Update pool b threads",
    ];
    assert_eq!(told(&applied), expected);
}

#[test]
fn an_object_belongs_to_the_file_that_made_it() {
    let mut database = database();
    let (a, b) =
        ("[[pool]]\nname = 'a'\n started = false\n", "[[pool]]\nname = 'b'\nstarted = false\n");
    apply(&mut database, &named("a.toml", a), How::default());
    apply(&mut database, &named("b.toml", b), How::default());
    assert_eq!(names(&database, "Pool"), ["a", "b"], "neither deletes what the other made");
    assert_eq!(export_of(&database.snapshot(), "a.toml").matches("name =").count(), 1);

    let both = named("b.toml", &format!("{b}{a}"));
    let rules = "[[rule]]\nraise = 1\n";
    apply(&mut database, &named("r.toml", rules), How::default());
    let refused = named("s.toml", rules).apply(database.store(), How::default());
    assert_eq!(refused.conflicts.len(), 1, "once, though it is in two lists");
    apply(&mut database, &named("r.toml", "# nothing"), How::default());
    let refused = both.apply(database.store(), How::default());
    let [conflict] = &refused.conflicts[..] else { panic!("{refused:?}") };
    assert_eq!(conflict.to_string(), "4:1: pool `a` belongs to the file a.toml");
    apply(&mut database, &both, How { take_over: true, ..How::default() });
    let gone = apply(&mut database, &named("a.toml", "# nothing"), How::default());
    assert_eq!((told(&gone), names(&database, "File")), (vec![], vec!["b.toml".to_owned()]));
    assert_eq!(names(&database, "Pool"), ["a", "b"]);
    let gone = apply(&mut database, &named("b.toml", "# nothing"), How::default());
    assert_eq!((gone.deletions(), names(&database, "Pool").len()), (2, 0));
}

#[test]
fn files_that_are_given_together_are_one_configuration() {
    let mut database = database();
    let backend = "[[backend]]\nname = 'app'\nservers = [{ address = '127.0.0.1:1' }]\n";
    let frontend = "[[frontend]]\nname = 'web'\nlisten = '127.0.0.1:0'\nbackend = 'app'\n";
    let joined = |a: &str, b: &str| Document::join(vec![named("a.toml", a), named("b.toml", b)]);
    let document = joined(backend, frontend).unwrap();
    assert_eq!(document.check(), Ok(vec![]));
    apply(&mut database, &document, SERVES);

    // An object that moves from one file to the other only changes its owner, and keeps its changes.
    let moved = joined("# nothing", &format!("{backend}{frontend}")).unwrap();
    let applied = apply(&mut database, &moved, SERVES);
    assert_eq!(told(&applied), ["Update backend app", "Update server app/127.0.0.1:1"]);
    assert!(applied.changes.iter().all(crate::Change::is_taken_over));

    // The objects of a file that is no longer given are deleted; those of a file applied otherwise stay.
    apply(&mut database, &named("c.toml", POOLS), How::default());
    let applied = apply(&mut database, &named("a.toml", backend), SERVES);
    assert_eq!(told(&applied)[0], "Delete frontend web");
    assert_eq!(names(&database, "File"), ["a.toml", "c.toml"]);

    let twice = joined(POOLS, RULES).and(joined(POOLS, POOLS)).unwrap_err();
    assert_eq!(twice[0].to_string(), "1:1: pool `a` is in a.toml already, on line 1");
    assert_eq!(twice[0].file, 1);
}

#[test]
fn a_file_may_name_what_another_made() {
    let mut database = database();
    apply(
        &mut database,
        &named("a.toml", &format!("{POOLS}[[resource]]\nname = 'disk'\n")),
        How::default(),
    );
    let text = "[[rule]]\nnumber = 7\nwhen = 'waiting(\"a\") > 5'\nreject = true\n\
                [[resource]]\nname = 'part'\nparents = ['disk']\n\
                [[checkpoint]]\nname = 'c'\nat = 'pool a'\ncount = true\n";
    let b = named("b.toml", text);
    // The resource, and the pool of a rule and of a checkpoint.
    assert_eq!(b.check().unwrap_err().len(), 3, "alone it names what is not there");
    assert_eq!(b.check_beside(&Others::besides(&b, &database.snapshot())), Ok(vec![]));
    apply(&mut database, &b, How::default());
    // A backend that a frontend of another file uses counts as used.
    let backend = "[[backend]]\nname = 'app'\nservers = [{ address = '127.0.0.1:1' }]\n";
    let frontend = "[[frontend]]\nname = 'web'\nlisten = '127.0.0.1:0'\nbackend = 'app'\n";
    apply(&mut database, &named("d.toml", backend), How::default());
    apply(&mut database, &named("c.toml", frontend), How::default());
    let alone = named("d.toml", backend);
    assert_eq!(alone.check().unwrap().len(), 1, "no frontend uses it");
    assert_eq!(alone.check_beside(&Others::besides(&alone, &database.snapshot())), Ok(vec![]));
    let itself = named("a.toml", "[[checkpoint]]\nname = 'd'\nat = 'pool a'\ncount = true\n");
    let others = Others::besides(&itself, &database.snapshot());
    assert_eq!(itself.check_beside(&others).unwrap_err().len(), 1, "its own pool would go");
}
