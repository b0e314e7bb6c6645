//! An object of a file that was renamed stays the object of the file.

use super::owning::{apply, named, names, told};
use super::{database, transact};
use crate::{ChangeOp, Document, How, export_of};
use paceline_tables::Database;

const FILE: &str = "[[checkpoint]]\nname = 'limit'\nat = 'frontend api'\nconcurrency = 3\n";
const RESET: How = How { reset: true, take_over: false, starts: false, serves: false };

fn rename(database: &mut Database, table: &str, from: &str, to: &str) {
    transact(
        database,
        &format!(
            r#"[{{"op": "update", "table": "{table}", "where": [["name", "==", "{from}"]], "row": {{"name": "{to}"}}}}]"#
        ),
    );
}

fn applied() -> Database {
    let mut database = database();
    apply(&mut database, &named("a.toml", FILE), How::default());
    database
}

/// Otherwise an operator, who may not delete persistent objects, could have the next reload do it.
#[test]
fn a_renamed_object_is_drift_and_stays() {
    let mut database = applied();
    rename(&mut database, "Checkpoint", "limit", "few");
    let again = apply(&mut database, &named("a.toml", FILE), How::default());
    assert_eq!(told(&again), ["!Update checkpoint limit name"]);
    assert_eq!(again.drift[0].renamed.as_deref(), Some("few"));
    assert_eq!((again.operations.len(), names(&database, "Checkpoint")), (0, vec!["few".into()]));
    assert!(export_of(&database.snapshot(), "a.toml").contains("name = \"few\""));

    // A change in the file changes the renamed row.
    let changed = FILE.replace("= 3", "= 4");
    let applied = apply(&mut database, &named("a.toml", &changed), How::default());
    assert_eq!(
        told(&applied),
        ["Update checkpoint limit concurrency", "!Update checkpoint limit name"]
    );
    assert_eq!(names(&database, "Checkpoint"), ["few"]);

    let reset = apply(&mut database, &named("a.toml", &changed), RESET);
    assert_eq!(told(&reset), ["Update checkpoint limit name"]);
    assert_eq!(names(&database, "Checkpoint"), ["limit"]);
    assert_eq!(apply(&mut database, &named("a.toml", &changed), How::default()).operations, []);
}

#[test]
fn a_renamed_object_that_the_file_drops_is_deleted() {
    let mut database = applied();
    rename(&mut database, "Checkpoint", "limit", "few");
    let gone = apply(&mut database, &named("a.toml", "# nothing"), How::default());
    assert_eq!(told(&gone), ["Delete checkpoint few"]);
    assert_eq!(names(&database, "Checkpoint"), [""; 0]);
}

#[test]
fn a_file_that_follows_a_new_name_keeps_the_row() {
    let mut database = applied();
    rename(&mut database, "Checkpoint", "limit", "few");
    let exported = export_of(&database.snapshot(), "a.toml");
    let followed = apply(&mut database, &named("a.toml", &exported), How::default());
    assert_eq!(followed.changes, [], "only what the file said is noted");
    let again = apply(&mut database, &named("a.toml", &exported), How::default());
    assert_eq!((&*again.operations, &*again.drift), (&[][..], &[][..]));
}

#[test]
fn objects_that_were_renamed_into_each_other_stay_and_get_their_names_back() {
    let text = format!("{FILE}{}", FILE.replace("limit", "other").replace("= 3", "= 9"));
    let mut database = database();
    apply(&mut database, &named("a.toml", &text), How::default());
    for (from, to) in [("limit", "x"), ("other", "limit"), ("x", "other")] {
        rename(&mut database, "Checkpoint", from, to);
    }
    let again = apply(&mut database, &named("a.toml", &text), How::default());
    assert_eq!(told(&again), ["!Update checkpoint limit name", "!Update checkpoint other name"]);
    let reset = apply(&mut database, &named("a.toml", &text), RESET);
    assert!(reset.changes.iter().all(|change| change.op == ChangeOp::Update));
    assert_eq!(apply(&mut database, &named("a.toml", &text), How::default()).drift, []);
}

#[test]
fn a_name_that_another_object_took_is_told_when_it_is_needed() {
    let mut database = applied();
    let other = FILE.replace("limit", "hot");
    apply(&mut database, &named("b.toml", &other), How::default());
    rename(&mut database, "Checkpoint", "limit", "few");
    rename(&mut database, "Checkpoint", "hot", "limit");
    // Nothing in the file changed, so there is no conflict.
    let again = apply(&mut database, &named("a.toml", FILE), How::default());
    assert_eq!(told(&again), ["!Update checkpoint limit name"]);
    let refused = named("a.toml", FILE).apply(database.store(), RESET);
    assert_eq!(
        refused.conflicts[0].to_string(),
        "1:1: checkpoint `limit` was renamed to `few`, and another checkpoint is called `limit` now"
    );

    // A new object of the file cannot have the current name of another object of the file.
    let more = format!("{FILE}{}", FILE.replace("limit", "few"));
    let refused = named("a.toml", &more).apply(database.store(), How::default());
    assert_eq!(
        refused.conflicts[0].to_string(),
        "5:1: checkpoint `limit` was renamed to `few`, which this checkpoint is called too"
    );
}

/// An unchanged file can be applied alone as well as with the others that are served.
#[test]
fn a_deleted_object_whose_name_another_file_has_now_is_drift() {
    let resources = |names: &[&str]| -> String {
        names.iter().map(|name| format!("[[resource]]\nname = '{name}'\n")).collect()
    };
    let (a, b) = (named("a.toml", &resources(&["x"])), resources(&["d", "e"]));
    let mut database = database();
    apply(&mut database, &a, How::default());
    apply(&mut database, &named("b.toml", &b), How::default());
    transact(
        &mut database,
        r#"[{"op": "delete", "table": "Resource", "where": [["name", "==", "d"]]}]"#,
    );
    rename(&mut database, "Resource", "x", "d");
    let both = Document::join(vec![a, named("b.toml", &b)]).unwrap();
    for document in [both, named("b.toml", &b)] {
        let again = apply(&mut database, &document, How::default());
        assert!(told(&again).contains(&"!Delete resource d".to_owned()), "{again:?}");
        assert_eq!((again.operations.len(), names(&database, "Resource").len()), (0, 2));
    }

    // A change of the object in the file asks for an object of that name, and so do the flags.
    let changed = format!("{b}[[resource]]\nname = 'k'\nparents = ['d']\n");
    let changed = changed.replacen("'d'\n", "'d'\nparents = ['e']\n", 1);
    for (text, how) in [(&changed, How::default()), (&b, RESET)] {
        let refused = named("b.toml", text).apply(database.store(), how);
        assert_eq!(
            refused.conflicts[0].to_string(),
            "1:1: resource `d` belongs to the file a.toml"
        );
    }
    let taken = How { take_over: true, ..How::default() };
    let taken = apply(&mut database, &named("b.toml", &b), taken);
    assert!(taken.changes.iter().all(crate::Change::is_taken_over), "{taken:?}");
}

/// An object that was taken over is not drift: its row exists, and belongs to the other file.
#[test]
fn an_object_that_another_file_took_over_is_still_a_conflict() {
    let mut database = applied();
    let taken = How { take_over: true, ..How::default() };
    apply(&mut database, &named("b.toml", FILE), taken);
    let refused = named("a.toml", FILE).apply(database.store(), How::default());
    assert_eq!(
        refused.conflicts[0].to_string(),
        "1:1: checkpoint `limit` belongs to the file b.toml"
    );
}

#[test]
fn servers_and_children_follow_what_they_belong_to() {
    let text = "[[backend]]\nname = 'app'\nservers = [{ address = '127.0.0.1:1' }]\n\
                [[resource]]\nname = 'r'\n[[resource]]\nname = 'kid'\nparents = ['r']\n";
    let mut database = database();
    apply(&mut database, &named("a.toml", text), How::default());
    transact(
        &mut database,
        r#"[{"op": "update", "table": "Backend", "where": [], "row": {"name": "app2"}},
            {"op": "update", "table": "Server", "where": [], "row": {"backend": "app2"}}]"#,
    );
    rename(&mut database, "Resource", "r", "r2");
    let drift = ["!Update backend app name", "!Update resource r name"];
    let again = apply(&mut database, &named("a.toml", text), How::default());
    assert_eq!((again.operations.len(), told(&again)), (0, drift.map(str::to_owned).to_vec()));

    let more = text.replace(" }]", " }, { address = '127.0.0.1:2' }]");
    let added = apply(&mut database, &named("a.toml", &more), How::default());
    assert_eq!(told(&added)[0], "Insert server app/127.0.0.1:2");
    assert_eq!(super::applying::keys(&database, "Server", "backend"), ["app2", "app2"]);
    apply(&mut database, &named("a.toml", &more), RESET);
    assert_eq!(super::applying::keys(&database, "Server", "backend"), ["app", "app"]);
    let again = apply(&mut database, &named("a.toml", &more), How::default());
    assert_eq!((&*again.operations, &*again.drift), (&[][..], &[][..]));
}

/// A restart deletes it, so the file creates it again, with the name in the file.
#[test]
fn a_transient_object_that_was_renamed_is_made_again_at_a_start() {
    let text = format!("{FILE}persistent = false\n");
    let mut database = database();
    apply(&mut database, &named("a.toml", &text), How::default());
    rename(&mut database, "Checkpoint", "limit", "few");
    let model = paceline_model::Model::new(database.schema().clone()).unwrap();
    let puts = model.restart(database.store(), &mut paceline_types::UuidSource::from_number(5));
    database.maintain(puts).unwrap();
    let applied = apply(&mut database, &named("a.toml", &text), How::default());
    assert_eq!(told(&applied), ["Insert checkpoint limit"]);
}
