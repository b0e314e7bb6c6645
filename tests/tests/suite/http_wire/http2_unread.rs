//! HTTP/2 clients that read late, slowly or not at all: little is held for them (D1), a client that continues to read
//! gets everything, and the access log shows what it got.

use super::frames::{DATA, END_STREAM, Frame, Http2, RST_STREAM, SETTINGS, WINDOW_UPDATE, request};
use paceline_tests::{Daemon, Latch, Proxy, Upstream, until};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const STREAMS: u32 = 100;

/// The body of each stream: an amount that the daemon once queued at once, without counting it.
const BODY_BYTES: usize = 64 << 10;

/// A connection with very large windows.
fn connect(proxy: &Proxy) -> Http2 {
    let window = u32::MAX >> 2;
    let mut client =
        Http2::connect_with(proxy.address("web").parse().unwrap(), &[(1, 0), (4, window)]);
    client.takes_little_ahead();
    client.send(&Frame::new(WINDOW_UPDATE, 0, 0, window.to_be_bytes()));
    client
}

fn ask(client: &mut Http2, count: u32) {
    ask_for(client, count, "/");
}

fn ask_for(client: &mut Http2, count: u32, path: &str) {
    for number in 0..count {
        client.ask(2 * number + 1, path);
    }
}

/// What a slow client reads at a time, in any number of frames. The system reports room to the daemon in steps of
/// several of these, so what the client reads in a second must not depend on the size of frames.
const STEP_BYTES: usize = 16 << 10;

/// Reads until `count` streams have ended, with a `pause` after each of the first `pauses` steps. Returns how many
/// have ended, and their bytes.
fn read(client: &mut Http2, count: u32, pauses: u32, pause: Duration) -> (u32, usize) {
    read_with(client, count, pauses, pause, |_, _| ())
}

/// The same, with a callback for each frame.
fn read_with(
    client: &mut Http2,
    count: u32,
    pauses: u32,
    pause: Duration,
    act: impl Fn(&mut Http2, &Frame),
) -> (u32, usize) {
    let (mut ended, mut bytes, mut paused) = (0, 0, 0);
    while ended < count {
        let Some(frame) = client.next() else { break };
        ended += u32::from(frame.ends());
        if frame.kind == DATA {
            bytes += frame.payload.len();
            if paused < pauses && bytes > paused as usize * STEP_BYTES {
                paused += 1;
                std::thread::park_timeout(pause);
            }
        }
        act(client, &frame);
    }
    (ended, bytes)
}

fn large() -> Upstream {
    Upstream::start(|call| call.answer(200, &"x".repeat(BODY_BYTES)))
}

/// The peak memory of a process, in kilobytes.
fn most_memory(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.process())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Whatever windows a client grants, all streams of a connection together hold less than 1 MiB of responses. The rest
/// is what allocators and `h2` need for that, besides the memory of the requests themselves. Two connections come
/// first, so that what the allocator reserves once per thread and size is not counted.
#[test]
fn a_connection_that_is_not_read_holds_little_d1() {
    const FIRST: usize = 2;
    const CONNECTIONS: usize = 6;
    let body = vec![b'x'; 8 << 20];
    let (stuck, latch) = (Arc::new(AtomicUsize::new(0)), Latch::new());
    let (theirs, held) = (Arc::clone(&stuck), Arc::clone(&latch));
    let upstream = Upstream::start(move |call| {
        if call.target() != "/first" {
            held.pass();
        }
        call.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()));
        assert!(call.push(&body) < body.len(), "it is not taken whole");
        theirs.fetch_add(1, Ordering::SeqCst);
        while !call.read(1).is_empty() {}
    });
    let proxy = Proxy::before(upstream.address(), "");
    let unread = |connections: usize, path: &str| -> Vec<Http2> {
        let mut clients: Vec<Http2> = (0..connections).map(|_| connect(&proxy)).collect();
        clients.iter_mut().for_each(|client| ask_for(client, STREAMS, path));
        clients
    };
    let _first = unread(FIRST, "/first");
    let first = FIRST * STREAMS as usize;
    until(|| stuck.load(Ordering::SeqCst), |stuck| *stuck == first);
    let _clients = unread(CONNECTIONS, "/");
    let all = first + CONNECTIONS * STREAMS as usize;
    let _ = upstream.wait_for(all);
    let before = most_memory(&proxy.daemon);
    latch.open();
    until(|| stuck.load(Ordering::SeqCst), |stuck| *stuck == all);
    let grown = (most_memory(&proxy.daemon) - before) / CONNECTIONS as u64;
    assert!(grown < 1536, "{grown} KiB a connection");
}

/// Each chunk once became a frame of its own, which costs some hundred bytes.
#[test]
fn chunks_of_one_byte_that_nobody_reads_are_not_gathered_d1() {
    const CHUNKS: usize = 20_000;
    let upstream = Upstream::start(|call| {
        call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        call.send("1\r\nx\r\n".repeat(CHUNKS) + "0\r\n\r\n");
    });
    let proxy = Proxy::before(upstream.address(), "");
    let mut client = connect(&proxy);
    let before = most_memory(&proxy.daemon);
    ask(&mut client, STREAMS);
    // All data has reached the daemon, which still serves other clients.
    let _ = upstream.wait_for(STREAMS as usize);
    for _ in 0..50 {
        let mut other = proxy.connect();
        other.ask("/", "");
        assert_eq!(other.answer().status, 200);
    }
    let (ended, bytes) = read(&mut client, STREAMS, 0, Duration::ZERO);
    assert_eq!((ended, bytes), (STREAMS, STREAMS as usize * CHUNKS));
    let grown = most_memory(&proxy.daemon) - before;
    assert!(grown < 64 << 10, "{grown} KiB");
}

/// Nor are heads bounded by any window: 100 of 28 KiB took 4.6 MiB a connection. Those that were not read are sent when the
/// others have left.
#[test]
fn long_heads_that_nobody_reads_are_bounded_d1() {
    const CONNECTIONS: usize = 6;
    let (sent, latch) = (Arc::new(AtomicUsize::new(0)), Latch::new());
    let (theirs, held) = (Arc::clone(&sent), Arc::clone(&latch));
    let upstream = Upstream::start(move |call| {
        if call.target() == "/quick" {
            return call.answer(200, "quick");
        }
        held.pass();
        let long = "x".repeat(28 << 10);
        call.send(format!("HTTP/1.1 200 OK\r\nX-Long: {long}\r\nContent-Length: 4\r\n\r\nlast"));
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    let config = Proxy::config(upstream.address(), "");
    let proxy = Proxy::start(&format!("[http]\nthreads = 1\n{config}"));
    let mut clients: Vec<Http2> = (0..CONNECTIONS).map(|_| connect(&proxy)).collect();
    clients.iter_mut().for_each(|client| ask(client, STREAMS));
    let all = CONNECTIONS * STREAMS as usize;
    let _ = upstream.wait_for(all);
    let before = most_memory(&proxy.daemon);
    latch.open();
    until(|| sent.load(Ordering::SeqCst), |sent| *sent == all);
    // All is at the daemon's door, and its only thread has looked at it.
    for _ in 0..20 {
        assert_eq!(proxy.connect().get("/quick").status, 200);
    }
    let grown = (most_memory(&proxy.daemon) - before) / CONNECTIONS as u64;
    assert!(grown < 1536, "{grown} KiB a connection");
    for client in &mut clients {
        let got = read(client, STREAMS, 0, Duration::ZERO);
        assert_eq!(got, (STREAMS, STREAMS as usize * 4));
    }
}

/// Nor are trailers: 100 of 8 KiB with many fields took 1.9 MiB a connection, behind one byte that the window of their
/// stream held up. Those that were not read are sent when the others have left.
#[test]
fn trailers_that_nobody_reads_are_bounded_d1() {
    const CONNECTIONS: usize = 6;
    let (sent, latch) = (Arc::new(AtomicUsize::new(0)), Latch::new());
    let (theirs, held) = (Arc::clone(&sent), Arc::clone(&latch));
    let upstream = Upstream::start(move |call| {
        if call.target() == "/quick" {
            return call.answer(200, "quick");
        }
        held.pass();
        let value = "x".repeat(70);
        let trailers: String = (0..95).map(|number| format!("t{number}: {value}\r\n")).collect();
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        call.send(format!("{head}1\r\nx\r\n0\r\n{trailers}\r\n"));
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    let config = Proxy::config(upstream.address(), "");
    let proxy = Proxy::start(&format!("[http]\nthreads = 1\n{config}"));
    let address = proxy.address("web").parse().unwrap();
    let closed = |_| Http2::connect_with(address, &[(1, 0), (4, 0)]);
    let mut clients: Vec<Http2> = (0..CONNECTIONS).map(closed).collect();
    clients.iter_mut().for_each(|client| ask(client, STREAMS));
    let all = CONNECTIONS * STREAMS as usize;
    let _ = upstream.wait_for(all);
    let before = most_memory(&proxy.daemon);
    latch.open();
    until(|| sent.load(Ordering::SeqCst), |sent| *sent == all);
    // All is at the daemon's door, and its only thread has looked at it.
    for _ in 0..20 {
        assert_eq!(proxy.connect().get("/quick").status, 200);
    }
    let grown = (most_memory(&proxy.daemon) - before) / CONNECTIONS as u64;
    assert!(grown < 1536, "{grown} KiB a connection");
    for client in &mut clients {
        // The windows of all streams.
        client.send(&Frame::new(SETTINGS, 0, 0, [0, 4, 0, 0, 0, 1]));
        let got = read(client, STREAMS, 0, Duration::ZERO);
        assert_eq!(got, (STREAMS, STREAMS as usize));
    }
}

/// Heads before the last one are not bounded by any window.
#[test]
fn heads_that_nobody_reads_are_not_gathered_d1() {
    let upstream = Upstream::start(|call| {
        let early = format!("HTTP/1.1 103 Early Hints\r\nX-Long: {}\r\n\r\n", "x".repeat(25_000));
        call.send(early.repeat(99) + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast");
    });
    let proxy = Proxy::before(upstream.address(), "");
    let mut client = connect(&proxy);
    let before = most_memory(&proxy.daemon);
    ask(&mut client, STREAMS);
    let _ = upstream.wait_for(STREAMS as usize);
    for _ in 0..20 {
        let mut other = proxy.connect();
        other.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(other.answer().status, 200, "HTTP/1.0 knows no heads before the last one");
    }
    let got = read(&mut client, STREAMS, 0, Duration::ZERO);
    assert_eq!(got, (STREAMS, STREAMS as usize * 4));
    let grown = most_memory(&proxy.daemon) - before;
    assert!(grown < 64 << 10, "{grown} KiB");
}

/// D2: timeouts apply to the next step, and a step of any stream is one of the connection.
#[test]
fn who_reads_slowly_but_steadily_gets_all_streams() {
    for timeouts in ["{ idle = \"1s\" }", "{ body = \"3s\", idle = \"1s\" }"] {
        let upstream = large();
        let proxy = Proxy::before(upstream.address(), &format!("timeouts = {timeouts}"));
        let mut client = connect(&proxy);
        ask(&mut client, STREAMS);
        // Long enough for a timeout that is not renewed to expire.
        let got = read(&mut client, STREAMS, 80, Duration::from_millis(50));
        assert_eq!(got, (STREAMS, STREAMS as usize * BODY_BYTES), "{timeouts}");
        let records = proxy.records(STREAMS as usize);
        for record in records {
            assert_eq!((&record["status"], &record["error"]), (&200.into(), &().into()));
            assert_eq!(record["bytes_out"], BODY_BYTES, "{record}");
        }
    }
}

/// The same with the default windows of clients, widened by what they have read: there all streams except one wait
/// for the connection's window.
#[test]
fn who_widens_windows_slowly_but_steadily_gets_all_streams() {
    let upstream = large();
    let proxy = Proxy::before(upstream.address(), "timeouts = { body = \"3s\", idle = \"1s\" }");
    let mut client = Http2::connect(proxy.address("web").parse().unwrap());
    client.takes_little_ahead();
    ask(&mut client, STREAMS);
    let got = read_with(&mut client, STREAMS, 80, Duration::from_millis(50), |client, frame| {
        let len = (frame.payload.len() as u32).to_be_bytes();
        if frame.kind == DATA && !frame.payload.is_empty() {
            client.send(&Frame::new(WINDOW_UPDATE, 0, 0, len));
            client.send(&Frame::new(WINDOW_UPDATE, 0, frame.stream, len));
        }
    });
    assert_eq!(got, (STREAMS, STREAMS as usize * BODY_BYTES));
}

/// SIGTERM also waits for queued data.
#[test]
fn what_is_queued_reaches_its_client_before_the_daemon_ends() {
    let upstream = large();
    let proxy = Proxy::before(upstream.address(), "");
    let mut client = connect(&proxy);
    ask(&mut client, STREAMS);
    let _ = upstream.wait_for(STREAMS as usize);
    proxy.daemon.signal(Signal::TERM);
    let got = read(&mut client, STREAMS, 60, Duration::from_millis(50));
    assert_eq!(got, (STREAMS, STREAMS as usize * BODY_BYTES));
    drop(client);
    let ended = proxy.daemon.wait();
    assert!(ended.status.success(), "{}", ended.log);
}

#[test]
fn the_log_says_what_has_left_of_a_response() {
    let upstream = large();
    let proxy = Proxy::before(upstream.address(), "");
    let mut client = connect(&proxy);
    ask(&mut client, STREAMS);
    let _ = upstream.wait_for(STREAMS as usize);
    let (ended, _) = read(&mut client, 1, 0, Duration::ZERO);
    assert_eq!(ended, 1);
    drop(client);
    let records = proxy.records(STREAMS as usize);
    let is_cut = |record: &&serde_json::Value| record["error"] == "client_left";
    let cut: Vec<_> = records.iter().filter(is_cut).collect();
    // What the system buffers for a client is far less than the whole.
    assert!(cut.len() >= STREAMS as usize / 2, "{}", cut.len());
    for record in &cut {
        let bytes = record["bytes_out"].as_u64().unwrap();
        assert!(bytes < BODY_BYTES as u64, "{record}");
        assert!(bytes == 0 || record["status"] == 200, "{record}");
    }
    assert!(cut.iter().any(|record| record["status"] == 200), "{cut:?}");
    let whole = records.iter().filter(|record| !is_cut(record));
    for record in whole {
        assert_eq!((&record["status"], &record["bytes_out"]), (&200.into(), &BODY_BYTES.into()));
    }
}

/// Also for responses of the daemon: read ones, ones without a body, and ones that are not read completely.
#[test]
fn the_log_says_what_has_left_of_a_refusal() {
    let upstream = Upstream::start(|call| call.close());
    let reject = "timeouts = { body = \"1s\" }\n\
                  [[rule]]\nnumber = 1\nmatch = { path = \"/no\" }\nreject = true\n";
    let proxy = Proxy::before(upstream.address(), reject);
    let address = proxy.address("web").parse().unwrap();
    let mut client = Http2::connect(address);
    for (stream, method, path, status) in
        [(1, "GET", "/no", 403), (3, "HEAD", "/no", 403), (5, "POST", "/closed", 502)]
    {
        client.headers(stream, &request(method, path, &[]), END_STREAM);
        let (answered, body) = client.response(stream);
        assert_eq!((answered, body.is_empty()), (status, method == "HEAD"));
        let record = proxy.records(stream as usize / 2 + 1).pop().unwrap();
        let expected = (&status.into(), &body.len().into());
        assert_eq!((&record["status"], &record["bytes_out"]), expected, "{record}");
    }
    // A window of four bytes that stays closed.
    let mut slow = Http2::connect_with(address, &[(1, 0), (4, 4)]);
    slow.ask(1, "/no");
    assert_eq!(slow.next_of(DATA).payload.len(), 4);
    assert_eq!(proxy.records(4)[3]["bytes_out"], 4);
}

/// A server that is done is free for the next request, whether the client reads or not.
#[test]
fn a_place_does_not_wait_for_a_client_that_does_not_read() {
    let upstream = large();
    let one = "[[checkpoint]]\nname = \"one\"\nat = \"backend app\"\nconcurrency = 1\n\
               queue = { max_len = 200, max_delay = \"10m\" }\n";
    let proxy = Proxy::before(upstream.address(), one);
    // A window of one byte: only that byte of each body is sent.
    let address = proxy.address("web").parse().unwrap();
    let mut client = Http2::connect_with(address, &[(1, 0), (4, 1)]);
    ask(&mut client, 10);
    assert_eq!(upstream.wait_for(10).len(), 10);
    proxy.wait_for_counts(0, 0);
    assert_eq!(proxy.connect().get("/").status, 200);
}

/// A stream whose own window stays closed releases its slot, however much is read beside it (D2).
#[test]
fn a_stream_that_is_not_read_is_cut_beside_others() {
    let upstream = Upstream::start(|call| match call.target() {
        "/large" => call.answer(200, &"x".repeat(BODY_BYTES)),
        _ => call.answer(200, "small"),
    });
    let proxy = Proxy::before(upstream.address(), "timeouts = { body = \"1s\" }");
    let address = proxy.address("web").parse().unwrap();
    let mut client = Http2::connect_with(address, &[(1, 0), (4, 1_000)]);
    client.send(&Frame::new(WINDOW_UPDATE, 0, 0, (1u32 << 30).to_be_bytes()));
    client.ask(1, "/large");
    let mut stream = 1;
    let mut is_cut = false;
    while !is_cut {
        stream += 2;
        client.ask(stream, "/small");
        loop {
            let frame = client.next().expect("the connection goes on");
            is_cut |= frame.kind == RST_STREAM && frame.stream == 1;
            if frame.stream == stream && frame.ends() {
                break;
            }
        }
    }
    let records = proxy.records(stream as usize / 2 + 1);
    let record = records.iter().find(|record| record["target"] == "/large").unwrap();
    assert_eq!((&record["error"], &record["bytes_out"]), (&"timeout".into(), &1_000.into()));
}
