//! Processes, told apart also when a number is used again.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;

/// A process, by its number and the moment it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Clock ticks from the boot of the machine to its start.
    start: u64,
}

impl Process {
    /// The process that has this number now; none if there is none that could be seen.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        look(pid).ok().flatten()
    }

    /// The user it runs for.
    #[must_use]
    pub fn user(&self) -> Option<u32> {
        std::fs::metadata(format!("/proc/{}", self.pid)).ok().map(|folder| folder.uid())
    }

    /// A process of a machine that is made up.
    #[must_use]
    pub const fn made(pid: u32, start: u64) -> Self {
        Self { pid, start }
    }

    /// What [`fmt::Display`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (pid, start) = text.split_once('@')?;
        Some(Self { pid: pid.parse().ok()?, start: start.parse().ok()? })
    }
}

/// The processes of a machine.
pub trait Processes: Send + Sync {
    /// Whether one is known to be dead: what cannot be seen may live.
    fn is_dead(&self, process: &Process) -> bool;

    /// Has `ended` called for each of some processes when it is dead, with what belongs to it.
    ///
    /// # Errors
    ///
    /// When they cannot be watched.
    fn watch(&self, processes: Vec<(Process, Vec<String>)>, ended: Ended) -> io::Result<()>;
}

/// Hears that a process is dead, with what belongs to it.
pub type Ended = Box<dyn Fn(Vec<String>) + Send + Sync>;

/// The processes of this machine.
#[derive(Clone, Copy, Debug)]
pub struct RealProcesses;

impl Processes for RealProcesses {
    fn is_dead(&self, process: &Process) -> bool {
        look(process.pid).is_ok_and(|now| now != Some(*process))
    }

    fn watch(&self, processes: Vec<(Process, Vec<String>)>, ended: Ended) -> io::Result<()> {
        watch_by(processes, ended, |pid| pidfd_open(pid, PidfdFlags::empty()))
    }
}

/// The process of this number, if it lives.
fn look(pid: u32) -> io::Result<Option<Process>> {
    let stat = match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some((state, start)) = parse_stat(&stat) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not what the kernel writes"));
    };
    let process = Process { pid, start };
    // One that nobody waited for is dead, unless only its first thread has ended.
    let lives = !matches!(state, "Z" | "X") || has_living_thread(pid);
    Ok(lives.then_some(process))
}

fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(Errno::NOENT.raw_os_error()) || code == Some(Errno::SRCH.raw_os_error())
}

/// The state of a process, and when it was started.
fn parse_stat(stat: &str) -> Option<(&str, u64)> {
    // The name of the program is in brackets and may have anything in it.
    let mut rest = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = rest.next()?;
    Some((state, rest.nth(18)?.parse().ok()?))
}

fn has_living_thread(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.filter_map(Result::ok).any(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        parse_stat(&stat).is_some_and(|(state, _)| !matches!(state, "Z" | "X"))
    })
}

/// How often processes are looked at that the system does not let us watch.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Watches processes by a thread that lasts as long as one of them lives. One that the system gives no
/// descriptor for is looked at every second.
fn watch_by<T: Send + 'static>(
    processes: Vec<(Process, T)>,
    ended: impl Fn(T) + Send + 'static,
    open: impl Fn(Pid) -> Result<OwnedFd, Errno>,
) -> io::Result<()> {
    let mut watched: Vec<(OwnedFd, T)> = Vec::new();
    let mut looked_at: Vec<(Process, T)> = Vec::new();
    for (process, of) in processes {
        let number = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
        let file = number.map(&open);
        // Opened before looking, so that it is of this process if that lives.
        match (RealProcesses.is_dead(&process), file) {
            (true, _) => ended(of),
            (false, Some(Ok(file))) => watched.push((file, of)),
            (false, _) => looked_at.push((process, of)),
        }
    }
    if !looked_at.is_empty() {
        let count = looked_at.len();
        tracing::warn!(count, "cannot watch processes; looking at them every second");
    }
    if watched.is_empty() && looked_at.is_empty() {
        return Ok(());
    }
    let thread = std::thread::Builder::new().name("paceline-watch".into());
    thread.spawn(move || wait_for_all(watched, looked_at, &ended)).map(drop)
}

fn wait_for_all<T>(
    mut watched: Vec<(OwnedFd, T)>,
    mut looked_at: Vec<(Process, T)>,
    ended: &impl Fn(T),
) {
    while !watched.is_empty() || !looked_at.is_empty() {
        let mut files: Vec<PollFd<'_>> =
            watched.iter().map(|(file, _)| PollFd::new(file, PollFlags::IN)).collect();
        match poll(&mut files, (!looked_at.is_empty()).then_some(&LOOK)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "cannot watch processes; what they hold stays held");
                return;
            }
        }
        let dead: Vec<bool> = files.iter().map(|file| !file.revents().is_empty()).collect();
        let mut dead = dead.into_iter();
        let over = watched.extract_if(.., |_| dead.next().unwrap_or(false));
        over.for_each(|(_, of)| ended(of));
        let over = looked_at.extract_if(.., |(process, _)| RealProcesses.is_dead(process));
        over.for_each(|(_, of)| ended(of));
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.pid, self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::{Process, Processes as _, RealProcesses, watch_by};
    use rustix::io::Errno;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_known_dead_when_it_is_c4() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(!RealProcesses.is_dead(&process));
        assert_eq!(Process::parse(&process.to_string()), Some(process));
        assert_eq!(process.user(), Process::of(std::process::id()).unwrap().user());
        let other = Process { start: process.start + 1, ..process };
        assert!(RealProcesses.is_dead(&other), "another one had this number");
        let (sender, receiver) = std::sync::mpsc::channel();
        let of = vec![(process, vec!["child".into()]), (other, vec!["other".into()])];
        RealProcesses.watch(of, Box::new(move |name| sender.send(name).unwrap())).unwrap();
        assert_eq!(receiver.recv().unwrap(), ["other"], "it was dead already");
        assert!(receiver.try_recv().is_err(), "the child lives");
        child.kill().unwrap();
        assert_eq!(receiver.recv().unwrap(), ["child"]);
        assert!(RealProcesses.is_dead(&process), "though nobody has waited for it");
        child.wait().unwrap();
        assert_eq!(Process::of(process.pid).filter(|now| *now == process), None);
    }

    /// As when all descriptors are in use.
    #[test]
    fn a_process_that_cannot_be_watched_is_looked_at_c4() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let ended = move |name| sender.send(name).unwrap();
        watch_by(vec![(process, "child")], ended, |_| Err(Errno::MFILE)).unwrap();
        assert!(receiver.try_recv().is_err(), "the child lives");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(receiver.recv().unwrap(), "child");
    }
}
