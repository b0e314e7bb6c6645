//! Tests which attributes are read from a head, and under which configuration.

use super::{Peer, Speaker, UserFrom, cookie, decode_base64, forwarded_address, gathered, user};
use crate::serve::clients::Client;
use crate::serve::table::{Extras, LiveFrontend};
use crate::wire::{Forwarded, RequestHead, RequestWriter};
use paceline_engine::{Config, Engine, Outcome, Plan, prepare};
use paceline_net::listen::ListenPoint;
use paceline_routing::Frontend;
use paceline_rules::{Action, Rule, Then};
use paceline_types::{Known, Request, Time};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

fn head(fields: &str) -> (RequestHead, String) {
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let mut head = RequestHead::default();
    head.read(text.as_bytes()).unwrap();
    (head, text)
}

fn writer<'a>(head: &'a RequestHead, text: &'a str) -> RequestWriter<'a> {
    let forwarded = Forwarded { peer: "192.0.2.7", is_tls: false, trusts: false };
    RequestWriter { head, bytes: text.as_bytes(), forwarded, upgrades: false }
}

#[test]
fn addresses_of_proxies_are_read_h5() {
    for (text, address) in [
        (" 192.0.2.1 ", Some("192.0.2.1")),
        ("192.0.2.1:4711", Some("192.0.2.1")),
        ("[2001:db8::1]", Some("2001:db8::1")),
        ("[2001:db8::1]:80", Some("2001:db8::1")),
        ("::ffff:10.0.0.1", Some("10.0.0.1")),
        ("unknown", None),
        ("", None),
    ] {
        let read = forwarded_address(text).map(|address| address.to_string());
        assert_eq!(read.as_deref(), address, "{text}");
    }
}

/// D1: a waiting request counts for the client that it is believed to come from. A trusted proxy that names no client
/// stands for many clients.
#[test]
fn requests_count_for_the_client_that_is_believed_d1_h5() {
    let place = Arc::new(ListenPoint { number: 1, address: "127.0.0.1:0".parse().unwrap() });
    let trusting =
        Frontend { trusted: vec!["10.0.0.0/8".parse().unwrap()], ..Frontend::new("web", vec![]) };
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let (near, far) = (ip("10.0.0.1"), ip("192.0.2.1"));
    for (speaker, forwarded, expected) in [
        (Speaker::Ip(far), None, Client::Address(far)),
        (Speaker::Ip(near), Some(far), Client::Address(far)),
        (Speaker::Ip(near), Some(ip("10.0.0.2")), Client::Trusted),
        (Speaker::Ip(near), None, Client::Trusted),
        (Speaker::Unix(7), Some(far), Client::Address(far)),
        (Speaker::Unix(7), None, Client::Trusted),
        (Speaker::Unknown, None, Client::Unnamed),
    ] {
        let peer = Peer::new(speaker, Arc::clone(&place));
        assert_eq!(peer.counted_as(&trusting, forwarded), expected, "{speaker:?} {forwarded:?}");
    }
    let unix = Peer::new(Speaker::Unix(7), place);
    assert_eq!(unix.counted_as(&Frontend::new("web", vec![]), None), Client::User(7));
}

/// The test vectors of RFC 4648 10, and the other alphabet.
#[test]
fn base64_is_read() {
    for (text, bytes) in [
        ("", ""),
        ("Zg==", "f"),
        ("Zm8=", "fo"),
        ("Zm9v", "foo"),
        ("Zm9vYmE", "fooba"),
        ("Zm9vYmFy", "foobar"),
    ] {
        assert_eq!(decode_base64(text.as_bytes()).unwrap(), bytes.as_bytes(), "{text}");
    }
    assert_eq!(decode_base64(b"-_-_"), decode_base64(b"+/+/"));
    assert_eq!(decode_base64(b"Z"), None);
    assert_eq!(decode_base64(b"Z m"), None);
}

#[test]
fn users_are_named_by_what_is_configured() {
    let basic = "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n";
    // {"alg":"none"} . {"sub":"ann","x":1}
    let bearer = "Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4iLCJ4IjoxfQ.\r\n";
    for (fields, from, expected) in [
        (basic, UserFrom::Basic, Some("Aladdin")),
        ("Authorization: bASIC   YW5uOng=\r\n", UserFrom::Basic, Some("ann")),
        (basic, UserFrom::Bearer, None),
        (bearer, UserFrom::Bearer, Some("ann")),
        (bearer, UserFrom::Basic, None),
        ("Authorization: Bearer opaque\r\n", UserFrom::Bearer, None),
        ("Authorization: Bearer ya29.opaque-_~+/==\r\n", UserFrom::Bearer, None),
        // {}
        ("Authorization: Bearer e30.e30.e30\r\n", UserFrom::Bearer, None),
        ("Authorization: Digest username=\"ann\"\r\n", UserFrom::Basic, None),
        (&format!("{basic}Connection: authorization\r\n"), UserFrom::Basic, None),
        ("", UserFrom::Basic, None),
    ] {
        let (head, text) = head(fields);
        let user = user(from, &writer(&head, &text));
        assert_eq!(user.as_ref().map(Option::as_deref), Ok(expected), "{fields}");
    }
}

/// H4: if a server may read a user where this door reads none, or reads another one, the request is refused.
#[test]
fn credentials_that_can_be_read_in_two_ways_are_refused_h4() {
    for fields in [
        "Basic YW5uOng=\r\nAuthorization: Basic Ym9iOng=",
        "Bearer opaque\r\nAuthorization: Basic YW5uOng=",
        "Basic\tYW5uOng=",
        "Basic \tYW5uOng=",
        "BasicYW5uOng=",
        "basic",
        "Basic YW5u*Ong=",
        "Basic YW5u-Ong=",
        "Basic YW5u Ong=",
        "Basic YW5uOng=, Basic Ym9iOng=",
        // "ann", a name that is not UTF-8, "ann\n:x"
        "Basic YW5u",
        "Basic 6TpY",
        "Basic YW5uCjp4",
    ] {
        let (head, text) = head(&format!("Authorization: {fields}\r\n"));
        assert!(user(UserFrom::Basic, &writer(&head, &text)).is_err(), "{fields}");
    }
    for fields in [
        "Bearer\teyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.",
        "Bearer eyJhbGciOiJub25lIn0.eyJzdWIi*OiJhbm4ifQ.",
        "Bearer eyJhbGciOiJub25lIn0.eyJzdWIi+OiJhbm4ifQ.",
        "Bearer a.b.c",
        // {"sub":1}
        "Bearer e30.eyJzdWIiOjF9.e30",
        "Bearer",
    ] {
        let (head, text) = head(&format!("Authorization: {fields}\r\n"));
        assert!(user(UserFrom::Bearer, &writer(&head, &text)).is_err(), "{fields}");
    }
}

#[test]
fn cookies_are_found_by_their_whole_name() {
    let (head, text) = head("Cookie: aid=1; id=2\r\ncookie: other=\"3\"\r\n");
    let writer = writer(&head, &text);
    let value = |name| cookie(&writer, name).map(|value| value.into_owned());
    assert_eq!(value("id").as_deref(), Some("2"));
    assert_eq!(value("other").as_deref(), Some("\"3\""));
    assert_eq!(value("i"), None);
}

/// H4: the server does not get this cookie, so rules do not see it.
#[test]
fn cookies_that_go_no_further_are_not_there_h4() {
    let (head, text) = head("Cookie: id=2\r\nConnection: Cookie\r\n");
    assert_eq!(cookie(&writer(&head, &text), "id"), None);
}

/// A rule that rejects when this holds.
fn guard(when: &str) -> Rule {
    Rule {
        number: 1,
        criteria: vec![],
        when: Some(when.into()),
        action: Action::Reject,
        then: Then::Stop,
        disabled: false,
        log: false,
    }
}

/// The frontend as the door knows it from the engine's configuration.
fn frontend(engine: &Engine) -> LiveFrontend {
    let extras = Extras { tls: None, pages: BTreeMap::new() };
    LiveFrontend::new(&engine.snapshot(), &Frontend::new("web", vec![]), Arc::default(), extras)
}

fn request(engine: &Engine, frontend: &LiveFrontend, fields: &str) -> Request {
    request_at("127.0.0.1:0", engine, frontend, fields)
}

/// The same for a connection that came in at this address.
fn request_at(address: &str, engine: &Engine, frontend: &LiveFrontend, fields: &str) -> Request {
    let (head, text) = head(fields);
    let place = Arc::new(ListenPoint { number: 1, address: address.parse().unwrap() });
    let peer = Peer::new(Speaker::Ip([192, 0, 2, 7].into()), Arc::clone(&place));
    let (fields_read, _) =
        frontend.fields_read(engine.snapshot().generation(), &place, || engine.snapshot());
    gathered(&fields_read, frontend, &peer, None, &writer(&head, &text)).unwrap()
}

/// H4: once an edit was answered it applies to every request, even before the door's table has caught up.
#[test]
fn a_new_rule_reads_what_the_old_table_does_not_know_h4() {
    let mut engine = Engine::new(1);
    let old = frontend(&engine);
    let when = r#"header["x-key"] != "k" || cookie["id"] == "2""#;
    let config = Config { rules: vec![guard(when)], ..Config::default() };
    engine.configure(Time(0), &Plan::new(&engine.snapshot(), config).unwrap());
    let new = frontend(&engine);
    for frontend in [&old, &new] {
        for (fields, is_let_in) in [
            ("X-Key: k\r\n", true),
            ("X-Key: j\r\n", false),
            ("", false),
            ("X-Key: k\r\nCookie: id=2\r\n", false),
        ] {
            let request = request(&engine, frontend, fields);
            let prepared = prepare(&engine.snapshot(), request).unwrap();
            let (_, outcome) = engine.submit(Time(0), prepared, &|_, _| false);
            assert_eq!(!matches!(outcome, Outcome::Refused(_)), is_let_in, "{fields}");
        }
    }
}

/// H4: the same holds for the setting of a frontend that says where the user is read.
#[test]
fn a_new_source_of_users_is_asked_at_once_h4() {
    let mut engine = Engine::new(1);
    let old = frontend(&engine);
    let listen = vec!["127.0.0.1:8080".parse().unwrap()];
    let web = Frontend { user_from: Some(UserFrom::Basic), ..Frontend::new("web", listen) };
    let config = Config { frontends: vec![web], ..Config::default() };
    engine.configure(Time(0), &Plan::new(&engine.snapshot(), config).unwrap());
    let request = request(&engine, &old, "Authorization: Basic YW5uOng=\r\n");
    assert_eq!(request.attributes.known(Known::User), "ann");
}

/// An edit may give the name of a frontend to another one before the door's table has caught up. A request is
/// evaluated for the frontend that listens where the request arrived, under the current name of that frontend.
#[test]
fn a_request_belongs_to_the_frontend_that_listens_where_it_came_in() {
    const PUBLIC: &str = "127.0.0.1:8080";
    let frontend = |name, address: &str| Frontend::new(name, vec![address.parse().unwrap()]);
    let mut engine = Engine::new(1);
    let extras = Extras { tls: None, pages: BTreeMap::new() };
    let spec = frontend("public", PUBLIC);
    let old = LiveFrontend::new(&engine.snapshot(), &spec, Arc::default(), extras);
    let mut judged_as = |frontends| {
        let config = Config { frontends, ..Config::default() };
        engine.configure(Time(0), &Plan::new(&engine.snapshot(), config).unwrap());
        let request = request_at(PUBLIC, &engine, &old, "");
        request.attributes.known(Known::Frontend).to_owned()
    };
    let other = "127.0.0.1:8081";
    let swapped = vec![frontend("internal", PUBLIC), frontend("public", other)];
    assert_eq!(judged_as(swapped), "internal");
    assert_eq!(judged_as(vec![frontend("renamed", PUBLIC)]), "renamed");
    assert_eq!(judged_as(vec![frontend("public", PUBLIC)]), "public");
    assert_eq!(judged_as(vec![frontend("public", other)]), "", "its name is another's now");
}
