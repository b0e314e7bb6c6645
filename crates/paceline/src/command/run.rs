//! Runs a command that holds something while it runs.
//!
//! What is held hangs on a session that is bound to a connection. The command inherits that
//! connection, so the session ends only when both it and we are gone: who kills us does not free what
//! the command still uses. When the command ends, we end the session ourselves, so that a process it
//! left behind keeps nothing. Over TCP the session has a lease, which we renew; there what is held is
//! free one lease after we are killed.
//!
//! Signals: a terminal sends its own (Ctrl-C, Ctrl-\) to the command too, so we only wait for what
//! it makes of them. Others, and all of them without a terminal, are passed on.

use crate::failure::Failure;
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
    pub fn start(client: &Client, session: &Session) -> Self {
        if session.descriptor().is_some() || client.target().is_unix() {
            return Self(None);
        }
        let (stop, stopped) = mpsc::channel();
        let joined = client.join_session(session.id());
        let renew = move || {
            while stopped.recv_timeout(RENEW_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                if let Err(error) = joined.renew() {
                    eprintln!("paceline: the lease could not be renewed: {error}");
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

/// Runs the command and gives its exit code.
pub fn run_held(held: &Held<'_>, words: &[OsString]) -> Result<ExitCode, Failure> {
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
pub fn said(what: &str, given_back: Result<(), Error>) {
    match given_back {
        Ok(()) => {}
        Err(error) if error.is_unreachable() => {
            eprintln!(
                "paceline: the daemon is away, and gives the {what} back when it is there: {error}"
            );
        }
        Err(error) => {
            eprintln!(
                "paceline: the {what} was not given back by the command, or was over: {error}"
            );
        }
    }
}

async fn wait_for(held: &Held<'_>, words: &[OsString]) -> Result<ExitCode, Failure> {
    let (program, arguments) = words.split_first().ok_or_else(|| "no command".to_owned())?;
    // Before the command starts, so that no signal finds us without it.
    let mut signals = Signals::listen()?;
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
                return Ok(exit_code(status));
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

/// The signals that end programs.
struct Signals {
    terminate: Listener,
    hangup: Listener,
    interrupt: Listener,
    quit: Listener,
    has_terminal: bool,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::from(format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            interrupt: listen(SignalKind::interrupt())?,
            quit: listen(SignalKind::quit())?,
            // It can be opened exactly by processes that have one.
            has_terminal: std::fs::File::open("/dev/tty").is_ok(),
        })
    }

    /// The next signal that the command does not get by itself.
    async fn next(&mut self) -> Signal {
        loop {
            let (signal, is_terminals) = tokio::select! {
                _ = self.terminate.recv() => (Signal::TERM, false),
                _ = self.hangup.recv() => (Signal::HUP, false),
                _ = self.interrupt.recv() => (Signal::INT, true),
                _ = self.quit.recv() => (Signal::QUIT, true),
            };
            if !(is_terminals && self.has_terminal) {
                return signal;
            }
        }
    }
}
