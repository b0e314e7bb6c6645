//! The door itself: its thread, its listeners, and the configuration that it follows.

use crate::serve::accept;
use crate::serve::worker::Worker;
use paceline_host::{Capacity, Host, Places};
use paceline_net::listen::{self, Listening};
use paceline_routing::Address;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::task::LocalSet;

/// The options that the door is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address for TCP clients, which log in by SCRAM; none if there is none.
    pub address: Option<SocketAddr>,
    /// Whether the door does not open if that address cannot be bound. If not, it opens without it.
    pub is_strict: bool,
    /// The unix socket, whose clients the kernel identifies.
    pub socket: PathBuf,
    /// The permissions of that socket.
    pub socket_mode: u32,
    /// Connections of clients that may be open at a time, at each socket.
    pub capacity: Capacity,
}

/// The open door.
#[derive(Debug)]
pub struct Door {
    /// The address that it listens at, with the port that the system chose for port 0.
    pub address: Option<SocketAddr>,
    /// The unix socket.
    pub socket: PathBuf,
    /// Why it does not listen at its address, if it does not.
    pub problem: Option<String>,
    closed: watch::Sender<bool>,
    drained: std::sync::Mutex<Option<oneshot::Receiver<()>>>,
}

impl Door {
    /// Opens the door: listens, and follows the configured targets from then on.
    ///
    /// # Errors
    ///
    /// When an address cannot be bound or the thread cannot be started.
    pub fn open(host: Arc<Host>, options: &Options) -> Result<Self, String> {
        let (mut listening, mut address, mut problem) = (vec![], None, None);
        if let Some(wanted) = options.address {
            match listen::open(&Address::Socket(wanted), 1, false) {
                Ok((bound, listeners)) => {
                    address = if let Address::Socket(bound) = bound { Some(bound) } else { None };
                    listening.extend(listeners);
                }
                Err(error) => problem = Some(format!("cannot listen at {wanted} for SQL: {error}")),
            }
        }
        if options.is_strict
            && let Some(problem) = problem
        {
            return Err(problem);
        }
        let socket = options.socket.clone();
        let unix = paceline_host::bind_unix(&socket, options.socket_mode)
            .and_then(tokio::net::UnixListener::into_std)
            .map_err(|error| format!("cannot listen at {}: {error}", socket.display()))?;
        listening.push(Listening::Unix(unix));
        let mut secret = [0; 32];
        SystemRandom::new().fill(&mut secret).map_err(|_| "no random numbers can be had")?;
        let (closed, is_closed) = watch::channel(false);
        let (done, drained) = oneshot::channel();
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start the SQL door: {error}"))?;
        let capacity = options.capacity;
        let run = move || {
            let local = LocalSet::new();
            local.block_on(&runtime, serve(host, secret, listening, capacity, is_closed));
            let _ = done.send(());
        };
        std::thread::Builder::new()
            .name("sql".into())
            .spawn(run)
            .map_err(|error| format!("cannot start the SQL door: {error}"))?;
        Ok(Self { address, socket, problem, closed, drained: std::sync::Mutex::new(Some(drained)) })
    }

    /// Stops accepting connections. Returns when all sessions have ended, each as soon as it is outside a transaction.
    pub async fn drain(&self) {
        self.closed.send_replace(true);
        let drained = self.drained.lock().unwrap_or_else(paceline_host::broken).take();
        if let Some(drained) = drained {
            // The sender is dropped when the thread is gone, which also counts as drained.
            let _ = drained.await;
        }
    }
}

/// The thread of the door.
async fn serve(
    host: Arc<Host>,
    secret: [u8; 32],
    listening: Vec<Listening>,
    capacity: Capacity,
    mut closed: watch::Receiver<bool>,
) {
    let mut settings = host.control().follow();
    let worker = Worker::new(host, secret);
    worker.configure(&settings.borrow_and_update().clone());
    for one in listening {
        let name = if matches!(one, Listening::Unix(_)) { "sql unix" } else { "sql" };
        let (worker, places) = (std::rc::Rc::clone(&worker), Places::new(name, capacity));
        tokio::task::spawn_local(accept::run(worker, one, places, closed.clone()));
    }
    loop {
        tokio::select! {
            changed = settings.changed() => match changed {
                Ok(()) => worker.configure(&settings.borrow_and_update().clone()),
                Err(_) => break,
            },
            _ = closed.wait_for(|closed| *closed) => break,
        }
    }
    worker.drain();
    while worker.connections() > 0 {
        worker.ended.notified().await;
    }
}
