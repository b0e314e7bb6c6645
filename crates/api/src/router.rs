//! The paths, their handlers and roles: one list, from which the router and the OpenAPI document are made.

use crate::connection::Connection;
use crate::identity::{Identity, Role, whoami};
use crate::operation::{EDIT, Form, Operation, Parameter};
use crate::respond::{JSON, Problem, no_such_method, no_such_path};
use crate::turns::user_of;
use crate::{
    App, Shared, events, health, large, locks, metrics, objects, openapi, permits, query,
    questions, sessions,
};
use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{Method, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

/// A router being built.
pub(crate) struct Routes {
    router: Router<Shared>,
    app: Shared,
    /// Its operations.
    pub(crate) operations: Vec<Operation>,
}

const LIST_NUMBERS: &[Parameter] = &[
    Parameter { name: "first", form: Form::Number, doc: "The lowest number of a request to list." },
    COUNT,
    Parameter { name: "session", form: Form::Text, doc: "The session whose requests are listed." },
];

const LIST_NAMES: &[Parameter] = &[
    Parameter {
        name: "first",
        form: Form::Text,
        doc: "The first name to list, in alphabetical order.",
    },
    COUNT,
];

const COUNT: Parameter =
    Parameter { name: "count", form: Form::Number, doc: "How many to list; 10,000 at most." };

const SESSION: &[Parameter] = &[Parameter {
    name: "session",
    form: Form::Text,
    doc: "The session that has the lock, if no body names it.",
}];

const APPLY: &[Parameter] = &[
    DRY_RUN,
    Parameter {
        name: "directory",
        form: Form::Text,
        doc: "The absolute path of the directory that relative file names in the text refer to.",
    },
    FILE,
    RESET,
    TAKE_OVER,
    STRICT,
    DELETIONS_MAX,
];

const APPLY_FILES: &[Parameter] = &[DRY_RUN, RESET, TAKE_OVER, STRICT, DELETIONS_MAX];

const DRY_RUN: Parameter = Parameter {
    name: "dry_run",
    form: Form::Flag,
    doc: "Whether to report the differences without applying them.",
};

const RESET: Parameter = Parameter {
    name: "reset",
    form: Form::Flag,
    doc: "Whether to override live changes although the text did not change there.",
};

const TAKE_OVER: Parameter = Parameter {
    name: "take_over",
    form: Form::Flag,
    doc: "Whether to take over objects that other files own.",
};

const STRICT: Parameter =
    Parameter { name: "strict", form: Form::Flag, doc: "Whether warnings are errors." };

const DELETIONS_MAX: Parameter = Parameter {
    name: "deletions_max",
    form: Form::Number,
    doc: "The most objects that may be deleted.",
};

const FILE: Parameter = Parameter {
    name: "file",
    form: Form::Text,
    doc: "The name of the file, which owns the objects it creates.",
};

const CONFIG: &[Parameter] = &[FILE];

const IMPORT: &[Parameter] = &[
    Parameter {
        name: "dry_run",
        form: Form::Flag,
        doc: "Whether to report what would be imported without importing it.",
    },
    Parameter {
        name: "persistent",
        form: Form::Flag,
        doc: "Whether the pools that are created exist after a restart.",
    },
];

const DATABASE: &[Parameter] = &[Parameter {
    name: "database",
    form: Form::Text,
    doc: "The database; `Paceline` unless given.",
}];

impl Routes {
    /// Everything that the door serves.
    pub(crate) fn all(app: &Shared) -> Self {
        let empty = Self { router: Router::new(), app: Arc::clone(app), operations: Vec::new() };
        let routes = empty.daemon().sessions().permits().locks().questions().configuration();
        objects::routes(routes).described()
    }

    fn daemon(self) -> Self {
        let health =
            Operation::open("GET", "/healthz", "health", "Shows whether the daemon serves");
        let who = "Shows the caller's user and role";
        let whoami_of = Operation::new(Role::Viewer, "GET", "/v1/whoami", "whoami", who);
        let status = "Shows the daemon's state";
        let status = Operation::new(Role::Viewer, "GET", "/v1/status", "status", status);
        let metrics_of = "Returns figures for Prometheus";
        let metrics_of = Operation::new(Role::Viewer, "GET", "/metrics", "metrics", metrics_of);
        let events = "Follows events, as server-sent events";
        let events = Operation::new(Role::Viewer, "GET", "/v1/events", "events", events);
        self.add(health.gives(200, "Health").gives(503, "Health"), health::healthz)
            .add(whoami_of.gives(200, "Identity"), whoami)
            .add(status.gives(200, "Status"), crate::status::status)
            .add(metrics_of.gives_text(&["text/plain"]), metrics::metrics)
            .add(events.gives_text(&["text/event-stream"]).fails([503]), events::follow)
    }

    fn sessions(self) -> Self {
        let operation = |method, path, id: &str, summary: &str| {
            Operation::new(Role::Client, method, path, id, summary)
        };
        let begin = operation("POST", "/v1/sessions", "begin_session", "Begins a session");
        let end = "Ends a session and releases what it holds";
        let end = operation("DELETE", "/v1/sessions/{session}", "end_session", end);
        let renew = "Renews the lease of a session";
        let renew = operation("POST", "/v1/sessions/{session}/renew", "renew_session", renew);
        let process = "Keeps a bound session for as long as a process lives, too";
        let process = operation("POST", "/v1/sessions/{session}/processes", "add_process", process);
        let begin = begin.takes("NewSession").gives(201, "Session");
        self.add(begin.fails([503, 507]), sessions::begin)
            .add(end.gives_nothing().gives(200, "Released").fails([404]), sessions::end)
            .add(renew.gives(200, "Renewed").fails([404, 410, 507]), sessions::renew)
            .add(
                process.takes("NewProcess").gives_nothing().fails([404, 410, 503, 507]),
                sessions::add_process,
            )
    }

    fn permits(self) -> Self {
        let operation = |method, path, id: &str, summary: &str| {
            Operation::new(Role::Client, method, path, id, summary)
        };
        let list = "Lists permits";
        let list = Operation::new(Role::Viewer, "GET", "/v1/permits", "list_permits", list);
        let one = "Shows a permit";
        let one = Operation::new(Role::Viewer, "GET", "/v1/permits/{permit}", "get_permit", one);
        let ask = "Requests a permit and waits for it if necessary";
        let ask = operation("POST", "/v1/permits", "ask_permit", ask);
        let named = "Requests a permit under an id that the client chose; repeating the request returns the same permit";
        let named = operation("PUT", "/v1/permits/{permit}", "ask_permit_by_id", named);
        let asks = |operation: Operation| {
            let operation = operation.takes("PermitRequest").gives(200, "Permit");
            operation.gives(201, "Permit").fails([404, 409, 410, 503, 507])
        };
        let release =
            operation("DELETE", "/v1/permits/{permit}", "release_permit", "Releases a permit");
        let renew = "Renews the lease of a permit";
        let renew = operation("POST", "/v1/permits/{permit}/renew", "renew_permit", renew);
        self.add(list.gives_list("Permit"), permits::list)
            .add(one.gives(200, "Permit").fails([404, 410]), permits::one)
            .add(asks(ask), permits::ask)
            .add(asks(named), permits::ask_by_name)
            .add(release.gives_nothing().gives(200, "Released").fails([404]), permits::settle)
            .add(renew.gives(200, "Renewed").fails([404, 410, 507]), permits::renew)
    }

    fn locks(self) -> Self {
        let list = Operation::new(Role::Viewer, "GET", "/v1/locks", "list_locks", "Lists locks");
        let one = "Shows a lock";
        let one = Operation::new(Role::Viewer, "GET", "/v1/locks/{lock}", "get_lock", one);
        let lock = "Takes a lock, waits for it, or steals it";
        let lock = Operation::new(Role::Client, "PUT", "/v1/locks/{lock}", "take_lock", lock);
        let unlock = "Releases a lock";
        let unlock = Operation::new(Role::Client, "DELETE", "/v1/locks/{lock}", "unlock", unlock);
        let lock = lock.takes("TakeLock").gives(200, "LockGrant");
        let unlock = unlock.query(SESSION).takes("Unlock").gives_nothing().gives(200, "Released");
        self.add(list.query(LIST_NAMES).gives_list("Lock"), locks::list)
            .add(one.gives(200, "Lock").fails([404]), locks::one)
            .add(lock.fails([404, 409, 410, 503, 507]), locks::lock)
            .add(unlock.fails([404, 409, 410, 507]), locks::unlock)
    }

    fn questions(self) -> Self {
        let list = "Lists requests that wait or run";
        let list = Operation::new(Role::Viewer, "GET", "/v1/requests", "list_requests", list);
        let why = "Shows why a request waits";
        let why = Operation::new(Role::Viewer, "GET", "/v1/why/{request}", "why", why);
        let explain = "Shows what would happen to a request";
        let explain = Operation::new(Role::Viewer, "POST", "/v1/explain", "explain", explain);
        let cancel = "Cancels a waiting request";
        let (path, id) = ("/v1/requests/{request}/cancel", "cancel_request");
        let cancel = Operation::new(Role::Operator, "POST", path, id, cancel);
        let explain = explain.takes("Question").gives(200, "Explanation");
        self.add(list.query(LIST_NUMBERS).gives_list("Request"), questions::requests)
            .add(why.gives(200, "Why").fails([404]), questions::why)
            .add(explain.fails([404, 410]), questions::explain)
            .add(cancel.takes("Cancel").gives_nothing().fails([404, 409]), questions::cancel)
    }

    fn configuration(self) -> Self {
        let toml = &["application/toml"];
        let export = "Returns the configuration as TOML";
        let export = Operation::new(Role::Viewer, "GET", "/v1/config", "export_config", export);
        let apply = "Applies a configuration in TOML";
        let apply = Operation::new(Role::Operator, "POST", "/v1/apply", "apply_config", apply);
        let apply = apply.query(APPLY).takes_text(&["application/toml", "text/plain"]);
        let import = "Imports a Comdb2 ruleset into the running list of rules";
        let import =
            Operation::new(Role::Operator, "POST", "/v1/rules/import", "import_rules", import);
        let import = import.query(IMPORT).takes_text(&["text/plain"]).gives_edits().fails(EDIT);
        let ruleset = "Returns the running list of rules as a Comdb2 ruleset";
        let ruleset =
            Operation::new(Role::Viewer, "GET", "/v1/rules/export", "export_rules", ruleset);
        let ruleset = ruleset.gives_text(&["text/plain"]).fails([409]);
        let files = "Applies several files in TOML as one configuration";
        let files = Operation::new(Role::Operator, "POST", "/v1/apply-files", "apply_files", files);
        let files = files.query(APPLY_FILES).takes("ConfigFiles");
        let backup = "Returns a copy of a database";
        let backup = Operation::new(Role::Admin, "GET", "/v1/backup", "backup", backup);
        let backup = backup.query(DATABASE).gives_text(&["application/octet-stream"]);
        self.add(export.query(CONFIG).gives_text(toml), crate::config::export)
            .add(apply.gives_edits().fails(EDIT), crate::config::apply)
            .add(import, crate::ruleset::import)
            .add(ruleset, crate::ruleset::export)
            .add(files.gives_edits().fails(EDIT), crate::config::apply_files)
            .add(backup.fails([404, 503]), crate::backup::backup)
    }

    /// Adds the OpenAPI document, which describes itself too.
    fn described(mut self) -> Self {
        let (path, summary) = ("/v1/openapi.json", "Returns this document");
        let operation = Operation::new(Role::Viewer, "GET", path, "openapi", summary);
        let operation = operation.gives(200, "Document");
        // The document must include the operation that returns it.
        self.operations.push(operation);
        let document = openapi::document(&self.operations);
        let Some(operation) = self.operations.pop() else { return self };
        let document = Bytes::from(document.to_string());
        self.add(operation, move || std::future::ready(large::shared(JSON, &document)))
    }

    /// The router.
    pub(crate) fn router(self) -> Router {
        let named = self.operations.iter().filter_map(|operation| {
            let (list, name) = operation.path.rsplit_once('/')?;
            (name.starts_with('{') && !list.contains('{')).then_some(list)
        });
        let lists: Arc<[&str]> = named.collect::<BTreeSet<_>>().into_iter().collect();
        let fallback = move |uri: Uri| std::future::ready(no_such_path(&uri, &lists));
        let router = self.router.fallback(fallback);
        router.method_not_allowed_fallback(no_such_method).with_state(self.app)
    }

    /// Adds an operation with its handler.
    pub(crate) fn add<H, T>(mut self, operation: Operation, handler: H) -> Self
    where
        H: Handler<T, Shared, Future = Answering>,
        T: 'static,
    {
        let Operation { role, path, query, method, .. } = operation;
        self.operations.push(operation);
        let checked = Checked { role, path, query, handler };
        self.router = self.router.route(path, on(filter(method), checked));
        self
    }
}

/// The future that handlers return.
type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler that is called only if the caller has the required role, if any, and if the query has only known
/// parameters. It replaces the handler and is not a layer around it, because every layer is copied and boxed
/// for each request.
#[derive(Clone)]
struct Checked<H> {
    role: Option<Role>,
    path: &'static str,
    query: &'static [Parameter],
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
        // A caller without the role is refused before anything else about the request is checked.
        let checked = identity
            .and_then(|identity| query::check(request.uri(), self.query).map(|()| identity));
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let checked = checked.and_then(|identity| match identity {
            None => Ok(None),
            Some(identity) => {
                let user = user_of(&identity);
                if !reads {
                    app.answers.check(&user)?;
                }
                Ok(Some((identity, user)))
            }
        });
        match checked {
            Ok(None) => self.handler.call(request, app),
            Ok(Some((identity, user))) => {
                request.extensions_mut().insert(identity);
                let answering = self.handler.call(request, Arc::clone(&app));
                Box::pin(async move { app.answers.counted(answering.await, user, reads).await })
            }
            Err(problem) => Box::pin(std::future::ready(problem.into_response())),
        }
    }
}

/// The caller of a request, if it has the role.
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
        // It was sent before the answer that sealed the connection. Later requests are not even read.
        let hint =
            "ask on another connection: this one is sealed, and only holds what is bound to it";
        return Err(Problem::permission().hint(hint));
    }
    let what = || what(request, path);
    let identity = Identity::of(app, &connection.origin, request.headers(), &what)?;
    identity.require(&app.host, role, what)?;
    Ok(identity)
}

/// The description of a request when a refusal is recorded, without secrets: the query, and the names of
/// sessions and permits.
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
    use crate::app_for_tests;
    use std::collections::BTreeSet;

    #[test]
    fn every_operation_has_a_name_of_its_own_and_an_answer() {
        let (_runtime, app) = app_for_tests();
        let operations = Routes::all(&app).operations;
        let names: BTreeSet<&str> = operations.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(names.len(), operations.len());
        for one in &operations {
            let fits = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(!one.answers.is_empty() && one.id.bytes().all(fits), "{}", one.id);
        }
    }
}
