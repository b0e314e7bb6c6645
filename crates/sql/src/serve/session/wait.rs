//! The waits of a session: for its permit, and for a server. Meanwhile a client that disconnects or cancels is noticed.

use super::{Session, Step, Work, unsent};
use crate::limits::NOTICE_AFTER;
use crate::respond;
use crate::serve::pool::Linked;
use paceline_net::timer::Timer;
use paceline_postgres::wire::report::Severity;
use paceline_types::RequestId;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What ended a wait.
enum Told<T> {
    Is(T),
    Left,
    Cancelled,
}

impl Work {
    /// Waits for the permit of the batch.
    pub(super) async fn wait_for_permit(&mut self) {
        self.step = Step::Exchange;
        let Some((id, waiting)) = self.waiting.take() else { return };
        let notice = self.session.pool.target.notice.then_some(id);
        match self.wait_for(waiting, notice).await {
            Told::Is(Some(Ok(permit))) => {
                // The client may have disconnected at the moment of the grant, before this was reported.
                if self.session.stream.socket().has_left() {
                    permit.withdraw();
                    return self.leave();
                }
                self.permit = Some(permit);
                self.session.relay.admitted();
                self.perform();
            }
            Told::Is(Some(Err(refusal))) => {
                let report = respond::refused(id, &refusal, self.session.worker.control.now());
                self.session.relay.refused(&report);
                self.perform();
            }
            Told::Cancelled => {
                self.session.relay.cancel();
                self.perform();
            }
            Told::Left | Told::Is(None) => self.leave(),
        }
    }

    /// Waits for a server.
    pub(super) async fn wait_for_server(&mut self) {
        self.step = Step::Exchange;
        let Session { pool, key, proof, .. } = &self.session;
        let (pool, key, proof) = (Rc::clone(pool), key.clone(), proof.clone());
        let found = async move { pool.take(&key, proof.as_ref()).await };
        match self.wait_for(found, None).await {
            Told::Is(Ok(Linked { connection, server })) => {
                self.connection = Some(connection);
                self.session.relay.linked(server, self.session.pool.epoch());
                self.perform();
            }
            Told::Is(Err(report)) => {
                self.session.relay.link_failed(&report.with_severity(Severity::Error));
                self.perform();
            }
            Told::Cancelled => {
                self.session.relay.cancel();
                self.perform();
            }
            Told::Left => self.leave(),
        }
    }

    /// Waits for `future`, unless the client disconnects or cancels. Meanwhile the client is sent what was written before, and
    /// if `notice` names its request, a notice of what it waits for.
    async fn wait_for<T>(
        &mut self,
        future: impl Future<Output = T>,
        notice: Option<RequestId>,
    ) -> Told<T> {
        let mut future = std::pin::pin!(future);
        let mut timer = notice.map(|id| (id, Timer::new(NOTICE_AFTER)));
        loop {
            self.write_now();
            let Session { registered, stream, out, .. } = &self.session;
            let is_due = poll_fn(|cx| match &mut timer {
                Some((_, timer)) => timer.poll(cx),
                None => Poll::Pending,
            });
            tokio::select! {
                biased;
                () = stream.socket().left() => return Told::Left,
                () = poll_fn(|cx| ready(registered.0.take_cancel(cx))) => return Told::Cancelled,
                value = &mut future => return Told::Is(value),
                () = stream.socket().writable(), if unsent(out) > 0 => {}
                () = is_due => {
                    if let Some((id, _)) = timer.take() {
                        self.add_notice(id);
                    }
                }
            }
        }
    }

    /// Adds a notice of what the statement waits for.
    fn add_notice(&mut self, id: RequestId) {
        let Session { worker, out, .. } = &mut self.session;
        if let Some(why) = worker.control.why(id) {
            respond::waits(&why, worker.control.now()).write(&mut out.bytes);
        }
    }

    /// Writes what the client takes at once.
    pub(super) fn write_now(&mut self) {
        let Session { out, stream, .. } = &mut self.session;
        if !out.is_empty() {
            let mut cx = Context::from_waker(Waker::noop());
            if let Poll::Ready(Ok(())) = out.poll_write_all(stream, &mut cx) {
                out.clear();
            }
        }
    }
}

const fn ready(is_ready: bool) -> Poll<()> {
    match is_ready {
        true => Poll::Ready(()),
        false => Poll::Pending,
    }
}
