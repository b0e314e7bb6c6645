//! Sockets of doors.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
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

/// The default mode of a unix socket: only its owner may connect.
pub const SOCKET_MODE: u32 = 0o600;

/// How long a TCP peer may be silent before the system sends a keepalive probe.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// How long the system waits between two probes.
const PROBE_PAUSE: Duration = Duration::from_secs(5);

/// How many unanswered probes make the connection fail.
const PROBES_MAX: u32 = 3;

/// How long sent data may stay unacknowledged before the connection fails.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// Enables keepalive, so that the system notices when the machine of a TCP peer or the route to it is gone:
/// within 30 s the connection fails, even if nothing is sent on it.
pub fn watch_peer(stream: &TcpStream) {
    let unacknowledged_ms = u32::try_from(UNACKNOWLEDGED_MAX.as_millis()).unwrap_or(u32::MAX);
    let set = sockopt::set_tcp_keepidle(stream, SILENCE_MAX)
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, PROBE_PAUSE))
        .and_then(|()| sockopt::set_tcp_keepcnt(stream, PROBES_MAX))
        .and_then(|()| sockopt::set_tcp_user_timeout(stream, unacknowledged_ms))
        .and_then(|()| sockopt::set_socket_keepalive(stream, true));
    if let Err(error) = set {
        // The peer has disconnected already, or the system does not support these options.
        tracing::debug!(%error, "cannot enable keepalive: a vanished peer would not be noticed");
    }
}

/// Ends when the client of a socket that is not being read has left: it has closed the connection or its
/// sending side, or the connection failed. Data that it sent before does not matter.
///
/// At a unix socket it also ends when the client has sent file descriptors. They stay in the socket until it is
/// read, and one of them may be the client's own end of this connection, or of another: that end would stay
/// open after the client has died, and the connection with it. Our protocols do not use them. A socket that is
/// read needs none of this, because a read that does not ask for descriptors drops them.
///
/// Duplicates the descriptor while it is awaited.
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

/// Ends when the client of a socket has closed the connection or its sending side, or the connection failed;
/// whether or not the socket is read meanwhile.
///
/// Duplicates the descriptor while it is awaited.
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

/// Whether the client of a socket has closed the connection or its sending side by now, or the connection
/// failed. Asks the system, so a client that left before the call is seen to have left.
#[must_use]
pub fn has_left(socket: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::RDHUP)];
    let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    // This fails only if a signal arrives; then the end is noticed in the usual way.
    poll(&mut polled, Some(&Timespec::default())).is_ok()
        && polled.iter().any(|polled| polled.revents().intersects(ended))
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
        // Readiness is cleared before the check, so that descriptors that arrive meanwhile are checked again.
        let _ = socket.try_io(Interest::READABLE, nothing);
        if has_descriptors(socket.as_fd()) {
            break;
        }
    }
    Ok(())
}

/// Makes the runtime clear the readiness of a socket.
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

/// Binds a unix socket with this file mode. A socket that no process listens on is replaced; a socket with a
/// listener, or a file of another kind, is not.
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
    // The umask makes the socket private from its first moment on. It applies to the whole process, which
    // creates no file for others.
    let before = umask(Mode::RWXG | Mode::RWXO);
    let listener = UnixListener::bind(path);
    umask(before);
    let listener = listener?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::{closed, has_left, left, watch_peer};
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

    /// L3: the disconnection of a client is noticed even if its data is not read, over either kind of socket.
    #[test]
    fn a_client_that_leaves_is_noticed_though_it_is_not_read_l3() {
        block_on(async {
            let (near, mut far) = tcp_pair().await;
            far.write_all(b"something").await.unwrap();
            assert!(!has_left(&near));
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

    /// L3: the disconnection of a client is noticed whether or not its socket is read; sent data does not
    /// matter.
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

    /// L3: a client that sends its own end of the socket and dies is noticed, whatever else it sent and
    /// whenever.
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
            // Before `left` is awaited.
            let (near, mut far) = UnixStream::pair().unwrap();
            far.write_all(b"something").await.unwrap();
            send(&far, b"!");
            far.write_all(b"something else").await.unwrap();
            drop(far);
            left(&near).await;
            drop(near);
            // While it is awaited.
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
