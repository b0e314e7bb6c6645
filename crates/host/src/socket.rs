//! Unix sockets of doors.

use rustix::fs::Mode;
use rustix::process::umask;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use tokio::net::UnixListener;

/// Who may connect to a unix socket unless said otherwise: its owner.
pub const SOCKET_MODE: u32 = 0o600;

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
