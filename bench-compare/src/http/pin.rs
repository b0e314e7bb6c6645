//! How programs are run: on which processor, and never longer than this one.
//!
//! With one thread, the proxy has a processor for itself and all other processes share another one. So the proxy is
//! always busy, and the scheduler's choices do not affect the figure. With more threads no process is pinned. Pinning
//! needs `taskset` and two processors; without them nothing is pinned. If `setpriv` is available, the kernel ends the
//! program when this one is killed. A run that ends normally stops the program itself.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Where a process may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// Anywhere.
    Free,
    /// On the processor of the proxy.
    Proxy,
    /// On the processor of all other processes.
    Others,
}

impl Pin {
    /// A command that runs `program` there. Each wrapper replaces itself with the next program, so the process id is
    /// the program's.
    pub fn command(self, program: &Path) -> Command {
        let processor = match self {
            Self::Free => None,
            Self::Proxy => Some("0"),
            Self::Others => Some("1"),
        };
        let mut words: Vec<&OsStr> = Vec::new();
        if is_mortal() {
            words.extend(["setpriv", "--pdeathsig", "TERM"].map(OsStr::new));
        }
        if let Some(processor) = processor.filter(|_| is_possible()) {
            words.extend(["taskset", "-c", processor].map(OsStr::new));
        }
        words.push(program.as_os_str());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    }
}

/// Whether a program can be made to end with this one.
fn is_mortal() -> bool {
    static MORTAL: OnceLock<bool> = OnceLock::new();
    *MORTAL.get_or_init(|| works("setpriv", &["--pdeathsig", "TERM", "true"]))
}

/// Whether two processes can be pinned to different processors.
pub fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        processors > 1 && works("taskset", &["-c", "0,1", "true"])
    })
}

fn works(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program).args(args).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
