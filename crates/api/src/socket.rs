//! The socket of a connection, of either kind, shared by the HTTP library and by the task that watches
//! for its end.
//!
//! The library stops reading while a request is answered and bytes of the next one are in its buffer.
//! Then it does not see that the client has left. The system reports the end of a connection apart from
//! its data, so [`Socket::left`] sees it whatever the client sent before.

use rustix::net::Shutdown;
use std::io;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};

/// A socket of either kind.
#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self::Unix(stream)
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

/// Calls the same method of either socket.
macro_rules! either {
    ($socket:expr, $method:ident($($argument:expr),*)) => {
        match $socket {
            Socket::Unix(stream) => stream.$method($($argument),*),
            Socket::Tcp(stream) => stream.$method($($argument),*),
        }
    };
}

impl Socket {
    /// Ends when the client has closed the connection, or its sending side, also while there are bytes to
    /// be read.
    pub(crate) async fn left(&self) {
        // Interest in urgent data is also told of the end, but not of ordinary data.
        let ended = match self {
            Self::Unix(stream) => stream.ready(Interest::PRIORITY).await,
            Self::Tcp(stream) => stream.ready(Interest::PRIORITY).await,
        };
        if ended.is_ok_and(|ready: Ready| !ready.is_read_closed()) {
            // Urgent data is not asked for, so this is not reached.
            std::future::pending::<()>().await;
        }
    }

    fn try_read(&self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        let room = buffer.remaining();
        let mut is_read = false;
        let mut read = || {
            let count = either!(self, try_read_buf(buffer))?;
            is_read = true;
            // A short read has emptied the socket, so the next read would only return `WouldBlock`. The
            // runtime clears the socket's readiness on that error alone, so it is returned here already.
            match 0 < count && count < room {
                true => Err(io::ErrorKind::WouldBlock.into()),
                false => Ok(()),
            }
        };
        match either!(self, try_io(Interest::READABLE, &mut read)) {
            Err(error) if is_read && error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            tried => tried,
        }
    }
}

/// A handle to a socket that reads and writes it.
#[derive(Clone, Debug)]
pub(crate) struct Handle(pub(crate) Arc<Socket>);

impl AsyncRead for Handle {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(either!(&*self.0, poll_read_ready(cx)))?;
            match self.0.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }
}

impl AsyncWrite for Handle {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(either!(&*self.0, poll_write_ready(cx)))?;
            match either!(&*self.0, try_write(bytes)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let fd = either!(&*self.0, as_fd());
        Poll::Ready(rustix::net::shutdown(fd, Shutdown::Write).map_err(io::Error::from))
    }
}
