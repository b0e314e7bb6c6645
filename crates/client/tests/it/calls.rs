//! Questions, objects and events, and servers that misbehave.

use crate::fake::{Asked, Fake, Reply, error};
use paceline_client::{ANSWER_BYTES_MAX, Client, Error, Kind, Method, Options, Target};
use serde_json::json;
use std::io;
use std::time::Duration;

fn connect(fake: &Fake) -> Client {
    Client::connect(&Target::in_data_directory(fake.dir.path())).unwrap()
}

#[test]
fn objects_are_named_in_paths_of_the_contract() {
    let fake = Fake::start(|asked: &Asked| {
        let is_list = asked.method == "GET" && asked.path.matches('/').count() == 2;
        Some(Reply::Json(200, if is_list { json!([{"name": "a"}]) } else { json!({"x": 1}) }))
    });
    let client = connect(&fake);
    assert_eq!(client.objects(Kind::SavedRules).unwrap(), [json!({"name": "a"})]);
    assert_eq!(client.object(Kind::Resources, "disk:/dev/da0").unwrap(), json!({"x": 1}));
    client.put(Kind::Pools, "batch", &json!({"threads": {"max": 8}})).unwrap();
    client.patch(Kind::Checkpoints, "per user", &json!({"rate": null})).unwrap();
    client.delete(Kind::Rules, "10").unwrap();
    client.add(Kind::Rules, &json!({"reject": true})).unwrap();
    client.act(Kind::Pools, "batch", "start").unwrap();
    client.act_on_all(Kind::Rules, "clear").unwrap();
    assert_eq!(
        fake.lines(),
        [
            "GET /v1/saved-rules",
            "GET /v1/resources/disk%3A%2Fdev%2Fda0",
            "PUT /v1/pools/batch",
            "PATCH /v1/checkpoints/per%20user",
            "DELETE /v1/rules/10",
            "POST /v1/rules",
            "POST /v1/pools/batch/start",
            "POST /v1/rules/clear",
        ]
    );
    let connections: Vec<_> = fake.world().asked.iter().map(|asked| asked.connection).collect();
    assert!(connections.iter().all(|number| *number == connections[0]), "it is kept alive");
}

#[test]
fn questions_are_answered_or_not_found() {
    let fake = Fake::start(|asked: &Asked| match asked.path.as_str() {
        "/v1/why/17" => Some(Reply::Json(
            200,
            json!({"request": 17, "state": "waiting", "message": "waits", "ahead": [3, 4],
                "ahead_total": 2, "new member": 1}),
        )),
        "/v1/requests" => Some(Reply::Json(200, json!([{"request": 17, "state": "waiting"}]))),
        "/v1/explain" => Some(Reply::Json(200, json!({"message": "would start\n"}))),
        _ => Some(error(404, "not_found", "no request 18")),
    });
    let client = connect(&fake);
    assert_eq!(client.why(17).unwrap().ahead, [3, 4]);
    assert!(matches!(client.why(18), Err(Error::NotFound(_))));
    assert_eq!(client.requests().unwrap()[0].state, "waiting");
    assert_eq!(client.explain(&Default::default()).unwrap().message, "would start\n");
}

#[test]
fn events_come_as_they_are_sent_and_the_end_is_told() {
    let fake = Fake::start(|_| {
        let chunks = "1c\r\nevent: started\ndata: {\"reque\r\n9\r\nst\": 1}\n\n\r\n";
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked";
        Some(Reply::Raw(format!("{head}\r\n\r\n{chunks}").into_bytes()))
    });
    let mut events = connect(&fake).events().unwrap();
    let event = events.next().unwrap().unwrap();
    assert_eq!((event.kind.as_str(), event.data), ("started", json!({"request": 1})));
    assert!(events.next().unwrap().unwrap_err().is_unreachable());
    assert!(events.next().is_none());
}

#[test]
fn events_may_be_denied() {
    let fake = Fake::start(|_| Some(error(403, "permission", "no")));
    assert!(matches!(connect(&fake).events(), Err(Error::NotPermitted(_))));
}

#[test]
fn an_answer_has_a_maximum() {
    for framing in ["content-length: 17000000", "x: y"] {
        let fake = Fake::start(move |_| {
            let mut bytes = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n").into_bytes();
            bytes.resize(bytes.len() + ANSWER_BYTES_MAX + 100_000, b' ');
            Some(Reply::Raw(bytes))
        });
        let error = connect(&fake).requests().unwrap_err();
        assert!(matches!(error, Error::Protocol(_)), "{error}");
        assert!(error.to_string().contains("longer than 16777216 bytes"), "{error}");
    }
}

#[test]
fn what_is_no_answer_is_an_error() {
    let answers: [&str; 4] = [
        "hello\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{x}",
        "HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    ];
    for answer in answers {
        let fake = Fake::start(move |_| Some(Reply::Raw(answer.into())));
        let error = connect(&fake).requests().unwrap_err();
        assert!(matches!(error, Error::Protocol(_)), "{answer}: {error}");
    }
    let fake = Fake::start(|_| Some(Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec())));
    assert!(connect(&fake).requests().unwrap_err().is_unreachable());
}

#[test]
fn a_silent_daemon_is_not_waited_for_for_ever() {
    let fake = Fake::start(|_| Some(Reply::Silence));
    let target = Target::in_data_directory(fake.dir.path());
    let options = Options { timeout: Duration::from_millis(50), ..Options::default() };
    let client = Client::connect_with(&target, options).unwrap();
    let Err(Error::Unreachable { source, .. }) = client.requests() else { panic!() };
    assert_eq!(source.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn a_question_is_asked_again_if_the_kept_connection_ended() {
    let fake = Fake::start(|_| Some(Reply::JsonThenEnd(200, json!([]))));
    let client = connect(&fake);
    for _ in 0..3 {
        assert_eq!(client.call(Method::Get, "/v1/requests", None).unwrap(), json!([]));
    }
    assert_eq!(fake.lines().len(), 3);
}
