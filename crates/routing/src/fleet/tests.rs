//! Shares, maxima and gates, with servers that are added and deleted.

use super::{Choice, Fleet, Seat};
use crate::{Address, Backend, Balance, Server};
use paceline_types::{BackendId, ServerId};
use std::collections::BTreeMap;

const APP: BackendId = BackendId(7);

fn at(port: usize) -> Address {
    format!("127.0.0.1:{port}").parse().unwrap()
}

fn backend(balance: Balance, servers: &[(u32, Option<u32>)]) -> Backend {
    let server = |(index, (weight, max)): (usize, &(u32, Option<u32>))| Server {
        weight: *weight,
        connections_max: *max,
        ..Server::new(ServerId(index as u32 + 1), &format!("s{index}"), at(80 + index))
    };
    let servers = servers.iter().enumerate().map(server).collect();
    Backend { balance, servers, ..Backend::new(APP, "app") }
}

fn fleet(balance: Balance, servers: &[(u32, Option<u32>)]) -> Fleet {
    let mut fleet = Fleet::new(1);
    fleet.configure(&[backend(balance, servers)]);
    fleet
}

fn next(fleet: &mut Fleet) -> Option<Seat> {
    match fleet.choose(APP, &[]) {
        Choice::Server(server) => fleet.take(APP, server, true),
        Choice::Full | Choice::None => None,
    }
}

fn limit(fleet: &mut Fleet) -> Option<u32> {
    let mut last = None;
    while let Some((_, limit)) = fleet.poll_limit() {
        last = Some(limit);
    }
    last
}

fn order(fleet: &mut Fleet, count: usize) -> Vec<u32> {
    (0..count)
        .map(|_| {
            let seat = next(fleet).unwrap();
            let id = seat.server().0;
            fleet.give_back(seat);
            id
        })
        .collect()
}

#[test]
fn in_turn_shares_are_exact_and_evenly_spread() {
    let mut fleet = fleet(Balance::RoundRobin, &[(5, None), (1, None), (1, None)]);
    assert_eq!(order(&mut fleet, 7), [1, 1, 2, 1, 3, 1, 1], "as even as can be");
    let mut shares = BTreeMap::new();
    for server in order(&mut fleet, 700) {
        *shares.entry(server).or_insert(0) += 1;
    }
    assert_eq!(shares, BTreeMap::from([(1, 500), (2, 100), (3, 100)]));
}

#[test]
fn least_connections_fills_by_weight_and_takes_equals_in_turn() {
    let mut fleet = fleet(Balance::LeastConnections, &[(2, None), (1, None), (1, None)]);
    let held: Vec<Seat> = (0..400).map(|_| next(&mut fleet).unwrap()).collect();
    let figures: Vec<u32> = fleet.servers().map(|(_, figures)| figures.held).collect();
    assert_eq!(figures, [200, 100, 100]);
    held.into_iter().for_each(|seat| fleet.give_back(seat));
    let mut equals = self::fleet(Balance::LeastConnections, &[(1, None), (1, None), (1, None)]);
    assert_eq!(order(&mut equals, 6), [1, 2, 3, 1, 2, 3], "ties do not all go to the first");
}

#[test]
fn the_better_of_two_is_taken_and_lots_repeat() {
    let servers = [(1, None); 10];
    let run = || {
        let mut fleet = fleet(Balance::PowerOfTwo, &servers);
        let seats: Vec<Seat> = (0..10_000).map(|_| next(&mut fleet).unwrap()).collect();
        let most = fleet.servers().map(|(_, figures)| figures.held).max().unwrap();
        (seats.iter().map(|seat| seat.server().0).collect::<Vec<_>>(), most)
    };
    let (one, most) = run();
    assert!(most <= 1_005, "two choices keep servers near to even, found {most}");
    assert_eq!(one, run().0, "the same seed, the same lots");
}

#[test]
fn nobody_gets_more_than_its_maximum_in_any_balance() {
    for balance in [Balance::RoundRobin, Balance::LeastConnections, Balance::PowerOfTwo] {
        let mut fleet = fleet(balance, &[(1, Some(3)), (100, Some(2)), (0, None)]);
        assert_eq!(limit(&mut fleet), Some(5), "a server without a weight does not count");
        let seats: Vec<Seat> = std::iter::from_fn(|| next(&mut fleet)).collect();
        assert_eq!(seats.len(), 5, "{balance}");
        assert_eq!(fleet.choose(APP, &[]), Choice::Full);
        let held: Vec<u32> = fleet.servers().map(|(_, figures)| figures.held).collect();
        assert_eq!(held, [3, 2, 0]);
    }
}

#[test]
fn a_server_that_is_down_gets_nothing_and_its_places_do_not_count() {
    let mut fleet = fleet(Balance::RoundRobin, &[(1, Some(2)), (1, Some(2))]);
    limit(&mut fleet);
    let seats: Vec<Seat> = (0..4).map(|_| next(&mut fleet).unwrap()).collect();
    assert!(fleet.set_up(ServerId(1), false));
    assert!(!fleet.set_up(ServerId(1), false), "no news");
    assert_eq!(limit(&mut fleet), Some(4), "those who have a server keep it");
    let (down, up): (Vec<_>, Vec<_>) = seats.into_iter().partition(|s| s.server().0 == 1);
    down.into_iter().for_each(|seat| fleet.give_back(seat));
    assert_eq!(limit(&mut fleet), Some(2), "nobody takes a place at a server that is down");
    assert_eq!(fleet.choose(APP, &[]), Choice::Full);
    fleet.set_up(ServerId(2), false);
    assert_eq!(limit(&mut fleet), Some(u32::MAX), "nobody waits for nothing");
    assert_eq!(fleet.choose(APP, &[]), Choice::None);
    fleet.set_up(ServerId(1), true);
    assert_eq!(limit(&mut fleet), Some(4), "two hold, two places are free");
    up.into_iter().for_each(|seat| fleet.give_back(seat));
    assert_eq!(limit(&mut fleet), Some(2));
}

#[test]
fn edits_keep_what_is_held_and_who_is_down() {
    let mut fleet = fleet(Balance::RoundRobin, &[(1, None), (1, None)]);
    let seats: Vec<Seat> = (0..4).map(|_| next(&mut fleet).unwrap()).collect();
    fleet.set_up(ServerId(2), false);
    fleet.configure(&[backend(Balance::RoundRobin, &[(1, Some(3)), (1, Some(3))])]);
    assert_eq!(limit(&mut fleet), Some(1), "one place is free; nobody passed the new gate");
    let counted = next(&mut fleet).unwrap();
    assert_eq!(fleet.choose(APP, &[]), Choice::Full);
    fleet.configure(&[backend(Balance::RoundRobin, &[(1, Some(2))])]);
    assert_eq!(limit(&mut fleet), Some(1), "above the new maximum: who has a server keeps it");
    for seat in seats {
        fleet.give_back(seat);
    }
    assert_eq!(limit(&mut fleet), Some(2), "what was held at the deleted server counts no more");
    fleet.give_back(counted);
    assert_eq!(limit(&mut fleet), None);
    fleet.configure(&[backend(Balance::RoundRobin, &[(1, Some(2)), (1, Some(2))])]);
    assert_eq!(limit(&mut fleet), Some(4), "a server that was forgotten is new, and up");
}

#[test]
fn a_server_that_moves_to_another_backend_takes_its_load_along() {
    let mut fleet = fleet(Balance::RoundRobin, &[(1, Some(2)), (1, Some(2))]);
    let seats: Vec<Seat> = (0..2).map(|_| next(&mut fleet).unwrap()).collect();
    let mut from = backend(Balance::RoundRobin, &[(1, Some(2)), (1, Some(2))]);
    let moved = from.servers.pop().unwrap();
    let other = BackendId(3);
    let to = Backend { servers: vec![moved], ..Backend::new(other, "other") };
    fleet.configure(&[from, to]);
    let limits: BTreeMap<_, _> = std::iter::from_fn(|| fleet.poll_limit()).collect();
    assert_eq!(limits, BTreeMap::from([(other, 1), (APP, 3)]));
    seats.into_iter().for_each(|seat| fleet.give_back(seat));
    let limits: BTreeMap<_, _> = std::iter::from_fn(|| fleet.poll_limit()).collect();
    assert_eq!(limits, BTreeMap::from([(other, 2), (APP, 2)]));
}

/// Of many backends, only those that an edit changes are processed; all keep their requests.
#[test]
fn an_edit_touches_only_the_backends_it_changes() {
    let address: Address = "127.0.0.1:80".parse().unwrap();
    let of = |id: u32, max: u32| {
        let server = Server::new(ServerId(id * 10), "s", address.clone());
        let servers = vec![Server { connections_max: Some(max), ..server }];
        Backend { servers, ..Backend::new(BackendId(id), &format!("b{id}")) }
    };
    let mut fleet = Fleet::new(1);
    fleet.configure(&[of(1, 1), of(2, 1), of(3, 1)]);
    let limits = |fleet: &mut Fleet| {
        let mut all: Vec<_> = std::iter::from_fn(|| fleet.poll_limit()).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(limits(&mut fleet), [1, 2, 3].map(|id| (BackendId(id), 1)));
    let seats: Vec<Seat> =
        [1, 2, 3].map(|id| fleet.take(BackendId(id), ServerId(id * 10), true).unwrap()).into();
    fleet.set_up(ServerId(30), false);
    limits(&mut fleet);
    // One stays, one gets another maximum, one is deleted, and one is added.
    fleet.configure(&[of(4, 2), of(3, 1), of(2, 5)]);
    assert_eq!(limits(&mut fleet), [(BackendId(2), 5), (BackendId(4), 1)]);
    let held = |fleet: &Fleet, id| fleet.server(ServerId(id)).map(|one| (one.up, one.held));
    assert_eq!(held(&fleet, 10), None);
    assert_eq!(held(&fleet, 20), Some((true, 1)));
    assert_eq!(held(&fleet, 30), Some((false, 1)));
    assert_eq!(
        held(&fleet, 40),
        Some((true, 1)),
        "it may be the one that went, under another name"
    );
    assert_eq!(fleet.choose(BackendId(4), &[]), Choice::Server(ServerId(40)));
    seats.into_iter().for_each(|seat| fleet.give_back(seat));
    fleet.configure(&[of(1, 1), of(2, 5), of(3, 1), of(4, 2)]);
    let all: Vec<_> = fleet.servers().map(|(id, figures)| (id.0, figures.held)).collect();
    assert_eq!(all, [(10, 0), (20, 0), (30, 0), (40, 0)]);
}

fn held(fleet: &Fleet, id: u32) -> u32 {
    fleet.server(ServerId(id)).map_or(0, |one| one.held)
}

/// P1: a request that runs at an address counts against any server there, however often the server is deleted and
/// added, with another id and in a backend with another id but the same name.
#[test]
fn a_server_that_comes_back_still_has_who_is_there_p1() {
    let mut fleet = fleet(Balance::RoundRobin, &[(1, Some(2)), (1, Some(2))]);
    let seats: Vec<Seat> = std::iter::from_fn(|| next(&mut fleet)).collect();
    let with = |backend: u32, id: u32, port: usize| {
        let server = Server::new(ServerId(id), &format!("s{id}"), at(port));
        let servers = vec![Server { connections_max: Some(2), ..server }];
        Backend { servers, ..Backend::new(BackendId(backend), "app") }
    };
    for (backend, id, port) in [(7, 10, 80), (7, 11, 90), (7, 12, 80), (8, 13, 80), (8, 14, 81)] {
        fleet.configure(&[with(backend, id, port)]);
        let there = if port == 90 { 0 } else { 2 };
        assert_eq!(held(&fleet, id), there, "{id}");
        let choice = fleet.choose(BackendId(backend), &[]);
        assert_eq!(choice == Choice::Full, there == 2, "{id}");
    }
    seats.into_iter().for_each(|seat| fleet.give_back(seat));
    assert_eq!(held(&fleet, 14), 0);
    assert_eq!(fleet.choose(BackendId(8), &[]), Choice::Server(ServerId(14)));
    assert!(fleet.ghosts.is_empty(), "nothing is remembered of those who are gone");
}

/// P1: the same, whatever names are edited in the meantime. A server of another backend that was at the address all
/// the time has its own maximum.
#[test]
fn who_is_there_counts_whatever_backends_are_called_p1() {
    let of = |backend: u32, name: &str, id: u32| {
        let server = Server::new(ServerId(id), &format!("s{id}"), at(80));
        let servers = vec![Server { connections_max: Some(2), ..server }];
        Backend { servers, ..Backend::new(BackendId(backend), name) }
    };
    let beside = || of(1, "beside", 1);
    let mut fleet = Fleet::new(1);
    fleet.configure(&[of(7, "app", 10), beside()]);
    let seats: Vec<Seat> = std::iter::from_fn(|| next(&mut fleet)).collect();
    assert_eq!(seats.len(), 2);
    // Deleted, added again, renamed; and deleted and added under another name at once.
    for (number, name, id) in [(8, "app", 11), (8, "web", 11), (9, "app", 12), (9, "web", 12)] {
        fleet.configure(&[of(number, name, id), beside()]);
        assert_eq!(held(&fleet, id), 2, "{name} {id}");
        assert_eq!(fleet.choose(BackendId(number), &[]), Choice::Full, "{name} {id}");
        assert_eq!(held(&fleet, 1), 0);
    }
    fleet.configure(&[beside()]);
    fleet.configure(&[of(10, "last", 13), beside()]);
    assert_eq!(held(&fleet, 13), 2);
    seats.into_iter().for_each(|seat| fleet.give_back(seat));
    assert_eq!((held(&fleet, 13), held(&fleet, 1)), (0, 0));
    assert!(fleet.ghosts.is_empty());
}

/// P1: if an edit moves a server, its requests count at the address that they were given, against the server that is
/// added there. They do not count at the new address, to which they never connect.
#[test]
fn a_request_counts_at_the_address_it_was_given_p1() {
    let mut fleet = fleet(Balance::RoundRobin, &[(1, Some(2))]);
    let first = next(&mut fleet).unwrap();
    fleet.set_up(ServerId(1), false);
    let mut moved = backend(Balance::RoundRobin, &[(1, Some(2)), (1, Some(2))]);
    (moved.servers[0].address, moved.servers[1].address) = (at(99), at(80));
    fleet.configure(&[moved]);
    assert_eq!((held(&fleet, 1), held(&fleet, 2)), (0, 1));
    assert!(!fleet.has(first.site()), "the server is elsewhere");
    let up = fleet.server(ServerId(1)).unwrap().up;
    assert!(up, "that it was down elsewhere says nothing about here");
    let second = fleet.take(APP, ServerId(1), true).unwrap();
    assert_eq!((&first.site().address, &second.site().address), (&at(80), &at(99)));
    assert_eq!((held(&fleet, 1), held(&fleet, 2)), (1, 1));
    fleet.give_back(first);
    assert_eq!((held(&fleet, 1), held(&fleet, 2)), (1, 0));
    fleet.give_back(second);
    assert_eq!((held(&fleet, 1), held(&fleet, 2)), (0, 0));
    assert!(fleet.ghosts.is_empty());
}
