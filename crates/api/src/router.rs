//! Which path does what, and who may: one list, from which the router is made.

use crate::connection::{Connection, Origin};
use crate::identity::{Identity, Role, whoami};
use crate::respond::{Problem, no_such_method, no_such_path};
use crate::{
    App, Shared, events, health, locks, metrics, objects, openapi, permits, questions, sessions,
};
use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
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
        H: Handler<T, Shared>,
        T: 'static,
    {
        self.listed.push((method, path, None));
        self.router = self.router.route(path, on(filter(method), handler));
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
        H: Handler<T, Shared>,
        T: 'static,
    {
        self.listed.push((method, path, Some(role)));
        let app = Arc::clone(&self.app);
        let checked = from_fn_with_state((app, role, path), check);
        self.router = self.router.route(path, on(filter(method), handler).route_layer(checked));
        self
    }
}

/// Lets a request through if whoever sent it has the role, and notes who that is.
async fn check(
    axum::extract::State((app, role, path)): axum::extract::State<(Arc<App>, Role, &'static str)>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(connection) = request.extensions().get::<Arc<Connection>>() else {
        return Problem::internal("a request without its connection").into_response();
    };
    match identify(&app, &connection.origin, &request, (role, path)) {
        Ok(identity) => {
            request.extensions_mut().insert(identity);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Who sent a request, if they may do what needs the role.
fn identify(
    app: &App,
    origin: &Origin,
    request: &Request,
    (role, path): (Role, &'static str),
) -> Result<Identity, Problem> {
    let what = || what(request, path);
    let identity = Identity::of(app, origin, request.headers(), &what)?;
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
