//! Everything at once against one daemon that is killed repeatedly: permits under ids that clients choose, locks of
//! leased sessions, resources that are renamed and moved, roles and tokens that change, disks that are full. Clients
//! remember the responses that they got; a restart is no excuse.
//!
//! - Nothing is granted twice: at most one client at a time has a response that it holds a thing (C1, L1).
//! - Nothing is lost: a permit that was answered is the same one when it is requested again (P3).
//! - Nothing returns: what was answered as released and written is never held again (J5).
//! - Fencing numbers grow (L2).
//!
//! It runs for `STORM_SECONDS` (6 by default). `STORM_SEED` chooses what the clients do, as far as threads allow it
//! to repeat.

use paceline_tests::{Api, Client, Daemon, Launch, Scratch};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

const CLIENTS: usize = 6;
const LOCKERS: usize = 3;
/// Resources 0 and 1 are the parents between which the others move.
const RESOURCES: usize = 6;
const LOCKS: usize = 2;

/// The shared state.
struct World {
    socket: PathBuf,
    ovsdb: PathBuf,
    /// The current name of each resource. Every name is used once, so it identifies the resource.
    names: Mutex<[String; RESOURCES]>,
    /// The client that was granted a resource; 0 for none.
    holders: [AtomicUsize; RESOURCES],
    lock_owners: [AtomicUsize; LOCKS],
    fencing: [AtomicU64; LOCKS],
    /// Permits that were answered as released and written.
    gone: Mutex<BTreeSet<String>>,
    /// Read-locked while a client uses the daemon; write-locked while the daemon is killed and started.
    up: RwLock<()>,
    stop: AtomicBool,
    grants: AtomicUsize,
}

/// A source of numbers, the same for the same seed.
struct Lots(u64);

impl Lots {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % count
    }

    fn pause(&mut self, most_ms: u64) {
        std::thread::sleep(Duration::from_micros(self.below(most_ms * 1_000)));
    }
}

/// A connection that outlives the daemon: an unanswered request is sent again.
struct Caller<'a> {
    world: &'a World,
    api: Option<Api>,
}

impl Caller<'_> {
    fn new(world: &World) -> Caller<'_> {
        Caller { world, api: None }
    }

    /// The response to a request that may be sent twice; none when the storm is over.
    fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        let body = body.map(Value::to_string);
        while !self.world.stop.load(Ordering::SeqCst) {
            if let Some(answer) = self.try_call(method, path, body.as_deref()) {
                return Some(answer);
            }
            // Wait until the daemon is back.
            drop(self.world.up.read().unwrap());
        }
        None
    }

    /// The same without repetition.
    fn try_call(&mut self, method: &str, path: &str, body: Option<&str>) -> Option<(u16, Value)> {
        let api = match &mut self.api {
            Some(api) => api,
            None => self.api.insert(Api::try_unix(&self.world.socket).ok()?),
        };
        let answer = api.try_send(method, path, body).ok().and_then(|()| api.try_answer().ok());
        if answer.is_none() {
            self.api = None;
        }
        answer.map(|answer| (answer.status, answer.body))
    }
}

impl World {
    fn names(&self) -> MutexGuard<'_, [String; RESOURCES]> {
        self.names.lock().unwrap()
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// A client that claims resources under its own ids.
fn claim(world: &World, client: usize, seed: u64) {
    let mut lots = Lots(seed);
    let mut caller = Caller::new(world);
    for turn in 0.. {
        let resource = lots.below(RESOURCES as u64) as usize;
        let name = world.names()[resource].clone();
        let path = format!("/v1/permits/c{client}-{turn}");
        let body = json!({"claims": [{"resource": name}], "max_wait": "200ms", "lease": "1h"});
        if lots.below(8) == 0 {
            // Sends a request and disconnects, so that it may be granted at that moment; then the permit is released
            // like any other.
            let mut other = Caller::new(world);
            let sent = Api::try_unix(&world.socket)
                .and_then(|mut api| api.try_send("PUT", &path, Some(&body.to_string())));
            drop(sent);
            lots.pause(3);
            let _ = other.try_call("DELETE", &path, None);
        }
        let Some((status, permit)) = caller.call("PUT", &path, Some(&body)) else { return };
        match status {
            200 | 201 => {}
            409 | 410 | 429 | 500 | 503 | 507 => continue,
            other => panic!("{other}: {permit}"),
        }
        world.grants.fetch_add(1, Ordering::SeqCst);
        let mut held = vec![resource];
        hold(world, client, resource);
        // What else it holds according to the daemon: children that were moved away while it holds their parent.
        let tree = caller.call("GET", "/v1/tree", None);
        let Some((200, tree)) = tree else {
            held.iter().for_each(|held| world.holders[*held].store(0, Ordering::SeqCst));
            return;
        };
        let is_mine =
            |node: &Value| node["holders"].as_array().unwrap().contains(&permit["request"]);
        for node in tree.as_array().unwrap().iter().filter(|node| is_mine(node)) {
            let number = number(node["name"].as_str().unwrap());
            if !held.contains(&number) {
                hold(world, client, number);
                held.push(number);
            }
        }
        lots.pause(4);
        // It is still there, however often the daemon was killed.
        let Some((status, again)) = caller.call("PUT", &path, Some(&body)) else { return };
        assert_eq!((status, &again["request"]), (200, &permit["request"]), "lost: {again}");
        held.iter().for_each(|held| world.holders[*held].store(0, Ordering::SeqCst));
        loop {
            let Some((status, answer)) = caller.call("DELETE", &path, None) else { return };
            match status {
                204 => drop(world.gone.lock().unwrap().insert(format!("c{client}-{turn}"))),
                // It was answered before the daemon was killed.
                404 => {}
                // Not on disk: it may be held again after a kill, so the release is repeated until it is written.
                200 => {
                    assert_eq!(answer["written"], false, "{answer}");
                    lots.pause(20);
                    continue;
                }
                other => panic!("{other}: {answer}"),
            }
            break;
        }
    }
}

fn number(name: &str) -> usize {
    name.split('.').next().unwrap().trim_start_matches('r').parse().unwrap()
}

fn hold(world: &World, client: usize, resource: usize) {
    let before = world.holders[resource].swap(client, Ordering::SeqCst);
    assert_eq!(before, 0, "c1: {client} and {before} hold resource {resource}");
}

/// A client with a leased session that locks.
fn lock(world: &World, client: usize, seed: u64) {
    let mut lots = Lots(seed);
    let mut caller = Caller::new(world);
    let lease = json!({"lease": "1h"});
    while !world.is_over() {
        let Some((status, session)) = caller.call("POST", "/v1/sessions", Some(&lease)) else {
            return;
        };
        if status != 201 {
            continue;
        }
        let session = session["session"].as_str().unwrap().to_owned();
        for _ in 0..lots.below(20) {
            let lock = lots.below(LOCKS as u64) as usize;
            let path = format!("/v1/locks/l{lock}");
            let ask = json!({"session": session, "wait": "100ms"});
            let Some((status, answer)) = caller.call("PUT", &path, Some(&ask)) else { return };
            let fencing = match (status, answer["fencing"].as_u64()) {
                (200, Some(fencing)) => fencing,
                // The response was lost with the daemon, or it timed out, or the disk is full: which of these, and
                // whether it owns the lock, is unknown.
                _ => {
                    let _ = caller.call("DELETE", &format!("{path}?session={session}"), None);
                    continue;
                }
            };
            let before = world.lock_owners[lock].swap(client, Ordering::SeqCst);
            assert_eq!(before, 0, "l1: {client} and {before} own lock {lock}");
            let highest = world.fencing[lock].fetch_max(fencing, Ordering::SeqCst);
            assert!(highest < fencing, "l2: {fencing} after {highest}");
            lots.pause(3);
            world.lock_owners[lock].store(0, Ordering::SeqCst);
            if caller.call("DELETE", &format!("{path}?session={session}"), None).is_none() {
                return;
            }
        }
        if caller.call("DELETE", &format!("/v1/sessions/{session}"), None).is_none() {
            return;
        }
    }
}

/// Renames and moves resources, changes roles, creates and revokes tokens.
fn edit(world: &World, seed: u64) {
    let mut lots = Lots(seed);
    let mut caller = Caller::new(world);
    for turn in 0.. {
        let resource = 2 + lots.below(RESOURCES as u64 - 2) as usize;
        // No client learns a name before the daemon has it.
        let mut names = world.names();
        let path = format!("/v1/resources/{}", names[resource]);
        let done = match lots.below(4) {
            0 => {
                let new = format!("r{resource}.{turn}");
                let is_renamed = rename(world, &names[resource], &new);
                if is_renamed == Some(true) {
                    names[resource] = new;
                }
                is_renamed.map(|_| (200, Value::Null))
            }
            1 | 2 => {
                let parents = match lots.below(3) {
                    2 => vec![],
                    parent => vec![names[parent as usize].clone()],
                };
                caller.call("PATCH", &path, Some(&json!({"parents": parents})))
            }
            _ => {
                let role = ["client", "operator"][lots.below(2) as usize];
                caller.call("PUT", "/v1/users/eve", Some(&json!({"role": role})))
            }
        };
        drop(names);
        if done.is_none() {
            return;
        }
        let token = json!({"name": "t", "role": "client"});
        let _ = caller.call("POST", "/v1/tokens", Some(&token));
        let _ = caller.call("DELETE", "/v1/tokens/t", None);
        lots.pause(5);
    }
}

/// Renames a resource, which only the OVSDB door can do. Returns whether it has the new name, or none when the storm
/// is over.
fn rename(world: &World, old: &str, new: &str) -> Option<bool> {
    let rename = json!(["Paceline",
        {"op": "update", "table": "Resource", "row": {"name": new}, "where": [["name", "==", old]]},
        {"op": "select", "table": "Resource", "where": [["name", "==", new]], "columns": ["name"]}]);
    while !world.is_over() {
        let client = Client::connect(&world.ovsdb);
        match client.and_then(|mut client| client.call("transact", &rename)) {
            // An unanswered rename may have been done.
            Ok(results) => return Some(results[1]["rows"] == json!([{"name": new}])),
            Err(_) => drop(world.up.read().unwrap()),
        }
    }
    None
}

/// Checks the list of permits for any that was released.
fn look(world: &World) {
    let mut caller = Caller::new(world);
    while !world.is_over() {
        // The released ones are read first: a permit that is released while the list is made may be in it.
        let gone = world.gone.lock().unwrap().clone();
        let Some((status, permits)) = caller.call("GET", "/v1/permits", None) else { return };
        assert_eq!(status, 200, "{permits}");
        for permit in permits.as_array().unwrap() {
            let name = permit["permit"].as_str().unwrap();
            assert!(!gone.contains(name), "j5: {name} is held again");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Kills the daemon and starts it again; in between, prevents its files from growing for a while.
fn break_things(
    world: &World,
    launch: &Launch,
    first: Daemon,
    seed: u64,
    until: Instant,
) -> Daemon {
    let mut lots = Lots(seed);
    let mut daemon = first;
    while Instant::now() < until {
        lots.pause(400);
        if lots.below(3) == 0 {
            let size = size_of(&daemon.data());
            daemon.limit_file_size(Some(size + lots.below(4_096)));
            lots.pause(150);
            daemon.limit_file_size(None);
            continue;
        }
        let _down = world.up.write().unwrap();
        // Clients hold the lock only while they wait for the daemon, so it dies in the middle of requests.
        match lots.below(4) {
            0 => drop(daemon.terminate()),
            _ => drop(daemon.kill()),
        }
        daemon = launch.start().unwrap_or_else(|ended| panic!("it does not start: {}", ended.log));
    }
    daemon
}

fn size_of(data: &Path) -> u64 {
    std::fs::metadata(data.join("paceline.db")).unwrap().len()
}

fn number_of(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().unwrap())
}

#[test]
fn nothing_is_lost_granted_twice_or_held_again_c1_l1_l2_p3_j5() {
    let (seconds, seed) = (number_of("STORM_SECONDS", 6), number_of("STORM_SEED", 1));
    let scratch = Scratch::new();
    let socket = format!("punix:{}", scratch.join("db.sock").display());
    let launch = Launch::new(&scratch).option("--ovsdb", socket);
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let names = std::array::from_fn(|number| format!("r{number}.first"));
    for name in &names {
        let path = format!("/v1/resources/{name}");
        let _ = api.call("PUT", &path, &json!({"persistent": true})).expect(201);
    }
    let world = World {
        socket: daemon.data().join("api.sock"),
        ovsdb: daemon.socket(),
        names: Mutex::new(names),
        holders: Default::default(),
        lock_owners: Default::default(),
        fencing: Default::default(),
        gone: Mutex::default(),
        up: RwLock::new(()),
        stop: AtomicBool::new(false),
        grants: AtomicUsize::new(0),
    };
    let until = Instant::now() + Duration::from_secs(seconds);
    std::thread::scope(|scope| {
        let world = &world;
        let lots = |number: usize| seed.wrapping_mul(1_000_003) + number as u64;
        let mut threads = vec![];
        for client in 1..=CLIENTS {
            threads.push(scope.spawn(move || claim(world, client, lots(client))));
        }
        for client in 1..=LOCKERS {
            threads.push(scope.spawn(move || lock(world, client, lots(100 + client))));
        }
        threads.push(scope.spawn(move || edit(world, lots(200))));
        threads.push(scope.spawn(move || look(world)));
        let daemon = break_things(world, &launch, daemon, lots(300), until);
        world.stop.store(true, Ordering::SeqCst);
        let failed = threads.into_iter().filter_map(|thread| thread.join().err()).count();
        assert_eq!(failed, 0);
        assert!(daemon.api().get("/healthz").status == 200);
    });
    assert!(world.grants.load(Ordering::SeqCst) > 0, "nothing happened");
}
