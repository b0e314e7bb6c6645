//! Rows of the tables Rule and Saved_Rule.
//!
//! `criteria` and `action` are parts of a rule's text form, so that a rule has the same form everywhere.

use crate::error::ModelError;
use crate::reader::Reader;
use paceline_rules::{Action, Rule, Then, parse_action, parse_criteria};

/// The rule that a row describes.
pub(crate) fn read(row: Reader<'_>) -> Result<Rule, ModelError> {
    let criteria = parse_criteria(row.text("criteria"))
        .map_err(|error| row.error("criteria", error.to_string()))?;
    let action = match row.optional("action") {
        None => Action::Nothing,
        Some(text) => parse_action(text).map_err(|error| row.error("action", error.to_string()))?,
    };
    let then = match row.optional("then") {
        Some("stop") => Then::Stop,
        Some(_) => Then::Continue,
        None => action.then(),
    };
    Ok(Rule {
        number: row.number("number")?.unwrap_or_default(),
        criteria,
        when: row.owned("when"),
        action,
        then,
        disabled: row.flag("disabled"),
        log: row.flag("log"),
    })
}
