//! TLS to servers: which certificates are trusted, which are presented, and how all others are reported.

use super::tls_servers::{backend, start};
use paceline_tests::authority::{Authority, Relay, certify_itself};
use paceline_tests::server::paceline_binary;
use paceline_tests::{Launch, Proxy, Scratch, Upstream, tool, until};
use rustix::process::Signal;

/// Two authorities, and a server's certificate for `api.test` and 127.0.0.1 from the first.
fn certified() -> Scratch {
    let scratch = Scratch::new();
    let ca = Authority::new(&scratch, "ca");
    ca.certify("server", "DNS:api.test,IP:127.0.0.1");
    ca.certify("client", "DNS:paceline.test");
    let other = Authority::new(&scratch, "other");
    other.certify("stranger", "DNS:paceline.test");
    scratch
}

/// A plain server with TLS before it, and the daemon before both; `tls` is the value of that key.
fn world(tls: &str, more: &[&str]) -> (Upstream, Relay, Proxy) {
    let upstream = Upstream::saying("hello");
    let scratch = certified();
    let relay = Relay::start(&scratch, "server", upstream.address(), more);
    let proxy = start(scratch, &backend(&[relay.address()], &format!("tls = {tls}\n")));
    (upstream, relay, proxy)
}

#[test]
fn a_server_of_an_authority_that_is_named_is_believed() {
    let (_upstream, relay, proxy) = world("{ ca = \"ca.pem\", name = \"api.test\" }", &[]);
    let answer = proxy.connect().get("/");
    assert_eq!((answer.status, answer.text()), (200, "hello"));
    assert_eq!(
        relay.connection(),
        "tls api.test http/1.1 new -",
        "name and protocol are asked for"
    );
    // Without a name it is the host of the address, which is not sent if it is not a name.
    let (_upstream, relay, proxy) = world("{ ca = \"ca.pem\" }", &[]);
    assert_eq!(proxy.connect().get("/").text(), "hello");
    assert_eq!(relay.connection(), "tls - http/1.1 new -");
}

/// Nothing of a request reaches a server that is not trusted; the client gets the reason, but no names.
#[test]
fn whoever_is_not_believed_gets_nothing() {
    for (tls, told, logged) in [
        ("{ ca = \"ca.pem\", name = \"else.test\" }", "for another name", "else.test"),
        ("{ ca = \"other.pem\", name = \"api.test\" }", "that is not believed", "UnknownIssuer"),
        ("true", "that is not believed", "UnknownIssuer"),
    ] {
        let (upstream, _relay, proxy) = world(tls, &[]);
        let answer = proxy.connect().get("/");
        let start = "502 the server cannot be connected to: TLS: its certificate is ";
        assert!(answer.status == 502 && answer.text().starts_with(start), "{}", answer.text());
        assert!(answer.text().trim_end().ends_with(told), "{tls}: {}", answer.text());
        assert!(!answer.text().contains("test"), "{}", answer.text());
        proxy.daemon.log_line(&["cannot be connected to", "app/0", "TLS", logged]).unwrap();
        assert_eq!(proxy.records(1)[0]["error"], "bad_gateway");
        assert_eq!(upstream.connections(), 0);
    }
}

#[test]
fn without_verify_any_certificate_is_taken() {
    let (_upstream, relay, proxy) = world("{ verify = false, name = \"else.test\" }", &[]);
    assert_eq!(proxy.connect().get("/").text(), "hello");
    assert_eq!(relay.connection(), "tls else.test http/1.1 new -");
}

/// The usual certificate of an internal server: self-signed, and listed.
#[test]
fn a_certificate_that_vouches_for_itself_is_believed_if_it_is_named() {
    let upstream = Upstream::saying("hello");
    for (ca, name, status) in
        [("own", "own.test", 200), ("own", "else.test", 502), ("other", "own.test", 502)]
    {
        let scratch = Scratch::new();
        certify_itself(&scratch, "own", "DNS:own.test");
        certify_itself(&scratch, "other", "DNS:own.test");
        let relay = Relay::start(&scratch, "own", upstream.address(), &[]);
        let tls = format!("tls = {{ ca = \"{ca}.pem\", name = \"{name}\" }}\n");
        let proxy = start(scratch, &backend(&[relay.address()], &tls));
        let answer = proxy.connect().get("/");
        assert_eq!(answer.status, status, "{ca} {name}: {}", answer.text());
    }
}

/// `tls = true` trusts what the system trusts: here a system with its own authority.
#[test]
fn the_authorities_of_the_system_are_believed_unless_others_are_named() {
    let upstream = Upstream::saying("hello");
    let scratch = certified();
    let relay = Relay::start(&scratch, "server", upstream.address(), &[]);
    let config = scratch.write("http.toml", backend(&[relay.address()], "tls = true\n"));
    let launch = Launch::new(&scratch).option("--config", config);
    let daemon = launch.env("SSL_CERT_FILE", scratch.join("ca.pem")).start().unwrap();
    let (_, address) = daemon.ready.split_once("http web ").unwrap();
    let address = &address[..address.find([',', ';']).unwrap()];
    assert_eq!(paceline_tests::Web::connect(address).get("/").text(), "hello");
}

#[test]
fn a_server_can_want_to_know_who_we_are() {
    let clients = |tls: &str| {
        let upstream = Upstream::saying("hello");
        let scratch = certified();
        let ca = scratch.join("ca.pem").display().to_string();
        let relay = Relay::start(&scratch, "server", upstream.address(), &["--clients", &ca]);
        let proxy = start(scratch, &backend(&[relay.address()], &format!("tls = {tls}\n")));
        let answer = proxy.connect().get("/");
        let shaken = if answer.status == 200 { vec![relay.connection()] } else { relay.more() };
        (answer.status, answer.text().to_owned(), shaken, upstream.count())
    };
    let known = "{ ca = \"ca.pem\", certificate = \"client.pem\", key = \"client.key\" }";
    let answered = (200, "hello".into(), vec!["tls - http/1.1 new client".into()], 1);
    assert_eq!(clients(known), answered);
    for tls in ["{ ca = \"ca.pem\" }".to_owned(), known.replace("client", "stranger")] {
        let (status, text, shaken, count) = clients(&tls);
        assert_eq!((status, shaken.len(), count), (502, 0, 0), "{tls}");
        assert!(text.contains("server closed the connection"), "{text}");
    }
}

/// A unix socket has no host to verify, so the settings must name it.
#[test]
fn a_unix_socket_is_verified_by_the_name_that_is_said() {
    let upstream = Upstream::saying("hello");
    let scratch = certified();
    let socket = format!("unix:{}", scratch.join("tls.sock").display());
    let relay = Relay::start(&scratch, "server", upstream.address(), &["--listen", &socket]);
    let tls = "tls = { ca = \"ca.pem\", name = \"api.test\" }\n";
    let proxy = start(scratch, &backend(&[relay.address()], tls));
    assert_eq!(proxy.connect().get("/").text(), "hello");
    assert_eq!(relay.connection(), "tls api.test http/1.1 new -");
}

/// At the start, a file that cannot be read ends the daemon with one line that names the file.
#[test]
fn a_bad_file_ends_the_start() {
    for (tls, expected) in [
        ("ca = \"none.pem\"", "none.pem"),
        ("ca = \"http.toml\"", "there is no certificate in"),
        ("certificate = \"client.pem\", key = \"ca.key\"", "is no key of the certificate"),
    ] {
        let scratch = certified();
        let tls = format!("tls = {{ {tls} }}\n");
        let config = scratch.write("http.toml", backend(&["127.0.0.1:1"], &tls));
        let ended = Launch::new(&scratch).option("--config", config).start().unwrap_err();
        assert!(!ended.status.success());
        assert!(
            ended.log.contains("backend app: ") && ended.log.contains(expected),
            "{}",
            ended.log
        );
    }
}

/// A renewed file is read on SIGHUP. A broken one is reported, and the previous one stays in use.
#[test]
fn files_are_read_again_and_a_bad_one_changes_nothing() {
    let upstream = Upstream::saying("hello");
    let scratch = certified();
    let ca = std::fs::read(scratch.join("ca.pem")).unwrap();
    let _ = scratch.write("changing.pem", &ca);
    let relay = Relay::start(&scratch, "server", upstream.address(), &[]);
    let tls = "tls = { ca = \"changing.pem\", name = \"api.test\" }\n";
    let proxy = start(scratch, &backend(&[relay.address()], tls));
    assert_eq!(proxy.connect().get("/").status, 200);
    let _ = proxy.scratch.write("changing.pem", "nonsense");
    proxy.daemon.signal(Signal::HUP);
    proxy.daemon.log_line(&["a backend is not as configured", "changing.pem", "app"]).unwrap();
    let problem = || proxy.daemon.api().get("/v1/status").expect(200)["http"]["problem"].clone();
    until(problem, |told| told.as_str().is_some_and(|told| told.starts_with("backend app: ")));
    assert_eq!(proxy.connect().get("/").status, 200, "it keeps what it had");
    // An authority other than the server's: idle connections are no longer used.
    let other = std::fs::read(proxy.scratch.join("other.pem")).unwrap();
    let _ = proxy.scratch.write("changing.pem", other);
    until(|| proxy.connect().get("/").status, |status| *status == 502);
    until(problem, serde_json::Value::is_null);
    let _ = proxy.scratch.write("changing.pem", ca);
    proxy.daemon.signal(Signal::HUP);
    until(|| proxy.connect().get("/").status, |status| *status == 200);
    assert!(relay.connection().starts_with("tls api.test"));
}

/// A backend that an edit adds is usable at once, and never without TLS.
#[test]
fn an_edit_turns_tls_on_and_off() {
    let (upstream, relay, proxy) = world("{ ca = \"ca.pem\", name = \"api.test\" }", &[]);
    assert_eq!(proxy.connect().get("/").status, 200);
    let plain = backend(&[upstream.address()], "");
    proxy.reload(&plain);
    until(|| proxy.connect().get("/").status, |status| *status == 200);
    let tls = "tls = { ca = \"ca.pem\", name = \"api.test\" }\n";
    let added = backend(&[relay.address()], tls).replace("\"app\"", "\"added\"");
    for _ in 0..20 {
        proxy.reload(&plain);
        proxy.reload(&added);
        let answer = proxy.connect().get("/");
        assert_eq!((answer.status, answer.text()), (200, "hello"));
    }
}

/// A database with the schema before TLS to servers is converted, and its backends use no TLS.
#[test]
fn a_database_from_before_tls_opens() {
    let scratch = Scratch::new();
    let schema = include_str!("../../../../docs/paceline.ovsschema");
    let mut schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    schema["version"] = "0.4.0".into();
    let columns = schema["tables"]["Backend"]["columns"].as_object_mut().unwrap();
    columns.retain(|column, _| {
        !column.starts_with("tls") && !["queued", "refused"].contains(&&**column)
    });
    let columns = schema["tables"]["Frontend"]["columns"].as_object_mut().unwrap();
    assert!(columns.remove("cut").is_some());
    let schema = scratch.write("old.ovsschema", schema.to_string()).display().to_string();
    std::fs::create_dir(scratch.join("data")).unwrap();
    let file = scratch.join("data/paceline.db").display().to_string();
    let binary = paceline_binary().display().to_string();
    tool::run(&binary, &["ovsdb", "create", &file, &schema]).unwrap();
    let row = r#"["Paceline", {"op": "insert", "table": "Backend", "row":
        {"name": "app", "persistent": true, "retries": 7}}]"#;
    tool::run("ovsdb-tool", &["transact", &file, row]).unwrap();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut app = daemon.api().get("/v1/backends/app").expect(200);
    let figures = app.as_object_mut().unwrap().remove("figures").unwrap();
    assert_eq!(figures["queued"], 0, "the new columns are there");
    assert_eq!(app, serde_json::json!({ "name": "app", "persistent": true, "retries": 7 }));
    let tls = serde_json::json!({ "tls": true });
    let patched = daemon.api().call("PATCH", "/v1/backends/app", &tls).expect(200);
    assert_eq!(patched["tls"], true);
}
