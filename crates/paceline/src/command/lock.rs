//! `paceline lock`: owns a lock while a command runs.

use super::again::{self, Got};
use super::live::{For, Live};
use super::run::{Ended, Held, run_held, said};
use super::{Reach, duration};
use crate::failure::{Failure, TEMPORARY};
use clap::Args;
use paceline_client::{Error, LockOptions, Place, Session, SessionOptions};
use paceline_types::in_lock_name;
use paceline_types::limits::LOCK_NAME_BYTES_MAX;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

pub const HELP: &str = "\
The lock is owned until CMD ends, even if this command is killed (over TCP: until its lease of 30 s expires). CMD has PACELINE_LOCK \
and PACELINE_FENCING in its environment. PACELINE_FENCING is the number of this grant, higher than all before. Pass it to the \
resource that the lock guards, so that the resource can refuse a CMD whose lock was stolen. PACELINE_SESSION lets a `paceline permit \
--require-lock` inside CMD find the lock; it is a secret.

--steal takes the lock from its owner, whose CMD goes on without it. When the thief releases the lock, the session that was \
robbed owns it next, before all other waiters, unless it has ended by then.

Exit codes: that of CMD; 128 + N if signal N killed it (a key such as Ctrl-C kills this command too, so that a script ends); \
126 or 127 if CMD cannot be run. If CMD was not started: 75 another session owns the lock, 69 daemon unreachable, 77 not permitted, \
2 usage, 1 failed. If the daemon is restarted while this command waits, it asks again until --wait has passed. \
It keeps its place in the queue unless the daemon was killed.

Example:
  paceline lock deploy --wait 10m -- ./deploy.sh
  paceline lock deploy -- paceline permit --require-lock deploy --claim db -- ./migrate.sh";

#[derive(Debug, Args)]
pub struct Lock {
    /// Name of the lock: 1 to 255 letters, digits and the characters _ - . / : @
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,

    /// Steal the lock from its owner; needs the role operator
    #[arg(long)]
    steal: bool,

    /// Wait for it this long, such as 5m [default: try once]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,

    #[command(flatten)]
    pub reach: Reach,

    /// The command, and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<std::ffi::OsString>,
}

/// The name of a lock on the command line. The daemon checks it, but an empty name cannot even be sent.
fn name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("it is empty, expected the name of a lock such as deploy".into()),
        text => Ok(text.to_owned()),
    }
}

/// A valid name of a lock that is similar to an invalid one.
fn as_word(name: &str) -> String {
    let letters = name.chars().map(|c| if in_lock_name(c) { c } else { '_' });
    letters.take(LOCK_NAME_BYTES_MAX).collect()
}

/// The longest name of a session.
const NAME_CHARS_MAX: usize = 100;

/// The program that is run, without its arguments, which other users need not see.
fn program(command: &[std::ffi::OsString]) -> Option<String> {
    let program = command.first()?.to_string_lossy();
    let name = crate::screen::clean(program.rsplit('/').next().unwrap_or_default());
    Some(name.chars().take(NAME_CHARS_MAX).collect()).filter(|name: &String| !name.is_empty())
}

pub fn run(lock: &Lock) -> Result<ExitCode, Failure> {
    let asker = lock.reach.open()?;
    // Other waiters see the owner of the lock, and its command.
    let name = program(&lock.command);
    let begin = || asker.client.session(&SessionOptions { name: name.clone(), lease: None });
    // Without a place it is a new request after a restart.
    let place = lock.wait.and_then(|_| Place::random().ok());
    let ask = |session: &Session, left: Option<Duration>| {
        let options = LockOptions { steal: lock.steal, wait: left.unwrap_or_default(), place };
        let _line = Live::start(&asker.client, For::Lock(lock.name.clone()), lock.reach.json);
        session.lock(&lock.name, &options)
    };
    let longest = lock.wait.unwrap_or_default();
    let got = again::ask(&asker.client, Some(longest), lock.reach.json, begin, ask);
    let Got { session, renewing, got: owned } = got.map_err(|error| match error {
        Error::Conflict(answer) => {
            let hint = match longest.is_zero() {
                true => "wait for it with --wait TIME; show the owner with: paceline locks",
                false => "show the owner with: paceline locks",
            };
            Failure::new(TEMPORARY, answer.message, hint)
        }
        error => {
            let failure = Failure::from(error);
            let word = as_word(&lock.name);
            match word == lock.name {
                true => failure,
                false => failure.or_hint(&format!("call it {word}, for example")),
            }
        }
    })?;
    if lock.reach.json {
        crate::screen::tell(format_args!(
            "{}",
            json!({"lock": owned.name(), "fencing": owned.fencing()})
        ));
    }
    let environment = vec![
        ("PACELINE_LOCK", lock.name.clone()),
        ("PACELINE_FENCING", owned.fencing().to_string()),
        ("PACELINE_SESSION", session.id().to_owned()),
    ];
    let held = Held { client: &asker.client, session, environment };
    let as_json = lock.reach.json;
    let give_back = move |session: Session| {
        drop(renewing);
        // Another owner may have worked at the same time as the command, so this is reported.
        if let Ok(false) = owned.is_held() {
            let message = "the command lost the lock while it ran, and worked without it";
            crate::screen::warn(as_json, message);
        }
        said("lock", owned.unlock().and_then(|()| session.end()), as_json);
    };
    run_held(held, &lock.command, give_back).map(Ended::code)
}
