//! Both kinds of connections, to clients and to servers: TCP or unix sockets, with or without TLS.
//!
//! A connection without TLS allocates nothing, and only chooses the kind of socket.

use crate::buffer::Prefixed;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustls::ClientConnection;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::{client, server};

/// Reads of unsolicited server data before the connection is given up.
const UNASKED_READS_MAX: usize = 16;

/// Unsent bytes that the system buffers, beyond those in flight.
pub const UNSENT_BYTES_MAX: u32 = 128 << 10;

/// A TCP or unix socket.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
}

/// A connection of a client.
#[derive(Debug)]
pub enum Stream {
    /// Without TLS.
    Plain(Socket),
    /// With TLS; the first bytes may have been read before the handshake.
    Tls(Box<server::TlsStream<Prefixed<Socket>>>),
}

/// A connection to a server.
#[derive(Debug)]
pub enum ServerStream {
    /// Without TLS.
    Plain(Socket),
    /// With TLS.
    Tls(Box<client::TlsStream<Socket>>),
}

impl Socket {
    /// Returns when the other side has disconnected, even while there is something to read.
    pub async fn left(&self) {
        // Interest in urgent data also reports a disconnect, but no ordinary data.
        let ended = match self {
            Self::Tcp(socket) => socket.ready(Interest::PRIORITY).await,
            Self::Unix(socket) => socket.ready(Interest::PRIORITY).await,
        };
        if ended.is_ok_and(|ready| !ready.is_read_closed()) {
            // Urgent data arrived, which clients do not send. Now only reading shows that the client has
            // disconnected.
            std::future::pending::<()>().await;
        }
    }

    /// Returns when something can be written, or the other side has disconnected.
    pub async fn writable(&self) {
        let ready = match self {
            Self::Tcp(socket) => socket.writable().await,
            Self::Unix(socket) => socket.writable().await,
        };
        // An error is found by the next write.
        drop(ready);
    }

    /// Whether the other side has disconnected by now, even if the runtime has not noticed it yet.
    pub fn has_left(&self) -> bool {
        self.is(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
    }

    /// Whether there is something to read by now, or the end of the stream.
    pub fn is_readable(&self) -> bool {
        self.is(PollFlags::IN | PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
    }

    fn is(&self, flags: PollFlags) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(self.fd(), flags)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let found = rustix::event::poll(&mut polled, Some(&now));
        found.is_ok_and(|count| count > 0) && polled[0].revents().intersects(flags)
    }

    /// Limits the unsent bytes that the system buffers, so that it reports progress early. Otherwise it would buffer
    /// megabytes, and report only when a third of them was sent: a client that reads slowly but steadily would seem
    /// to be inactive for minutes.
    pub fn tell_soon(&self) {
        if let Self::Tcp(socket) = self {
            // If this fails, a slow client may be disconnected too early. A unix socket buffers little anyway.
            let _ = socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
        }
    }

    /// Ready when fewer than `bytes` of the written data are unsent. What the other side has not read is then in
    /// flight, or on its machine.
    pub fn poll_sent(&self, bytes: u32, cx: &mut Context<'_>) -> Poll<()> {
        // What was written to a unix socket has already reached the other side.
        let Self::Tcp(socket) = self else { return Poll::Ready(()) };
        if socket2::SockRef::from(socket).set_tcp_notsent_lowat(bytes).is_err() {
            return Poll::Ready(());
        }
        loop {
            if ready!(socket.poll_write_ready(cx)).is_err()
                || self.is(PollFlags::OUT | PollFlags::HUP | PollFlags::ERR)
            {
                return Poll::Ready(());
            }
            // The runtime caches readiness from the old setting.
            let old = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = socket.try_io(Interest::WRITABLE, old);
        }
    }

    /// Resets the connection instead of closing it on drop. If the end of the connection marks the end of a body,
    /// only a reset shows that the body is cut short.
    pub fn reset_at_end(&self) {
        // If this fails, the client takes a cut response for a complete one, as with any HTTP/1.0.
        let _ = rustix::net::sockopt::set_socket_linger(self.fd(), Some(Duration::ZERO));
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Stream {
    /// The underlying socket.
    pub fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.get_ref().0.inner,
        }
    }

    /// Whether the connection is encrypted.
    pub const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Whether the TLS handshake selected HTTP/2.
    pub fn speaks_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl ServerStream {
    /// Whether the connection can take a request: according to the system, the server has neither closed it nor sent
    /// anything. On an idle connection the server has nothing to send, so readable data is the end of the stream or
    /// does not belong to the next request.
    pub fn is_quiet(&mut self) -> bool {
        match self {
            Self::Plain(socket) => !socket.is_readable(),
            Self::Tls(stream) => {
                let (socket, session) = stream.get_mut();
                is_quiet(socket, session)
            }
        }
    }

    /// Resets the connection instead of closing it on drop, so that the next write of the other side fails.
    pub fn reset_at_end(&self) {
        match self {
            Self::Plain(socket) => socket.reset_at_end(),
            Self::Tls(stream) => stream.get_ref().0.reset_at_end(),
        }
    }

    /// Closes the TLS session without waiting for the other side.
    pub fn say_goodbye(&mut self) {
        if let Self::Tls(stream) = self {
            let mut cx = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut **stream).poll_shutdown(&mut cx);
        }
    }
}

/// The same with TLS. A server may send data that is not for a request, such as a ticket for the next session. Such
/// data is processed.
fn is_quiet(socket: &Socket, session: &mut ClientConnection) -> bool {
    for _ in 0..UNASKED_READS_MAX {
        let Ok(state) = session.process_new_packets() else { return false };
        if state.peer_has_closed() || state.plaintext_bytes_to_read() > 0 {
            return false;
        }
        if !socket.is_readable() {
            return true;
        }
        if !matches!(session.read_tls(&mut Unread(socket.fd())), Ok(1..)) {
            return false;
        }
    }
    false
}

/// Reads directly from the socket, even if the runtime has not noticed the data yet.
struct Unread<'a>(BorrowedFd<'a>);

impl io::Read for Unread<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, buf)?)
    }
}

/// Anything that can be read and written.
trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

impl Socket {
    fn io(self: Pin<&mut Self>) -> Pin<&mut dyn Io> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket),
            Self::Unix(socket) => Pin::new(socket),
        }
    }
}

impl Stream {
    fn io(self: Pin<&mut Self>) -> Pin<&mut dyn Io> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).io(),
            Self::Tls(stream) => Pin::new(&mut **stream),
        }
    }
}

impl ServerStream {
    fn io(self: Pin<&mut Self>) -> Pin<&mut dyn Io> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).io(),
            Self::Tls(stream) => Pin::new(&mut **stream),
        }
    }
}

/// Delegates reading and writing to the inner stream.
macro_rules! delegate {
    ($outer:ty) => {
        impl AsyncRead for $outer {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.io().poll_read(cx, buf)
            }
        }

        impl AsyncWrite for $outer {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.io().poll_write(cx, bytes)
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.io().poll_flush(cx)
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.io().poll_shutdown(cx)
            }
        }
    };
}

delegate!(Socket);
delegate!(Stream);
delegate!(ServerStream);
