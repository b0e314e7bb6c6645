//! The OpenAPI document, made from the operations of the router and the catalogue.
//!
//! Promises that the schema of a request lists exactly the members that are read, and that the schema of an answer
//! forbids no member, so that a generated client does not fail when an answer gains one.

mod answers;
mod bodies;
mod schema;

use crate::operation::{Content, Form, Operation, Parameter, refer};
pub(crate) use schema::{change_of, name_of, new_of};
use serde_json::{Map, Value, json};

/// The whole description.
pub(crate) fn document(operations: &[Operation]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations {
        let path = paths.entry(template(operation.path)).or_insert_with(|| json!({}));
        path[operation.method.to_ascii_lowercase()] = describe(operation);
    }
    let mut schemas = schema::all();
    schemas.extend(bodies::all());
    schemas.extend(answers::all());
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
            "schemas": schemas,
        },
    })
}

/// A path as OpenAPI writes it. The name of a server follows that of its backend.
fn template(path: &str) -> String {
    path.replace("{*server}", "{backend}/{name}")
}

fn describe(operation: &Operation) -> Value {
    let path = template(operation.path);
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = names.map(in_path).collect();
    parameters.extend(operation.query.iter().map(in_query));
    if operation.only_creates {
        parameters.push(json!({
            "name": "If-None-Match", "in": "header", "schema": { "type": "string" },
            "description": "With `*`, nothing that exists is replaced: the answer is 409 then.",
        }));
    }
    let answers = operation.answers.iter().map(|(status, content)| {
        let mut answer = json!({ "description": "Done" });
        add_content(&mut answer, content);
        (status.to_string(), answer)
    });
    let error = |what: &str| json!({ "description": what, "content": { "application/json": { "schema": refer("Error") } } });
    let errors =
        operation.errors.iter().map(|status| (status.to_string(), error(meaning(*status))));
    let mut responses: Map<String, Value> = answers.chain(errors).collect();
    responses.insert("default".into(), error("Another error."));
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [tag(operation.path)],
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(content) = &operation.body {
        let mut body = json!({ "required": matches!(content, Content::Plain(_)) });
        add_content(&mut body, content);
        described["requestBody"] = body;
    }
    match operation.role {
        None => described["security"] = json!([]),
        Some(role) => described["x-role"] = role.word().into(),
    }
    described
}

/// The subject of an operation.
fn tag(path: &str) -> &str {
    let first = path.strip_prefix("/v1/").unwrap_or_default();
    first.split('/').next().filter(|first| !first.is_empty()).unwrap_or("daemon")
}

fn in_path(name: &str) -> Value {
    let schema = match name {
        "number" | "request" => json!({ "type": "integer", "minimum": 0 }),
        _ => json!({ "type": "string", "minLength": 1 }),
    };
    json!({ "name": name, "in": "path", "required": true, "schema": schema })
}

fn in_query(parameter: &Parameter) -> Value {
    let kind = match parameter.form {
        Form::Text => "string",
        Form::Number => "integer",
        Form::Flag => "boolean",
    };
    let schema = json!({ "type": kind });
    json!({ "name": parameter.name, "in": "query", "schema": schema, "description": parameter.doc })
}

fn add_content(value: &mut Value, content: &Content) {
    let content: Map<String, Value> = match content {
        Content::Empty => return,
        Content::Json(schema) => {
            [("application/json".to_owned(), json!({ "schema": schema }))].into_iter().collect()
        }
        Content::Plain(media) => {
            let plain = |media: &&str| {
                // In OpenAPI 3.1 bytes have no schema except their media type.
                let is_bytes = *media == "application/octet-stream";
                let schema = if is_bytes {
                    json!({ "type": "string", "format": "binary" })
                } else {
                    json!({ "type": "string" })
                };
                ((*media).to_owned(), json!({ "schema": schema }))
            };
            media.iter().map(plain).collect()
        }
    };
    value["content"] = Value::Object(content);
}

/// The meaning of an error status, for all operations.
fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The request cannot be read: the message says what is wrong and where.",
        401 => "Over TCP: there is no valid token.",
        403 => "The role of the caller is too low: the hint names the role that is needed.",
        404 => "There is no such object.",
        409 => "It conflicts with what is there, or the request is refused for good.",
        410 => "It existed and has expired or ended.",
        413 => "The body is too long.",
        415 => "The body is not of the media type that the operation takes.",
        422 => "The values cannot work: `place` says which.",
        503 => {
            "Refused for now: `reason` says why, and `retry_after` when to come back if that is known."
        }
        507 => "The disk is full, or a limit of the daemon is reached.",
        _ => "The daemon failed internally; its log has the details.",
    }
}
