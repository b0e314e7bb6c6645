//! Listening: a task for each remote, a task for each client.

use crate::connection::{Bounds, Connection, End};
use crate::methods::Methods;
use crate::remote::Remote;
use crate::tls::TlsFiles;
use paceline_host::{Host, bind_unix};
use paceline_types::limits::{FRAME_BYTES_MAX, JSON_DEPTH_MAX_OVSDB};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
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
}

impl Default for DoorOptions {
    fn default() -> Self {
        let probe = Some(Duration::from_secs(5));
        Self { frame_bytes_max: FRAME_BYTES_MAX, probe, tls: None }
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
            let listener = bind_unix(path).map_err(fail)?;
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
                let peer = stream.peer_cred().ok();
                let peer = peer.map_or_else(
                    || "unix".to_owned(),
                    |peer| match peer.pid() {
                        Some(pid) => format!("unix:pid={pid},uid={}", peer.uid()),
                        None => format!("unix:uid={}", peer.uid()),
                    },
                );
                tokio::spawn(serve(host.clone(), stream, peer, bounds(None)));
            }),
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, address)| {
                let _ = stream.set_nodelay(true);
                let peer = format!("tcp:{address}");
                tokio::spawn(serve(host.clone(), stream, peer, bounds(options.probe)));
            }),
            Listener::Tls(listener, acceptor) => {
                listener.accept().await.map(|(stream, address)| {
                    let _ = stream.set_nodelay(true);
                    let (host, acceptor) = (host.clone(), acceptor.clone());
                    let bounds = bounds(options.probe);
                    tokio::spawn(async move {
                        let peer = format!("ssl:{address}");
                        match tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
                            Ok(Ok(stream)) => serve(host, stream, peer, bounds).await,
                            Ok(Err(error)) => tracing::info!(%peer, %error, "no TLS handshake"),
                            Err(_) => tracing::info!(%peer, "TLS handshake took too long"),
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

/// Serves one client from beginning to end.
async fn serve<S>(host: Arc<Host>, stream: S, peer: String, bounds: Bounds)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let session = host.begin_session(|id| format!("{peer}#{}", id.0));
    // Gives everything back also if this task is dropped in the middle.
    let _end = OnDrop(host.clone(), session.clone());
    tracing::debug!(client = %session.name, "connected");
    let methods = Methods::new(host, session.clone());
    match Connection::new(stream, methods, bounds).run().await {
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
