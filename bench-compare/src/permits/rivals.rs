//! The servers of this part: each is started in its own directory, and is ready when it answers.
//!
//! A server is killed on drop, so that no run leaves a process behind.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};
use crate::machine::{self, Fact};

/// How long a server may take to answer for the first time.
const START_MAX: Duration = Duration::from_secs(20);

/// The checkpoints of Paceline: a rate that refuses no request here, and room for all clients at once.
const CONFIG: &str = "\
[[checkpoint]]
name = \"rate\"
at = \"frontend api\"
number = 1
rate = \"1000000/s\"
burst = 1000000
queue = { max_len = 1000, max_delay = \"5s\" }

[[checkpoint]]
name = \"at-once\"
at = \"frontend api\"
number = 2
concurrency = 1000
queue = { max_len = 1000, max_delay = \"5s\" }
";

/// The servers that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rival {
    /// Paceline.
    Paceline,
    /// Redis on a unix socket, without persistence.
    Redis,
    /// etcd on loopback TCP, one member.
    Etcd,
}

impl Rival {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paceline => "paceline",
            Self::Redis => "redis",
            Self::Etcd => "etcd",
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Running {
    /// Which one it is.
    pub rival: Rival,
    child: Child,
    address: Address,
}

#[derive(Debug)]
enum Address {
    Unix(PathBuf),
    Tcp(u16),
}

impl Running {
    /// Starts `rival` with an empty directory and waits until it accepts connections.
    pub fn start(rival: Rival, paceline: &Path, dir: &Path) -> Outcome<Self> {
        let _ = fs::remove_dir_all(dir);
        fs::create_dir_all(dir).map_err(|error| Failure::io(dir.display(), &error))?;
        let (mut command, address) = match rival {
            Rival::Paceline => paceline_command(paceline, dir)?,
            Rival::Redis => redis_command(dir),
            Rival::Etcd => etcd_command(dir)?,
        };
        let log = File::create(dir.join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| {
            Failure::new(format!(
                "{program}: {error}; --install installs what is missing, \
                 or: apt-get install redis-server etcd-server"
            ))
        })?;
        let mut running = Self { rival, child, address };
        running.wait(dir)?;
        Ok(running)
    }

    fn wait(&mut self, dir: &Path) -> Outcome<()> {
        let deadline = Instant::now() + START_MAX;
        while self.connect().is_err() || !self.is_ready() {
            if let Some(status) = self.child.try_wait()? {
                let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
                return Err(Failure::new(format!("{} {status}: {log}", self.rival.name())));
            }
            if Instant::now() > deadline {
                return Err(Failure::new(format!("{} does not answer", self.rival.name())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Whether it is ready to work: etcd accepts connections before it has elected itself.
    fn is_ready(&self) -> bool {
        let health = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        self.rival != Rival::Etcd
            || self.call(health.as_bytes()).is_ok_and(|answer| answer.contains("\"true\""))
    }

    /// A new connection. Stream sockets of both families are used in the same way.
    pub fn connect(&self) -> Outcome<UnixStream> {
        match &self.address {
            Address::Unix(path) => Ok(UnixStream::connect(path)?),
            Address::Tcp(port) => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port))?;
                stream.set_nodelay(true)?;
                Ok(UnixStream::from(OwnedFd::from(stream)))
            }
        }
    }

    /// Sends a request on its own connection and returns the first piece of the response, which is complete for the
    /// requests here.
    pub fn call(&self, request: &[u8]) -> Outcome<String> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(START_MAX))?;
        stream.write_all(request)?;
        let mut bytes = vec![0; 16 << 10];
        let count = stream.read(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
    }

    /// The process whose processor time is counted.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn paceline_command(binary: &Path, dir: &Path) -> Outcome<(Command, Address)> {
    let (data, config) = (dir.join("data"), dir.join("paceline.toml"));
    fs::write(&config, CONFIG).map_err(|error| Failure::io(config.display(), &error))?;
    let mut command = Command::new(binary);
    command.args(["serve", "--api", "none", "--data"]).arg(&data).arg("--config").arg(config);
    Ok((command, Address::Unix(data.join("api.sock"))))
}

fn redis_command(dir: &Path) -> (Command, Address) {
    let socket = dir.join("sock");
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]);
    command.arg(&socket).arg("--dir").arg(dir);
    (command, Address::Unix(socket))
}

fn etcd_command(dir: &Path) -> Outcome<(Command, Address)> {
    let (port, peer) = (free_port()?, free_port()?);
    let (client_url, peer_url) =
        (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(dir.join("data")).args(["--log-level", "error"]);
    command.args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url]);
    command.args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url]);
    command.args(["--initial-cluster", &format!("default={peer_url}")]);
    Ok((command, Address::Tcp(port)))
}

fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Installs the rivals from Debian's archive.
pub fn install() -> Outcome<()> {
    let words = ["install", "-y", "--no-install-recommends", "redis-server", "etcd-server"];
    let status = Command::new("apt-get").args(words).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("apt-get: {status}"))) }
}

/// The versions that the binaries report.
pub fn versions(paceline: &Path) -> Vec<Fact> {
    [("paceline", paceline), ("redis", "redis-server".as_ref()), ("etcd", "etcd".as_ref())]
        .map(|(name, binary)| (name, machine::version(binary).unwrap_or_else(machine::unknown)))
        .into()
}
