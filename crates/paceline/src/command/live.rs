//! One line on the terminal while a command waits: for what, behind which request, and for how long.
//!
//! It is written to standard error, only if that is a terminal and the output is for people, from a thread of
//! its own, because the command's own thread waits for the daemon. It disappears when this is dropped. Unknown
//! parts are left out; a daemon that does not answer is not an error here.

use super::ps::{named, request_age};
use super::text;
use crate::moment;
use crate::screen::{Screen, clean, cut, tell_raw};
use paceline_client::{Client, Kind, Method};
use serde_json::Value;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How long a wait must last before the line is shown, and how often the line is updated.
const FIRST: Duration = Duration::from_millis(300);
const EVERY: Duration = Duration::from_secs(1);

/// What the command waits for.
pub enum For {
    /// A permit of the session of this id, for a command of this text.
    Permit { session: String, text: String },
    /// The lock of this name.
    Lock(String),
}

/// The line. It is removed when this is dropped, even if the daemon does not answer at that moment.
pub struct Live(Option<(Arc<Mutex<Drawn>>, mpsc::Sender<()>)>);

/// What is on the terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drawn {
    Nothing,
    Line,
    /// Nothing, and nothing is drawn any more.
    Over,
}

impl Live {
    /// Starts showing the line, if there is a terminal.
    pub fn start(client: &Client, waits_for: For, as_json: bool) -> Self {
        if as_json || !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let drawn = Arc::new(Mutex::new(Drawn::Nothing));
        let (stop, stopped) = mpsc::channel();
        let (client, shared) = (client.clone(), Arc::clone(&drawn));
        let show = move || {
            let (began, mut pause) = (Instant::now(), FIRST);
            while stopped.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {
                let line = match &waits_for {
                    For::Permit { session, text } => permit(&client, session, text),
                    For::Lock(name) => lock(&client, name),
                };
                let waited = moment::span(began.elapsed());
                draw(&shared, &format!("waiting {waited} {}", line.unwrap_or_default()));
                pause = EVERY;
            }
        };
        let thread = std::thread::Builder::new().name("live".into()).spawn(show);
        Self(thread.is_ok().then_some((drawn, stop)))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let Some((drawn, _stop)) = self.0.take() else { return };
        let mut drawn = drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *drawn, Drawn::Over) == Drawn::Line {
            tell_raw("\r\x1b[K");
        }
    }
}

fn draw(drawn: &Mutex<Drawn>, line: &str) {
    let width = Screen::of_stderr().width.saturating_sub(1);
    let line = cut(clean(line).trim_end(), width);
    let mut drawn = drawn.lock().unwrap_or_else(PoisonError::into_inner);
    if *drawn != Drawn::Over {
        *drawn = Drawn::Line;
        tell_raw(&format!("\r{line}\x1b[K"));
    }
}

/// What a permit waits for, and behind which request.
fn permit(client: &Client, session: &str, own: &str) -> Option<String> {
    let path = format!("/v1/requests?session={session}");
    let list = client.call(Method::Get, &path, None).ok()?;
    let waiting = list.as_array()?.iter().filter(|request| text(request, "state") == "waiting");
    // A session that lends its locks may have several waiting requests.
    let waiting: Vec<&Value> = waiting.collect();
    let request = waiting.iter().find(|request| text(request, "text") == own).or(waiting.first())?;
    let path = format!("/v1/why/{}", text(request, "request"));
    Some(sentence(&client.call(Method::Get, &path, None).ok()?))
}

/// Why a request waits, in one line.
fn sentence(why: &Value) -> String {
    let count = |name: &str| why.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (in_line, total) = (count("ahead_total"), count("ahead_total") + count("holding"));
    let message = text(why, "message");
    let message = message.strip_prefix("waits ").unwrap_or(&message);
    // The rest of the message repeats what is added below with names.
    let end = message.rfind(&format!(", {in_line} ahead")).or(message.rfind(", for another "));
    let mut line = end.and_then(|end| message.get(..end)).unwrap_or(message).to_owned();
    let behind = why.get("behind").and_then(Value::as_array).and_then(|behind| behind.first());
    if let Some(first) = behind {
        line.push_str(&format!(", behind {}", named(first)));
        if let Some(age) = request_age(first) {
            line.push_str(&format!(" ({age})"));
        }
    }
    let more = if behind.is_some() { total.saturating_sub(1) } else { total };
    if more > 0 {
        line.push_str(&format!(" and {more} more"));
    }
    if let Some(until) = moment::ahead(&text(why, "until")) {
        line.push_str(&format!(", goes on {until}"));
    }
    line
}

/// The owner of a lock, and how many sessions wait for it.
fn lock(client: &Client, name: &str) -> Option<String> {
    let shown = client.object(Kind::Locks, name).ok()?;
    let waiters = shown.get("waiters").and_then(Value::as_array).map_or(0, Vec::len);
    let behind = match text(&shown, "owner") {
        owner if owner.is_empty() => String::new(),
        owner => format!(", behind {}", owner_name(&owner)),
    };
    let line = if waiters > 1 { format!(", {waiters} in line") } else { String::new() };
    Some(format!("for lock {name}{behind}{line}"))
}

/// A session such as `deploy.sh:root@unix#12` in the form for people: `root: deploy.sh`.
pub fn owner_name(session: &str) -> String {
    let parts = session.rsplit_once('@').and_then(|(who, _)| who.rsplit_once(':'));
    match parts {
        Some(("api", user)) => user.to_owned(),
        Some((program, user)) => format!("{user}: {program}"),
        None => session.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{owner_name, sentence};
    use serde_json::json;

    #[test]
    fn a_wait_is_told_by_names() {
        let why = json!({"message": "waits for resource \"a, 1 ahead\", 3 ahead", "ahead_total": 3,
            "behind": [{"request": 7, "user": "root", "text": "sleep 60", "since": "2020-01-01T00:00:00Z"}]});
        let line = sentence(&why);
        let start = "for resource \"a, 1 ahead\", behind root: sleep 60 (";
        assert!(line.starts_with(start) && line.ends_with(") and 2 more"), "{line}");
        let why = json!({"message": "waits at checkpoint \"c\", for another 2s", "ahead_total": 0});
        assert_eq!(sentence(&why), "at checkpoint \"c\"");
    }

    #[test]
    fn sessions_are_named_by_user_and_program() {
        assert_eq!(owner_name("deploy.sh:root@unix#12"), "root: deploy.sh");
        assert_eq!(owner_name("api:eva@127.0.0.1#1"), "eva");
        assert_eq!(owner_name("other"), "other");
    }
}
