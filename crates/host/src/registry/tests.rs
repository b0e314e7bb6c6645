//! What clients hold, in a daemon without doors.

use super::{Beginning, HeldSession, HoldLimits, Registry};
use crate::kept::tests::World as Runs;
use crate::{Host, Process};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A daemon and what its clients hold.
pub(super) struct World {
    runs: Runs,
    pub(super) registry: Arc<Registry>,
}

impl World {
    pub(super) fn new(name: &str) -> Self {
        let runs = Runs::new(&format!("registry-{name}"));
        let registry = registry(runs.host());
        Self { runs, registry }
    }

    pub(super) fn host(&self) -> &Arc<Host> {
        self.runs.host()
    }

    pub(super) fn runtime(&self) -> &tokio::runtime::Runtime {
        self.runs.runtime()
    }

    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime().block_on(future)
    }

    pub(super) fn written(&self) {
        self.runs.written();
    }

    /// Lets the tasks run that can.
    pub(super) fn settle(&self) {
        self.block_on(async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        });
    }

    /// A session with a lease that outlives the test.
    pub(super) fn session(&self) -> Arc<HeldSession> {
        self.begin(Some(Some(paceline_types::Span::from_secs(3_600))), None)
    }

    /// A session that lasts as long as a process.
    fn bound(&self, process: Process) -> Arc<HeldSession> {
        self.begin(None, Some(process))
    }

    fn begin(
        &self,
        lease: Option<Option<paceline_types::Span>>,
        process: Option<Process>,
    ) -> Arc<HeldSession> {
        let (name, user) = ("etl".to_owned(), "ann".to_owned());
        let begun = self.registry.begin_session(Beginning { name, user, lease, process });
        self.block_on(begun).unwrap().0
    }

    /// Kills the daemon and starts it again, up to where its doors would open.
    fn restart(&mut self) {
        self.runs.kill();
        self.registry = registry(self.runs.host());
        self.registry.take_over();
    }

    /// The names of sessions that have a row.
    fn rows(&self) -> Vec<String> {
        self.runs.session_rows()
    }
}

fn registry(host: &Arc<Host>) -> Arc<Registry> {
    let limits = HoldLimits { sessions_max: 10_000, expired_max: 10 };
    Registry::new(Arc::clone(host), Box::new(str::to_owned), limits)
}

/// P3: a process dies after its session was taken over and before the doors open. Nothing is given back until
/// then, and its row goes when they are open.
#[test]
fn what_ends_during_the_start_leaves_no_row_p3() {
    let mut world = World::new("start");
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let session = world.bound(Process::of(child.id()).unwrap());
    let name = session.name().to_owned();
    world.restart();
    child.kill().unwrap();
    child.wait().unwrap();
    // A daemon that watches the process already gets the time to see it die.
    let end = std::time::Instant::now() + std::time::Duration::from_millis(200);
    while std::time::Instant::now() < end && world.registry.counts().0 > 0 {
        std::thread::yield_now();
    }
    assert_eq!(world.rows(), [name], "a start that fails leaves everything as it was");
    world.host().open_for_service();
    world.registry.begin_service().unwrap();
    while world.registry.counts().0 > 0 {
        std::thread::yield_now();
    }
    world.written();
    assert_eq!(world.rows(), [""; 0]);
}

/// C4: to end a session whose process died, the daemon looks at that session and not at all others: four times
/// as many sessions take four times as many looks.
#[test]
fn bound_sessions_of_a_dead_process_end_in_linear_time_c4() {
    let looks = |count: usize| {
        let mut world = World::new(&format!("bound-{count}"));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        let names: Vec<String> =
            (0..count).map(|_| world.bound(process).name().to_owned()).collect();
        world.restart();
        child.kill().unwrap();
        child.wait().unwrap();
        world.host().open_for_service();
        HeldSession::LOOKS.set(0);
        names.iter().for_each(|name| world.registry.processes_ended(name));
        assert_eq!(world.registry.counts().0, 0);
        HeldSession::LOOKS.get()
    };
    let (few, many) = (looks(50), looks(200));
    assert!(few >= 50, "each session that ends is looked at: {few}");
    assert!(many <= 6 * few, "{few} looks for 50 sessions, {many} for 200");
}
