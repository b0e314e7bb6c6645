//! Connections to servers, and those that wait for the next request.
//!
//! Each worker keeps its own: no lock, no thread is ever woken for one. The last one used is used
//! first, so that those above the need grow old and are closed.

use crate::serve::buffer::Buffer;
use crate::serve::stream::Socket;
use crate::serve::table::{Target, duration};
use paceline_routing::Address;
use paceline_types::ServerId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep_until, timeout};

/// Idle connections that one worker keeps to one server.
const IDLE_MAX: usize = 512;

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub socket: Socket,
    /// What was read of it; empty between two requests.
    pub buf: Buffer,
    pub target: Arc<Target>,
    /// Whether it was used before: then the server may be closing it right now.
    pub is_reused: bool,
}

/// The idle connections of one worker.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    by_server: RefCell<BTreeMap<ServerId, Vec<(Instant, Upstream)>>>,
    /// Whether something waits for the oldest to be closed.
    is_watched: Cell<bool>,
}

impl Idle {
    /// A connection to this server that is alive, as far as the system knows right now. Nobody speaks on
    /// it but the server, which has nothing to say: what can be read is its end, or not meant for
    /// whoever comes next.
    pub fn take(&self, target: &Arc<Target>) -> Option<Upstream> {
        let mut by_server = self.by_server.borrow_mut();
        let idle = by_server.get_mut(&target.id)?;
        while let Some((_, mut upstream)) = idle.pop() {
            let is_right =
                Arc::ptr_eq(&upstream.target, target) || upstream.target.address == target.address;
            if !is_right || upstream.socket.is_readable() {
                continue;
            }
            upstream.target = Arc::clone(target);
            upstream.is_reused = true;
            return Some(upstream);
        }
        None
    }

    /// Keeps a connection whose last response is whole.
    pub fn put(self: &Rc<Self>, mut upstream: Upstream) {
        upstream.buf.release();
        let until = Instant::now() + duration(upstream.target.timeouts.idle);
        let mut by_server = self.by_server.borrow_mut();
        let idle = by_server.entry(upstream.target.id).or_default();
        if idle.len() < IDLE_MAX {
            idle.push((until, upstream));
        }
        drop(by_server);
        if !self.is_watched.replace(true) {
            tokio::task::spawn_local(Rc::clone(self).watch());
        }
    }

    /// Closes all to servers that are not in use any more.
    pub fn retain(&self, is_kept: impl Fn(ServerId) -> bool) {
        self.by_server.borrow_mut().retain(|id, _| is_kept(*id));
    }

    /// Closes connections as they grow old, until there are none.
    async fn watch(self: Rc<Self>) {
        while let Some(next) = self.prune(Instant::now()) {
            sleep_until(next).await;
        }
        self.is_watched.set(false);
    }

    /// Closes those that are too old; tells when the next one is.
    fn prune(&self, now: Instant) -> Option<Instant> {
        let mut by_server = self.by_server.borrow_mut();
        by_server.retain(|_, idle| {
            let old = idle.partition_point(|(until, _)| *until <= now);
            idle.drain(..old);
            !idle.is_empty()
        });
        by_server.values().filter_map(|idle| idle.first()).map(|(until, _)| *until).min()
    }
}

/// Connects to a server.
pub(crate) async fn connect(target: &Arc<Target>) -> io::Result<Upstream> {
    let wait = duration(target.timeouts.connect);
    let socket = match timeout(wait, open(&target.address)).await {
        Ok(opened) => opened?,
        Err(_) => return Err(io::ErrorKind::TimedOut.into()),
    };
    let target = Arc::clone(target);
    Ok(Upstream { socket, buf: Buffer::default(), target, is_reused: false })
}

/// Connects to an address.
pub(crate) async fn open(address: &Address) -> io::Result<Socket> {
    let socket = match address {
        Address::Socket(address) => TcpStream::connect(address).await?,
        Address::Host { name, port } => TcpStream::connect((&**name, *port)).await?,
        Address::Unix(path) => return Ok(Socket::Unix(UnixStream::connect(&**path).await?)),
    };
    socket.set_nodelay(true)?;
    Ok(Socket::Tcp(socket))
}
