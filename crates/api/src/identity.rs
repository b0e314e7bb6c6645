//! Who asks, and what they may do.
//!
//! On the unix socket the kernel says so: the user who started the daemon and root are admin, others
//! may do nothing. On TCP a bearer token does.

use crate::App;
use crate::connection::Origin;
use crate::respond::Problem;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

/// What someone may do; each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Look.
    Viewer,
    /// Ask for permits and locks.
    Client,
    /// Start, stop, configure, steal.
    Operator,
    /// Everything.
    Admin,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// The name that requests carry as `user`.
    pub(crate) name: String,
    /// What they may do.
    pub(crate) role: Role,
    /// Where they are, which requests carry as `host`.
    pub(crate) host: String,
}

impl Identity {
    /// Who sent a request with these headers from there.
    pub(crate) fn of(app: &App, origin: &Origin, headers: &HeaderMap) -> Result<Self, Problem> {
        match origin {
            Origin::Unix { uid } if *uid == app.own_user.0 => {
                Ok(Self::admin(&app.own_user.1, "unix"))
            }
            Origin::Unix { uid: 0 } => Ok(Self::admin("root", "unix")),
            Origin::Unix { .. } => Err(Problem::permission()
                .hint("only root and the user who started the daemon may use this socket")),
            Origin::Tcp(address) => {
                let token = bearer(headers)?;
                match app.token.is(token) {
                    true => Ok(Self::admin("admin", &address.ip().to_string())),
                    false => Err(Problem::unauthenticated("the token is not valid")),
                }
            }
        }
    }

    fn admin(name: &str, host: &str) -> Self {
        Self { name: name.to_owned(), role: Role::Admin, host: host.to_owned() }
    }

    /// That they may do what needs this role.
    pub(crate) fn require(&self, role: Role) -> Result<(), Problem> {
        if self.role >= role { Ok(()) } else { Err(Problem::permission()) }
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let Some(header) = headers.get(AUTHORIZATION) else {
        return Err(Problem::unauthenticated("there is no token"));
    };
    let text = header.to_str().unwrap_or_default();
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    match scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty() {
        true => Ok(token.trim()),
        false => Err(Problem::unauthenticated("the header Authorization is not Bearer TOKEN")),
    }
}

/// The name of a user in the system's list, or the number.
pub(crate) fn user_name(uid: u32) -> String {
    let list = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| uid.to_string())
}
