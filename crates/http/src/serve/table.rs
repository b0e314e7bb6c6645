//! The settings in use, prepared for the workers: shared, immutable, replaced as a whole.

use crate::respond::Page;
use crate::serve::connections::At;
use crate::serve::vitals::{Vitals, VitalsOfAll};
use paceline_host::{Control, Snapshot, Tally};
use paceline_net::listen::ListenPoint;
use paceline_net::tls::{ClientTls, Tls, name_of};
use paceline_routing::{
    Address, Backend, BackendTimeouts, BackendTls, Frontend, Health, Server, UserFrom,
};
use paceline_types::{BackendId, ServerId, Span};
use rustls::pki_types::ServerName;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// All frontends and servers.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub frontends: BTreeMap<Box<str>, Arc<LiveFrontend>>,
    /// The frontend that listens at each place, by the number of the place.
    pub places: BTreeMap<u64, Arc<LiveFrontend>>,
    pub servers: BTreeMap<ServerId, Arc<LiveServer>>,
    /// Servers that the last edit removed, or their state before the edit moved them to another address. Requests
    /// that were assigned to them before still use them.
    pub former: BTreeMap<ServerId, Arc<LiveServer>>,
    /// The TLS of each backend that uses TLS.
    tls: BTreeMap<BackendId, Arc<ClientTls>>,
}

/// A frontend in use.
#[derive(Debug)]
pub(crate) struct LiveFrontend {
    pub spec: Frontend,
    pub tls: Option<Tls>,
    /// The generation of the configuration that it comes from.
    generation: u64,
    /// The fields that this configuration reads from a head.
    fields_read: FieldsRead,
    /// Pages that replace the usual bodies, by status.
    pub pages: BTreeMap<u16, Page>,
    pub timeouts: Timeouts,
    /// Counters, which survive edits.
    pub tally: Arc<Tally>,
}

/// What is read from a head, beyond the attributes of every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldsRead {
    /// The name of the frontend in that configuration; empty if it no longer exists.
    pub frontend: Box<str>,
    /// Attributes that are copied from fields: the field's name in lower case, and the attribute's name.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The same for cookies.
    pub cookies: Vec<(Box<str>, Box<str>)>,
    /// Where the user's name is read.
    pub user: Option<UserFrom>,
    /// Whether there are checkpoints on its connections.
    pub shapes_connections: bool,
}

impl FieldsRead {
    fn new(snapshot: &Snapshot, spec: &Frontend) -> Self {
        Self {
            frontend: spec.name.clone(),
            headers: names(snapshot.reads().headers(), "header."),
            cookies: names(snapshot.reads().cookies(), "cookie."),
            user: spec.user_from,
            shapes_connections: snapshot.shapes_connections(&spec.name),
        }
    }

    /// Whether another configuration reads the same.
    fn is_of(&self, snapshot: &Snapshot, spec: &Frontend) -> bool {
        let (headers, cookies) = (snapshot.reads().headers(), snapshot.reads().cookies());
        self.frontend == spec.name
            && self.user == spec.user_from
            && self.shapes_connections == snapshot.shapes_connections(&spec.name)
            && self.headers.iter().map(|(name, _)| name).eq(headers)
            && self.cookies.iter().map(|(name, _)| name).eq(cookies)
    }
}

/// The timeouts of a frontend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub header: Duration,
    pub body: Duration,
    pub idle: Duration,
    pub tunnel: Duration,
}

/// A server in use.
#[derive(Debug)]
pub(crate) struct LiveServer {
    pub id: ServerId,
    pub backend: BackendId,
    /// `BACKEND/NAME`.
    pub name: Box<str>,
    pub address: Address,
    pub timeouts: BackendTimeouts,
    pub retries: u32,
    pub health: Option<Health>,
    /// The TLS of its backend, and the server name to verify.
    pub tls: Option<(Arc<ClientTls>, ServerName<'static>)>,
    pub vitals: Arc<Vitals>,
}

impl Table {
    /// Builds the table for a configuration, and reports what of it cannot be used. Unchanged parts are taken from
    /// `old`. A frontend or backend whose files cannot be read keeps its current ones.
    pub fn new(
        control: &Control,
        snapshot: &Snapshot,
        old: &Self,
        vitals: &VitalsOfAll,
        extras: impl Fn(&Frontend, Option<&LiveFrontend>) -> Result<Extras, String>,
        mut tls: impl FnMut(&Backend, &BackendTls, Option<&Arc<ClientTls>>) -> ReadTls,
    ) -> (Self, Vec<Problem>) {
        let (mut table, mut problems) = (Self::default(), vec![]);
        for spec in snapshot.routing().frontends() {
            let known = old.frontends.get(&spec.name).map(|frontend| &**frontend);
            let extras = extras(spec, known).or_else(|message| {
                let kept = known.and_then(|frontend| frontend.extras_for(spec));
                let of = Owner::Frontend(spec.name.clone());
                problems.push(Problem { of, message, is_of_files: true });
                kept.ok_or(())
            });
            if let Ok(extras) = extras {
                let frontend =
                    LiveFrontend::new(snapshot, spec, control.http().tally(&spec.name), extras);
                table.frontends.insert(spec.name.clone(), Arc::new(frontend));
            }
        }
        for backend in snapshot.routing().backends() {
            if let Some(spec) = &backend.tls {
                let known = old.tls.get(&backend.id);
                let read = tls(backend, spec, known).unwrap_or_else(|message| {
                    let of = Owner::Backend(backend.name.clone());
                    problems.push(Problem { of, message, is_of_files: true });
                    ClientTls::kept(known, spec)
                });
                table.tls.insert(backend.id, read);
            }
            for server in &backend.servers {
                let known = old.servers.get(&server.id);
                let tls = table.tls.get(&backend.id);
                let live =
                    LiveServer::new(backend, server, vitals.of(server.id, &server.address), tls);
                let live = match known.filter(|known| known.is_same(&live)) {
                    Some(known) => Arc::clone(known),
                    None => Arc::new(live),
                };
                table.servers.insert(server.id, live);
            }
        }
        let is_former = |(id, old): &(&ServerId, &Arc<LiveServer>)| {
            table.servers.get(id).is_none_or(|new| new.address != old.address)
        };
        let former = old.servers.iter().filter(is_former);
        table.former = former.map(|(id, live)| (*id, Arc::clone(live))).collect();
        (table, problems)
    }

    /// Builds a server that the table does not have. It can be connected to over TLS only if the files of its backend
    /// were read.
    pub fn server(&self, backend: &Backend, server: &Server, vitals: Arc<Vitals>) -> LiveServer {
        let tls = backend.tls.as_ref().map(|spec| {
            let known = self.tls.get(&backend.id).filter(|known| known.spec == *spec);
            known.map_or_else(|| Arc::new(ClientTls::unready(spec)), Arc::clone)
        });
        LiveServer::new(backend, server, vitals, tls.as_ref())
    }
}

/// The TLS of a backend, or why its files cannot be read.
pub(crate) type ReadTls = Result<Arc<ClientTls>, String>;

/// What a problem concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Frontend(Box<str>),
    Backend(Box<str>),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frontend(name) => write!(f, "frontend {name}"),
            Self::Backend(name) => write!(f, "backend {name}"),
        }
    }
}

/// A problem of a frontend or backend that the configuration cannot detect: a file or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub of: Owner,
    pub message: String,
    /// Whether it concerns a file, which is then read again.
    pub is_of_files: bool,
}

impl LiveFrontend {
    /// Builds a frontend from its settings.
    pub fn new(snapshot: &Snapshot, spec: &Frontend, tally: Arc<Tally>, extras: Extras) -> Self {
        Self {
            generation: snapshot.generation(),
            fields_read: FieldsRead::new(snapshot, spec),
            tls: extras.tls,
            pages: extras.pages,
            timeouts: Timeouts {
                header: duration(spec.timeouts.header),
                body: duration(spec.timeouts.body),
                idle: duration(spec.timeouts.idle),
                tunnel: duration(spec.timeouts.tunnel),
            },
            tally,
            spec: spec.clone(),
        }
    }

    /// Where its connections are counted, and their maximum.
    pub fn at(&self) -> At<'_> {
        let max = self.spec.connections_max as usize;
        At { frontend: &self.spec.name, max, tally: &self.tally }
    }

    /// The fields that the configuration in use reads from a head. `generation` is the generation of that
    /// configuration. Also returns the generation that the fields are for, which may be later.
    ///
    /// The engine applies an edit when it answers it. The table follows a little later, or much later if files are
    /// slow. Meanwhile a new rule must not miss the fields that it reads, and a connection must not pass for one of
    /// another frontend that now has the old name. So if the generations differ, `snapshot` decides which frontend
    /// listens at `place`.
    pub fn fields_read(
        &self,
        generation: u64,
        place: &ListenPoint,
        snapshot: impl FnOnce() -> Arc<Snapshot>,
    ) -> (Cow<'_, FieldsRead>, u64) {
        if generation == self.generation {
            return (Cow::Borrowed(&self.fields_read), generation);
        }
        let snapshot = snapshot();
        let fields_read = match self.successor(&snapshot, place) {
            Some(spec) if self.fields_read.is_of(&snapshot, spec) => {
                Cow::Borrowed(&self.fields_read)
            }
            Some(spec) => Cow::Owned(FieldsRead::new(&snapshot, spec)),
            None => Cow::Owned(FieldsRead {
                frontend: "".into(),
                ..FieldsRead::new(&snapshot, &self.spec)
            }),
        };
        (fields_read, snapshot.generation())
    }

    /// The frontend in another configuration that serves connections from `place`.
    fn successor<'a>(&self, snapshot: &'a Snapshot, place: &ListenPoint) -> Option<&'a Frontend> {
        let routing = snapshot.routing();
        routing.frontend_at(&place.address).or_else(|| {
            // The name decides only if the address cannot: the port was chosen for the name, or the frontend stays at
            // an old address because it cannot move.
            let is_by_name =
                place.address.is_any_port() || !self.spec.listen.contains(&place.address);
            routing.frontend(&self.spec.name).filter(|_| is_by_name)
        })
    }

    /// What it has read from files, for use after an edit; none if the edit enables or disables TLS.
    pub fn extras_for(&self, spec: &Frontend) -> Option<Extras> {
        let stays = self.tls.is_some() != spec.certificates.is_empty();
        stays.then(|| Extras { tls: self.tls.clone(), pages: self.pages.clone() })
    }
}

/// What a frontend reads from files.
#[derive(Debug)]
pub(crate) struct Extras {
    pub tls: Option<Tls>,
    pub pages: BTreeMap<u16, Page>,
}

impl LiveServer {
    /// Builds a server from its settings.
    fn new(
        backend: &Backend,
        server: &Server,
        vitals: Arc<Vitals>,
        tls: Option<&Arc<ClientTls>>,
    ) -> Self {
        let named = |spec: &BackendTls| name_of(spec, &server.address);
        let name = backend.tls.as_ref().map(named);
        Self {
            id: server.id,
            backend: backend.id,
            name: format!("{}/{}", backend.name, server.name).into(),
            address: server.address.clone(),
            timeouts: backend.timeouts,
            retries: backend.retries,
            health: backend.health.clone(),
            tls: tls.cloned().zip(name),
            vitals,
        }
    }

    pub fn is_up(&self) -> bool {
        self.vitals.is_up()
    }

    /// Whether it uses TLS and the files for that were not read.
    pub fn is_unready(&self) -> bool {
        self.tls.as_ref().is_some_and(|(tls, _)| !tls.is_ready())
    }

    /// Whether a connection to one of the two can serve for the other.
    pub fn is_reached_as(&self, other: &Self) -> bool {
        let is_same_tls = match (&self.tls, &other.tls) {
            (Some((own, name)), Some((others, other))) => Arc::ptr_eq(own, others) && name == other,
            (own, others) => own.is_none() && others.is_none(),
        };
        self.address == other.address && is_same_tls
    }

    /// Whether an edit changed nothing about it.
    fn is_same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.is_reached_as(other)
            && self.timeouts == other.timeouts
            && self.retries == other.retries
            && self.health == other.health
    }
}

/// Field names, each with the name of its attribute.
fn names(of: &[Box<str>], prefix: &str) -> Vec<(Box<str>, Box<str>)> {
    of.iter().map(|name| (name.clone(), format!("{prefix}{name}").into())).collect()
}

/// Converts to the type of the standard library.
pub(crate) const fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.0)
}
