//! What clients hold, in a daemon without doors.

use super::{
    AskError, Asking, Beginning, Chosen, HeldSession, HoldError, HoldLimits, Registry, Terms,
};
use crate::kept::tests::World as Runs;
use crate::{Host, Process};
use paceline_types::{Attributes, Claim, Mode, Request, Span, Time, Unknown};
use std::future::pending;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A daemon and what its clients hold.
pub(super) struct World {
    runs: Runs,
    pub(super) registry: Arc<Registry>,
    limits: HoldLimits,
}

impl World {
    pub(super) fn new(name: &str) -> Self {
        let limits = HoldLimits { sessions_max: 10_000, expired_max: 10, ..Default::default() };
        Self::with(name, limits)
    }

    fn with(name: &str, limits: HoldLimits) -> Self {
        let runs = Runs::new(&format!("registry-{name}"));
        let registry = registry(runs.host(), limits);
        Self { runs, registry, limits }
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

    /// Runs the tasks that are ready.
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
        let (name, user) = ("etl".to_owned(), "root".to_owned());
        let begun =
            self.registry.begin_session(Beginning { name, user, is_owner: true, lease, process });
        self.block_on(begun).unwrap().0
    }

    /// Kills the daemon and starts it again, up to the point where its doors would open.
    fn restart(&mut self) {
        self.runs.kill();
        self.registry = registry(self.runs.host(), self.limits);
        self.registry.take_over().unwrap();
    }

    /// The names of sessions that have a row.
    fn rows(&self) -> Vec<String> {
        self.runs.session_rows()
    }
}

fn registry(host: &Arc<Host>, limits: HoldLimits) -> Arc<Registry> {
    Registry::new(Arc::clone(host), Box::new(str::to_owned), limits)
}

/// P3: a process dies after its session was taken over and before the doors open. Nothing is released until
/// then, and its row is deleted when they are open.
#[test]
fn what_ends_during_the_start_leaves_no_row_p3() {
    let mut world = World::new("start");
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let session = world.bound(Process::of(child.id()).unwrap());
    let name = session.name().to_owned();
    world.restart();
    child.kill().unwrap();
    child.wait().unwrap();
    // A daemon that watches the process already gets the time to notice its death.
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

/// C4: to end a session whose process died, the daemon looks only at that session: four times as many sessions
/// take four times as many looks.
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

/// A request for one claim, which is created if necessary.
fn claiming(resource: &str, wait: Span) -> Request {
    let mut request = Request::new(Attributes::new());
    request.claims = vec![Claim { resource: resource.into(), mode: Mode::Exclusive }];
    (request.unknown, request.wait_max) = (Unknown::Create, Some(wait));
    request
}

fn terms(session: Option<&Arc<HeldSession>>, locks_of: Option<&Arc<HeldSession>>) -> Terms {
    let lease = session.is_none().then(|| Span::from_secs(60));
    let (session, locks_of) = (session.cloned(), locks_of.cloned());
    let user = "ann".to_owned();
    Terms { session, locks_of, lease, user, is_owner: false, place: None, asker: None }
}

/// J5: a client that repeats a release gets the answer that it is not on disk, until it is.
#[test]
fn what_is_given_back_again_is_told_when_it_is_on_disk_j5() {
    let world = World::new("again");
    world.host().open_for_service();
    let own = terms(None, None);
    let asked = world.registry.ask(claiming("a", Span::ZERO), &own, None);
    let permit = world.block_on(asked).unwrap().name;
    let session = world.session();
    world.block_on(world.registry.lock(&session, "l", Asking::Steal, None, pending())).unwrap();
    world.runs.inject("full-after=0");
    for _ in 0..2 {
        assert_eq!(world.block_on(world.registry.settle(&permit)), Some(false));
        assert!(!world.block_on(world.registry.unlock(&session, "l")).unwrap());
    }
    assert_eq!(world.block_on(world.registry.give_up_session(&session.key)), Some(false));
    assert_eq!(world.block_on(world.registry.give_up_session(&session.key)), Some(false));
    world.runs.inject("");
    // The next attempt follows after a pause.
    while world.block_on(world.registry.settle(&permit)) == Some(false) {}
    assert_eq!(world.block_on(world.registry.settle(&permit)), None, "it is on disk");
    assert_eq!(world.block_on(world.registry.give_up_session(&session.key)), None);
    assert_eq!(world.block_on(world.registry.settle("other")), None);
}

/// L1: a steal that cannot be written reports that, and the thief owns the lock.
#[test]
fn a_steal_on_a_full_disk_is_done_and_says_that_it_is_not_written_l1() {
    let world = World::new("steal");
    world.host().open_for_service();
    let (ann, bob) = (world.session(), world.session());
    let lock = |session: &Arc<HeldSession>| {
        let session = Arc::clone(session);
        let registry = Arc::clone(&world.registry);
        world.block_on(async move {
            registry.lock(&session, "l", Asking::Steal, None, pending()).await.unwrap()
        })
    };
    assert_eq!(lock(&ann), (1, true));
    world.runs.inject("full-after=0");
    assert_eq!(lock(&bob), (2, false));
    let locking = world.host().locking();
    assert_eq!(locking.fencing(ann.session.id, "l"), None);
    assert_eq!(locking.fencing(bob.session.id, "l"), Some(2));
    world.runs.inject("");
}

/// P4: a request that requires the locks of one session and belongs to another ends with either.
#[test]
fn a_request_that_waits_ends_with_the_session_it_belongs_to_p4() {
    let world = World::new("locks-of");
    world.host().open_for_service();
    let (outer, inner) = (world.session(), world.session());
    let own = terms(None, None);
    let holds = world.registry.ask(claiming("a", Span::ZERO), &own, None);
    world.block_on(holds).unwrap();
    let mut request = claiming("a", Span::from_secs(3_600));
    request.session = Some(outer.session.id);
    let terms = terms(Some(&inner), Some(&outer));
    let asked = world.registry.ask(request, &terms, None);
    let ends = async {
        world.registry.give_up_session(&inner.key).await;
        // Gives every listener its turn.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    };
    let asked = world.block_on(async {
        tokio::select! {
            biased;
            asked = asked => Some(asked),
            () = ends => None,
        }
    });
    let Some(asked) = asked else { panic!("it waits on for a session that is over") };
    assert!(matches!(asked, Err(AskError::Hold(HoldError::SessionEnded))), "{asked:?}");
    assert!(world.host().control().list(paceline_types::RequestId(0), 9).len() == 1);
}

/// D1: one user has a quarter of the sessions at most, and sessions that are being begun count. The kernel
/// identifies root: a token that an admin gave root's name has the share of any other user.
#[test]
fn one_user_leaves_sessions_to_others_d1() {
    let world = World::new("share");
    world.host().open_for_service();
    let limits = HoldLimits { sessions_max: 8, expired_max: 10, ..Default::default() };
    let registry = Registry::new(Arc::clone(world.host()), Box::new(str::to_owned), limits);
    let begin = |user: &str, is_owner: bool| {
        let (name, user, lease) = (user.to_owned(), user.to_owned(), Some(None));
        registry.begin_session(Beginning { name, user, is_owner, lease, process: None })
    };
    for user in ["ann", "root"] {
        let begin = || begin(user, false);
        let both = world.block_on(async { tokio::join!(begin(), begin(), begin()) });
        assert!(both.0.is_ok() && both.1.is_ok());
        assert!(matches!(both.2, Err(HoldError::TooMany("sessions of one user", 2))));
        let key = both.0.unwrap().0.key.clone();
        world.block_on(registry.give_up_session(&key));
        assert!(world.block_on(begin()).is_ok(), "one of its places is free again");
    }
    for _ in 0..4 {
        assert!(world.block_on(begin("root", true)).is_ok());
    }
    assert!(matches!(world.block_on(begin("root", true)), Err(HoldError::TooMany("sessions", 8))));
}

/// D1: the bytes that the permits of one user carry are bounded for that user, also over a restart, so that
/// others and root get permits. A repeated request under a chosen name is answered: its permit exists already.
#[test]
fn one_user_leaves_room_for_permits_to_others_d1() {
    let limits = HoldLimits { bytes_max: 40_000, ..Default::default() };
    let mut world = World::with("permits", limits);
    world.host().open_for_service();
    let name = |number: usize| Chosen { name: format!("x{number}"), digest: [0; 32] };
    let ask = |world: &World, number: usize, user: &str, is_owner: bool| {
        let terms = Terms { user: user.to_owned(), is_owner, ..terms(None, None) };
        let mut attributes = Attributes::new();
        attributes.set("text", &"x".repeat(2_700)).unwrap();
        let request = Request { attributes, ..Request::new(Attributes::new()) };
        world.block_on(world.registry.ask_by_name(request, &terms, &name(number), None))
    };
    let full = |asked: Result<_, AskError>| match asked {
        Err(AskError::Hold(HoldError::TooMany(what, max))) => (what.contains("one user"), max),
        Ok(_) => panic!("there is no room"),
        Err(error) => panic!("{error:?}"),
    };
    for user in ["ann", "root"] {
        let first = world.registry.counts().1;
        for number in first..first + 3 {
            ask(&world, number, user, false).unwrap();
        }
        assert_eq!(full(ask(&world, 100, user, false)), (true, 10_000));
        assert!(!ask(&world, first, user, false).unwrap().1, "it is held already");
    }
    world.restart();
    world.host().open_for_service();
    assert_eq!(full(ask(&world, 100, "ann", false)), (true, 10_000));
    for (number, user) in [(6, "ben"), (7, "ben"), (8, "ben"), (9, "cid"), (10, "cid")] {
        ask(&world, number, user, false).unwrap();
    }
    assert_eq!(full(ask(&world, 100, "cid", false)), (false, 36_000));
    ask(&world, 11, "root", true).unwrap();
    world.block_on(world.registry.settle("x0"));
    ask(&world, 0, "ann", false).unwrap();
}

/// D1: the locks of all sessions of one user, owned and waited for, are bounded together, also over a restart,
/// so that others and root get theirs. A lock that is refused, released or ends with its session stops
/// counting.
#[test]
fn one_user_leaves_room_for_locks_to_others_d1() {
    let one = paceline_locks::cost("lock00");
    let limits = HoldLimits { lock_bytes_max: 20 * one, ..Default::default() };
    let mut world = World::with("locks", limits);
    world.host().open_for_service();
    let begin = |world: &World, user: &str, is_owner: bool| {
        let lease = Some(Some(Span::from_secs(3_600)));
        let (name, user) = (user.to_owned(), user.to_owned());
        let beginning = Beginning { name, user, is_owner, lease, process: None };
        world.block_on(world.registry.begin_session(beginning)).unwrap().0
    };
    let lock = |world: &World, session: &HeldSession, number: usize| {
        let (name, wait) = (format!("lock{number:02}"), Asking::Wait(Span::ZERO, None));
        let asked = world.registry.lock(session, &name, wait, None, pending());
        match world.block_on(asked) {
            Ok(_) => Ok(()),
            Err(HoldError::TooMany(what, max)) => Err((what.contains("one user's"), max / one)),
            Err(error) => panic!("{error:?}"),
        }
    };
    let full = Err((true, 5));
    let [first, second] = ["ann"; 2].map(|user| begin(&world, user, false));
    for _ in 0..3 {
        for number in 0..3 {
            assert_eq!(lock(&world, &first, number), Ok(()));
        }
        for number in [3, 4] {
            assert_eq!(lock(&world, &second, number), Ok(()));
        }
        assert_eq!(lock(&world, &first, 90), full);
        assert_eq!(lock(&world, &second, 90), full);
        // A waiter counts until it has left the line.
        world.block_on(world.registry.unlock(&second, "lock04")).unwrap();
        for _ in 0..3 {
            let wait = Asking::Wait(Span::ZERO, None);
            let asked = world.registry.lock(&second, "lock00", wait, None, pending());
            assert!(matches!(world.block_on(asked), Err(HoldError::Taken { .. })));
        }
        second.standings.operate(crate::LockOperation::Lock, "lock00").unwrap();
        assert_eq!(lock(&world, &first, 90), full);
        for (session, number) in [(&second, 3), (&second, 0), (&first, 0), (&first, 1), (&first, 2)]
        {
            let name = format!("lock{number:02}");
            world.block_on(world.registry.unlock(session, &name)).unwrap();
        }
    }
    (0..3).for_each(|number| lock(&world, &first, number).unwrap());
    (3..5).for_each(|number| lock(&world, &second, number).unwrap());
    let keys = [&first, &second].map(|session| session.key.clone());
    world.restart();
    world.host().open_for_service();
    let third = begin(&world, "ann", false);
    assert_eq!(lock(&world, &third, 90), full);
    for (user, numbers) in [("ben", 5..10), ("cid", 10..15), ("dee", 15..18)] {
        let session = begin(&world, user, false);
        numbers.for_each(|number| assert_eq!(lock(&world, &session, number), Ok(())));
        let all = if user == "dee" { Err((false, 18)) } else { full };
        assert_eq!(lock(&world, &session, 90), all);
    }
    // A token may have root's name, and is not root.
    assert_eq!(lock(&world, &begin(&world, "root", false), 90), Err((false, 18)));
    let root = begin(&world, "root", true);
    (18..20).for_each(|number| assert_eq!(lock(&world, &root, number), Ok(())));
    assert_eq!(lock(&world, &root, 90), Err((false, 20)));
    world.block_on(world.registry.give_up_session(&keys[0]));
    world.registry.end_session(&keys[1]);
    (0..5).for_each(|number| lock(&world, &third, number).unwrap());
    assert_eq!(lock(&world, &third, 90), full);
}

/// P2: a permit ends with the lease of its session, and a later renewal reports that it expired.
#[test]
fn a_late_renewal_of_a_permit_hears_that_its_session_expired_p2() {
    let world = World::new("late");
    world.host().open_for_service();
    let session = world.session();
    let terms = terms(Some(&session), None);
    let asked = world.registry.ask(Request::new(Attributes::new()), &terms, None);
    let permit = world.block_on(asked).unwrap().name;
    assert!(world.registry.renew_permit(&permit).is_ok());
    // The lease expires now.
    {
        let mut state = world.registry.state();
        let lease = state.sessions.get(&session.key).unwrap().lease.unwrap();
        let leased = state.leases.end(lease).unwrap();
        state.leases.begin(Time(0), Span::ZERO, leased);
    }
    world.registry.end_due();
    assert_eq!(world.registry.counts(), (0, 0));
    let late = world.registry.renew_permit(&permit);
    assert!(matches!(late, Err(HoldError::PermitExpired)), "{late:?}");
    assert!(matches!(world.registry.renew_permit("p-99"), Err(HoldError::NoPermit)));
}

/// D1: claims and the permit itself take memory even if their names are short, also after a restart.
#[test]
fn what_a_permit_takes_beside_its_names_counts_d1() {
    const BYTES_MAX: usize = 4_000_000;
    let limits = HoldLimits { bytes_max: BYTES_MAX, ..Default::default() };
    let mut world = World::with("bookkeeping", limits);
    world.host().open_for_service();
    let ask = |world: &World| {
        let mut request = Request::new(Attributes::new());
        let claim =
            |number: usize| Claim { resource: number.to_string().into(), mode: Mode::Shared };
        (request.claims, request.unknown) = ((0..256).map(claim).collect(), Unknown::Create);
        match world.block_on(world.registry.ask(request, &terms(None, None), None)) {
            Ok(_) => true,
            Err(AskError::Hold(HoldError::TooMany(..))) => false,
            Err(error) => panic!("{error:?}"),
        }
    };
    let mut count = 0;
    while ask(&world) {
        count += 1;
        assert!(count * 256 * 300 < BYTES_MAX / 4, "{count} permits of 256 claims");
    }
    world.restart();
    world.host().open_for_service();
    assert!(!ask(&world), "they are held, and count");
}
