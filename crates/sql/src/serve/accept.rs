//! Accepts connections, and finds out where they come from.

use crate::respond;
use crate::serve::login;
use crate::serve::worker::Worker;
use paceline_host::{Peer, Places};
use paceline_net::listen::Listening;
use paceline_net::stream::Socket;
use paceline_net::task;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

/// How long accepting pauses when the system has no more descriptors or memory.
const REST: Duration = Duration::from_millis(100);

/// Where a connection comes from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// A local user, as the kernel says.
    Unix { uid: u32, user: Box<str> },
    /// An address.
    Tcp(IpAddr),
}

impl Origin {
    /// Whose connections it counts among.
    fn peer(&self, worker: &Worker) -> Peer {
        match self {
            Self::Unix { uid, user } => {
                Peer::of_user(*uid, &worker.host.access().of_user(*uid, user))
            }
            Self::Tcp(address) => Peer::of_address(*address),
        }
    }

    /// What requests carry as `host`.
    pub fn host(&self) -> Box<str> {
        match self {
            Self::Unix { .. } => "unix".into(),
            Self::Tcp(address) => address.to_string().into(),
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self, worker: &Worker) -> io::Result<(Socket, Origin)> {
        match self {
            Self::Tcp(listener) => {
                let (socket, from) = listener.accept().await?;
                // Without it, small messages wait for the acknowledgement of others.
                let _ = socket.set_nodelay(true);
                Ok((Socket::Tcp(socket), Origin::Tcp(from.ip().to_canonical())))
            }
            Self::Unix(listener) => {
                let (socket, _) = listener.accept().await?;
                let uid = socket.peer_cred()?.uid();
                let user = worker.host.access().user_name(uid).into();
                Ok((Socket::Unix(socket), Origin::Unix { uid, user }))
            }
        }
    }
}

/// Accepts connections until the daemon ends. Must run in the worker's runtime.
pub(crate) async fn run(
    worker: Rc<Worker>,
    listening: Listening,
    places: Arc<Places>,
    mut closed: watch::Receiver<bool>,
) {
    let listener = match listening {
        Listening::Tcp(listener) => TcpListener::from_std(listener).map(Listener::Tcp),
        Listening::Unix(listener) => UnixListener::from_std(listener).map(Listener::Unix),
    };
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the SQL door cannot listen"),
    };
    loop {
        let accepted = tokio::select! {
            _ = closed.wait_for(|closed| *closed) => return,
            accepted = listener.accept(&worker) => accepted,
        };
        match accepted {
            Ok((socket, origin)) => match places.take(origin.peer(&worker)) {
                Ok(place) => {
                    let (worker, present) = (Rc::clone(&worker), worker.enter());
                    task::spawn(async move {
                        login::serve(worker, socket, origin).await;
                        drop((present, place));
                    });
                }
                Err(full) => login::refuse(socket, &respond::too_many(full)),
            },
            Err(error) => {
                tracing::warn!(%error, "a SQL connection cannot be accepted");
                tokio::time::sleep(REST).await;
            }
        }
    }
}
