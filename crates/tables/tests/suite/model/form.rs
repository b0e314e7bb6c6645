//! The form of an operation: its required and optional members.

use super::schema::Schema;
use paceline_tables::is_id;
use paceline_tables::json::Json;

/// An operation being read. Any errors in its members together are one syntax error.
pub struct Form<'a> {
    operation: &'a Json,
    used: Vec<&'a str>,
    wrong: bool,
}

pub fn text(json: &Json) -> bool {
    json.as_str().is_some()
}

pub fn id(json: &Json) -> bool {
    json.as_str().is_some_and(is_id)
}

pub fn array(json: &Json) -> bool {
    json.as_array().is_some()
}

pub fn object(json: &Json) -> bool {
    json.as_object().is_some()
}

pub fn integer(json: &Json) -> bool {
    matches!(json, Json::Integer(_))
}

pub fn boolean(json: &Json) -> bool {
    matches!(json, Json::Bool(_))
}

impl<'a> Form<'a> {
    pub fn new(operation: &'a Json) -> Self {
        Self { operation, used: Vec::new(), wrong: !object(operation) }
    }

    pub fn optional(&mut self, name: &'a str, test: fn(&Json) -> bool) -> Option<&'a Json> {
        let value = self.operation.as_object()?.get(name)?;
        self.used.push(name);
        self.wrong |= !test(value);
        test(value).then_some(value)
    }

    pub fn required(&mut self, name: &'a str, test: fn(&Json) -> bool) -> Option<&'a Json> {
        let value = self.optional(name, test);
        self.wrong |= value.is_none();
        value
    }

    pub fn table(&mut self, schema: &Schema) -> Option<usize> {
        let name = self.required("table", id)?.as_str()?;
        let table = schema.table(name);
        self.wrong |= table.is_none();
        table
    }

    pub fn array(&mut self, name: &'a str) -> Option<&'a [Json]> {
        self.required(name, array)?.as_array()
    }

    /// Whether every member was valid and none was left over.
    pub fn check(self) -> Result<(), Vec<&'static str>> {
        let members = self.operation.as_object();
        let left_over =
            members.is_some_and(|m| m.iter().any(|(name, _)| !self.used.contains(&name)));
        if self.wrong || left_over { Err(vec!["syntax error"]) } else { Ok(()) }
    }
}
