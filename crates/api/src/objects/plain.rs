//! Objects that have nothing beyond their entry in the catalogue.

use super::Object;
use paceline_catalogue::{CHECKPOINTS, Kind, SERVERS, USERS};
use paceline_host::system_users;
use paceline_types::nearest;

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

/// The table User: users of this machine that have a role, and may use the unix sockets besides the daemon's own user
/// and root.
pub(super) struct User;

impl Object for User {
    const KIND: &'static Kind = &USERS;

    fn doubt(key: &str) -> Option<String> {
        let names = system_users();
        if names.iter().any(|name| name == key) {
            return None;
        }
        let near = nearest(key, names.iter().map(String::as_str));
        let near = near.map(|near| format!(", did you mean \"{near}\"?")).unwrap_or_default();
        Some(format!("user \"{key}\": this machine knows no user of that name{near}"))
    }
}
