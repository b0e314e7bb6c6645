//! The commands that call a running daemon: one file each, with arguments, help and output.
//!
//! Data is written to standard output, everything else to standard error. Every failure has an exit code and
//! names the next thing to try.
#![allow(rustdoc::broken_intra_doc_links, reason = "the comments here are help texts")]

mod again;
pub mod apply;
pub mod backends;
pub mod backup;
pub mod cancel;
pub mod checkpoints;
pub mod completions;
pub mod doctor;
pub mod events;
pub mod explain;
pub mod export;
pub mod frontends;
mod live;
pub mod lock;
pub mod locks;
pub mod man;
mod objects;
mod password;
pub mod permit;
pub mod pools;
pub mod ps;
mod reach;
pub mod resources;
pub mod restore;
pub mod rules;
mod run;
pub mod servers;
pub mod single;
pub mod sql_targets;
pub mod starter;
pub mod status;
pub mod token;
pub mod tree;
pub mod users;
pub mod whoami;
pub mod why;
pub mod within;
pub mod witness;

pub use objects::Delete;
pub use reach::{COMMON, Reach};

use crate::failure::{Failure, USAGE};
use crate::screen::Screen;
use paceline_client::Client;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write as _;

/// A connection to the daemon, and the form of its output.
pub struct Asker {
    pub client: Client,
    pub screen: Screen,
    json: bool,
}

impl Asker {
    /// Prints an answer: as JSON, or for people.
    pub fn show(&self, answer: &Value, draw: impl FnOnce(Screen) -> String) -> Result<(), Failure> {
        if self.json { print(&format!("{answer:#}\n")) } else { print(&draw(self.screen)) }
    }

    /// Prints a list, or says on standard error that it is empty.
    pub fn show_list(
        &self,
        list: &[Value],
        nothing: &str,
        draw: impl FnOnce(Screen) -> String,
    ) -> Result<(), Failure> {
        if list.is_empty() && !self.json {
            crate::screen::tell(format_args!("{nothing}"));
            return Ok(());
        }
        self.show(&Value::Array(list.to_vec()), draw)
    }

    /// Prints the warnings of an answer on standard error. JSON has them as a member.
    pub fn warn(&self, answer: &Value) {
        let warnings = answer.get("warnings").and_then(Value::as_array);
        for warning in warnings.into_iter().flatten().filter(|_| !self.json) {
            // A file names the setting; here it is a flag.
            let text = as_text(warning).replace("mode = \"glob\"", "--mode glob");
            crate::screen::tell(format_args!("warning: {}", crate::screen::clean(&text)));
        }
    }

    /// Prints what a change made of an object, or one line that it is done.
    pub fn show_done(&self, answer: &Value, done: &str) -> Result<(), Failure> {
        if self.json {
            return print(&format!("{answer:#}\n"));
        }
        crate::screen::tell(format_args!("{done}"));
        self.warn(answer);
        Ok(())
    }
}

/// Writes to standard output. A closed pipe is not a failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::from(format!("cannot write the answer: {error}"))
            .or_hint("check that standard output can be written to")),
        Ok(()) => Ok(()),
    }
}

/// A member as text: texts as they are, numbers and others as JSON, missing ones as an empty text.
pub fn text(object: &Value, name: &str) -> String {
    as_text(object.get(name).unwrap_or(&Value::Null))
}

/// A value as text.
pub fn as_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A figure: a member of `figures`, or of the object itself.
pub fn figure(object: &Value, name: &str) -> String {
    let figures = object.get("figures").unwrap_or(object);
    as_text(figures.get(name).or_else(|| object.get(name)).unwrap_or(&Value::Null))
}

/// Whether a member is true.
pub fn is(object: &Value, name: &str) -> bool {
    object.get(name) == Some(&Value::Bool(true))
}

/// `name=value` on the command line.
pub fn attribute(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => match paceline_types::entry_meant(name) {
            Some(meant) => Err(format!("{name} is not an entry of a map, write {meant}")),
            None => Ok((name.to_owned(), value.to_owned())),
        },
        _ => Err("expected name=value, such as user=etl".into()),
    }
}

/// Checks that no attribute is given twice: a request has one value of each, and it is unknown which one is
/// meant.
pub fn once(attributes: &[(String, String)]) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    match attributes.iter().find(|(name, _)| !names.insert(name)) {
        None => Ok(()),
        Some((name, _)) => {
            let message = format!("the attribute {name} is given twice");
            Err(Failure::new(USAGE, message, "give each attribute one value"))
        }
    }
}

/// A duration on the command line.
pub fn duration(text: &str) -> Result<std::time::Duration, String> {
    let span: paceline_types::Span =
        text.parse().map_err(|error: paceline_types::ParseSpanError| error.to_string())?;
    Ok(std::time::Duration::from_nanos(span.0))
}
