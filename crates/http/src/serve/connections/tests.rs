//! Who gets a connection, of all and of one frontend.

use super::{At, Connections, CountedConnection, Full, OWN_MIN, Scope};
use crate::serve::clients::{Account, Client, Clients};
use paceline_host::Tally;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const ALL: usize = 100;

/// The frontends `web` and `other`.
struct Kit {
    all: Arc<Connections>,
    clients: Clients,
    tallies: [Arc<Tally>; 2],
    /// The `max_connections` of both.
    max: usize,
}

impl Kit {
    fn new(max: usize) -> Self {
        let all = Connections::new(ALL);
        all.share_among(["web".into(), "other".into()]);
        Self { all, clients: Clients::default(), tallies: Default::default(), max }
    }

    fn account(&self, text: &str) -> Arc<Account> {
        self.clients.account(Client::Address(text.parse().unwrap()))
    }

    fn at<'a>(&'a self, frontend: &'a str) -> At<'a> {
        let tally = &self.tallies[usize::from(frontend == "other")];
        At { frontend, max: self.max, tally }
    }

    /// Those of the frontend `web`.
    fn web(&self) -> Scope {
        Some(self.at("web").number())
    }

    fn enter(&self, frontend: &str, of: &Arc<Account>) -> Result<CountedConnection, Full> {
        self.all.enter(self.at(frontend), of)
    }

    /// As many as a client gets.
    fn greedy(&self, frontend: &str, of: &Arc<Account>) -> Vec<CountedConnection> {
        std::iter::from_fn(|| self.enter(frontend, of).ok()).collect()
    }

    /// That all is given back.
    #[track_caller]
    fn is_empty(&self) {
        let books = self.all.books();
        assert!(books.clients.counts.is_empty() && books.clients.by_count.is_empty());
        assert_eq!(books.frontends.free(), ALL);
        assert!(self.tallies.iter().all(|tally| tally.connections.load(Ordering::Relaxed) == 0));
    }
}

#[test]
fn one_client_leaves_connections_to_others_d1() {
    let kit = Kit::new(usize::MAX);
    let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|text| kit.account(text));
    let held = kit.greedy("web", &one);
    assert_eq!(held.len(), 63, "three quarters of those that are not kept for the other frontend");
    assert_eq!(kit.enter("other", &one).unwrap_err(), Full::Share(None), "nor there");
    assert!(kit.greedy("web", &two).len() > OWN_MIN, "those are given back");
    assert!(kit.greedy("other", &two).len() > OWN_MIN);
    drop(held);
    kit.is_empty();
    assert_eq!(kit.greedy("web", &one).len(), 63);
}

/// A proxy that is trusted has all but what is kept for other frontends; an idle one of its connections makes room.
#[test]
fn a_trusted_proxy_leaves_connections_to_other_frontends_d1() {
    let kit = Kit::new(usize::MAX);
    let (proxy, two) = (kit.clients.account(Client::Trusted), kit.account("192.0.2.2"));
    let mut held = kit.greedy("web", &proxy);
    assert_eq!(held.len(), ALL - 16);
    assert_eq!(kit.enter("web", &two).unwrap_err(), Full::All(None, vec![proxy.number]));
    assert_eq!(kit.greedy("other", &two).len(), OWN_MIN);
    // Each takes the place of an idle one of the proxy's, but no client has them all by that.
    let take_place = |_| {
        drop(held.pop());
        kit.enter("web", &two).unwrap()
    };
    let more: Vec<_> = (0..OWN_MIN).map(take_place).collect();
    assert_eq!(kit.enter("web", &two).unwrap_err(), Full::Share(None));
    drop((held, more));
    kit.is_empty();
}

/// The connections of one frontend are shared among its clients as those of all frontends are.
#[test]
fn one_client_leaves_connections_of_a_frontend_to_others_d1() {
    let kit = Kit::new(20);
    let [one, two, three] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|text| kit.account(text));
    let held = kit.greedy("web", &one);
    assert_eq!(held.len(), 15, "three quarters of what the frontend may have");
    assert_eq!(kit.enter("web", &one).unwrap_err(), Full::Share(kit.web()));
    assert!(kit.enter("other", &one).is_ok(), "another frontend has its own");
    let more = kit.greedy("web", &two);
    assert_eq!(more.len(), OWN_MIN);
    let last = kit.enter("web", &three).unwrap();
    let greediest = vec![one.number, two.number, three.number];
    assert_eq!(kit.enter("web", &three).unwrap_err(), Full::All(kit.web(), greediest));
    drop((held, more, last));
    kit.is_empty();
}

/// A connection whose PROXY header names another client is that client's, and takes no second place.
#[test]
fn a_connection_that_is_moved_counts_once_d1() {
    let kit = Kit::new(4);
    let (proxy, two) = (kit.clients.account(Client::Trusted), kit.account("192.0.2.2"));
    let mut held = kit.greedy("web", &proxy);
    assert_eq!(held.len(), 4);
    for counted in &mut held {
        assert_eq!(counted.share_of(kit.at("web"), &two), None);
        counted.move_to(Arc::clone(&two));
    }
    assert_eq!(held[0].share_of(kit.at("web"), &two), Some(kit.web()));
    assert_eq!(kit.enter("web", &proxy).unwrap_err(), Full::All(kit.web(), vec![two.number]));
    drop(held);
    kit.is_empty();
}
