//! The tasks of connections: a panic in one ends its connection, and nothing else.
//!
//! Only tasks for one connection run here: the connection itself with its tunnel, an HTTP/2 stream, an orphan. Tasks
//! for all connections of a worker (a listener, the access log, the closing of idle connections) do not, so a panic
//! there ends the process (`host/src/contained.rs`). Connections of one worker change the state that they share
//! without a lock only by single calls that cannot panic halfway.

use paceline_host::{Panicked, contained};

/// Runs a task of one connection on this worker.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    spawn_or(task, |_| {});
}

/// Runs a task of one connection, and calls `panicked` if it panicked.
pub fn spawn_or(
    task: impl Future<Output = ()> + 'static,
    panicked: impl FnOnce(Panicked) + 'static,
) {
    tokio::task::spawn_local(guarded(task, panicked));
}

/// The task is boxed so that its memory is taken once: a future that is passed through another one takes twice the
/// memory.
fn guarded(
    task: impl Future<Output = ()> + 'static,
    panicked: impl FnOnce(Panicked) + 'static,
) -> impl Future<Output = ()> {
    let task = Box::pin(task);
    async move {
        if let Err(error) = contained(task).await {
            tracing::error!("{error}");
            panicked(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{guarded, spawn, spawn_or};
    use paceline_host::{Panicked, end_with_panics};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, ExitStatus};
    use tokio::sync::oneshot;
    use tokio::task::LocalSet;

    /// Selects the fault of [`strike`] that a child process injects.
    const FAULT: &str = "PACELINE_TEST_FAULT";

    /// Does nothing except in a process that [`ends`] started.
    #[test]
    fn strike() {
        let Ok(fault) = std::env::var(FAULT) else { return };
        end_with_panics();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let (other, served) = oneshot::channel();
            match fault.as_str() {
                "in a connection" => spawn(async { panic!("planted") }),
                "in a stream" => {
                    let (sender, told) = oneshot::channel();
                    spawn_or(async { panic!("planted") }, |error| sender.send(error).unwrap());
                    assert_eq!(told.await, Ok(Panicked), "its connection is told");
                }
                "in a listener" => drop(tokio::task::spawn_local(async { panic!("planted") })),
                other => panic!("{other}"),
            }
            spawn(async { other.send(()).unwrap() });
            served.await.unwrap();
        });
        std::process::exit(0);
    }

    #[test]
    fn a_task_takes_its_room_once_d1() {
        let large = [1u8; 4 << 10];
        let task = async move {
            std::future::pending::<()>().await;
            assert!(large.is_ascii());
        };
        assert!(size_of_val(&guarded(task, |_| {})) < 200);
    }

    fn ends(fault: &str) -> ExitStatus {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "task::tests::strike"]).env(FAULT, fault);
        command.output().unwrap().status
    }

    #[test]
    fn a_panic_ends_its_connection_and_a_listeners_panic_the_process_d4() {
        assert!(ends("in a connection").success());
        assert!(ends("in a stream").success());
        assert_eq!(ends("in a listener").signal(), Some(6));
    }
}
