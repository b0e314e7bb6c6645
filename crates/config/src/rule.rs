//! The action of a rule in the file: at most one of `set`, `raise`, `lower` and `reject`.

use crate::document::{Object, text};
use crate::error::ConfigError;
use crate::read::{Own, Owns, Reader};
use paceline_rules::{Action, STEP_MAX, parse_action};
use std::fmt::Write;

const ACTIONS: [&str; 4] = ["set", "raise", "lower", "reject"];

/// Reads the action of a rule.
pub(crate) fn read_action(reader: &mut Reader<'_>, object: &mut Object, owns: &Owns<'_>) {
    let mut given: Vec<(&str, &Own<'_>)> =
        ACTIONS.into_iter().filter_map(|key| Some((key, owns.get(key)?))).collect();
    given.sort_by_key(|(_, own)| own.place);
    let mut first: Option<&str> = None;
    for (key, own) in given {
        let Some(action) = one(reader, key, own) else { continue };
        match first {
            Some(first) => {
                let message = format!("`{key}`: expected one action, `{first}` is there already");
                let hint = "a rule may have one of set, raise, lower and reject";
                reader.errors.push(ConfigError::new(own.place, message).hint(hint));
            }
            None => object.set("action", text(&action), own.place),
        }
        first = first.or(Some(key));
    }
}

/// The action of one key, in the text form of a rule; `None` if it means that nothing is done.
fn one(reader: &mut Reader<'_>, key: &str, own: &Own<'_>) -> Option<String> {
    let range = match key {
        "reject" => return reader.flag(key, own.item)?.then(|| key.to_owned()),
        "set" => (-127, 127),
        _ => (1, i64::from(STEP_MAX)),
    };
    let number = reader.integer(key, range, own.expected, own.item)?;
    Some(format!("{key} {number}"))
}

/// Writes the line of a row's action.
pub(crate) fn write_action(action: &str, out: &mut String) {
    // The model has parsed every row of the database, so this is always an action.
    let _ = match parse_action(action) {
        Ok(Action::Set(priority)) => writeln!(out, "set = {priority}"),
        Ok(Action::Raise(step)) => writeln!(out, "raise = {step}"),
        Ok(Action::Lower(step)) => writeln!(out, "lower = {step}"),
        Ok(Action::Reject) => writeln!(out, "reject = true"),
        Ok(Action::Nothing) | Err(_) => Ok(()),
    };
}
