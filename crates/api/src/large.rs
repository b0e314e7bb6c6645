//! Answers that are not small: lists, figures, the configuration.
//!
//! Promises (D1, D4) that few of them are in memory, however slowly clients read, and that making them delays
//! no other client. Few answers are made at a time, one for each user, in turns by user and away from the tasks
//! of others. An answer of more than a megabyte has one of a few places from before it is made until it is
//! sent; one of more than [`FREE_BYTES`] counts with its bytes until it is sent. One user has at most a quarter
//! of places and bytes, and a part is reserved for root and the user who runs the daemon. A client has limited
//! time to read such an answer (`Connection::answer_begins`). The number of connections bounds the memory of
//! smaller answers.

use crate::App;
use crate::backup::Guarded;
use crate::identity::Identity;
use crate::limits::Limits;
use crate::respond::{Answer, JSON, Problem};
use crate::turns::{Turn, Turns, User, none_of, take, user_of, wait};
use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use std::io;
use std::pin::pin;
use std::sync::Arc;

/// Bytes of an answer that do not count.
pub(crate) const FREE_BYTES: usize = 64 << 10;

/// An answer of more bytes takes a place.
const PLACED_BYTES_MIN: usize = 1 << 20;

/// Places for large answers.
const PLACES_MAX: usize = 8;

/// How many answers are made at a time: by two users, and by the owner.
const MAKERS_MAX: usize = 3;

/// Answers that are being made and sent.
pub(crate) struct Answers {
    making: Turns,
    /// The same for answers that read rows, and so wait for the disk if a change is not on it yet.
    making_rows: Turns,
    /// Requests whose attributes are matched with rules aside.
    pub(crate) matching: Turns,
    /// Work that takes much memory or time, such as reading a long text or copying a database.
    pub(crate) working: Turns,
    places: Arc<Turns>,
    bytes: Arc<Turns>,
}

/// Marks an answer that is counted already, or need not be.
#[derive(Clone, Copy)]
pub(crate) struct Counted;

/// An answer that is being made, with a maximum size.
pub(crate) struct Text {
    bytes: Vec<u8>,
    bytes_max: usize,
    /// The refusal if it exceeds that.
    refusal: Option<Problem>,
}

impl Answers {
    pub(crate) fn new(limits: &Limits) -> Self {
        let makers = || Turns::new("answers being made", MAKERS_MAX);
        Self {
            making: makers(),
            making_rows: makers(),
            matching: makers(),
            working: makers(),
            places: Arc::new(Turns::new("large answers", PLACES_MAX)),
            bytes: Arc::new(Turns::new("bytes of answers", limits.answers_bytes_max)),
        }
    }

    /// Checks that a user may be sent more. An edit is refused before it is made and not when its answer is
    /// ready.
    pub(crate) fn check(&self, user: &User) -> Result<(), Problem> {
        self.bytes.check(user)
    }

    /// Counts an answer that was made without a place. If there is no room for it and the request only `reads`,
    /// it is refused.
    pub(crate) async fn counted(&self, answer: Response, user: User, reads: bool) -> Response {
        let length = answer.body().size_hint().exact().unwrap_or_default();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length <= FREE_BYTES || answer.extensions().get::<Counted>().is_some() {
            return answer;
        }
        let is_placed = reads && length > PLACED_BYTES_MIN;
        let (of, count) = if is_placed { (&self.places, 1) } else { (&self.bytes, length) };
        let mut turn = none_of(Arc::clone(of), user);
        match reads {
            true => match turn.add(count) {
                Ok(()) => {}
                Err(problem) => return problem.into_response(),
            },
            false => turn.add_past(count),
        }
        let (mut head, body) = answer.into_parts();
        // Its length is known, so it is complete.
        let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
            return Problem::internal("an answer cannot be read").into_response();
        };
        head.extensions.insert(Counted);
        Response::from_parts(head, Body::new(Guarded::new(bytes, turn)))
    }

    /// The buffer for an answer to a client, and the place that it has if it may be large.
    fn text(&self, identity: &Identity) -> (Text, Option<Turn<Arc<Turns>>>) {
        let (place, bytes_max, refusal) = match take(Arc::clone(&self.places), identity) {
            Ok(place) => (Some(place), usize::MAX, None),
            Err(problem) => (None, PLACED_BYTES_MIN, Some(problem)),
        };
        (Text { bytes: Vec::new(), bytes_max, refusal }, place)
    }

    fn sent(
        &self,
        identity: &Identity,
        media: HeaderValue,
        text: Text,
        place: Option<Turn<Arc<Turns>>>,
    ) -> Answer {
        let left = Bytes::from(text.bytes);
        let place = if left.len() <= FREE_BYTES {
            None
        } else if left.len() <= PLACED_BYTES_MIN {
            let mut bytes = none_of(Arc::clone(&self.bytes), user_of(identity));
            bytes.add(left.len())?;
            Some(bytes)
        } else {
            place
        };
        Ok(whole(media, Body::new(Guarded::new(left, place))))
    }
}

/// 200 with the list that `make` makes.
pub(crate) async fn list(
    app: &App,
    identity: &Identity,
    make: impl FnOnce(&mut Text) -> Result<(), Problem>,
) -> Answer {
    let _turn = wait(&app.answers.making, identity).await;
    let (mut text, place) = app.answers.text(identity);
    tokio::task::block_in_place(|| make(&mut text))?;
    app.answers.sent(identity, JSON, text, place)
}

/// 200 with a list of rows, which `rows` reads and `make` writes.
pub(crate) async fn list_rows<T>(
    app: &App,
    identity: &Identity,
    rows: impl Future<Output = Result<T, Problem>>,
    make: impl FnOnce(T, &mut Text) -> Result<(), Problem>,
) -> Answer {
    text_of_rows(app, identity, JSON, rows, make).await
}

/// The same with a text of another kind.
pub(crate) async fn text_of_rows<T>(
    app: &App,
    identity: &Identity,
    media: HeaderValue,
    rows: impl Future<Output = Result<T, Problem>>,
    make: impl FnOnce(T, &mut Text) -> Result<(), Problem>,
) -> Answer {
    let _turn = wait(&app.answers.making_rows, identity).await;
    let (mut text, place) = app.answers.text(identity);
    let rows = aside(rows).await?;
    tokio::task::block_in_place(|| make(rows, &mut text))?;
    app.answers.sent(identity, media, text, place)
}

/// 200 with bytes that all clients share, which therefore need not count.
pub(crate) fn shared(media: HeaderValue, bytes: &Bytes) -> Response {
    whole(media, Body::new(Guarded::new(bytes.clone(), ())))
}

fn whole(media: HeaderValue, body: Body) -> Response {
    let mut answer = Response::new(body);
    answer.headers_mut().insert(CONTENT_TYPE, media);
    answer.extensions_mut().insert(Counted);
    answer
}

/// Runs a future away from the tasks of others.
pub(crate) async fn aside<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| tokio::task::block_in_place(|| future.as_mut().poll(cx))).await
}

impl Text {
    /// A value as JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Problem> {
        // Writing fails only if there is no room, or for maps whose keys are not texts, which do not occur
        // here.
        serde_json::to_writer(&mut *self, value).map_err(|_| self.too_long())
    }

    /// A text.
    pub(crate) fn plain(&mut self, text: &str) -> Result<(), Problem> {
        io::Write::write_all(self, text.as_bytes()).map_err(|_| self.too_long())
    }

    fn too_long(&self) -> Problem {
        self.refusal.clone().unwrap_or_else(|| Problem::internal("a list cannot be written"))
    }
}

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.bytes.len() + bytes.len() > self.bytes_max {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => {
                self.bytes.extend_from_slice(bytes);
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
