//! Listening: a task for each listener, a task for each connection.

use crate::Reload;
use crate::connection::{Connection, HeadTimer, Origin, Watched};
use crate::events::Press;
use crate::large::Answers;
use crate::limits::Limits;
use crate::moment::Wall;
use crate::router::Routes;
use crate::secret::Secret;
use crate::socket::{Handle, Socket};
use crate::token;
use crate::turns::Turns;
use crate::{App, Shared, body, path, sessions};
use axum::Router;
use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use paceline_host::registry::Registry;
use paceline_host::{Access, Full, Host, Peer, Place, Places, SOCKET_MODE};
use paceline_host::{bind_unix, contained, watch_peer};
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::unix::UCred;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long to wait when no further connection can be accepted because descriptors are used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The longest head of a request, in bytes (promise D2).
const HEAD_BYTES_MAX: usize = 32 << 10;

/// Where the API listens on TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// Nowhere.
    None,
    /// At this address.
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
    /// The mode of its file, which decides which users may connect; their roles are separate.
    pub socket_mode: u32,
    /// The file with the token for TCP clients; it is created if it does not exist.
    pub token: PathBuf,
    /// The file with the secret that session secrets are derived from; it is created if it does not exist.
    pub secret: PathBuf,
    /// Where to listen on TCP.
    pub tcp: Address,
    /// Bounds.
    pub limits: Limits,
    /// The result of the last reading of the configuration files.
    pub reload: Arc<Reload>,
    /// Warnings about the options of the daemon.
    pub warnings: Vec<String>,
}

impl Options {
    /// Socket and token in the data directory `data`.
    #[must_use]
    pub fn in_directory(data: &Path, tcp: Address) -> Self {
        let (socket, token) = (data.join("api.sock"), data.join("token"));
        let secret = data.join("secret");
        let (socket_mode, limits, reload) = (SOCKET_MODE, Limits::default(), Arc::default());
        Self { socket, socket_mode, token, secret, tcp, limits, reload, warnings: vec![] }
    }
}

/// The open door; dropping it closes the door and removes the socket.
#[derive(Debug)]
pub struct ApiDoor {
    /// The unix socket.
    pub socket: PathBuf,
    /// The TCP address, with the port that was actually bound.
    pub tcp: Option<SocketAddr>,
    inode: u64,
    tasks: Vec<JoinHandle<()>>,
    closing: watch::Sender<bool>,
    /// The places of the unix socket and of TCP.
    places: [Arc<Places>; 2],
}

impl Drop for ApiDoor {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        if std::fs::symlink_metadata(&self.socket).is_ok_and(|now| now.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.socket);
        }
    }
}

/// The door before it is open: what clients held in the last run is theirs again.
pub struct Api {
    app: Shared,
    options: Options,
}

impl Api {
    /// Reads the files that the door needs and takes over what the last run left. To be called before any door
    /// is open.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or created; the text says which, and what to try.
    pub fn new(host: Arc<Host>, options: Options) -> Result<Self, String> {
        host.access().set_first_token(token::hash(&token::load(&options.token)?));
        let secret = Secret::load(&options.secret)?;
        let limits = options.limits;
        let wall = Arc::new(Wall::new(host.clock()));
        let registry = Registry::new(Arc::clone(&host), secret.keys(), limits.holding);
        registry.take_over()?;
        let followers = Turns::new("clients that follow events", limits.followers_max);
        let followers = Arc::new(followers);
        let first_token = token::First::new(options.token.clone());
        let closing = watch::channel(false).0;
        let (press, bodies) = (Press::new(), body::bodies(&limits));
        let answers = Answers::new(&limits);
        let (reload, warnings) = (Arc::clone(&options.reload), options.warnings.clone());
        let app = App {
            host,
            wall,
            registry,
            limits,
            followers,
            press,
            answers,
            bodies,
            first_token,
            reload,
            warnings,
            closing,
        };
        let app = Arc::new(app);
        Ok(Self { app, options })
    }

    /// Opens the door.
    ///
    /// # Errors
    ///
    /// When an address is in use or the socket cannot be created; the text says which, and what to try.
    pub async fn open(self) -> Result<ApiDoor, String> {
        let Self { app, options } = self;
        let failed = |error: io::Error| {
            format!("cannot listen on {} for the API: {error}", options.socket.display())
        };
        let tcp = match options.tcp {
            Address::None => None,
            Address::Tcp(address) => Some(bind_tcp(address).await?),
        };
        let unix = bind_unix(&options.socket, options.socket_mode).map_err(failed)?;
        let inode = std::fs::symlink_metadata(&options.socket).map_err(failed)?.ino();
        let closing = app.closing.clone();
        let accept = Accept::new(&app, closing.subscribe());
        let over_tcp = accept.with_places("api tcp");
        let places = [Arc::clone(&accept.places), Arc::clone(&over_tcp.places)];
        let tcp = tcp.map(|listener| listener.local_addr().map(|address| (listener, address)));
        let tcp = tcp.transpose().map_err(failed)?;
        // Nothing may end before this: it would be taken for the end of a failed start, and kept.
        app.host.open_for_service();
        let bound = app.registry.begin_service().inspect_err(|_| app.host.retire())?;
        bound.into_iter().for_each(|(session, user)| sessions::watch_role(&app, session, &user));
        let sweeping = tokio::spawn(Arc::clone(&app.registry).sweep());
        let mut tasks = vec![sweeping, tokio::spawn(accept.unix(unix))];
        let bound = tcp.map(|(listener, address)| {
            tasks.push(tokio::spawn(over_tcp.tcp(listener)));
            address
        });
        let socket = options.socket;
        Ok(ApiDoor { socket, tcp: bound, inode, tasks, closing, places })
    }
}

impl ApiDoor {
    /// Accepts no more connections, and waits until the answers on their way are sent.
    pub async fn close(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.closing.send_replace(true);
        for places in &self.places {
            places.all_free().await;
        }
    }
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
            "the API is reachable from other machines without encryption; tokens can be read on the network"
        );
    }
    Ok(listener)
}

/// What a listener needs; listeners share everything except their places.
#[derive(Clone)]
struct Accept {
    router: Router,
    registry: Arc<Registry>,
    access: Arc<Access>,
    limits: Limits,
    places: Arc<Places>,
    closing: watch::Receiver<bool>,
}

impl Accept {
    fn new(app: &Shared, closing: watch::Receiver<bool>) -> Self {
        let places = Places::new("api unix", app.limits.connections);
        let (router, registry) = (Routes::all(app).router(), Arc::clone(&app.registry));
        let access = Arc::clone(app.host.access());
        Self { router, registry, access, limits: app.limits, places, closing }
    }

    /// The same with as many places of its own.
    fn with_places(&self, name: &str) -> Self {
        Self { places: Places::new(name, self.limits.connections), ..self.clone() }
    }

    async fn unix(self, listener: UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => match stream.peer_cred() {
                    Ok(peer) => self.unix_client(stream, &peer),
                    Err(error) => tracing::warn!(%error, "cannot read the credentials of a client"),
                },
                Err(error) => pause(&error).await,
            }
        }
    }

    fn unix_client(&self, stream: UnixStream, peer: &UCred) {
        let uid = peer.uid();
        let user = self.access.user_name(uid);
        let known = Peer::of_user(uid, &self.access.of_user(uid, &user));
        match self.places.take(known) {
            Ok(place) => {
                let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
                self.spawn(stream, Origin::Unix { uid, user: user.into() }, pid, place);
            }
            Err(full) => drop(stream.try_write(refusal(full).as_bytes())),
        }
    }

    async fn tcp(self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, address)) => match self.places.take(Peer::of_address(address.ip())) {
                    Ok(place) => {
                        let _ = stream.set_nodelay(true);
                        watch_peer(&stream);
                        self.spawn(stream, Origin::Tcp(address), None, place);
                    }
                    Err(full) => drop(stream.try_write(refusal(full).as_bytes())),
                },
                Err(error) => pause(&error).await,
            }
        }
    }

    fn spawn(&self, socket: impl Into<Socket>, origin: Origin, pid: Option<u32>, place: Place) {
        let socket = Arc::new(socket.into());
        let (router, limits, closing) = (self.router.clone(), self.limits, self.closing.clone());
        let connection = Connection::new(origin, pid);
        connection.has_socket(&socket);
        let ending = EndBound { registry: Arc::clone(&self.registry), connection };
        tokio::spawn(async move {
            let served = serve(router, limits, socket, Arc::clone(&ending.connection), closing);
            if let Err(panicked) = contained(served).await {
                tracing::error!(origin = ?ending.connection.origin, "{panicked}");
            }
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
        self.registry.connection_ended(&bound);
    }
}

/// The answer to a connection for which there is no place.
fn refusal(full: Full) -> String {
    let message = format!("resources exhausted: {full}");
    let body = json!({ "error": "refused", "message": message, "reason": "exhausted" });
    let body = format!("{body}\n");
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn pause(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Serves one connection from beginning to end.
async fn serve(
    router: Router,
    limits: Limits,
    socket: Arc<Socket>,
    connection: Arc<Connection>,
    mut closing: watch::Receiver<bool>,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        connection.head_done();
        connection.answer_begins(0, &limits);
        request.extensions_mut().insert(Arc::clone(&connection));
        let answer = path::check(request.uri()).map(|()| router.call(request));
        let connection = Arc::clone(&connection);
        async move {
            let answer = match answer {
                Ok(answer) => answer.await,
                Err(problem) => Ok(problem.into_response()),
            };
            connection.head_done();
            if let Ok(answer) = &answer {
                connection.answer_begins(answer.body().size_hint().lower(), &limits);
            }
            answer
        }
    });
    let timer = HeadTimer { connection: Arc::clone(&connection), limits };
    let handle = Handle(Arc::clone(&socket));
    let stream = TokioIo::new(Watched::new(handle, &connection, limits.write_pause_max));
    let served = http1::Builder::new()
        .timer(timer)
        .header_read_timeout(limits.head_max)
        // The library accepts 100 header fields by default (promise D2); setting that number makes it allocate
        // for each request.
        .max_buf_size(HEAD_BYTES_MAX)
        // The buffer can grow past its bound by one read.
        .max_header_size(HEAD_BYTES_MAX)
        // A disconnection is noticed below. The library would not answer the last request of a client that has
        // already closed its sending side.
        .half_close(true)
        // Head and answer are small: copying both into one buffer is less work than sending two pieces.
        .writev(false)
        .serve_connection(stream, service);
    tokio::pin!(served);
    let over = async {
        tokio::select! {
            () = left(&socket, &connection) => {}
            () = overflow(&socket, &connection) => {}
        }
    };
    tokio::pin!(over);
    let ended = tokio::select! {
        biased;
        ended = &mut served => ended,
        () = &mut over => return,
        // An answer on its way is sent, and then the connection is closed.
        () = async { drop(closing.wait_for(|closing| *closing).await) } => {
            served.as_mut().graceful_shutdown();
            tokio::select! {
                biased;
                ended = served => ended,
                () = over => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(origin = ?connection.origin, %error, "a connection of the API ended");
    }
}

/// Ends when the client has left and the connection is at rest: what the client sent before is still answered
/// if it need not wait. It must be polled after the connection, in the same task.
async fn left(socket: &Socket, connection: &Connection) {
    socket.left().await;
    let mut moved = connection.moved();
    loop {
        tokio::task::yield_now().await;
        let now = connection.moved();
        if moved == now {
            return;
        }
        moved = now;
    }
}

/// Ends when the client sends what it must not while its request waits, or too much.
async fn overflow(socket: &Socket, connection: &Connection) {
    tokio::select! {
        biased;
        // Then the library reads whatever arrives, at its own pace.
        () = connection.sealed() => std::future::pending().await,
        () = socket.overflow() => {}
    }
    tracing::debug!(origin = ?connection.origin, "disconnected a client that sends too much while its request waits");
}
