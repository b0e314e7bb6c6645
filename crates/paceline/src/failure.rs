//! Failures as the command line reports them: one message, the next thing to try, an exit code.
//!
//! The only place where an error of the client is turned into a text for people or a code for scripts.

use paceline_catalogue::Kind;
use paceline_client::{Answer, Error, Refusal};
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Something failed.
pub const FAILED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// The daemon refused the work.
pub const REFUSED: u8 = 3;
/// The named object does not exist.
pub const NOT_FOUND: u8 = 4;
/// The daemon cannot be reached.
pub const UNREACHABLE: u8 = 69;
/// A queue is full, or the wait was too long.
pub const TEMPORARY: u8 = 75;
/// The caller may not do that.
pub const NOT_PERMITTED: u8 = 77;

/// Why a command could not do its work.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
    hint: Option<String>,
    answer: Option<Value>,
}

impl Failure {
    /// A failure of this code.
    pub fn new(code: u8, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: Some(hint.into()), answer: None }
    }

    /// A mistake in the command line, from the parser's text: the mistake first, then the correct form.
    pub fn usage(text: &str) -> Self {
        let mut parts = text.trim().split("\n\n");
        let message = parts.next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        let hint: Vec<&str> = parts.map(str::trim).collect();
        Self::new(USAGE, message, hint.join("\n"))
    }

    /// The same, with a better hint.
    pub fn hint(mut self, hint: String) -> Self {
        self.hint = Some(hint);
        self
    }

    /// The same, with a hint if there is none yet.
    pub fn or_hint(mut self, hint: &str) -> Self {
        self.hint.get_or_insert_with(|| hint.to_owned());
        self
    }

    /// The same, with other words for a part of the message.
    pub fn reword(mut self, from: &str, to: &str) -> Self {
        self.message = self.message.replace(from, to);
        self
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Prints it on standard error: in lines, or as one line of JSON.
    pub fn report(&self, as_json: bool) -> ExitCode {
        if as_json {
            let mut told = match &self.answer {
                Some(Value::Object(members)) => members.clone(),
                _ => serde_json::Map::new(),
            };
            told.entry("error").or_insert_with(|| self.word().into());
            told.insert("message".into(), self.message.as_str().into());
            told.insert("exit".into(), self.code.into());
            if let Some(hint) = &self.hint {
                told.insert("hint".into(), hint.as_str().into());
            }
            crate::screen::tell(format_args!("{}", json!(told)));
            return ExitCode::from(self.code);
        }
        let lines: Vec<String> =
            self.message.trim_end().lines().map(crate::screen::clean).collect();
        crate::screen::tell(format_args!("paceline: {}", lines.join("\n  ")));
        if let Some(hint) = &self.hint {
            crate::screen::tell(format_args!("  {}", crate::screen::clean(hint)));
        }
        ExitCode::from(self.code)
    }

    fn word(&self) -> &'static str {
        match self.code {
            USAGE => "usage",
            REFUSED | TEMPORARY => "refused",
            NOT_FOUND => "not_found",
            UNREACHABLE => "unreachable",
            NOT_PERMITTED => "permission",
            _ => "failed",
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { code: FAILED, message, hint: None, answer: None }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (code, hint) = match &error {
            Error::Refused(refusal) if refusal.is_queue() || refusal.reason == "deadlock" => {
                (TEMPORARY, refusal_hint(refusal))
            }
            Error::Refused(refusal) => (REFUSED, refusal_hint(refusal)),
            Error::NotPermitted(answer) if answer.error == "unauthenticated" => {
                let hint = "give a valid one with --token-file FILE or PACELINE_TOKEN; the first one is in the file \
                            token of the data directory";
                (NOT_PERMITTED, Some(hint.to_owned()))
            }
            Error::NotPermitted(_) => {
                (NOT_PERMITTED, Some("see your role with: paceline whoami".into()))
            }
            Error::NotFound(_) => (NOT_FOUND, None),
            Error::Expired(_) => (FAILED, Some("its lease expired: ask again".into())),
            Error::Conflict(answer) | Error::Failed(answer) => (FAILED, setting_hint(answer)),
            Error::Unreachable { target, source } => (UNREACHABLE, Some(start_it(target, source))),
            Error::Protocol(_) => {
                let hint =
                    "check that daemon and command have the same version: paceline --version";
                (FAILED, Some(hint.to_owned()))
            }
        };
        let message = match error.answer() {
            Some(answer) => format!("{}{}", answer.message, place(answer)),
            None => error.to_string(),
        };
        // Some hints are for clients that use HTTP themselves.
        let theirs = error.hint().map(|hint| hint.replace("GET /v1/whoami", "paceline whoami"));
        let theirs = theirs.filter(|hint| !hint.contains("/v1/") && !hint.contains("header "));
        // Of a refusal the command line names its own flags, and when to come back.
        let hint =
            if matches!(error, Error::Refused(_)) { hint.or(theirs) } else { theirs.or(hint) };
        Self { code, message, hint, answer: error.answer().map(|answer| answer.body.clone()) }
    }
}

fn start_it(target: &str, source: &io::Error) -> String {
    // The address of a daemon on TCP is not a path.
    if target.contains("://") || !target.contains('/') {
        return "check that it runs there and listens on that address: paceline serve --api ADDR"
            .into();
    }
    let data = Path::new(target).parent().unwrap_or(Path::new(".")).display();
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!(
                "start it with: paceline serve --data {data}; or name another one with --data or \
                 PACELINE_DATA"
            )
        }
        _ => format!("see its log, or start it with: paceline serve --data {data}"),
    }
}

fn refusal_hint(refusal: &Refusal) -> Option<String> {
    let pool = refusal.answer.body.pointer("/place/pool").and_then(Value::as_str);
    Some(match refusal.reason.as_str() {
        "queue_full" | "too_long" | "expired" => match refusal.retry_after {
            Some(after) => format!("try again in {}s", after.as_secs_f64().ceil()),
            None => "try again later".into(),
        },
        "rejected" => "see which rules match with: paceline explain attr=value ...".into(),
        "unknown_resource" => "see what there is with: paceline resources".into(),
        "not_owner" => "take the lock first: paceline lock NAME -- paceline permit ...".into(),
        "draining" => match pool {
            Some(pool) => format!("start it again with: paceline pools start {pool}"),
            None => "see the pools with: paceline pools".into(),
        },
        "cost_too_high" => "ask for less, or see the limits with: paceline checkpoints".into(),
        "blocks_itself" => "release what the session holds before asking for more".into(),
        "deadlock" => {
            "release what the session holds, and ask again for all of it in one request".into()
        }
        "read_only" => "start it without --read-only if it should accept them".into(),
        "too_wide" => "claim smaller parts of it; see them with: paceline tree".into(),
        _ => "see what runs and waits with: paceline ps".into(),
    })
}

/// What to try about a setting that cannot work.
fn setting_hint(answer: &Answer) -> Option<String> {
    let column = answer.body.pointer("/place/column").and_then(Value::as_str)?;
    match column {
        "when" | "key" | "fair" | "weight" => {
            Some("docs/expressions.md describes what can be written there".to_owned())
        }
        _ => None,
    }
}

/// The flag of the setting that the mistake is in, unless the message names the setting.
fn place(answer: &Answer) -> String {
    let part = |name: &str| answer.body.get("place")?.get(name)?.as_str();
    let found = part("table").and_then(paceline_catalogue::kind_of).zip(part("column"));
    let path = found.and_then(|(kind, column)| path_of(kind, column));
    match path.filter(|path| answer.error != "refused" && !answer.message.contains(path)) {
        Some(path) => format!(" (--{})", path.replace(['.', '_'], "-")),
        None => String::new(),
    }
}

/// The path of the setting that a column holds, if it is one. Patterns share their column with how they are read.
fn path_of(kind: &Kind, column: &str) -> Option<String> {
    let own = kind.settings.iter().filter(|setting| setting.is_in_api());
    let paths = own.flat_map(|setting| {
        let inner = setting.inner().iter().filter(|inner| inner.column == column);
        let inner = inner.map(|inner| format!("{}.{}", setting.name, inner.name));
        let outer = (setting.column == column).then(|| setting.name.to_owned());
        outer.into_iter().chain(inner)
    });
    let paths: Vec<String> = paths.collect();
    match paths.as_slice() {
        [only] => Some(only.clone()),
        [first, ..] if first == "match" => Some(first.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;
    use paceline_client::Error;
    use std::io;

    #[test]
    fn a_daemon_that_is_away_is_started_where_it_was_looked_for() {
        let source = io::Error::from(io::ErrorKind::NotFound);
        let failure = Failure::from(Error::Unreachable { target: "/d/api.sock".into(), source });
        assert_eq!(failure.code, 69);
        let hint = "start it with: paceline serve --data /d; or name another one with --data or PACELINE_DATA";
        assert_eq!(failure.hint.unwrap(), hint);
        for target in ["http://127.0.0.1:1", "127.0.0.1:1"] {
            let source = io::Error::from(io::ErrorKind::ConnectionRefused);
            let failure = Failure::from(Error::Unreachable { target: target.into(), source });
            let hint = failure.hint.unwrap();
            assert!(hint.contains("serve --api") && !hint.contains("--data"), "{hint}");
        }
    }
}
