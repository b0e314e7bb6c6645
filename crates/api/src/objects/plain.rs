//! Objects that have nothing beyond their entry in the catalogue.

use super::Object;
use paceline_catalogue::{CHECKPOINTS, Kind, SERVERS, SQL_TARGETS};

/// The table Checkpoint.
pub(super) struct Checkpoint;

impl Object for Checkpoint {
    const KIND: &'static Kind = &CHECKPOINTS;
}

/// The table Server: servers of all backends, each named `BACKEND/NAME`.
pub(super) struct Server;

impl Object for Server {
    const KIND: &'static Kind = &SERVERS;
}

/// The table Sql_Target.
pub(super) struct SqlTarget;

impl Object for SqlTarget {
    const KIND: &'static Kind = &SQL_TARGETS;
}
