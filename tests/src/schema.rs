//! An OpenAPI document, and a check whether responses match it.
//!
//! A small implementation of JSON Schema: it supports the keywords that Paceline's document uses and fails for any
//! other, so that no keyword is ignored.

use crate::api::Answer;
use serde_json::Value;

/// Keywords of a schema that do not constrain values.
const REMARKS: [&str; 4] = ["description", "examples", "x-role", "format"];

/// The document.
#[derive(Debug)]
pub struct Document(pub Value);

/// One operation of the document.
#[derive(Clone, Debug)]
pub struct Described<'a> {
    /// The method in capitals.
    pub method: String,
    /// The path with its parameters in braces.
    pub path: &'a str,
    /// Its description in the document.
    pub operation: &'a Value,
}

impl Described<'_> {
    /// Its name.
    ///
    /// # Panics
    /// If it has none.
    #[must_use]
    pub fn id(&self) -> &str {
        self.operation["operationId"].as_str().expect("every operation has a name")
    }
}

impl Document {
    /// Every operation.
    #[must_use]
    pub fn operations(&self) -> Vec<Described<'_>> {
        let paths = self.0["paths"].as_object().into_iter().flatten();
        let each = |(path, methods): (&'_ String, &'_ Value)| {
            let methods = methods.as_object().cloned().unwrap_or_default();
            methods.keys().map(|method| (path.clone(), method.clone())).collect::<Vec<_>>()
        };
        let found: Vec<(String, String)> = paths.flat_map(each).collect();
        found
            .into_iter()
            .filter_map(|(path, method)| {
                let (path, methods) = self.0["paths"].as_object()?.get_key_value(&path)?;
                let operation = &methods[&method];
                Some(Described { method: method.to_ascii_uppercase(), path, operation })
            })
            .collect()
    }

    /// The operation of a request; its path may have a query.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn operation(&self, method: &str, path: &str) -> Described<'_> {
        let path = path.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.split('/').collect();
        let fits = |one: &Described<'_>| {
            let own: Vec<&str> = one.path.split('/').collect();
            let same = |(own, part): (&&str, &&str)| own == part || own.starts_with('{');
            one.method == method && own.len() == parts.len() && own.iter().zip(&parts).all(same)
        };
        let mut found: Vec<_> = self.operations().into_iter().filter(fits).collect();
        found.sort_by_key(|one| one.path.matches('{').count());
        found.into_iter().next().unwrap_or_else(|| panic!("{method} {path} is not described"))
    }

    /// Checks that a response is one that the document allows for this request.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, method: &str, path: &str, answer: &Answer) -> Result<(), String> {
        let operation = self.operation(method, path).operation;
        let described = &operation["responses"][answer.status.to_string()];
        if described.is_null() {
            return Err(format!("the status {} is not described", answer.status));
        }
        let Some(content) = described["content"].as_object() else {
            let is_empty = answer.text.is_empty();
            return if is_empty { Ok(()) } else { Err("there should be no body".into()) };
        };
        let media = answer.header("content-type").unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default();
        let schema = content.get(media).ok_or_else(|| format!("{media} is not described"))?;
        match media {
            "application/json" => self.fits(&schema["schema"], &answer.body, "answer"),
            _ => Ok(()),
        }
    }

    /// Checks that a value matches a schema.
    ///
    /// # Errors
    /// What differs, and where.
    pub fn fits(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let words = schema.as_object().ok_or_else(|| format!("{at}: the schema is {schema}"))?;
        for (word, said) in words {
            let fits = match word.as_str() {
                "$ref" => {
                    let pointer = said.as_str().unwrap_or_default().trim_start_matches('#');
                    let schema = self.0.pointer(pointer);
                    let schema = schema.ok_or_else(|| format!("there is no {said}"))?;
                    return self.fits(schema, value, at);
                }
                "anyOf" => {
                    let any = said.as_array().into_iter().flatten();
                    any.into_iter().any(|one| self.fits(one, value, at).is_ok())
                }
                "allOf" => {
                    let all = said.as_array().into_iter().flatten();
                    all.into_iter().try_for_each(|one| self.fits(one, value, at))?;
                    true
                }
                "type" => is_of(said.as_str().unwrap_or_default(), value),
                "enum" => said.as_array().is_some_and(|all| all.contains(value)),
                "minimum" => value.as_i64() >= said.as_i64(),
                "maximum" => value.as_i64() <= said.as_i64(),
                "minItems" => value.as_array().map(Vec::len) >= said.as_u64().map(|n| n as usize),
                "maxItems" => value.as_array().map(Vec::len) <= said.as_u64().map(|n| n as usize),
                "items" => {
                    let each = value.as_array().into_iter().flatten().enumerate();
                    for (number, one) in each {
                        self.fits(said, one, &format!("{at}[{number}]"))?;
                    }
                    true
                }
                "properties" => self.members(said, value, at)?,
                "required" => {
                    let names = said.as_array().into_iter().flatten();
                    let mut missing =
                        names.filter(|name| value.get(name.as_str().unwrap_or_default()).is_none());
                    match missing.next() {
                        Some(name) => return Err(format!("{at}: {name} is missing in {value}")),
                        None => true,
                    }
                }
                "additionalProperties" => self.others(schema, said, value, at)?,
                remark if REMARKS.contains(&remark) => true,
                other => return Err(format!("{at}: the schema has the word {other}")),
            };
            if !fits {
                return Err(format!("{at}: expected {word} {said}, found {value}"));
            }
        }
        Ok(())
    }

    fn members(&self, said: &Value, value: &Value, at: &str) -> Result<bool, String> {
        for (name, schema) in said.as_object().into_iter().flatten() {
            if let Some(member) = value.get(name) {
                self.fits(schema, member, &format!("{at}.{name}"))?;
            }
        }
        Ok(true)
    }

    fn others(
        &self,
        schema: &Value,
        said: &Value,
        value: &Value,
        at: &str,
    ) -> Result<bool, String> {
        for (name, member) in value.as_object().into_iter().flatten() {
            if !schema["properties"][name].is_null() {
                continue;
            }
            match said {
                Value::Bool(false) => return Err(format!("{at}.{name}: no such member")),
                Value::Bool(true) => {}
                schema => self.fits(schema, member, &format!("{at}.{name}"))?,
            }
        }
        Ok(true)
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Document;
    use serde_json::json;

    #[test]
    fn what_differs_is_found() {
        let document = Document(json!({ "a": { "type": "integer", "minimum": 1 } }));
        let schema = json!({
            "type": "object", "required": ["n"], "additionalProperties": false,
            "properties": { "n": { "$ref": "#/a" }, "t": { "anyOf": [{ "type": "string" }, { "type": "null" }] } },
        });
        for (value, fits) in [
            (json!({ "n": 1 }), true),
            (json!({ "n": 1, "t": null }), true),
            (json!({ "n": 0 }), false),
            (json!({ "n": "1" }), false),
            (json!({ "n": 1, "t": 1 }), false),
            (json!({ "n": 1, "x": 1 }), false),
            (json!({}), false),
            (json!([]), false),
        ] {
            assert_eq!(document.fits(&schema, &value, "").is_ok(), fits, "{value}");
        }
        assert!(document.fits(&json!({ "not": {} }), &json!(1), "").is_err());
    }
}
