//! Schemas of answers that are not objects of the catalogue. None forbids further members, and no word is an enum.

use super::schema::{name_of, or_null};
use crate::operation::refer;
use paceline_catalogue::TOKENS;
use serde_json::{Map, Value, json};

fn text() -> Value {
    json!({ "type": "string" })
}

fn number() -> Value {
    json!({ "type": "integer" })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

/// A point in time.
fn moment() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

fn list(of: &Value) -> Value {
    json!({ "type": "array", "items": of })
}

/// An answer in which all members are required except those named.
fn answer(members: Value, missing: &[&str]) -> Value {
    let names = members.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let required: Vec<&str> = names.filter(|name| !missing.contains(name)).collect();
    let required = json!(required);
    json!({ "type": "object", "properties": members, "required": required })
}

/// All schemas.
pub(super) fn all() -> Map<String, Value> {
    let parts = [held(), waiting(), explained(), daemon()];
    parts
        .into_iter()
        .filter_map(|part| if let Value::Object(part) = part { Some(part) } else { None })
        .flatten()
        .collect()
}

/// Sessions, permits, locks and tokens.
fn held() -> Value {
    json!({
        "Session": answer(
            json!({ "session": text(), "lease": text(), "expires_at": moment(), "bound": flag() }),
            &["lease", "expires_at", "bound"],
        ),
        "Renewed": answer(json!({ "expires_at": or_null(moment()) }), &[]),
        "Released": answer(json!({
            "released": flag(),
            "written": { "type": "boolean", "description": "False if the release is not on disk yet." },
        }), &[]),
        "Deleted": answer(json!({
            "deleted": flag(),
            "warnings": { "type": "array", "items": text(), "description": "The requests that still hold it." },
        }), &[]),
        "Permit": answer(json!({
            "permit": { "type": "string", "description": "Its name, for its user and for operators." },
            "request": number(), "priority": number(), "pool": text(), "granted_at": moment(),
            "waited": text(), "user": text(), "expires_at": moment(),
        }), &["permit", "expires_at"]),
        "LockGrant": answer(json!({
            "lock": text(), "fencing": number(),
            "written": { "type": "boolean", "description": "False if the grant is not on disk yet." },
        }), &["written"]),
        "Lock": answer(json!({
            "name": text(), "owner": or_null(text()), "fencing": or_null(number()),
            "waiters": { "type": "array", "items": text(), "description": "The first 100 sessions in line." },
            "waiting": number(),
        }), &[]),
        "IssuedToken": { "allOf": [
            refer(&name_of(&TOKENS)),
            answer(json!({
                "token": { "type": "string", "description": "The token, which is shown only once." },
            }), &[]),
        ] },
    })
}

/// Requests, and why they wait.
fn waiting() -> Value {
    let shared = json!({
        "request": number(),
        "state": { "type": "string", "description": "`running` or `waiting`." },
        "user": text(), "text": text(), "pool": text(), "priority": number(), "since": moment(),
        "on": { "type": "string", "description": "`request` or `connection`." },
        "waits_for": refer("WaitsFor"), "ahead_total": number(), "until": moment(),
        "method": text(), "client": text(), "frontend": text(), "backend": text(), "server": text(),
    });
    let optional = ["until", "method", "client", "frontend", "backend", "server"];
    let mut listed = shared.clone();
    (listed["session"], listed["permit"], listed["behind"]) = (text(), text(), number());
    let mut why = shared;
    (why["message"], why["arrived_at"]) = (text(), moment());
    (why["ahead"], why["deadline"]) = (list(&number()), moment());
    why["holding"] = number();
    why["behind"] = list(&answer(
        json!({
            "request": number(), "state": text(), "user": text(), "text": text(), "since": moment(),
        }),
        &[],
    ));
    let missing = ["waits_for", "ahead_total", "session", "permit", "behind"];
    json!({
        "Request": answer(listed, &[optional.as_slice(), missing.as_slice()].concat()),
        "Why": answer(why, &[optional.as_slice(), ["deadline"].as_slice()].concat()),
        "WaitsFor": answer(json!({
            "kind": { "type": "string", "description": "`nothing`, `checkpoint`, `resource`, `slot`, `start`, `creation` or `turn`." },
            "checkpoint": text(), "key": text(), "resource": text(), "pool": text(),
        }), &["checkpoint", "key", "resource", "pool"]),
        "Place": answer(
            json!({ "checkpoint": text(), "key": text(), "pool": text() }),
            &["checkpoint", "key", "pool"],
        ),
    })
}

/// What would happen to a request.
fn explained() -> Value {
    let rule =
        answer(json!({ "number": or_null(number()), "outcome": text(), "message": text() }), &[]);
    let checkpoint = answer(
        json!({
            "place": refer("Place"), "outlook": text(), "until": or_null(moment()), "enforces": flag(),
        }),
        &[],
    );
    let foreseen = answer(
        json!({
            "outcome": { "type": "string", "description": "`start`, `wait` or `refuse`." },
            "waits_for": refer("WaitsFor"), "until": or_null(moment()), "reason": text(), "message": text(),
        }),
        &["waits_for", "until", "reason", "message"],
    );
    json!({
        "Explanation": answer(json!({
            "rules": list(&rule), "checkpoints": list(&checkpoint), "foreseen": foreseen,
            "message": text(), "priority": number(), "pool": text(), "backend": text(),
            "server": text(),
            "warnings": {
                "type": "array", "items": text(),
                "description": "Frontends, backends and servers that the request names and that do not exist.",
            },
        }), &["priority", "pool", "backend", "server", "warnings"]),
        "Node": answer(json!({
            "name": text(), "parents": list(&text()), "holders": list(&number()),
            "waiters": list(&number()),
        }), &[]),
    })
}

/// The daemon itself, and errors.
fn daemon() -> Value {
    let listening = answer(json!({ "name": text(), "listening": list(&text()) }), &[]);
    let http = answer(
        json!({
            "frontends": list(&listening), "servers": number(), "servers_down": number(),
            "down": list(&text()), "problem": text(), "problems": list(&text()),
        }),
        &["problem", "problems"],
    );
    let wrong = answer(
        json!({
            "line": number(), "column": number(), "message": text(), "hint": text(), "file": text(),
        }),
        &["hint", "file"],
    );
    let error = json!({
        "error": { "type": "string", "description": "A word for programs." },
        "message": { "type": "string", "description": "A sentence for people." },
        "hint": { "type": "string", "description": "What to try next." },
        "reason": { "type": "string", "description": "Why a request was refused." },
        "request": number(), "retry_after": number(), "rule": number(), "by": text(),
        "waited": { "type": "string", "description": "How long a refused request waited." },
        "max": { "type": "string", "description": "How long a refused request may wait." },
        "owner": or_null(text()),
        "place": { "type": "object", "description": "What the error is about." },
        "errors": list(&wrong),
    });
    let optional = [
        "hint",
        "reason",
        "request",
        "retry_after",
        "rule",
        "by",
        "waited",
        "max",
        "owner",
        "place",
        "errors",
    ];
    json!({
        "Health": answer(json!({ "status": text() }), &[]),
        "Identity": answer(json!({ "user": text(), "role": text(), "host": text() }), &[]),
        "Status": answer(json!({
            "version": text(), "pid": number(), "now": moment(), "read_only": flag(), "sync": text(),
            "databases": list(&text()), "open_files_max": or_null(number()),
            "warnings": list(&text()), "draining": flag(), "http": http,
            "requests": answer(json!({ "running": number(), "waiting": number() }), &[]),
            "reload": { "type": "object", "description": "How the files of `--config` were last read." },
        }), &["reload"]),
        "Edit": answer(json!({
            "op": { "type": "string", "description": "`create`, `change`, `delete`, `drift` or `warning`." },
            "kind": text(), "name": text(), "members": list(&text()), "taken_over": flag(), "deleted": flag(),
            "renamed": { "type": "string", "description": "What the object is called, if it was renamed since the file was applied." },
            "priority": { "type": "array", "items": number(), "description": "The priorities that an imported pool gets." },
            "message": text(), "line": number(), "column": number(), "file": text(),
        }), &["priority", "kind", "name", "members", "taken_over", "deleted", "renamed", "message", "line", "column", "file"]),
        "Document": { "type": "object", "description": "An OpenAPI document." },
        "Error": answer(error, &optional),
    })
}
