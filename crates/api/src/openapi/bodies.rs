//! Schemas of bodies that are not objects of the catalogue. Each has exactly the members that its handler reads.

use super::schema::or_null;
use paceline_types::limits;
use serde_json::{Map, Value, json};

/// A duration.
fn span() -> Value {
    json!({ "type": "string", "description": "A length of time, such as `1.5s`.", "examples": ["1.5s"] })
}

/// The secret by which a waiter that asks again is recognised.
fn place() -> Value {
    let (min, max) = (limits::PLACE_BYTES.start(), limits::PLACE_BYTES.end());
    json!({
        "type": "string", "minLength": min, "maxLength": max, "pattern": "^[A-Za-z0-9._-]+$",
        "description": "A random secret, which the client sends again if the daemon is restarted while the request waits: it then keeps its place in the queue.",
        "examples": ["0b1946ac92492d2347c6235b4d2611184"],
    })
}

/// A body with these members. Members that are not required may be `null`, which is the same as missing.
fn body(members: Value, required: &[&str]) -> Value {
    let Value::Object(members) = members else { return Value::Null };
    let optional = |(name, schema): (String, Value)| {
        let schema = if required.contains(&name.as_str()) { schema } else { or_null(schema) };
        (name, schema)
    };
    let members: Map<String, Value> = members.into_iter().map(optional).collect();
    json!({
        "type": "object", "properties": members, "required": required, "additionalProperties": false,
    })
}

/// All schemas.
pub(super) fn all() -> Map<String, Value> {
    let (text, flag) = (json!({ "type": "string" }), json!({ "type": "boolean" }));
    let texts = json!({ "type": "array", "items": text });
    let whole = json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX });
    let session =
        json!({ "type": "string", "description": "The session, as it was named when it began." });
    let claim = body(
        json!({ "resource": text, "mode": { "type": "string", "enum": ["exclusive", "shared"] } }),
        &["resource"],
    );
    let wanted = json!({
        "attributes": { "type": "object", "additionalProperties": text },
        "cost": whole,
        "claims": { "type": "array", "items": claim },
        "require_locks": texts,
        "max_wait": span(),
        "unknown": { "type": "string", "enum": ["refuse", "wait", "create"], "description": "What to do if a claimed resource does not exist." },
        "session": session,
        "locks_of": { "type": "string", "description": "Another session, whose locks count for `require_locks`." },
        "within": { "type": "array", "items": text, "description": "Sessions around the request, whose claims it does not wait for." },
        "lease": span(),
        "once": { "type": "boolean", "description": "Whether the request ends as soon as it may run, so that nothing is held." },
        "place": place(),
    });
    let mut asked = wanted.clone();
    asked["on"] = json!({
        "type": "string", "enum": ["request", "connection"],
        "description": "Whether the question is about a request or about its connection.",
    });
    let all = json!({
        "PermitRequest": body(wanted, &[]),
        "Question": body(asked, &[]),
        "NewSession": body(json!({
            "name": text, "lease": span(),
            "bound": { "type": "boolean", "description": "Whether it ends with its connection instead of a lease; on the unix socket only." },
            "sealed": { "type": "boolean", "description": "Whether the connection does nothing more; with `bound` only." },
        }), &[]),
        "NewProcess": body(json!({ "pid": whole }), &["pid"]),
        "TakeLock": body(json!({
            "session": session, "steal": flag,
            "wait": { "type": "string", "description": "How long to wait for it, such as `1.5s`.", "examples": ["1.5s"] },
            "place": place(),
        }), &["session"]),
        "Unlock": body(json!({ "session": session }), &[]),
        "ConfigFiles": body(json!({
            "files": {
                "type": "array",
                "items": body(json!({
                    "file": { "type": "string", "description": "The name of the file, which owns the objects it creates." },
                    "directory": {
                        "type": "string",
                        "description": "The absolute path of the directory that relative file names in the text refer to.",
                    },
                    "text": { "type": "string", "description": "Its content, in TOML." },
                }), &["file", "text"]),
            },
        }), &["files"]),
        "Cancel": body(json!({
            "reason": { "type": "string", "description": "The reason, which the client of the request is shown." },
        }), &[]),
    });
    if let Value::Object(all) = all { all } else { Map::new() }
}
