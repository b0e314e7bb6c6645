//! The settings of all frontends and backends together, found by name and by id.

use crate::address::Address;
use crate::backend::{Backend, Server};
use crate::error::RoutingError;
use crate::frontend::Frontend;
use paceline_types::{BackendId, ServerId};
use std::collections::BTreeMap;

/// The most frontends in one configuration.
pub const FRONTENDS_MAX: usize = 1_000;

/// The most backends in one configuration.
pub const BACKENDS_MAX: usize = 10_000;

/// The most servers of one backend: each request looks at all of them.
pub const SERVERS_MAX: usize = 1_000;

/// The most lines of `use_backend` of one frontend.
pub const LINES_MAX: usize = 1_000;

/// The most values that one frontend logs.
pub const VALUES_MAX: usize = 64;

/// The most addresses of one frontend.
pub const LISTEN_MAX: usize = 64;

/// The highest weight of a server.
pub const WEIGHT_MAX: u32 = 256;

/// Names of doors that are frontends themselves.
pub const RESERVED: [&str; 3] = ["api", "sql", "ovsdb"];

/// All frontends and backends, checked except for expressions.
#[derive(Clone, Debug, Default)]
pub struct Routing {
    frontends: Vec<Frontend>,
    backends: Vec<Backend>,
    by_name: BTreeMap<Box<str>, usize>,
    by_id: BTreeMap<BackendId, usize>,
    servers: BTreeMap<ServerId, ServerIndex>,
}

/// Where a server is found.
#[derive(Clone, Debug)]
struct ServerIndex {
    backend: usize,
    server: usize,
    /// `BACKEND/NAME`.
    name: Box<str>,
}

impl Routing {
    /// Checks everything but expressions.
    ///
    /// # Errors
    ///
    /// The first error, and its place.
    pub fn check(frontends: Vec<Frontend>, backends: Vec<Backend>) -> Result<Self, RoutingError> {
        crate::check::check(&frontends, &backends)?;
        let mut routing = Self { frontends, backends, ..Self::default() };
        for (index, backend) in routing.backends.iter().enumerate() {
            routing.by_name.insert(backend.name.clone(), index);
            routing.by_id.insert(backend.id, index);
            for (place, server) in backend.servers.iter().enumerate() {
                let name = format!("{}/{}", backend.name, server.name).into();
                routing
                    .servers
                    .insert(server.id, ServerIndex { backend: index, server: place, name });
            }
        }
        Ok(routing)
    }

    /// All frontends.
    #[must_use]
    pub fn frontends(&self) -> &[Frontend] {
        &self.frontends
    }

    /// All backends.
    #[must_use]
    pub fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// The frontend of this name.
    #[must_use]
    pub fn frontend(&self, name: &str) -> Option<&Frontend> {
        self.frontends.iter().find(|frontend| *frontend.name == *name)
    }

    /// The frontend that listens on this address, as it is configured. `None` for port 0, which is another port for
    /// each frontend.
    #[must_use]
    pub fn frontend_at(&self, address: &Address) -> Option<&Frontend> {
        let mut frontends = self.frontends.iter().filter(|_| !address.is_any_port());
        frontends.find(|frontend| frontend.listen.contains(address))
    }

    /// The backend of this name.
    #[must_use]
    pub fn backend(&self, name: &str) -> Option<&Backend> {
        self.by_name.get(name).and_then(|index| self.backends.get(*index))
    }

    /// The backend with this id.
    #[must_use]
    pub fn backend_by_id(&self, id: BackendId) -> Option<&Backend> {
        self.by_id.get(&id).and_then(|index| self.backends.get(*index))
    }

    /// The server with this id, and its backend.
    #[must_use]
    pub fn server(&self, id: ServerId) -> Option<(&Backend, &Server)> {
        let place = self.servers.get(&id)?;
        let backend = self.backends.get(place.backend)?;
        Some((backend, backend.servers.get(place.server)?))
    }

    /// The name of the server with this id, as `BACKEND/NAME`.
    #[must_use]
    pub fn server_name(&self, id: ServerId) -> Option<&str> {
        self.servers.get(&id).map(|place| &*place.name)
    }
}
