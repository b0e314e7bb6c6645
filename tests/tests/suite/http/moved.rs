//! Servers that edits add, move to another address and swap under load: a request connects only to the address that
//! it was admitted to, and a server that refuses connections fails no request.

use super::load::Load;
use paceline_tests::{Latch, Proxy, Upstream};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Requests that each server may have at one time.
const MAX: usize = 3;

/// Clients that send requests without a pause.
const CLIENTS: usize = 60;

/// Responses between two edits.
const ANSWERS: usize = 20;

/// A server that takes a moment for each request, so that requests wait for it.
fn busy() -> Upstream {
    Upstream::start(|call| {
        thread::sleep(Duration::from_millis(2));
        call.answer(200, "ok");
    })
}

/// An address that refuses every connection for as long as the socket is open: it is bound, and nothing listens.
fn refusing() -> (OwnedFd, String) {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&fd, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = SocketAddrV4::try_from(getsockname(&fd).unwrap()).unwrap().to_string();
    (fd, address)
}

/// A backend with these servers, by name and address. `x` and `y` have room for all clients.
fn config(servers: &[(&str, &str)]) -> String {
    let server = |(name, address): &(&str, &str)| {
        let max = if matches!(*name, "x" | "y") { CLIENTS } else { MAX };
        format!("{{ name = \"{name}\", address = \"{address}\", max_connections = {max} }}")
    };
    let servers: Vec<String> = servers.iter().map(server).collect();
    format!(
        "{}[[backend]]\nname = \"app\"\nservers = [{}]\nqueue = {{ max_len = 999, max_delay = \"60s\" }}\n",
        Proxy::FRONTEND,
        servers.join(", ")
    )
}

/// A server that an edit adds and that refuses connections is set down; the requests that were sent there return to
/// the queue. (4 to 55 of 300 requests were answered with 502.)
#[test]
fn a_refusing_server_that_an_edit_adds_fails_no_request() {
    let (good, (_bound, dead)) = (busy(), refusing());
    let alone = config(&[("a", good.address())]);
    let both = config(&[("a", good.address()), ("x", &dead)]);
    let proxy = Proxy::start(&alone);
    Load::run(proxy.address("web"), CLIENTS, |load| {
        for _ in 0..10 {
            proxy.reload(&both);
            load.more(ANSWERS);
            proxy.reload(&alone);
            load.more(ANSWERS);
        }
    });
    assert!(good.in_flight_max() <= MAX, "{}", good.in_flight_max());
}

/// P1: an address gets no more requests than its maximum, whatever names edits give it. (It had 5 of 3.)
#[test]
fn servers_that_swap_their_addresses_have_no_more_than_their_maximum_p1() {
    let (one, other) = (busy(), busy());
    let (first, second) = (one.address(), other.address());
    let there = config(&[("a", first), ("b", second)]);
    let back = config(&[("a", second), ("b", first)]);
    let proxy = Proxy::start(&there);
    Load::run(proxy.address("web"), CLIENTS, |load| {
        for _ in 0..50 {
            proxy.reload(&back);
            load.more(ANSWERS);
            proxy.reload(&there);
            load.more(ANSWERS);
        }
    });
    let most = (one.in_flight_max(), other.in_flight_max());
    assert!(most.0 <= MAX && most.1 <= MAX, "{most:?}");
}

/// P1: the same while servers are added and removed, move to addresses that refuse connections, and move back.
#[test]
fn no_edit_of_servers_fails_a_request_or_exceeds_a_maximum_p1() {
    let (one, two, three) = (busy(), busy(), busy());
    let [a, b, c] = [one.address(), two.address(), three.address()];
    let (_bound, dead) = refusing();
    let (_also_bound, gone) = refusing();
    let steps = [
        config(&[("a", a), ("b", b)]),
        config(&[("a", b), ("b", a), ("x", &dead)]),
        config(&[("a", &gone), ("b", a), ("c", b)]),
        config(&[("a", c), ("b", &dead), ("c", &gone)]),
        config(&[("d", a), ("a", b), ("b", c)]),
        config(&[("b", &dead), ("c", c)]),
    ];
    let proxy = Proxy::start(&steps[0]);
    Load::run(proxy.address("web"), CLIENTS, |load| {
        for step in steps.iter().cycle().skip(1).take(60) {
            proxy.reload(step);
            load.more(ANSWERS);
        }
    });
    let most = [&one, &two, &three].map(Upstream::in_flight_max);
    assert!(most.iter().all(|most| *most <= MAX), "{most:?}");
}

/// If an edit deletes the backend that a request waits for, the response says so, not that servers are down.
#[test]
fn a_request_that_waits_for_a_deleted_backend_is_told_so() {
    let (latch, other) = (Latch::new(), Upstream::saying("new"));
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.answer(200, "old");
    });
    let config = |backend: &str, address: &str| {
        format!(
            "{}[[backend]]\nname = \"{backend}\"\nservers = [{{ name = \"a\", \
             address = \"{address}\", max_connections = 1 }}]\n",
            Proxy::FRONTEND.replace("\"app\"", &format!("\"{backend}\""))
        )
    };
    let proxy = Proxy::start(&config("app", upstream.address()));
    let [mut runs, mut waits] = [proxy.connect(), proxy.connect()];
    runs.ask("/runs", "");
    proxy.wait_for_counts(0, 1);
    waits.ask("/waits", "");
    proxy.wait_for_counts(1, 1);
    proxy.reload(&config("app2", other.address()));
    let told = waits.answer();
    let expected = "503 backend \"app\" was deleted while the request waited for it\n";
    assert_eq!((told.status, told.text()), (503, expected));
    assert_eq!(waits.get("/again").text(), "new");
    latch.open();
    assert_eq!(runs.answer().text(), "old");
}
