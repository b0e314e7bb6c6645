//! The two ends of a connection: sockets of either kind, and TLS on a client's.

use crate::serve::buffer::Prefixed;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

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
    Tls(Box<TlsStream<Prefixed<Socket>>>),
}

impl Socket {
    /// Ends when the other side has left, also while there is something to be read.
    pub async fn left(&self) {
        // Interest in urgent data is also told of the end, but not of ordinary data.
        let ended = match self {
            Self::Tcp(socket) => socket.ready(Interest::PRIORITY).await,
            Self::Unix(socket) => socket.ready(Interest::PRIORITY).await,
        };
        if ended.is_ok_and(|ready| !ready.is_read_closed()) {
            // Urgent data, which nobody sends; leaving can then be seen only when something is read.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the other side has left by now, as the system knows it, not as it has told.
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

    /// Has the connection reset, not closed, when it is dropped: where its end means the end of a body,
    /// the other side can tell a cut one only so.
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
