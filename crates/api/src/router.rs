//! Which path does what, and who may: one list, from which the router is made.

use crate::connection::Connection;
use crate::identity::{Identity, Role, whoami};
use crate::respond::{Problem, no_such_method, no_such_path};
use crate::{
    App, Shared, events, health, locks, metrics, objects, openapi, permits, query, questions,
    sessions,
};
use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use std::pin::Pin;
use std::sync::Arc;

/// A router in the making, with what it has so far.
pub(crate) struct Routes {
    router: Router<Shared>,
    app: Shared,
    /// Method, path and role of everything; no role where anybody may ask.
    pub(crate) listed: Vec<(&'static str, &'static str, Option<Role>)>,
}

impl Routes {
    /// Everything that the door serves.
    pub(crate) fn all(app: &Shared) -> Self {
        let empty = Self { router: Router::new(), app: Arc::clone(app), listed: Vec::new() };
        let routes = empty.open("GET", "/healthz", health::healthz);
        let routes = routes.add(Role::Viewer, "GET", "/v1/whoami", whoami);
        objects::routes(routes.sessions().permits().locks().questions())
    }

    fn locks(self) -> Self {
        self.add(Role::Viewer, "GET", "/v1/locks", locks::list)
            .add(Role::Viewer, "GET", "/v1/locks/{lock}", locks::one)
            .add(Role::Client, "PUT", "/v1/locks/{lock}", locks::lock)
            .add(Role::Client, "DELETE", "/v1/locks/{lock}", locks::unlock)
    }

    fn questions(self) -> Self {
        self.add(Role::Viewer, "GET", "/v1/requests", questions::requests)
            .add(Role::Viewer, "GET", "/v1/why/{request}", questions::why)
            .add(Role::Viewer, "POST", "/v1/explain", questions::explain)
            .add(Role::Viewer, "GET", "/v1/events", events::follow)
            .add(Role::Viewer, "GET", "/metrics", metrics::metrics)
            .add(Role::Viewer, "GET", "/v1/openapi.json", openapi::openapi)
            .add(Role::Viewer, "GET", "/v1/status", crate::status::status)
            .add(Role::Viewer, "GET", "/v1/config", crate::config::export)
            .add(Role::Operator, "POST", "/v1/apply", crate::config::apply)
            .add(Role::Admin, "GET", "/v1/backup", crate::backup::backup)
    }

    fn sessions(self) -> Self {
        self.add(Role::Client, "POST", "/v1/sessions", sessions::begin)
            .add(Role::Client, "DELETE", "/v1/sessions/{session}", sessions::end)
            .add(Role::Client, "POST", "/v1/sessions/{session}/renew", sessions::renew)
            .add(Role::Client, "POST", "/v1/sessions/{session}/processes", sessions::add_process)
    }

    fn permits(self) -> Self {
        self.add(Role::Viewer, "GET", "/v1/permits", permits::list)
            .add(Role::Client, "POST", "/v1/permits", permits::ask)
            .add(Role::Viewer, "GET", "/v1/permits/{permit}", permits::one)
            .add(Role::Client, "PUT", "/v1/permits/{permit}", permits::ask_by_name)
            .add(Role::Client, "DELETE", "/v1/permits/{permit}", permits::settle)
            .add(Role::Client, "POST", "/v1/permits/{permit}/renew", permits::renew)
    }

    /// The router.
    pub(crate) fn router(self) -> Router {
        let router = self.router.fallback(no_such_path);
        router.method_not_allowed_fallback(no_such_method).with_state(self.app)
    }

    /// Adds what anybody may ask.
    fn open<H, T>(mut self, method: &'static str, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Shared, Future = Answering>,
        T: 'static,
    {
        self.listed.push((method, path, None));
        let checked = Checked { role: None, path, names: query::taken(method, path), handler };
        self.router = self.router.route(path, on(filter(method), checked));
        self
    }

    /// Adds what needs a role.
    pub(crate) fn add<H, T>(
        mut self,
        role: Role,
        method: &'static str,
        path: &'static str,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Shared, Future = Answering>,
        T: 'static,
    {
        self.listed.push((method, path, Some(role)));
        let names = query::taken(method, path);
        let checked = Checked { role: Some(role), path, names, handler };
        self.router = self.router.route(path, on(filter(method), checked));
        self
    }
}

/// What handlers that are async functions return.
type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler that is called only if whoever sent the request has the role, if it needs one, and if the
/// query has nothing but the names that it takes. It stands in the handler's
/// place and not in a layer around it, because every layer is copied and boxed for each request.
#[derive(Clone)]
struct Checked<H> {
    role: Option<Role>,
    path: &'static str,
    names: &'static [&'static str],
    handler: H,
}

impl<H, T> Handler<T, Shared> for Checked<H>
where
    H: Handler<T, Shared, Future = Answering>,
    T: 'static,
{
    type Future = Answering;

    fn call(self, mut request: Request, app: Shared) -> Answering {
        let identity = self.role.map(|role| check(&app, role, &request, self.path)).transpose();
        // Whoever may not ask is told that, and nothing about how to ask.
        let checked = identity
            .and_then(|identity| query::check(request.uri(), self.names).map(|()| identity));
        match checked {
            Ok(identity) => {
                if let Some(identity) = identity {
                    request.extensions_mut().insert(identity);
                }
                self.handler.call(request, app)
            }
            Err(problem) => Box::pin(std::future::ready(problem.into_response())),
        }
    }
}

/// Who sent a request, if they may do what needs the role.
fn check(
    app: &App,
    role: Role,
    request: &Request,
    path: &'static str,
) -> Result<Identity, Problem> {
    let connection = request.extensions().get::<Arc<Connection>>();
    let connection =
        connection.ok_or_else(|| Problem::internal("a request without its connection"))?;
    if connection.is_sealed() {
        // It was sent before the answer that sealed the connection. What is sent later is not even read.
        let hint =
            "ask on another connection: this one is sealed, and only holds what is bound to it";
        return Err(Problem::permission().hint(hint));
    }
    let what = || what(request, path);
    let identity = Identity::of(app, &connection.origin, request.headers(), &what)?;
    identity.require(&app.host, role, what)?;
    Ok(identity)
}

/// What a request asks for, as a refusal is recorded: without what is secret, which is the query and
/// the names of sessions and permits.
fn what(request: &Request, path: &'static str) -> String {
    let is_secret = path.starts_with("/v1/sessions/") || path.starts_with("/v1/permits/");
    let path = if is_secret { path } else { request.uri().path() };
    format!("{} {path}", request.method())
}

fn filter(method: &str) -> MethodFilter {
    match method {
        "GET" => MethodFilter::GET,
        "PUT" => MethodFilter::PUT,
        "PATCH" => MethodFilter::PATCH,
        "DELETE" => MethodFilter::DELETE,
        _ => MethodFilter::POST,
    }
}

#[cfg(test)]
mod tests {
    use super::Routes;
    use crate::identity::Role;
    use crate::{app_for_tests, openapi};
    use std::collections::BTreeSet;

    #[test]
    fn the_description_has_every_route_with_its_role_and_nothing_else() {
        let (_runtime, app) = app_for_tests();
        let word = |role: Option<Role>| role.map_or("", Role::word);
        let routed = Routes::all(&app).listed;
        let routed: BTreeSet<_> =
            routed.into_iter().map(|(m, p, role)| (m, p, word(role))).collect();
        let described: BTreeSet<_> = openapi::described().into_iter().collect();
        assert_eq!(routed, described);
    }
}
