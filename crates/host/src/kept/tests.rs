//! What is kept is there after the daemon is gone, and what was given back is not.

use crate::{Host, KeptPermit, KeptSession, Policy, Process, RealDisk, TakenOver};
use paceline_types::{Attributes, Claim, Mode, Request, RequestId, SessionId, Span, Unknown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("paceline-kept-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir(&path).unwrap();
    path
}

fn open(directory: &Path) -> (tokio::runtime::Runtime, Arc<Host>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let disk = Arc::new(RealDisk);
    let host = Host::new(runtime.handle().clone(), disk, Policy::default()).unwrap();
    host.open_own(&directory.join("paceline.db")).unwrap();
    host.open_for_service();
    (runtime, host)
}

/// What a new run finds on disk: a copy, because this process cannot open a file twice.
fn next_run(directory: &Path) -> (tokio::runtime::Runtime, Arc<Host>) {
    let copy = directory.join("copy");
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = file.file_name();
        if file.file_type().unwrap().is_file() && !name.to_string_lossy().contains('~') {
            std::fs::copy(file.path(), copy.join(name)).unwrap();
        }
    }
    open(&copy)
}

fn session(number: u64, lease: Option<Span>, processes: Vec<Process>) -> KeptSession {
    KeptSession {
        name: format!("etl#{number}"),
        number: SessionId(number),
        user: "ann".into(),
        salt: "salt".into(),
        lease,
        processes,
    }
}

fn permit(name: &str, session: &str) -> KeptPermit {
    let mut attributes = Attributes::new();
    for (name, value) in [("user", "ann"), ("header.x-user", "ümlaut"), ("text", "")] {
        attributes.set(name, value).unwrap();
    }
    let mut request = Request::new(attributes);
    let claim = |resource: &str, mode| Claim { resource: resource.into(), mode };
    request.claims = vec![
        claim("b", Mode::Shared),
        claim("a", Mode::Shared),
        claim("b", Mode::Exclusive),
        claim("b", Mode::Shared),
    ];
    (request.cost, request.unknown, request.locks) = (3, Unknown::Create, vec!["leader".into()]);
    KeptPermit {
        name: name.into(),
        number: RequestId(5),
        request,
        priority: -20,
        user: "ann".into(),
        session: session.into(),
        lease: session.is_empty().then_some(Span::from_secs(5)),
        is_long: false,
        digest: "00ff".into(),
        granted_us: 1_794_787_200_123_456,
        waited: Span(1_234),
    }
}

#[test]
fn what_is_kept_comes_back_as_it_was_p3() {
    let directory = directory("back");
    let alive = Process::of(std::process::id()).unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = Process::of(child.id()).unwrap_or(Process::parse("4000000@1").unwrap());
    child.wait().unwrap();
    let (leased, bound) =
        (session(3, Some(Span::from_secs(30)), vec![]), session(4, None, vec![alive]));
    {
        let (runtime, host) = open(&directory);
        runtime.block_on(async {
            let keeper = host.keeper().unwrap();
            let orphan = session(5, None, vec![dead]);
            let kept = [
                keeper.keep_session(&leased).await.unwrap(),
                keeper.keep_session(&bound).await.unwrap(),
                keeper.keep_session(&orphan).await.unwrap(),
                keeper.keep_permit(&permit("p-1", "")).await.unwrap(),
                keeper.keep_permit(&permit("p-2", "etl#3")).await.unwrap(),
                keeper.keep_permit(&permit("p-3", "etl#5")).await.unwrap(),
            ];
            keeper.keep_permit(&permit("p-4", "")).await.unwrap().forget().await;
            drop(keeper.keep_permit(&permit("p-5", "")).await.unwrap());
            for (session, lock, fencing) in [
                (&leased, "leader", 7),
                (&bound, "leader", 5),
                (&leased, "backup", 8),
                (&bound, "backup", 9),
                (&orphan, "left", 10),
            ] {
                keeper.keep_lock(&session.name, false, lock, fencing).await.unwrap();
            }
            keeper.forget_lock("etl#4", "leader", 9).await.unwrap();
            keeper.forget_lock("etl#3", "backup", 9).await.unwrap();
            keeper.forget_lock("etl#3", "leader", 6).await.unwrap();
            // As if the process had been killed.
            std::mem::forget(kept);
        });
    }
    let (runtime, host) = next_run(&directory);
    let keeper = host.keeper().unwrap();
    assert_eq!(keeper.closed_for(), std::time::Duration::ZERO, "the machine did not die");
    let TakenOver { sessions, locks, permits } = keeper.take_over();
    let found: Vec<&KeptSession> = sessions.iter().map(|(session, _)| session).collect();
    assert_eq!(found, [&leased, &bound], "c4: one whose process is dead is over");
    let mut locks: Vec<_> =
        locks.iter().map(|l| (l.name.as_str(), l.session.as_str(), l.fencing)).collect();
    locks.sort_unstable();
    assert_eq!(locks, [("backup", "etl#4", 9), ("leader", "etl#3", 7)], "the last grant counts");
    let names: Vec<&str> = permits.iter().map(|(permit, _)| permit.name.as_str()).collect();
    assert_eq!(names, ["p-1", "p-2"]);
    let (expected, found) = (permit("p-2", "etl#3"), &permits[1].0);
    let plain = |permit: &KeptPermit| {
        let KeptPermit { request, .. } = permit.clone();
        let attributes: std::collections::BTreeMap<_, _> =
            request.attributes.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let rest = (permit.number, permit.priority, permit.lease, permit.granted_us, permit.waited);
        let texts = [&permit.user, &permit.session, &permit.digest].map(Clone::clone);
        (attributes, request.cost, request.unknown, request.locks, rest, texts)
    };
    assert_eq!(plain(found), plain(&expected));
    let claims: Vec<_> = found.request.claims.iter().map(|c| (&*c.resource, c.mode)).collect();
    assert_eq!(claims, [("a", Mode::Shared), ("b", Mode::Exclusive)], "the stronger claim");
    drop((sessions, permits));
    drop((host, runtime));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn an_orderly_end_keeps_what_is_held_and_closes_nothing_p3() {
    let directory = directory("orderly");
    {
        let (runtime, host) = open(&directory);
        let kept =
            runtime.block_on(host.keeper().unwrap().keep_permit(&permit("p-1", ""))).unwrap();
        host.retire();
        drop(kept);
        host.shut_down();
    }
    let (runtime, host) = next_run(&directory);
    let keeper = host.keeper().unwrap();
    assert_eq!(keeper.take_over().permits.len(), 1);
    let machine = host.database("Paceline").unwrap().own_text("Daemon", "machine");
    assert_eq!(machine.as_deref(), Some(""));
    drop((host, runtime));
    std::fs::remove_dir_all(&directory).unwrap();
}
