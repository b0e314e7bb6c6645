//! Sockets of doors.

use rustix::fs::Mode;
use rustix::net::sockopt;
use rustix::process::umask;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;
use tokio::net::{TcpStream, UnixListener};

/// Who may connect to a unix socket unless said otherwise: its owner.
pub const SOCKET_MODE: u32 = 0o600;

/// How long a peer over TCP may be silent before the system asks it for a sign of life.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// How long the system waits for such a sign before it asks again.
const PROBE_PAUSE: Duration = Duration::from_secs(5);

/// How often it asks in vain before the connection fails.
const PROBES_MAX: u32 = 3;

/// How long a peer may not acknowledge what it was sent before the connection fails.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// Has the system find out when the machine of a TCP peer is gone, or the way to it: within 30 s the
/// connection fails, also if nothing is sent on it.
pub fn watch_peer(stream: &TcpStream) {
    let unacknowledged_ms = u32::try_from(UNACKNOWLEDGED_MAX.as_millis()).unwrap_or(u32::MAX);
    let set = sockopt::set_tcp_keepidle(stream, SILENCE_MAX)
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, PROBE_PAUSE))
        .and_then(|()| sockopt::set_tcp_keepcnt(stream, PROBES_MAX))
        .and_then(|()| sockopt::set_tcp_user_timeout(stream, unacknowledged_ms))
        .and_then(|()| sockopt::set_socket_keepalive(stream, true));
    if let Err(error) = set {
        // The peer has gone again already, or the system does not know these options.
        tracing::debug!(%error, "a peer that vanishes would not be noticed");
    }
}

/// Binds a unix socket that those may use whom `mode` lets. A socket that nobody listens on any more is
/// replaced; one that somebody listens on, or a file of another kind, is not.
pub fn bind_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    if let Ok(metadata) = std::fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            let message = "a file that is not a socket is in the way";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
        }
        std::fs::remove_file(path)?;
    }
    // The mask makes the socket private from its first moment on. It holds for the whole process,
    // which makes no file that others should use.
    let before = umask(Mode::RWXG | Mode::RWXO);
    let listener = UnixListener::bind(path);
    umask(before);
    let listener = listener?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::watch_peer;
    use rustix::net::sockopt;
    use std::time::Duration;
    use tokio::net::{TcpListener, TcpStream};

    #[test]
    fn a_peer_that_vanishes_is_noticed_within_thirty_seconds() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            watch_peer(&stream);
            assert!(sockopt::socket_keepalive(&stream).unwrap());
            let idle = sockopt::tcp_keepidle(&stream).unwrap();
            let pauses =
                sockopt::tcp_keepintvl(&stream).unwrap() * sockopt::tcp_keepcnt(&stream).unwrap();
            assert_eq!(idle + pauses, Duration::from_secs(30));
            assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 30_000);
        });
    }
}
