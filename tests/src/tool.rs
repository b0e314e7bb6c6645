//! Other programs: Open vSwitch's tools, Python, and Paceline's own command line.
//!
//! Owns the child process of a [`Running`] program, which is killed on drop. Promises that waiting for a line ends
//! within [`READ_TIMEOUT`]. Never hides the output of a program: it is in the error.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use crate::client::READ_TIMEOUT;

/// Runs a program until it exits and returns its standard output.
///
/// # Errors
/// If it cannot be run or fails, with its standard error.
pub fn run(program: &str, args: &[&str]) -> Result<String, String> {
    run_from(program, args, Stdio::null())
}

/// As [`run`], with the file at `path` as standard input.
///
/// # Errors
/// As [`run`].
pub fn run_with_file(program: &str, args: &[&str], path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    run_from(program, args, file.into())
}

fn run_from(program: &str, args: &[&str], stdin: Stdio) -> Result<String, String> {
    let output =
        Command::new(program).args(args).stdin(stdin).output().map_err(|error| {
            format!("cannot run {program} ({error}): see `./test` for packages")
        })?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(stdout)
    } else {
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(format!("{program} {}: {}\n{stdout}{stderr}", args.join(" "), output.status))
    }
}

/// A program that continues to run and writes lines.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// Starts the program.
    ///
    /// # Panics
    /// If it cannot be run.
    #[must_use]
    pub fn start(program: &str, args: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
        let stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    /// The next line it writes.
    ///
    /// # Panics
    /// If it exits, or no line arrives in time.
    #[must_use]
    pub fn line(&self) -> String {
        match self.lines.recv_timeout(READ_TIMEOUT) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("no line came within {READ_TIMEOUT:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the program ended"),
        }
    }
}

impl Running {
    /// The lines that it wrote and that were not read yet.
    #[must_use]
    pub fn told(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
