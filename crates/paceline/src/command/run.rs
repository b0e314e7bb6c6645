//! Runs a command that holds something while it runs.
//!
//! What is held hangs on a session that is bound to a connection. The command inherits that
//! connection, so the session ends only when both have exited: killing this process does not release what
//! the command still uses. It begins when the daemon knows its process (`starter`). When the command ends, we end the session ourselves, so that a process it
//! left behind keeps nothing. Over TCP the session has a lease, which we renew; there what is held is
//! free one lease after we are killed.
//!
//! Signals are passed on to the command, except those that were sent to our whole process group, as a
//! terminal (Ctrl-C, Ctrl-\, the end of the line) and `kill -- -GROUP` do: the command got them too, and what it
//! makes of them is only waited for. A [`Witness`] tells which they are. Those that we were started to ignore, as
//! by `nohup`, are not listened for, so that the command ignores them too. Signals are acted on whatever the daemon
//! does: it is only asked in other threads. One that comes while it is told what is given back ends us, and then
//! the end of our connection tells it.

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

/// A command that cannot be run, and one that is not there, as shells tell them.
const CANNOT_RUN: u8 = 126;
const NO_SUCH_COMMAND: u8 = 127;
/// A command that a signal ended, as shells tell it.
const BY_SIGNAL: i32 = 128;

/// How often a witness is replaced for one signal; a new one may get the next signal before it stands there.
const WITNESSES_MAX: usize = 5;

/// How long the command waits for the daemon to know its process.
const KNOWN_MAX: Duration = Duration::from_secs(5);

/// How long to retry to report the process to a daemon that went away between the grant and the start of the command, and the
/// pauses.
const AWAY_MAX: Duration = Duration::from_secs(60);
const AWAY_PAUSE: Duration = Duration::from_millis(10);
const AWAY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// What is held, and what the command learns of it.
pub struct Held<'a> {
    pub client: &'a Client,
    pub session: Session,
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

/// Runs the command, and gives back what was held when it has ended.
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
        // Before the command starts, so that no signal finds us without it.
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

/// Tells on standard error if something was not given back, which is no failure of the command.
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

/// Lets the command run once the daemon knows its process, if that waits for it.
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
    // A daemon that is away or hangs keeps the session while this process lives, and learns of the command later.
    if let Ok(Ok(Err(error))) = timeout(KNOWN_MAX, told).await
        && !error.is_unreachable()
    {
        return Err(error.into());
    }
    is_told.set(true);
    waiting.begin().await.map_err(|error| cannot_run(program, &error))
}

/// Has the daemon know the command's process, and tells how the first try ended. One that was restarted since the grant
/// has taken the session over.
fn make_known(session: &Session, pid: u32, first: oneshot::Sender<Result<(), Error>>) {
    let (since, mut pause, mut first) = (Instant::now(), AWAY_PAUSE, Some(first));
    loop {
        let known = session.add_process(pid);
        let is_away = known.as_ref().is_err_and(Error::is_unreachable);
        if let Some(first) = first.take() {
            // Nobody listens any more if it took long.
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

/// Whether programs that we start inherit the connection that the session is bound to.
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
    /// What was sent to the whole group last.
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
            // It can be opened exactly by processes that have one.
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

    /// The next signal that the command does not get by itself.
    async fn next(&mut self) -> Signal {
        loop {
            let signal = self.any().await;
            if !self.all_got_it(signal).await {
                return signal;
            }
            self.to_all = Some(signal);
        }
    }

    /// Whether the signal that came was sent to the whole group, and so to the command too. Without a
    /// witness that says so a key of the terminal is taken for that, because a command that gets Ctrl-C twice may end
    /// without tidying up; what ends programs otherwise is passed on, because one that misses it goes on.
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
        // A signal that is sent twice may come for the second time while nobody can say where it went: it is
        // taken for the same kind. Keys are pressed in a hurry, also one after the other.
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

    /// What came until now was meant for the command, which has ended.
    async fn forget(&mut self) {
        // One that came with the end of the command may be unread in the runtime's pipe: this lets it be read.
        tokio::task::yield_now().await;
        for listener in [&mut self.interrupt, &mut self.quit, &mut self.terminate, &mut self.hangup]
        {
            forget(listener).await;
        }
    }

    /// After a command that this signal killed, if one did: the same if it came from a key of the terminal, and
    /// we are to be killed by it, too. The command may have ended before we looked at our own signal.
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

/// Takes out what came and was not looked at.
async fn forget(listener: &mut Option<Listener>) {
    tokio::select! {
        biased;
        () = came(listener) => {}
        () = std::future::ready(()) => {}
    }
}

/// The signals that a process ignores, one bit each, as the system shows them.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
