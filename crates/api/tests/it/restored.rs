//! What clients of an earlier run hold, and the roles of their users.

use crate::world::World;
use paceline_host::Process;
use paceline_host::registry::{Asking, Beginning, HoldLimits, Registry};
use paceline_types::Span;
use serde_json::json;
use std::sync::Arc;

/// Makes a process of a user own a lock in a session that is bound to a connection. The test has no process of
/// another user, so it does what the door would do for one.
fn own_lock(world: &World, user: &str) {
    let registry =
        Registry::new(Arc::clone(&world.host), Box::new(str::to_owned), HoldLimits::default());
    let process = Process::of(std::process::id());
    let (name, user) = (user.to_owned(), user.to_owned());
    let beginning = Beginning { name, user, is_owner: false, lease: None, process };
    let (session, _) = world.block_on(registry.begin_session(beginning)).unwrap();
    let asking = Asking::Wait(Span::ZERO, None);
    let asked = registry.lock(&session, "mine", asking, None, std::future::pending());
    world.block_on(asked).unwrap();
}

/// A bound session of an earlier run ends when the role of its user is revoked, although its process is alive.
#[test]
fn a_session_of_an_earlier_run_ends_with_the_role_of_its_user() {
    let before = World::new();
    before.unix().put("/v1/users/eva", json!({ "role": "client" })).expect(201);
    own_lock(&before, "eva");
    let world = before.next_run();
    let mut root = world.unix();
    let session = root.session(json!({}));
    root.put("/v1/locks/mine", json!({ "session": session })).expect_error(409, "conflict");
    // Another role that may hold something ends nothing.
    root.put("/v1/users/eva", json!({ "role": "operator" })).expect(200);
    root.put("/v1/locks/mine", json!({ "session": session })).expect_error(409, "conflict");
    root.delete("/v1/users/eva").expect(204);
    root.put("/v1/locks/mine", json!({ "session": session, "wait": "10s" })).expect(200);
}

/// A permit of a pool that the restart deleted is shown with the name of the pool that counts it.
#[test]
fn a_permit_of_an_earlier_run_names_its_pool_though_that_is_gone() {
    let before = World::new();
    let mut client = before.unix();
    let pool = json!({ "priority": [3, 4], "started": true, "persistent": false });
    client.put("/v1/pools/passing", pool).expect(201);
    client.put("/v1/rules/1", json!({ "set": 3 })).expect(201);
    let permit = client.post("/v1/permits", json!({ "lease": "1h" })).expect(201);
    assert_eq!(permit["pool"], "passing");
    let world = before.next_run();
    let mut client = world.unix();
    client.get("/v1/pools/passing").expect_error(404, "not_found");
    let path = format!("/v1/permits/{}", permit["permit"].as_str().unwrap());
    assert_eq!(client.get(&path).expect(200)["pool"], "passing");
}

/// A role may be missing, or too low, when the daemon starts, as after a change of the configuration file.
#[test]
fn a_session_whose_user_has_no_role_any_more_ends_at_the_start() {
    for role in [None, Some("viewer")] {
        let before = World::new();
        before.unix().put("/v1/users/eva", json!({ "role": "client" })).expect(201);
        own_lock(&before, "eva");
        match role {
            None => drop(before.unix().delete("/v1/users/eva").expect(204)),
            Some(role) => {
                before.unix().put("/v1/users/eva", json!({ "role": role })).expect(200);
            }
        }
        let world = before.next_run();
        let mut root = world.unix();
        let session = root.session(json!({}));
        root.put("/v1/locks/mine", json!({ "session": session, "wait": "10s" })).expect(200);
    }
}

/// Root and the user who runs the daemon need no row.
#[test]
fn a_session_of_root_goes_on() {
    let before = World::new();
    own_lock(&before, "root");
    let world = before.next_run();
    let mut root = world.unix();
    let session = root.session(json!({}));
    root.put("/v1/locks/mine", json!({ "session": session })).expect_error(409, "conflict");
}
