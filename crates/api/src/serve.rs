//! Listening: a task for each listener, a task for each connection.

use crate::connection::{Connection, HeadTimer, Origin, Watched};
use crate::identity::user_name;
use crate::limits::Limits;
use crate::moment::Wall;
use crate::registry::{Registry, sweep};
use crate::router::Routes;
use crate::token::Token;
use crate::{App, Shared};
use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use paceline_host::{Host, bind_unix};
use rustix::process::geteuid;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// How long to wait when no further connection can be accepted, for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Longest head of a request, in bytes (promise D2).
const HEAD_BYTES_MAX: usize = 32 << 10;

/// Most fields in the head of a request (promise D2).
const FIELDS_MAX: usize = 100;

/// What a connection over the limit is told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
retry-after: 1\r\nconnection: close\r\ncontent-length: 95\r\n\r\n\
{\"error\":\"refused\",\"message\":\"resources exhausted: too many connections\",\"reason\":\"exhausted\"}\n";

/// Where the API listens on TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// Nowhere.
    None,
    /// There.
    Tcp(SocketAddr),
}

impl std::str::FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            _ => text.parse().map(Self::Tcp).map_err(|_| {
                "expected an address and a port, such as 127.0.0.1:7070 or [::1]:7070, or none"
                    .to_owned()
            }),
        }
    }
}

/// How to open the door.
#[derive(Clone, Debug)]
pub struct Options {
    /// The unix socket.
    pub socket: PathBuf,
    /// The file with the token for TCP clients; it is made if it is not there.
    pub token: PathBuf,
    /// Where to listen on TCP.
    pub tcp: Address,
    /// Bounds.
    pub limits: Limits,
}

impl Options {
    /// Socket and token in the data directory `data`.
    #[must_use]
    pub fn in_directory(data: &Path, tcp: Address) -> Self {
        let (socket, token) = (data.join("api.sock"), data.join("token"));
        Self { socket, token, tcp, limits: Limits::default() }
    }
}

/// The open door; closes and tidies up when dropped.
#[derive(Debug)]
pub struct Door {
    /// The unix socket.
    pub socket: PathBuf,
    /// Where it listens on TCP, with the port that was really bound.
    pub tcp: Option<SocketAddr>,
    inode: u64,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        if std::fs::symlink_metadata(&self.socket).is_ok_and(|now| now.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.socket);
        }
    }
}

/// Opens the door.
///
/// # Errors
///
/// When an address is taken or a file cannot be made; the text says which, and what to try.
pub async fn open(host: Arc<Host>, options: &Options) -> Result<Door, String> {
    let token = Token::load(&options.token)?;
    let uid = geteuid().as_raw();
    let own_user = (uid, user_name(uid));
    let limits = options.limits;
    let registry = Registry::new(Arc::clone(&host), limits);
    let followers = Arc::new(Semaphore::new(limits.followers_max));
    let wall = Wall::new(host.clock());
    let app = Arc::new(App { host, wall, registry, limits, followers, token, own_user });
    let failed = |error: io::Error| {
        format!("cannot listen on {} for the API: {error}", options.socket.display())
    };
    let tcp = match options.tcp {
        Address::None => None,
        Address::Tcp(address) => Some(bind_tcp(address).await?),
    };
    let unix = bind_unix(&options.socket).map_err(failed)?;
    let inode = std::fs::symlink_metadata(&options.socket).map_err(failed)?.ino();
    let accept = Accept::new(&app);
    let sweeping = tokio::spawn(sweep(Arc::clone(&app.registry)));
    let mut tasks = vec![sweeping, tokio::spawn(accept.clone().unix(unix))];
    let bound = match tcp {
        Some(listener) => {
            let address = listener.local_addr().map_err(failed)?;
            tasks.push(tokio::spawn(accept.tcp(listener)));
            Some(address)
        }
        None => None,
    };
    Ok(Door { socket: options.socket.clone(), tcp: bound, inode, tasks })
}

async fn bind_tcp(address: SocketAddr) -> Result<TcpListener, String> {
    let taken = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot listen on {address} for the API: the address is taken, perhaps by another \
             paceline; say another with --api ADDRESS:PORT, or --api none for the unix socket only"
        ),
        _ => format!(
            "cannot listen on {address} for the API: {error}; say another with --api ADDRESS:PORT"
        ),
    };
    let listener = TcpListener::bind(address).await.map_err(taken)?;
    if !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "other machines reach the API without encryption, and could read tokens on their way"
        );
    }
    Ok(listener)
}

/// What the listeners share.
#[derive(Clone)]
struct Accept {
    router: Router,
    registry: Arc<Registry>,
    limits: Limits,
    places: Arc<Semaphore>,
}

impl Accept {
    fn new(app: &Shared) -> Self {
        let places = Arc::new(Semaphore::new(app.limits.connections_max));
        let (router, registry) = (Routes::all(app).router(), Arc::clone(&app.registry));
        Self { router, registry, limits: app.limits, places }
    }

    async fn unix(self, listener: UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => match (stream.peer_cred(), self.place()) {
                    (Ok(peer), Some(place)) => {
                        self.spawn(stream, Origin::Unix { uid: peer.uid() }, place);
                    }
                    (Ok(_), None) => drop(stream.try_write(FULL)),
                    (Err(error), _) => tracing::warn!(%error, "a client without credentials"),
                },
                Err(error) => pause(&error).await,
            }
        }
    }

    async fn tcp(self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, address)) => {
                    let _ = stream.set_nodelay(true);
                    match self.place() {
                        Some(place) => self.spawn(stream, Origin::Tcp(address), place),
                        None => drop(stream.try_write(FULL)),
                    }
                }
                Err(error) => pause(&error).await,
            }
        }
    }

    fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    fn spawn<S>(&self, stream: S, origin: Origin, place: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (router, limits) = (self.router.clone(), self.limits);
        let ending =
            EndBound { registry: Arc::clone(&self.registry), connection: Connection::new(origin) };
        tokio::spawn(async move {
            serve(router, limits, stream, Arc::clone(&ending.connection)).await;
            drop((ending, place));
        });
    }
}

/// Ends the sessions that are bound to a connection when the connection ends, whichever way (P4).
struct EndBound {
    registry: Arc<Registry>,
    connection: Arc<Connection>,
}

impl Drop for EndBound {
    fn drop(&mut self) {
        let bound = self.connection.change_bound(std::mem::take);
        for key in bound {
            self.registry.end_session(&key);
        }
    }
}

async fn pause(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Serves one connection from beginning to end.
async fn serve<S>(router: Router, limits: Limits, stream: S, connection: Arc<Connection>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        connection.head_done();
        request.extensions_mut().insert(Arc::clone(&connection));
        let (answer, connection) = (router.call(request), Arc::clone(&connection));
        async move {
            let answer = answer.await;
            connection.head_done();
            answer
        }
    });
    let timer = HeadTimer { connection: Arc::clone(&connection), limits };
    let stream = TokioIo::new(Watched { stream, connection: Arc::clone(&connection) });
    let served = http1::Builder::new()
        .timer(timer)
        .header_read_timeout(limits.head_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(FIELDS_MAX)
        .serve_connection(stream, service)
        .await;
    if let Err(error) = served {
        tracing::debug!(origin = ?connection.origin, %error, "a connection of the API ended");
    }
}
