//! The attributes of a request, and the client that it is attributed to (H4, H5).

use super::curl;
use paceline_tests::{Proxy, Upstream, Web, until};
use std::io::Write as _;

/// The status of a GET with these lines in its head.
#[track_caller]
fn status(proxy: &Proxy, target: &str, fields: &str) -> u16 {
    proxy.connect().get_with(target, fields).status
}

#[test]
fn rules_match_path_method_header_cookie_and_query() {
    let upstream = Upstream::saying("ok");
    let proxy = Proxy::before(
        upstream.address(),
        r#"
        [[rule]]
        match = { path = "/admin/*" }
        mode = "glob"
        reject = true
        [[rule]]
        match = { method = "DELETE" }
        reject = true
        [[rule]]
        match = { "header.x-tenant" = "evil" }
        reject = true
        then = "continue"
        [[rule]]
        match = { "cookie.session" = "stolen" }
        reject = true
        [[rule]]
        when = 'query.contains("debug=1") || authority == "internal"'
        reject = true
        [[rule]]
        match = { text = "/really/admin?override" }
        set = 0
        "#,
    );
    for (target, fields, expected) in [
        ("/", "", 200),
        ("/admin/users", "", 403),
        ("/ADMIN/users", "", 200),
        // Rules match what is forwarded, however it was written (H4).
        ("/x/../%61dmin/users", "", 403),
        ("http://test/admin/users", "", 403),
        ("/", "X-Tenant: evil\r\n", 403),
        ("/", "x-TENANT:evil\r\n", 403),
        ("/", "X-Tenant: good\r\n", 200),
        ("/", "Cookie: a=b; session=stolen\r\n", 403),
        ("/", "Cookie: xsession=stolen\r\n", 200),
        ("/?debug=1", "", 403),
        ("/?debug=0", "", 200),
        ("/really/admin?override", "X-Tenant: evil\r\n", 200),
    ] {
        assert_eq!(status(&proxy, target, fields), expected, "{target} {fields}");
    }
    let mut web = proxy.connect();
    web.send("DELETE /x HTTP/1.1\r\nHost: test\r\n\r\nGET / HTTP/1.1\r\nHost: internal\r\n\r\n")
        .unwrap();
    assert_eq!((web.answer().status, web.answer().status), (403, 403));
    assert!(upstream.lines().iter().all(|line| !line.contains("/admin/")), "{upstream:?}");
}

/// Rules that reject every request whose field is missing or wrong.
const GUARDS: &str = r#"user = "basic"
    [[rule]]
    when = 'path == "/key" && header["x-key"] != "k"'
    reject = true
    [[rule]]
    when = 'path == "/host" && header["host"] != "public.example"'
    reject = true
    [[rule]]
    when = 'path == "/for" && header["x-forwarded-for"] != "127.0.0.1"'
    reject = true
    [[rule]]
    when = 'path == "/twin" && header["x_forwarded_for"] == ""'
    reject = true
    [[rule]]
    when = 'path == "/cookie" && cookie["id"] != "1"'
    reject = true
    [[rule]]
    when = 'path == "/user" && user != "ann"'
    reject = true
    [[rule]]
    when = 'path == "/upgrade" && header["upgrade"] != "websocket"'
    reject = true
    [[rule]]
    when = 'path == "/length" && header["content-length"] != "0"'
    reject = true
    "#;

/// Rules do not see a field that is not forwarded, and they see the fields that the proxy writes as it writes them
/// (H4, H5).
#[test]
fn rules_see_fields_as_the_server_gets_them_h4_h5() {
    let upstream = Upstream::saying("ok");
    let proxy = Proxy::before(upstream.address(), GUARDS);
    let ann = "Authorization: Basic YW5uOng=\r\n";
    let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n";
    for (target, fields, expected) in [
        ("/key", "X-Key: k\r\n".to_owned(), 200),
        ("/key", "X-Key: k\r\nConnection: X-Key\r\n".into(), 403),
        ("/key", "Connection: close, x-keys\r\nX-Key: k\r\n".into(), 200),
        ("http://public.example/host", String::new(), 200),
        ("http://secret.example/host", String::new(), 403),
        ("/for", "X-Forwarded-For: 10.0.0.1\r\n".into(), 200),
        ("/twin", "X_Forwarded_For: 10.0.0.1\r\n".into(), 403),
        ("/cookie", "Cookie: id=1\r\n".into(), 200),
        ("/cookie", "Cookie: id=1\r\nConnection: cookie\r\n".into(), 403),
        ("/user", ann.into(), 200),
        ("/user", format!("{ann}Connection: Authorization\r\n"), 403),
        ("/upgrade", upgrade.into(), 200),
        ("/upgrade", "Upgrade: websocket\r\n".into(), 403),
        ("/length", "Content-Length: 000\r\n".into(), 200),
    ] {
        assert_eq!(status(&proxy, target, &fields), expected, "{target} {fields}");
    }
    let mut web = proxy.connect();
    web.send("GET http://secret.example/host HTTP/1.1\r\nHost: public.example\r\n\r\n").unwrap();
    assert_eq!(web.answer().status, 403, "the server would get the other host");
    web.send("GET /host HTTP/1.1\r\nHost: Public.EXAMPLE.:80\r\n\r\n").unwrap();
    assert_eq!(web.answer().status, 200, "that is how the server gets it");
}

/// The same over HTTP/2.
#[test]
fn rules_see_fields_of_http2_as_the_server_gets_them_h4_h5() {
    let upstream = Upstream::saying("ok");
    let proxy = Proxy::before(upstream.address(), GUARDS);
    let ask = |target: &str, field: &str| {
        let version = ["--http2-prior-knowledge", "--output", "/dev/null"];
        let words = ["--header", field, "--write-out", "%{http_version} %{http_code}"];
        curl(&[&version[..], &words, &[&proxy.url(target)]].concat())
    };
    assert_eq!(ask("/key", "X-Key: k"), "2 200");
    assert_eq!(ask("/host", "Host: Public.Example."), "2 200");
    assert_eq!(ask("/for", "X-Forwarded-For: 10.0.0.1"), "2 200");
    assert_eq!(ask("/twin", "X_Forwarded_For: 10.0.0.1"), "2 403");
    assert_eq!(ask("/cookie", "Cookie: id=1"), "2 200");
}

/// A rejection names the rule.
#[test]
fn a_rejection_names_the_rule() {
    let upstream = Upstream::saying("ok");
    let rule = "[[rule]]\nnumber = 30\nmatch = { path = \"/no\" }\nreject = true\n";
    let proxy = Proxy::before(upstream.address(), rule);
    let answer = proxy.connect().get_with("/no", "Accept: application/json\r\n");
    let body = answer.json();
    assert_eq!(
        (answer.status, &body["rule"], &body["error"]),
        (403, &30.into(), &"rejected".into())
    );
    assert_eq!(answer.field("retry-after"), None, "another try has no chance");
}

#[test]
fn the_user_is_the_name_of_basic_or_the_subject_of_bearer() {
    let upstream = Upstream::saying("ok");
    let rule = "[[rule]]\nmatch = { user = \"ann\" }\nreject = true\n";
    let with =
        |from: &str| Proxy::before(upstream.address(), &format!("user = \"{from}\"\n{rule}"));
    let (basic, bearer) = (with("basic"), with("bearer"));
    // {"alg":"none"} . {"sub":"ann"}
    let token = "Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.\r\n";
    assert_eq!(
        curl(&["-u", "ann:x", "-o", "/dev/null", "-w", "%{http_code}", &basic.url("/")]),
        "403"
    );
    assert_eq!(curl(&["-u", "bob:x", "-w", "%{http_code}", &basic.url("/")]), "ok200");
    assert_eq!((status(&basic, "/", token), status(&bearer, "/", token)), (200, 403));
    assert_eq!(status(&bearer, "/", "Authorization: Bearer opaque\r\n"), 200);
    let seen = upstream.seen();
    assert!(seen[0].field("authorization").is_some(), "the server gets it, to check it");
}

/// A server may read a user where rules would see none, or another one (H4).
#[test]
fn a_user_that_can_be_read_in_two_ways_is_refused_h4() {
    let upstream = Upstream::saying("ok");
    let rule = "[[rule]]\nmatch = { user = \"ann\" }\nreject = true\n";
    let proxy = Proxy::before(upstream.address(), &format!("user = \"basic\"\n{rule}"));
    let ann = "Authorization: Basic YW5uOng=\r\n";
    let bob = "Authorization: Basic Ym9iOng=\r\n";
    for fields in [
        &format!("{bob}{ann}"),
        "Authorization: Basic\tYW5uOng=\r\n",
        "Authorization: Basic YW5u*Ong=\r\n",
    ] {
        assert_eq!(status(&proxy, "/", fields), 400, "{fields}");
    }
    assert_eq!((status(&proxy, "/", ann), status(&proxy, "/", bob)), (403, 200));
    assert_eq!(upstream.count(), 1);
}

const CLIENT_RULE: &str = "[[rule]]\nmatch = { client = \"203.0.113.9\" }\nreject = true\n";

/// A peer that is not listed cannot speak for other clients (H5).
#[test]
fn x_forwarded_for_is_believed_from_listed_peers_only_h5() {
    let upstream = Upstream::saying("ok");
    let proxy =
        Proxy::before(upstream.address(), &format!("trusted = [\"127.0.0.1\"]\n{CLIENT_RULE}"));
    let ask = |from: &str, forwarded: &str| {
        let field = format!("X-Forwarded-For: {forwarded}");
        let proto = "X-Forwarded-Proto: https";
        let words = ["--interface", from, "-H", &field, "-H", proto, "-o", "/dev/null"];
        curl(&[&words[..], &["-w", "%{http_code}", &proxy.url("/")]].concat())
    };
    assert_eq!(ask("127.0.0.1", "203.0.113.9"), "403");
    // The last address that is not trusted counts; any client could have written what precedes it.
    assert_eq!(ask("127.0.0.1", "10.1.1.1, 203.0.113.9, 127.0.0.1"), "403");
    assert_eq!(ask("127.0.0.1", "203.0.113.9, 198.51.100.7"), "200");
    assert_eq!(ask("127.0.0.2", "203.0.113.9"), "200");
    let seen = upstream.seen();
    assert_eq!(seen[0].field("x-forwarded-for"), Some("203.0.113.9, 198.51.100.7, 127.0.0.1"));
    assert_eq!(seen[0].field("x-forwarded-proto"), Some("https"));
    assert_eq!(seen[1].field("x-forwarded-for"), Some("127.0.0.2"));
    assert_eq!(seen[1].field("x-forwarded-proto"), Some("http"));
}

/// A client that resets its connection at once keeps its identity: the system forgets the address of the connection,
/// but the door must not take it for another client (H5).
#[test]
fn a_client_that_resets_early_is_not_trusted_for_it_h5() {
    let upstream = Upstream::saying("ok");
    let settings = format!("trusted = [\"10.0.0.0/8\"]\n{CLIENT_RULE}");
    let proxy = Proxy::before(upstream.address(), &settings);
    for _ in 0..100 {
        let mut client = std::net::TcpStream::connect(proxy.address("web")).unwrap();
        let head = "POST /x HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.9.9.9\r\n\
                    Content-Length: 2\r\n\r\nhi";
        client.write_all(head.as_bytes()).unwrap();
        rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO)).unwrap();
    }
    assert_eq!(proxy.connect().get("/last").status, 200);
    for seen in upstream.seen() {
        assert_eq!(seen.field("x-forwarded-for"), Some("127.0.0.1"), "{}", seen.line());
    }
}

/// A peer that the settings no longer trust is not trusted, however long its connection has been open (H5).
#[test]
fn a_kept_connection_is_trusted_no_longer_than_its_peer_h5() {
    let upstream = Upstream::saying("ok");
    let settings = format!("trusted = [\"127.0.0.1\"]\n{CLIENT_RULE}");
    let proxy = Proxy::before(upstream.address(), &settings);
    let mut web = proxy.connect();
    let forwarded = "X-Forwarded-For: 203.0.113.9\r\n";
    assert_eq!(web.get_with("/", forwarded).status, 403);
    proxy.reload(&Proxy::config(upstream.address(), &settings.replace("127.0.0.1", "10.0.0.0/8")));
    until(|| web.get_with("/", forwarded).status, |status| *status == 200);
    assert_eq!(upstream.seen()[0].field("x-forwarded-for"), Some("127.0.0.1"));
}

const PROXIED: &str = "proxy_protocol = true\ntrusted = [\"127.0.0.1\", \"::1\"]\n";

/// The header of version 2 of the PROXY protocol for TCP over IPv4.
fn version_2(client: [u8; 4]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend(client);
    header.extend([127, 0, 0, 1, 0x10, 0, 0, 80]);
    header
}

#[test]
fn the_proxy_protocol_says_who_the_client_is_h5() {
    let upstream = Upstream::saying("ok");
    let proxy = Proxy::before(upstream.address(), &format!("{PROXIED}{CLIENT_RULE}"));
    let ask = |header: &[u8]| {
        let mut web = proxy.connect();
        web.send(header).unwrap();
        // One connection belongs to one client, for every request on it.
        let statuses = [web.get("/").status, web.get("/").status];
        assert_eq!(statuses[0], statuses[1]);
        statuses[0]
    };
    assert_eq!(ask(b"PROXY TCP4 203.0.113.9 127.0.0.1 4096 80\r\n"), 403);
    assert_eq!(ask(b"PROXY TCP4 203.0.113.8 127.0.0.1 4096 80\r\n"), 200);
    assert_eq!(ask(b"PROXY TCP6 2001:db8::1 ::1 4096 80\r\n"), 200);
    assert_eq!(ask(b"PROXY UNKNOWN\r\n"), 200);
    assert_eq!(ask(&version_2([203, 0, 113, 9])), 403);
    assert_eq!(ask(&version_2([203, 0, 113, 7])), 200);
    // A health check of the balancer itself (command LOCAL).
    assert_eq!(ask(b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"), 200);
    let clients: Vec<_> = upstream
        .seen()
        .iter()
        .map(|seen| seen.field("x-forwarded-for").unwrap().to_owned())
        .collect();
    let expected = ["203.0.113.8", "2001:db8::1", "127.0.0.1", "203.0.113.7", "127.0.0.1"];
    assert_eq!(clients.iter().step_by(2).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    assert_eq!(curl(&["--haproxy-protocol", &proxy.url("/")]), "ok");
}

#[test]
fn a_connection_without_the_proxy_header_or_from_a_stranger_is_closed() {
    let upstream = Upstream::saying("ok");
    let proxy = Proxy::before(upstream.address(), PROXIED);
    let mut web = proxy.connect();
    web.ask("/", "");
    assert!(web.try_answer(false).is_err());
    let stranger = ["--interface", "127.0.0.2", "--haproxy-protocol", "--max-time", "60"];
    let url = proxy.url("/");
    let words = [&stranger[..], &["-sS", &url]].concat();
    assert!(paceline_tests::tool::run("curl", &words).is_err());
    assert_eq!(upstream.count(), 0);
}

/// Through a unix socket, where a peer has no address: it counts as listed if any address is listed.
#[test]
fn a_frontend_listens_at_a_unix_socket() {
    let upstream = Upstream::saying("ok");
    let scratch = paceline_tests::Scratch::new();
    let socket = format!("unix:{}", scratch.join("web.sock").display());
    let config = Proxy::config(upstream.address(), CLIENT_RULE);
    let proxy = Proxy::start(&config.replace("127.0.0.1:0", &socket));
    assert_eq!(proxy.address("web"), socket);
    let forwarded = "X-Forwarded-For: 203.0.113.9\r\n";
    assert_eq!(Web::connect(&socket).get_with("/", forwarded).status, 200);
    assert_eq!(upstream.seen()[0].field("x-forwarded-for"), Some("unix"));
    let path = socket.strip_prefix("unix:").unwrap();
    assert_eq!(curl(&["--unix-socket", path, "http://test/"]), "ok");
}
