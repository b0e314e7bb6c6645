//! Listening: a task for each remote, a task for each client.

use crate::connection::{Bounds, Connection, End, Watched};
use crate::methods::Methods;
use crate::remote::Remote;
use crate::respond::write_refusal;
use crate::tls::TlsFiles;
use crate::turns::Turns;
use paceline_host::{
    Capacity, Full, Granted, Host, Peer as Comer, Place, Places, SOCKET_MODE, SessionId, bind_unix,
    contained, watch_peer,
};
use paceline_types::Role;
use paceline_types::limits::{FRAME_BYTES_MAX, FRAME_BYTES_MAX_NO_ROLE, JSON_DEPTH_MAX_OVSDB};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::UCred;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsAcceptor;

/// Timeout of a TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Pause before accepting again when descriptors are exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Default maximum of connections for each remote.
const CONNECTIONS_MAX: usize = 16_384;

/// Options for all remotes of the door.
#[derive(Clone, Debug)]
pub struct DoorOptions {
    /// Longest message.
    pub frame_bytes_max: usize,
    /// How long a network client may be silent before it is probed.
    pub probe: Option<Duration>,
    /// The files for `pssl:` remotes.
    pub tls: Option<TlsFiles>,
    /// The role of clients of `ptcp:` and `pssl:` remotes.
    pub role: Role,
    /// The mode of the socket file of a `punix:` remote, which decides which users may connect. It does not decide
    /// their role.
    pub socket_mode: u32,
    /// How many connections each remote accepts.
    pub capacity: Capacity,
}

impl Default for DoorOptions {
    fn default() -> Self {
        Self {
            frame_bytes_max: FRAME_BYTES_MAX,
            probe: Some(Duration::from_secs(5)),
            tls: None,
            role: Role::Operator,
            socket_mode: SOCKET_MODE,
            capacity: Capacity { total: CONNECTIONS_MAX, ..Capacity::default() },
        }
    }
}

/// A remote that is open for clients. When it is dropped, it is closed and its socket file is removed.
#[derive(Debug)]
pub struct OvsdbDoor {
    /// Where it listens, with the port that was bound.
    pub remote: Remote,
    task: tokio::task::JoinHandle<()>,
    socket: Option<Socket>,
}

/// A unix socket that this process created.
#[derive(Debug)]
struct Socket {
    path: PathBuf,
    inode: u64,
}

impl Drop for OvsdbDoor {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(Socket { path, inode }) = &self.socket
            && std::fs::symlink_metadata(path).is_ok_and(|now| now.ino() == *inode)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
    Tls(TcpListener, TlsAcceptor),
}

/// Opens a remote. The error says why it cannot be opened.
pub async fn open(
    host: Arc<Host>,
    remote: &Remote,
    options: &DoorOptions,
) -> Result<OvsdbDoor, String> {
    let fail = |error: io::Error| format!("cannot listen on {remote}: {error}");
    let (listener, bound, socket) = match remote {
        Remote::Unix(path) => {
            let listener = bind_unix(path, options.socket_mode).map_err(fail)?;
            let inode = std::fs::symlink_metadata(path).map_err(fail)?.ino();
            let socket = Socket { path: path.clone(), inode };
            (Listener::Unix(listener), remote.clone(), Some(socket))
        }
        Remote::Tcp(address) => {
            let listener = TcpListener::bind(address).await.map_err(fail)?;
            let bound = Remote::Tcp(listener.local_addr().map_err(fail)?);
            (Listener::Tcp(listener), bound, None)
        }
        Remote::Tls(address) => {
            let Some(files) = &options.tls else {
                return Err(format!("{remote} needs --private-key, --certificate and --ca-cert"));
            };
            let acceptor = files.acceptor()?;
            let listener = TcpListener::bind(address).await.map_err(fail)?;
            let bound = Remote::Tls(listener.local_addr().map_err(fail)?);
            (Listener::Tls(listener, acceptor), bound, None)
        }
    };
    let places = Places::new(bound.to_string(), options.capacity);
    let own = Accept { host, places, turns: Turns::new(), options: options.clone() };
    let task = tokio::spawn(accept(own, listener));
    Ok(OvsdbDoor { remote: bound, task, socket })
}

/// The state of a listener.
struct Accept {
    host: Arc<Host>,
    places: Arc<Places>,
    turns: Turns,
    options: DoorOptions,
}

async fn accept(own: Accept, listener: Listener) {
    loop {
        let accepted = match &listener {
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| own.unix(stream)),
            Listener::Tcp(listener) => {
                listener.accept().await.map(|(stream, address)| own.tcp(stream, address))
            }
            Listener::Tls(listener, acceptor) => {
                listener.accept().await.map(|(stream, address)| own.tls(stream, address, acceptor))
            }
        };
        if let Err(error) = accepted {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

impl Accept {
    fn unix(&self, stream: UnixStream) {
        let (peer, known) = Peer::of_process(&self.host, stream.peer_cred().ok());
        match self.places.take(known) {
            // A local process needs no probe, because the kernel closes its connection when it exits.
            Ok(place) => {
                let mut bounds = self.bounds(None);
                if peer.role.is_none() {
                    // Without a role, the client may only call `echo`.
                    bounds.frame_bytes_max = bounds.frame_bytes_max.min(FRAME_BYTES_MAX_NO_ROLE);
                }
                self.spawn(stream, peer, bounds, place);
            }
            Err(full) => drop(stream.try_write(&refusal(full))),
        }
    }

    fn tcp(&self, stream: TcpStream, address: SocketAddr) {
        match self.places.take(Comer::of_address(address.ip())) {
            Ok(place) => {
                let _ = stream.set_nodelay(true);
                watch_peer(&stream);
                let peer = Peer::of_network(format!("tcp:{address}"), self.options.role);
                self.spawn(stream, peer, self.bounds(self.options.probe), place);
            }
            Err(full) => drop(stream.try_write(&refusal(full))),
        }
    }

    fn tls(&self, stream: TcpStream, address: SocketAddr, acceptor: &TlsAcceptor) {
        // A refusal could be sent only after a handshake, and there is no room for that.
        let Ok(place) = self.places.take(Comer::of_address(address.ip())) else { return };
        let _ = stream.set_nodelay(true);
        watch_peer(&stream);
        let (host, acceptor) = (self.host.clone(), acceptor.clone());
        let (bounds, role) = (self.bounds(self.options.probe), self.options.role);
        let turns = self.turns.clone();
        let task = async move {
            let peer = Peer::of_network(format!("ssl:{address}"), role);
            match tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => serve(host, stream, peer, (bounds, turns), &place).await,
                Ok(Err(error)) => tracing::info!(peer = peer.name, %error, "no TLS handshake"),
                Err(_) => tracing::info!(peer = peer.name, "TLS handshake took too long"),
            }
            drop(place);
        };
        tokio::spawn(async move {
            if let Err(panicked) = contained(task).await {
                tracing::error!("{panicked}");
            }
        });
    }

    const fn bounds(&self, probe: Option<Duration>) -> Bounds {
        Bounds {
            frame_bytes_max: self.options.frame_bytes_max,
            depth_max: JSON_DEPTH_MAX_OVSDB,
            probe,
        }
    }

    fn spawn<S>(&self, stream: S, peer: Peer, bounds: Bounds, place: Place)
    where
        S: AsyncRead + AsyncWrite + Watched + Unpin + Send + 'static,
    {
        let (host, bounds) = (self.host.clone(), (bounds, self.turns.clone()));
        tokio::spawn(async move {
            if let Err(panicked) = contained(serve(host, stream, peer, bounds, &place)).await {
                tracing::error!("{panicked}");
            }
            drop(place);
        });
    }
}

/// The only message to a client that is refused because there is no place for its connection.
fn refusal(full: Full) -> Vec<u8> {
    let mut out = Vec::new();
    write_refusal(&full.to_string(), &mut out);
    out
}

/// The client at the other end, and its role.
struct Peer {
    name: String,
    role: Option<Role>,
    /// The grant of the role, if it can be revoked.
    granted: Option<Arc<Granted>>,
}

impl Peer {
    /// A local process, identified by the kernel.
    fn of_process(host: &Host, peer: Option<UCred>) -> (Self, Comer) {
        let Some(peer) = peer else {
            let nobody = Self { name: "unix".to_owned(), role: None, granted: None };
            return (nobody, Comer::Stranger(u32::MAX));
        };
        let (access, uid) = (host.access(), peer.uid());
        let (role, granted) = access.of_user(uid, &access.user_name(uid));
        let known = Comer::of_user(uid, &(role, granted.clone()));
        let name = match peer.pid() {
            Some(pid) => format!("unix:pid={pid},uid={uid}"),
            None => format!("unix:uid={uid}"),
        };
        (Self { name, role, granted }, known)
    }

    /// A client over a network, which gets the role of the remote.
    fn of_network(name: String, role: Role) -> Self {
        Self { name, role: Some(role), granted: None }
    }
}

/// Waits until a role is revoked; for ever if it cannot be revoked.
async fn taken_away(granted: Option<Arc<Granted>>) {
    match granted {
        Some(granted) => granted.revoked().await,
        None => std::future::pending().await,
    }
}

/// Serves one client from connect to disconnect.
async fn serve<S>(
    host: Arc<Host>,
    stream: S,
    peer: Peer,
    (bounds, turns): (Bounds, Turns),
    place: &Place,
) where
    S: AsyncRead + AsyncWrite + Watched + Unpin,
{
    let name = |id: SessionId| format!("{}#{}", peer.name, id.0);
    let session = host.begin_session_of(place.peer(), peer.role, name);
    peer.granted.iter().for_each(|granted| session.follow_role(Arc::clone(granted)));
    // Also releases everything if this task is dropped before it completes.
    let _end = OnDrop(host.clone(), session.clone());
    tracing::debug!(client = %session.name, "connected");
    let methods = Methods::new(host, session.clone());
    let end = tokio::select! {
        end = Connection::new(stream, methods, bounds, turns.of(place.peer())).run() => end,
        () = taken_away(peer.granted) => End::Cut("its role was revoked".to_owned()),
    };
    match end {
        End::Closed => tracing::debug!(client = %session.name, "disconnected"),
        End::Cut(reason) => tracing::info!(client = %session.name, "disconnected: {reason}"),
        End::Failed(error) => tracing::debug!(client = %session.name, %error, "disconnected"),
    }
}

struct OnDrop(Arc<Host>, Arc<paceline_host::Session>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.end_session(&self.1);
    }
}
