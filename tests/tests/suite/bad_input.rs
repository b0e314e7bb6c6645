//! Bad input and misbehaving clients (promises D1 and D4): a clear error or a closed connection, bounded memory, and
//! service for all other clients.
//!
//! Runs against Paceline, or with `SERVER=ovsdb-server` against `ovsdb-server`, which keeps most of the promises.
//! Tests of the others return at once.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use paceline_tests::client::Frame;
use paceline_tests::{Client, Kind, Server};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

const SCHEMA: &str = r#"{"name": "db", "version": "1.0.0", "tables": {
    "T": {"columns": {"k": {"type": "integer"}, "s": {"type": "string"}}, "isRoot": true}}}"#;

const MIB: usize = 1 << 20;

/// Maximum memory of the server after any abuse below, unless a test says otherwise.
const RESIDENT_BYTES_MAX: u64 = 256 << 20;

fn start() -> Server {
    Server::with_schemas(Kind::under_test(), &[SCHEMA])
}

/// Whether the server is Paceline. Tests of promises that only Paceline makes check this first.
fn is_paceline() -> bool {
    Kind::under_test() == Kind::Paceline
}

/// Another client still gets responses, and memory is within its bound.
fn assert_serves(server: &Server) {
    let mut other = server.connect();
    assert_eq!(other.call("echo", &json!(["still"])).unwrap(), json!(["still"]));
    let comment = json!(["db", {"op": "comment", "comment": "still"}]);
    assert_eq!(other.call("transact", &comment).unwrap(), json!([{}]));
    let resident = server.resident_bytes();
    assert!(resident <= RESIDENT_BYTES_MAX, "the server takes {resident} bytes");
}

/// Sends `bytes` and returns whether the server refused them: an error reply or a closed connection.
fn is_refused(server: &Server, bytes: &[u8]) -> bool {
    let mut client = server.connect();
    client.stream().set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    // If the server closes early, sending fails, which counts as a refusal.
    if client.send(bytes).is_err() {
        return true;
    }
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned();
    match client.frame().unwrap_or_else(|error| panic!("{error} after {shown}")) {
        Frame::Closed => true,
        Frame::Message(text) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            !text.contains(r#""error":null"#) && text.contains(r#""error":"#)
        }
    }
}

#[test]
fn what_is_not_json_is_refused_d4() {
    let server = start();
    let texts: &[&[u8]] = &[
        b"}",
        b"]",
        b"nulx ",
        b"{\"id\" 1}",
        b"{\"id\":1,}",
        b"{id:1}",
        b"{'id':1}",
        b"{\"id\":1,\"method\":\"echo\",\"params\":[1,]}",
        b"{\"id\":1,\"method\":\"echo\",\"params\":[01]}",
        b"{\"id\":1,\"method\":\"echo\",\"params\":[1.]}",
        b"{\"id\":1,\"method\":\"echo\",\"params\":[\"\\x\"]}",
        b"{\"id\":1,\"method\":\"echo\",\"params\":[\"\\ud800\"]}",
        b"{\"id\":1,\"method\":\"echo\",\"params\":[\"a\tb\nc\"]}",
        b"{\"id\":1,\"method\":\"echo\",\"params\":[\"\x00\"]}",
        b"{\"id\":1,\"method\":\"echo\",\"params\":[\"\xff\"]}",
        b"{\"id\":1,\"method\":\"echo\",\"params\":[\"\xc3\x28\"]}",
        b"{\"id\":1,\"method\":\"echo\",\"params\":[\"\xed\xa0\x80\"]}",
        b"{\"id\":1,\"method\":\"echo\",\"params\":[\"\xf8\x88\x80\x80\x80\"]}",
        b"{\"id\":1,\"method\":\"echo\",\"params\":[tru]}",
        b"{\"id\":1,\"method\":\"echo\",\"params\":[1e999]}",
        b"\x00\x01\x02\x03",
        b"\xff\xfe{\x00}\x00",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ];
    for text in texts {
        let shown = String::from_utf8_lossy(text);
        // ovsdb-server accepts raw bytes that are not UTF-8.
        let lenient = server.kind() == Kind::OvsdbServer && std::str::from_utf8(text).is_err();
        assert!(is_refused(&server, text) || lenient, "{shown} was taken");
        assert_serves(&server);
    }
}

#[test]
fn json_that_is_no_request_is_refused_d4() {
    let server = start();
    let texts = [
        "{}",
        r#"[1,2]"#,
        r#"{"id":1}"#,
        r#"{"method":"echo"}"#,
        r#"{"id":1,"method":"echo"}"#,
        r#"{"id":1,"method":"echo","params":{}}"#,
        r#"{"id":1,"method":"echo","params":null}"#,
        r#"{"id":1,"method":"echo","params":"x"}"#,
        r#"{"id":1,"method":5,"params":[]}"#,
        r#"{"id":1,"method":"fly","params":[]}"#,
        r#"{"id":1,"result":[],"error":null}"#,
        r#"{"id":null,"result":[],"error":null}"#,
        r#"{"id":1,"method":"echo","params":[],"result":1}"#,
        r#"{"id":1,"method":"transact","params":[]}"#,
        r#"{"id":1,"method":"lock","params":[[]]}"#,
        r#"{"id":1,"method":"monitor","params":["db"]}"#,
    ];
    for text in texts {
        // A parameter list that is too short makes ovsdb-server abort.
        if server.kind() == Kind::OvsdbServer && text.contains("monitor") {
            continue;
        }
        assert!(is_refused(&server, text.as_bytes()), "{text} was taken");
        assert_serves(&server);
    }
}

fn nested(depth: usize) -> String {
    // The message and its list of parameters are two levels.
    let inner = depth - 2;
    let (open, close) = ("[".repeat(inner), "]".repeat(inner));
    format!(r#"{{"id":1,"method":"echo","params":[{open}{close}]}}"#)
}

#[test]
fn nesting_is_bounded_d1() {
    let server = start();
    for depth in [1_001, 10_000, 100_000, 1_000_000] {
        assert!(is_refused(&server, nested(depth).as_bytes()), "depth {depth} was taken");
        assert_serves(&server);
    }
    let objects = "{\"a\":".repeat(100_000);
    assert!(is_refused(&server, objects.as_bytes()));
    assert_serves(&server);
}

#[test]
fn nesting_up_to_the_bound_is_served_d1() {
    let server = start();
    let mut client = server.connect();
    client.send(nested(900).as_bytes()).unwrap();
    let Frame::Message(text) = client.frame().unwrap() else { panic!("closed") };
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(&"[".repeat(899)) && text.contains(r#""error":null"#), "{text}");
    // Inside a transaction, a value that is too deep is only an error.
    let (open, close) = ("[".repeat(900), "]".repeat(900));
    let params = format!(r#"["db",{{"op":"insert","table":"T","row":{{"k":{open}{close}}}}}]"#);
    client.request("transact", &params).unwrap();
    let Frame::Message(text) = client.frame().unwrap() else { panic!("closed") };
    assert!(String::from_utf8(text).unwrap().contains("syntax error"));
    assert_serves(&server);
}

#[test]
fn large_strings_are_served_below_the_bound_of_a_frame_d1() {
    let server = start();
    let mut client = server.connect();
    let text = "ä".repeat(5 * MIB);
    assert_eq!(client.call("echo", &json!([text])).unwrap(), json!([text]));
    let row = json!(["db", {"op": "insert", "table": "T", "row": {"s": text}}]);
    client.call("transact", &row).unwrap();
    let select = json!(["db", {"op": "select", "table": "T", "where": [], "columns": ["s"]}]);
    assert_eq!(client.call("transact", &select).unwrap(), json!([{"rows": [{"s": text}]}]));
    assert_serves(&server);
}

#[test]
fn a_frame_over_16_mib_is_refused_d1() {
    if !is_paceline() {
        return;
    }
    let server = start();
    let text = json!({"id": 1, "method": "echo", "params": ["x".repeat(17 * MIB)]}).to_string();
    assert!(is_refused(&server, text.as_bytes()));
    assert_serves(&server);
    // It is refused while it grows, not when it ends.
    let endless = format!(r#"{{"id":1,"method":"echo","params":["{}"#, "x".repeat(17 * MIB));
    assert!(is_refused(&server, endless.as_bytes()));
    let blanks = vec![b' '; 17 * MIB];
    let mut client = server.connect();
    client.send(&blanks).unwrap();
    assert_serves(&server);
}

#[test]
fn half_sent_frames_and_sudden_ends_leave_nothing_d4() {
    let server = start();
    let text =
        br#"{"id":1,"method":"transact","params":["db",{"op":"insert","table":"T","row":{}}]}"#;
    for end in (1..text.len()).cycle().take(1_000) {
        let mut client = server.connect();
        client.send(&text[..end]).unwrap();
    }
    // A complete request is handled even if its sender does not wait for the reply.
    for _ in 0..100 {
        server.connect().send(text).unwrap();
    }
    assert_serves(&server);
    let mut client = server.connect();
    let select = json!(["db", {"op": "select", "table": "T", "where": [], "columns": ["_uuid"]}]);
    let result = client.call("transact", &select).unwrap();
    assert!(result[0]["rows"].as_array().unwrap().len() <= 100);
}

#[test]
fn noise_is_refused_d4() {
    let server = start();
    // A fixed sequence (Knuth's MMIX), so that a failure repeats.
    let mut state = 1_u64;
    for _ in 0..300 {
        let noise: Vec<u8> = (0..200)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                state.to_be_bytes()[0]
            })
            .collect();
        let mut client = server.connect();
        let _ = client.send(&noise);
    }
    assert_serves(&server);
}

#[test]
fn thousands_of_requests_before_the_first_read_are_all_answered_d1() {
    if !is_paceline() {
        // ovsdb-server stops reading while a reply is unread, so both sides would wait.
        return;
    }
    let server = start();
    let mut client = server.connect();
    client.stream().set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    let count = 20_000;
    let mut text = String::new();
    for id in 0..count {
        let row = json!({"op": "insert", "table": "T", "row": {"k": id}});
        text.push_str(&json!({"id": id, "method": "transact", "params": ["db", row]}).to_string());
    }
    client.send(text.as_bytes()).unwrap();
    for id in 0..count {
        let reply = client.message().unwrap();
        assert_eq!(reply["id"], json!(id));
        assert!(reply["result"][0].get("uuid").is_some(), "{reply}");
    }
    assert_serves(&server);
}

#[test]
fn replies_that_nobody_reads_do_not_fill_memory_d1() {
    let server = start();
    let mut other = server.connect();
    let row = json!(["db", {"op": "insert", "table": "T", "row": {"s": "x".repeat(MIB)}}]);
    other.call("transact", &row).unwrap();
    let mut mute = server.connect();
    let select = r#"["db",{"op":"select","table":"T","where":[]}]"#;
    // A thousand replies of one MiB each; the requests fit into the socket.
    mute.stream().set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    for _ in 0..1_000 {
        if mute.request("transact", select).is_err() {
            break;
        }
    }
    for number in 0..200 {
        assert_eq!(other.call("echo", &json!([number])).unwrap(), json!([number]));
    }
    assert_serves(&server);
}

#[test]
fn a_monitor_that_never_reads_is_cut_and_others_go_on_d1() {
    if !is_paceline() {
        // ovsdb-server merges the waiting updates instead.
        return;
    }
    let server = start();
    let monitor = json!(["db", "m", {"T": {"columns": ["s"]}}]);
    let mut mute = server.connect();
    mute.call("monitor", &monitor).unwrap();
    let mut reader = server.connect();
    reader.call("monitor", &monitor).unwrap();
    let changes = 48;
    let reading = thread::spawn(move || {
        // A client that lags a little may get several changes in one update.
        let mut seen = 0;
        while seen < changes {
            let update = reader.message().unwrap();
            assert_eq!(update["method"], "update");
            seen += update["params"][1]["T"].as_object().unwrap().len();
        }
        reader
    });
    let mut writer = server.connect();
    let row = json!(["db", {"op": "insert", "table": "T", "row": {"s": "x".repeat(MIB)}}]);
    let mut peak = 0;
    for _ in 0..changes {
        writer.call("transact", &row).unwrap();
        peak = peak.max(server.resident_bytes());
    }
    let mut reader = reading.join().unwrap();
    // The rows themselves are 48 MiB of it.
    assert!(peak <= RESIDENT_BYTES_MAX, "the server took {peak} bytes");
    // Data that was sent before the disconnect may still be read; then the stream ends.
    while mute.frame().unwrap() != Frame::Closed {}
    assert_eq!(reader.call("echo", &json!([1])).unwrap(), json!([1]));
    assert_serves(&server);
}

#[test]
fn waiting_transactions_of_one_connection_are_bounded() {
    if !is_paceline() {
        return;
    }
    let server = start();
    let mut client = server.connect();
    let wait = json!(["db", {"op": "wait", "table": "T", "where": [], "columns": ["k"],
        "until": "!=", "rows": []}]);
    for id in 0..=100 {
        client.request_as(&json!(id), "transact", &wait.to_string()).unwrap();
    }
    // All of them wait except the last one, which is refused at once.
    let refused = client.message().unwrap();
    assert_eq!(refused["id"], 100);
    assert_eq!(refused["result"][0]["error"], "resources exhausted", "{refused}");
    assert_eq!(client.call("echo", &json!([])).unwrap(), json!([]));
    assert_serves(&server);
}

#[test]
fn locks_of_one_connection_are_bounded_by_its_memory() {
    if !is_paceline() {
        return;
    }
    let server = start();
    let mut greedy = server.connect();
    greedy.stream().set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    // The longest possible names: 255 bytes and as much for bookkeeping, in 16 MiB.
    let (mut owned, mut refused) = (0, None);
    for batch in 0..80 {
        for number in 0..500 {
            let name = format!("{:x>255}", batch * 500 + number);
            greedy.request("lock", &json!([name]).to_string()).unwrap();
        }
        for _ in 0..500 {
            let reply = greedy.message().unwrap();
            match &reply["error"]["error"] {
                Value::Null => owned += 1,
                error => refused = Some(error.clone()),
            }
        }
    }
    assert_eq!(refused, Some(json!("resources exhausted")));
    assert!((32_000..34_000).contains(&owned), "{owned}");
    assert_serves(&server);
    // The budget belongs to the connection.
    let mut other = server.connect();
    assert_eq!(other.call("lock", &json!(["mine"])).unwrap(), json!({"locked": true}));
}

#[test]
fn ten_thousand_idle_connections_leave_others_alone_d1() {
    const IDLE: usize = 10_000;
    let needed = IDLE as u64 + 200;
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        println!("skipped: the hard limit on open files is below {needed}; raise it (ulimit -Hn)");
        return;
    }
    // The server inherits the limit.
    let raised = limit.maximum.map_or(needed, |maximum| maximum.min(65_536));
    setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }).unwrap();
    let server = start();
    let mut other = server.connect();
    let before = server.resident_bytes();
    let path = server.socket();
    let idle: Vec<_> = (0..IDLE).map(|_| UnixStream::connect(&path).unwrap()).collect();
    // If the newest connection is served, all are accepted.
    let mut newest = Client::connect(&path).unwrap();
    assert_eq!(newest.call("echo", &json!([])).unwrap(), json!([]));

    let mut times: Vec<_> = (0..1_000).map(|number| timed_call(&mut other, number)).collect();
    times.sort_unstable();
    let p99 = times[989];
    let each = (server.resident_bytes().saturating_sub(before)) / IDLE as u64;
    println!("10,000 idle connections: p99 of another's transactions {p99:?}, {each} bytes each");
    assert!(each <= 64 << 10, "an idle connection takes {each} bytes");
    if is_paceline() {
        assert!(p99 < Duration::from_millis(100), "p99 is {p99:?}");
    }
    drop(idle);
    assert_eq!(other.call("echo", &json!([2])).unwrap(), json!([2]));
}

fn timed_call(client: &mut Client, number: i64) -> Duration {
    let row: Value = json!(["db", {"op": "insert", "table": "T", "row": {"k": number}}]);
    let start = Instant::now();
    client.call("transact", &row).unwrap();
    start.elapsed()
}
