//! Runs a command and holds something while it runs.
//!
//! What is held belongs to a session that is bound to a connection. The command inherits that connection, so
//! the session ends only when both have exited: killing this process does not release what the command still
//! uses. The command begins when the daemon knows its process (`starter`). When the command ends, we end the
//! session ourselves, so that a process it left behind keeps nothing. Over TCP the session has a lease, which
//! we renew; there what is held is released one lease after we are killed.
//!
//! Signals are passed on to the command, except those that were sent to our whole process group, as a terminal
//! (Ctrl-C, Ctrl-\, a hangup) and `kill -- -GROUP` do: the command received them too, and we only wait for its
//! reaction. A [`Witness`] finds out which they are. Signals that we were started to ignore, as by `nohup`, are
//! not listened for, so that the command ignores them too. Signals are handled whatever the daemon does,
//! because it is called only in other threads. A signal that arrives while the release is being reported ends
//! us, and then the end of our connection releases what is held.

use super::starter::Starter;
use super::witness::{Answer, Witness};
use crate::failure::Failure;
use crate::screen::warn;
use paceline_client::{Client, Error, Session};
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The exit codes of shells for a command that cannot be run, and for one that does not exist.
const CANNOT_RUN: u8 = 126;
const NO_SUCH_COMMAND: u8 = 127;
/// The exit code of shells for a command that a signal ended is this plus the signal.
const BY_SIGNAL: i32 = 128;

/// How often a witness is replaced for one signal; a new one may receive the next signal before it is ready.
const WITNESSES_MAX: usize = 5;

/// How long the command waits for the daemon to know its process.
const KNOWN_MAX: Duration = Duration::from_secs(5);

/// How long to keep reporting the process to a daemon that disappeared between the grant and the start of the
/// command, and the pauses.
const AWAY_MAX: Duration = Duration::from_secs(60);
const AWAY_PAUSE: Duration = Duration::from_millis(10);
const AWAY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// What is held, and what the command is given of it.
pub struct Held<'a> {
    pub client: &'a Client,
    pub session: Session,
    pub environment: Vec<(&'static str, String)>,
}

/// How often a lease is renewed; the daemon's default lease is three times as long.
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// Renews the lease of a session that no connection holds, as over TCP, from another thread, because ours waits
/// for a permit, a lock or a command. It stops when this is dropped.
pub struct Renewing(Option<(mpsc::Sender<()>, JoinHandle<()>)>);

impl Renewing {
    /// Starts renewing, if there is a lease.
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
    /// The terminal signal that killed it.
    key: Option<Signal>,
}

impl Ended {
    /// Its exit code, for us to exit with. If a terminal signal killed it, we are killed by the same.
    pub fn code(self) -> ExitCode {
        self.key.into_iter().for_each(super::witness::die_of);
        self.code
    }
}

/// Runs the command, and releases what was held when it has ended.
pub fn run_held(
    held: Held<'_>,
    words: &[OsString],
    give_back: impl FnOnce(Session) + Send + 'static,
) -> Result<Ended, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    let ended = runtime.block_on(async {
        // Before the command starts, so that no signal is missed.
        let mut signals = Signals::listen().await?;
        let ended = wait_for(&held, words, &mut signals).await;
        signals.forget().await;
        let given_back = tokio::task::spawn_blocking(|| give_back(held.session));
        tokio::select! {
            biased;
            _ = given_back => {}
            signal = signals.any() => super::witness::die_of(signal),
        }
        ended
    });
    // A thread that waits for the daemon is not waited for.
    runtime.shutdown_background();
    ended
}

/// Prints on standard error if something was not released, which is not a failure of the command.
pub fn said(what: &str, given_back: Result<(), Error>, as_json: bool) {
    let Err(error) = given_back else { return };
    let message = match error.is_unreachable() {
        true => format!("the daemon is away, and releases the {what} when it is back: {error}"),
        false => format!("the {what} expired before it was released: {error}"),
    };
    warn(as_json, &message);
}

async fn wait_for(
    held: &Held<'_>,
    words: &[OsString],
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let (program, arguments) = words.split_first().ok_or_else(|| "no command".to_owned())?;
    let starter = held.session.descriptor().map(|_| Starter::new()).transpose();
    let starter = starter.map_err(|error| format!("cannot start: {error}"))?;
    // Only the command inherits it: a witness must not hold anything.
    hand_on(&held.session, true)?;
    let mut command = match &starter {
        Some(starter) => starter.command(words),
        None => Command::new(program),
    };
    if starter.is_none() {
        command.args(arguments);
    }
    command.envs(held.environment.iter().map(|(name, value)| (name, value)));
    let mut child = command.spawn().map_err(|error| cannot_run(program, &error))?;
    hand_on(&held.session, false)?;
    let is_told = Cell::new(false);
    let joined = held.client.join_session(held.session.id());
    let mut begun = pin!(begin(starter, child.id(), joined, program, &is_told));
    let mut has_begun = false;
    loop {
        tokio::select! {
            biased;
            begins = &mut begun, if !has_begun => match begins {
                Ok(()) => has_begun = true,
                // A signal may have ended it before it began.
                Err(failure) => match child.try_wait() {
                    Ok(Some(status)) if status.signal().is_some() => {
                        return ended(status, signals).await;
                    }
                    _ => {
                        let _ = child.kill().await;
                        return Err(failure);
                    }
                },
            },
            status = child.wait() => {
                let status = status.map_err(|error| format!("cannot wait for it: {error}"))?;
                if !has_begun && is_told.get() {
                    begun.await?;
                }
                return ended(status, signals).await;
            }
            signal = signals.next() => pass_on(&child, signal),
        }
    }
}

async fn ended(status: ExitStatus, signals: &mut Signals) -> Result<Ended, Failure> {
    let key = signals.killed(status.signal()).await;
    Ok(Ended { code: exit_code(status), key })
}

/// Lets the command run once the daemon knows its process, if it waits for that.
async fn begin(
    starter: Option<Starter>,
    pid: Option<u32>,
    session: Session,
    program: &OsStr,
    is_told: &Cell<bool>,
) -> Result<(), Failure> {
    let (Some(starter), Some(pid)) = (starter, pid) else { return Ok(()) };
    let waiting = starter.meet(pid).await.map_err(|error| format!("cannot start: {error}"))?;
    let (tell, told) = oneshot::channel();
    tokio::task::spawn_blocking(move || make_known(&session, pid, tell));
    // A daemon that is away or hangs keeps the session while this process is alive, and is informed of the
    // command later.
    if let Ok(Ok(Err(error))) = timeout(KNOWN_MAX, told).await
        && !error.is_unreachable()
    {
        return Err(error.into());
    }
    is_told.set(true);
    waiting.begin().await.map_err(|error| cannot_run(program, &error))
}

/// Reports the command's process to the daemon, and sends the result of the first try. A daemon that was
/// restarted since the grant has taken the session over.
fn make_known(session: &Session, pid: u32, first: oneshot::Sender<Result<(), Error>>) {
    let (since, mut pause, mut first) = (Instant::now(), AWAY_PAUSE, Some(first));
    loop {
        let known = session.add_process(pid);
        let is_away = known.as_ref().is_err_and(Error::is_unreachable);
        if let Some(first) = first.take() {
            // The receiver is gone if it took long.
            let _ = first.send(known);
        }
        if !is_away || since.elapsed() > AWAY_MAX {
            return;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(AWAY_PAUSE_MAX);
    }
}

fn cannot_run(program: &OsStr, error: &std::io::Error) -> Failure {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => NO_SUCH_COMMAND,
        _ => CANNOT_RUN,
    };
    let program = program.to_string_lossy();
    let hint = "see that CMD after -- is a program";
    Failure::new(code, format!("cannot run {program}: {error}"), hint)
}

/// Sets whether programs that we start inherit the connection that the session is bound to.
fn hand_on(session: &Session, is_inherited: bool) -> Result<(), Failure> {
    let Some(descriptor) = session.descriptor() else { return Ok(()) };
    let flags = if is_inherited { FdFlags::empty() } else { FdFlags::CLOEXEC };
    rustix::io::fcntl_setfd(descriptor, flags)
        .map_err(|error| Failure::from(format!("cannot hand the connection on: {error}")))
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| BY_SIGNAL + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn pass_on(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // A command that has just ended needs no signal any more.
        let _ = kill_process(pid, signal);
    }
}

/// The signals that end programs; `None` for a signal that we ignore.
struct Signals {
    terminate: Option<Listener>,
    hangup: Option<Listener>,
    interrupt: Option<Listener>,
    quit: Option<Listener>,
    /// Whether there is a terminal, whose signals the command receives by itself.
    has_terminal: bool,
    witness: Option<Witness>,
    /// The last signal that was sent to the whole group.
    to_all: Option<Signal>,
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
            // Exactly the processes that have a terminal can open this file.
            has_terminal: std::fs::File::open("/dev/tty").is_ok(),
            witness: None,
            to_all: None,
        };
        signals.witness = Witness::start().await;
        Ok(signals)
    }

    /// The next signal.
    async fn any(&mut self) -> Signal {
        tokio::select! {
            () = came(&mut self.terminate) => Signal::TERM,
            () = came(&mut self.hangup) => Signal::HUP,
            () = came(&mut self.interrupt) => Signal::INT,
            () = came(&mut self.quit) => Signal::QUIT,
        }
    }

    /// The next signal that the command does not receive by itself.
    async fn next(&mut self) -> Signal {
        loop {
            let signal = self.any().await;
            if !self.all_got_it(signal).await {
                return signal;
            }
            self.to_all = Some(signal);
        }
    }

    /// Whether a signal was sent to the whole group, and so to the command too. Without the answer of a witness
    /// a terminal signal is assumed to be, because a command that gets Ctrl-C twice may end without cleaning
    /// up. Other signals are passed on, because a command that misses one would continue.
    async fn all_got_it(&mut self, signal: Signal) -> bool {
        let is_key = matches!(signal, Signal::INT | Signal::QUIT);
        let unless_known = self.has_terminal && is_key;
        let Some(mut witness) = self.witness.take() else { return unless_known };
        let answer = witness.answer().await;
        if answer == Answer::Here {
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
        if answer == Answer::Silent {
            return unless_known;
        }
        // If a signal is sent twice, the second one may arrive while no witness is ready: it is treated as the
        // same kind. Keys are often pressed in quick succession.
        for (listener, is_same) in [
            (&mut self.interrupt, is_key),
            (&mut self.quit, is_key),
            (&mut self.terminate, signal == Signal::TERM),
            (&mut self.hangup, signal == Signal::HUP),
        ] {
            if is_same {
                forget(listener).await;
            }
        }
        true
    }

    /// Drops the signals so far, which were meant for the command, which has ended.
    async fn forget(&mut self) {
        // A signal that arrived with the end of the command may be unread in the runtime's pipe: this lets it
        // be read.
        tokio::task::yield_now().await;
        for listener in [&mut self.interrupt, &mut self.quit, &mut self.terminate, &mut self.hangup]
        {
            forget(listener).await;
        }
    }

    /// If this signal killed the command and came from a key of the terminal, returns it, because we are to be
    /// killed by it too. The command may have ended before we noticed our own signal.
    async fn killed(&mut self, killed_by: Option<i32>) -> Option<Signal> {
        let is_it = |signal: &Signal| Some(signal.as_raw()) == killed_by;
        let signal = [Signal::INT, Signal::QUIT].into_iter().find(is_it);
        let is_key = match &mut self.witness {
            _ if signal.is_none() => false,
            _ if self.to_all == signal => true,
            Some(witness) => match witness.answer().await {
                Answer::Here => false,
                Answer::Gone => true,
                Answer::Silent => self.has_terminal,
            },
            None => self.has_terminal,
        };
        if let Some(witness) = self.witness.take() {
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

/// Drops a signal that arrived and was not read.
async fn forget(listener: &mut Option<Listener>) {
    tokio::select! {
        biased;
        () = came(listener) => {}
        () = std::future::ready(()) => {}
    }
}

/// The signals that a process ignores, one bit each, as in `/proc`.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
