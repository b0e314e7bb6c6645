//! Sockets of doors.

use rustix::fs::Mode;
use rustix::net::{AddressFamily, sockopt};
use rustix::process::umask;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixListener, UnixStream};

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
        tracing::debug!(%error, "cannot enable keepalive: a vanished peer would not be noticed");
    }
}

/// Ends when the client of a socket that is not read just now has left: it has closed the connection or its sending side,
/// or the connection failed. Data that it sent before does not matter.
///
/// At a unix socket it also ends when the client has sent file descriptors. They lie in the socket until it is read, and
/// one of them may be the client's own end of this connection, or of another: that end would stay open after the client
/// has died, and the connection with it. No protocol of ours has a use for them. A socket that is read needs none of
/// this, because a read that does not ask for descriptors drops them.
///
/// Takes a descriptor of its own while it is waited for.
pub fn left(socket: &impl AsFd) -> impl Future<Output = ()> + Send + 'static {
    let own = socket.as_fd().try_clone_to_owned();
    async move {
        let ended = match own {
            Ok(own) => until_left(own).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "cannot watch a connection: its end is noticed only when it is read");
            std::future::pending::<()>().await;
        }
    }
}

/// Ends when the client of a socket has closed the connection or its sending side, or the connection failed; whether
/// or not the socket is read meanwhile.
///
/// Takes a descriptor of its own while it is waited for.
pub fn closed(socket: &impl AsFd) -> impl Future<Output = ()> + Send + 'static {
    let own = socket.as_fd().try_clone_to_owned();
    async move {
        let ended = match own {
            Ok(own) => until_closed(own).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "cannot watch a connection: its end is not noticed while a request is handled");
            std::future::pending::<()>().await;
        }
    }
}

async fn until_closed(socket: OwnedFd) -> io::Result<()> {
    // A poll for urgent data also reports the end, but not ordinary data.
    if sockopt::socket_domain(&socket)? == AddressFamily::UNIX {
        let socket = UnixStream::from_std(socket.into())?;
        while !socket.ready(Interest::PRIORITY).await?.is_read_closed() {
            let _ = socket.try_io(Interest::PRIORITY, nothing);
        }
        return Ok(());
    }
    until_tcp_closed(socket).await
}

async fn until_tcp_closed(socket: OwnedFd) -> io::Result<()> {
    let socket = TcpStream::from_std(socket.into())?;
    while !socket.ready(Interest::PRIORITY).await?.is_read_closed() {
        let _ = socket.try_io(Interest::PRIORITY, nothing);
    }
    Ok(())
}

async fn until_left(socket: OwnedFd) -> io::Result<()> {
    if sockopt::socket_domain(&socket)? != AddressFamily::UNIX {
        return until_tcp_closed(socket).await;
    }
    let socket = UnixStream::from_std(socket.into())?;
    while !socket.ready(Interest::READABLE).await?.is_read_closed() {
        // Forgotten before it is looked at, so that what comes meanwhile is looked at again.
        let _ = socket.try_io(Interest::READABLE, nothing);
        if has_descriptors(socket.as_fd()) {
            break;
        }
    }
    Ok(())
}

/// Has the runtime forget that a socket is ready.
fn nothing() -> io::Result<()> {
    Err(io::ErrorKind::WouldBlock.into())
}

/// Whether a unix socket has unread descriptors.
fn has_descriptors(socket: BorrowedFd<'_>) -> bool {
    let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", socket.as_raw_fd()));
    let about = about.unwrap_or_default();
    let count = about.lines().find_map(|line| line.strip_prefix("scm_fds:"));
    count.is_some_and(|count| count.trim() != "0")
}

/// Binds a unix socket with this file mode. A socket that no process listens on any more is
/// replaced; one that a process listens on, or a file of another kind, is not.
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
    use super::{closed, left, watch_peer};
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};
    use std::io::IoSlice;
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd as _;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::Duration;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::{TcpListener, TcpStream, UnixStream};

    fn block_on(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(test);
    }

    async fn tcp_pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (listener.accept().await.unwrap().0, far)
    }

    #[test]
    fn a_peer_that_vanishes_is_noticed_within_thirty_seconds() {
        block_on(async {
            let (stream, _far) = tcp_pair().await;
            watch_peer(&stream);
            assert!(sockopt::socket_keepalive(&stream).unwrap());
            let idle = sockopt::tcp_keepidle(&stream).unwrap();
            let pauses =
                sockopt::tcp_keepintvl(&stream).unwrap() * sockopt::tcp_keepcnt(&stream).unwrap();
            assert_eq!(idle + pauses, Duration::from_secs(30));
            assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 30_000);
        });
    }

    /// L3: the end of a client is noticed also if nobody reads what it sent before, over either kind of socket.
    #[test]
    fn a_client_that_leaves_is_noticed_though_it_is_not_read_l3() {
        block_on(async {
            let (near, mut far) = tcp_pair().await;
            far.write_all(b"something").await.unwrap();
            let mut gone = pin!(left(&near));
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..10 {
                tokio::task::yield_now().await;
                assert!(gone.as_mut().poll(&mut cx).is_pending(), "it is there");
            }
            drop(far);
            gone.await;

            let (near, mut far) = UnixStream::pair().unwrap();
            far.write_all(b"something").await.unwrap();
            let mut gone = pin!(left(&near));
            for _ in 0..10 {
                tokio::task::yield_now().await;
                assert!(gone.as_mut().poll(&mut cx).is_pending(), "it is there");
            }
            drop(far);
            gone.await;
            // Also if it had left before.
            left(&near).await;
        });
    }

    /// L3: the end of a client is noticed though its socket is read, or not; what it sends does not count.
    #[test]
    fn a_client_that_closes_is_noticed_whether_it_is_read_l3() {
        block_on(async {
            let (near, mut far) = tcp_pair().await;
            let gone = tokio::spawn(closed(&near));
            far.write_all(b"something").await.unwrap();
            near.readable().await.unwrap();
            assert_eq!(near.try_read(&mut [0; 4]).unwrap(), 4);
            (0..10).for_each(|_| drop(far.try_write(b"more")));
            tokio::task::yield_now().await;
            assert!(!gone.is_finished());
            drop(far);
            gone.await.unwrap();

            let (near, mut far) = UnixStream::pair().unwrap();
            let gone = tokio::spawn(closed(&near));
            far.write_all(b"something").await.unwrap();
            near.readable().await.unwrap();
            assert_eq!(near.try_read(&mut [0; 4]).unwrap(), 4);
            tokio::task::yield_now().await;
            assert!(!gone.is_finished());
            drop(far);
            gone.await.unwrap();
            // Also if it had closed before.
            closed(&near).await;
        });
    }

    /// L3: a client that leaves its own end in the socket and dies is noticed, whatever else it sent and whenever.
    #[test]
    fn a_client_that_sends_its_own_end_is_noticed_l3() {
        let send = |far: &UnixStream, bytes: &[u8]| {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut rights = SendAncillaryBuffer::new(&mut space);
            let own = [far.as_fd()];
            assert!(rights.push(SendAncillaryMessage::ScmRights(&own)));
            sendmsg(far, &[IoSlice::new(bytes)], &mut rights, SendFlags::empty()).unwrap();
        };
        block_on(async {
            // Before anybody waits for the end.
            let (near, mut far) = UnixStream::pair().unwrap();
            far.write_all(b"something").await.unwrap();
            send(&far, b"!");
            far.write_all(b"something else").await.unwrap();
            drop(far);
            left(&near).await;
            drop(near);
            // While somebody does.
            let (near, mut far) = UnixStream::pair().unwrap();
            let gone = tokio::spawn(left(&near));
            far.write_all(b"something").await.unwrap();
            (0..10).for_each(|_| drop(far.try_write(b"more")));
            tokio::task::yield_now().await;
            assert!(!gone.is_finished());
            send(&far, b"!");
            drop(far);
            gone.await.unwrap();
        });
    }
}
