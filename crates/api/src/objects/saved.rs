//! Saved rules, which are only read here: `POST /v1/rules/save` writes them.

use super::Object;
use super::database::Row;
use super::fields::Field;
use super::rule::{self, Rule};
use serde_json::{Map, Value};

/// The table Saved_Rule.
pub(super) struct SavedRule;

impl Object for SavedRule {
    const WORD: &'static str = "saved rule";
    const TABLE: &'static str = "Saved_Rule";
    const KEY: &'static str = "number";
    const FIELDS: &'static [Field] = Rule::FIELDS;
    const FIGURES: &'static [&'static str] = &[];

    fn show(row: &Row, object: &mut Map<String, Value>) {
        rule::show(row, object);
    }
}
