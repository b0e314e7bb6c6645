//! Databases in service on a disk that fails on demand, with clients that are only an outbox.

mod backlog;
mod calls;
mod held;
mod long;
mod monitors;
mod order;
mod repair;
mod secrets;
mod slow;
mod telling;
mod turns;
mod waiting;

use super::Hosted;
use crate::clock::Clock;
use crate::{Host, Outgoing, Peer, Policy, RealDisk, Reply, Session, System, Ticket, own};
use paceline_journal::disk::{Death, Faults, FaultyDisk};
use paceline_tables::json::{self, Json};
use paceline_tables::{Error, OpResult};
use paceline_types::Role;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A schema with one table of the user's own.
const SCHEMA: &str = r#"{"name": "Things", "version": "1.0.0", "tables": {"Thing": {"isRoot": true,
    "columns": {"name": {"type": "string"},
                "tags": {"type": {"key": "integer", "min": 0, "max": "unlimited"}}}}}}"#;

struct World {
    /// Runs only when a test drives it, so that tests decide the order of events.
    runtime: tokio::runtime::Runtime,
    host: Arc<Host>,
    disk: Arc<FaultyDisk>,
    own: Arc<Hosted>,
    directory: PathBuf,
}

impl World {
    fn new(name: &str) -> Self {
        Self::on(name, Clock::new())
    }

    fn on(name: &str, clock: Clock) -> Self {
        let name = format!("paceline-database-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let disk = Arc::new(FaultyDisk::new(Arc::new(RealDisk), Faults::default(), Death::Pretend));
        let system = System { clock, ..System::real(runtime.handle().clone(), disk.clone()) };
        let host = Host::on(system, Policy::default()).unwrap();
        host.open_own(&directory.join("paceline.db")).unwrap();
        let own = host.database(own::DATABASE).unwrap();
        Self { runtime, host, disk, own, directory }
    }

    /// Serves a database of the schema `text` as well.
    fn open(&self, text: &str) -> Arc<Hosted> {
        let path = self.directory.join("things.db");
        let schema = paceline_tables::schema::Schema::parse(&parse(text)).unwrap();
        drop(crate::create_file(self.disk.clone(), &path, &schema).unwrap());
        self.host.open(&path).unwrap()
    }

    fn client(&self, role: Role) -> Arc<Session> {
        self.host.begin_session(Some(role), |id| format!("test#{}", id.0))
    }

    /// A connection of `peer`.
    fn client_of(&self, peer: Peer, role: Role) -> Arc<Session> {
        self.host.begin_session_of(peer, Some(role), |id| format!("test#{}", id.0))
    }

    fn inject(&self, faults: &str) {
        self.disk.set(faults.parse().unwrap());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.disk.set(Faults::default());
        self.host.shut_down();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn parse(text: &str) -> Json {
    json::parse(text.as_bytes(), 128).unwrap()
}

fn operations(text: &str) -> Vec<Json> {
    parse(text).as_array().unwrap().to_vec()
}

fn ticket(text: &str) -> Ticket {
    Arc::from(text.as_bytes())
}

/// Leaves a transaction with `database`; nothing is flushed.
fn transact(database: &Arc<Hosted>, session: &Arc<Session>, id: &str, text: &str) {
    database.transact(session, [(ticket(id), operations(text))]);
}

/// The items on their way to a client, each as one word: `reply 1`, `update`, and so on.
fn received(session: &Session) -> Vec<String> {
    let word = |item: Outgoing| match item {
        Outgoing::Reply(ticket, _) => format!("reply {}", String::from_utf8_lossy(&ticket)),
        Outgoing::Update(_) => "update".to_owned(),
        other => format!("{other:?}"),
    };
    std::iter::from_fn(|| session.outbox.take()).map(word).collect()
}

/// The next item for a client. Another thread may be the committer, and leave the item after the caller's flush
/// returns.
fn next_item(session: &Session) -> Outgoing {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        if let Some(item) = session.outbox.take() {
            return item;
        }
        assert!(std::time::Instant::now() < deadline, "no answer");
        std::thread::yield_now();
    }
}

/// The error in the next answer to a client.
fn next_error(session: &Session) -> Option<Error> {
    let Outgoing::Reply(_, Reply::Results(results)) = next_item(session) else {
        panic!("not the results of a transaction");
    };
    results.into_iter().find_map(|result| match result {
        OpResult::Error(error) => Some(error),
        _ => None,
    })
}

/// Takes the committer's role, so that entries stay in the queue until [`publish`].
fn hold_back(database: &Hosted) {
    let mut head = database.head();
    assert!(!std::mem::replace(&mut head.committing, true), "somebody has the role");
}

fn publish(database: &Arc<Hosted>) {
    database.head().committing = false;
    database.flush_blocking();
}

/// Waits for the thread that rewrites the journal, while no task of the runtime runs.
fn until_rewritten(database: &Hosted) {
    while database.compacting.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}
