//! The daemon: whether it answers, whether it has our version, and what it reports.

use super::{Finding, http};
use crate::command::status::{self, failed_reload};
use crate::command::{Reach, text, token};
use crate::moment;
use paceline_client::{Client, Error, Options, WhenAway};
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the daemon may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Open files that a daemon with the maximum number of clients needs.
const FILES_MIN: u64 = 10_240;

/// How far two clocks may be apart.
const CLOCK_MS_MAX: i64 = 2_000;

/// All checks of the daemon.
pub(super) fn look(reach: &Reach) -> Vec<Finding> {
    let target = match reach.target() {
        Ok(target) => target,
        Err(failure) => return vec![Finding::fail("daemon", failure.message(), "see --help")],
    };
    let options = Options { when_away: WhenAway::Closed, timeout: ANSWER_MAX };
    let asked = Client::connect_with(&target, options)
        .and_then(|client| client.status().map(|status| (client, status)));
    match asked {
        Err(error) => vec![away(reach, &error), own_files()],
        Ok((client, status)) => {
            let message = format!("it answers on {target}, process {}", text(&status, "pid"));
            let mut findings = vec![running(&status, message), version(&status)];
            findings.push(sync(&status));
            findings.push(clock(&status));
            findings.push(files(status.get("open_files_max").and_then(Value::as_u64)));
            findings.extend(configuration(&status));
            findings.extend(reload(&status));
            findings.extend(status::rules(&client).and_then(|rules| unsaved(&rules)));
            findings.extend(http::look(&status));
            findings.extend(token::ending(&client).iter().map(ends_soon));
            findings
        }
    }
}

/// Whether a daemon answered.
pub(super) fn answers(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.what == "version")
}

fn away(reach: &Reach, error: &Error) -> Finding {
    let data = reach.directory().map(|data| format!(" --data {}", data.display()));
    let next = match error {
        Error::Unreachable { .. } if reach.is_tcp() => {
            "check that it runs there, and its --api".into()
        }
        Error::Unreachable { .. } => {
            format!("start it with: paceline serve{}", data.unwrap_or_default())
        }
        Error::NotPermitted(_) if reach.is_tcp() => "check that the token is valid there".into(),
        Error::NotPermitted(_) => "ask as the user who started the daemon, or as root".into(),
        _ => "check its log, and that daemon and command have the same version".to_owned(),
    };
    Finding::fail("daemon", error.to_string(), next)
}

fn ends_soon((name, when): &(String, String)) -> Finding {
    let message = format!("token {name} expires {when}");
    let next = format!(
        "create another for its clients: paceline token new NAME --role ROLE; then: paceline token revoke {name}"
    );
    Finding::warn("token", message, next)
}

fn running(status: &Value, message: String) -> Finding {
    match status.get("draining") == Some(&Value::Bool(true)) {
        true => {
            let message = format!("{message}; it drains: it finishes its requests, then exits");
            Finding::warn("daemon", message, "start it again when it has exited")
        }
        false => Finding::ok("daemon", message),
    }
}

fn version(status: &Value) -> Finding {
    let (own, theirs) = (env!("CARGO_PKG_VERSION"), text(status, "version"));
    match own == theirs {
        true => Finding::ok("version", format!("{own}, as the daemon's")),
        false => {
            let message = format!("this command is {own} and the daemon {theirs}");
            Finding::warn("version", message, "start the daemon of the version you installed")
        }
    }
}

/// Promise J7: which transactions are answered before they are on disk.
fn sync(status: &Value) -> Finding {
    if status.get("read_only") == Some(&Value::Bool(true)) {
        let next = "start it without --read-only if it should accept changes";
        return Finding::warn("sync", "the daemon serves read-only", next);
    }
    let message = match text(status, "sync").as_str() {
        "always" => "every transaction is on disk before it is answered",
        _ => {
            "edits of the configuration are on disk before they are answered, and OVSDB \
              transactions that ask for it"
        }
    };
    Finding::ok("sync", message)
}

fn clock(status: &Value) -> Finding {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let apart = moment::millis(&text(status, "now")).map(|theirs| now.saturating_sub(theirs));
    match apart {
        Some(apart) if apart.abs() <= CLOCK_MS_MAX => {
            Finding::ok("clock", "it agrees with the daemon's")
        }
        Some(apart) => {
            let message = format!("it is {apart} ms ahead of the daemon's");
            let next = "synchronize both with a time server; the daemon uses it only for the log";
            Finding::warn("clock", message, next)
        }
        None => Finding::warn("clock", "the daemon does not report its time", "see its version"),
    }
}

fn files(limit: Option<u64>) -> Finding {
    match limit {
        Some(limit) if limit < FILES_MIN => {
            let message = format!("the daemon may have {limit} files open");
            let next = "raise its limit, for example with LimitNOFILE=65536 in its systemd unit";
            Finding::warn("open files", message, next)
        }
        Some(limit) => Finding::ok("open files", format!("the daemon may have {limit} open")),
        None => Finding::ok("open files", "the daemon has no limit"),
    }
}

/// Without a daemon: the limit that a daemon started by us would have.
fn own_files() -> Finding {
    use rustix::process::{Resource, getrlimit};
    files(getrlimit(Resource::Nofile).maximum)
}

/// Rules that a restart would change.
fn unsaved(rules: &Value) -> Option<Finding> {
    let next = "keep the running rules with: paceline rules save; see the saved ones with: paceline rules --saved";
    Some(Finding::warn("rules", status::unsaved_rules(rules)?, next))
}

/// Whether the last reading of the configuration files succeeded.
fn reload(status: &Value) -> Option<Finding> {
    let reload = status.get("reload")?;
    let Some(message) = failed_reload(status) else {
        let at = text(reload, "at");
        return Some(Finding::ok("reload", format!("the files of --config were read at {at}")));
    };
    let next = "correct the files and send SIGHUP; until then the daemon keeps its configuration";
    Some(Finding::fail("reload", message, next))
}

/// The warnings about the configuration.
fn configuration(status: &Value) -> Vec<Finding> {
    let warnings = status.get("warnings").and_then(Value::as_array).cloned().unwrap_or_default();
    if warnings.is_empty() {
        return vec![Finding::ok("configuration", "no warnings")];
    }
    let next = "docs/configuration.md explains the consequences";
    let each = warnings.iter().map(crate::command::as_text);
    each.map(|warning| Finding::warn("configuration", warning, next)).collect()
}
