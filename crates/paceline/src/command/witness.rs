//! Finds out whether a signal was sent to our whole process group, as a terminal sends Ctrl-C, or to us alone.
//!
//! The command that we run is in our group, so it receives the first kind by itself and must not get it twice,
//! and the second kind has to be passed on. The system shows the difference only to unsafe code. So a second
//! process of ours is in the same group, does nothing but answer, and dies of the signals that it receives: if
//! it no longer answers, the signal was sent to all. It receives such a signal before us, because the system
//! signals the youngest process of a group first; and a process with a deadly signal pending does not answer.
//! It ends with us, because then its input ends.

use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setrlimit};
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The arguments that start this program as a witness, and to die of a signal.
const WORD: &str = "--witness-of-signals";
const DIE: &str = "--die-of-signal";

/// How long to wait for an answer before checking whether the witness was stopped and not us, and how often: on
/// a busy machine an answer may be late.
const ANSWER_MAX: Duration = Duration::from_secs(1);
const ANSWERS_MAX: usize = 10;

/// The other process.
pub struct Witness {
    child: Child,
    ask: ChildStdin,
    answer: ChildStdout,
}

/// The answer of a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is alive, and so did not receive the signal that we received.
    Here,
    /// It is dead.
    Gone,
    /// Nothing: it was stopped, or it does not run.
    Silent,
}

/// Ends this process by a signal, and returns only if that fails. A shell continues its script after Ctrl-C
/// unless its child was killed by it. A signal that we listen for cannot kill us until we are started again.
pub fn die_of(signal: Signal) {
    let number = signal.as_raw().to_string();
    let _ = std::process::Command::new("/proc/self/exe").args([DIE, &number]).exec();
}

/// Runs as a witness or dies of a signal, if this process was started for that.
pub fn play(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let word = arguments.nth(1)?;
    if word != WORD && word != DIE {
        return None;
    }
    // Ctrl-\ must leave no core dump behind.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    if word == DIE {
        let number = arguments.next().and_then(|number| number.to_str()?.parse().ok());
        let signal = number.and_then(Signal::from_named_raw)?;
        let _ = kill_process(getpid(), signal);
        return Some(ExitCode::FAILURE);
    }
    let (mut ask, mut answer) = (std::io::stdin(), std::io::stdout());
    let mut byte = [0];
    while ask.read_exact(&mut byte).is_ok() {
        if answer.write_all(&byte).and_then(|()| answer.flush()).is_err() {
            break;
        }
    }
    Some(ExitCode::SUCCESS)
}

impl Witness {
    /// Starts a witness, and waits until it is ready.
    pub async fn start() -> Option<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg(WORD).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).kill_on_drop(true).spawn().ok()?;
        let (ask, answer) = (child.stdin.take()?, child.stdout.take()?);
        let mut witness = Self { child, ask, answer };
        (witness.answer().await == Answer::Here).then_some(witness)
    }

    /// Asks whether it is alive. A silent witness must not be asked again, because it may answer later.
    pub async fn answer(&mut self) -> Answer {
        if self.ask.write_all(b"?").await.is_err() {
            return Answer::Gone;
        }
        for _ in 0..ANSWERS_MAX {
            let mut byte = [0];
            match tokio::time::timeout(ANSWER_MAX, self.answer.read_exact(&mut byte)).await {
                Ok(Ok(_)) => return Answer::Here,
                Ok(Err(_)) => return Answer::Gone,
                Err(_) if self.is_stopped() => break,
                Err(_) => {}
            }
        }
        Answer::Silent
    }

    fn is_stopped(&self) -> bool {
        let status = self.child.id().map(|pid| format!("/proc/{pid}/status"));
        let status = status.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        let state = status.lines().find_map(|line| line.strip_prefix("State:"));
        state.is_some_and(|state| state.trim_start().starts_with(['T', 't']))
    }

    /// Ends it.
    pub async fn end(mut self) {
        let _ = self.child.kill().await;
    }
}
