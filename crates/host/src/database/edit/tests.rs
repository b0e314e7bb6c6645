//! The server's own edits are like those of clients, both for a client that waits for a change and for a file
//! that cannot be written.

use super::Author;
use crate::{Host, Hosted, Outgoing, Policy, RealDisk, Reply, Ticket, own};
use paceline_tables::json::{self, Json};
use paceline_tables::{Error, OpResult, tag};
use paceline_types::Role;
use std::path::PathBuf;
use std::sync::Arc;

const ADMIN: Author<'_> = Author { name: "test", role: Role::Admin };
const INSERT: &str = r#"[{"op": "insert", "table": "Rule", "row": {"number": 7}}]"#;

struct World {
    runtime: tokio::runtime::Runtime,
    host: Arc<Host>,
    database: Arc<Hosted>,
    directory: PathBuf,
}

impl World {
    fn new(name: &str) -> Self {
        let name = format!("paceline-edit-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let disk = Arc::new(RealDisk);
        let host = Host::new(runtime.handle().clone(), disk, Policy::default()).unwrap();
        host.open_own(&directory.join("paceline.db")).unwrap();
        let database = host.database(own::DATABASE).unwrap();
        Self { runtime, host, database, directory }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.host.shut_down();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn operations(text: &str) -> Vec<Json> {
    json::parse(text.as_bytes(), 128).unwrap().as_array().unwrap().to_vec()
}

#[test]
fn an_edit_lets_through_who_waits_for_it() {
    let world = World::new("waits");
    let session = world.host.begin_session(Some(Role::Viewer), |id| format!("test#{}", id.0));
    let wait = r#"[{"op": "wait", "timeout": 3600000, "table": "Rule", "where": [],
        "columns": ["number"], "until": "==", "rows": [{"number": 7}]}]"#;
    let ticket: Ticket = Arc::from(&b"0"[..]);
    world.database.transact(&session, [(ticket, operations(wait))]);
    world.database.flush();
    assert!(session.outbox.take().is_none(), "there is no such rule yet");
    world.database.edit(ADMIN, |_| operations(INSERT)).unwrap();
    let Some(Outgoing::Reply(_, Reply::Results(results))) = session.outbox.take() else {
        panic!("it still waits");
    };
    assert!(!results.iter().any(|result| matches!(result, OpResult::Error(_))), "{results:?}");
}

/// J4: an edit that a broken file cannot take is refused, and triggers the replacement of the file.
#[test]
fn an_edit_of_a_broken_file_is_refused_until_it_is_replaced_j4() {
    let world = World::new("broken");
    let edit = || world.database.edit(ADMIN, |_| operations(INSERT));
    world.database.head().broken = Some(Error::new(tag::IO, "torn"));
    assert_eq!(edit().unwrap_err().tag, tag::IO);
    let tried = world.database.try_edit(ADMIN, |_| operations(INSERT));
    assert_eq!(tried.unwrap_err().tag, tag::IO);
    // The replacement runs on another thread.
    while world.database.head().broken.is_some() {
        world.runtime.block_on(tokio::task::yield_now());
    }
    edit().unwrap();
    assert!(edit().is_err(), "the rule is there, once");
}

/// A long text takes a while to compare and to plan. Other edits continue meanwhile, and their changes are not
/// touched.
#[test]
fn others_edit_while_an_edit_is_only_tried() {
    let world = World::new("tried");
    let (sender, receiver) = std::sync::mpsc::channel();
    let database = Arc::clone(&world.database);
    let tried = world.database.try_edit(ADMIN, |_| {
        std::thread::spawn(move || {
            sender.send(database.edit(ADMIN, |_| operations(INSERT)).is_ok()).unwrap();
        });
        let patience = std::time::Duration::from_secs(30);
        assert_eq!(receiver.recv_timeout(patience), Ok(true), "another edit goes on meanwhile");
        operations(INSERT)
    });
    assert!(tried.is_ok(), "it is compared with the rows as they were");
    let again = world.database.try_edit(ADMIN, |_| operations(INSERT));
    assert!(again.is_err(), "the rule is there, once");
}
