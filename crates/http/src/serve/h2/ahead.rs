//! How far the connections of a worker read ahead of the tasks that process the data.
//!
//! A connection reads everything that the system has, and each stream takes its part when its task runs. A worker may
//! read a thousand connections before that. Meanwhile `h2` holds many times the bytes received, because one byte can
//! name a field of a head. Promises that a worker reads at most `AHEAD_BYTES_MAX` before the tasks that this woke
//! have run (D1).

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

/// Bytes that all connections of a worker read before other tasks run.
const AHEAD_BYTES_MAX: usize = 4 << 20;

/// The weight of a byte of a head: a field that one byte names takes some 90 bytes.
const HEAD_BYTE: usize = 64;

thread_local! {
    /// The state of the worker on this thread.
    static AHEAD: Ahead = const { Ahead::new() };
}

#[derive(Debug)]
struct Ahead {
    left: Cell<usize>,
    /// Connections that wait to read more.
    waiting: RefCell<Vec<Waker>>,
}

/// Whether a connection may read. If not, it is woken when it may.
pub(super) fn may_read(cx: &Context<'_>) -> bool {
    AHEAD.with(|ahead| ahead.may_read(cx))
}

/// Counts bytes that were read; `of_heads` of them belong to heads or trailers.
pub(super) fn has_read(bytes: usize, of_heads: usize) {
    let count = bytes + of_heads * HEAD_BYTE;
    AHEAD.with(|ahead| ahead.left.set(ahead.left.get().saturating_sub(count)));
}

impl Ahead {
    const fn new() -> Self {
        Self { left: Cell::new(AHEAD_BYTES_MAX), waiting: RefCell::new(vec![]) }
    }

    fn may_read(&self, cx: &Context<'_>) -> bool {
        if self.left.get() > 0 {
            return true;
        }
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            tokio::task::spawn_local(begin_anew());
        }
        if !waiting.last().is_some_and(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        false
    }
}

/// Lets connections read again, after all tasks that are ready now.
async fn begin_anew() {
    tokio::task::yield_now().await;
    let waiting = AHEAD.with(|ahead| {
        ahead.left.set(AHEAD_BYTES_MAX);
        ahead.waiting.take()
    });
    waiting.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
mod tests {
    use super::{AHEAD_BYTES_MAX, HEAD_BYTE, has_read, may_read};
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::task::Poll;

    /// Reads a head as soon as it may, and passes it to a task.
    async fn read(len: usize, held: Rc<Cell<usize>>) {
        poll_fn(|cx| if may_read(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
        has_read(len, len);
        held.set(held.get() + len);
        tokio::task::spawn_local(async move { held.set(held.get() - len) });
    }

    #[test]
    fn connections_do_not_read_far_ahead_of_their_streams_d1() {
        const LEN: usize = 1_000;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let (held, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            let connections: Vec<_> = (0..300)
                .map(|_| {
                    let (held, most) = (Rc::clone(&held), Rc::clone(&most));
                    tokio::task::spawn_local(async move {
                        for _ in 0..10 {
                            read(LEN, Rc::clone(&held)).await;
                            most.set(most.get().max(held.get()));
                        }
                    })
                })
                .collect();
            for connection in connections {
                connection.await.unwrap();
            }
            assert!(most.get() <= AHEAD_BYTES_MAX / HEAD_BYTE + LEN, "{}", most.get());
        });
    }
}
