//! The input of a client: turns bytes into messages and handles them, no faster than there is room for responses.
//!
//! Promises that no message is handled while too many of the client's answers wait, or after the client was found to
//! have left, even if it arrived together with others. What was read beyond that is kept, at most as much as one read
//! gives. Of what one read gives, so much is handled before others have their turn as [`MESSAGES_MAX`] and
//! [`ANSWERED_BYTES_MAX`] say: a read may have a thousand requests for long answers. What is kept counts in the budget of all connections, and an unfinished message may be as long as this
//! connection's share of it. Long messages are handled in turn (`turns.rs`).

use crate::methods::Methods;
use crate::turns::{AtWork, PeerTurns, Turn, Working};
use crate::wire::{Framer, Message};
use paceline_host::Part;
use std::borrow::Cow;
use std::task::{Context, Poll};
use tokio::task::block_in_place;

/// Longer messages wait for their turn, and are handled where they may block the thread.
const LONG_BYTES: usize = 64 << 10;

/// So many messages are handled before others have their turn, and fewer if their answers take more than this.
const MESSAGES_MAX: usize = 256;
const ANSWERED_BYTES_MAX: usize = 256 << 10;

/// What came from a client and is not handled yet.
pub(crate) struct Intake {
    framer: Framer,
    bytes_max: usize,
    depth_max: usize,
    turns: PeerTurns,
    /// The wait for this connection's turn to work.
    waiting: Option<AtWork>,
    /// A message that waits for its turn.
    long: Option<(Vec<u8>, Turn)>,
    /// Bytes that were read after the last handled message.
    rest: Vec<u8>,
    rest_at: usize,
    /// The part of the budget for everything kept here.
    part: Part,
}

impl Intake {
    pub(crate) fn new(bytes_max: usize, depth_max: usize, turns: PeerTurns, part: Part) -> Self {
        let framer = Framer::new(bytes_max, depth_max);
        let rest = Vec::new();
        Self {
            framer,
            bytes_max,
            depth_max,
            turns,
            long: None,
            waiting: None,
            rest,
            rest_at: 0,
            part,
        }
    }

    /// Waits until this connection may handle messages. It may until the result is dropped.
    pub(crate) fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<Option<Working>> {
        let mut waiting = match self.waiting.take() {
            Some(waiting) => waiting,
            None => match self.turns.try_work() {
                Some(working) => return Poll::Ready(Some(working)),
                None => self.turns.wait_to_work(),
            },
        };
        match waiting.as_mut().poll(cx) {
            Poll::Ready(working) => Poll::Ready(working.ok()),
            Poll::Pending => {
                self.waiting = Some(waiting);
                Poll::Pending
            }
        }
    }

    /// Gives up the wait, because nothing can be handled now: a turn that nobody takes is lost to others.
    pub(crate) fn stop_waiting(&mut self) {
        self.waiting = None;
    }

    /// Takes bytes that were read. The error says why the stream cannot be parsed any further.
    pub(crate) fn take(&mut self, bytes: &[u8], methods: &mut Methods) -> Result<(), String> {
        let taken = self.feed(bytes, methods)?;
        self.rest.extend_from_slice(bytes.get(taken..).unwrap_or_default());
        self.count()
    }

    /// Counts what is kept. The error says that there is no memory for the unfinished message.
    fn count(&mut self) -> Result<(), String> {
        let long = self.long.as_ref().map_or(0, |(frame, _)| frame.len());
        let begun = self.framer.kept();
        self.part.set(long + begun + self.rest.len());
        if begun > self.part.budget().share(self.bytes_max) {
            let bytes = begun;
            return Err(format!(
                "there is no memory for a message of more than {bytes} bytes just now"
            ));
        }
        Ok(())
    }

    /// Drops what is kept, because the stream is not parsed any further.
    pub(crate) fn forget(&mut self) {
        self.framer = Framer::new(self.bytes_max, self.depth_max);
        (self.long, self.rest, self.rest_at) = (None, Vec::new(), 0);
        self.part.set(0);
    }

    /// Continues with bytes that were read before; none if there are none left.
    pub(crate) fn poll_rest(
        &mut self,
        cx: &mut Context<'_>,
        methods: &mut Methods,
    ) -> Poll<Option<Result<(), String>>> {
        if let Some((frame, mut turn)) = self.long.take() {
            let Poll::Ready(permit) = turn.as_mut().poll(cx) else {
                self.long = Some((frame, turn));
                return Poll::Pending;
            };
            let handled = block_in_place(|| {
                let handled = handle(frame.into(), self.depth_max, methods);
                methods.flush();
                handled
            });
            drop(permit);
            return Poll::Ready(Some(handled.and_then(|()| self.count())));
        }
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let rest = std::mem::take(&mut self.rest);
        let taken = self.feed(rest.get(self.rest_at..).unwrap_or_default(), methods);
        self.rest_at += *taken.as_ref().unwrap_or(&0);
        if self.rest_at < rest.len() {
            self.rest = rest;
        } else {
            self.rest_at = 0;
        }
        Poll::Ready(Some(taken.and_then(|_| self.count())))
    }

    /// Handles the messages that end in `bytes`, until one must wait. Returns how many bytes it consumed.
    fn feed(&mut self, bytes: &[u8], methods: &mut Methods) -> Result<usize, String> {
        let Self { framer, depth_max, turns, long, .. } = self;
        let mut failed = None;
        let had_locked = methods.has_locked();
        let (mut handled, waiting) = (0, methods.session().waiting_bytes());
        let fed = framer.feed(bytes, |frame| match frame {
            Cow::Owned(frame) if frame.len() > LONG_BYTES => {
                let turn = turns.wait(frame.len());
                *long = Some((frame, turn));
                false
            }
            frame => {
                failed = handle(frame, *depth_max, methods).err();
                // When the client asks for its first lock, the connection starts to watch the client before it
                // handles more messages.
                let is_first_lock = !had_locked && methods.has_locked();
                let session = methods.session();
                let is_gone = session.outbox.closed().is_some();
                handled += 1;
                let is_turn = handled < MESSAGES_MAX
                    && session.waiting_bytes().saturating_sub(waiting) < ANSWERED_BYTES_MAX;
                failed.is_none() && !is_first_lock && !is_gone && is_turn && !session.is_full()
            }
        });
        methods.flush();
        failed.map_or(Ok(()), Err)?;
        fed.map_err(|error| error.to_string())
    }
}

fn handle(frame: Cow<'_, [u8]>, depth_max: usize, methods: &mut Methods) -> Result<(), String> {
    let message = Message::parse(&frame, depth_max).map_err(|error| error.to_string())?;
    drop(frame);
    methods.handle(message);
    Ok(())
}
