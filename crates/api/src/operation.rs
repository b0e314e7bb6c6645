//! An operation of the API: the checks before its handler is called, and its description in the OpenAPI
//! document.
//!
//! Each is defined once, where it is added to the router, so that the two cannot differ.

use crate::identity::Role;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// One method of one path.
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// The least role that may call it; `None` if no role is needed.
    pub(crate) role: Option<Role>,
    /// Its name in generated clients.
    pub(crate) id: String,
    /// What it does.
    pub(crate) summary: String,
    /// The query parameters.
    pub(crate) query: &'static [Parameter],
    /// Whether the header `If-None-Match: *` is supported.
    pub(crate) only_creates: bool,
    /// Its body, if it takes one.
    pub(crate) body: Option<Content>,
    /// Its answers, by status.
    pub(crate) answers: Vec<(u16, Content)>,
    /// Statuses of its errors.
    pub(crate) errors: BTreeSet<u16>,
}

/// A parameter of a query.
#[derive(Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) doc: &'static str,
}

/// The form of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Number,
    /// `true` or `false`; the name alone is `true`.
    Flag,
}

/// The content of a body or an answer.
pub(crate) enum Content {
    /// Nothing.
    Empty,
    /// JSON of this schema.
    Json(Value),
    /// Text or bytes of one of these media types.
    Plain(&'static [&'static str]),
}

/// The statuses of an edit that the database refuses.
pub(crate) const EDIT: [u16; 3] = [409, 422, 507];

impl Operation {
    /// An operation that needs a role.
    pub(crate) fn new(
        role: Role,
        method: &'static str,
        path: &'static str,
        id: impl Into<String>,
        summary: impl Into<String>,
    ) -> Self {
        let operation = Self::open(method, path, id, summary);
        Self { role: Some(role), ..operation }.fails([401, 403])
    }

    /// An operation that needs no role.
    pub(crate) fn open(
        method: &'static str,
        path: &'static str,
        id: impl Into<String>,
        summary: impl Into<String>,
    ) -> Self {
        Self {
            method,
            path,
            role: None,
            id: id.into(),
            summary: summary.into(),
            query: &[],
            only_creates: false,
            body: None,
            answers: Vec::new(),
            errors: BTreeSet::from([400, 500]),
        }
    }

    /// The same, with these parameters.
    pub(crate) fn query(self, query: &'static [Parameter]) -> Self {
        Self { query, ..self }
    }

    /// The same, with a header that forbids replacing an object.
    pub(crate) fn only_creates(self) -> Self {
        Self { only_creates: true, ..self }
    }

    /// The same, with a body of this schema.
    pub(crate) fn takes(self, schema: &str) -> Self {
        self.body(Content::Json(refer(schema)))
    }

    /// The same, with a text of one of these media types as its body.
    pub(crate) fn takes_text(self, media: &'static [&'static str]) -> Self {
        self.body(Content::Plain(media))
    }

    fn body(self, content: Content) -> Self {
        Self { body: Some(content), ..self }.fails([413, 415])
    }

    /// The same, which answers with this schema.
    pub(crate) fn gives(self, status: u16, schema: &str) -> Self {
        self.answers(status, Content::Json(refer(schema)))
    }

    /// The same, which answers with a list of this schema, which may be long.
    pub(crate) fn gives_list(self, schema: &str) -> Self {
        let list = json!({ "type": "array", "items": refer(schema) });
        self.answers(200, Content::Json(list)).fails([503])
    }

    /// The same, which answers with the edits it made.
    pub(crate) fn gives_edits(self) -> Self {
        let list = json!({ "type": "array", "items": refer("Edit") });
        self.answers(200, Content::Json(list))
    }

    /// The same, which answers with text or bytes of this media type.
    pub(crate) fn gives_text(self, media: &'static [&'static str]) -> Self {
        self.answers(200, Content::Plain(media))
    }

    /// The same, which answers only with 204.
    pub(crate) fn gives_nothing(self) -> Self {
        self.answers(204, Content::Empty)
    }

    fn answers(mut self, status: u16, content: Content) -> Self {
        self.answers.push((status, content));
        self
    }

    /// The same, which can fail with these statuses.
    pub(crate) fn fails(mut self, statuses: impl IntoIterator<Item = u16>) -> Self {
        self.errors.extend(statuses);
        self
    }
}

/// A schema by its name.
pub(crate) fn refer(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}
