//! Who the caller is, and its role.
//!
//! On the unix socket the kernel identifies the caller: the user who started the daemon and root are admin,
//! others have the role of their row in the table User, or none. On TCP a bearer token does. Both are checked
//! for every request, so a revoked token is refused on an open connection too.

use crate::App;
use crate::connection::Origin;
use crate::respond::{Answer, Problem, ok};
use crate::token::hash;
use axum::extract::Extension;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use paceline_host::{Granted, Host};
pub(crate) use paceline_types::Role;
use serde_json::json;
use std::borrow::Cow;
use std::sync::Arc;

/// The caller.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// The name that requests carry as `user`.
    pub(crate) name: String,
    /// The caller's role.
    pub(crate) role: Role,
    /// The caller's machine, which requests carry as `host`.
    pub(crate) host: Cow<'static, str>,
    /// The grant of the role, if that can be revoked.
    pub(crate) granted: Option<Arc<Granted>>,
    /// Whether the kernel identifies the caller as root or the user who runs the daemon.
    pub(crate) is_owner: bool,
}

impl Identity {
    /// The caller that sent a request with these headers from this origin. `what` it asks for is recorded if it
    /// may do nothing at all.
    pub(crate) fn of(
        app: &App,
        origin: &Origin,
        headers: &HeaderMap,
        what: &dyn Fn() -> String,
    ) -> Result<Self, Problem> {
        let access = app.host.access();
        match origin {
            Origin::Unix { uid, user } => {
                let (role, granted) = access.of_user(*uid, user);
                let (name, host) = (user.to_string(), Cow::Borrowed("unix"));
                let is_owner = access.is_owner(*uid);
                role.map(|role| Self { name, role, host, granted, is_owner }).ok_or_else(|| {
                    access.refused(&format!("api:{user}@unix"), &what());
                    Problem::permission().hint(format!(
                        "user {user} has no role here; an admin gives one with: paceline users set {user} \
                         --role client"
                    ))
                })
            }
            Origin::Tcp(address) => {
                let host = address.ip().to_string();
                let granted = bearer(headers).and_then(|token| {
                    let granted = access.of_token(&hash(token));
                    granted.ok_or_else(|| Problem::unauthenticated("the token is not valid"))
                });
                let granted = granted.inspect_err(|_| {
                    access.refused_unknown(&format!("api:unknown@{host}"), &what());
                })?;
                let (name, role) = (granted.user.clone(), granted.role());
                Ok(Self { name, role, host: host.into(), granted: Some(granted), is_owner: false })
            }
        }
    }

    /// The name and machine, as logs and the table Lock show them.
    pub(crate) fn title(&self) -> String {
        format!("api:{}@{}", self.name, self.host)
    }

    /// Checks that the caller may do `what`, which needs this role; a refusal is recorded.
    pub(crate) fn require(
        &self,
        host: &Host,
        need: Role,
        what: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        if self.role >= need {
            return Ok(());
        }
        host.access().refused(&self.title(), &what());
        let role = self.role;
        Err(Problem::permission().hint(format!(
            "this needs the role {need}, and yours is {role}; an admin can give you that role"
        )))
    }

    /// Checks that an object of `owner` is the caller's, or that the caller is at least an operator.
    pub(crate) fn require_own(
        &self,
        host: &Host,
        owner: &str,
        what: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        if owner == self.name { Ok(()) } else { self.require(host, Role::Operator, what) }
    }

    /// Whether the caller may see the secret names of what belongs to `owner`.
    pub(crate) fn sees(&self, owner: &str) -> bool {
        owner == self.name || self.role >= Role::Operator
    }
}

/// `GET /v1/whoami`
pub(crate) async fn whoami(Extension(identity): Extension<Identity>) -> Answer {
    let Identity { name, role, host, .. } = identity;
    ok(&json!({ "user": name, "role": role.word(), "host": host }))
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
        let own = rustix::process::geteuid().as_raw();
        for (uid, name) in [(own, "seven"), (0, "root")] {
            let origin = Origin::Unix { uid, user: name.into() };
            let identity = Identity::of(&app, &origin, &HeaderMap::new(), &String::new).unwrap();
            let found = (identity.name.as_str(), identity.role, &*identity.host);
            assert_eq!(found, (name, Role::Admin, "unix"));
        }
        // A token does not change that.
        for headers in [HeaderMap::new(), headers("Bearer secret")] {
            let origin = Origin::Unix { uid: own + 4_000, user: "eve".into() };
            let refused = Identity::of(&app, &origin, &headers, &String::new).unwrap_err();
            assert_eq!(refused.into_response().status(), StatusCode::FORBIDDEN);
        }
    }

    #[test]
    fn a_token_says_who_is_on_tcp() {
        let (_runtime, app) = app_for_tests();
        let origin = Origin::Tcp("192.0.2.1:5000".parse().unwrap());
        for word in ["Bearer secret", "bearer  secret"] {
            let identity = Identity::of(&app, &origin, &headers(word), &String::new).unwrap();
            assert_eq!((identity.role, &*identity.host), (Role::Admin, "192.0.2.1"));
        }
        for word in
            ["Bearer", "Bearer ", "secret", "Basic secret", "Bearer Secret", "Bearer secret2"]
        {
            let refused = Identity::of(&app, &origin, &headers(word), &String::new).unwrap_err();
            assert_eq!(refused.into_response().status(), StatusCode::UNAUTHORIZED, "{word}");
        }
    }

    #[test]
    fn a_role_may_do_what_those_before_it_may() {
        let (_runtime, app) = app_for_tests();
        for (at, role) in Role::ALL.into_iter().enumerate() {
            let (name, host) = ("eva".to_owned(), "".into());
            let identity = Identity { name, role, host, granted: None, is_owner: false };
            let may = Role::ALL.map(|need| identity.require(&app.host, need, String::new).is_ok());
            assert_eq!(may, [0, 1, 2, 3].map(|need| need <= at), "{role:?}");
            assert!(
                identity.sees("eva") && identity.require_own(&app.host, "eva", String::new).is_ok()
            );
            let others = role >= Role::Operator;
            assert_eq!(identity.sees("max"), others);
            assert_eq!(identity.require_own(&app.host, "max", String::new).is_ok(), others);
        }
    }
}
