//! Servers of all backends, each named `BACKEND/NAME`.

use super::Object;
use super::fields::{Field, Kind};

/// The table Server.
pub(super) struct Server;

impl Object for Server {
    const WORD: &'static str = "server";
    const TABLE: &'static str = "Server";
    const KEY: &'static str = "name";
    const WITHIN: Option<&'static str> = Some("backend");
    const FIELDS: &'static [Field] = &[
        Field { member: "address", column: "address", kind: Kind::RequiredText },
        Field { member: "weight", column: "weight", kind: Kind::Number(0, 256) },
        Field {
            member: "max_connections",
            column: "max_connections",
            kind: Kind::Number(1, u32::MAX as i64),
        },
        Field { member: "persistent", column: "persistent", kind: Kind::Flag },
    ];
    const FIGURES: &'static [&'static str] = &["up", "inflight"];
}
