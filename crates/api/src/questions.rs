//! Questions about requests: which exist, why one waits, and what would happen to one.

use crate::identity::{Identity, Role};
use crate::members::Members;
use crate::moment::{Now, rfc3339};
use crate::permits::no_request;
use crate::request::Asked;
use crate::respond::{Answer, Problem, done, ok, place, reason, shown};
use crate::sessions::checked_name;
use crate::sight::Sight;
use crate::turns::wait;
use crate::{App, Shared, body, large, query, tried};
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Uri};
use paceline_host::words::Outlook;
use paceline_host::{Explanation, Foreseen, Hop, Listed, NotWaiting, WaitsFor, Why};
use paceline_types::{Known, On, Reason, Request, RequestId, Span};
use serde_json::{Map, Value, json};

/// Most requests that a list shows.
const LISTED_MAX: u64 = 10_000;

/// Most requests of one session that a list shows.
const SESSION_LISTED_MAX: usize = 64;

/// Requests ahead of one that are described, nearest first.
const BEHIND_MAX: usize = 8;

/// The most bytes of attributes of a request at a frontend of the HTTP door: its head has 32 KiB at most.
const HEAD_ATTRIBUTES_MAX: usize = 128 << 10;

/// How often an explanation is repeated because the rules changed in between.
const TRIES_MAX: u32 = 3;

/// `GET /v1/requests`
pub(crate) async fn requests(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    uri: Uri,
) -> Answer {
    let first = query::number(&uri, "first", 0, u64::MAX)?;
    let count = query::number(&uri, "count", LISTED_MAX, LISTED_MAX)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let session = query::text(&uri, "session")?.map(|key| app.registry.session(&key));
    if let Some(session) = session {
        let listed = app.host.control().list_of(session?.session.id, count.min(SESSION_LISTED_MAX));
        let now = app.wall.now();
        let listed = listed.into_iter().filter(|listed| listed.why.id.0 >= first);
        let sight = Sight::of(&app, &identity);
        let described = listed.map(|listed| describe(&app, &identity, sight.limit(listed), now));
        return ok(&described.collect::<Value>());
    }
    large::list(&app, &identity, |text| {
        let listed = app.host.control().list(RequestId(first), count);
        let now = app.wall.now();
        let sight = Sight::of(&app, &identity);
        let describe = |listed| describe(&app, &identity, sight.limit(listed), now);
        text.json(&listed.into_iter().map(describe).collect::<Value>())
    })
    .await
}

fn describe(app: &App, identity: &Identity, listed: Listed, now: Now) -> Value {
    let Listed { user, text, session, why, .. } = &listed;
    let mut value = json!({
        "request": why.id.0,
        "state": state(why),
        "user": user,
        "text": text,
        "pool": why.pool,
        "priority": why.priority.number(),
        "since": times(&listed, now).1,
    });
    if let Some(members) = value.as_object_mut() {
        if why.waits_for != WaitsFor::Nothing {
            members.insert("waits_for".into(), waits_for(&why.waits_for));
            members.insert("ahead_total".into(), why.in_line().into());
            members.extend(listed.behind.map(|id| ("behind".to_owned(), id.0.into())));
            members.extend(why.until.map(|at| ("until".to_owned(), now.text(at).into())));
        }
        add_hop(&listed, members);
        let session = session.and_then(|id| app.registry.session_name(id));
        members.extend(session.map(|name| ("session".to_owned(), name.into())));
        let permit = app.registry.permit_of(why.id).filter(|name| {
            // A client that may not use the permit does not see its name.
            app.registry.permit(name).is_ok_and(|view| identity.sees(&view.user))
        });
        members.extend(permit.map(|name| ("permit".to_owned(), name.into())));
    }
    value
}

/// Adds whether it is a request or a connection and, for the HTTP door, where it comes from and is sent.
fn add_hop(listed: &Listed, members: &mut Map<String, Value>) {
    let on = match listed.on {
        On::Request => "request",
        On::Connection => "connection",
    };
    members.insert("on".into(), on.into());
    let Some(Hop { method, client, frontend, backend, server }) = &listed.http else { return };
    let named = [
        ("method", method),
        ("client", client),
        ("frontend", frontend),
        ("backend", backend),
        ("server", server),
    ];
    let known = named.into_iter().filter(|(_, value)| !value.is_empty());
    members.extend(known.map(|(name, value)| (name.to_owned(), value.to_string().into())));
}

fn state(why: &Why) -> &'static str {
    if why.waits_for == WaitsFor::Nothing { "running" } else { "waiting" }
}

fn waits_for(waits_for: &WaitsFor) -> Value {
    let (kind, about) = match waits_for {
        WaitsFor::Nothing => ("nothing", Value::Null),
        WaitsFor::Checkpoint { place: at } => ("checkpoint", place(at)),
        WaitsFor::Resource { resource } => ("resource", json!({ "resource": resource })),
        WaitsFor::Slot { pool } => ("slot", json!({ "pool": pool })),
        WaitsFor::Start { pool } => ("start", json!({ "pool": pool })),
        WaitsFor::Creation { resource } => ("creation", json!({ "resource": resource })),
        WaitsFor::Turn => ("turn", Value::Null),
    };
    let mut members = Map::new();
    members.insert("kind".into(), kind.into());
    if let Value::Object(about) = about {
        members.extend(about);
    }
    Value::Object(members)
}

/// `GET /v1/why/{request}`
pub(crate) async fn why(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(id): Path<String>,
) -> Answer {
    let id = number(&id)?;
    let sight = Sight::of(&app, &identity);
    let listed = app.host.control().listed(id).ok_or_else(|| no_such(id))?;
    let listed = sight.limit(listed);
    let why = &listed.why;
    let now = app.wall.now();
    let (arrived_at, since) = times(&listed, now);
    let ahead: Vec<u64> = why.ahead.iter().map(|id| id.0).collect();
    let mut value = json!({
        "request": why.id.0,
        "state": state(why),
        "user": listed.user,
        "text": listed.text,
        "waits_for": waits_for(&why.waits_for),
        "message": message(why, now),
        "arrived_at": arrived_at,
        "since": since,
        "priority": why.priority.number(),
        "pool": why.pool,
        "ahead": ahead,
        "ahead_total": why.in_line(),
        "holding": why.holding,
        "behind": behind(&app, &sight, why, now),
    });
    if let Some(members) = value.as_object_mut() {
        let times = [("until", why.until), ("deadline", why.deadline)];
        let times = times.into_iter().filter_map(|(name, at)| Some((name, at?)));
        members.extend(times.map(|(name, at)| (name.to_owned(), now.text(at).into())));
        add_hop(&listed, members);
    }
    ok(&value)
}

/// `POST /v1/requests/{request}/cancel`
pub(crate) async fn cancel(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let id = number(&id)?;
    let mut members = body::members(&app, &identity, &headers, body).await?;
    let why = members.text("reason")?.map(|text| checked_name("reason", text)).transpose()?;
    members.finish()?;
    let (by, why) = (identity.title(), why.unwrap_or_default());
    let reason = Reason::Cancelled { by: by.clone().into(), why: why.into() };
    match app.host.control().cancel(id, reason) {
        Ok(()) => {
            app.host.record(&by, "cancel", &format!("request {id}"));
            done()
        }
        Err(NotWaiting::Unknown) => Err(no_such(id)),
        Err(NotWaiting::Runs) => {
            let message = format!("request {id} runs; only a request that waits can be cancelled");
            Err(Problem::conflict(message)
                .hint("if it holds a permit, DELETE /v1/permits/{permit} releases that"))
        }
    }
}

/// The number of a request in a path.
fn number(text: &str) -> Result<RequestId, Problem> {
    let number = text.parse().map(RequestId);
    number.map_err(|_| {
        let found = shown(text);
        Problem::bad_request(format!("a request has a number, such as 17, found {found:?}"))
    })
}

fn no_such(id: RequestId) -> Problem {
    Problem::not_found(format!("request {id} neither waits nor runs"))
        .hint("GET /v1/requests lists those that do")
}

/// When a request arrived, and since when it waits or runs. A request that waited before a restart arrived
/// then, and has waited since in its present queue.
fn times(listed: &Listed, now: Now) -> (String, String) {
    let before = |us: i64, span: Span| {
        rfc3339(us.saturating_sub(i64::try_from(span.0 / 1_000).unwrap_or(0)))
    };
    if let Some((granted_us, waited)) = listed.granted {
        return (before(granted_us, waited), rfc3339(granted_us));
    }
    let Why { arrival, since, waited_before, .. } = listed.why;
    let arrived_at = before(now.us(arrival), waited_before);
    let is_first = since == arrival;
    let since = if is_first { arrived_at.clone() } else { now.text(since) };
    (arrived_at, since)
}

/// The nearest requests ahead, described for people.
fn behind(app: &App, sight: &Sight<'_>, why: &Why, now: Now) -> Value {
    let nearest = why.ahead.iter().take(BEHIND_MAX);
    let listed = nearest.filter_map(|id| app.host.control().listed(*id));
    let described = listed.map(|ahead| sight.limit(ahead)).map(|ahead| {
        json!({
            "request": ahead.why.id.0,
            "state": state(&ahead.why),
            "user": ahead.user,
            "text": ahead.text,
            "since": times(&ahead, now).1,
        })
    });
    described.collect()
}

/// One sentence for people: what it waits for, behind how many, and for how long.
fn message(why: &Why, now: Now) -> String {
    let mut message = why.waits_for.to_string();
    if why.in_line() > 0 {
        message += &format!(", {} ahead", why.in_line());
    }
    if let Some(until) = why.until {
        // Fractions of a millisecond do not matter here.
        let left = until.since(now.time).0.div_ceil(1_000_000);
        message += &format!(", for another {}", Span::from_ms(left));
    }
    message
}

/// `POST /v1/explain`
pub(crate) async fn explain(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let mut members = body::members(&app, &identity, &headers, body).await?;
    let words = [("request", On::Request), ("connection", On::Connection)];
    let on = members.word("on", &words)?.unwrap_or_default();
    as_of_http(&app, &mut members);
    // Nothing is requested in another user's name, and the answer reveals only what rules and figures show.
    let asker = Identity { role: Role::Operator.max(identity.role), ..identity };
    let Asked { mut request, .. } = Asked::read(members, &asker, &app)?;
    request.on = on;
    check_head(&app, &request)?;
    let warnings = tried::missing(&app.host.control().snapshot(), &request);
    // Every rule is tried, and the answer names each.
    let _turn = wait(&app.answers.matching, &asker).await;
    tokio::task::block_in_place(|| {
        let control = app.host.control();
        for _ in 1..TRIES_MAX {
            let before = control.snapshot();
            let explanation = control.explain(request.clone()).map_err(no_request)?;
            if control.snapshot().generation() == before.generation() {
                return ok(&explained(&app, &explanation, &warnings));
            }
        }
        ok(&explained(&app, &control.explain(request).map_err(no_request)?, &warnings))
    })
}

/// Sets the attributes of a request at a frontend of the HTTP door as that door would: it has no user unless it
/// names one.
fn as_of_http(app: &App, members: &mut Members) {
    if let Some(Value::Object(attributes)) = members.peek_mut("attributes") {
        let text = |name: &str| attributes.get(name).and_then(Value::as_str).unwrap_or_default();
        let snapshot = app.host.control().snapshot();
        let mut frontends = snapshot.routing().frontends().iter();
        if frontends.any(|frontend| *frontend.name == *text("frontend")) {
            let (path, query) = (text("path"), text("query"));
            let mark = if query.is_empty() { "" } else { "?" };
            let given = [
                ("kind", "http".to_owned()),
                ("host", text("client").to_owned()),
                ("user", String::new()),
                ("text", format!("{path}{mark}{query}")),
            ];
            for (name, value) in given {
                attributes.entry(name).or_insert_with(|| value.into());
            }
        }
    }
}

/// Checks that a request at a frontend of the HTTP door could occur there. Its backend may depend on counters,
/// and then its attributes are matched while the engine is locked.
fn check_head(app: &App, request: &Request) -> Result<(), Problem> {
    let frontend = request.attributes.known(Known::Frontend);
    let is_http = app.host.control().snapshot().routing().frontend(frontend).is_some();
    match is_http && request.attributes.bytes() > HEAD_ATTRIBUTES_MAX {
        true => Err(Problem::bad_request(format!(
            "attributes: a request at a frontend of the HTTP door has at most {HEAD_ATTRIBUTES_MAX} bytes of them"
        ))),
        false => Ok(()),
    }
}

fn explained(app: &App, explanation: &Explanation, warnings: &[String]) -> Value {
    let now = app.wall.now();
    let checkpoint = |(at, outlook, enforces): (Value, &Outlook, bool)| {
        let (word, until) = match outlook {
            Outlook::Pass => ("pass", None),
            Outlook::Queue { pass_at } => ("wait", *pass_at),
            Outlook::Refuse(_) => ("refuse", None),
        };
        let until = until.map(|at| now.text(at));
        json!({ "place": at, "outlook": word, "until": until, "enforces": enforces })
    };
    let checkpoints = explanation.checkpoints.iter();
    let checkpoints = checkpoints.map(|c| checkpoint((place(&c.place), &c.outlook, c.enforces)));
    let mut value = json!({
        "rules": tried::rules(explanation),
        "checkpoints": checkpoints.collect::<Value>(),
        "foreseen": foreseen(&explanation.foreseen, now),
        "message": explanation.to_string().trim_end(),
    });
    if let (Some((priority, pool)), Some(members)) = (&explanation.admitted, value.as_object_mut())
    {
        members.insert("priority".into(), priority.number().into());
        members.insert("pool".into(), pool.to_string().into());
    }
    if let Some(members) = value.as_object_mut() {
        if !warnings.is_empty() {
            members.insert("warnings".into(), warnings.into());
        }
        for (name, chosen) in [("backend", &explanation.backend), ("server", &explanation.server)] {
            members.extend(chosen.as_ref().map(|chosen| (name.to_owned(), (**chosen).into())));
        }
    }
    value
}

fn foreseen(foreseen: &Foreseen, now: Now) -> Value {
    match foreseen {
        Foreseen::Start => json!({ "outcome": "start" }),
        Foreseen::Wait { waits_for: what, until } => json!({
            "outcome": "wait",
            "waits_for": waits_for(what),
            "until": until.map(|at| now.text(at)),
        }),
        Foreseen::Refuse(refusal) => json!({
            "outcome": "refuse",
            "reason": reason(&refusal.reason).0,
            "message": refusal.to_string(),
        }),
    }
}
