//! The two ends of a connection: sockets of either kind, with TLS or without.
//!
//! On a connection without TLS nothing is boxed and nothing decided but which socket it is.

use crate::serve::buffer::Prefixed;
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

/// Readings of what a server says unasked before its connection is given up.
const UNASKED_READS_MAX: usize = 16;

/// What the system takes to be sent later, beyond what is on its way.
pub(crate) const UNSENT_BYTES_MAX: u32 = 128 << 10;

/// A socket of either kind.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A client's end of a connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<server::TlsStream<Prefixed<Socket>>>),
}

/// A server's end of a connection.
#[derive(Debug)]
pub(crate) enum ServerStream {
    Plain(Socket),
    Tls(Box<client::TlsStream<Socket>>),
}

impl Socket {
    /// Ends when the other side has left, also while there is something to be read.
    pub async fn left(&self) {
        // Interest in urgent data also reports the end, but no ordinary data.
        let ended = match self {
            Self::Tcp(socket) => socket.ready(Interest::PRIORITY).await,
            Self::Unix(socket) => socket.ready(Interest::PRIORITY).await,
        };
        if ended.is_ok_and(|ready| !ready.is_read_closed()) {
            // Urgent data, which clients do not send; then only reading shows that the client has left.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the other side has left by now, whether the runtime knows of it or not.
    pub fn has_left(&self) -> bool {
        self.is(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
    }

    /// Whether there is something to read by now, or the end.
    pub fn is_readable(&self) -> bool {
        self.is(PollFlags::IN | PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
    }

    fn is(&self, flags: PollFlags) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(self.fd(), flags)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let found = rustix::event::poll(&mut polled, Some(&now));
        found.is_ok_and(|count| count > 0) && polled[0].revents().intersects(flags)
    }

    /// Has the system take little to be sent later, and report soon when it takes more. Otherwise it would
    /// take megabytes, and report only when a third of them is gone: a client that reads slowly but steadily
    /// would seem to do nothing for minutes.
    pub fn tell_soon(&self) {
        if let Self::Tcp(socket) = self {
            // At worst a slow client is cut off too early. A unix socket takes little anyway.
            let _ = socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
        }
    }

    /// Ends when fewer than `bytes` of what was written wait to be sent. What the other side has not read is
    /// on its way by then, or at its machine.
    pub fn poll_sent(&self, bytes: u32, cx: &mut Context<'_>) -> Poll<()> {
        // What was written to a unix socket is at the other side already.
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
            // The runtime remembers what was true with the old setting.
            let old = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = socket.try_io(Interest::WRITABLE, old);
        }
    }

    /// Has the connection reset, not closed, when it is dropped: where its end means the end of a body,
    /// only a reset shows that the body is cut short.
    pub fn reset_at_end(&self) {
        // At worst the client takes a cut response for a whole one, as with any HTTP/1.0.
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
    /// The socket below.
    pub fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.get_ref().0.inner,
        }
    }

    pub const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Whether HTTP/2 was chosen in the handshake of TLS.
    pub fn speaks_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl ServerStream {
    /// Whether it can take a request: the server has neither ended it nor said anything, as the system
    /// knows it right now. On an idle connection the server has nothing to send: what can be read is its end,
    /// or is not meant for the next request.
    pub fn is_quiet(&mut self) -> bool {
        match self {
            Self::Plain(socket) => !socket.is_readable(),
            Self::Tls(stream) => {
                let (socket, session) = stream.get_mut();
                is_quiet(socket, session)
            }
        }
    }

    /// Has the connection reset, not closed, when it is dropped: then already the next write of the other side fails.
    pub fn reset_at_end(&self) {
        match self {
            Self::Plain(socket) => socket.reset_at_end(),
            Self::Tls(stream) => stream.get_ref().0.reset_at_end(),
        }
    }

    /// Ends our side of TLS without waiting for the other.
    pub fn say_goodbye(&mut self) {
        if let Self::Tls(stream) = self {
            let mut cx = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut **stream).poll_shutdown(&mut cx);
        }
    }
}

/// The same with TLS, where servers may say something that means nothing to requests, such as a ticket for
/// the next session: that is taken in.
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

/// What the system has of a socket, whether the runtime knows of it or not.
struct Unread<'a>(BorrowedFd<'a>);

impl io::Read for Unread<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, buf)?)
    }
}

/// What is read and written, whatever it is.
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

/// Reading and writing are those of what is inside.
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
