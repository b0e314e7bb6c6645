//! Starts a command that does not run before the daemon knows its process (C4).
//!
//! What is held lasts as long as its processes if the daemon ends. So the daemon must know the command's
//! process before the command does anything. First this program itself is started in its place and waits. Once
//! the daemon has written the process, it receives a byte and becomes the command, with the same pid and start
//! time. If we exit before that, it receives nothing, and the command does not run.
//!
//! They connect over a unix socket without a file, because the command would inherit a descriptor.

use rustix::net::sockopt::socket_peercred;
use rustix::process::getppid;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The argument that makes this program wait to become the command.
const WORD: &str = "--start-when-told";

/// The byte that makes it begin.
const BEGIN: u8 = b'!';

/// Where a waiting command is started.
pub struct Starter {
    listener: tokio::net::UnixListener,
    name: String,
}

impl Starter {
    pub fn new() -> io::Result<Self> {
        // The name is not secret: we accept only our child, and it accepts only its parent.
        let number = RandomState::new().build_hasher().finish();
        let name = format!("paceline-start-{}-{number:016x}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes())?;
        let listener = UnixListener::bind_addr(&address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener: tokio::net::UnixListener::from_std(listener)?, name })
    }

    /// The program to start in place of the command.
    pub fn command(&self, words: &[OsString]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("/proc/self/exe");
        command.arg(WORD).arg(&self.name).args(words);
        command
    }

    /// The waiting process, once it has connected.
    pub async fn meet(&self, pid: u32) -> io::Result<Waiting> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            let peer = stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok());
            if peer == Some(pid) {
                return Ok(Waiting(stream));
            }
        }
    }
}

/// A process that waits to become the command. If this is dropped, it exits.
pub struct Waiting(tokio::net::UnixStream);

impl Waiting {
    /// Lets it become the command.
    ///
    /// # Errors
    ///
    /// When the command cannot be run.
    pub async fn begin(mut self) -> io::Result<()> {
        self.0.write_all(&[BEGIN]).await?;
        let mut number = vec![];
        // The connection is closed when the command runs.
        self.0.read_to_end(&mut number).await?;
        match <[u8; 4]>::try_from(number) {
            Ok(number) => Err(io::Error::from_raw_os_error(i32::from_be_bytes(number))),
            Err(_) => Ok(()),
        }
    }
}

/// Waits and becomes the command, if this process was started for that.
pub fn play(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.nth(1)? != WORD {
        return None;
    }
    let told = arguments.next().and_then(|name| wait(&name).ok());
    let (Some(mut stream), Some(program)) = (told, arguments.next()) else {
        return Some(ExitCode::FAILURE);
    };
    let error = Command::new(program).args(arguments).exec();
    let _ = stream.write_all(&error.raw_os_error().unwrap_or_default().to_be_bytes());
    Some(ExitCode::FAILURE)
}

fn wait(name: &OsStr) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name.as_bytes())?)?;
    if Some(socket_peercred(&stream)?.pid) != getppid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    if byte == [BEGIN] { Ok(stream) } else { Err(io::ErrorKind::InvalidData.into()) }
}
