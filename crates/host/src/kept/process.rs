//! Processes, identified so that a reused number is not mistaken for the old process.

use super::watching::Watching;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;

/// A process, by its number and its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Clock ticks from the boot of the machine to its start.
    start: u64,
}

impl Process {
    /// The process that has this number now; none if no such process is visible.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        look(pid).ok().flatten()
    }

    /// The user it runs as.
    #[must_use]
    pub fn user(&self) -> Option<u32> {
        std::fs::metadata(format!("/proc/{}", self.pid)).ok().map(|folder| folder.uid())
    }

    /// A process of a simulated machine.
    #[must_use]
    pub const fn made(pid: u32, start: u64) -> Self {
        Self { pid, start }
    }

    /// Parses the text that [`fmt::Display`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (pid, start) = text.split_once('@')?;
        Some(Self { pid: pid.parse().ok()?, start: start.parse().ok()? })
    }
}

/// The processes of a machine.
pub trait Processes: Send + Sync {
    /// Whether a process is known to be dead. A process that is not visible may be alive.
    fn is_dead(&self, process: &Process) -> bool;

    /// Calls `ended` for each of these processes when it is dead, with the names that belong to it.
    ///
    /// # Errors
    ///
    /// When they cannot be watched.
    fn watch(&self, processes: Vec<(Process, Vec<String>)>, ended: Ended) -> io::Result<()>;
}

/// Called when a process is dead, with the names that belong to it.
pub type Ended = Box<dyn Fn(Vec<String>) + Send + Sync>;

/// The processes of this machine.
#[derive(Default)]
pub struct RealProcesses(Watching);

impl RealProcesses {
    pub(super) fn is_known_dead(process: &Process) -> bool {
        look(process.pid).is_ok_and(|now| now != Some(*process))
    }
}

impl Processes for RealProcesses {
    fn is_dead(&self, process: &Process) -> bool {
        Self::is_known_dead(process)
    }

    fn watch(&self, processes: Vec<(Process, Vec<String>)>, ended: Ended) -> io::Result<()> {
        self.0.watch(processes, ended)
    }
}

impl fmt::Debug for RealProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealProcesses").finish_non_exhaustive()
    }
}

/// The process with this number, if it is alive.
fn look(pid: u32) -> io::Result<Option<Process>> {
    let stat = match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if is_gone(&error) => return is_unused(pid).map(|()| None),
        Err(error) => return Err(error),
    };
    let Some((state, start)) = parse_stat(&stat) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "unexpected contents of /proc/PID/stat",
        ));
    };
    let process = Process { pid, start };
    // A zombie is dead, unless only its first thread has ended.
    let lives = !matches!(state, "Z" | "X") || has_living_thread(pid);
    Ok(lives.then_some(process))
}

fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(Errno::NOENT.raw_os_error()) || code == Some(Errno::SRCH.raw_os_error())
}

/// Checks that no process has a number that is missing in `/proc`. `/proc` may be mounted so that it hides the
/// processes of other users, but the system call knows all of them.
fn is_unused(pid: u32) -> io::Result<()> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(number) = number else { return Ok(()) };
    match pidfd_open(number, PidfdFlags::empty()) {
        Err(Errno::SRCH) => Ok(()),
        Ok(_) => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "the process is hidden in /proc"))
        }
        Err(error) => Err(error.into()),
    }
}

/// The state of a process, and when it was started.
fn parse_stat(stat: &str) -> Option<(&str, u64)> {
    // The name of the program is in parentheses and may contain any character.
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

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.pid, self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::{Process, Processes, RealProcesses, Watching};
    use rustix::io::Errno;
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::ThreadId;

    fn begin() -> (Child, Process) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        (child, process)
    }

    fn kill(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The names of ended processes, and the thread that reports them.
    fn watch(
        processes: &RealProcesses,
        of: Vec<(Process, Vec<String>)>,
    ) -> Receiver<(Vec<String>, ThreadId)> {
        let (sender, receiver) = channel();
        let ended = move |names| sender.send((names, std::thread::current().id())).unwrap();
        processes.watch(of, Box::new(ended)).unwrap();
        receiver
    }

    #[test]
    fn a_process_is_known_dead_when_it_is_c4() {
        let processes = RealProcesses::default();
        let (mut child, process) = begin();
        assert!(!processes.is_dead(&process));
        assert_eq!(Process::parse(&process.to_string()), Some(process));
        assert_eq!(process.user(), Process::of(std::process::id()).unwrap().user());
        let other = Process { start: process.start + 1, ..process };
        assert!(processes.is_dead(&other), "another one had this number");
        let of = vec![(process, vec!["child".into()]), (other, vec!["other".into()])];
        let receiver = watch(&processes, of);
        assert_eq!(receiver.recv().unwrap().0, ["other"], "it was dead already");
        assert!(receiver.try_recv().is_err(), "the child lives");
        child.kill().unwrap();
        assert_eq!(receiver.recv().unwrap().0, ["child"]);
        assert!(processes.is_dead(&process), "though nobody has waited for it");
        child.wait().unwrap();
        assert_eq!(Process::of(process.pid).filter(|now| *now == process), None);
    }

    /// A process that is missing in `/proc` may be hidden there: only the system call can tell that a number is
    /// unused.
    #[test]
    fn a_process_that_proc_does_not_show_may_live_c4() {
        let (child, process) = begin();
        assert!(super::is_unused(process.pid).is_err());
        kill(child);
        assert!(super::is_unused(process.pid).is_ok());
    }

    /// D1: however many processes are watched, and however many names belong to each, one thread does it.
    #[test]
    fn one_thread_watches_all_processes_d1() {
        let processes = RealProcesses::default();
        let children: Vec<(Child, Process)> = (0..3).map(|_| begin()).collect();
        let mut receivers = Vec::new();
        for name in ["a", "b"] {
            for (_, process) in &children {
                receivers.push(watch(&processes, vec![(*process, vec![name.to_owned()])]));
            }
        }
        children.into_iter().for_each(|(child, _)| kill(child));
        let told: Vec<(Vec<String>, ThreadId)> =
            receivers.iter().map(|receiver| receiver.recv().unwrap()).collect();
        let names: Vec<&str> = told.iter().flat_map(|(names, _)| names).map(|n| &**n).collect();
        assert_eq!(names, ["a", "a", "a", "b", "b", "b"]);
        assert!(told.iter().all(|(_, thread)| *thread == told[0].1), "{told:?}");
    }

    /// As when all descriptors are in use, also if the thread waits for others already.
    #[test]
    fn a_process_that_cannot_be_watched_is_looked_at_c4() {
        let processes = RealProcesses(Watching::by(|_| Err(Errno::MFILE)));
        let ((first, process), (second, other)) = (begin(), begin());
        let receiver = watch(&processes, vec![(process, vec!["first".into()])]);
        let later = watch(&processes, vec![(other, vec!["second".into()])]);
        assert!(receiver.try_recv().is_err(), "the child lives");
        kill(first);
        assert_eq!(receiver.recv().unwrap().0, ["first"]);
        kill(second);
        assert_eq!(later.recv().unwrap().0, ["second"]);
    }

    /// Each process has one descriptor, however many names belong to it.
    #[test]
    fn a_process_is_opened_once_d1() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static OPENED: AtomicUsize = AtomicUsize::new(0);
        let processes = RealProcesses(Watching::by(|pid| {
            OPENED.fetch_add(1, Ordering::Relaxed);
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
        }));
        let (child, process) = begin();
        let receivers: Vec<_> =
            (0..10).map(|_| watch(&processes, vec![(process, vec!["x".into()])])).collect();
        assert_eq!(OPENED.load(Ordering::Relaxed), 1);
        kill(child);
        receivers.iter().for_each(|receiver| assert_eq!(receiver.recv().unwrap().0, ["x"]));
    }
}
