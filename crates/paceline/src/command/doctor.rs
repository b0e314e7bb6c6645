//! `paceline doctor`: checks an installation, and says what to do about problems.
//!
//! It changes nothing, and works without a daemon as well: then it checks only the files.

mod daemon;
mod files;
mod http;

pub(super) use http::DOOR_NEXT;

use super::{Reach, print};
use crate::failure::Failure;
use crate::screen::{Screen, Style, clean};
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

pub const HELP: &str = "\
Prints one line for each check: ok, warn or fail, and below it what to do next. The exit code is 1 if \
any check failed. It changes nothing.

Example:
  paceline doctor
  paceline doctor --json | jq '.[] | select(.state != \"ok\")'";

#[derive(Debug, Args)]
pub struct Doctor {
    #[command(flatten)]
    pub reach: Reach,
}

/// The state of what was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ok,
    Warn,
    Fail,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    what: &'static str,
    state: State,
    message: String,
    /// What to do next.
    next: Option<String>,
}

impl Finding {
    fn ok(what: &'static str, message: impl Into<String>) -> Self {
        Self { what, state: State::Ok, message: message.into(), next: None }
    }

    fn warn(what: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        let (message, next) = (message.into(), Some(next.into()));
        Self { what, state: State::Warn, message, next }
    }

    fn fail(what: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { state: State::Fail, ..Self::warn(what, message, next) }
    }

    fn json(&self) -> Value {
        let mut told =
            json!({ "what": self.what, "state": self.state.word(), "message": self.message });
        if let Some(next) = &self.next {
            told["next"] = next.as_str().into();
        }
        told
    }
}

pub fn run(doctor: &Doctor) -> Result<ExitCode, Failure> {
    let reach = &doctor.reach;
    let mut findings = vec![];
    let of_daemon = daemon::look(reach);
    if !reach.is_tcp() {
        let data = reach.directory()?;
        findings.extend(files::look(&data));
        // A running daemon writes to it.
        if !daemon::answers(&of_daemon) {
            findings.extend(files::database(&data.join("paceline.db")));
        }
    }
    findings.extend(of_daemon);
    match reach.json {
        true => {
            print(&format!("{:#}\n", Value::Array(findings.iter().map(Finding::json).collect())))?
        }
        false => print(&draw(&findings, Screen::of_stdout()))?,
    }
    let has_failed = findings.iter().any(|finding| finding.state == State::Fail);
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The widths of the columns for the state and the subject, with the blanks after them.
const STATE: usize = 6;
const WHAT: usize = 16;

fn draw(findings: &[Finding], screen: Screen) -> String {
    // On a narrow screen the result is below the subject.
    let is_narrow = screen.width < 60;
    let indent = if is_narrow { STATE } else { STATE + WHAT };
    let room = Screen { width: screen.width.saturating_sub(indent), ..screen };
    let mut out = String::new();
    for finding in findings {
        let style = match finding.state {
            State::Ok => Style::Good,
            State::Warn => Style::Wait,
            State::Fail => Style::Bad,
        };
        let word = finding.state.word();
        out.push_str(&screen.paint(style, word));
        out.push_str(&" ".repeat(STATE.saturating_sub(word.len())));
        out.push_str(finding.what);
        let first = if is_narrow { "\n" } else { "" };
        let gap = if is_narrow { indent } else { WHAT.saturating_sub(finding.what.len()) };
        out.push_str(&format!("{first}{}", " ".repeat(gap)));
        out.push_str(&set_in(&clean(&finding.message), indent, room));
        if let Some(next) = &finding.next {
            let next = set_in(&format!("-> {}", clean(next)), indent, room);
            out.push_str(&format!("{}{next}", " ".repeat(indent)));
        }
    }
    out
}

/// A text broken into lines, all but the first indented.
fn set_in(text: &str, indent: usize, room: Screen) -> String {
    let lines = room.wrap(text, 0);
    let lines: Vec<&str> = lines.lines().collect();
    format!("{}\n", lines.join(&format!("\n{}", " ".repeat(indent))))
}

#[cfg(test)]
mod tests {
    use super::{Finding, draw};
    use crate::screen::check_screens;

    #[test]
    fn findings_fit_the_screen() {
        let data = "/var/lib/paceline";
        let findings = [
            Finding::ok("data directory", format!("{data} (mode 700)")),
            Finding::ok("disk space", "120 GiB free"),
            Finding::warn(
                "journals",
                "1 damaged part of a journal was cut off and kept: paceline.db.torn-1742",
                "they were never answered as done unless the log of that start says so; look at \
                 them, then move them away",
            ),
            Finding::fail(
                "token file",
                format!("{data}/token (mode 644): others can read it and act as admin"),
                format!("close it with: chmod 600 {data}/token"),
            ),
            Finding::fail(
                "daemon",
                format!("no daemon listens on {data}/api.sock"),
                format!("start it with: paceline serve --data {data}"),
            ),
            Finding::ok("open files", "the daemon may have 1048576 open"),
        ];
        check_screens("doctor", |screen| draw(&findings, screen));
    }
}
