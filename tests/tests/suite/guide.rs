//! The guide for newcomers, followed literally.

use paceline_tests::Scratch;
use paceline_tests::guide::{Step, fits, steps};
use paceline_tests::server::paceline_binary;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const GUIDE: &str = include_str!("../../../docs/getting-started.md");

/// What the shell prints after the commands of a block.
const END: &str = "@@end of the block@@";

/// How long something may take to become visible.
const PATIENCE: Duration = Duration::from_secs(30);

/// A reader of the guide: a directory, a shell, and commands in other terminals.
struct Reader {
    scratch: Scratch,
    shell: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    daemon: Option<Child>,
    others: Vec<Child>,
    /// The last output.
    shown: String,
}

fn bash(directory: &Path) -> Command {
    let mut command = Command::new("bash");
    command.current_dir(directory).env("HOME", directory);
    for name in ["PACELINE_DATA", "PACELINE_API", "PACELINE_TOKEN", "COLUMNS", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    let binary = paceline_binary();
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", binary.parent().unwrap().display()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

impl Reader {
    fn new() -> Self {
        let scratch = Scratch::new();
        let mut shell = bash(scratch.path()).arg("--norc").spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        let output = BufReader::new(shell.stdout.take().unwrap());
        writeln!(input, "exec 2>&1").unwrap();
        let (daemon, others, shown) = (None, vec![], String::new());
        Self { scratch, shell, input, output, daemon, others, shown }
    }

    /// Runs commands in the shell; returns their exit code.
    fn run(&mut self, block: &str) -> i32 {
        // The commands must not read the shell's own input.
        writeln!(self.input, "{{\n{block}\n}} < /dev/null; echo \"{END} $?\"").unwrap();
        self.shown.clear();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the shell ended");
            if let Some((before, code)) = line.split_once(END) {
                self.shown.push_str(before);
                return code.trim().parse().unwrap();
            }
            self.shown.push_str(&line);
        }
    }

    fn serve(&mut self, block: &str) {
        let mut command = bash(self.scratch.path());
        let mut child = command.args(["-c", &format!("exec {block}")]).spawn().unwrap();
        self.shown.clear();
        let mut ready = BufReader::new(child.stdout.take().unwrap());
        ready.read_line(&mut self.shown).unwrap();
        self.daemon = Some(child);
    }

    /// Starts commands that continue to run, and waits until the daemon has their request.
    fn background(&mut self, block: &str) {
        let before = self.requests();
        let mut command = bash(self.scratch.path());
        command.env("PACELINE_DATA", self.data()).args(["-c", &format!("exec {block}")]);
        self.others.push(command.spawn().unwrap());
        let started = Instant::now();
        while self.requests() <= before {
            assert!(started.elapsed() < PATIENCE, "{block}: nobody asked");
        }
    }

    fn data(&self) -> PathBuf {
        self.scratch.join("run")
    }

    fn requests(&self) -> usize {
        let mut command = Command::new(paceline_binary());
        let output = command.args(["ps", "--json"]).env("PACELINE_DATA", self.data()).output();
        let list: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        list.as_array().unwrap().len()
    }

    /// Presses Enter in all other terminals, and waits for their output.
    fn enter(&mut self) {
        self.shown.clear();
        for child in &mut self.others {
            // A command that reads nothing may have exited.
            let _ = child.stdin.take().unwrap().write_all(b"\n");
        }
        for mut child in std::mem::take(&mut self.others) {
            child.stdout.take().unwrap().read_to_string(&mut self.shown).unwrap();
            assert!(child.wait().unwrap().success());
        }
    }

    fn follow(&mut self, line: usize, step: &Step) {
        match step {
            Step::Run(block, expected) => {
                let code = self.run(block);
                assert_eq!(code, *expected, "line {line}: {block}\n{}", self.shown);
            }
            Step::Serve(block) => self.serve(block),
            Step::Background(block) => self.background(block),
            Step::File(name, text) => drop(self.scratch.write(name, format!("{text}\n"))),
            Step::Enter(expected) => {
                self.enter();
                self.compare(line, expected);
            }
            Step::Shows(expected) => self.compare(line, expected),
        }
    }

    fn compare(&self, line: usize, expected: &str) {
        let shown = &self.shown;
        assert!(fits(expected, shown), "line {line} shows\n{expected}\nbut it was\n{shown}");
    }

    /// Stops the daemon as the guide says.
    fn end(mut self) {
        let mut daemon = self.daemon.take().expect("the guide starts a daemon");
        kill_process(Pid::from_child(&daemon), Signal::INT).unwrap();
        assert!(daemon.wait().unwrap().success());
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for child in self.others.iter_mut().chain(&mut self.daemon).chain([&mut self.shell]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let mut reader = Reader::new();
    let steps = steps(GUIDE);
    assert!(steps.len() > 20, "the guide is followed");
    for (line, step) in &steps {
        reader.follow(*line, step);
    }
    reader.end();
}
