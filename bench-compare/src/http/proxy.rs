//! The proxies: each is started in its own directory on a free port, and is ready when it answers.
//!
//! A proxy is stopped on drop, with its worker processes, so that no run leaves one behind.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::config::{self, Job, Limit};
use super::pin::Pin;
use crate::failure::{Failure, Outcome};
use crate::machine::{self, Fact};
use crate::process::{self, Memory};

/// How long a proxy may take to answer, and to stop.
const START_MAX: Duration = Duration::from_secs(20);
const STOP_MAX: Duration = Duration::from_secs(3);

/// The proxies that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Paceline.
    Paceline,
    /// HAProxy, one process with threads.
    Haproxy,
    /// nginx, a process for each worker.
    Nginx,
}

impl Kind {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paceline => "paceline",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
        }
    }
}

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    /// Which one it is.
    pub kind: Kind,
    /// Where it listens on loopback.
    pub port: u16,
    child: Child,
}

/// The settings that a proxy is started with.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// The Paceline binary.
    pub paceline: &'a Path,
    /// The parent of its directory.
    pub dir: &'a Path,
    /// Its threads.
    pub threads: usize,
    /// Where the upstream listens.
    pub upstream: u16,
    /// Its limit.
    pub limit: Limit,
    /// Which processor it runs on.
    pub pin: Pin,
}

impl Proxy {
    /// Starts a proxy and waits until the upstream answers through it; none if it does not support this limit.
    pub fn start(kind: Kind, setup: &Setup<'_>) -> Outcome<Option<Self>> {
        let Setup { threads, upstream, limit, .. } = *setup;
        let job = Job { threads, port: free_port()?, upstream, limit };
        let dir = setup.dir.join(format!("{}-{}", kind.name(), job.port));
        fs::create_dir_all(&dir).map_err(|error| Failure::io(dir.display(), &error))?;
        let file = dir.join("config");
        let text = match kind {
            Kind::Paceline => Some(config::paceline(&job)),
            Kind::Haproxy => config::haproxy(&job),
            Kind::Nginx => config::nginx(&job, &dir),
        };
        let Some(text) = text else { return Ok(None) };
        fs::write(&file, text).map_err(|error| Failure::io(file.display(), &error))?;
        let mut command = command(kind, setup, &dir, &file);
        let log = File::create(dir.join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().map_err(|error| Failure::io(kind.name(), &error))?;
        let mut proxy = Self { kind, port: job.port, child };
        proxy.wait(&dir)?;
        Ok(Some(proxy))
    }

    fn wait(&mut self, dir: &Path) -> Outcome<()> {
        let deadline = Instant::now() + START_MAX;
        while !answers(self.port) {
            let log = || fs::read_to_string(dir.join("log")).unwrap_or_default();
            if let Some(status) = self.child.try_wait()? {
                let name = self.kind.name();
                return Err(Failure::new(format!("{name} {status}: {}", log().trim())));
            }
            if Instant::now() > deadline {
                let name = self.kind.name();
                return Err(Failure::new(format!("{name} does not answer: {}", log().trim())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// The processor time of all its processes so far.
    pub fn cpu(&self) -> Outcome<Duration> {
        process::tree(self.child.id()).into_iter().map(process::cpu).sum()
    }

    /// The memory of all its processes, shared pages split among them.
    pub fn memory(&self) -> Outcome<u64> {
        let memory = |pid| process::memory(pid).map(|Memory { proportional, .. }| proportional);
        process::tree(self.child.id()).into_iter().map(memory).sum()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let all = process::tree(self.child.id());
        // nginx's workers end when their master gets the signal.
        signal(self.child.id(), Signal::TERM);
        let deadline = Instant::now() + STOP_MAX;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            all.into_iter().for_each(|pid| signal(pid, Signal::KILL));
            let _ = self.child.wait();
        }
    }
}

/// Whether a request is answered with 200.
fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(STOP_MAX))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer.starts_with(b"HTTP/1.1 200 "))
    };
    ask().unwrap_or(false)
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

fn command(kind: Kind, setup: &Setup<'_>, dir: &Path, file: &Path) -> Command {
    let mut command = setup.pin.command(&program(kind, setup.paceline));
    match kind {
        Kind::Paceline => {
            command.args(["serve", "--api", "none", "--sql", "none", "--data"]);
            command.arg(dir.join("data")).arg("--config").arg(file);
        }
        Kind::Haproxy => {
            command.args(["-db", "-q", "-f"]).arg(file);
        }
        Kind::Nginx => {
            command.arg("-e").arg(dir.join("error")).arg("-p").arg(dir).arg("-c").arg(file);
        }
    }
    command
}

/// The path of a program. Debian installs some of them where only root's `PATH` looks.
fn program(kind: Kind, paceline: &Path) -> PathBuf {
    if kind == Kind::Paceline {
        return paceline.into();
    }
    let debian = Path::new("/usr/sbin").join(kind.name());
    if debian.exists() { debian } else { kind.name().into() }
}

fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Installs the peers and `wrk` from Debian's archive.
pub fn install() -> Outcome<()> {
    let words = ["install", "-y", "--no-install-recommends", "haproxy", "nginx-light", "wrk"];
    let status = Command::new("apt-get")
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("apt-get: {status}"))) }
}

/// Returns an error if one of the peers, or `wrk`, cannot be run.
pub fn check() -> Outcome<()> {
    let peers = [Kind::Haproxy, Kind::Nginx].map(|kind| program(kind, Path::new("")));
    for program in peers.into_iter().chain(["wrk".into()]) {
        let mut asked = Command::new(&program);
        asked.arg("-v").stdout(Stdio::null()).stderr(Stdio::null());
        asked.status().map_err(|error| {
            let name = program.display();
            Failure::new(format!(
                "{name}: {error}; --install installs what is missing, \
                 or: apt-get install haproxy nginx-light wrk"
            ))
        })?;
    }
    Ok(())
}

/// The versions that the programs report.
pub fn versions(kinds: &[Kind], paceline: &Path) -> Vec<Fact> {
    let mut facts: Vec<Fact> =
        kinds.iter().map(|&kind| (kind.name(), version(kind, paceline))).collect();
    let wrk = Command::new("wrk").arg("-v").output().ok();
    let wrk = wrk.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let wrk = wrk.and_then(|text| text.split(" Copy").next().map(String::from));
    facts.push(("wrk", wrk.unwrap_or_else(machine::unknown)));
    facts
}

fn version(kind: Kind, paceline: &Path) -> String {
    let flag = if kind == Kind::Paceline { "--version" } else { "-v" };
    let output = Command::new(program(kind, paceline)).arg(flag).output().ok();
    let text = output.map(|output| [output.stdout, output.stderr].concat());
    let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
    let line = text.and_then(|text| text.lines().next().map(String::from));
    line.unwrap_or_else(machine::unknown)
}
