//! Work for one connection that takes long, and that the task of the connection waits for.
//!
//! A few threads do it for all connections, in turns (`database/lane.rs`). So a task of the runtime neither
//! does such work itself nor leaves its thread to another one meanwhile: however many connections ask for it
//! and however often, there are no more threads than [`Lane`] allows, and they end when there is nothing to do
//! (D1, D4). The door bounds what a connection asks for in its turn.

use crate::contained::contained_work;
use crate::database::lane::{Lane, Whose};
use crate::session::Session;
use crate::tasks::{Job, Tasks};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Does long work of connections.
pub struct Beside {
    lane: Lane<Job>,
    tasks: Tasks,
}

impl Beside {
    pub(crate) fn new(tasks: Tasks) -> Self {
        Self { lane: Lane::default(), tasks }
    }

    /// Does `work` for a client when it is its turn. The receiver gets the result, or fails if the work
    /// panicked. Work is skipped if the connection has dropped the receiver by then.
    pub fn run<T: Send + 'static>(
        self: &Arc<Self>,
        session: &Session,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        let job = Box::new(move || {
            if !sender.is_closed()
                && let Ok(done) = contained_work(work)
            {
                // A connection that has ended meanwhile has dropped the receiver.
                let _ = sender.send(done);
            }
        });
        if self.lane.add([Whose::of(session)], job) {
            let this = Arc::clone(self);
            self.tasks.spawn_blocking(move || this.run_all());
        }
        receiver
    }

    fn run_all(&self) {
        while let Some((_, job)) = self.lane.next() {
            job();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::kept::tests::World;
    use paceline_types::Role;
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    /// D1, D4: however much work waits, few threads do it. Each connection gets the result of its own work; one
    /// whose work panics gets none.
    #[test]
    fn few_threads_do_the_long_work_of_many_connections_d1_d4() {
        let world = World::new("beside");
        let (host, threads) = (world.host(), Arc::new(Mutex::new(BTreeSet::new())));
        let connect = || host.begin_session(Some(Role::Viewer), |id| id.0.to_string());
        let receivers: Vec<_> = (0..200)
            .map(|number| {
                let threads = Arc::clone(&threads);
                host.beside().run(&connect(), move || {
                    let id = format!("{:?}", std::thread::current().id());
                    threads.lock().unwrap().insert(id);
                    assert_ne!(number, 7, "planted");
                    number
                })
            })
            .collect();
        for (number, receiver) in receivers.into_iter().enumerate() {
            let done = receiver.blocking_recv().ok();
            assert_eq!(done, (number != 7).then_some(number));
        }
        let threads = threads.lock().unwrap().len();
        assert!(threads <= 4, "{threads} threads");
    }

    /// D4: work of a connection that has ended is not done.
    #[test]
    fn work_of_a_connection_that_has_ended_is_not_done_d4() {
        let world = World::new("beside-ended");
        let host = world.host();
        let session = host.begin_session(Some(Role::Viewer), |id| id.0.to_string());
        host.beside().lane.pause();
        drop(host.beside().run(&session, || panic!("it is done")));
        let receiver = host.beside().run(&session, || 1);
        host.beside().run_all();
        assert_eq!(receiver.blocking_recv(), Ok(1));
    }
}
