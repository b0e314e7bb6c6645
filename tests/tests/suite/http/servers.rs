//! Servers of a backend: how many requests each may have, which one is next, which are down.

use paceline_tests::{Call, Latch, Proxy, Upstream, Web, until};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A backend `app` with the servers `a` and `b`; `each` are settings of both, `more` those of the backend.
fn before(a: &str, b: &str, each: &str, more: &str) -> Proxy {
    let (a, b) = (server("a", a, each), server("b", b, each));
    start(&format!("servers = [{a}, {b}]\n{more}\n"))
}

fn server(name: &str, address: &str, more: &str) -> String {
    format!("{{ name = \"{name}\", address = \"{address}\"{more} }}")
}

fn start(backend: &str) -> Proxy {
    Proxy::start(&format!("{}[[backend]]\nname = \"app\"\n{backend}", Proxy::FRONTEND))
}

fn held(latch: &Arc<Latch>, text: &'static str) -> Upstream {
    let latch = Arc::clone(latch);
    Upstream::start(move |call| {
        latch.pass();
        call.answer(200, text);
    })
}

fn is_up(proxy: &Proxy, name: &str) -> Value {
    let path = format!("/v1/servers/app/{name}");
    proxy.daemon.api().get(&path).expect(200)["figures"]["up"].clone()
}

#[track_caller]
fn wait_until_up(proxy: &Proxy, name: &str, expected: bool) {
    until(|| is_up(proxy, name), |up| *up == expected);
}

/// P1 at servers: `max_connections` is never exceeded, however many requests arrive, on both threads.
#[test]
fn max_connections_is_never_exceeded_p1() {
    let work = |call: &mut Call<'_>| {
        thread::sleep(Duration::from_millis(2));
        call.answer(200, "ok");
    };
    let (a, b) = (Upstream::start(work), Upstream::start(work));
    let proxy = before(a.address(), b.address(), ", max_connections = 2", "");
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let mut web = proxy.connect();
                    for _ in 0..10 {
                        assert_eq!(web.get("/").status, 200);
                    }
                }
            });
        }
    });
    assert_eq!((a.in_flight_max(), b.in_flight_max()), (2, 2));
    assert_eq!(a.count() + b.count(), 480);
    assert!(a.count() > 100 && b.count() > 100, "{} and {}", a.count(), b.count());
}

/// A waiting request is sent to the server that is free first.
#[test]
fn waiters_go_to_whichever_server_is_free() {
    let latches = [Latch::new(), Latch::new()];
    let (a, b) = (held(&latches[0], "a"), held(&latches[1], "b"));
    let queue = "queue = { max_len = 2, max_delay = \"60s\" }";
    let proxy = before(a.address(), b.address(), ", max_connections = 1", queue);
    let mut clients: Vec<Web> = (0..4).map(|_| proxy.connect()).collect();
    for (number, web) in clients.iter_mut().enumerate() {
        web.ask("/", "");
        proxy.wait_for_counts(number.saturating_sub(1), number.min(1) + 1);
    }
    assert_eq!(proxy.connect().get("/").status, 503, "the queue has its bound");
    assert_eq!((a.wait_for(1).len(), b.wait_for(1).len()), (1, 1));
    latches[1].let_one();
    let _ = b.wait_for(2);
    latches[1].let_one();
    let _ = b.wait_for(3);
    assert_eq!(a.count(), 1);
    latches.iter().for_each(|latch| latch.open());
    assert!(clients.iter_mut().all(|web| web.answer().status == 200));
}

/// A server whose health check fails gets no requests, and waiting requests are sent to another one. It is used again
/// when its check succeeds.
#[test]
fn a_server_that_is_not_well_gets_nothing_and_comes_back() {
    let (latches, is_well) = ([Latch::new(), Latch::new()], Arc::new(AtomicBool::new(true)));
    let script = |latch: &Arc<Latch>, name: &'static str, well: Arc<AtomicBool>| {
        let latch = Arc::clone(latch);
        move |call: &mut Call<'_>| match (call.target(), well.load(Ordering::SeqCst)) {
            ("/health", true) => call.answer(204, ""),
            ("/health", false) => call.answer(500, ""),
            _ => {
                latch.pass();
                call.answer(200, name);
            }
        }
    };
    let a = Upstream::start(script(&latches[0], "a", Arc::clone(&is_well)));
    let b = Upstream::start(script(&latches[1], "b", Arc::new(AtomicBool::new(true))));
    let health = "health = { path = \"/health\", host = \"app.internal\", interval = \"100ms\", \
                  timeout = \"5s\", rise = 2, fall = 2 }\nqueue = { max_len = 9, max_delay = \"60s\" }";
    let proxy = before(a.address(), b.address(), ", max_connections = 1", health);
    let mut clients: Vec<Web> = (0..3).map(|_| proxy.connect()).collect();
    for (number, web) in clients.iter_mut().enumerate() {
        web.ask("/work", "");
        proxy.wait_for_counts(number.saturating_sub(1), number.min(1) + 1);
    }
    is_well.store(false, Ordering::SeqCst);
    wait_until_up(&proxy, "a", false);
    // Its slot is free, and still no request is sent there.
    latches[0].let_one();
    proxy.wait_for_counts(1, 1);
    latches[1].open();
    let work =
        |upstream: &Upstream| upstream.lines().iter().filter(|line| *line == "GET /work").count();
    assert!(clients.iter_mut().all(|web| web.answer().status == 200));
    assert_eq!((work(&a), work(&b)), (1, 2));
    for _ in 0..5 {
        assert_eq!(proxy.connect().get("/work").text(), "b");
    }
    is_well.store(true, Ordering::SeqCst);
    wait_until_up(&proxy, "a", true);
    latches[0].open();
    until(|| proxy.connect().get("/work").text().to_owned(), |text| text == "a");
    let asked = a.seen().into_iter().find(|seen| seen.line() == "GET /health").unwrap();
    assert_eq!(asked.field("host"), Some("app.internal"));
}

/// This also moves requests that wait for the rate of one server, not only for its room.
#[test]
fn those_who_wait_at_a_server_that_goes_down_move_on() {
    let is_well = Arc::new(AtomicBool::new(true));
    let well = Arc::clone(&is_well);
    let a = Upstream::start(move |call| match well.load(Ordering::SeqCst) {
        true => call.answer(200, "a"),
        false => call.close(),
    });
    let b = Upstream::saying("b");
    let more = "health = { path = \"/\", interval = \"100ms\", timeout = \"5s\", rise = 1, fall = 1 }\n\
                [[checkpoint]]\nname = \"slow\"\nat = \"server app/a\"\nrate = \"1/h\"\nburst = 1\n\
                queue = { max_len = 9, max_delay = \"2h\" }";
    let proxy = before(a.address(), b.address(), "", more);
    let mut clients: Vec<Web> = (0..4).map(|_| proxy.connect()).collect();
    for web in &mut clients {
        web.ask("/", "");
    }
    // In turn: a, b, then a again, which waits for an hour, and b.
    proxy.wait_for_counts(1, 0);
    is_well.store(false, Ordering::SeqCst);
    let mut texts: Vec<String> =
        clients.iter_mut().map(|web| web.answer().text().to_owned()).collect();
    texts.sort();
    assert_eq!(texts, ["a", "b", "b", "b"]);
}

/// Without health checks, failed connections show that a server is down. The requests are sent to another server, and
/// their clients notice nothing.
#[test]
fn requests_that_cannot_connect_go_to_another_server() {
    let (a, b) = (Upstream::saying("a"), Upstream::saying("b"));
    let address = a.address().to_owned();
    let proxy = before(&address, b.address(), "", "");
    let mut web = proxy.connect();
    assert_eq!([web.get("/").status, web.get("/").status], [200, 200]);
    a.stop();
    for number in 0..12 {
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
        web.send(post).unwrap();
        let answer = web.answer();
        assert_eq!((answer.status, answer.text()), (200, "b"), "{number}");
    }
    wait_until_up(&proxy, "a", false);
    let again = Upstream::start_at(&address, |call| call.answer(200, "again"));
    wait_until_up(&proxy, "a", true);
    until(|| web.get("/").text().to_owned(), |text| text == "again");
    assert!(again.count() > 0);
}

#[test]
fn without_retries_a_server_that_cannot_be_connected_to_is_told() {
    let b = Upstream::saying("b");
    let gone = Upstream::saying("a");
    gone.stop();
    let proxy = before(gone.address(), b.address(), "", "retries = 0");
    let mut web = proxy.connect();
    let mut statuses = [web.get("/").status, web.get("/").status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 502]);
}

/// When all servers are down, the response says so at once, and only as long as it is true.
#[test]
fn with_all_servers_down_the_refusal_says_so() {
    let a = Upstream::start(|call| call.answer(503, "not well"));
    let health =
        "health = { path = \"/\", interval = \"100ms\", timeout = \"5s\", rise = 1, fall = 1 }";
    let proxy = before(a.address(), a.address(), "", health);
    wait_until_up(&proxy, "a", false);
    wait_until_up(&proxy, "b", false);
    let answer = proxy.connect().get_with("/", "Accept: application/json\r\n");
    assert_eq!((answer.status, &answer.json()["error"]), (503, &"no_server".into()));
}

#[test]
fn round_robin_follows_the_weights_exactly() {
    let servers = [Upstream::saying("a"), Upstream::saying("b"), Upstream::saying("c")];
    let weights = [3, 1, 0];
    let list: Vec<String> = ["a", "b", "c"]
        .iter()
        .zip(&servers)
        .zip(weights)
        .map(|((name, upstream), weight)| {
            server(name, upstream.address(), &format!(", weight = {weight}"))
        })
        .collect();
    let proxy = start(&format!("servers = [{}]\n", list.join(", ")));
    let mut web = proxy.connect();
    for _ in 0..40 {
        assert_eq!(web.get("/").status, 200);
    }
    assert_eq!(servers.map(|upstream| upstream.count()), [30, 10, 0]);
}

/// The server with the fewest requests relative to its weight is next.
#[test]
fn least_connections_looks_at_what_each_has() {
    let latch = Latch::new();
    let (a, b) = (held(&latch, "a"), held(&latch, "b"));
    let list = [server("a", a.address(), ", weight = 2"), server("b", b.address(), "")].join(", ");
    let proxy = start(&format!("servers = [{list}]\nbalance = \"least-connections\"\n"));
    let mut clients: Vec<Web> = (0..9).map(|_| proxy.connect()).collect();
    for (number, web) in clients.iter_mut().enumerate() {
        web.ask("/", "");
        proxy.wait_for_counts(0, number + 1);
    }
    until(|| (a.count(), b.count()), |counts| *counts == (6, 3));
    latch.open();
    assert!(clients.iter_mut().all(|web| web.answer().status == 200));
}

#[test]
fn power_of_two_spreads_the_load() {
    let latch = Latch::new();
    let (a, b) = (held(&latch, "a"), held(&latch, "b"));
    let proxy = before(a.address(), b.address(), "", "balance = \"power-of-two\"");
    let mut clients: Vec<Web> = (0..20).map(|_| proxy.connect()).collect();
    for (number, web) in clients.iter_mut().enumerate() {
        web.ask("/", "");
        proxy.wait_for_counts(0, number + 1);
    }
    // With two servers both are compared, so they never differ by more than one.
    until(|| (a.count(), b.count()), |counts| *counts == (10, 10));
    latch.open();
    assert!(clients.iter_mut().all(|web| web.answer().status == 200));
}

/// A server may close an idle connection; the next client does not notice.
#[test]
fn connections_that_servers_closed_are_not_used_again() {
    let upstream = Upstream::start(|call| {
        call.body();
        call.answer(200, "ok");
        call.close();
    });
    let proxy = Proxy::before(upstream.address(), "");
    let mut web = proxy.connect();
    for _ in 0..20 {
        // Not even if the end of the connection has not arrived yet.
        assert_eq!(web.get("/").status, 200);
        until(|| upstream.open_connections(), |count| *count == 0);
        web.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx").unwrap();
        assert_eq!(web.answer().status, 200);
        until(|| upstream.open_connections(), |count| *count == 0);
    }
    assert_eq!(upstream.count(), 40, "and each request came once");
}

/// Failures that were counted under other settings do not prevent a server from being set down: here, failures under
/// another health check.
#[test]
fn a_dead_server_goes_down_whatever_was_edited_before() {
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = |more: &str| {
        let servers = server("a", &dead.to_string(), "");
        format!("{}[[backend]]\nname = \"app\"\nservers = [{servers}]\n{more}", Proxy::FRONTEND)
    };
    let proxy = Proxy::start(&text("health = { interval = \"1h\", fall = 1000 }\n"));
    let mut web = proxy.connect();
    for _ in 0..2 {
        assert_eq!(web.get("/").status, 502);
    }
    proxy.reload(&text(""));
    let answer = until(|| web.get("/"), |answer| answer.status == 503);
    assert!(answer.text().contains("app"), "{}", answer.text());
    wait_until_up(&proxy, "a", false);
}

/// Each backend has its own idle timeout, whichever was used first.
#[test]
fn a_short_idle_time_is_kept_beside_a_long_one() {
    let (long, short) = (Upstream::saying("long"), Upstream::saying("short"));
    let proxy = Proxy::start(&format!(
        "{}use_backend = [{{ when = 'path == \"/long\"', backend = \"long\" }}]\n\
         [[backend]]\nname = \"app\"\nservers = [{}]\ntimeouts = {{ idle = \"1s\" }}\n\
         [[backend]]\nname = \"long\"\nservers = [{}]\ntimeouts = {{ idle = \"1h\" }}\n",
        Proxy::FRONTEND,
        server("a", short.address(), ""),
        server("a", long.address(), "")
    ));
    let mut web = proxy.connect();
    assert_eq!((web.get("/long").text(), web.get("/").text()), ("long", "short"));
    until(|| short.open_connections(), |count| *count == 0);
    assert_eq!(long.open_connections(), 1, "it is kept for an hour");
}

/// The client got a status and part of a body: both are counted, in both protocols.
#[test]
fn a_response_that_is_cut_short_is_counted() {
    let upstream = Upstream::start(|call| {
        call.send("HTTP/1.1 203 Cut\r\nContent-Length: 10\r\n\r\nhello");
        call.close();
    });
    let proxy = Proxy::before(upstream.address(), "");
    let mut web = proxy.connect();
    web.ask("/", "");
    assert!(web.try_answer(false).is_err());
    let words = ["--http2-prior-knowledge", "-s", "-o", "/dev/null", &proxy.url("/")];
    assert!(!std::process::Command::new("curl").args(words).status().unwrap().success());
    let api = &mut proxy.daemon.api();
    let figures = until(
        || api.get("/v1/frontends/web").expect(200)["figures"].clone(),
        |figures| figures["responses"]["2xx"] == 2,
    );
    assert_eq!((&figures["cut"], &figures["left"]), (&2.into(), &0.into()), "{figures}");
    let metrics = api.get("/metrics").text;
    assert!(metrics.contains("paceline_frontend_cut_total{frontend=\"web\"} 2\n"), "{metrics}");
}

/// Requests that no rule sends elsewhere run in the default pool, which needs no configuration.
#[test]
fn the_default_pool_is_among_the_metrics() {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.answer(200, "ok");
    });
    let more = "[[pool]]\nname = \"other\"\npriority = [10, 20]\n";
    let proxy = Proxy::before(upstream.address(), more);
    let mut web = proxy.connect();
    web.ask("/", "");
    proxy.wait_for_counts(0, 1);
    let metrics = proxy.daemon.api().get("/metrics").text;
    for line in ["running{pool=\"default\"} 1\n", "waiting{pool=\"default\"} 0\n"] {
        assert!(metrics.contains(&format!("paceline_pool_{line}")), "{metrics}");
    }
    assert!(metrics.contains("paceline_pool_running{pool=\"other\"} 0\n"), "{metrics}");
    latch.open();
    assert_eq!(web.answer().status, 200);
}

/// Edits that do not concern a server do not reset its count of failures.
#[test]
fn failures_count_on_while_other_things_are_edited() {
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = |number: usize| {
        let servers = server("a", &dead.to_string(), "");
        let other = format!("[[backend]]\nname = \"other{number}\"\n");
        format!("{}[[backend]]\nname = \"app\"\nservers = [{servers}]\n{other}", Proxy::FRONTEND)
    };
    let proxy = Proxy::start(&text(0));
    for number in 1..=3 {
        assert_eq!(proxy.connect().get("/").status, 502);
        let file = proxy.scratch.write("other.toml", text(number));
        let mut apply = std::process::Command::new(paceline_tests::server::paceline_binary());
        apply.env("PACELINE_DATA", proxy.daemon.data()).args(["apply", "--take-over"]).arg(file);
        // It returns when the door has applied the edit.
        assert!(apply.output().unwrap().status.success());
    }
    wait_until_up(&proxy, "a", false);
}
