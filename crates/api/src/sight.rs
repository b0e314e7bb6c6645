//! What a client may see of requests.
//!
//! Query strings, arguments of commands and literals of statements can contain secrets, and so can checkpoint
//! keys that are made from them. Operators see them, and clients see those of their own requests. Other clients
//! see the beginning, unless `show_text` is set in `[api]`. Omitted text is shown as `…`.

use crate::App;
use crate::identity::{Identity, Role};
use paceline_host::{Control, Granted, Listed, WaitsFor};
use paceline_types::{Known, Name, Place, Reason, Refusal};
use std::collections::BTreeSet;

/// Shown in place of omitted text.
const LEFT_OUT: &str = "…";

/// What one client may see.
pub(crate) struct Sight<'a> {
    identity: &'a Identity,
    /// The checkpoints whose keys it may see; `None` if it may see everything.
    keys: Option<OpenKeys>,
}

/// The checkpoints whose keys contain nothing secret, in one generation of the configuration.
#[derive(Debug)]
pub(crate) struct OpenKeys {
    generation: u64,
    checkpoints: BTreeSet<Box<str>>,
}

/// Whether a role may see everything.
pub(crate) fn sees_all(app: &App, role: Role) -> bool {
    role >= Role::Operator || app.host.shows_text()
}

/// Whether this caller may see everything now; its role may have changed.
pub(crate) fn still_sees_all(app: &App, identity: &Identity) -> bool {
    let role = identity.granted.as_deref().map_or(identity.role, Granted::role);
    sees_all(app, role)
}

impl<'a> Sight<'a> {
    /// What this client may see now.
    pub(crate) fn of(app: &App, identity: &'a Identity) -> Self {
        let sees_all = sees_all(app, identity.role);
        Self { identity, keys: (!sees_all).then(|| OpenKeys::now(app.host.control())) }
    }

    /// A request as this client may see it.
    pub(crate) fn limit(&self, mut listed: Listed) -> Listed {
        let Some(keys) = &self.keys else { return listed };
        // The user name in an HTTP request is not verified, so the request belongs to no client.
        let is_http = listed.http.is_some();
        if !is_http && self.identity.sees(&listed.user) {
            return listed;
        }
        listed.text = shortened(&listed.text, is_http);
        if let WaitsFor::Checkpoint { place } = &mut listed.why.waits_for {
            keys.hide(place);
        }
        listed
    }
}

impl OpenKeys {
    /// Those of the configuration in use.
    pub(crate) fn now(control: &Control) -> Self {
        let snapshot = control.snapshot();
        let checkpoints = snapshot.checkpoints().iter();
        let open = checkpoints.filter(|checkpoint| {
            !checkpoint.key.iter().flat_map(|key| key.attributes()).any(may_be_secret)
        });
        let checkpoints = open.map(|checkpoint| checkpoint.spec.name.clone()).collect();
        Self { generation: snapshot.generation(), checkpoints }
    }

    /// Updates them if the configuration has changed.
    pub(crate) fn renew(&mut self, control: &Control) {
        if self.generation != control.generation() {
            *self = Self::now(control);
        }
    }

    /// Removes the key from a place if it must not be seen. Returns whether there was one.
    fn hide(&self, place: &mut Place) -> bool {
        match place {
            Place::Checkpoint { name, key: Some(key) } if !self.checkpoints.contains(name) => {
                *key = LEFT_OUT.into();
                true
            }
            _ => false,
        }
    }

    /// A refusal without its key, if that must not be seen.
    pub(crate) fn limited(&self, refusal: &Refusal) -> Option<Refusal> {
        let mut limited = refusal.clone();
        place_of(&mut limited.reason).is_some_and(|place| self.hide(place)).then_some(limited)
    }
}

fn place_of(reason: &mut Reason) -> Option<&mut Place> {
    match reason {
        Reason::QueueFull { place, .. }
        | Reason::TooLong { place, .. }
        | Reason::Expired { place, .. }
        | Reason::CostTooHigh { place, .. } => Some(place),
        _ => None,
    }
}

/// Whether an attribute can contain secrets: the whole text, the query, headers and cookies.
fn may_be_secret(name: &Name) -> bool {
    match name {
        Name::Known(known) => matches!(known, Known::Text | Known::Query),
        Name::Priority => false,
        Name::Other(name) => name.starts_with("header.") || name.starts_with("cookie."),
    }
}

/// The path of a request, the program of a command or the verb of a statement.
pub(crate) fn shortened(text: &str, is_http: bool) -> Box<str> {
    let ends = |letter: char| match is_http {
        true => letter == '?',
        false => !letter.is_alphanumeric() && !"_-./:@+".contains(letter),
    };
    match text.split_once(ends) {
        None => text.into(),
        Some((path, _)) if is_http => format!("{path}?{LEFT_OUT}").into(),
        Some((word, _)) => format!("{word} {LEFT_OUT}").trim_start().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn paths_programs_and_verbs_are_left() {
        for (text, is_http, expected) in [
            ("/a/b", true, "/a/b"),
            ("/a?token=secret", true, "/a?…"),
            ("/a(b)='c'", true, "/a(b)='c'"),
            ("reindex", false, "reindex"),
            ("/usr/bin/mysql -psecret", false, "/usr/bin/mysql …"),
            ("SELECT * FROM t WHERE pin = '1234'", false, "SELECT …"),
            ("f('secret')", false, "f …"),
            ("https://example.org/a?token=secret", false, "https://example.org/a …"),
            ("'secret'", false, "…"),
            ("", false, ""),
        ] {
            assert_eq!(&*shortened(text, is_http), expected, "{text}");
        }
    }
}
