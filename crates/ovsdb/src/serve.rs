//! Listening: a task for each remote, a task for each client.

use crate::connection::{Bounds, Connection, End};
use crate::methods::Methods;
use crate::remote::Remote;
use crate::tls::TlsFiles;
use paceline_host::{Granted, Host, SOCKET_MODE, bind_unix};
use paceline_types::Role;
use paceline_types::limits::{FRAME_BYTES_MAX, JSON_DEPTH_MAX_OVSDB};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::UCred;
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

/// How long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// How long to wait when no further connection can be accepted, for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What all remotes of the door have in common.
#[derive(Clone, Debug)]
pub struct DoorOptions {
    /// Longest message.
    pub frame_bytes_max: usize,
    /// How long a client over a network may be silent before it is asked for a sign of life.
    pub probe: Option<Duration>,
    /// What `pssl:` remotes need.
    pub tls: Option<TlsFiles>,
    /// What clients of `ptcp:` and `pssl:` remotes may do.
    pub role: Role,
    /// Who may connect to a `punix:` remote, as the mode of its file; what they may do is another
    /// matter.
    pub socket_mode: u32,
}

impl Default for DoorOptions {
    fn default() -> Self {
        Self {
            frame_bytes_max: FRAME_BYTES_MAX,
            probe: Some(Duration::from_secs(5)),
            tls: None,
            role: Role::Operator,
            socket_mode: SOCKET_MODE,
        }
    }
}

/// A remote that is open for clients; closes and tidies up when dropped.
#[derive(Debug)]
pub struct Door {
    /// Where it listens, with the port that was really bound.
    pub remote: Remote,
    task: tokio::task::JoinHandle<()>,
    socket: Option<Socket>,
}

/// A unix socket that this process made.
#[derive(Debug)]
struct Socket {
    path: PathBuf,
    inode: u64,
}

impl Drop for Door {
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

/// Opens a remote. An error says what is in the way.
pub async fn open(host: Arc<Host>, remote: &Remote, options: &DoorOptions) -> Result<Door, String> {
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
    let task = tokio::spawn(accept(host, listener, options.clone()));
    Ok(Door { remote: bound, task, socket })
}

async fn accept(host: Arc<Host>, listener: Listener, options: DoorOptions) {
    let bounds = |probe| Bounds {
        frame_bytes_max: options.frame_bytes_max,
        depth_max: JSON_DEPTH_MAX_OVSDB,
        probe,
    };
    loop {
        let accepted = match &listener {
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                // A process on this machine whose end is closed by the kernel needs no probe.
                let peer = Peer::of_process(&host, stream.peer_cred().ok());
                tokio::spawn(serve(host.clone(), stream, peer, bounds(None)));
            }),
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, address)| {
                let _ = stream.set_nodelay(true);
                let peer = Peer::of_network(format!("tcp:{address}"), options.role);
                tokio::spawn(serve(host.clone(), stream, peer, bounds(options.probe)));
            }),
            Listener::Tls(listener, acceptor) => {
                listener.accept().await.map(|(stream, address)| {
                    let _ = stream.set_nodelay(true);
                    let (host, acceptor) = (host.clone(), acceptor.clone());
                    let (bounds, role) = (bounds(options.probe), options.role);
                    tokio::spawn(async move {
                        let peer = Peer::of_network(format!("ssl:{address}"), role);
                        match tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
                            Ok(Ok(stream)) => serve(host, stream, peer, bounds).await,
                            Ok(Err(error)) => {
                                tracing::info!(peer = peer.name, %error, "no TLS handshake")
                            }
                            Err(_) => {
                                tracing::info!(peer = peer.name, "TLS handshake took too long")
                            }
                        }
                    });
                })
            }
        };
        if let Err(error) = accepted {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// Who is at the other end, and what they may do.
struct Peer {
    name: String,
    role: Option<Role>,
    /// What gave it the role, if that can be taken away.
    granted: Option<Arc<Granted>>,
}

impl Peer {
    /// A process on this machine: the kernel says whose it is.
    fn of_process(host: &Host, peer: Option<UCred>) -> Self {
        let Some(peer) = peer else {
            return Self { name: "unix".to_owned(), role: None, granted: None };
        };
        let (access, uid) = (host.access(), peer.uid());
        let (role, granted) = access.of_user(uid, &access.user_name(uid));
        let name = match peer.pid() {
            Some(pid) => format!("unix:pid={pid},uid={uid}"),
            None => format!("unix:uid={uid}"),
        };
        Self { name, role, granted }
    }

    /// Someone over a network, who may do what the remote lets everyone do.
    fn of_network(name: String, role: Role) -> Self {
        Self { name, role: Some(role), granted: None }
    }
}

/// Waits until a role is taken away; for ever, if it cannot be.
async fn taken_away(granted: Option<Arc<Granted>>) {
    match granted {
        Some(granted) => granted.revoked().await,
        None => std::future::pending().await,
    }
}

/// Serves one client from beginning to end.
async fn serve<S>(host: Arc<Host>, stream: S, peer: Peer, bounds: Bounds)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let session = host.begin_session(peer.role, |id| format!("{}#{}", peer.name, id.0));
    // Gives everything back also if this task is dropped in the middle.
    let _end = OnDrop(host.clone(), session.clone());
    tracing::debug!(client = %session.name, "connected");
    let methods = Methods::new(host, session.clone());
    let end = tokio::select! {
        end = Connection::new(stream, methods, bounds).run() => end,
        () = taken_away(peer.granted) => End::Cut("its user has another role now".to_owned()),
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
