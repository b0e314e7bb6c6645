//! Changing everything under load: no request fails, and an address that stays configured never refuses.

use super::load::Load;
use paceline_tests::server::paceline_binary;
use paceline_tests::{Proxy, Scratch, Upstream, Web, tool, until};
use rustix::process::Signal;
use serde_json::json;
use std::net::TcpListener;
use std::process::Command;

fn server(name: &str, upstream: &Upstream) -> String {
    format!("{{ name = \"{name}\", address = \"{}\" }}", upstream.address())
}

fn config(listen: &str, servers: &[String], more: &str) -> String {
    format!(
        "[[frontend]]\nname = \"web\"\nlisten = {listen}\nbackend = \"app\"\n\
         [[backend]]\nname = \"app\"\nservers = [{}]\n{more}",
        servers.join(", ")
    )
}

/// A port that is free now. The system does not assign it again as long as it has others.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

const PACE: &str = "[[checkpoint]]\nname = \"pace\"\nat = \"frontend web\"\nrate = \"5000/s\"\n\
                    burst = 10\nqueue = { max_len = 1000, max_delay = \"60s\" }\n";
const FEW: &str = "[[checkpoint]]\nname = \"few\"\nat = \"backend app\"\nconcurrency = 3\n\
                   queue = { max_len = 1000, max_delay = \"60s\" }\n";

#[test]
fn everything_is_changed_under_load_and_no_request_fails() {
    let upstreams = [Upstream::saying("a"), Upstream::saying("b"), Upstream::saying("c")];
    let [a, b, c] = ["a", "b", "c"].map(|name| {
        let number = (name.as_bytes()[0] - b'a') as usize;
        server(name, &upstreams[number])
    });
    let (first, second) = (free_address(), free_address());
    let one = format!("[\"{first}\"]");
    let two = format!("[\"{first}\", \"{second}\"]");
    let other =
        format!("[[frontend]]\nname = \"other\"\nlisten = \"{second}\"\nbackend = \"app\"\n");
    let proxy = Proxy::start(&config(&one, std::slice::from_ref(&a), ""));
    Load::run(&first, 8, |load| {
        for _ in 0..2 {
            for next in [
                config(&one, &[a.clone(), b.clone()], PACE),
                config(&two, &[b.clone(), c.clone()], FEW),
                config(&one, &[c.clone(), a.clone(), b.clone()], &format!("{PACE}{FEW}")),
                config(&one, std::slice::from_ref(&b), &other),
                config(&one, std::slice::from_ref(&a), ""),
            ] {
                proxy.reload(&next);
                load.more(50);
                let is_open = next.contains(&second);
                let look = || Web::try_connect(&second).is_ok();
                until(look, |seen| *seen == is_open);
            }
        }
    });
    assert!(upstreams.iter().all(|upstream| upstream.count() > 0));
    // A removed server gets no more requests.
    let before = upstreams[1].count();
    for _ in 0..10 {
        assert_eq!(Web::connect(&first).get("/").text(), "a");
    }
    assert_eq!(upstreams[1].count(), before);
}

/// The same through the API, as `paceline apply` does it, and with single objects.
#[test]
fn edits_through_the_api_are_served_at_once() {
    let (a, b) = (Upstream::saying("a"), Upstream::saying("b"));
    let first = free_address();
    let listen = format!("\"{first}\"");
    let proxy = Proxy::start(&config(&listen, &[server("a", &a)], ""));
    Load::run(&first, 4, |load| {
        let file = proxy.scratch.write("next.toml", config(&listen, &[server("b", &b)], FEW));
        let data = proxy.daemon.data().display().to_string();
        let binary = paceline_tests::server::paceline_binary();
        let file = file.display().to_string();
        let words = ["apply", "--data", &data, &file, "--owner", "http.toml"];
        tool::run(&binary.display().to_string(), &words).unwrap();
        until(|| Web::connect(&first).get("/").text().to_owned(), |text| text == "b");
        load.more(50);
        let _ = proxy.daemon.api().delete("/v1/checkpoints/few").expect(204);
        load.more(50);
    });
    assert!(b.in_flight_max() >= 1);
}

/// A server is added and removed while requests wait for room: a request that is assigned to it as it is removed gets
/// another server, and is not refused while others have room.
#[test]
fn a_server_that_comes_and_goes_fails_no_request_that_another_can_serve() {
    const EDITS: usize = 60;
    let upstreams = [Upstream::saying("a"), Upstream::saying("b")];
    let with = |name: &str, upstream: &Upstream| {
        format!(
            "{{ name = \"{name}\", address = \"{}\", max_connections = 2 }}",
            upstream.address()
        )
    };
    let (first, queue) = (free_address(), "queue = { max_len = 1000, max_delay = \"60s\" }\n");
    let [a, b] = [with("a", &upstreams[0]), with("b", &upstreams[1])];
    let proxy = Proxy::start(&config(&format!("\"{first}\""), &[a, b], queue));
    let server = json!({"address": upstreams[1].address(), "max_connections": 2});
    Load::run(&first, 8, |_| {
        let mut api = proxy.daemon.api();
        for _ in 0..EDITS {
            let _ = api.delete("/v1/servers/app/b").expect(204);
            let _ = api.call("PUT", "/v1/servers/app/b", &server).expect(201);
        }
    });
    assert!(upstreams.iter().all(|upstream| upstream.count() > 0));
    assert!(upstreams.iter().all(|upstream| upstream.in_flight_max() <= 2));
}

/// Requests that wait in a deleted queue proceed; requests on a connection of a deleted frontend get their responses.
#[test]
fn those_who_wait_are_not_forgotten() {
    let latch = paceline_tests::Latch::new();
    let theirs = std::sync::Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.answer(200, "ok");
    });
    let first = free_address();
    let listen = format!("\"{first}\"");
    let servers = [server("a", &upstream)];
    let few = FEW.replace("concurrency = 3", "concurrency = 1");
    let proxy = Proxy::start(&config(&listen, &servers, &few));
    let mut clients: Vec<Web> = (0..5).map(|_| Web::connect(&first)).collect();
    clients.iter_mut().for_each(|web| web.ask("/", ""));
    proxy.wait_for_counts(4, 1);
    // A higher limit admits two more requests, no limit admits all.
    proxy.reload(&config(&listen, &servers, FEW));
    proxy.wait_for_counts(2, 3);
    assert_eq!(upstream.wait_for(3).len(), 3);
    proxy.reload(&config(&listen, &servers, ""));
    proxy.wait_for_counts(0, 5);
    proxy.reload("[[backend]]\nname = \"app\"\nservers = []\n");
    until(|| Web::try_connect(&first).is_err(), |is_closed| *is_closed);
    latch.open();
    for web in &mut clients {
        assert_eq!(web.answer().text(), "ok");
    }
}

/// A port that is in use is logged and retried; the rest of the edit is applied meanwhile.
#[test]
fn an_address_that_is_taken_leaves_the_others_as_they_are() {
    let upstream = Upstream::saying("ok");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let first = free_address();
    let servers = [server("a", &upstream)];
    let proxy = Proxy::start(&config(&format!("\"{first}\""), &servers, ""));
    let both = format!("[\"{first}\", \"{}\"]", taken.local_addr().unwrap());
    // The order of the two lines is undefined, so neither is skipped for the other.
    let _ = proxy.scratch.write("http.toml", config(&both, &servers, ""));
    proxy.daemon.signal(Signal::HUP);
    let line = proxy.daemon.log_line(&["cannot listen at"]).unwrap();
    assert!(line.contains("frontend=web"), "{line}");
    assert_eq!(Web::connect(&first).get("/").status, 200);
    let address = taken.local_addr().unwrap().to_string();
    drop(taken);
    until(|| Web::try_connect(&address).is_ok(), |is_open| *is_open);
}

/// According to wrk there is no error of any kind while the configuration is reloaded repeatedly.
#[test]
fn wrk_sees_no_error_while_the_configuration_changes() {
    let upstream = Upstream::saying("ok");
    let first = free_address();
    let listen = format!("\"{first}\"");
    let servers = [server("a", &upstream)];
    let proxy = Proxy::start(&config(&listen, &servers, ""));
    let url = format!("http://{first}/");
    let words = ["-t1", "-c16", "-d3s", url.as_str()];
    let shown = std::thread::scope(|scope| {
        let wrk = scope.spawn(|| tool::run("wrk", &words).unwrap());
        while !wrk.is_finished() {
            for more in [PACE, FEW, ""] {
                proxy.reload(&config(&listen, &servers, more));
            }
        }
        wrk.join().unwrap()
    });
    assert!(shown.contains(" requests in "), "{shown}");
    assert!(!shown.contains("Socket errors") && !shown.contains("Non-2xx"), "{shown}");
}

/// A frontend that cannot bind its new address keeps its old one until it can.
#[test]
fn a_frontend_stays_where_it_is_until_it_can_move() {
    let upstream = Upstream::saying("ok");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (first, second) = (free_address(), taken.local_addr().unwrap().to_string());
    let servers = [server("a", &upstream)];
    let proxy = Proxy::start(&config(&format!("\"{first}\""), &servers, ""));
    let _ = proxy.scratch.write("http.toml", config(&format!("\"{second}\""), &servers, ""));
    proxy.daemon.signal(Signal::HUP);
    proxy.daemon.log_line(&["cannot listen at", "frontend=web"]).unwrap();
    assert_eq!(Web::connect(&first).get("/").status, 200);
    drop(taken);
    until(|| Web::try_connect(&first).is_err(), |is_closed| *is_closed);
    assert_eq!(Web::connect(&second).get("/").status, 200);
    proxy.daemon.log_line(&["as configured again"]).unwrap();
}

/// `apply` itself reports that a frontend could not be opened.
#[test]
fn apply_fails_when_a_frontend_cannot_listen_where_the_file_says() {
    let upstream = Upstream::saying("ok");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (first, second) = (free_address(), taken.local_addr().unwrap().to_string());
    let servers = [server("a", &upstream)];
    let proxy = Proxy::start(&config(&format!("\"{first}\""), &servers, ""));
    let other = proxy.scratch.write("other.toml", config(&format!("\"{second}\""), &servers, ""));
    let apply = |words: &[&str]| {
        let mut command = Command::new(paceline_binary());
        command.env("PACELINE_DATA", proxy.daemon.data()).arg("apply").arg(&other).args(words);
        command.args(["--owner", "http.toml"]);
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(apply(&["--dry-run"]), (0, String::new()), "nothing was tried");
    let (code, told) = apply(&[]);
    assert_eq!(code, 1, "{told}");
    let expected = format!(
        "applied, but the HTTP door differs from the configuration: frontend web: \
                            cannot listen at {second}"
    );
    assert!(told.contains(&expected), "{told}");
    drop(taken);
    until(|| apply(&[]), |(code, told)| *code == 0 && told == "nothing to change\n");
    assert_eq!(Web::connect(&second).get("/").status, 200);
}

/// With port 0 the system chooses a port, separately for each frontend.
#[test]
fn two_frontends_with_port_0_are_two_listeners() {
    let upstream = Upstream::saying("ok");
    let text = config("\"127.0.0.1:0\"", &[server("a", &upstream)], "");
    let other = "[[frontend]]\nname = \"other\"\nlisten = \"127.0.0.1:0\"\n";
    let proxy = Proxy::start(&format!("{text}{other}"));
    assert_ne!(proxy.address("web"), proxy.address("other"));
    assert_eq!(Web::connect(proxy.address("web")).get("/").status, 200);
    assert_eq!(Web::connect(proxy.address("other")).get("/").status, 503, "it has no backend");
    // One of the two is removed, the other keeps its port.
    let kept = proxy.address("web").to_owned();
    proxy.reload(&text);
    until(|| Web::try_connect(proxy.address("other")).is_err(), |is_closed| *is_closed);
    assert_eq!(Web::connect(&kept).get("/").status, 200);
}

fn port_of(address: &str) -> &str {
    address.rsplit_once(':').unwrap().1
}

/// A frontend can be restricted to fewer addresses: its own wider listener does not conflict.
#[test]
fn a_listener_can_be_narrowed_and_widened() {
    let upstream = Upstream::saying("ok");
    let port = port_of(&free_address()).to_owned();
    let servers = [server("a", &upstream)];
    let wide = config(&format!("\"0.0.0.0:{port}\""), &servers, "");
    let narrow = config(&format!("\"127.0.0.1:{port}\""), &servers, "");
    let proxy = Proxy::start(&wide);
    let (here, beside) = (format!("127.0.0.1:{port}"), format!("127.0.0.2:{port}"));
    assert_eq!(Web::connect(&beside).get("/").status, 200);
    proxy.reload(&narrow);
    until(|| Web::try_connect(&beside).is_err(), |is_closed| *is_closed);
    assert_eq!(Web::connect(&here).get("/").status, 200);
    proxy.reload(&wide);
    until(|| Web::try_connect(&beside).is_ok(), |is_open| *is_open);
}

/// A removed address is closed, whatever else is wrong with the frontend.
#[test]
fn a_page_that_cannot_be_read_keeps_no_listener_open() {
    let upstream = Upstream::saying("ok");
    let (first, second) = (free_address(), free_address());
    let servers = [server("a", &upstream)];
    let both = format!("[\"{first}\", \"{second}\"]\nerrors = {{ 503 = \"busy.html\" }}");
    let scratch = Scratch::new();
    let page = scratch.write("busy.html", "busy");
    let proxy = Proxy::start_in(scratch, &config(&both, &servers, ""));
    std::fs::remove_file(page).unwrap();
    proxy.reload(&config(&both.replace(&format!(", \"{second}\""), ""), &servers, ""));
    until(|| Web::try_connect(&second).is_err(), |is_closed| *is_closed);
    assert_eq!(Web::connect(&first).get("/").status, 200);
}

/// As in docs/http.md: all addresses of both families, on one port.
#[test]
fn both_kinds_of_addresses_can_have_the_same_port() {
    // A machine may lack IPv6, which is then reported.
    let has_ipv6 = TcpListener::bind("[::1]:0").is_ok();
    let upstream = Upstream::saying("ok");
    let port = port_of(&free_address()).to_owned();
    let text = |six: &str| format!("[\"0.0.0.0:{port}\", \"{six}:{port}\"]");
    let listen = text(if has_ipv6 { "[::]" } else { "127.0.0.2" });
    let proxy = Proxy::start(&config(&listen, &[server("a", &upstream)], ""));
    let other = if has_ipv6 { "[::1]" } else { "127.0.0.2" };
    for host in ["127.0.0.1", other] {
        assert_eq!(Web::connect(&format!("{host}:{port}")).get("/").status, 200, "{host}");
    }
    drop(proxy);
}

/// All problems of each frontend are reported at once.
#[test]
fn each_frontend_tells_its_own_problem() {
    let upstream = Upstream::saying("ok");
    let taken = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = taken.each_ref().map(|socket| socket.local_addr().unwrap().to_string());
    let text = config(&format!("\"{}\"", free_address()), &[server("a", &upstream)], "");
    let proxy = Proxy::start(&text);
    let more = [("x", &addresses[0]), ("y", &addresses[1])]
        .map(|(name, at)| format!("[[frontend]]\nname = \"{name}\"\nlisten = \"{at}\"\n"));
    proxy.reload(&format!("{text}{}", more.concat()));
    let mut api = proxy.daemon.api();
    let status = || api.get("/v1/status").expect(200)["http"]["problems"].clone();
    let problems = until(status, |problems| problems.as_array().is_some_and(|all| all.len() == 2));
    for (problem, name, at) in
        [(&problems[0], "x", &addresses[0]), (&problems[1], "y", &addresses[1])]
    {
        let expected = format!("frontend {name}: cannot listen at {at}: ");
        assert!(problem.as_str().unwrap().starts_with(&expected), "{problem}");
    }
}
