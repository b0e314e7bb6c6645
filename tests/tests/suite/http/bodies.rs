//! Long bodies in both directions, and back-pressure: a receiver that does not read holds up the sender, and the
//! daemon keeps no more of a body than two buffers.

use super::curl;
use paceline_tests::upstream::push;
use paceline_tests::{Latch, Proxy, Upstream, Web, until};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const MEGABYTE: usize = 1 << 20;

fn data(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n ^ (n >> 9)) as u8).collect()
}

#[test]
fn twenty_megabytes_go_up_and_come_back() {
    let upstream = Upstream::start(|call| {
        let body = call.body().bytes;
        call.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()));
        call.send(&body);
    });
    let proxy = Proxy::before(upstream.address(), "");
    let sent = proxy.scratch.write("sent", data(20 * MEGABYTE));
    let (at, back) = (format!("@{}", sent.display()), proxy.scratch.join("back"));
    let back_name = back.display().to_string();
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let url = proxy.url("/");
        curl(&[version, "--header", "Expect:", "--data-binary", &at, "-o", &back_name, &url]);
        assert!(std::fs::read(&back).unwrap() == std::fs::read(&sent).unwrap(), "{version}");
    }
    for record in proxy.records(2) {
        assert_eq!(
            (&record["bytes_in"], &record["bytes_out"]),
            (&20_971_520.into(), &20_971_520.into())
        );
    }
}

/// Reads a little 40 times and then the rest; returns how much that was, of `len` bytes.
fn read_slowly(web: &mut Web, len: usize) -> usize {
    let mut got = 0;
    while got < len {
        match web.read(32 << 10) {
            Ok(piece) if !piece.is_empty() => got += piece.len(),
            _ => break,
        }
        if got < 40 * (32 << 10) {
            // Long enough for a timeout that is not renewed to expire.
            thread::park_timeout(Duration::from_millis(100));
        }
    }
    got
}

/// D2: the timeout applies to the next piece of a body, so a client that continues to read is not disconnected.
#[test]
fn a_client_that_reads_slowly_but_steadily_gets_all() {
    let upstream = Upstream::start(|call| {
        call.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 16 * MEGABYTE));
        call.send(vec![b'x'; 16 * MEGABYTE]);
    });
    let proxy = Proxy::before(upstream.address(), "timeouts = { body = \"1s\" }\n");
    let mut web = proxy.connect();
    web.ask("/", "");
    assert!(read_slowly(&mut web, 16 * MEGABYTE) >= 16 * MEGABYTE);
}

/// The same after an upgrade.
#[test]
fn a_client_of_a_tunnel_that_reads_slowly_but_steadily_gets_all() {
    let upstream = Upstream::start(|call| {
        call.send("HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
        call.send(vec![b'x'; 16 * MEGABYTE]);
        call.close();
    });
    let proxy = Proxy::before(upstream.address(), "timeouts = { tunnel = \"1s\" }\n");
    let mut web = proxy.connect();
    web.ask("/", "Upgrade: websocket\r\nConnection: Upgrade\r\n");
    assert!(read_slowly(&mut web, 16 * MEGABYTE) >= 16 * MEGABYTE);
}

/// A response may arrive while the request is still being sent: every piece is answered before the next one.
#[test]
fn bodies_flow_both_ways_at_once() {
    let upstream = Upstream::start(|call| {
        call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        loop {
            let piece = call.read(64 << 10);
            if piece.is_empty() || piece.ends_with(b"0\r\n\r\n") {
                break;
            }
            call.send(format!("{:x}\r\n", piece.len()));
            call.send(&piece);
            call.send("\r\n");
        }
        call.send("0\r\n\r\n");
        call.close();
    });
    let proxy = Proxy::before(upstream.address(), "");
    let mut web = proxy.connect();
    web.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let mut seen = Vec::new();
    for round in 0..50 {
        let piece = format!("piece {round};");
        web.send(format!("{:x}\r\n{piece}\r\n", piece.len())).unwrap();
        while !String::from_utf8_lossy(&seen).contains(&piece) {
            let more = web.read(4096).unwrap();
            assert!(!more.is_empty(), "the connection ends");
            seen.extend(more);
        }
    }
    web.send("0\r\n\r\n").unwrap();
    while !seen.ends_with(b"0\r\n\r\n") {
        seen.extend(web.read(4096).unwrap());
    }
}

/// Ten clients that do not read the responses of ten servers.
#[test]
fn a_client_that_does_not_read_holds_up_the_server() {
    const CLIENTS: usize = 10;
    const LEN: usize = 40 * MEGABYTE;
    let sent = Arc::new(Mutex::new(Vec::new()));
    let (body, told) = (Arc::new(data(LEN)), Arc::clone(&sent));
    let upstream = Upstream::start(move |call| {
        call.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"));
        let count = call.push(&body);
        told.lock().unwrap().push(count);
        // The rest is sent when the client reads.
        call.send(&body[count..]);
    });
    let proxy = Proxy::before(upstream.address(), "");
    let before = proxy.resident_bytes();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| proxy.connect()).collect();
    clients.iter_mut().for_each(|web| web.ask("/", ""));
    let blocked = until(|| sent.lock().unwrap().clone(), |sent| sent.len() == CLIENTS);
    // The system's own buffers are not bounded by the daemon.
    assert!(blocked.iter().all(|count| *count < LEN / 2), "{blocked:?}");
    let grown = proxy.resident_bytes().saturating_sub(before);
    assert!(grown < 8 * MEGABYTE as u64, "{grown} bytes more for {CLIENTS} clients");
    let answer = clients.pop().unwrap().answer();
    assert!(answer.body.bytes == data(LEN), "nothing is lost by waiting");
}

#[test]
fn a_client_of_http2_that_does_not_read_holds_up_the_server() {
    const LEN: usize = 40 * MEGABYTE;
    let sent = Arc::new(AtomicUsize::new(0));
    let (body, told) = (data(LEN), Arc::clone(&sent));
    let upstream = Upstream::start(move |call| {
        call.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"));
        told.store(call.push(&body), Ordering::SeqCst);
    });
    let proxy = Proxy::before(upstream.address(), "");
    let before = proxy.resident_bytes();
    let mut client = Command::new("curl")
        .args(["-sS", "--http2-prior-knowledge", "--limit-rate", "1k", &proxy.url("/")])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let blocked = until(|| sent.load(Ordering::SeqCst), |sent| *sent > 0);
    let grown = proxy.resident_bytes().saturating_sub(before);
    let _ = client.kill();
    let _ = client.wait();
    assert!(blocked < LEN - 1, "{blocked}");
    assert!(grown < 8 * MEGABYTE as u64, "{grown} bytes more");
}

#[test]
fn a_server_that_does_not_read_holds_up_the_client() {
    const CLIENTS: usize = 10;
    const LEN: usize = 40 * MEGABYTE;
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        let len = call.body().bytes.len();
        call.answer(200, &len.to_string());
    });
    let proxy = Proxy::before(upstream.address(), "");
    let before = proxy.resident_bytes();
    let body = data(LEN);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| proxy.connect()).collect();
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {LEN}\r\n\r\n");
    clients.iter_mut().for_each(|web| web.send(&head).unwrap());
    let blocked: Vec<usize> = thread::scope(|scope| {
        let pushed: Vec<_> =
            clients.iter().map(|web| scope.spawn(|| push(web.socket(), &body))).collect();
        pushed.into_iter().map(|pushed| pushed.join().unwrap()).collect()
    });
    assert!(blocked.iter().all(|count| *count < LEN / 2), "{blocked:?}");
    let grown = proxy.resident_bytes().saturating_sub(before);
    assert!(grown < 8 * MEGABYTE as u64, "{grown} bytes more for {CLIENTS} clients");
    latch.open();
    let (mut web, sent) = (clients.pop().unwrap(), blocked[CLIENTS - 1]);
    web.send(&body[sent..]).unwrap();
    assert_eq!(web.answer().text(), LEN.to_string());
}
