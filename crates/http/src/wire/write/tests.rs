//! Tests what servers and clients are sent, from RFC 9110, RFC 9112 and the promises H2 to H5.

use super::{Forwarded, RequestWriter, ResponseWriter, write_trailers};
use crate::wire::request::RequestHead;
use crate::wire::response::ResponseHead;

fn sent(text: &str, trusts: bool, upgrades: bool) -> String {
    let mut head = RequestHead::default();
    head.read(text.as_bytes()).unwrap();
    let forwarded = Forwarded { peer: "192.0.2.7", is_tls: false, trusts };
    let mut out = vec![];
    RequestWriter { head: &head, bytes: text.as_bytes(), forwarded, upgrades }.write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_request_is_written_anew_h2_h3() {
    let text = "POST http://b/%61/../c?d HTTP/1.1\r\nhost: a\r\nX-A:  1 \r\nConnection: x-hop, close\r\n\
                X-Hop: secret\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nTE: gzip, trailers\r\n\
                Upgrade: websocket\r\ntransfer-encoding: CHUNKED\r\nCookie: c=1\r\n\r\n";
    let expected = "POST /c?d HTTP/1.1\r\nHost: b\r\nX-A: 1\r\nCookie: c=1\r\n\
                    X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: b\r\n\
                    Transfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE\r\n\r\n";
    assert_eq!(sent(text, false, true), expected);
}

#[test]
fn only_listed_peers_are_believed_h5() {
    let text = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.1\r\nX-Forwarded-Proto: https\r\n\
                Forwarded: for=1\r\nX-Forwarded-Host: c\r\nX_Forwarded_For: 6\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n";
    assert_eq!(
        sent(text, false, false),
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\n\
         X-Forwarded-Host: a\r\n\r\n"
    );
    assert_eq!(
        sent(text, true, false),
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\nForwarded: for=1\r\n\
         X-Forwarded-Host: c\r\nX-Forwarded-For: 203.0.113.1, 10.0.0.1, 192.0.2.7\r\n\r\n"
    );
}

#[test]
fn upgrades_pass_only_where_they_may_h3() {
    let text = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    assert!(sent(text, false, true).contains("Upgrade: websocket\r\nConnection: Upgrade\r\n"));
    assert!(!sent(text, false, false).to_lowercase().contains("upgrade"));
}

/// The options are in several fields, in any case. Names that are only similar are forwarded.
#[test]
fn all_that_connection_names_goes_no_further_h3() {
    let text = "GET / HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nConnection: X-THREE ,close,\tx-one\r\nX-Tow: 2\r\n\
                x-three: 3\r\nx-one: 1\r\nCookie: a=1\r\nX-On: 4\r\nX-Ones: 5\r\nconnection: cookie\r\n\r\n";
    assert_eq!(
        sent(text, false, false),
        "GET / HTTP/1.1\r\nHost: a\r\nX-Tow: 2\r\nX-On: 4\r\nX-Ones: 5\r\n\
         X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n"
    );
}

/// Fields that the proxy writes itself are sent whatever `Connection` names: the length of a body, the origin of a
/// request.
#[test]
fn what_the_proxy_says_itself_cannot_be_named_away_h3_h5() {
    let text = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTE: trailers\r\nX-Forwarded-For: 203.0.113.1\r\n\
                X-Forwarded-Proto: https\r\nConnection: te, content-length, x-forwarded-for, host, x-forwarded-proto\r\n\r\n";
    assert_eq!(
        sent(text, true, false),
        "POST / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.1, 192.0.2.7\r\n\
         X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\
         Content-Length: 0\r\nTE: trailers\r\nConnection: TE\r\n\r\n"
    );
}

/// Under every name that either of them knows, rules read what the server reads (H4).
#[test]
fn what_is_read_is_what_is_written_h4() {
    let heads = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET http://Secret.example:80/ HTTP/1.1\r\nHost: public.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-Key: k\r\nConnection: X-Key\r\nx-key: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-Key: 1\r\nX-Other: 3\r\nx-KEY: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1\r\nx-forwarded-for:\r\nX_Forwarded_For: 2\r\n\
         X-Forwarded-Host: b\r\nForwarded: for=1\r\nX-Forwarded-Proto: ftp\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 007\r\nExpect: 100-continue\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 7\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\nTrailer: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nTE: trailers\r\nConnection: Upgrade, TE\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nTE: gzip;q=1, trailers\r\nKeep-Alive: 1\r\nProxy-Authorization: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: cookie, authorization\r\nCookie: a=1\r\nAuthorization: x\r\n\r\n",
    ];
    for text in heads {
        for (trusts, upgrades) in [(false, false), (true, true)] {
            check_reads(text, trusts, upgrades);
        }
    }
}

fn check_reads(text: &str, trusts: bool, upgrades: bool) {
    let mut head = RequestHead::default();
    head.read(text.as_bytes()).unwrap();
    let forwarded = Forwarded { peer: "192.0.2.7", is_tls: true, trusts };
    let writer = RequestWriter { head: &head, bytes: text.as_bytes(), forwarded, upgrades };
    let mut out = vec![];
    writer.write(&mut out);
    let out = String::from_utf8(out).unwrap();
    let fields = |text: &str| -> Vec<(String, String)> {
        let lines = text.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect()
    };
    let (asked, got) = (fields(text), fields(&out));
    for (name, _) in asked.iter().chain(&got) {
        let values: Vec<_> = got.iter().filter(|own| own.0 == *name).map(|own| &*own.1).collect();
        let mut read = vec![];
        let is_found = writer.add_values(name.as_bytes(), &mut read);
        assert_eq!(is_found, !values.is_empty(), "{name} of {text} as {out}");
        assert_eq!(String::from_utf8(read).unwrap(), values.join(", "), "{name} of {text}");
    }
}

#[test]
fn an_empty_body_stays_said() {
    let text = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert!(sent(text, false, true).contains("Content-Length: 0\r\n"));
}

fn answered(text: &str, is_11: bool, keeps: bool, is_head: bool) -> String {
    let mut head = ResponseHead::default();
    head.read(text.as_bytes(), is_head).unwrap();
    let mut out = vec![];
    let bytes = text.as_bytes();
    ResponseWriter { head: &head, bytes, is_11, keeps, upgrades: false }.write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_response_is_written_for_its_client() {
    let text = "HTTP/1.1 200 Fine\r\nX-A: 1\r\nConnection: x-hop\r\nX-Hop: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunked = "HTTP/1.1 200 Fine\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(answered(text, true, true, false), chunked);
    let closed = "HTTP/1.1 200 Fine\r\nX-A: 1\r\nConnection: close\r\n\r\n";
    assert_eq!(answered(text, false, false, false), closed, "HTTP/1.0 knows no chunks");
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n";
    assert_eq!(answered(head, true, true, true), head, "HEAD keeps the length");
    assert_eq!(
        answered(head, false, true, false),
        "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\n"
    );
    let none = "HTTP/1.1 204 No\r\n\r\n";
    assert_eq!(answered(none, true, true, false), none);
}

#[test]
fn an_answer_to_an_upgrade_keeps_it_whatever_else_connection_names_h3() {
    let text =
        "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade, X-Hop\r\nX-Hop: 1\r\n\r\n";
    let mut head = ResponseHead::default();
    head.read(text.as_bytes(), false).unwrap();
    let (mut out, bytes) = (vec![], text.as_bytes());
    ResponseWriter { head: &head, bytes, is_11: true, keeps: true, upgrades: true }.write(&mut out);
    let expected = "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn trailers_pass_but_those_that_would_mislead() {
    let mut out = vec![];
    let trailers =
        b"X-Sum: 1\r\nContent-Length: 5\r\nHost: b\r\nTransfer-Encoding: x\r\nSet-Cookie: a\r\nContent-type: b\r\nY:2\r\n";
    write_trailers(trailers, &mut out).unwrap();
    assert_eq!(out, b"X-Sum: 1\r\nY: 2\r\n");
    assert!(write_trailers(b"X : 1\r\n", &mut vec![]).is_err());
}

/// A server may add trailers to the fields of the head, and treat underscores as dashes (H5).
#[test]
fn trailers_that_would_be_taken_for_others_do_not_pass_h5() {
    for name in ["X_Forwarded_For", "x-forwarded_proto", "CONTENT_TYPE", "Proxy_Authorization"] {
        let mut out = vec![];
        write_trailers(format!("{name}: a\r\nX_Sum: 1\r\n").as_bytes(), &mut out).unwrap();
        assert_eq!(out, b"X_Sum: 1\r\n", "{name}");
    }
}
