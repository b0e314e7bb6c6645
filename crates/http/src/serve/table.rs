//! The settings in use, made ready for the workers: shared, never changed, replaced as a whole.

use crate::respond::Page;
use crate::serve::connections::At;
use crate::serve::listen::ListenPoint;
use crate::serve::tls::{ClientTls, Tls, name_of};
use crate::serve::vitals::{Vitals, VitalsOfAll};
use paceline_host::{Control, Snapshot, Tally};
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
    /// Servers that the last edit took out, or as they were before it moved them to another address: requests that
    /// were given to them before still go there.
    pub former: BTreeMap<ServerId, Arc<LiveServer>>,
    /// How servers are spoken to over TLS, of those backends that do.
    tls: BTreeMap<BackendId, Arc<ClientTls>>,
}

/// A frontend in use.
#[derive(Debug)]
pub(crate) struct LiveFrontend {
    pub spec: Frontend,
    pub tls: Option<Tls>,
    /// The generation of the configuration that it is from.
    generation: u64,
    /// What that reads of a head.
    fields_read: FieldsRead,
    /// Bodies in place of the usual ones.
    pub pages: BTreeMap<u16, Page>,
    pub timeouts: Timeouts,
    /// What outlives an edit.
    pub tally: Arc<Tally>,
}

/// What is read of a head, beyond what every request has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldsRead {
    /// The name that the frontend has in that configuration; empty if it is not there any more.
    pub frontend: Box<str>,
    /// Attributes to be copied from fields: the field's name in lower case, the attribute's.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The same for cookies.
    pub cookies: Vec<(Box<str>, Box<str>)>,
    /// Where the user's name is from.
    pub user: Option<UserFrom>,
    /// Whether checkpoints stand before its connections.
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

    /// Whether the same is read by another configuration.
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
    /// The TLS of its backend, and what it is asked for.
    pub tls: Option<(Arc<ClientTls>, ServerName<'static>)>,
    pub vitals: Arc<Vitals>,
}

impl Table {
    /// The table that a configuration says, and what of it cannot be; what did not change is taken over
    /// from `old`. A frontend or backend whose files cannot be read goes on with those it has.
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
                let frontend = LiveFrontend::new(snapshot, spec, control.tally(&spec.name), extras);
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

    /// A server that is not in it, as its settings say. Over TLS it can be spoken to only if what its
    /// backend needs has been read.
    pub fn server(&self, backend: &Backend, server: &Server, vitals: Arc<Vitals>) -> LiveServer {
        let tls = backend.tls.as_ref().map(|spec| {
            let known = self.tls.get(&backend.id).filter(|known| known.spec == *spec);
            known.map_or_else(|| Arc::new(ClientTls::unready(spec)), Arc::clone)
        });
        LiveServer::new(backend, server, vitals, tls.as_ref())
    }
}

/// What the TLS of a backend is, or why it cannot be read.
pub(crate) type ReadTls = Result<Arc<ClientTls>, String>;

/// What something is wrong with.
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

/// What is wrong with a frontend or backend that the configuration cannot know: a file or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub of: Owner,
    pub message: String,
    /// Whether it is about a file, which is then read again.
    pub is_of_files: bool,
}

impl LiveFrontend {
    /// A frontend, as its settings say.
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

    /// Where its connections are counted, and how many it may have.
    pub fn at(&self) -> At<'_> {
        let max = self.spec.connections_max as usize;
        At { frontend: &self.spec.name, max, tally: &self.tally }
    }

    /// What is read of a head by the configuration in use, whose generation is `generation`; and that of the one which says
    /// so, which may be a later one.
    ///
    /// The engine uses an edit when it is answered, and the table follows a little later, or much later
    /// where files are slow. A new rule must not miss what it reads meanwhile, and a name that now belongs to
    /// another frontend must not let its requests in there: then `snapshot` says which frontend listens at `place`.
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

    /// What this frontend is, for connections from `place`, in another configuration.
    fn successor<'a>(&self, snapshot: &'a Snapshot, place: &ListenPoint) -> Option<&'a Frontend> {
        let routing = snapshot.routing();
        routing.frontend_at(&place.address).or_else(|| {
            // Its name decides only where its address cannot: it is given a port for its name, or it stays where it
            // was because it cannot move.
            let is_by_name =
                place.address.is_any_port() || !self.spec.listen.contains(&place.address);
            routing.frontend(&self.spec.name).filter(|_| is_by_name)
        })
    }

    /// What it has from files, for itself after an edit; not if that would give up TLS.
    pub fn extras_for(&self, spec: &Frontend) -> Option<Extras> {
        let stays = self.tls.is_some() != spec.certificates.is_empty();
        stays.then(|| Extras { tls: self.tls.clone(), pages: self.pages.clone() })
    }
}

/// What has to be read from files for a frontend.
#[derive(Debug)]
pub(crate) struct Extras {
    pub tls: Option<Tls>,
    pub pages: BTreeMap<u16, Page>,
}

impl LiveServer {
    /// A server, as its settings say.
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

    /// Whether it speaks TLS, and the files for that were not read.
    pub fn is_unready(&self) -> bool {
        self.tls.as_ref().is_some_and(|(tls, _)| !tls.is_ready())
    }

    /// Whether a connection to the one is as good as one to the other.
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

/// Names with those of the attributes they are.
fn names(of: &[Box<str>], prefix: &str) -> Vec<(Box<str>, Box<str>)> {
    of.iter().map(|name| (name.clone(), format!("{prefix}{name}").into())).collect()
}

/// A length of time, as the standard library has it.
pub(crate) const fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.0)
}
