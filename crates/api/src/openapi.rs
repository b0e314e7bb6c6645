//! The description of the API in OpenAPI's form, one entry for each path of the router.
//!
//! A test holds the two lists to each other.

use crate::identity::Role;
use crate::respond::{Answer, ok};
use serde_json::{Map, Value, json};

/// Method, path, the least role, what it does, the schema of its body, and the status of success.
type Entry = (&'static str, &'static str, &'static str, &'static str, Option<&'static str>, u16);

/// Every path.
const ENTRIES: &[Entry] = &[
    ("GET", "/healthz", "", "Whether the daemon serves", None, 200),
    ("GET", "/metrics", "viewer", "Figures for Prometheus", None, 200),
    ("GET", "/v1/whoami", "viewer", "Who asks, and with which role", None, 200),
    ("GET", "/v1/tokens", "admin", "List tokens, never the tokens themselves", None, 200),
    ("POST", "/v1/tokens", "admin", "Make a token, shown this once", Some("NewToken"), 201),
    ("DELETE", "/v1/tokens/{name}", "admin", "Revoke a token", None, 204),
    ("GET", "/v1/users", "viewer", "List the users of this machine with a role", None, 200),
    ("GET", "/v1/users/{name}", "viewer", "Show a user", None, 200),
    ("PUT", "/v1/users/{name}", "admin", "Give a user a role", Some("User"), 200),
    ("DELETE", "/v1/users/{name}", "admin", "Take the role away", None, 204),
    ("GET", "/v1/openapi.json", "viewer", "This description", None, 200),
    ("POST", "/v1/sessions", "client", "Begin a session", Some("NewSession"), 201),
    (
        "DELETE",
        "/v1/sessions/{session}",
        "client",
        "End a session and give back what it holds",
        None,
        204,
    ),
    ("POST", "/v1/sessions/{session}/renew", "client", "Let the lease begin anew", None, 200),
    (
        "POST",
        "/v1/sessions/{session}/processes",
        "client",
        "Let a bound session last, if the daemon ends, as long as a process too",
        Some("Process"),
        204,
    ),
    ("GET", "/v1/permits", "viewer", "List permits", None, 200),
    (
        "POST",
        "/v1/permits",
        "client",
        "Ask for a permit, waiting for it if need be",
        Some("Request"),
        201,
    ),
    ("GET", "/v1/permits/{permit}", "viewer", "Show a permit", None, 200),
    (
        "PUT",
        "/v1/permits/{permit}",
        "client",
        "Ask for a permit under an id, once",
        Some("Request"),
        201,
    ),
    ("DELETE", "/v1/permits/{permit}", "client", "Give a permit back", None, 204),
    ("POST", "/v1/permits/{permit}/renew", "client", "Let the lease begin anew", None, 200),
    ("GET", "/v1/locks", "viewer", "List locks", None, 200),
    ("GET", "/v1/locks/{lock}", "viewer", "Show a lock", None, 200),
    ("PUT", "/v1/locks/{lock}", "client", "Lock, or steal", Some("Lock"), 200),
    ("DELETE", "/v1/locks/{lock}", "client", "Unlock", Some("Unlock"), 204),
    ("GET", "/v1/requests", "viewer", "List requests that wait or run", None, 200),
    ("GET", "/v1/why/{request}", "viewer", "Why a request waits", None, 200),
    ("POST", "/v1/explain", "viewer", "What would become of a request", Some("Request"), 200),
    ("GET", "/v1/status", "viewer", "The daemon about itself", None, 200),
    ("GET", "/v1/config", "viewer", "The configuration as TOML", None, 200),
    (
        "POST",
        "/v1/apply",
        "operator",
        "Make the configuration what a TOML text says, or with ?dry_run=true only compare",
        Some("Toml"),
        200,
    ),
    ("GET", "/v1/backup", "admin", "A copy of the database ?database=NAME", None, 200),
    ("GET", "/v1/tree", "viewer", "Resources, who holds them and who waits", None, 200),
    ("GET", "/v1/events", "viewer", "Follow what happens, as server-sent events", None, 200),
    ("GET", "/v1/pools", "viewer", "List pools", None, 200),
    ("GET", "/v1/pools/{name}", "viewer", "Show a pool", None, 200),
    ("PUT", "/v1/pools/{name}", "operator", "Create or replace a pool", Some("Pool"), 200),
    ("PATCH", "/v1/pools/{name}", "operator", "Change a pool", Some("Pool"), 200),
    ("DELETE", "/v1/pools/{name}", "operator", "Delete a pool", None, 204),
    ("POST", "/v1/pools/{name}/start", "operator", "Start a pool", None, 200),
    ("POST", "/v1/pools/{name}/stop", "operator", "Stop a pool", None, 200),
    ("POST", "/v1/pools/{name}/drain", "operator", "Let a pool take no new work", None, 200),
    ("POST", "/v1/pools/{name}/persist", "admin", "Keep a pool across restarts", None, 200),
    (
        "POST",
        "/v1/pools/{name}/unpersist",
        "admin",
        "Let a pool go with the next restart",
        None,
        200,
    ),
    ("GET", "/v1/rules", "viewer", "List the running rules", None, 200),
    (
        "POST",
        "/v1/rules",
        "operator",
        "Add a rule, at the end unless it has a number",
        Some("Rule"),
        201,
    ),
    ("GET", "/v1/rules/{number}", "viewer", "Show a rule", None, 200),
    ("PUT", "/v1/rules/{number}", "operator", "Create or replace a rule", Some("Rule"), 200),
    ("PATCH", "/v1/rules/{number}", "operator", "Change a rule", Some("Rule"), 200),
    ("DELETE", "/v1/rules/{number}", "operator", "Delete a rule", None, 204),
    ("POST", "/v1/rules/clear", "operator", "Clear the running list", None, 204),
    ("POST", "/v1/rules/save", "admin", "Save the running list", None, 204),
    ("POST", "/v1/rules/{number}/enable", "operator", "Enable a rule", None, 200),
    ("POST", "/v1/rules/{number}/disable", "operator", "Disable a rule", None, 200),
    ("GET", "/v1/saved-rules", "viewer", "List the saved rules", None, 200),
    ("GET", "/v1/saved-rules/{number}", "viewer", "Show a saved rule", None, 200),
    ("GET", "/v1/checkpoints", "viewer", "List checkpoints", None, 200),
    ("GET", "/v1/checkpoints/{name}", "viewer", "Show a checkpoint", None, 200),
    (
        "PUT",
        "/v1/checkpoints/{name}",
        "operator",
        "Create or replace a checkpoint",
        Some("Checkpoint"),
        200,
    ),
    ("PATCH", "/v1/checkpoints/{name}", "operator", "Change a checkpoint", Some("Checkpoint"), 200),
    ("DELETE", "/v1/checkpoints/{name}", "operator", "Delete a checkpoint", None, 204),
    ("GET", "/v1/resources", "viewer", "List resources", None, 200),
    ("GET", "/v1/resources/{name}", "viewer", "Show a resource", None, 200),
    (
        "PUT",
        "/v1/resources/{name}",
        "operator",
        "Create or replace a resource",
        Some("Resource"),
        200,
    ),
    ("PATCH", "/v1/resources/{name}", "operator", "Change a resource", Some("Resource"), 200),
    ("DELETE", "/v1/resources/{name}", "operator", "Delete a resource", None, 204),
    ("GET", "/v1/frontends", "viewer", "List frontends", None, 200),
    ("GET", "/v1/frontends/{name}", "viewer", "Show a frontend", None, 200),
    (
        "PUT",
        "/v1/frontends/{name}",
        "operator",
        "Create or replace a frontend",
        Some("Frontend"),
        200,
    ),
    ("PATCH", "/v1/frontends/{name}", "operator", "Change a frontend", Some("Frontend"), 200),
    ("DELETE", "/v1/frontends/{name}", "operator", "Delete a frontend", None, 204),
    ("GET", "/v1/backends", "viewer", "List backends", None, 200),
    ("GET", "/v1/backends/{name}", "viewer", "Show a backend", None, 200),
    ("PUT", "/v1/backends/{name}", "operator", "Create or replace a backend", Some("Backend"), 200),
    ("PATCH", "/v1/backends/{name}", "operator", "Change a backend", Some("Backend"), 200),
    ("DELETE", "/v1/backends/{name}", "operator", "Delete a backend with its servers", None, 204),
    ("GET", "/v1/servers", "viewer", "List servers of all backends", None, 200),
    ("GET", "/v1/servers/{*server}", "viewer", "Show a server", None, 200),
    ("PUT", "/v1/servers/{*server}", "operator", "Create or replace a server", Some("Server"), 200),
    ("PATCH", "/v1/servers/{*server}", "operator", "Change a server", Some("Server"), 200),
    ("DELETE", "/v1/servers/{*server}", "operator", "Delete a server", None, 204),
];

/// `GET /v1/openapi.json`
pub(crate) async fn openapi() -> Answer {
    ok(&document())
}

/// The whole description.
fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for entry in ENTRIES {
        let path = paths.entry(entry.1.replace("{*", "{")).or_insert_with(|| json!({}));
        path[entry.0.to_ascii_lowercase()] = operation(entry);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Paceline",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Decides which work runs now, which waits, and which is turned away.",
        },
        "paths": paths,
        "security": [{ "token": [] }],
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": all_schemas(),
        },
    })
}

fn operation((_, path, role, summary, body, status): &Entry) -> Value {
    let parameter = path.split('/').find_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    // The star stands for a name with slashes in it, which OpenAPI has no word for.
    let parameter = parameter.map(|name| name.trim_start_matches('*'));
    let parameters: Vec<Value> = parameter
        .iter()
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    let error = json!({
        "description": "An error, or a refusal",
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
    });
    let mut operation = json!({
        "summary": summary,
        "parameters": parameters,
        "responses": { status.to_string(): { "description": "Done" }, "default": error },
    });
    if let Some(name) = body {
        let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
        let media = if *name == "Toml" { "application/toml" } else { "application/json" };
        operation["requestBody"] = json!({ "content": { media: { "schema": schema } } });
    }
    match *role {
        "" => operation["security"] = json!([]),
        role => operation["x-role"] = role.into(),
    }
    operation
}

fn all_schemas() -> Value {
    let mut all = schemas();
    if let (Some(all), Value::Object(http)) = (all.as_object_mut(), http_schemas()) {
        all.extend(http);
    }
    all
}

fn object(members: Value, required: &[&str]) -> Value {
    json!({
        "type": "object", "properties": members, "required": required,
        "additionalProperties": false,
    })
}

/// The bodies of frontends, backends and servers.
fn http_schemas() -> Value {
    let (text, flag, number) =
        (json!({ "type": "string" }), json!({ "type": "boolean" }), json!({ "type": "integer" }));
    let span = json!({ "type": "string", "examples": ["1.5s"] });
    let texts = json!({ "type": "array", "items": text });
    let attributes = json!({ "type": "object", "additionalProperties": text });
    json!({
        "Frontend": object(json!({
            "name": text, "listen": texts, "backend": text,
            "use_backend": { "type": "array", "items": object(json!({ "when": text, "backend": text }), &["when", "backend"]) },
            "tls": { "type": "array", "items": object(json!({ "certificate": text, "key": text }), &["certificate", "key"]) },
            "http2": flag, "proxy_protocol": flag, "trusted": texts, "user": { "enum": ["basic", "bearer"] },
            "upgrades": texts, "max_body": number, "max_connections": number,
            "timeouts": object(json!({ "header": span, "body": span, "idle": span, "queue": span, "tunnel": span }), &[]),
            "errors": attributes, "access_log": { "enum": ["json", "common"] }, "log_values": attributes,
            "persistent": flag,
        }), &["listen"]),
        "Backend": object(json!({
            "name": text, "balance": { "enum": ["round-robin", "least-connections", "power-of-two"] },
            "queue": object(json!({ "max_len": number, "max_delay": span }), &[]), "retries": number,
            "health": { "anyOf": [flag, object(json!({
                "path": text, "host": text, "interval": span, "timeout": span, "rise": number, "fall": number,
            }), &[])] },
            "timeouts": object(json!({ "connect": span, "response": span, "idle": span }), &[]),
            "tls": { "anyOf": [flag, object(json!({
                "ca": text, "name": text, "verify": flag, "certificate": text, "key": text,
            }), &[])] },
            "persistent": flag,
        }), &[]),
        "Server": object(json!({
            "backend": text, "name": text, "address": text, "weight": number, "max_connections": number,
            "persistent": flag,
        }), &["address"]),
    })
}

/// The other bodies. A span is a text such as `1.5s`.
fn schemas() -> Value {
    let (text, flag, number) =
        (json!({ "type": "string" }), json!({ "type": "boolean" }), json!({ "type": "integer" }));
    let role = json!({ "enum": Role::ALL.map(Role::word) });
    let span = json!({ "type": "string", "examples": ["1.5s"] });
    let texts = json!({ "type": "array", "items": text });
    let attributes = json!({ "type": "object", "additionalProperties": text });
    let claim = object(
        json!({ "resource": text, "mode": { "enum": ["exclusive", "shared"] } }),
        &["resource"],
    );
    let queue = object(json!({ "max_len": number, "max_total": number, "max_delay": span }), &[]);
    let threads = object(json!({ "min": number, "max": number }), &[]);
    let pair = json!({ "type": "array", "items": number, "minItems": 2, "maxItems": 2 });
    json!({
        "NewToken": object(
            json!({ "name": text, "role": role, "user": text, "expires": text }),
            &["name", "role"],
        ),
        "User": object(json!({ "name": text, "role": role }), &["role"]),
        "NewSession": object(
            json!({ "name": text, "lease": span, "bound": flag, "sealed": flag }),
            &[],
        ),
        "Request": object(json!({
            "attributes": attributes, "cost": number, "claims": { "type": "array", "items": claim },
            "require_locks": texts, "max_wait": span, "unknown": { "enum": ["refuse", "wait", "create"] },
            "session": text, "locks_of": text, "within": { "type": "array", "items": text }, "lease": span,
        }), &[]),
        "Lock": object(json!({ "session": text, "steal": flag, "wait": span }), &["session"]),
        "Unlock": object(json!({ "session": text }), &[]),
        "Pool": object(json!({
            "name": text, "priority": pair, "threads": threads, "queue": queue, "group": text,
            "stack_bytes": number, "heap_bytes_max": number, "persistent": flag, "started": flag,
            "state": { "enum": ["started", "stopped", "draining"] },
        }), &[]),
        "Rule": object(json!({
            "number": number, "match": { "type": "object" }, "mode": { "enum": ["exact", "glob", "regex"] },
            "nocase": flag, "when": text, "set": number, "raise": number, "lower": number, "reject": flag,
            "then": { "enum": ["continue", "stop"] }, "disabled": flag, "log": flag,
        }), &[]),
        "Checkpoint": object(json!({
            "name": text, "at": text, "on": { "enum": ["request", "connection"] }, "number": number, "when": text, "key": text, "fair": text,
            "weight": text, "rate": text, "burst": number, "concurrency": number, "period": span,
            "queue": queue, "keys_max": number, "status": number,
            "mode": { "enum": ["enforce", "watch"] }, "persistent": flag,
        }), &["at"]),
        "Resource": object(json!({ "name": text, "parents": texts, "persistent": flag }), &[]),
        "Toml": { "type": "string" },
        "Error": { "type": "object", "required": ["error", "message"], "properties": {
            "error": text, "message": text, "hint": text, "reason": text, "request": number,
            "retry_after": number, "place": { "type": "object" },
            "errors": { "type": "array", "items": { "type": "object" } },
        } },
    })
}

#[cfg(test)]
pub(crate) fn described() -> Vec<(&'static str, &'static str, &'static str)> {
    ENTRIES.iter().map(|(method, path, role, ..)| (*method, *path, *role)).collect()
}
