//! Saved rules, which are only read here: `POST /v1/rules/save` writes them.

use super::Object;
use super::rule;
use super::values::Row;
use paceline_catalogue::{Kind, SAVED_RULES};
use serde_json::{Map, Value};

/// The table Saved_Rule.
pub(super) struct SavedRule;

impl Object for SavedRule {
    const KIND: &'static Kind = &SAVED_RULES;

    fn show(row: &Row, object: &mut Map<String, Value>) {
        rule::show(row, object);
    }
}
