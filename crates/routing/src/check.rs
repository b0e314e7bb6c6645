//! Checks of frontends, backends and servers, except for their expressions, and of the SQL door's targets.

use crate::address::{Address, is_verifiable};
use crate::backend::{Backend, BackendTls, Health, Server};
use crate::error::{Of, Problem, RoutingError};
use crate::frontend::Frontend;
use crate::routing::{
    BACKENDS_MAX, FRONTENDS_MAX, LINES_MAX, LISTEN_MAX, RESERVED, SERVERS_MAX, VALUES_MAX,
    WEIGHT_MAX,
};
use crate::sql::{SQL_NAME_BYTES_MAX, SQL_TARGETS_MAX, SqlLogin, SqlTarget, Upstream};
use paceline_types::{BackendId, ServerId, Span, limits, nearest};
use std::collections::{BTreeMap, BTreeSet};

/// The most requests that may wait for the servers of a backend: each takes memory.
const WAITERS_MAX: u64 = 10_000_000;

type Checked = Result<(), RoutingError>;

/// Checks everything but expressions.
pub(crate) fn check(frontends: &[Frontend], backends: &[Backend]) -> Checked {
    let mut ids = Ids::default();
    let mut names = BTreeSet::new();
    for (index, backend) in backends.iter().enumerate() {
        let wrong = |problem| wrong(of_backend(backend), "name", problem);
        if index >= BACKENDS_MAX {
            return wrong(Problem::TooMany { max: BACKENDS_MAX });
        }
        if !names.insert(&*backend.name) || !ids.backends.insert(backend.id) {
            return wrong(Problem::Duplicate);
        }
        check_backend(backend, &mut ids)?;
    }
    let mut taken = (BTreeSet::new(), BTreeMap::new());
    for (index, frontend) in frontends.iter().enumerate() {
        let wrong = |problem| wrong(of_frontend(frontend), "name", problem);
        if index >= FRONTENDS_MAX {
            return wrong(Problem::TooMany { max: FRONTENDS_MAX });
        }
        if !taken.0.insert(&*frontend.name) {
            return wrong(Problem::Duplicate);
        }
        check_frontend(frontend, &names)?;
        check_listen(frontend, &mut taken.1)?;
    }
    Ok(())
}

/// The ids seen so far.
#[derive(Default)]
struct Ids {
    backends: BTreeSet<BackendId>,
    servers: BTreeSet<ServerId>,
}

fn wrong(of: Of, field: &'static str, problem: Problem) -> Checked {
    Err(RoutingError::new(of, field, problem))
}

fn of_frontend(frontend: &Frontend) -> Of {
    Of::Frontend(frontend.name.clone())
}

fn of_backend(backend: &Backend) -> Of {
    Of::Backend(backend.name.clone())
}

/// Whether a name is one word.
fn is_word(name: &str) -> bool {
    (1..=limits::NAME_BYTES_MAX).contains(&name.len())
        && !name.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Whether a name is one word without a slash, so that a slash and the name of a part can follow it.
fn is_slashless(name: &str) -> bool {
    is_word(name) && !name.contains('/')
}

fn check_backend(backend: &Backend, ids: &mut Ids) -> Checked {
    let of = || of_backend(backend);
    if !is_slashless(&backend.name) {
        return wrong(of(), "name", Problem::Name);
    }
    if backend.servers.len() > SERVERS_MAX {
        return wrong(of(), "servers", Problem::TooMany { max: SERVERS_MAX });
    }
    if backend.queue_len_max.is_some_and(|max| max > WAITERS_MAX) {
        return wrong(of(), "queue_max_len", Problem::MoreThan { max: WAITERS_MAX });
    }
    let timeouts = &backend.timeouts;
    check_spans(
        of,
        &[
            ("timeout_connect", timeouts.connect),
            ("timeout_response", timeouts.response),
            ("timeout_idle", timeouts.idle),
        ],
    )?;
    if let Some(health) = &backend.health {
        check_health(of, health)?;
    }
    if let Some(tls) = &backend.tls {
        check_tls(backend, tls)?;
    }
    let mut names = BTreeSet::new();
    for server in &backend.servers {
        let is_new = names.insert(&*server.name);
        check_server(backend, server, is_new && ids.servers.insert(server.id))?;
    }
    Ok(())
}

fn check_health(of: impl Fn() -> Of, health: &Health) -> Checked {
    check_spans(&of, &[("health_interval", health.interval), ("health_timeout", health.timeout)])?;
    for (field, count) in [("health_rise", health.rise), ("health_fall", health.fall)] {
        if count == 0 {
            return wrong(of(), field, Problem::Zero);
        }
    }
    Ok(())
}

/// Every certificate that is verified must be for some name.
fn check_tls(backend: &Backend, tls: &BackendTls) -> Checked {
    let wrong = |problem| wrong(of_backend(backend), "tls_name", problem);
    if let Some(name) = tls.name.as_ref().filter(|name| !is_verifiable(name)) {
        return wrong(Problem::NoTlsName(name.clone()));
    }
    let has_name = |server: &&Server| {
        let name = tls.name_of(&server.address);
        name.is_some_and(|name| is_verifiable(&name))
    };
    match backend.servers.iter().find(|server| tls.verify && !has_name(server)) {
        Some(server) => wrong(Problem::NothingToVerify { server: server.name.clone() }),
        None => Ok(()),
    }
}

fn check_server(backend: &Backend, server: &Server, is_new: bool) -> Checked {
    let of = Of::Server { backend: backend.name.clone(), name: server.name.clone() };
    // A server without a name of its own is named by its address, which may be a path.
    if !is_word(&server.name) {
        wrong(of, "name", Problem::Word)
    } else if !is_new {
        wrong(of, "name", Problem::Duplicate)
    } else if server.weight > WEIGHT_MAX {
        wrong(of, "weight", Problem::Weight(server.weight))
    } else if server.connections_max == Some(0) {
        wrong(of, "max_connections", Problem::Zero)
    } else {
        Ok(())
    }
}

fn check_frontend(frontend: &Frontend, backends: &BTreeSet<&str>) -> Checked {
    let of = || of_frontend(frontend);
    if !is_slashless(&frontend.name) {
        return wrong(of(), "name", Problem::Name);
    }
    if RESERVED.contains(&&*frontend.name) {
        return wrong(of(), "name", Problem::Reserved);
    }
    if frontend.connections_max == 0 {
        return wrong(of(), "max_connections", Problem::Zero);
    }
    for (field, len, max) in [
        ("use_backend", frontend.use_backend.len(), LINES_MAX),
        ("log_values", frontend.log_values.len(), VALUES_MAX),
        ("listen", frontend.listen.len(), LISTEN_MAX),
    ] {
        if len > max {
            return wrong(of(), field, Problem::TooMany { max });
        }
    }
    let timeouts = &frontend.timeouts;
    check_spans(
        of,
        &[
            ("timeout_header", timeouts.header),
            ("timeout_body", timeouts.body),
            ("timeout_idle", timeouts.idle),
            ("timeout_queue", timeouts.queue.unwrap_or(Span(1))),
            ("timeout_tunnel", timeouts.tunnel),
        ],
    )?;
    if let Some(name) = frontend.backend.as_deref().filter(|name| !backends.contains(name)) {
        return wrong(of(), "backend", no_backend(name, backends));
    }
    for (line, to) in frontend.use_backend.iter().enumerate() {
        if !backends.contains(&*to.backend) {
            let problem = no_backend(&to.backend, backends);
            let error = RoutingError::new(of(), "use_backend", problem);
            let entry = Some((line + 1).to_string().into());
            return Err(RoutingError { entry, ..error });
        }
    }
    Ok(())
}

fn no_backend(backend: &str, backends: &BTreeSet<&str>) -> Problem {
    let near = nearest(backend, backends.iter().copied()).map(Into::into);
    Problem::NoBackend { backend: backend.into(), near }
}

fn check_listen<'a>(frontend: &'a Frontend, taken: &mut BTreeMap<&'a Address, &'a str>) -> Checked {
    if frontend.listen.is_empty() {
        return wrong(of_frontend(frontend), "listen", Problem::NoAddress);
    }
    for address in &frontend.listen {
        // Port 0 is chosen by the system, so two are never the same.
        if matches!(address, Address::Socket(socket) if socket.port() == 0) {
            continue;
        }
        if let Some(other) = taken.insert(address, &frontend.name) {
            let address = address.to_string().into();
            let frontends = Box::new([frontend.name.clone(), other.into()]);
            let problem = Problem::Listens { address, frontends };
            return wrong(of_frontend(frontend), "listen", problem);
        }
    }
    Ok(())
}

fn check_spans(of: impl Fn() -> Of, spans: &[(&'static str, Span)]) -> Checked {
    match spans.iter().find(|(_, span)| *span == Span::ZERO) {
        Some((field, _)) => wrong(of(), field, Problem::Zero),
        None => Ok(()),
    }
}

/// Checks the targets of the SQL door together.
///
/// # Errors
///
/// The first error, and its place.
pub fn check_targets(targets: &[SqlTarget]) -> Result<(), RoutingError> {
    let mut names = BTreeSet::new();
    for (index, target) in targets.iter().enumerate() {
        let wrong = |field, problem| wrong(Of::SqlTarget(target.name.clone()), field, problem);
        if index >= SQL_TARGETS_MAX {
            return wrong("name", Problem::TooMany { max: SQL_TARGETS_MAX });
        }
        if !is_word(&target.name) {
            return wrong("name", Problem::Word);
        }
        if target.name.len() > SQL_NAME_BYTES_MAX {
            return wrong("name", Problem::MoreBytes { max: SQL_NAME_BYTES_MAX });
        }
        if !names.insert(&*target.name) {
            return wrong("name", Problem::Duplicate);
        }
        target.upstream().map_or(Ok(()), |upstream| check_upstream(target, upstream))?;
    }
    Ok(())
}

fn check_upstream(target: &SqlTarget, upstream: &Upstream) -> Checked {
    let of = || Of::SqlTarget(target.name.clone());
    let connections = &upstream.connections;
    if connections.max == 0 {
        return wrong(of(), "connections_max", Problem::Zero);
    }
    if connections.min > connections.max {
        let max = u64::from(connections.max);
        return wrong(of(), "connections_min", Problem::MoreThan { max });
    }
    check_spans(
        of,
        &[("connections_idle", connections.idle), ("connections_lifetime", connections.lifetime)],
    )?;
    match &upstream.login {
        SqlLogin::User { user, .. } if user.is_empty() || user.contains('\0') => {
            wrong(of(), "login_user", Problem::NoUser)
        }
        SqlLogin::User { user, .. } if user.len() > SQL_NAME_BYTES_MAX => {
            wrong(of(), "login_user", Problem::MoreBytes { max: SQL_NAME_BYTES_MAX })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{WAITERS_MAX, check, check_targets};
    use crate::routing::{
        BACKENDS_MAX, FRONTENDS_MAX, LINES_MAX, LISTEN_MAX, SERVERS_MAX, VALUES_MAX,
    };
    use crate::sql::{
        SQL_NAME_BYTES_MAX, SQL_TARGETS_MAX, SqlEngine, SqlLogin, SqlTarget, Upstream,
    };
    use crate::{Address, Backend, BackendTls, Frontend, Health, Problem, Server, UseBackend};
    use paceline_types::{BackendId, ServerId, Span};

    fn backend(id: usize) -> Backend {
        Backend::new(BackendId(id as u32), &format!("b{id}"))
    }

    fn server(id: usize) -> Server {
        Server::new(ServerId(id as u32), &format!("s{id}"), Address::Unix("/run/s".into()))
    }

    fn frontend(id: usize) -> Frontend {
        Frontend::new(&format!("f{id}"), vec![Address::Unix(format!("/run/f{id}").into())])
    }

    /// The setting and the problem of the first error.
    fn wrong(frontends: &[Frontend], backends: &[Backend]) -> Option<(&'static str, Problem)> {
        check(frontends, backends).err().map(|error| (error.field, error.problem))
    }

    /// The largest valid number is accepted, the next one is an error.
    #[test]
    fn every_list_has_a_limit() {
        let too_many = |max| Problem::TooMany { max };
        let backends = |count: usize| (0..count).map(backend).collect::<Vec<_>>();
        assert_eq!(wrong(&[], &backends(BACKENDS_MAX)), None);
        let max = BACKENDS_MAX;
        assert_eq!(wrong(&[], &backends(max + 1)), Some(("name", too_many(max))));
        let frontends = |count: usize| (0..count).map(frontend).collect::<Vec<_>>();
        assert_eq!(wrong(&frontends(FRONTENDS_MAX), &[]), None);
        let max = FRONTENDS_MAX;
        assert_eq!(wrong(&frontends(max + 1), &[]), Some(("name", too_many(max))));
        let servers =
            |count: usize| Backend { servers: (0..count).map(server).collect(), ..backend(0) };
        assert_eq!(wrong(&[], &[servers(SERVERS_MAX)]), None);
        let max = SERVERS_MAX;
        assert_eq!(wrong(&[], &[servers(max + 1)]), Some(("servers", too_many(max))));
        let line = UseBackend { when: "true".into(), backend: "b0".into() };
        let address = |at: usize| Address::Unix(format!("/run/{at}").into());
        for more in [0, 1] {
            let lines = vec![line.clone(); LINES_MAX + more];
            let values = vec![("v".into(), "user".into()); VALUES_MAX + more];
            let listen = (0..LISTEN_MAX + more).map(address).collect();
            for (field, max, frontend) in [
                ("use_backend", LINES_MAX, Frontend { use_backend: lines, ..frontend(0) }),
                ("log_values", VALUES_MAX, Frontend { log_values: values, ..frontend(0) }),
                ("listen", LISTEN_MAX, Frontend { listen, ..frontend(0) }),
            ] {
                let error = (more > 0).then(|| (field, too_many(max)));
                assert_eq!(wrong(&[frontend], &[backend(0)]), error);
            }
        }
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        let with = |change: &dyn Fn(&mut Backend)| {
            let mut backend = backend(0);
            backend.health = Some(Health::default());
            change(&mut backend);
            wrong(&[], &[backend])
        };
        let zero = |field| Some((field, Problem::Zero));
        let health = |change: fn(&mut Health)| with(&|b| b.health.iter_mut().for_each(change));
        assert_eq!(with(&|_| ()), None);
        assert_eq!(health(|h| h.rise = 0), zero("health_rise"));
        assert_eq!(health(|h| h.fall = 0), zero("health_fall"));
        assert_eq!(health(|h| h.interval = Span::ZERO), zero("health_interval"));
        assert_eq!(health(|h| h.timeout = Span::ZERO), zero("health_timeout"));
        assert_eq!(with(&|b| b.timeouts.connect = Span::ZERO), zero("timeout_connect"));
        assert_eq!(with(&|b| b.queue_len_max = Some(WAITERS_MAX)), None);
        let most = Problem::MoreThan { max: WAITERS_MAX };
        let found = with(&|b| b.queue_len_max = Some(WAITERS_MAX + 1));
        assert_eq!(found, Some(("queue_max_len", most)));
        let front = |change: &dyn Fn(&mut Frontend)| {
            let mut frontend = frontend(0);
            change(&mut frontend);
            wrong(&[frontend], &[])
        };
        assert_eq!(front(&|f| f.timeouts.queue = Some(Span::ZERO)), zero("timeout_queue"));
        assert_eq!(front(&|f| f.timeouts.header = Span::ZERO), zero("timeout_header"));
        assert_eq!(front(&|f| f.connections_max = 0), zero("max_connections"));
        assert_eq!(front(&|f| f.listen.clear()), Some(("listen", Problem::NoAddress)));
    }

    /// The target and the setting of the first error.
    #[test]
    fn targets_are_checked_together() {
        let target = |name: &str, change: &dyn Fn(&mut Upstream)| {
            let mut upstream = Upstream::new("postgresql://db/app".parse().unwrap());
            change(&mut upstream);
            let engine = SqlEngine::Upstream(Box::new(upstream));
            SqlTarget::new(paceline_types::Uuid::from_halves(0, 1), name, engine)
        };
        let plain = |name: &str| target(name, &|_| ());
        let wrong = |targets: &[SqlTarget]| {
            check_targets(targets).err().map(|error| (error.field, error.problem))
        };
        let sqlite = SqlEngine::Sqlite { file: "notes.db".parse().unwrap() };
        let notes = SqlTarget { engine: sqlite, ..plain("paceline") };
        assert_eq!(wrong(&[plain("app"), notes]), None);
        assert_eq!(wrong(&[plain("app"), plain("app")]), Some(("name", Problem::Duplicate)));
        assert_eq!(wrong(&[plain("a b")]), Some(("name", Problem::Word)));
        let longest = SQL_NAME_BYTES_MAX;
        assert_eq!(wrong(&[plain(&"a".repeat(longest))]), None);
        let more = Problem::MoreBytes { max: longest };
        assert_eq!(wrong(&[plain(&"a".repeat(longest + 1))]), Some(("name", more)));
        let many = |count: usize| (0..count).map(|at| plain(&format!("t{at}"))).collect::<Vec<_>>();
        let max = SQL_TARGETS_MAX;
        assert_eq!(wrong(&many(max)), None);
        assert_eq!(wrong(&many(max + 1)), Some(("name", Problem::TooMany { max })));
        for (field, problem, change) in [
            ("connections_max", Problem::Zero, (|u| u.connections.max = 0) as fn(&mut Upstream)),
            ("connections_min", Problem::MoreThan { max: 20 }, |u| u.connections.min = 21),
            ("connections_idle", Problem::Zero, |u| u.connections.idle = Span::ZERO),
            ("connections_lifetime", Problem::Zero, |u| u.connections.lifetime = Span::ZERO),
            ("login_user", Problem::NoUser, |u| {
                u.login = SqlLogin::User { user: "".into(), password_file: None };
            }),
        ] {
            assert_eq!(wrong(&[target("app", &change)]), Some((field, problem)));
        }
        let error = check_targets(&[plain("a"), plain("a")]).unwrap_err();
        assert_eq!(error.to_string(), "sql_target \"a\", name: another one has the same");
    }

    /// A unix socket has no name, and no certificate can be for some names.
    #[test]
    fn what_is_verified_has_a_name() {
        let with = |tls: BackendTls, address: &str| {
            let mut server = server(0);
            server.address = address.parse().unwrap();
            wrong(&[], &[Backend { tls: Some(tls), servers: vec![server], ..backend(0) }])
        };
        let plain = BackendTls::default();
        let named = |name: &str| BackendTls { name: Some(name.into()), ..plain.clone() };
        let nothing = Some(("tls_name", Problem::NothingToVerify { server: "s0".into() }));
        assert_eq!(with(plain.clone(), "unix:/run/s"), nothing);
        assert_eq!(with(plain.clone(), "app.1:80"), nothing);
        for address in ["unix:/run/s", "127.0.0.1:80", "app.1:80"] {
            assert_eq!(with(named("api.internal"), address), None);
            let trusting = BackendTls { verify: false, ..plain.clone() };
            assert_eq!(with(trusting, address), None);
        }
        for address in ["127.0.0.1:80", "[::1]:80", "app.internal.:80"] {
            assert_eq!(with(plain.clone(), address), None);
        }
        let found = with(named("*.internal"), "127.0.0.1:80");
        assert_eq!(found, Some(("tls_name", Problem::NoTlsName("*.internal".into()))));
    }

    #[test]
    fn a_server_belongs_to_one_backend() {
        let with = |id| Backend { servers: vec![server(1)], ..backend(id) };
        assert_eq!(wrong(&[], &[with(0), with(1)]), Some(("name", Problem::Duplicate)));
    }
}
