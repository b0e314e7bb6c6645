//! The body of a request, taken out of `h2` as it arrives.
//!
//! `h2` keeps data in the form in which it arrived: a frame of a few bytes keeps everything that was read together
//! with it, and trailers that a client names by a byte each become a table of fields. So data that cannot be
//! forwarded yet, because the request waits or its server does not read, is copied into a buffer of our own. Trailers
//! are checked and written in their final form. Promises that a request keeps no more than its trailers and its
//! stream's window, whose capacity is released only for forwarded data; that trailers count with the heads of the
//! connection; and that all of it counts in the room of the process until the request has a connection to a server
//! (D1).

use super::KeptHead;
use super::room::{Part, Room};
use crate::limits::TRAILER_BYTES_MAX;
use crate::serve::clients::Account;
use crate::serve::lost::Failure;
use crate::wire::write_trailers;
use h2::RecvStream;
use http::HeaderMap;
use std::task::{Context, Poll, ready};

/// How much early data is forwarded at a time: the size of a frame.
const PIECE: usize = 16 << 10;

const NO_ROOM: &str = "the bodies of waiting requests take too much memory";

/// The body of a request. Its head counts for the connection as long as this exists.
pub(super) struct Body<'a> {
    stream: RecvStream,
    head: KeptHead<'a>,
    /// Data that arrived before it could be forwarded.
    early: Vec<u8>,
    /// How much of that was forwarded since.
    passed: usize,
    /// Lines of the trailers, once they have arrived.
    trailers: Vec<u8>,
    /// Whether `h2` has no more data.
    is_whole: bool,
    part: Part<'a>,
}

impl<'a> Body<'a> {
    pub fn new(stream: RecvStream, head: KeptHead<'a>, account: &'a Account) -> Self {
        Self::within(Room::of_process().part(account), stream, head)
    }

    fn within(part: Part<'a>, stream: RecvStream, head: KeptHead<'a>) -> Self {
        let is_whole = stream.is_end_stream();
        let (early, trailers) = (vec![], vec![]);
        Self { stream, head, early, passed: 0, trailers, is_whole, part }
    }

    /// The request has a connection to a server. From now on no amount is refused, because the stream's window bounds
    /// it.
    pub fn connected(&mut self) {
        self.part.leave();
    }

    /// Stores what has arrived. The task is woken when there is more.
    pub fn take_early(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        while !self.is_whole {
            match self.stream.poll_data(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(data))) => self.keep(&data)?,
                Poll::Ready(Some(Err(_))) => return Err(Failure::ClientLeft),
                Poll::Ready(None) if self.poll_trailers(cx)?.is_pending() => break,
                Poll::Ready(None) => {}
            }
        }
        Ok(())
    }

    /// Discards what has arrived. The client's window is not widened.
    pub fn discard(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        self.forget(self.early.len() - self.passed);
        while !self.is_whole {
            match self.stream.poll_data(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_))) => return Err(Failure::ClientLeft),
                Poll::Ready(None) => self.is_whole = self.stream.poll_trailers(cx).is_ready(),
            }
        }
        Ok(())
    }

    /// Forwards the next piece. Returns its length; none after the last one.
    pub fn poll_pass(
        &mut self,
        cx: &mut Context<'_>,
        pass: impl FnOnce(&[u8]),
    ) -> Poll<Result<Option<usize>, Failure>> {
        let early = &self.early[self.passed..];
        let len = if !early.is_empty() {
            let piece = &early[..early.len().min(PIECE)];
            pass(piece);
            let len = piece.len();
            self.forget(len);
            len
        } else if self.is_whole {
            return Poll::Ready(Ok(None));
        } else if let Some(data) = ready!(self.stream.poll_data(cx)) {
            let data = data.map_err(|_| Failure::ClientLeft)?;
            pass(&data);
            data.len()
        } else {
            ready!(self.poll_trailers(cx)?);
            return Poll::Ready(Ok(None));
        };
        // The stream itself delivered these bytes.
        let _ = self.stream.flow_control().release_capacity(len);
        Poll::Ready(Ok(Some(len)))
    }

    /// The lines of its trailers that are forwarded. Called after the last piece.
    pub fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    fn keep(&mut self, data: &[u8]) -> Result<(), Failure> {
        self.early.drain(..self.passed);
        self.passed = 0;
        let len = self.early.len() + data.len();
        if len > self.early.capacity() {
            let capacity = len.next_power_of_two();
            self.count(capacity)?;
            self.early.reserve_exact(capacity - self.early.len());
        }
        self.early.extend_from_slice(data);
        Ok(())
    }

    /// Counts early data as forwarded.
    fn forget(&mut self, len: usize) {
        self.passed += len;
        if self.passed == self.early.len() {
            (self.early, self.passed) = (vec![], 0);
            // The amount shrinks, so there is room for it.
            let _ = self.count(0);
        }
    }

    /// Counts what the body keeps, with `early` bytes that arrived early.
    fn count(&mut self, early: usize) -> Result<(), Failure> {
        match self.part.resize(early + self.trailers.capacity()) {
            true => Ok(()),
            false => Err(Failure::NoRoom(NO_ROOM)),
        }
    }

    /// Takes the trailers, or finds that there are none.
    fn poll_trailers(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, Failure> {
        match self.stream.poll_trailers(cx) {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Err(_)) => return Err(Failure::ClientLeft),
            Poll::Ready(Ok(None)) => {}
            Poll::Ready(Ok(Some(trailers))) => {
                self.trailers = lines(&trailers)?;
                if !self.head.grow(self.trailers.capacity()) {
                    return Err(Failure::NoRoom(super::HEADS_TOO_LONG));
                }
                self.count(self.early.capacity())?;
            }
        }
        self.is_whole = true;
        Ok(Poll::Ready(()))
    }
}

/// The lines of the trailers that are forwarded.
fn lines(trailers: &HeaderMap) -> Result<Vec<u8>, Failure> {
    let (mut lines, mut passed) = (vec![], vec![]);
    for (name, value) in trailers {
        crate::wire::line(&mut lines, name.as_str().as_bytes(), value.as_bytes());
        if lines.len() > TRAILER_BYTES_MAX {
            return Err(Failure::Body("the trailers are too long"));
        }
    }
    write_trailers(&lines, &mut passed).map_err(Failure::Body)?;
    passed.shrink_to_fit();
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::super::{HEADS_BYTES_MAX, KeptHead, STREAM_WINDOW};
    use super::{Account, Body, Room};
    use crate::serve::clients::{Client, Clients};
    use crate::serve::lost::Failure;
    use bytes::Bytes;
    use h2::RecvStream;
    use http::{HeaderMap, HeaderValue, Request};
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::task::Poll;

    /// Pieces of a body and trailers that a client has sent, and that the server has not read.
    async fn sent(pieces: &[&[u8]], trailers: Option<HeaderMap>) -> RecvStream {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (client, server) = tokio::join!(
            h2::client::handshake(near),
            h2::server::Builder::new()
                .initial_window_size(STREAM_WINDOW)
                .handshake::<_, Bytes>(far),
        );
        let ((mut client, connection), mut server) = (client.unwrap(), server.unwrap());
        tokio::spawn(connection);
        let request = Request::post("http://a.example/").body(()).unwrap();
        let (_response, mut body) = client.send_request(request, false).unwrap();
        for piece in pieces {
            body.send_data(Bytes::copy_from_slice(piece), false).unwrap();
        }
        match trailers {
            Some(trailers) => body.send_trailers(trailers).unwrap(),
            None => body.send_data(Bytes::new(), true).unwrap(),
        }
        let (request, respond) = server.accept().await.unwrap().unwrap();
        tokio::spawn(async move {
            // They are kept as long as the connection.
            let _kept = (client, respond, body);
            while server.accept().await.is_some() {}
        });
        request.into_body()
    }

    /// An account that may use the whole room.
    fn many() -> Arc<Account> {
        Clients::default().account(Client::Trusted)
    }

    /// Stores what arrives until it is complete, or there is too much of it.
    async fn take(body: &mut Body<'_>) -> Result<(), Failure> {
        poll_fn(|cx| match body.take_early(cx) {
            Ok(()) if !body.is_whole => Poll::Pending,
            taken => Poll::Ready(taken),
        })
        .await
    }

    #[tokio::test]
    async fn what_came_early_is_counted_and_passed_on_d1() {
        static ROOM: Room = Room::new(100_000);
        let (heads, proxy) = (Cell::new(0), many());
        let trailers = HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("1"))]);
        let stream = sent(&[&[b'a'; 30_000], &[b'b'; 30_000]], Some(trailers)).await;
        let mut body = Body::within(ROOM.part(&proxy), stream, KeptHead(&heads, 0));
        take(&mut body).await.unwrap();
        assert_eq!(heads.get(), b"etag: 1\r\n".len());
        assert!(!ROOM.part(&proxy).resize(100_000 - 65_536), "the buffer counts");
        let mut passed = vec![];
        while poll_fn(|cx| body.poll_pass(cx, |data| passed.extend_from_slice(data)))
            .await
            .unwrap()
            .is_some()
        {}
        assert_eq!(passed, [[b'a'; 30_000], [b'b'; 30_000]].concat());
        assert_eq!(body.trailers(), b"etag: 1\r\n");
        assert!(ROOM.part(&proxy).resize(99_000), "what was passed on counts no more");
        drop(body);
        assert!(ROOM.part(&proxy).resize(100_000) && heads.get() == 0);
    }

    #[tokio::test]
    async fn what_there_is_no_room_for_is_refused_d1() {
        static ROOM: Room = Room::new(30_000);
        let (heads, proxy) = (Cell::new(0), many());
        let stream = sent(&[&[b'a'; 40_000]], None).await;
        let mut body = Body::within(ROOM.part(&proxy), stream, KeptHead(&heads, 0));
        assert!(matches!(take(&mut body).await, Err(Failure::NoRoom(_))));
        drop(body);
        assert!(ROOM.part(&proxy).resize(30_000), "nothing is kept of it");
        let trailers = HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("1"))]);
        let stream = sent(&[], Some(trailers)).await;
        heads.set(HEADS_BYTES_MAX);
        let mut body = Body::within(ROOM.part(&proxy), stream, KeptHead(&heads, 0));
        assert!(matches!(take(&mut body).await, Err(Failure::NoRoom(_))));
    }

    /// Each of these fields is a byte on the wire.
    #[tokio::test]
    async fn trailers_are_checked_when_they_come_d1() {
        static ROOM: Room = Room::new(30_000);
        let (heads, proxy) = (Cell::new(0), many());
        let mut trailers = HeaderMap::new();
        for _ in 0..=crate::limits::FIELDS_MAX {
            trailers.append(http::header::ETAG, HeaderValue::from_static(""));
        }
        let stream = sent(&[], Some(trailers)).await;
        let mut body = Body::within(ROOM.part(&proxy), stream, KeptHead(&heads, 0));
        assert!(matches!(take(&mut body).await, Err(Failure::Body(_))));
    }
}
