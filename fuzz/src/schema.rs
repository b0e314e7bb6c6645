//! JSON texts and schemas: parsed input is written back with the same meaning.

use paceline_tables::json::{self, Json};
use paceline_tables::schema::Schema;
use paceline_tables::{Database, convert};
use paceline_types::UuidSource;
use std::sync::Arc;

const DEPTH_MAX: usize = 64;

/// Parses `data` as JSON and as a schema, and writes both back.
pub fn check(data: &[u8]) {
    let Some(json) = check_text(data, DEPTH_MAX) else { return };
    let schema = match Schema::parse(&json) {
        Ok(schema) => schema,
        Err(error) => {
            let mut text = Vec::new();
            error.write(&mut text);
            assert!(json::parse(&text, DEPTH_MAX).is_ok(), "an error is JSON: {error}");
            return;
        }
    };
    let text = schema.to_json().to_text();
    let again = json::parse(text.as_bytes(), DEPTH_MAX).expect("a schema is written as JSON");
    let again = Schema::parse(&again).expect("a schema that was written is valid");
    assert_eq!(schema, again, "{text}");
    assert_eq!(text, again.to_json().to_text());

    let schema = Arc::new(schema);
    let database = Database::new(schema.clone(), UuidSource::from_number(1));
    let converted = convert(&database.snapshot(), schema, UuidSource::from_number(2));
    assert!(converted.is_ok(), "an empty database fits its own schema");
}

/// Parses `text` as JSON. Writing it, parsing the result and writing that gives the same text.
pub fn check_text(text: &[u8], depth_max: usize) -> Option<Json> {
    let json = match json::parse(text, depth_max) {
        Ok(json) => json,
        Err(error) => {
            assert!(error.offset <= text.len(), "{error}");
            return None;
        }
    };
    let written = json.to_text();
    let again = json::parse(written.as_bytes(), depth_max).expect("what was written is JSON");
    assert_eq!(json, again, "{written}");
    assert_eq!(written, again.to_text());
    Some(json)
}
