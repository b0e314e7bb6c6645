//! Runs a command that holds something while it runs.
//!
//! What is held hangs on a session that is bound to a connection. The command inherits that
//! connection, so the session ends only when both it and we are gone: who kills us does not free what
//! the command still uses. When the command ends, we end the session ourselves, so that a process it
//! left behind keeps nothing. Over TCP the session has a lease, which we renew; there what is held is
//! free one lease after we are killed.
//!
//! Signals are passed on to the command, except those that a terminal sent to it too (Ctrl-C, Ctrl-\):
//! what it makes of them is only waited for. A [`Witness`] tells which they are. Those that we were started
//! to ignore, as by `nohup`, are not listened for, so that the command ignores them too.

use super::witness::Witness;
use crate::failure::Failure;
use crate::screen::warn;
use paceline_client::{Client, Error, Session};
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

/// A command that cannot be run, and one that is not there, as shells tell them.
const CANNOT_RUN: u8 = 126;
const NO_SUCH_COMMAND: u8 = 127;
/// A command that a signal ended, as shells tell it.
const BY_SIGNAL: i32 = 128;

/// How often a witness is replaced for one signal; a new one may get the next signal before it stands there.
const WITNESSES_MAX: usize = 5;

/// What is held, and what the command is told of it.
pub struct Held<'a> {
    pub session: &'a Session,
    pub environment: Vec<(&'static str, String)>,
}

/// How often a lease is renewed; the daemon's usual one is three times as long.
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// Renews the lease of a session that no connection holds, as over TCP, from another thread, because
/// ours waits for a permit, a lock or a command. It ends when this is dropped.
pub struct Renewing(Option<(mpsc::Sender<()>, JoinHandle<()>)>);

impl Renewing {
    /// Begins to renew, if there is a lease.
    pub fn start(client: &Client, session: &Session, as_json: bool) -> Self {
        if session.descriptor().is_some() || client.target().is_unix() {
            return Self(None);
        }
        let (stop, stopped) = mpsc::channel();
        let joined = client.join_session(session.id());
        let renew = move || {
            while stopped.recv_timeout(RENEW_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                if let Err(error) = joined.renew() {
                    warn(as_json, &format!("the lease could not be renewed: {error}"));
                }
            }
        };
        let thread = std::thread::Builder::new().name("renew".into()).spawn(renew);
        Self(thread.ok().map(|thread| (stop, thread)))
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// How a command ended.
pub struct Ended {
    code: ExitCode,
    /// The signal of the terminal that killed it.
    key: Option<Signal>,
}

impl Ended {
    /// Its exit code, for us to end with. If a key of the terminal killed it, we are killed by the same.
    pub fn code(self) -> ExitCode {
        self.key.into_iter().for_each(super::witness::die_of);
        self.code
    }
}

/// Runs the command.
pub fn run_held(held: &Held<'_>, words: &[OsString]) -> Result<Ended, Failure> {
    if let Some(descriptor) = held.session.descriptor() {
        rustix::io::fcntl_setfd(descriptor, FdFlags::empty())
            .map_err(|error| format!("cannot hand the connection on: {error}"))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(wait_for(held, words))
}

/// Tells on standard error if something was not given back, which is no failure of the command.
pub fn said(what: &str, given_back: Result<(), Error>, as_json: bool) {
    let Err(error) = given_back else { return };
    let message = match error.is_unreachable() {
        true => format!("the daemon is away, and gives the {what} back when it is there: {error}"),
        false => format!("the {what} was not given back by the command, or was over: {error}"),
    };
    warn(as_json, &message);
}

async fn wait_for(held: &Held<'_>, words: &[OsString]) -> Result<Ended, Failure> {
    let (program, arguments) = words.split_first().ok_or_else(|| "no command".to_owned())?;
    // Before the command starts, so that no signal finds us without it.
    let mut signals = Signals::listen().await?;
    let mut command = Command::new(program);
    command.args(arguments).envs(held.environment.iter().map(|(name, value)| (name, value)));
    let mut child = command.spawn().map_err(|error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => NO_SUCH_COMMAND,
            _ => CANNOT_RUN,
        };
        let program = program.to_string_lossy();
        Failure::new(
            code,
            format!("cannot run {program}: {error}"),
            "see that CMD after -- is a program",
        )
    })?;
    // So that the command holds it also if both the daemon and we are killed. It fails if the command
    // ended already.
    let _ = child.id().map(|pid| held.session.add_process(pid));
    loop {
        tokio::select! {
            status = child.wait() => {
                let status = status.map_err(|error| format!("cannot wait for it: {error}"))?;
                let key = signals.end(status.signal()).await;
                return Ok(Ended { code: exit_code(status), key });
            }
            signal = signals.next() => pass_on(&child, signal),
        }
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| BY_SIGNAL + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn pass_on(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // A command that just ended needs no signal any more.
        let _ = kill_process(pid, signal);
    }
}

/// The signals that end programs; none where we ignore it.
struct Signals {
    terminate: Option<Listener>,
    hangup: Option<Listener>,
    interrupt: Option<Listener>,
    quit: Option<Listener>,
    /// Whether there is a terminal, whose signals the command gets by itself.
    has_terminal: bool,
    witness: Option<Witness>,
    /// What the terminal sent last.
    key: Option<Signal>,
}

impl Signals {
    async fn listen() -> Result<Self, Failure> {
        let ignored = std::fs::read_to_string("/proc/self/status").map_or(0, |text| ignored(&text));
        let listen = |kind: SignalKind| {
            if ignored >> (kind.as_raw_value() - 1) & 1 == 1 {
                return Ok(None);
            }
            signal(kind)
                .map(Some)
                .map_err(|error| Failure::from(format!("cannot listen for signals: {error}")))
        };
        let mut signals = Self {
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            interrupt: listen(SignalKind::interrupt())?,
            quit: listen(SignalKind::quit())?,
            // It can be opened exactly by processes that have one.
            has_terminal: std::fs::File::open("/dev/tty").is_ok(),
            witness: None,
            key: None,
        };
        if signals.has_terminal {
            signals.witness = Witness::start().await;
        }
        Ok(signals)
    }

    /// The next signal that the command does not get by itself.
    async fn next(&mut self) -> Signal {
        loop {
            let (signal, may_be_terminals) = tokio::select! {
                () = came(&mut self.terminate) => (Signal::TERM, false),
                () = came(&mut self.hangup) => (Signal::HUP, false),
                () = came(&mut self.interrupt) => (Signal::INT, true),
                () = came(&mut self.quit) => (Signal::QUIT, true),
            };
            if !(may_be_terminals && self.all_got_it().await) {
                return signal;
            }
            self.key = Some(signal);
        }
    }

    /// Whether the signal that came was sent to the whole group, and so to the command too. Without a
    /// witness it is taken for that, because a command that gets Ctrl-C twice may end without tidying up.
    async fn all_got_it(&mut self) -> bool {
        let Some(mut witness) = self.witness.take() else { return self.has_terminal };
        if witness.answers().await {
            self.witness = Some(witness);
            return false;
        }
        witness.end().await;
        for _ in 0..WITNESSES_MAX {
            self.witness = Witness::start().await;
            if self.witness.is_some() {
                break;
            }
        }
        // Whoever presses a key twice sends the second signal while nobody can say where it went.
        tokio::select! {
            biased;
            () = came(&mut self.interrupt) => {}
            () = std::future::ready(()) => {}
        }
        tokio::select! {
            biased;
            () = came(&mut self.quit) => {}
            () = std::future::ready(()) => {}
        }
        true
    }

    /// Stops listening, after a command that this signal killed, if one did: the same if it came from a key of
    /// the terminal. The command may have ended before we looked at our own signal.
    async fn end(mut self, killed_by: Option<i32>) -> Option<Signal> {
        let is_it = |signal: &Signal| Some(signal.as_raw()) == killed_by;
        let signal = [Signal::INT, Signal::QUIT].into_iter().find(is_it);
        let is_key = match &mut self.witness {
            _ if signal.is_none() => false,
            _ if self.key == signal => true,
            Some(witness) => !witness.answers().await,
            None => self.has_terminal,
        };
        if let Some(witness) = self.witness {
            witness.end().await;
        }
        signal.filter(|_| is_key)
    }
}

async fn came(listener: &mut Option<Listener>) {
    match listener {
        Some(listener) => drop(listener.recv().await),
        None => std::future::pending().await,
    }
}

/// The signals that a process ignores, one bit each, as the system shows them.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
