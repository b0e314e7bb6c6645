//! Routing: the backend of a request, and the server of that backend.
//!
//! This room owns the settings of frontends, backends and servers with their text forms ([`Frontend`], [`Backend`],
//! [`Server`], [`Balance`], [`Address`]) and those of the SQL door's targets ([`SqlTarget`], [`UpstreamUrl`]), their
//! checks ([`Routing::check`], [`check_targets`], [`Switch::compile`]), the choice of a backend ([`Switch`]), and which requests hold which server and address ([`Fleet`], [`Site`]). Promises that every
//! invalid setting is one error with its place, and that no server is given more than its maximum. Pure: it opens no
//! socket, reads no clock, and its random numbers depend only on a given seed.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod address;
mod backend;
mod check;
mod error;
mod fleet;
mod frontend;
mod ghosts;
mod lot;
mod pick;
mod routing;
mod site;
mod sql;
mod switch;
mod upstream;

pub use address::{Address, Network, ParseAddressError};
pub use backend::{Backend, BackendTimeouts, BackendTls, Balance, Health, Server};
pub use check::check_targets;
pub use error::{Of, Problem, RoutingError};
pub use fleet::{Choice, Fleet, Seat, ServerFigures};
pub use frontend::{
    Certificate, ErrorBody, Frontend, FrontendTimeouts, LogFormat, UseBackend, UserFrom,
};
pub use routing::{
    BACKENDS_MAX, FRONTENDS_MAX, LINES_MAX, LISTEN_MAX, RESERVED, Routing, SERVERS_MAX, VALUES_MAX,
    WEIGHT_MAX,
};
pub use site::{Site, SiteId};
pub use sql::{
    ParseSqliteFileError, Pooling, SQL_NAME_BYTES_MAX, SQL_TARGETS_MAX, SQLITE_FILE_BYTES_MAX,
    SqlConnections, SqlEngine, SqlLogin, SqlTarget, SqliteFile, Upstream,
};
pub use switch::{Chosen, Switch, Unrouted};
pub use upstream::{
    SqlTls, UPSTREAM_BYTES_MAX, UPSTREAM_HOSTS_MAX, UpstreamError, UpstreamProblem, UpstreamUrl,
};
