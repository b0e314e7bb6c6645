//! Frontends, backends and servers through the API.

use crate::world::World;
use paceline_host::{Admission, DoorProblem};
use paceline_types::{Attributes, On, Request};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A frontend with every member.
fn frontend() -> Value {
    json!({
        "listen": ["127.0.0.1:0", "unix:/run/web.sock"], "backend": "app",
        "use_backend": [
            { "when": "path == \"/\"", "backend": "app" },
            { "when": "true", "backend": "app" },
        ],
        "tls": [{ "certificate": "/c.pem", "key": "/k.pem" }],
        "http2": false, "proxy_protocol": true, "trusted": ["10.0.0.0/8"], "user": "basic",
        "upgrades": [], "max_body": 5, "max_connections": 6,
        "timeouts": { "header": "1s", "body": "2s", "idle": "3s", "queue": "4s", "tunnel": "5s" },
        "errors": { "503": "/e.html" }, "access_log": "common", "log_values": { "who": "user" },
        "persistent": false,
    })
}

/// A backend with every member.
fn backend() -> Value {
    json!({
        "balance": "power-of-two", "queue": { "max_len": 1, "max_delay": "2s" }, "retries": 0,
        "health": { "path": "/up", "host": "h", "interval": "1s", "timeout": "1s", "rise": 1, "fall": 2 },
        "timeouts": { "connect": "1s", "response": "2s", "idle": "3s" }, "persistent": false,
        "tls": { "ca": "/ca", "name": "api.internal", "verify": false, "certificate": "/c", "key": "/k" },
    })
}

/// Figures may be newer the next time.
fn without_figures(mut object: Value) -> Value {
    // Warnings belong to an edit: a GET has none.
    object
        .as_object_mut()
        .unwrap()
        .retain(|name, _| !matches!(name.as_str(), "figures" | "warnings"));
    object
}

/// Figures may be a second old: repeats until they are as expected.
fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "figures are not shown");
    }
}

#[test]
fn every_member_is_kept_and_what_a_get_shows_can_be_sent_back() {
    let world = World::new();
    let mut client = world.unix();
    let address = json!({ "address": "app:80", "weight": 3, "max_connections": 4 });
    client.put("/v1/backends/app", backend()).expect(201);
    client.put("/v1/servers/app/a", address.clone()).expect(201);
    client.put("/v1/frontends/web", frontend()).expect(201);
    for (path, members) in [
        ("/v1/frontends/web", frontend()),
        ("/v1/backends/app", backend()),
        ("/v1/servers/app/a", address),
    ] {
        let shown = client.get(path).expect(200);
        for (name, value) in members.as_object().unwrap() {
            assert_eq!(&shown[name], value, "{path} {name}");
        }
        let again = client.put(path, shown.clone()).expect(200);
        assert_eq!(without_figures(again), without_figures(shown.clone()));
        let again = client.call("PATCH", path, json!({})).expect(200);
        assert_eq!(without_figures(again), without_figures(shown));
    }
    let server = client.get("/v1/servers/app/a").expect(200);
    assert_eq!((&server["backend"], &server["name"]), (&json!("app"), &json!("a")));
    assert_eq!(server["figures"]["inflight"], 0);
}

#[test]
fn servers_show_whether_they_are_up_and_how_many_requests_they_have() {
    let world = World::new();
    let mut client = world.unix();
    client.put("/v1/backends/app", json!({})).expect(201);
    for name in ["a", "b"] {
        client.put(&format!("/v1/servers/app/{name}"), json!({ "address": "app:80" })).expect(201);
    }
    let members = json!({ "listen": "127.0.0.1:0", "backend": "app" });
    client.put("/v1/frontends/web", members).expect(201);
    let control = world.host.control();
    let snapshot = control.snapshot();
    let servers = &snapshot.routing().backends()[0].servers;
    let down = servers.iter().find(|server| &*server.name == "b").unwrap().id;
    assert!(control.set_up(down, &"app:80".parse().unwrap(), false));
    let mut attributes = Attributes::new();
    attributes.set("frontend", "web").unwrap();
    let Ok(Admission::Started(_permit)) = control.admit(Request::new(attributes)) else {
        panic!("not started")
    };
    let mut figures =
        |name: &str| client.get(&format!("/v1/servers/app/{name}")).expect(200)["figures"].clone();
    until(|| figures("a") == json!({ "up": true, "inflight": 1 }));
    until(|| figures("b") == json!({ "up": false, "inflight": 0 }));
    let metrics = client.get("/metrics").text;
    for line in [
        "paceline_server_up{server=\"app/a\"} 1",
        "paceline_server_up{server=\"app/b\"} 0",
        "paceline_server_inflight{server=\"app/a\"} 1",
        "paceline_server_inflight{server=\"app/b\"} 0",
    ] {
        assert!(metrics.lines().any(|own| own == line), "{line}: {metrics}");
    }
}

/// The queue for a backend's servers has no row of its own: the backend shows it.
#[test]
fn backends_show_how_many_wait_for_their_servers_and_were_turned_away() {
    let world = World::new();
    let mut client = world.unix();
    for name in ["app", "free"] {
        let members = json!({ "queue": { "max_len": 2 } });
        client.put(&format!("/v1/backends/{name}"), members).expect(201);
    }
    let server = json!({ "address": "app:80", "max_connections": 1 });
    client.put("/v1/servers/app/a", server).expect(201);
    let members = json!({ "listen": "127.0.0.1:0", "backend": "app" });
    client.put("/v1/frontends/web", members).expect(201);
    let control = world.host.control();
    let mut attributes = Attributes::new();
    attributes.set("frontend", "web").unwrap();
    let admitted: Vec<_> =
        (0..6).map(|_| control.admit(Request::new(attributes.clone()))).collect();
    let waiting = admitted.iter().filter(|one| matches!(one, Ok(Admission::Waiting(_)))).count();
    assert_eq!(waiting, 2);
    let mut figures =
        |name: &str| client.get(&format!("/v1/backends/{name}")).expect(200)["figures"].clone();
    until(|| figures("app") == json!({ "queued": 2, "refused": 3 }));
    assert_eq!(figures("free"), json!({ "queued": 0, "refused": 0 }));
    let metrics = client.get("/metrics").text;
    for line in [
        "paceline_backend_queued{backend=\"app\"} 2",
        "paceline_backend_refused_total{backend=\"app\"} 3",
        "paceline_backend_queued{backend=\"free\"} 0",
    ] {
        assert!(metrics.lines().any(|own| own == line), "{line}: {metrics}");
    }
}

#[test]
fn what_is_not_given_is_as_it_begins() {
    let world = World::new();
    let mut client = world.unix();
    client.put("/v1/backends/app", backend()).expect(201);
    client.put("/v1/frontends/web", frontend()).expect(201);
    let web = client.put("/v1/frontends/web", json!({ "listen": "127.0.0.1:0" })).expect(200);
    let bare = json!({
        "name": "web", "listen": ["127.0.0.1:0"], "proxy_protocol": false, "persistent": false,
    });
    assert_eq!(without_figures(web), bare);
    let app = client.put("/v1/backends/app", json!({})).expect(200);
    assert_eq!(without_figures(app), json!({ "name": "app", "persistent": false }));
    for (health, shown) in [
        (json!(true), json!(true)),
        (json!({ "path": "/x" }), json!({ "path": "/x" })),
        (json!({ "fall": 5 }), json!({ "path": "/x", "fall": 5 })),
        (json!({ "path": null }), json!({ "fall": 5 })),
        (json!(false), Value::Null),
        (json!({}), json!(true)),
        (Value::Null, Value::Null),
    ] {
        let app = client.call("PATCH", "/v1/backends/app", json!({ "health": health })).expect(200);
        assert_eq!(app.get("health").unwrap_or(&Value::Null), &shown, "{health}");
    }
    for (tls, shown) in [
        (json!(true), json!(true)),
        (json!({ "name": "x" }), json!({ "name": "x" })),
        (json!({ "verify": false }), json!({ "name": "x", "verify": false })),
        (json!({ "verify": null }), json!({ "name": "x" })),
        (json!(false), Value::Null),
        (json!({ "ca": "/ca" }), json!({ "ca": "/ca" })),
        (Value::Null, Value::Null),
    ] {
        let app = client.call("PATCH", "/v1/backends/app", json!({ "tls": tls })).expect(200);
        assert_eq!(app.get("tls").unwrap_or(&Value::Null), &shown, "{tls}");
    }
    let tls = json!({ "tls": { "certificate": "/c", "key": "/k" } });
    let web = client.call("PATCH", "/v1/frontends/web", tls).expect(200);
    assert_eq!(web["tls"], json!([{ "certificate": "/c", "key": "/k" }]));
    let web = client.call("PATCH", "/v1/frontends/web", json!({ "tls": null })).expect(200);
    assert_eq!(web.get("tls"), None);
}

#[test]
fn frontends_show_what_was_counted_at_them() {
    let world = World::new();
    let mut client = world.unix();
    client.put("/v1/frontends/web", json!({ "listen": "127.0.0.1:0" })).expect(201);
    let tally = world.host.control().http().tally("web");
    tally.connections.store(3, Ordering::Relaxed);
    tally.accepted.store(5, Ordering::Relaxed);
    tally.requests.store(7, Ordering::Relaxed);
    tally.left.store(1, Ordering::Relaxed);
    tally.cut.store(2, Ordering::Relaxed);
    for status in [200, 204, 404, 503] {
        tally.respond(status);
    }
    let figures = json!({
        "connections": 3, "accepted": 5, "requests": 7, "left": 1, "cut": 2,
        "responses": { "1xx": 0, "2xx": 2, "3xx": 0, "4xx": 1, "5xx": 1 },
    });
    until(|| client.get("/v1/frontends/web").expect(200)["figures"] == figures);
    let metrics = client.get("/metrics").text;
    for line in [
        "paceline_frontend_connections{frontend=\"web\"} 3",
        "paceline_frontend_accepted_total{frontend=\"web\"} 5",
        "paceline_frontend_requests_total{frontend=\"web\"} 7",
        "paceline_frontend_responses_total{frontend=\"web\",class=\"2xx\"} 2",
        "paceline_frontend_responses_total{frontend=\"web\",class=\"3xx\"} 0",
        "paceline_frontend_left_total{frontend=\"web\"} 1",
        "paceline_frontend_cut_total{frontend=\"web\"} 2",
    ] {
        assert!(metrics.lines().any(|own| own == line), "{line}: {metrics}");
    }
    // They outlive an edit, and are dropped with the frontend.
    client.call("PATCH", "/v1/frontends/web", json!({ "max_body": 5 })).expect(200);
    assert_eq!(client.get("/v1/frontends/web").expect(200)["figures"], figures);
    drop(tally);
    client.delete("/v1/frontends/web").expect(204);
    client.put("/v1/frontends/web", json!({ "listen": "127.0.0.1:0" })).expect(201);
    assert_eq!(world.host.control().http().tally("web").requests.load(Ordering::Relaxed), 0);
}

#[test]
fn the_status_tells_how_the_door_stands() {
    let world = World::new();
    let mut client = world.unix();
    client.put("/v1/backends/app", json!({})).expect(201);
    for number in 0..101 {
        let path = format!("/v1/servers/app/{number}");
        client.put(&path, json!({ "address": "app:80" })).expect(201);
    }
    for name in ["web", "other"] {
        client
            .put(&format!("/v1/frontends/{name}"), json!({ "listen": "127.0.0.1:0" }))
            .expect(201);
    }
    let control = world.host.control();
    control.http().report_listening(vec![("web".into(), "127.0.0.1:81".into())]);
    let message = "cannot listen".to_owned();
    let problem =
        |frontend: &str| DoorProblem { frontend: Some(frontend.into()), message: message.clone() };
    control.http().report_problems(vec![problem("other"), problem("third")]);
    let snapshot = control.snapshot();
    for (id, _) in control.servers() {
        let (_, server) = snapshot.routing().server(id).unwrap();
        assert!(control.set_up(id, &server.address, false));
    }
    let status = client.get("/v1/status").expect(200);
    let told = ["frontend other: cannot listen", "frontend third: cannot listen"];
    assert_eq!((&status["draining"], &status["http"]["problem"]), (&json!(false), &json!(told[0])));
    assert_eq!(status["http"]["problems"], json!(told));
    let frontends = json!([
        { "name": "other", "listening": [] },
        { "name": "web", "listening": ["127.0.0.1:81"] },
    ]);
    assert_eq!(status["http"]["frontends"], frontends);
    assert_eq!(status["http"]["servers_down"], 101);
    let down = status["http"]["down"].as_array().unwrap();
    assert_eq!((down.len(), &down[0]), (100, &json!("app/0")));
    let mut figures =
        |name: &str| client.get(&format!("/v1/frontends/{name}")).expect(200)["figures"].clone();
    until(|| figures("other")["problem"] == message);
    until(|| figures("web")["listening"] == json!(["127.0.0.1:81"]));
    assert_eq!(figures("web").get("problem"), None);
    control.http().report_problems(vec![]);
    until(|| figures("other").get("problem").is_none());
    control.begin_ending();
    let status = client.get("/v1/status").expect(200);
    assert_eq!((&status["draining"], status["http"].get("problem")), (&json!(true), None));
}

/// A request as the HTTP door would submit it.
fn came(on: On, more: &[(&str, &str)]) -> Request {
    let mut attributes = Attributes::new();
    let own = [("kind", "http"), ("frontend", "web"), ("client", "203.0.113.7")];
    for (name, value) in own.iter().chain(more) {
        attributes.set(name, value).unwrap();
    }
    Request { on, ..Request::new(attributes) }
}

/// A frontend whose requests are sent to one server one at a time, and whose connections are counted.
fn proxy(world: &World) {
    let mut client = world.unix();
    client.put("/v1/backends/app", json!({ "queue": { "max_len": 10 } })).expect(201);
    let server = json!({ "address": "app:80", "max_connections": 1 });
    client.put("/v1/servers/app/a", server).expect(201);
    let members = json!({ "listen": "127.0.0.1:0", "backend": "app" });
    client.put("/v1/frontends/web", members).expect(201);
    let members = json!({ "at": "frontend web", "on": "connection", "concurrency": 1,
        "queue": { "max_len": 10 } });
    client.put("/v1/checkpoints/connections", members).expect(201);
}

/// Nothing waits without being visible in `why`: requests at the HTTP door show what they are, where they come
/// from, where they are sent, and behind how many they wait.
#[test]
fn requests_and_connections_of_the_http_door_are_told_apart() {
    let world = World::new();
    proxy(&world);
    let mut client = world.unix();
    let admit = |on, more: &[(&str, &str)]| world.host.control().admit(came(on, more)).unwrap();
    let _open = admit(On::Connection, &[]);
    let _next = admit(On::Connection, &[]);
    let _runs = admit(On::Request, &[("method", "GET"), ("text", "/a?b=c")]);
    let _waits = admit(On::Request, &[("method", "POST"), ("text", "/d")]);
    let list = client.get("/v1/requests").expect(200);
    let list = list.as_array().unwrap();
    let shown = |at: usize| {
        let names = ["on", "state", "method", "text", "client", "frontend", "backend", "server"];
        names.map(|name| list[at].get(name).and_then(Value::as_str).unwrap_or("-"))
    };
    let from = "203.0.113.7";
    assert_eq!(shown(0), ["connection", "running", "-", "", from, "web", "-", "-"]);
    assert_eq!(shown(1), ["connection", "waiting", "-", "", from, "web", "-", "-"]);
    assert_eq!(shown(2), ["request", "running", "GET", "/a?b=c", from, "web", "app", "app/a"]);
    assert_eq!(shown(3), ["request", "waiting", "POST", "/d", from, "web", "app", "-"]);
    assert_eq!(
        list[3]["waits_for"],
        json!({ "kind": "checkpoint", "checkpoint": "servers of app" })
    );
    // The holder of the only place is named, and does not count as waiting before it.
    assert_eq!((&list[1]["ahead_total"], &list[3]["ahead_total"]), (&json!(0), &json!(0)));
    let why = client.get(&format!("/v1/why/{}", list[3]["request"])).expect(200);
    for name in ["on", "method", "text", "client", "frontend", "backend"] {
        assert_eq!(why[name], list[3][name], "{name}");
    }
    assert_eq!(why["ahead"], json!([list[2]["request"]]));
    let why = client.get(&format!("/v1/why/{}", list[0]["request"])).expect(200);
    assert_eq!((&why["on"], &why["state"]), (&json!("connection"), &json!("running")));
}

#[test]
fn explain_tells_backend_and_server_and_what_connections_meet() {
    let world = World::new();
    proxy(&world);
    let mut client = world.unix();
    let rule = json!({ "number": 10, "match": { "kind": "http", "user": "", "text": "/a?b" },
        "mode": "exact", "raise": 5, "then": "stop" });
    client.call("POST", "/v1/rules", rule).expect(201);
    let attributes = json!({ "frontend": "web", "path": "/a", "query": "b", "client": "1.2.3.4" });
    let told = client.call("POST", "/v1/explain", json!({ "attributes": attributes })).expect(200);
    assert_eq!((&told["backend"], &told["server"]), (&json!("app"), &json!("app/a")));
    assert_eq!(told["priority"], 5, "it has the attributes of the HTTP door");
    let _open = world.host.control().admit(came(On::Connection, &[])).unwrap();
    let body = json!({ "on": "connection", "attributes": attributes });
    let told = client.call("POST", "/v1/explain", body).expect(200);
    let place = json!({ "kind": "checkpoint", "checkpoint": "connections" });
    assert_eq!(told["foreseen"]["waits_for"], place);
    assert_eq!(told.get("server"), None);
    let elsewhere = json!({ "attributes": { "user": "x" } });
    let told = client.call("POST", "/v1/explain", elsewhere).expect(200);
    assert_eq!(told.get("backend"), None);
}

/// A name may have slashes in it, written as they are or escaped.
#[test]
fn servers_are_named_by_their_backend_and_go_with_it() {
    let world = World::new();
    let mut client = world.unix();
    for backend in ["b", "a"] {
        client.put(&format!("/v1/backends/{backend}"), json!({})).expect(201);
    }
    let members = json!({ "address": "unix:/run/x" });
    for path in ["b/unix:/run/x", "b/2", "a/1", "a%2F0"] {
        client.put(&format!("/v1/servers/{path}"), members.clone()).expect(201);
    }
    let list = client.get("/v1/servers").expect(200);
    let names: Vec<String> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|server| format!("{}/{}", server["backend"], server["name"]).replace('"', ""))
        .collect();
    assert_eq!(names, ["a/0", "a/1", "b/2", "b/unix:/run/x"]);
    client.get("/v1/servers/b%2Funix%3A%2Frun%2Fx").expect(200);
    client.get("/v1/servers/b/none").expect_error(404, "not_found");
    client.get("/v1/servers/b").expect_error(400, "bad_request");
    let other = json!({ "backend": "a", "address": "x:1" });
    client.put("/v1/servers/b/2", other).expect_error(400, "bad_request");
    client.delete("/v1/servers/b/2").expect(204);
    client.delete("/v1/servers/b/2").expect_error(404, "not_found");
    client.delete("/v1/backends/b").expect(204);
    assert_eq!(client.get("/v1/servers").expect(200).as_array().unwrap().len(), 2);
}

#[test]
fn what_is_wrong_says_where() {
    let world = World::new();
    let mut client = world.unix();
    client.put("/v1/backends/app", json!({})).expect(201);
    for (path, members, status, message) in [
        ("frontends/f", json!({}), 422, "expected an address to listen on"),
        ("frontends/f", json!({ "listen": 80 }), 400, "listen: expected a list of texts, found 80"),
        (
            "frontends/f",
            json!({ "listen": "x:1", "use_backend": [{ "when": "true" }] }),
            400,
            "use_backend[0].backend: expected a text, but it is missing",
        ),
        (
            "frontends/f",
            json!({ "listen": "x:1", "use_backend": [{ "when": "true", "backend": "app when x" }] }),
            400,
            "use_backend[0].backend: expected a name without blanks",
        ),
        (
            "frontends/f",
            json!({ "listen": "x:1", "tls": [{ "cert": "/a" }] }),
            400,
            "tls[0].certificate: expected a text, but it is missing",
        ),
        (
            "frontends/f",
            json!({ "listen": "127.0.0.1:1", "errors": { "200": "/a" } }),
            422,
            "errors: expected members named 400 to 599",
        ),
        (
            "frontends/f",
            json!({ "listen": "127.0.0.1:1", "log_values": { "a": 1 } }),
            400,
            "log_values: expected an object of texts",
        ),
        (
            "frontends/f",
            json!({ "listen": "127.0.0.1:1", "timeout": {} }),
            400,
            "timeout: there is no such member, did you mean timeouts?",
        ),
        ("backends/b", json!({ "balance": "x" }), 422, "balance: expected round-robin or"),
        ("backends/b", json!({ "health": "yes" }), 400, "health: expected an object"),
        (
            "backends/b",
            json!({ "health": { "paht": "/" } }),
            400,
            "health.paht: there is no such member, did you mean path?",
        ),
        ("backends/b", json!({ "tls": "yes" }), 400, "tls: expected an object"),
        (
            "backends/b",
            json!({ "tls": { "verify": 1 } }),
            400,
            "tls.verify: expected true or false",
        ),
        (
            "backends/b",
            json!({ "tls": { "key": "/k" } }),
            422,
            "expected the certificate of the key",
        ),
        ("servers/app/a", json!({}), 400, "address: expected a text, but it is missing"),
        ("servers/app/a", json!({ "address": "x" }), 422, "expected an address such as"),
        ("servers/none/a", json!({ "address": "x:1" }), 422, "there is no backend \"none\""),
    ] {
        let error = client.put(&format!("/v1/{path}"), members.clone());
        let error =
            error.expect_error(status, if status == 400 { "bad_request" } else { "constraint" });
        let told = error["message"].as_str().unwrap();
        assert!(told.starts_with(message), "{members}: {told}");
    }
    let error = client.put("/v1/servers/app/a", json!({ "address": "x" }));
    let place = json!({ "table": "Server", "row": "app/a", "column": "address" });
    assert_eq!(error.expect_error(422, "constraint")["place"], place);
    assert_eq!(client.get("/v1/frontends").expect(200), json!([]));
}

/// An operator may create servers and frontends, but not ones that name files: the answer says where one is.
#[test]
fn an_operator_is_told_which_member_needs_admin() {
    let world = World::new();
    let mut admin = world.unix();
    let made = admin.post("/v1/tokens", json!({ "name": "o", "role": "operator" })).expect(201);
    let mut operator = world.tcp_with(made["token"].as_str());
    operator.put("/v1/backends/app", json!({})).expect(201);
    for (path, members, column) in [
        (
            "/v1/servers/app/a",
            json!({ "address": "unix:/run/a.sock" }),
            "server app/a: `address`: ",
        ),
        ("/v1/frontends/web", json!({ "listen": "unix:/run/w.sock" }), "frontend web: `listen`: "),
        (
            "/v1/frontends/web",
            json!({ "errors": { "503": "/e.html" } }),
            "frontend web: `errors`: ",
        ),
    ] {
        let error = operator.put(path, members).expect_error(403, "permission");
        let hint = error["hint"].as_str().unwrap();
        assert!(hint.starts_with(column) && hint.contains("needs the role admin"), "{error}");
    }
}

/// A permit cannot name a frontend of the HTTP door: it would take a place at a server for nothing. `explain`
/// answers for such requests.
#[test]
fn a_permit_is_of_no_frontend_of_the_http_door_p1() {
    let world = World::new();
    proxy(&world);
    let mut client = world.unix();
    let body = json!({ "attributes": { "frontend": "web" }, "lease": "5s" });
    let refused = client.call("POST", "/v1/permits", body.clone()).expect(400);
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains("frontend of the HTTP door"), "{message}");
    client.put("/v1/permits/x", body).expect(400);
}

/// The HTTP door as a whole is one object that always exists.
#[test]
fn the_http_door_is_one_object() {
    let world = World::new();
    let mut client = world.unix();
    assert_eq!(client.get("/v1/http").expect(200), json!({}));
    let three = json!({ "threads": 3 });
    assert_eq!(client.call("PATCH", "/v1/http", three.clone()).expect(201), three);
    let four = json!({ "threads": 4 });
    assert_eq!(client.put("/v1/http", four.clone()).expect(200), four);
    let exported = client.get("/v1/config").text;
    assert!(exported.contains("[http]\nthreads = 4\n"), "{exported}");
    assert_eq!(client.put("/v1/http", json!({})).expect(200), json!({}));
    let error = client.put("/v1/http", json!({ "threads": 0 })).expect_error(422, "constraint");
    assert_eq!(error["place"]["column"], "threads");
    let made = client.post("/v1/tokens", json!({ "name": "o", "role": "operator" })).expect(201);
    let mut operator = world.tcp_with(made["token"].as_str());
    operator.put("/v1/http", four).expect_error(403, "permission");
}
