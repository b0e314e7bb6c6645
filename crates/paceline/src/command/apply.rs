//! `paceline apply`: makes the daemon's configuration what a file says.

use super::{Reach, as_text, doctor, text};
use crate::config;
use crate::failure::{self, Failure};
use crate::screen::{Screen, Style, clean};
use clap::Args;
use paceline_client::{Answer, Error};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub const HELP: &str = "\
It is one transaction: all of it, or nothing. What an earlier file made and this one no longer names is \
deleted, a backend with all of its servers; what was made by hand stays, and belongs to the file once the \
file names it. Each change is a line: + is new, ~ changes (with what, or that it is now of the file), - goes. \
What is wrong is told as FILE:LINE:COLUMN: message. If a \
frontend could not be opened or a certificate not be read, the exit status is 1, too: all is applied, and it is \
tried again every second. Files that \
it names, such as certificates, are looked for by the daemon in the directory of FILE unless their names \
begin with a slash.

Example:
  paceline apply paceline.toml --dry-run      what it would change
  paceline apply paceline.toml
  paceline export | paceline apply -          only takes over what was made by hand";

#[derive(Debug, Args)]
pub struct Apply {
    /// The file, in TOML; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Only show what would change
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(apply: &Apply) -> Result<ExitCode, Failure> {
    let hint = "say the file to apply, or - for standard input";
    let text = match is_stdin(&apply.file) {
        true => config::text_of_stdin(),
        false => config::text_of(&apply.file),
    };
    let text = text.map_err(|error| Failure::from(error).or_hint(hint))?;
    let asker = apply.reach.open()?;
    for doubt in config::doubts(&apply.file, &text) {
        crate::screen::tell(format_args!("{}", clean(&doubt)));
    }
    let directory = config::directory_of(&apply.file);
    match asker.client.apply_within(&text, directory.as_deref(), apply.dry_run) {
        Ok(changes) if changes.is_empty() && !apply.reach.json => {
            crate::screen::tell(format_args!("nothing to change"))
        }
        Ok(changes) => asker.show(&json!(changes), |screen| draw(&changes, screen))?,
        Err(error) => return wrong(apply, error),
    }
    if !apply.dry_run {
        as_it_says(&asker.client.status()?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the file says is written down; an address or a certificate may still be out of reach.
fn as_it_says(status: &Value) -> Result<(), Failure> {
    match status.get("http").and_then(|http| http.get("problem")) {
        None => Ok(()),
        Some(problem) => Err(Failure::new(
            failure::FAILED,
            format!("it is applied, but the HTTP door is not as it says: {}", as_text(problem)),
            doctor::DOOR_NEXT,
        )),
    }
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// What is wrong with a file stands for itself, as editors and scripts read it.
fn wrong(apply: &Apply, error: Error) -> Result<ExitCode, Failure> {
    let errors = error.answer().and_then(places);
    match errors {
        Some(errors) if !apply.reach.json => {
            crate::screen::tell(format_args!("{}", lines(&apply.file, &errors).trim_end()));
            Ok(ExitCode::FAILURE)
        }
        _ => Err(Failure::from(error)),
    }
}

fn places(answer: &Answer) -> Option<Vec<Value>> {
    answer.body.get("errors").and_then(Value::as_array).cloned()
}

fn lines(file: &Path, errors: &[Value]) -> String {
    let file = if is_stdin(file) { "stdin".into() } else { file.to_string_lossy() };
    let mut lines = String::new();
    for error in errors {
        let [line, column, message] = ["line", "column", "message"].map(|name| text(error, name));
        lines.push_str(&clean(&format!("{file}:{line}:{column}: {message}")));
        lines.push('\n');
        if let Some(hint) = error.get("hint") {
            lines.push_str(&format!("    {}\n", clean(&as_text(hint))));
        }
    }
    lines
}

fn draw(changes: &[Value], screen: Screen) -> String {
    changes.iter().map(|change| line(change, screen)).collect()
}

/// `~ checkpoint per-user  rate burst`
fn line(change: &Value, screen: Screen) -> String {
    let (sign, style) = match text(change, "op").as_str() {
        "create" => ("+", Style::Good),
        "delete" => ("-", Style::Bad),
        _ => ("~", Style::Wait),
    };
    let kind = text(change, "kind").replace('-', " ");
    let mut told = format!("{kind} {}", clean(&text(change, "name")));
    let members = change.get("members").and_then(Value::as_array);
    let members: Vec<String> = members.into_iter().flatten().map(as_text).collect();
    if !members.is_empty() {
        told.push_str(&format!("  {}", members.join(" ")));
    }
    if change.get("taken_over") == Some(&Value::Bool(true)) {
        told.push_str("  now of the file");
    }
    let room = Screen { width: screen.width.saturating_sub(2), ..screen };
    format!("{} {}", screen.paint(style, sign), room.wrap(&told, 6))
}

#[cfg(test)]
mod tests {
    use super::{draw, lines};
    use crate::screen::Screen;
    use serde_json::json;
    use std::path::Path;

    #[test]
    fn changes_are_lines() {
        let changes = [
            json!({"op": "create", "kind": "pool", "name": "batch"}),
            json!({"op": "change", "kind": "checkpoint", "name": "per-user", "members": ["rate", "burst"]}),
            json!({"op": "delete", "kind": "rule", "name": "10"}),
            json!({"op": "change", "kind": "server", "name": "app/c", "members": [], "taken_over": true}),
        ];
        let drawn = draw(&changes, Screen { width: 80, colours: false });
        assert_eq!(
            drawn,
            "+ pool batch\n~ checkpoint per-user  rate burst\n- rule 10\n\
             ~ server app/c  now of the file\n"
        );
    }

    #[test]
    fn mistakes_have_their_place() {
        let errors = [json!({"line": 3, "column": 1, "message": "a\u{1b}b", "hint": "c"})];
        assert_eq!(lines(Path::new("x.toml"), &errors), "x.toml:3:1: a\\u{1b}b\n    c\n");
    }
}
