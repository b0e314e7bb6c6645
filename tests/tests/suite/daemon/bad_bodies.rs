//! Bad input at the API of the real daemon (promises D1, D2 and D4): each gets one clear error with its place,
//! nothing is changed, and other clients are served meanwhile.
//!
//! Slow clients are tested beside the door, where its limits can be made short.

use super::doors::{dump, launch};
use paceline_tests::api::Answer;
use paceline_tests::{Api, Daemon, Scratch};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

fn start(scratch: &Scratch) -> Daemon {
    let daemon = launch(scratch).api("127.0.0.1:0").start().unwrap();
    let pool = json!({"priority": [1, 9]});
    let _ = daemon.api().call("PUT", "/v1/pools/kept", &pool).expect(201);
    daemon
}

/// Everything that bad input could have changed.
fn state(daemon: &Daemon) -> (String, Vec<Value>) {
    let mut api = daemon.api();
    let paths = ["/v1/permits", "/v1/requests", "/v1/locks", "/v1/rules"];
    (dump(daemon), paths.map(|path| api.get(path).expect(200)).into())
}

/// Runs `check`, which must not change anything; another client is served before and after.
fn changes_nothing(daemon: &Daemon, check: impl FnOnce(&mut Api)) {
    let mut other = daemon.api();
    let before = state(daemon);
    let _ = other.get("/healthz").expect(200);
    check(&mut daemon.api());
    let _ = other.get("/healthz").expect(200);
    assert_eq!(state(daemon), before);
}

/// Checks that the response is an error of the API, and returns its message.
#[track_caller]
fn message(answer: &Answer, statuses: &[u16]) -> String {
    assert!(statuses.contains(&answer.status), "{}: {}", answer.status, answer.text);
    assert_eq!(answer.header("content-type"), Some("application/json"), "{}", answer.text);
    assert!(answer.body["error"].is_string(), "{}", answer.text);
    let message = answer.body["message"].as_str().expect(&answer.text).to_owned();
    assert!(!message.ends_with('.') && message.lines().count() == 1, "{message}");
    message
}

fn raw_body(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: p\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn what_is_not_json_says_at_which_line_and_column_d4() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let deep = [b"[".repeat(10_000), b"]".repeat(10_000)].concat();
    let objects = [b"{\"a\":".repeat(10_000), b"1".to_vec(), b"}".repeat(10_000)].concat();
    let texts: &[&[u8]] = &[
        br#"{"attributes": {"task": "x""#,
        br#"{"attributes": {"task": "x"}"#,
        b"{",
        b"{\"",
        b"   ",
        b"nul",
        b"{} {}",
        b"{},",
        b"{'cost': 1}",
        b"{cost: 1}",
        b"{\"cost\": 1,}",
        b"{\"cost\" 1}",
        b"{\"cost\": 01}",
        b"{\"cost\": 0x10}",
        b"{\"cost\": 1e999}",
        b"{\"cost\": NaN}",
        b"{\"cost\": Infinity}",
        b"{\"cost\": .5}",
        b"{} // no",
        b"\xef\xbb\xbf{}",
        b"{\"attributes\": {\"task\": \"\xff\"}}",
        b"{\"attributes\": {\"task\": \"\xc3\x28\"}}",
        b"{\"attributes\": {\"task\": \"\xed\xa0\x80\"}}",
        b"{\"attributes\": {\"task\": \"\\ud800\"}}",
        b"{\"attributes\": {\"task\": \"a\nb\"}}",
        b"{\"attributes\": {\"task\": \"\\x\"}}",
        b"\x00",
        b"{\"attributes\": {\"task\": \"\\u0000\"}}",
        b"{\"name\": \"\\u0000\"}",
        &deep,
        &objects,
        // It is undefined which of two would count.
        br#"{"cost": 1, "cost": 2}"#,
        br#"{"attributes": {"task": "a", "task": "b"}}"#,
        br#"{"claims": [{"resource": "a", "resource": "b"}]}"#,
    ];
    changes_nothing(&daemon, |api| {
        for path in ["/v1/permits", "/v1/sessions", "/v1/explain", "/v1/rules"] {
            for text in texts {
                api.raw(&raw_body(path, text)).unwrap();
                let told = message(&api.answer(), &[400]);
                let shown = String::from_utf8_lossy(&text[..text.len().min(60)]).into_owned();
                assert!(
                    told.contains("line 1 column") || told.contains("line 2 column"),
                    "{path} {shown}: {told}"
                );
            }
        }
    });
}

/// Paths that take a body, with its possible members.
const MEMBERS: &[(&str, &str, &[&str])] = &[
    (
        "POST",
        "/v1/permits",
        &[
            "attributes",
            "cost",
            "claims",
            "require_locks",
            "max_wait",
            "unknown",
            "session",
            "lease",
        ],
    ),
    ("PUT", "/v1/permits/mine", &["attributes", "cost", "claims", "max_wait", "lease"]),
    ("POST", "/v1/explain", &["attributes", "cost", "claims", "max_wait", "unknown"]),
    ("POST", "/v1/sessions", &["name", "lease", "bound"]),
    ("PUT", "/v1/locks/l", &["session", "steal", "wait"]),
    (
        "PUT",
        "/v1/pools/p",
        &[
            "priority",
            "threads",
            "queue",
            "group",
            "stack_bytes",
            "heap_bytes_max",
            "persistent",
            "state",
            "started",
        ],
    ),
    (
        "PATCH",
        "/v1/pools/kept",
        &[
            "priority",
            "threads",
            "queue",
            "group",
            "stack_bytes",
            "heap_bytes_max",
            "persistent",
            "state",
            "started",
        ],
    ),
    (
        "PUT",
        "/v1/checkpoints/c",
        &[
            "at",
            "number",
            "when",
            "key",
            "fair",
            "weight",
            "rate",
            "burst",
            "concurrency",
            "period",
            "queue",
            "keys_max",
            "status",
            "mode",
            "persistent",
        ],
    ),
    (
        "POST",
        "/v1/rules",
        &[
            "number", "match", "mode", "nocase", "when", "set", "raise", "lower", "reject", "then",
            "disabled", "log",
        ],
    ),
    ("PUT", "/v1/resources/r", &["parents", "persistent"]),
];

/// Values that are wrong for the member: of another type, or invalid for its type.
fn wrong_values(member: &str) -> Vec<Value> {
    let is_object = ["attributes", "threads", "queue", "match"].contains(&member);
    let is_list = ["claims", "require_locks", "priority", "parents"].contains(&member);
    let is_flag =
        ["bound", "steal", "persistent", "started", "nocase", "reject", "disabled", "log"]
            .contains(&member);
    let mut wrong = vec![json!(1.5), json!(-1e300), json!([[[]]])];
    if !is_object {
        wrong.push(json!({"x": {}}));
    }
    if !is_list {
        wrong.push(json!([null]));
    }
    if !is_flag {
        wrong.push(json!(true));
    }
    wrong
}

#[test]
fn a_member_of_another_type_is_named_d4() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    changes_nothing(&daemon, |api| {
        for (method, path, members) in MEMBERS {
            for member in *members {
                for value in wrong_values(member) {
                    let mut body = json!({*member: value});
                    if path.contains("checkpoints") && *member != "at" {
                        body["at"] = "frontend api".into();
                    }
                    if path.contains("locks") && *member != "session" {
                        body["session"] = "s-0".into();
                    }
                    let answer = api.call(method, path, &body);
                    let told = message(&answer, &[400, 422]);
                    let column = answer.body["place"]["column"].as_str().unwrap_or_default();
                    let is_named = told.contains(member) || column.contains(member);
                    assert!(is_named, "{method} {path} {body}: {told}");
                }
            }
        }
    });
}

#[test]
fn a_member_that_is_misspelt_is_told_what_was_meant_d4() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    changes_nothing(&daemon, |api| {
        for (method, path, members) in MEMBERS {
            for member in members.iter().filter(|member| member.len() > 3) {
                let near = format!("{}{}", &member[..2], &member[3..]);
                let mut body = json!({near.as_str(): null});
                if path.contains("checkpoints") {
                    body["at"] = "frontend api".into();
                }
                if path.contains("locks") {
                    body["session"] = "s-0".into();
                }
                let told = message(&api.call(method, path, &body), &[400]);
                let expected = format!("{near}: there is no such member, did you mean {member}?");
                assert_eq!(told, expected, "{method} {path}");
            }
        }
    });
}

#[test]
fn a_method_that_a_path_does_not_have_is_405_and_says_which_it_has() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let description = daemon.api().get("/v1/openapi.json").expect(200);
    changes_nothing(&daemon, |api| {
        for (path, operations) in description["paths"].as_object().unwrap() {
            let has = |method: &str| !operations[method.to_lowercase()].is_null();
            let path = path.replace(['{', '}'], "");
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"] {
                if has(method) {
                    continue;
                }
                api.send(method, &path, None);
                let answer = api.answer();
                message(&answer, &[405]);
                let allow = answer.header("allow").expect(&answer.text).to_owned();
                for allowed in allow.split(',').map(str::trim).filter(|word| *word != "HEAD") {
                    assert!(has(allowed), "{path} has no {allowed}");
                }
            }
        }
    });
}

#[test]
fn a_body_of_another_media_type_is_415() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    changes_nothing(&daemon, |api| {
        for media in [
            "text/plain",
            "application/jsonx",
            "application/xml",
            "json",
            "",
            ";",
            "multipart/form-data; boundary=x",
            "application/x-www-form-urlencoded",
            "\u{e4}",
        ] {
            for path in ["/v1/sessions", "/v1/permits", "/v1/rules", "/v1/explain"] {
                let head = format!("POST {path} HTTP/1.1\r\nhost: p\r\ncontent-type: {media}\r\n");
                api.raw(format!("{head}content-length: 2\r\n\r\n{{}}").as_bytes()).unwrap();
                let answer = api.answer();
                assert!(message(&answer, &[415]).contains("application/json"), "{media}");
            }
        }
    });
}

#[test]
fn a_body_may_have_one_mebibyte_and_not_a_byte_more_d2() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let padded = |bytes: usize| format!("{{{}}}", " ".repeat(bytes - 2));
    let explain = daemon.api().call("POST", "/v1/explain", &json!({})).expect(200);
    changes_nothing(&daemon, |api| {
        api.send("POST", "/v1/explain", Some(&padded(MIB)));
        assert_eq!(api.answer().expect(200), explain);
        api.send("POST", "/v1/explain", Some(&padded(MIB + 1)));
        assert!(message(&api.answer(), &[413]).contains("1048576"));
        let mut endless = daemon.api();
        let head = "POST /v1/explain HTTP/1.1\r\nhost: p\r\ncontent-type: application/json\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        endless.raw(head.as_bytes()).unwrap();
        let piece = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        // It sends for as long as it can: the daemon answers, and finally closes the connection.
        for _ in 0..1_000 {
            if endless.raw(piece.as_bytes()).is_err() {
                break;
            }
        }
        message(&endless.answer(), &[413]);
    });
}

#[test]
fn what_is_not_http_is_refused_and_ends_the_connection_d4() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let good = "GET /healthz HTTP/1.1\r\nhost: p\r\n\r\n";
    let post = "POST /v1/sessions HTTP/1.1\r\nhost: p\r\ncontent-type: application/json\r\n";
    let texts: Vec<Vec<u8>> = vec![
        b"\x00\x01\x02\x03\r\n\r\n".to_vec(),
        b"{\"id\":1,\"method\":\"echo\",\"params\":[]}\r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"GET  HTTP/1.1\r\n\r\n".to_vec(),
        b"GET /healthz HTTP/9.9\r\n\r\n".to_vec(),
        b"GET /healthz HTTP/1.1\r\nhost p\r\n\r\n".to_vec(),
        b"GET /healthz HTTP/1.1\r\nhost : p\r\n\r\n".to_vec(),
        b"GET /healthz HTTP/1.1\r\nhost: a\x00b\r\n\r\n".to_vec(),
        b"GET /heal\x7fthz HTTP/1.1\r\nhost: p\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        format!("{post}content-length: -1\r\n\r\n").into_bytes(),
        format!("{post}content-length: 1e3\r\n\r\n").into_bytes(),
        format!("{post}content-length: 99999999999999999999\r\n\r\n").into_bytes(),
        format!("{post}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}").into_bytes(),
        format!("{post}transfer-encoding: gzip\r\n\r\n{{}}").into_bytes(),
        format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n").into_bytes(),
        format!("{post}transfer-encoding: chunked\r\n\r\nffffffffffffffff1\r\n").into_bytes(),
    ];
    changes_nothing(&daemon, |_| {
        for text in &texts {
            // Also after good requests, which are answered first.
            for before in [0, 2] {
                let mut api = daemon.api();
                let bytes = [good.repeat(before).as_bytes(), text].concat();
                api.raw(&bytes).unwrap();
                for _ in 0..before {
                    let _ = api.answer().expect(200);
                }
                let shown = String::from_utf8_lossy(text).into_owned();
                let rest = String::from_utf8_lossy(&api.rest()).into_owned();
                let is_refused = rest.is_empty() || rest.starts_with("HTTP/1.1 4");
                assert!(is_refused, "{shown:?}: {rest}");
                assert!(rest.matches("HTTP/1.1").count() <= 1, "one answer: {rest}");
            }
        }
    });
}

#[test]
fn a_path_that_is_no_text_is_an_error_like_any_other() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    changes_nothing(&daemon, |api| {
        for (path, statuses) in [
            ("/v1/pools/%ff", &[400, 404]),
            ("/v1/pools/%zz", &[400, 404]),
            ("/v1/pools/%00", &[400, 404]),
            ("/v1/permits/%f0%28", &[400, 404]),
            ("/v1/locks/%c3%28", &[400, 404]),
            ("/v1/rules/ten", &[400, 404]),
            ("/v1/rules/-1", &[400, 404]),
            ("/v1/rules/99999999999999999999", &[400, 404]),
            ("/v1/why/x", &[400, 404]),
            ("/v1/why/18446744073709551616", &[400, 404]),
            ("/v1/permits/../../etc/passwd", &[400, 404]),
            ("/v1//permits", &[400, 404]),
            ("/v1/requests?first=x", &[400, 400]),
            ("/v1/requests?count=-1", &[400, 400]),
        ] {
            let answer = api.get(path);
            assert_eq!(
                answer.header("content-type"),
                Some("application/json"),
                "{path}: {}",
                answer.text
            );
            message(&answer, statuses);
        }
    });
}

#[test]
fn a_wrong_token_is_401_whatever_it_asks_for() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let token = std::fs::read_to_string(daemon.data().join("token")).unwrap();
    let token = token.trim();
    let address = daemon.api_address();
    let long = "x".repeat(8 << 10);
    let other = token.chars().rev().collect::<String>();
    changes_nothing(&daemon, |_| {
        for wrong in ["", "x", &long, &token[1..], &other, &token.to_uppercase(), "\u{e4}"] {
            if wrong == token {
                continue;
            }
            let mut api = Api::tcp(address, Some(wrong));
            for (method, path, body) in [
                ("GET", "/v1/permits", None),
                ("POST", "/v1/permits", Some("{}")),
                ("PUT", "/v1/pools/stolen", Some(r#"{"priority": [20, 30]}"#)),
                ("DELETE", "/v1/pools/kept", None),
                // An unauthorized client learns nothing about bodies either.
                ("POST", "/v1/permits", Some("{")),
            ] {
                api.send(method, path, body);
                let answer = api.answer();
                message(&answer, &[401]);
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
                assert!(wrong.len() < 2 || !answer.text.contains(wrong), "{}", answer.text);
            }
        }
        let _ = Api::tcp(address, Some(token)).get("/v1/permits").expect(200);
    });
}
