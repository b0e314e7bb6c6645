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

#[cfg(test)]
mod tests {
    use super::{Identity, Role};
    use crate::app_for_tests;
    use crate::connection::Origin;
    use axum::http::header::AUTHORIZATION;
    use axum::http::{HeaderMap, StatusCode};
    use axum::response::IntoResponse as _;

    fn headers(authorization: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, authorization.parse().unwrap())])
    }

    #[test]
    fn the_kernel_says_who_is_on_the_unix_socket() {
        let (_runtime, app) = app_for_tests();
        for (uid, name) in [(7, "seven"), (0, "root")] {
            let identity = Identity::of(&app, &Origin::Unix { uid }, &HeaderMap::new()).unwrap();
            let found = (identity.name.as_str(), identity.role, identity.host.as_str());
            assert_eq!(found, (name, Role::Admin, "unix"));
        }
        // A token is no way around it.
        for headers in [HeaderMap::new(), headers("Bearer secret")] {
            let refused = Identity::of(&app, &Origin::Unix { uid: 8 }, &headers).unwrap_err();
            assert_eq!(refused.into_response().status(), StatusCode::FORBIDDEN);
        }
    }

    #[test]
    fn a_token_says_who_is_on_tcp() {
        let (_runtime, app) = app_for_tests();
        let origin = Origin::Tcp("192.0.2.1:5000".parse().unwrap());
        for word in ["Bearer secret", "bearer  secret"] {
            let identity = Identity::of(&app, &origin, &headers(word)).unwrap();
            assert_eq!((identity.role, identity.host.as_str()), (Role::Admin, "192.0.2.1"));
        }
        for word in
            ["Bearer", "Bearer ", "secret", "Basic secret", "Bearer Secret", "Bearer secret2"]
        {
            let refused = Identity::of(&app, &origin, &headers(word)).unwrap_err();
            assert_eq!(refused.into_response().status(), StatusCode::UNAUTHORIZED, "{word}");
        }
    }

    #[test]
    fn a_role_may_do_what_those_before_it_may() {
        let roles = [Role::Viewer, Role::Client, Role::Operator, Role::Admin];
        for (at, role) in roles.into_iter().enumerate() {
            let identity = Identity { name: String::new(), role, host: String::new() };
            let may: Vec<bool> = roles.iter().map(|need| identity.require(*need).is_ok()).collect();
            let expected: Vec<bool> = (0..4).map(|need| need <= at).collect();
            assert_eq!(may, expected, "{role:?}");
        }
    }
}
