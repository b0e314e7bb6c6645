//! Warnings for frontends and backends.

use super::{Told, Warning, is_true, text};
use crate::document::{Object, flag};
use crate::others::Others;
use crate::read::shown;
use paceline_model::schema::{BACKEND, FRONTEND, SERVER};
use paceline_routing::Address;
use paceline_tables::value::{Atom, Datum};
use std::collections::BTreeSet;

/// The warnings, with their lines, in the order of the objects.
pub(super) fn doubts(objects: &[Object], others: &Others) -> Vec<Warning> {
    let names = Names::new(objects, others);
    let of = |object: &Object| match object.table {
        FRONTEND => frontend(object),
        BACKEND => backend(object, &names),
        _ => vec![],
    };
    let warning = |object| of(object).into_iter().map(move |told| Warning::at(object, told));
    objects.iter().flat_map(warning).collect()
}

/// Which backends are used, and which have servers.
struct Names<'o> {
    used: BTreeSet<&'o str>,
    with_servers: BTreeSet<&'o str>,
}

impl<'o> Names<'o> {
    fn new(objects: &'o [Object], others: &'o Others) -> Self {
        let of = |table| objects.iter().filter(move |object: &&Object| object.table == table);
        let servers = of(SERVER).chain(others.objects.iter().filter(|other| other.table == SERVER));
        let used = of(FRONTEND).flat_map(used_by);
        Self {
            used: used.chain(others.used.iter().map(String::as_str)).collect(),
            with_servers: servers.filter_map(|server| text(server, "backend")).collect(),
        }
    }
}

/// The backends that a frontend uses.
pub(crate) fn used_by(frontend: &Object) -> impl Iterator<Item = &str> {
    text(frontend, "backend").into_iter().chain(chosen(frontend))
}

/// The backends that conditions of a frontend name.
fn chosen(frontend: &Object) -> impl Iterator<Item = &str> {
    let pairs = frontend.columns.get("use_backend").map_or(&[][..], Datum::pairs);
    pairs.iter().filter_map(|(_, text)| Some(text.as_str()?.split_once(" when ")?.0))
}

fn frontend(object: &Object) -> Vec<Told> {
    let (key, place) = (shown(&object.key), object.place);
    let mut told = vec![];
    if text(object, "backend").is_none() && chosen(object).next().is_none() {
        told.push((
            place,
            format!("frontend `{key}` has no backend and refuses every request; give it backend"),
        ));
    } else if text(object, "backend").is_none() {
        told.push((place, format!(
            "frontend `{key}` refuses requests that match no line of use_backend; give it backend"
        )));
    }
    let has_tls = object.columns.get("tls_certificate").is_some_and(|tls| !tls.is_empty());
    if text(object, "user") == Some("basic") && !has_tls && is_reachable(object) {
        let place = object.place_of("user");
        told.push((
            place,
            format!("frontend `{key}` receives passwords without encryption; give it tls"),
        ));
    }
    let trusts = object.columns.get("trusted").is_some_and(|peers| !peers.is_empty());
    if is_true(object, "proxy_protocol") && !trusts {
        let place = object.place_of("proxy_protocol");
        told.push((place, format!(
            "frontend `{key}` accepts no connection, because proxy_protocol needs trusted with the \
             peers that send it"
        )));
    }
    told
}

/// Whether other machines can reach one of a frontend's addresses.
fn is_reachable(frontend: &Object) -> bool {
    let listen = frontend.columns.get("listen").map_or(&[][..], Datum::atoms).iter();
    let mut addresses = listen.filter_map(Atom::as_str).filter_map(|text| text.parse().ok());
    addresses.any(|address| match address {
        Address::Socket(address) => !address.ip().to_canonical().is_loopback(),
        Address::Host { .. } => true,
        Address::Unix(_) => false,
    })
}

fn backend(object: &Object, names: &Names<'_>) -> Vec<Told> {
    let (key, place) = (shown(&object.key), object.place);
    let mut told = vec![];
    if !names.used.contains(object.key.as_str()) {
        told.push((place, format!("no frontend uses backend `{key}`")));
    }
    if !names.with_servers.contains(object.key.as_str()) {
        told.push((place, format!("backend `{key}` has no servers")));
    }
    if object.columns.get("tls_verify") == Some(&flag(false)) {
        let place = object.place_of("tls_verify");
        told.push((place, format!(
            "backend `{key}` accepts any certificate, so an attacker on the network can read and \
             change its traffic; remove verify and give it ca"
        )));
    }
    told
}
