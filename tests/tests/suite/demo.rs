//! The demo: it shows decisions of every kind, ends on every signal and option, and leaves nothing behind.

use paceline_tests::Scratch;
use paceline_tests::server::paceline_binary;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn demo(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = Command::new(paceline_binary());
    command.arg("demo").args(arguments).env("TMPDIR", scratch.path()).env_remove("COLUMNS");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn left_behind(scratch: &Scratch) -> usize {
    std::fs::read_dir(scratch.path()).unwrap().count()
}

/// A demo that has already printed something.
fn running(scratch: &Scratch) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = demo(scratch, &["--for", "10m"]).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    assert_eq!(left_behind(scratch), 1, "its directory");
    (child, stdout)
}

#[test]
fn it_shows_who_is_admitted_who_waits_and_who_is_refused_and_why() {
    let scratch = Scratch::new();
    let mut missing = vec![
        " runs in pool batch at priority -20",
        " runs in pool interactive at priority 10",
        " waits at checkpoint \"per-user\" (key \"crawler\")",
        " waits at checkpoint \"one-load-a-table\" (key ",
        " waits for resource \"",
        " refused: checkpoint \"per-user\" (key \"crawler\"): ",
        " refused: rejected by rule 10",
        " runs with lock deploy, fencing number ",
    ];
    let mut child = demo(&scratch, &["--for", "10m", "--seed", "7"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !missing.is_empty() {
        let line = lines.next().unwrap_or_else(|| panic!("no {missing:?}")).unwrap();
        assert!(!line.contains('\x1b'), "a pipe is no terminal: {line}");
        missing.retain(|part| !line.contains(part));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(lines.any(|line| line.unwrap() == "Go on with:"));
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!((child.wait().unwrap().code(), told.as_str()), (Some(0), ""));
    assert_eq!(left_behind(&scratch), 0);
}

#[test]
fn it_ends_by_itself_at_the_time_given() {
    let scratch = Scratch::new();
    let output = demo(&scratch, &["--for", "1s"]).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && shown.contains("\nIn 1 s "), "{shown}");
    assert_eq!(left_behind(&scratch), 0);
}

#[test]
fn signals_end_it_and_nothing_is_left_behind() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let scratch = Scratch::new();
        let (mut child, mut stdout) = running(&scratch);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal:?}");
        assert!(rest.contains("Go on with:"), "{rest}");
        assert_eq!(left_behind(&scratch), 0, "{signal:?}");
    }
}

/// A socket that takes no more bytes, and its reader.
fn full() -> (OwnedFd, UnixStream) {
    let (mut full, reader) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while full.write(&[b' '; 1 << 16]).is_ok() {}
    while full.write(b" ").is_ok() {}
    full.set_nonblocking(false).unwrap();
    (full.into(), reader)
}

#[test]
fn signals_end_it_also_when_its_output_is_stuck() {
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let scratch = Scratch::new();
        let (full, _reader) = full();
        let mut child = demo(&scratch, &["--for", "10m"]).stdout(full).spawn().unwrap();
        // The listeners are opened before the directory exists.
        while left_behind(&scratch) == 0 {
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{signal:?}");
        assert_eq!(left_behind(&scratch), 0, "{signal:?}");
    }
}

#[test]
fn it_ends_when_nobody_reads_any_more() {
    let scratch = Scratch::new();
    let (mut child, stdout) = running(&scratch);
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(left_behind(&scratch), 0);
}

/// In a terminal, which `script` creates: it draws frames on a separate page and restores the terminal.
#[test]
fn on_a_terminal_it_draws_frames_and_puts_the_terminal_back() {
    let script = Path::new("/usr/bin/script");
    if !script.exists() {
        return;
    }
    for colour in [true, false] {
        let scratch = Scratch::new();
        let words = format!("{} demo --for 1s", paceline_binary().display());
        let mut command = Command::new(script);
        command.args(["-qec", &words, "/dev/null"]).env("TMPDIR", scratch.path());
        command.env("TERM", "xterm").stdin(Stdio::null()).env_remove("NO_COLOR");
        if !colour {
            command.env("NO_COLOR", "1");
        }
        let shown = String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned();
        let (enter, leave) = ("\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l");
        assert!(shown.starts_with(enter), "{shown:?}");
        let (frames, after) = shown.split_once(leave).unwrap();
        assert!(frames.contains("LAST DECISIONS") && frames.contains("CHECKPOINT"), "{frames:?}");
        assert_eq!(frames.contains("\x1b[1m"), colour, "{frames:?}");
        assert!(after.starts_with("In 1 s "), "{after:?}");
        assert_eq!(left_behind(&scratch), 0);
    }
}
