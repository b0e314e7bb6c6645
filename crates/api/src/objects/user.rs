//! Users of this machine that have a role: who may use the unix sockets besides the daemon's own user
//! and root.

use super::Object;
use super::database::Row;
use super::fields::{Field, Reading};
use super::{delete, list, one, put};
use crate::identity::Role;
use crate::members::Members;
use crate::respond::Problem;
use crate::router::Routes;
use serde_json::{Map, Value};

/// The table User.
pub(super) struct User;

impl Object for User {
    const WORD: &'static str = "user";
    const TABLE: &'static str = "User";
    const KEY: &'static str = "name";
    const FIELDS: &'static [Field] = &[];
    const FIGURES: &'static [&'static str] = &[];

    fn read(members: &mut Members, _: &Reading, row: &mut Row) -> Result<(), Problem> {
        row.insert("role".into(), role(members)?.word().into());
        Ok(())
    }

    fn show(row: &Row, object: &mut Map<String, Value>) {
        object.insert("role".into(), row.get("role").cloned().unwrap_or_default());
    }
}

/// The member `role`, which must be there.
pub(super) fn role(members: &mut Members) -> Result<Role, Problem> {
    let words = Role::ALL.map(|role| (role.word(), role));
    members.word("role", &words)?.ok_or_else(|| {
        Problem::bad_request("role: expected viewer, client, operator or admin, but it is missing")
    })
}

/// Adds the paths.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .add(Role::Viewer, "GET", "/v1/users", list::<User>)
        .add(Role::Viewer, "GET", "/v1/users/{name}", one::<User>)
        .add(Role::Admin, "PUT", "/v1/users/{name}", put::<User>)
        .add(Role::Admin, "DELETE", "/v1/users/{name}", delete::<User>)
}
