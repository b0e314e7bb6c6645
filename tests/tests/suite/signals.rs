//! Signals to `paceline permit`: a signal sent to it alone reaches the command, and a signal sent to its whole
//! process group, as by a terminal, reaches the command once.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Daemon, Launch, Scratch};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A terminal with a command that counts signals, and prints the counts when it is terminated.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    lines: BufReader<ChildStdout>,
    command_line: Pid,
}

/// The command: a shell whose traps run as soon as a signal arrives, because it only waits.
const COUNTER: &str = r#"
ints=0 quits=0
trap 'ints=$((ints + 1)); echo "got INT"' INT
trap 'quits=$((quits + 1)); echo "got QUIT"' QUIT
trap 'echo "ends $ints $quits"; exit 5' TERM
echo "runs $PPID"
sleep 1000 & sleeper=$!
trap 'kill -9 $sleeper' EXIT
while :; do wait; done
"#;

impl Terminal {
    fn open(daemon: &Daemon, scratch: &Scratch) -> Self {
        let counter = scratch.path().join("counter");
        std::fs::write(&counter, COUNTER).unwrap();
        let (program, data) = (paceline_binary(), daemon.data());
        let line = format!(
            "exec '{}' permit --data '{}' -- sh '{}'",
            program.display(),
            data.display(),
            counter.display()
        );
        let mut script = Command::new("script")
            .args(["-qefc", &line, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script of util-linux can be run");
        let (keys, lines) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        let mut lines = BufReader::new(lines);
        let runs = next(&mut lines, "runs ");
        let command_line = Pid::from_raw(runs.parse().unwrap()).unwrap();
        Self { script, keys, lines, command_line }
    }

    fn press(&mut self, key: &[u8]) {
        self.keys.write_all(key).unwrap();
        self.keys.flush().unwrap();
    }

    fn kill(&self, signal: Signal) {
        kill_process(self.command_line, signal).unwrap();
    }

    fn next(&mut self, words: &str) -> String {
        next(&mut self.lines, words)
    }

    /// Terminates the command, and returns how many of each it got.
    fn end(mut self) -> String {
        self.kill(Signal::TERM);
        let counted = self.next("ends ");
        assert_eq!(self.script.wait().unwrap().code(), Some(5));
        counted
    }
}

/// The text after these words in the next line that contains them.
fn next(lines: &mut impl std::io::BufRead, words: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "no line with {words:?}");
        if let Some((_, rest)) = line.split_once(words) {
            return rest.trim_end().to_owned();
        }
    }
}

#[test]
fn a_signal_to_the_command_line_alone_reaches_the_command_once() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut terminal = Terminal::open(&daemon, &scratch);
    terminal.kill(Signal::INT);
    terminal.next("got INT");
    terminal.kill(Signal::QUIT);
    terminal.next("got QUIT");
    terminal.kill(Signal::INT);
    terminal.next("got INT");
    assert_eq!(terminal.end(), "2 1");
}

#[test]
fn a_key_of_the_terminal_reaches_the_command_once() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut terminal = Terminal::open(&daemon, &scratch);
    for _ in 0..10 {
        terminal.press(b"\x03");
        terminal.next("got INT");
        terminal.press(b"\x1c");
        terminal.next("got QUIT");
    }
    assert_eq!(terminal.end(), "10 10");
}

/// A shell ends its script after Ctrl-C exactly if the signal killed the command.
#[test]
fn a_script_ends_with_the_command_that_a_key_kills() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let file = scratch.path().join("script");
    let (program, data) = (paceline_binary(), daemon.data());
    let hold = format!("'{}' permit --data '{}' --", program.display(), data.display());
    let text = format!("{hold} sh -c 'echo runs; exec sleep 1000'\necho went on\n");
    std::fs::write(&file, text).unwrap();
    let mut script = Command::new("script")
        .args(["-qefc", &format!("exec bash '{}'", file.display()), "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(script.stdout.take().unwrap());
    next(&mut lines, "runs");
    let mut keys = script.stdin.take().unwrap();
    keys.write_all(b"\x03").unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("went on"), "{rest}");
    assert_eq!(script.wait().unwrap().code(), Some(128 + 2));
    assert_eq!(daemon.api().get("/v1/permits").expect(200), serde_json::json!([]));
}

/// Counts signals until its input ends, and then prints the counts.
const COUNTER_OF_ALL: &str = r#"
import os, select, signal
# Every signal leaves a byte in this pipe, so that one which comes just before the wait ends that, too.
came, comes = os.pipe()
os.set_blocking(comes, False)
signal.set_wakeup_fd(comes)
for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"):
    signal.signal(getattr(signal, name), lambda number, frame: None)
os.write(1, b"runs\n")
count = 0
while True:
    ready, _, _ = select.select([came, 0], [], [])
    if came in ready:
        os.read(came, 1)
        count += 1
        os.write(1, b"got it\n")
    else:
        break
print("ends", count)
"#;

/// `paceline permit` in its own process group, with a command that counts signals.
struct Counting {
    child: Child,
    keys: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Counting {
    fn start(daemon: &Daemon) -> Self {
        let mut command = Command::new(paceline_binary());
        command.args(["permit", "--data"]).arg(daemon.data());
        command.args(["--", "python3", "-c", COUNTER_OF_ALL]);
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let keys = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        next(&mut lines, "runs");
        Self { child, keys, lines }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Stops the process by which the command line detects whether the whole group got a signal.
    fn stop_witness(&self) {
        let children = |pid: Pid| {
            let pid = pid.as_raw_pid();
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap()
        };
        let is_witness = |pid: &&str| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("--witness")
        };
        // A witness that a signal ended is replaced.
        let witness = loop {
            let children = children(self.pid());
            if let Some(pid) = children.split_whitespace().find(is_witness) {
                break pid.parse().unwrap();
            }
        };
        kill_process(Pid::from_raw(witness).unwrap(), Signal::STOP).unwrap();
    }

    /// Ends the input of the command, and returns how many signals it got.
    fn end(mut self) -> String {
        drop(self.keys);
        let counted = next(&mut self.lines, "ends ");
        assert!(self.child.wait().unwrap().success());
        counted
    }
}

/// A signal to the whole process group reaches the command once, with or without a terminal: if the command got it
/// itself, it is not forwarded.
#[test]
fn a_signal_to_the_whole_group_reaches_the_command_once() {
    const TIMES: usize = 5;
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        let mut counting = Counting::start(&daemon);
        for _ in 0..TIMES {
            kill_process_group(counting.pid(), signal).unwrap();
            next(&mut counting.lines, "got it");
        }
        assert_eq!(counting.end(), TIMES.to_string(), "{signal:?}");
    }
}

/// A signal that is sent to the command line alone reaches the command even if it is unknown whether others got it.
#[test]
fn a_signal_is_not_lost_with_its_witness() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut counting = Counting::start(&daemon);
    for signal in [Signal::TERM, Signal::HUP] {
        counting.stop_witness();
        kill_process(counting.pid(), signal).unwrap();
        next(&mut counting.lines, "got it");
    }
    assert_eq!(counting.end(), "2");
}
