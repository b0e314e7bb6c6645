//! Tests which clients get a connection, in total and at one frontend.

use super::{At, Connections, CountedConnection, Full, OWN_MIN, Scope};
use crate::serve::clients::{Account, Client, Clients};
use crate::serve::presence::Presence;
use paceline_host::Tally;
use std::pin::pin;
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

    /// The connections of the frontend `web`.
    fn web(&self) -> Scope {
        Some(self.at("web").number())
    }

    fn enter(&self, frontend: &str, of: &Arc<Account>) -> Result<CountedConnection, Full> {
        self.all.enter(self.at(frontend), of)
    }

    /// Opens as many connections as the client gets.
    fn greedy(&self, frontend: &str, of: &Arc<Account>) -> Vec<CountedConnection> {
        std::iter::from_fn(|| self.enter(frontend, of).ok()).collect()
    }

    /// Whether an idle connection ends for one of this client that does not fit.
    fn displace(&self, frontend: &str, of: &Arc<Account>) -> Option<Arc<Presence>> {
        let full = self.enter(frontend, of).expect_err("there is room");
        self.all.displace(full, self.at(frontend), of)
    }

    /// That all is given back.
    #[track_caller]
    fn is_empty(&self) {
        let books = self.all.books();
        assert!(books.clients.groups.is_empty() && books.clients.by_count.is_empty());
        assert_eq!(books.frontends.free(), ALL);
        assert!(self.tallies.iter().all(|tally| tally.connections.load(Ordering::Relaxed) == 0));
    }
}

fn set_idle(counted: &CountedConnection) {
    counted.presence().set_idle();
}

/// Whether this one is found.
fn is(found: &Option<Arc<Presence>>, counted: &CountedConnection) -> bool {
    found.as_ref().is_some_and(|found| Arc::ptr_eq(found, counted.presence()))
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

/// A trusted proxy gets all connections except those reserved for other frontends. Its idle connections make room.
#[test]
fn a_trusted_proxy_leaves_connections_to_other_frontends_d1() {
    let kit = Kit::new(usize::MAX);
    let (proxy, two) = (kit.clients.account(Client::Trusted), kit.account("192.0.2.2"));
    let mut held = kit.greedy("web", &proxy);
    assert_eq!(held.len(), ALL - 16);
    assert_eq!(kit.enter("web", &two).unwrap_err(), Full::All(None));
    assert!(kit.displace("web", &two).is_none(), "all are busy");
    held.iter().for_each(set_idle);
    assert!(is(&kit.displace("web", &two), &held[0]));
    assert_eq!(kit.greedy("other", &two).len(), OWN_MIN);
    // Each replaces an idle connection of the proxy, but no client can get all of them in this way.
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
    assert_eq!(kit.enter("web", &three).unwrap_err(), Full::All(kit.web()));
    // The one that has the most gives first, as long as it has an idle one.
    for counted in [&last, &more[1], &more[2], &held[7]] {
        set_idle(counted);
    }
    for counted in [&held[7], &more[1], &more[2], &last] {
        assert!(is(&kit.displace("web", &three), counted));
    }
    assert!(kit.displace("web", &three).is_none());
    drop((held, more, last));
    kit.is_empty();
}

/// A connection whose PROXY header names another client counts for that client, and takes no second place.
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
    assert_eq!(kit.enter("web", &proxy).unwrap_err(), Full::All(kit.web()));
    drop(held);
    kit.is_empty();
}

/// However many clients tie, and however many connections of theirs are busy, the one that is idle is found.
#[test]
fn the_only_idle_connection_among_many_is_found_d1() {
    let kit = Kit::new(ALL / 2);
    let accounts: Vec<_> = (1..=ALL / 2).map(|n| kit.account(&format!("192.0.2.{n}"))).collect();
    let held: Vec<_> = accounts.iter().map(|of| kit.enter("web", of).unwrap()).collect();
    let last = kit.account("192.0.2.99");
    held.iter().for_each(set_idle);
    held.iter().for_each(|counted| assert!(counted.presence().begin()));
    assert!(kit.displace("web", &last).is_none(), "all are busy");
    set_idle(&held[17]);
    assert!(is(&kit.displace("web", &last), &held[17]));
    assert!(!held[17].presence().begin() && held[16].presence().begin());
    assert!(kit.displace("web", &last).is_none(), "it is displaced once");
    drop(held);
    kit.is_empty();
}

/// Those that are used make room last.
#[test]
fn the_connection_that_is_idle_for_long_makes_room_d1() {
    let kit = Kit::new(8);
    let of = kit.account("192.0.2.1");
    let held = kit.greedy("web", &of);
    assert_eq!(held.len(), 6);
    held.iter().for_each(set_idle);
    assert!(is(&kit.displace("web", &of), &held[0]), "the first that became idle");
    for counted in &held[1..4] {
        assert!(counted.presence().begin());
        counted.presence().set_idle();
    }
    for counted in [&held[4], &held[5], &held[1]] {
        assert!(is(&kit.displace("web", &of), counted));
    }
    drop(held);
    kit.is_empty();
}

/// A connection that would only be kept for its own frontend does not end for another one.
#[test]
fn what_is_kept_for_a_frontend_does_not_end_for_another_d1() {
    let kit = Kit::new(usize::MAX);
    let (proxy, two) = (kit.clients.account(Client::Trusted), kit.account("192.0.2.2"));
    let few: Vec<_> = (0..3).map(|_| kit.enter("other", &proxy).unwrap()).collect();
    few.iter().for_each(set_idle);
    let mut held = kit.greedy("web", &proxy);
    assert!(kit.displace("web", &two).is_none());
    set_idle(&held[50]);
    assert!(is(&kit.displace("web", &two), &held[50]));
    drop(held.remove(50));
    assert!(kit.enter("web", &two).is_ok());
    drop((few, held));
    kit.is_empty();
}

/// A connection that becomes idle wakes a listener that found none.
#[test]
fn who_found_no_idle_connection_hears_of_the_next_d1() {
    let kit = Kit::new(5);
    let (one, two) = (kit.account("192.0.2.1"), kit.account("192.0.2.2"));
    let (held, last) = (kit.greedy("web", &one), kit.enter("web", &two).unwrap());
    held.iter().for_each(set_idle);
    held.iter().for_each(|counted| assert!(counted.presence().begin()));
    let mut freed = pin!(kit.all.freed());
    assert!(!freed.as_mut().enable());
    assert!(kit.displace("web", &two).is_none());
    set_idle(&held[1]);
    assert!(freed.as_mut().enable());
    drop((held, last));
    kit.is_empty();
}

/// A connection on which a response is still being sent stays. The search continues without it, and finds it again when
/// it is idle.
#[test]
fn a_connection_that_stays_is_passed_over_d1() {
    let kit = Kit::new(5);
    let (one, two) = (kit.account("192.0.2.1"), kit.account("192.0.2.2"));
    let (held, last) = (kit.greedy("web", &one), kit.enter("web", &two).unwrap());
    held[..2].iter().for_each(set_idle);
    let mut freed = pin!(kit.all.freed());
    assert!(!freed.as_mut().enable());
    assert!(is(&kit.displace("web", &two), &held[0]));
    assert!(!held[0].presence().begin());
    held[0].presence().stay();
    assert!(freed.as_mut().enable(), "the search hears of it");
    assert!(held[0].presence().begin() && !held[0].presence().is_displaced());
    assert!(is(&kit.displace("web", &two), &held[1]));
    assert!(kit.displace("web", &two).is_none(), "it is not idle");
    set_idle(&held[0]);
    assert!(is(&kit.displace("web", &two), &held[0]));
    drop((held, last));
    kit.is_empty();
}

/// Few descriptors are in use without a place.
#[test]
fn connections_that_linger_are_bounded_d1() {
    for (total, max) in [(4, 0), (ALL, 12), (1 << 20, 64)] {
        let all = Connections::new(total);
        let lingering: Vec<_> = std::iter::from_fn(|| all.linger()).collect();
        assert_eq!(lingering.len(), max);
        drop(lingering);
        assert_eq!(all.linger().is_some(), max > 0, "they are given back");
    }
}
