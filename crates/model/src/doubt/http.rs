//! Warnings for frontends and backends.

use paceline_routing::{Address, Backend, Frontend, Routing, UserFrom};
use std::collections::BTreeSet;

/// The warnings, frontends first.
pub(super) fn doubts(routing: &Routing) -> impl Iterator<Item = String> {
    let used: BTreeSet<&str> = routing.frontends().iter().flat_map(used_by).collect();
    let backends =
        routing.backends().iter().flat_map(move |one| backend(one, used.contains(&*one.name)));
    routing.frontends().iter().flat_map(frontend).chain(backends)
}

/// The warning for a backend that no frontend uses.
#[must_use]
pub fn unused_backend(name: &str) -> String {
    format!("backend \"{name}\": no frontend uses it")
}

/// The backends that a frontend uses.
fn used_by(frontend: &Frontend) -> impl Iterator<Item = &str> {
    let chosen = frontend.use_backend.iter().map(|line| &*line.backend);
    frontend.backend.as_deref().into_iter().chain(chosen)
}

fn frontend(frontend: &Frontend) -> Vec<String> {
    let mut told = vec![];
    let mut tell = |text: &str| told.push(format!("frontend \"{}\": {text}", frontend.name));
    match (&frontend.backend, frontend.use_backend.is_empty()) {
        (None, true) => tell("it has no backend and refuses every request; give it backend"),
        (None, false) => {
            tell("it refuses requests that match no line of use_backend; give it backend");
        }
        _ => {}
    }
    let is_plain = frontend.certificates.is_empty();
    if frontend.user_from == Some(UserFrom::Basic) && is_plain && is_reachable(frontend) {
        tell("user: it receives passwords without encryption; give it tls");
    }
    if frontend.proxy_protocol && frontend.trusted.is_empty() {
        tell(
            "proxy_protocol: it accepts no connection, because proxy_protocol needs trusted with the peers that \
             send it",
        );
    }
    told
}

/// Whether other machines can reach one of a frontend's addresses.
fn is_reachable(frontend: &Frontend) -> bool {
    frontend.listen.iter().any(|address| match address {
        Address::Socket(address) => !address.ip().to_canonical().is_loopback(),
        Address::Host { .. } => true,
        Address::Unix(_) => false,
    })
}

fn backend(backend: &Backend, is_used: bool) -> Vec<String> {
    let mut told = vec![];
    if !is_used {
        told.push(unused_backend(&backend.name));
    }
    let mut tell = |text: &str| told.push(format!("backend \"{}\": {text}", backend.name));
    if backend.servers.is_empty() {
        tell("it has no servers");
    } else if backend.servers.iter().all(|server| server.weight == 0) {
        tell("all its servers have weight 0, so none of them gets requests");
    }
    if backend.tls.as_ref().is_some_and(|tls| !tls.verify) {
        tell(
            "tls.verify: it accepts any certificate, so an attacker on the network can read and change its \
             traffic; remove verify and give it ca",
        );
    }
    told
}
