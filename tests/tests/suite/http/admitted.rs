//! A running request counts where it was admitted until it ends, whatever is edited meanwhile; and a dead server
//! fails only the requests that it was serving.

use paceline_tests::{Latch, Proxy, Upstream, Web};
use std::sync::Arc;

fn held(latch: &Arc<Latch>, text: &'static str) -> Upstream {
    let latch = Arc::clone(latch);
    Upstream::start(move |call| {
        latch.pass();
        call.answer(200, text);
    })
}

fn config(servers: &[String], more: &str) -> String {
    let servers = servers.join(", ");
    format!("{}[[backend]]\nname = \"app\"\nservers = [{servers}]\n{more}\n", Proxy::FRONTEND)
}

fn server(name: &str, upstream: &Upstream, max: u32) -> String {
    let address = upstream.address();
    format!("{{ name = \"{name}\", address = \"{address}\", max_connections = {max} }}")
}

/// Sends one request for each of these users, each on its own connection.
fn ask(proxy: &Proxy, users: &[&str]) -> Vec<Web> {
    let one = |user: &&str| {
        let mut web = proxy.connect();
        web.ask("/", &format!("x-user: {user}\r\n"));
        web
    };
    users.iter().map(one).collect()
}

/// P1: a busy server that two reloads remove and add again gets no more than its maximum (it had 4 of 2).
#[test]
fn a_server_that_comes_back_has_no_more_than_its_maximum_p1() {
    let (latch, never) = (Latch::new(), Latch::new());
    let (a, b) = (held(&latch, "a"), held(&never, "b"));
    let queue = "queue = { max_len = 9, max_delay = \"60s\" }";
    let both = config(&[server("a", &a, 2), server("b", &b, 1)], queue);
    let proxy = Proxy::start(&both);
    let mut clients = ask(&proxy, &["x"; 3]);
    proxy.wait_for_counts(0, 3);
    let _ = (a.wait_for(2), b.wait_for(1));
    for _ in 0..3 {
        proxy.reload(&config(&[server("b", &b, 1)], queue));
        proxy.reload(&both);
        clients.extend(ask(&proxy, &["x"; 2]));
        proxy.wait_for_counts(clients.len() - 3, 3);
    }
    assert_eq!((a.in_flight(), b.in_flight()), (2, 1));
    latch.open();
    never.open();
    assert!(clients.iter_mut().all(|web| web.answer().status == 200));
    assert_eq!((a.in_flight_max(), b.in_flight_max()), (2, 1));
}

/// P1: a checkpoint whose key is changed and changed back, or that is deleted and created again, still counts the
/// requests that passed it (6 of 2 ran).
#[test]
fn a_checkpoint_that_is_edited_back_has_no_more_than_its_limit_p1() {
    let latch = Latch::new();
    let upstream = held(&latch, "a");
    let with = |key: &str| {
        let few = format!(
            "[[checkpoint]]\nname = \"few\"\nat = \"backend app\"\nkey = '{key}'\nconcurrency = 2\n\
             queue = {{ max_len = 99, max_delay = \"60s\" }}"
        );
        config(&[server("a", &upstream, 99)], &few)
    };
    let by_user = with("header[\"x-user\"]");
    let proxy = Proxy::start(&by_user);
    let mut clients = ask(&proxy, &["ann"; 2]);
    proxy.wait_for_counts(0, 2);
    // No request waits yet when it is deleted: a waiting request would proceed.
    for other in [config(&[server("a", &upstream, 99)], ""), with("path"), with("method")] {
        proxy.reload(&other);
        proxy.reload(&by_user);
        clients.extend(ask(&proxy, &["ann"; 2]));
        proxy.wait_for_counts(clients.len() - 2, 2);
    }
    latch.open();
    assert!(clients.iter_mut().all(|web| web.answer().status == 200));
    assert_eq!(upstream.in_flight_max(), 2);
}

/// A server that dies fails only the requests that it was serving. A request that is sent there afterwards returns to
/// the queue. Failed connections set the server down although it has a health check (51 of 60 had 502).
#[test]
fn a_dead_server_does_not_empty_the_queue() {
    let latches = [Latch::new(), Latch::new()];
    let (a, b) = (held(&latches[0], "a"), held(&latches[1], "b"));
    let more = "balance = \"least-connections\"\nhealth = { interval = \"1h\" }\n\
                queue = { max_len = 99, max_delay = \"60s\" }";
    let proxy = Proxy::start(&config(&[server("a", &a, 5), server("b", &b, 5)], more));
    let mut clients = ask(&proxy, &["x"; 60]);
    proxy.wait_for_counts(50, 10);
    let _ = (a.wait_for(5), b.wait_for(5));
    a.stop();
    // All requests run or wait, except those at the server that died.
    proxy.wait_for_counts(50, 5);
    latches.iter().for_each(|latch| latch.open());
    let answers: Vec<u16> = clients.iter_mut().map(|web| web.answer().status).collect();
    let of = |status: u16| answers.iter().filter(|other| **other == status).count();
    assert_eq!((of(200), of(502)), (55, 5), "{answers:?}");
}
