//! The socket of a connection, of either kind, shared by the HTTP library and the task that watches for its end.
//!
//! The library stops reading while a request is answered and bytes of the next one are in its buffer. Then it does not
//! see that the client has left. The system reports the end of a connection separately from its data, so
//! [`Socket::left`] sees it whatever the client sent before. A client has no reason to send descriptors: a client that
//! does is disconnected, because a descriptor may be that of the connection itself.

use crate::ahead::Ahead;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown, recvmsg};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};

/// How often the library may be polled without reading before too much is left unread.
const TURNS_MAX: u32 = 4;

/// The most bytes received at a time on a unix socket: the library's buffer is much larger, and a buffer must
/// be cleared before it is received into.
const RECEIVE_BYTES: usize = 2 << 10;

/// A socket of either kind.
#[derive(Debug)]
pub(crate) enum Socket {
    /// With the bytes that arrived while the library did not read.
    Unix(UnixStream, Ahead),
    Tcp(TcpStream),
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self::Unix(stream, Ahead::default())
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
            Socket::Unix(stream, _) => stream.$method($($argument),*),
            Socket::Tcp(stream) => stream.$method($($argument),*),
        }
    };
}

impl Socket {
    /// Ends when the client has closed the connection, or its sending side, even while there are bytes to be
    /// read.
    pub(crate) async fn left(&self) {
        // A poll for urgent data also reports the end, but not ordinary data.
        let ended = match self {
            Self::Unix(stream, _) => stream.ready(Interest::PRIORITY).await,
            Self::Tcp(stream) => stream.ready(Interest::PRIORITY).await,
        };
        if ended.is_ok_and(|ready: Ready| !ready.is_read_closed()) {
            // Urgent data is not requested, so this is not reached.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the client has closed the connection, or its sending side, by now.
    pub(crate) fn has_left(&self) -> bool {
        match self {
            Self::Unix(stream, _) => paceline_host::has_left(stream),
            Self::Tcp(stream) => paceline_host::has_left(stream),
        }
    }

    /// Reads the bytes that arrive on a unix socket while the library does not, and ends when the connection
    /// must. It must be polled after the library, in the same task.
    pub(crate) async fn overflow(&self) {
        let Self::Unix(stream, ahead) = self else { return std::future::pending().await };
        let mut turns = 0;
        // A library that reads has read something after a few turns; in one of them it may ask for more of a
        // body.
        while turns < TURNS_MAX {
            let room = ahead.room();
            turns = if room == 0 { turns + 1 } else { 0 };
            if stream.readable().await.is_err() {
                return;
            }
            match self.read_ahead(ahead, room) {
                Ok(false) => return std::future::pending().await,
                // The library may have checked for bytes just before these arrived.
                Ok(true) => tokio::task::yield_now().await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }

    /// Reads at most `room` bytes. Returns whether there may be more.
    fn read_ahead(&self, ahead: &Ahead, room: usize) -> io::Result<bool> {
        if room == 0 {
            return Ok(true);
        }
        // It is cleared only if there is something to receive.
        let mut space = [MaybeUninit::uninit(); RECEIVE_BYTES];
        let mut whole = ReadBuf::uninit(&mut space);
        let mut buffer = whole.take(room);
        self.try_read(&mut buffer)?;
        ahead.keep(buffer.filled());
        Ok(!buffer.filled().is_empty())
    }

    fn try_read(&self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        let room = match self {
            Self::Unix(..) => buffer.remaining().min(RECEIVE_BYTES),
            Self::Tcp(_) => buffer.remaining(),
        };
        let mut is_read = false;
        let mut read = || {
            let count = match self {
                Self::Unix(stream, _) => receive(stream, buffer, room)?,
                Self::Tcp(stream) => stream.try_read_buf(buffer)?,
            };
            is_read = true;
            // A short read has emptied the socket (on a unix socket because no descriptors arrived, which end a
            // read), so the next read would only return `WouldBlock`. The runtime clears the socket's readiness
            // only on that error, so it is returned here already.
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

/// Receives at most `room` bytes. Fails if descriptors arrived with them, which the system has then closed.
fn receive(stream: &UnixStream, buffer: &mut ReadBuf<'_>, room: usize) -> io::Result<usize> {
    let mut space = [io::IoSliceMut::new(buffer.initialize_unfilled_to(room))];
    let mut control = RecvAncillaryBuffer::new(&mut []);
    let received = recvmsg(stream, &mut space, &mut control, RecvFlags::empty())?;
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the client sent descriptors"));
    }
    buffer.advance(received.bytes);
    Ok(received.bytes)
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
        if let Socket::Unix(_, ahead) = &*self.0
            && ahead.read(buffer)
        {
            return Poll::Ready(Ok(()));
        }
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
