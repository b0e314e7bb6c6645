//! What is held survives a restart of the daemon, and what was released does not.

mod added;
mod counted;
mod numbered;
mod waited;

use super::KeptSession;
use crate::{
    Admission, Author, Host, LockError, LockOperation, Outgoing, Permit, Policy, Process, RealDisk,
    Reply, Terms,
};
use paceline_journal::disk::{Death, Faults, FaultyDisk};
use paceline_tables::{Error, json};
use paceline_types::{Attributes, Claim, Mode, Request, RequestId, Role, Span, Unknown};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A daemon without doors. Its directory is removed when it is dropped.
pub(crate) struct World {
    directory: PathBuf,
    runs: Vec<(tokio::runtime::Runtime, Arc<Host>)>,
    /// Fails on demand.
    disk: Arc<FaultyDisk>,
}

impl World {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("paceline-kept-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let disk = FaultyDisk::new(Arc::new(RealDisk), Faults::default(), Death::Pretend);
        let mut world = Self { directory, runs: vec![], disk: Arc::new(disk) };
        world.start(&world.directory.clone());
        world.host().open_for_service();
        world
    }

    fn start(&mut self, directory: &Path) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let disk = self.disk.clone();
        let host = Host::new(runtime.handle().clone(), disk, Policy::default()).unwrap();
        host.open_own(&directory.join("paceline.db")).unwrap();
        self.runs.push((runtime, host));
    }

    /// Makes the disk fail like this from now on.
    pub(crate) fn inject(&self, faults: &str) {
        self.disk.set(faults.parse().unwrap());
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.runs.last().unwrap().1
    }

    pub(crate) fn runtime(&self) -> &tokio::runtime::Runtime {
        &self.runs.last().unwrap().0
    }

    /// Begins the next run with what is on disk now, as if this one had been killed. It uses a copy, because a
    /// process cannot open a file twice. What this run holds is not released.
    pub(crate) fn kill(&mut self) {
        let copy = self.directory.join(self.runs.len().to_string());
        std::fs::create_dir(&copy).unwrap();
        let from = match self.runs.len() {
            1 => self.directory.clone(),
            count => self.directory.join((count - 1).to_string()),
        };
        for file in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            let name = file.file_name();
            if file.file_type().unwrap().is_file() && !name.to_string_lossy().contains('~') {
                std::fs::copy(file.path(), copy.join(name)).unwrap();
            }
        }
        self.start(&copy);
    }

    pub(crate) fn written(&self) {
        let (runtime, host) = self.runs.last().unwrap();
        runtime.block_on(host.keeper().unwrap().written()).unwrap();
    }

    /// The names of sessions that have a row.
    pub(crate) fn session_rows(&self) -> Vec<String> {
        let own = &self.host().keeper().unwrap().own;
        let rows = own.own_rows(crate::own::SESSION_TABLE, KeptSession::read);
        rows.into_iter().map(|session| session.name).collect()
    }

    fn admit(&self, request: Request, terms: Terms) -> Permit {
        match self.host().control().admit_kept(request, terms).unwrap() {
            Admission::Started(permit) => permit,
            other => panic!("{other:?}"),
        }
    }

    fn edit(&self, operations: &str) {
        self.try_edit(operations).unwrap();
    }

    fn try_edit(&self, operations: &str) -> Result<(), Error> {
        let operations = json::parse(operations.as_bytes(), 100).unwrap();
        let operations = operations.as_array().unwrap().to_vec();
        let author = Author { name: "test", role: Role::Admin };
        let database = self.host().database("Paceline").unwrap();
        database.edit(author, |_| operations)
    }

    /// Restores the permits of the last run. Returns what each of them claims, by the number of its request.
    fn restore(&self) -> BTreeMap<u64, Vec<(String, Mode)>> {
        let keeper = self.host().keeper().unwrap();
        let mut claims = BTreeMap::new();
        for permit in keeper.take_over().unwrap().permits {
            let claimed = keeper.own.claims_of(&permit);
            let mut claimed: Vec<(String, Mode)> =
                claimed.into_iter().map(|claim| (claim.resource.into(), claim.mode)).collect();
            claimed.sort();
            claims.insert(permit.number.0, claimed);
            std::mem::forget(keeper.restore_permit(&permit, None));
        }
        self.host().open_for_service();
        claims
    }

    /// Restores the only permit of the last run, in this session.
    fn restore_one(&self, session: paceline_types::SessionId) -> Permit {
        let keeper = self.host().keeper().unwrap();
        let permits = keeper.take_over().unwrap().permits;
        let [permit] = &permits[..] else { panic!("{} permits", permits.len()) };
        keeper.restore_permit(permit, Some(session))
    }

    /// Whether a claim would have to wait now.
    fn is_taken(&self, resource: &str) -> bool {
        match self.host().control().admit(claiming(&[(resource, Mode::Exclusive)])).unwrap() {
            Admission::Started(_) => false,
            Admission::Waiting(_) => true,
            Admission::Refused(_, refusal) => panic!("{refusal:?}"),
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.runs.clear();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn claiming(claims: &[(&str, Mode)]) -> Request {
    let mut request = Request::new(Attributes::new());
    let claim =
        |(resource, mode): &(&str, Mode)| Claim { resource: (*resource).into(), mode: *mode };
    request.claims = claims.iter().map(claim).collect();
    request
}

fn leased() -> Terms {
    Terms { user: "ann".into(), lease: Some(Span::from_secs(5)), ..Terms::default() }
}

fn session(
    host: &Host,
    lease: Option<Span>,
    processes: Vec<Process>,
) -> (Arc<crate::Session>, KeptSession) {
    let session = host.begin_session(Some(Role::Client), |id| format!("etl#{}", id.0));
    let kept = KeptSession {
        name: session.name.clone(),
        number: session.id,
        user: "ann".into(),
        salt: "salt".into(),
        lease,
        processes,
    };
    session.keep_locks(kept.is_long());
    host.keeper().unwrap().keep_session(kept.clone());
    (session, kept)
}

#[test]
fn what_is_held_comes_back_as_it_was_p3() {
    let mut world = World::new("back");
    let alive = Process::of(std::process::id()).unwrap();
    let dead = Process::parse("4000000@1").unwrap();
    let host = Arc::clone(world.host());
    let (_, lasting) = session(&host, Some(Span::from_secs(30)), vec![]);
    let (_, bound) = session(&host, None, vec![alive]);
    let (_, orphan) = session(&host, None, vec![dead]);
    let mut request = claiming(&[("b", Mode::Shared), ("a", Mode::Shared), ("b", Mode::Exclusive)]);
    for (name, value) in [("user", "ann"), ("header.x-user", "ümlaut"), ("text", "")] {
        request.attributes.set(name, value).unwrap();
    }
    (request.cost, request.unknown) = (3, Unknown::Create);
    let of = |session: &KeptSession| Terms { session: session.name.clone(), ..Terms::default() };
    let chosen = Terms { name: "night".into(), digest: "00ff".into(), ..leased() };
    let held = [
        world.admit(request, chosen),
        world.admit(Request::new(Attributes::new()), of(&lasting)),
        world.admit(Request::new(Attributes::new()), of(&orphan)),
    ];
    world.admit(Request::new(Attributes::new()), leased()).settle();
    drop(world.admit(Request::new(Attributes::new()), leased()));
    world.admit(Request::new(Attributes::new()), leased()).withdraw();
    world.written();
    // As if the process had been killed.
    let ids = held.each_ref().map(Permit::id);
    std::mem::forget(held);
    world.kill();

    let keeper = world.host().keeper().unwrap();
    assert_eq!(keeper.closed_for(), std::time::Duration::ZERO, "the machine did not die");
    let taken = keeper.take_over().unwrap();
    assert_eq!(taken.sessions, [lasting.clone(), bound], "c4: one whose process is dead is over");
    let [first, second] = &taken.permits[..] else { panic!("{:?}", taken.permits) };
    assert_eq!((first.number, second.number), (ids[0], ids[1]));
    assert_eq!((first.name.as_str(), second.name.clone()), ("night", format!("p-{}", ids[1].0)));
    assert_eq!((first.digest.as_str(), first.user.as_str()), ("00ff", "ann"));
    assert_eq!((first.lease, second.session.as_str()), (Some(Span::from_secs(5)), &*lasting.name));
    let attributes: BTreeMap<&str, &str> = first.request.attributes.iter().collect();
    assert_eq!(attributes["header.x-user"], "ümlaut");
    assert_eq!((first.request.cost, first.request.unknown), (3, Unknown::Create));
    assert_eq!(first.names, [("a".into(), Mode::Shared), ("b".into(), Mode::Exclusive)]);
    drop(host);
}

#[test]
fn locks_of_sessions_that_outlive_the_daemon_are_kept_as_they_are_owned_l5() {
    use crate::LockOperation::{Lock, Steal, Unlock};
    let mut world = World::new("locks");
    let host = Arc::clone(world.host());
    let (ann, _) = session(&host, Some(Span::from_secs(30)), vec![]);
    let (bob, _) = session(&host, Some(Span::from_secs(30)), vec![]);
    let guest = host.begin_session(Some(Role::Admin), |_| "guest".into());
    let runtime = world.runs[0].0.handle().clone();
    let _entered = runtime.enter();
    for (who, operation, name) in [
        (&ann, Lock, "leader"),
        (&bob, Lock, "leader"),
        (&ann, Lock, "given-back"),
        (&ann, Unlock, "given-back"),
        (&bob, Lock, "stolen"),
        (&guest, Steal, "stolen"),
        (&guest, Lock, "regained"),
        (&bob, Steal, "regained"),
        (&guest, Lock, "guests"),
        (&bob, Lock, "guests"),
        (&bob, Unlock, "guests"),
        (&ann, Lock, "handed-over"),
        (&bob, Lock, "handed-over"),
        (&ann, Unlock, "handed-over"),
    ] {
        host.locking().operate_for_client(who, (*b"t").into(), operation, name).unwrap();
    }
    let fencing = |who: &crate::Session, name| host.locking().fencing(who.id, name).unwrap();
    let expected = [
        ("handed-over", bob.name.clone(), fencing(&bob, "handed-over")),
        ("leader", ann.name.clone(), fencing(&ann, "leader")),
        ("regained", bob.name.clone(), fencing(&bob, "regained")),
    ];
    world.written();
    world.kill();
    let locks = world.host().keeper().unwrap().take_over().unwrap().locks;
    let mut locks: Vec<_> =
        locks.iter().map(|lock| (&*lock.name, lock.session.clone(), lock.fencing)).collect();
    locks.sort_unstable();
    assert_eq!(locks, expected);
}

/// A thief that is robbed before its own steal is written receives both notices in order; and the session that
/// it robbed is notified before the thief is (L4).
#[test]
fn the_reply_to_a_steal_comes_before_the_next_theft_l4() {
    use crate::LockOperation::{Lock, Steal};
    let world = World::new("steals");
    let host = Arc::clone(world.host());
    let (ann, _) = session(&host, Some(Span::from_secs(30)), vec![]);
    let thief = host.begin_session(Some(Role::Admin), |_| "thief".into());
    let next = host.begin_session(Some(Role::Admin), |_| "next".into());
    let runtime = world.runs[0].0.handle().clone();
    let entered = runtime.enter();
    let word = |who: &crate::Session| match who.outbox.take() {
        Some(Outgoing::Reply(_, Reply::Lock(answer))) => format!("{answer:?}"),
        Some(Outgoing::Lock(notice)) => notice.change.word().to_owned(),
        other => format!("{other:?}"),
    };
    for (who, operation) in [(&ann, Lock), (&thief, Steal), (&next, Steal)] {
        host.locking().operate_for_client(who, (*b"t").into(), operation, "leader").unwrap();
    }
    // No task has run yet, so the thief's reply is held back, and later items stay behind it.
    assert_eq!(word(&thief), "None");
    assert_eq!([word(&ann), word(&ann)], ["Locked", "stolen"]);
    drop(entered);
    let (runtime, _) = &world.runs[0];
    runtime.block_on(async {
        let taken = std::future::poll_fn(|context| {
            match thief.outbox.register(context.waker(), crate::Interest::Items) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        });
        taken.await;
    });
    assert_eq!([word(&thief), word(&thief)], ["Locked", "stolen"]);
}

/// Resources are renamed and moved while claims on them are held, waited for and granted: after a restart the
/// same claims are taken as before.
#[test]
fn claims_follow_the_resources_c1_p3() {
    let mut world = World::new("follow");
    world.edit(
        r#"[{"op": "insert", "table": "Resource", "uuid-name": "p",
             "row": {"name": "parent", "persistent": true}},
            {"op": "insert", "table": "Resource",
             "row": {"name": "child", "parents": ["named-uuid", "p"], "persistent": true}},
            {"op": "insert", "table": "Resource", "row": {"name": "a", "persistent": true}},
            {"op": "insert", "table": "Resource", "row": {"name": "gone", "persistent": true}}]"#,
    );
    let parent = world.admit(claiming(&[("parent", Mode::Exclusive)]), leased());
    let first = world.admit(claiming(&[("a", Mode::Exclusive)]), leased());
    let gone = world.admit(claiming(&[("gone", Mode::Exclusive)]), leased());
    let control = Arc::clone(world.host().control());
    let waiting = control.admit_kept(claiming(&[("a", Mode::Exclusive)]), leased()).unwrap();
    let Admission::Waiting(waiting) = waiting else { panic!("{waiting:?}") };
    world.edit(
        r#"[{"op": "update", "table": "Resource", "where": [["name", "==", "child"]],
             "row": {"parents": ["set", []]}},
            {"op": "update", "table": "Resource", "where": [["name", "==", "a"]],
             "row": {"name": "b"}},
            {"op": "delete", "table": "Resource", "where": [["name", "==", "gone"]]}]"#,
    );
    first.settle();
    let second = world.runs[0].0.block_on(waiting).unwrap().unwrap();
    world.written();
    let (parent_id, second_id, gone_id) = (parent.id().0, second.id().0, gone.id().0);
    std::mem::forget((parent, second, gone));
    world.kill();
    let exclusive = |names: &[&str]| -> Vec<(String, Mode)> {
        names.iter().map(|name| ((*name).to_owned(), Mode::Exclusive)).collect()
    };
    let expected = BTreeMap::from([
        (parent_id, exclusive(&["child", "parent"])),
        (second_id, exclusive(&["b"])),
        (gone_id, exclusive(&["gone"])),
    ]);
    assert_eq!(world.restore(), expected);
    assert!(["parent", "child", "b"].iter().all(|name| world.is_taken(name)));
    // The name of a deleted resource is given to another resource.
    world.edit(
        r#"[{"op": "insert", "table": "Resource", "row": {"name": "gone", "persistent": true}}]"#,
    );
    assert!(world.is_taken("gone"));
    world.kill();
    assert_eq!(world.restore(), expected, "a second restart");
    assert!(world.is_taken("gone"));
}

/// C1, P3: transient resources are deleted at the start. A holder of one, directly or in the sub-tree of its
/// parent, still holds it until it is released, even if it is created again elsewhere in the tree.
#[test]
fn transient_resources_that_are_held_are_held_after_a_restart_c1_p3() {
    let mut world = World::new("transient");
    world.edit(
        r#"[{"op": "insert", "table": "Resource", "uuid-name": "p",
             "row": {"name": "parent", "persistent": true}},
            {"op": "insert", "table": "Resource", "row": {"name": "other", "persistent": true}},
            {"op": "insert", "table": "Resource",
             "row": {"name": "child", "parents": ["named-uuid", "p"], "persistent": false}},
            {"op": "insert", "table": "Resource", "row": {"name": "own", "persistent": false}}]"#,
    );
    let parent = world.admit(claiming(&[("parent", Mode::Exclusive)]), leased());
    let own = world.admit(claiming(&[("own", Mode::Shared)]), leased());
    world.written();
    let expected = BTreeMap::from([
        (parent.id().0, ["child", "parent"].map(|name| (name.into(), Mode::Exclusive)).to_vec()),
        (own.id().0, vec![("own".into(), Mode::Shared)]),
    ]);
    std::mem::forget((parent, own));
    world.kill();
    let taken = |world: &World| {
        let admit = |name: &str| world.host().control().admit(claiming_new(name)).unwrap();
        ["parent", "child", "own", "other"].map(|name| matches!(admit(name), Admission::Waiting(_)))
    };
    assert_eq!(world.restore(), expected);
    assert_eq!(taken(&world), [true, true, true, false]);
    world.edit(
        r#"[{"op": "insert", "table": "Resource", "row": {"name": "own", "persistent": true}},
            {"op": "delete", "table": "Resource", "where": [["name", "==", "other"]]},
            {"op": "insert", "table": "Resource", "uuid-name": "o",
             "row": {"name": "other", "persistent": true}},
            {"op": "insert", "table": "Resource",
             "row": {"name": "child", "parents": ["named-uuid", "o"], "persistent": false}}]"#,
    );
    assert_eq!(taken(&world), [true; 4], "the child is below other now");
    world.written();
    world.kill();
    assert_eq!(world.restore(), expected, "a second restart");
    assert_eq!(taken(&world), [true, true, true, false], "other has no child any more");
}

/// An unreadable row may be held by a client: the error names it, and nothing is taken over.
#[test]
fn a_row_that_cannot_be_read_is_named_r2() {
    let world = World::new("unreadable");
    let held = world.admit(Request::new(Attributes::new()), leased());
    world.written();
    let own = &world.host().keeper().unwrap().own;
    let read = own.all_own_rows(crate::own::PERMIT_TABLE, |_, _| None::<()>);
    let error = read.unwrap_err();
    assert!(
        error.starts_with("the row ") && error.contains(" of Permit cannot be read"),
        "{error}"
    );
    drop(held);
}

/// Names are reused at once, by permits that are granted before the last one of that name is deleted.
#[test]
fn a_name_that_is_used_again_keeps_its_row_p3() {
    let mut world = World::new("names");
    let chosen = || Terms { name: "x".into(), ..leased() };
    let mut last = RequestId(0);
    let mut before: Option<Permit> = None;
    for _ in 0..20 {
        let permit = world.admit(Request::new(Attributes::new()), chosen());
        last = permit.id();
        before.replace(permit).into_iter().for_each(Permit::settle);
    }
    world.written();
    std::mem::forget(before);
    world.kill();
    let permits = world.host().keeper().unwrap().take_over().unwrap().permits;
    assert_eq!(permits.iter().map(|permit| permit.number).collect::<Vec<_>>(), [last]);
}

#[test]
fn an_orderly_end_keeps_what_is_held_and_closes_nothing_p3() {
    let mut world = World::new("orderly");
    let held = world.admit(Request::new(Attributes::new()), leased());
    let given_back = world.admit(Request::new(Attributes::new()), leased());
    let id = held.id();
    world.written();
    world.host().retire();
    drop(held);
    given_back.settle();
    world.host().shut_down();
    world.kill();
    let permits = world.host().keeper().unwrap().take_over().unwrap().permits;
    assert_eq!(permits.iter().map(|permit| permit.number).collect::<Vec<_>>(), [id]);
    let machine = world.host().database("Paceline").unwrap().own_text("Daemon", "machine");
    assert_eq!(machine.as_deref(), Some(""));
}

/// A client that waits when the daemon is asked to shut down at once is granted nothing that is held in the
/// next run.
#[test]
fn nothing_is_granted_once_the_daemon_retires_c1_p3() {
    let mut world = World::new("retires");
    let held = world.admit(claiming_new("r"), leased());
    let control = Arc::clone(world.host().control());
    let waiting = control.admit_kept(claiming_new("r"), leased()).unwrap();
    assert!(matches!(waiting, Admission::Waiting(_)));
    let id = held.id().0;
    world.written();
    world.host().retire();
    drop(held);
    world.host().shut_down();
    drop(waiting);
    world.kill();
    assert_eq!(world.restore().into_keys().collect::<Vec<_>>(), [id]);
}

fn claiming_new(resource: &str) -> Request {
    let mut request = claiming(&[(resource, Mode::Exclusive)]);
    request.unknown = Unknown::Create;
    request
}

/// L5: a client whose session ends while its request is on the way must not be granted a lock that nothing
/// would release.
#[test]
fn a_session_that_has_ended_gets_no_lock_l5() {
    let world = World::new("ended");
    let host = world.host();
    let (session, _) = session(host, Some(Span::from_secs(5)), vec![]);
    host.end_session(&session);
    let done = host.locking().operate(&session, LockOperation::Lock, "l");
    assert_eq!(done, Err(LockError::Ended));
    assert!(host.locking().shown("l").is_none());
}

/// L1, L5: a session that waits for a lock when the daemon is asked to shut down is not granted the lock by
/// sessions that end with the daemon. In the next run the lock has its old owner.
#[test]
fn no_lock_is_granted_once_the_daemon_retires_l1_l5() {
    use crate::LockOperation::Lock;
    let mut world = World::new("retires-locks");
    let host = Arc::clone(world.host());
    let (ann, _) = session(&host, Some(Span::from_secs(30)), vec![]);
    let (bob, _) = session(&host, Some(Span::from_secs(30)), vec![]);
    for who in [&ann, &bob] {
        host.locking().operate(who, Lock, "leader").unwrap();
    }
    let fencing = host.locking().fencing(ann.id, "leader").unwrap();
    world.written();
    host.retire();
    host.end_session(&ann);
    assert_eq!(host.locking().fencing(bob.id, "leader"), None, "it was told to end");
    host.shut_down();
    world.kill();
    let locks = world.host().keeper().unwrap().take_over().unwrap().locks;
    let locks: Vec<_> = locks.iter().map(|lock| (&*lock.session, lock.fencing)).collect();
    assert_eq!(locks, [(&*ann.name, fencing)]);
}

/// C1: an edit that deletes many resources cannot be written and is undone. A client that claimed one of them
/// still holds it, also after the next edit of the resources, and after a restart.
#[test]
fn a_delete_of_many_resources_that_is_undone_takes_no_claim_along_c1_p3() {
    const COUNT: usize = 1_500;
    let mut world = World::new("undone");
    let insert = |name: &str| {
        format!(
            r#"{{"op": "insert", "table": "Resource", "row": {{"name": "{name}", "persistent": true}}}}"#
        )
    };
    let inserts: Vec<String> = (0..COUNT).map(|number| insert(&format!("r{number}"))).collect();
    world.edit(&format!("[{}]", inserts.join(",")));
    let held = world.admit(claiming(&[("r7", Mode::Exclusive)]), leased());
    world.written();
    world.disk.set("full-after=1".parse().unwrap());
    let refused = world.try_edit(r#"[{"op": "delete", "table": "Resource", "where": []}]"#);
    assert!(refused.is_err(), "the disk is full");
    world.disk.set(Faults::default());
    // A permit that is granted now names the restored rows, so that it follows them.
    let later = world.admit(claiming(&[("r8", Mode::Exclusive)]), leased());
    world.written();
    world.edit(
        r#"[{"op": "update", "table": "Resource", "where": [["name", "==", "r8"]],
             "row": {"name": "renamed"}}]"#,
    );
    assert!(["r7", "renamed"].iter().all(|name| world.is_taken(name)), "they are held as before");
    world.written();
    let ids = [held.id().0, later.id().0];
    std::mem::forget((held, later));
    world.kill();
    let claimed = |name: &str| vec![(name.to_owned(), Mode::Exclusive)];
    let expected = BTreeMap::from([(ids[0], claimed("r7")), (ids[1], claimed("renamed"))]);
    assert_eq!(world.restore(), expected);
    assert!(["r7", "renamed"].iter().all(|name| world.is_taken(name)));
}
