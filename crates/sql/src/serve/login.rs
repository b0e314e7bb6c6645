//! The login of a client: the packets that a connection begins with, SCRAM or the kernel's word, and the parameters of the
//! session.
//!
//! Promises D3: a login takes at most ten seconds and its messages at most 64 KiB. A password is proved by SCRAM-SHA-256
//! only. An unknown user gets the same exchange and the same error as a wrong password, and which databases exist is said
//! only after that.

use crate::limits::LOGIN_MAX;
use crate::respond;
use crate::serve::accept::Origin;
use crate::serve::attributes::Who;
use crate::serve::cancel::Registered;
use crate::serve::inbox::Inbox;
use crate::serve::pool::Pool;
use crate::serve::session::Session;
use crate::serve::target::{Pair, PoolKey, Proof};
use crate::serve::upstream::{Welcome, nonce};
use crate::serve::worker::Worker;
use paceline_net::buffer::{Buffer, Outgoing};
use paceline_net::stream::{Socket, Stream};
use paceline_postgres::relay::{Parameters, Pooling, Relay, TRACKED};
use paceline_postgres::scram::{self, Mechanism, Reply};
use paceline_postgres::wire::SqlState;
use paceline_postgres::wire::backend::{self, Authentication, Status};
use paceline_postgres::wire::frame::{Side, Walk};
use paceline_postgres::wire::frontend::SaslInitialResponse;
use paceline_postgres::wire::report::Report;
use paceline_postgres::wire::startup::{
    self, CancelKey, ENCRYPTION_REFUSED, Packet, Startup, Version,
};
use paceline_routing::Pooling as Kept;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Waker};
use tokio::time::timeout;

/// Requests for encryption before the startup packet: one of each kind.
const ENCRYPTION_REQUESTS_MAX: usize = 2;

/// A connection whose login is not complete.
struct Newcomer {
    worker: Rc<Worker>,
    stream: Stream,
    inbox: Inbox,
    out: Outgoing,
    origin: Origin,
}

/// Why a login ends.
enum Stop {
    /// The connection is closed: the client left, or asked for nothing else.
    Quiet,
    /// The client gets this error.
    Refused(Box<Report>),
}

impl From<Report> for Stop {
    fn from(report: Report) -> Self {
        Self::Refused(Box::new(report))
    }
}

/// The startup packet of a client.
struct Asked {
    version: Version,
    user: Box<str>,
    database: Box<str>,
    /// All other parameters.
    parameters: Vec<Pair>,
}

/// Serves a connection: its login, then its session.
pub(crate) async fn serve(worker: Rc<Worker>, socket: Socket, origin: Origin) {
    let inbox = Inbox::new(Buffer::default(), worker.long.clone());
    let stream = Stream::Plain(socket);
    let mut newcomer = Newcomer { worker, stream, inbox, out: Outgoing::default(), origin };
    let stop = match newcomer.log_in().await {
        Ok(ready) => return newcomer.into_session(ready).run().await,
        Err(stop) => stop,
    };
    if let Stop::Refused(report) = stop {
        report.write(&mut newcomer.out.bytes);
        // A client that does not read its error does without it.
        let _ = timeout(LOGIN_MAX, newcomer.flush()).await;
    }
}

/// Refuses a connection that is not served at all.
pub(crate) fn refuse(mut socket: Socket, report: &Report) {
    let mut out = Outgoing::default();
    report.write(&mut out.bytes);
    // A new connection takes this much at once; a client that is gone needs nothing.
    let _ = out.poll_write_all(&mut socket, &mut Context::from_waker(Waker::noop()));
}

/// What a login leads to.
struct Ready {
    registered: Registered,
    pool: Rc<Pool>,
    key: PoolKey,
    proof: Option<Proof>,
    asked: Asked,
    parameters: Parameters,
}

impl Newcomer {
    async fn log_in(&mut self) -> Result<Ready, Stop> {
        let known = async {
            let asked = self.startup().await?;
            let proof = self.authenticate(&asked).await?;
            Ok::<_, Stop>((asked, proof))
        };
        let known = timeout(LOGIN_MAX, known).await;
        let (asked, proof) = known.map_err(|_| respond::slow_login())??;
        let pool = self.worker.pool(&asked.database);
        let pool = pool.ok_or_else(|| respond::unknown_database(&asked.database))?;
        let (tracked, rest): (Vec<_>, Vec<_>) =
            asked.parameters.iter().cloned().partition(|(name, _)| is_tracked(name));
        let key = pool.key(&asked.user, rest);
        // This may have to wait for a server, as a statement may.
        let settled = async {
            let welcome = pool.welcome(&key, proof.as_ref()).await?;
            let parameters = pool.settle(&key, proof.as_ref(), &welcome, &tracked).await?;
            Ok((welcome, parameters))
        };
        let settled = tokio::select! {
            biased;
            () = self.stream.socket().left() => return Err(Stop::Quiet),
            settled = settled => settled,
        };
        let (welcome, parameters) = settled.map_err(fatal)?;
        let registered = self.worker.sessions.enter().ok_or(Stop::Quiet)?;
        self.welcome(&asked, &welcome, &parameters, &registered);
        Ok(Ready { registered, pool, key, proof, asked, parameters })
    }

    fn into_session(self, ready: Ready) -> Session {
        let Self { worker, stream, inbox, out, origin } = self;
        let Ready { registered, pool, key, proof, asked, parameters } = ready;
        let pooling = match pool.settings().pooling {
            Kept::Transaction => Pooling::Transaction,
            Kept::Session => Pooling::Session,
        };
        let who = Who { user: asked.user, host: origin.host(), database: asked.database };
        let relay = Relay::new(pooling, parameters);
        Session { worker, pool, key, proof, who, registered, stream, inbox, out, relay }
    }

    /// Reads packets up to the startup packet.
    async fn startup(&mut self) -> Result<Asked, Stop> {
        let mut requests = 0;
        loop {
            let read = startup::read(self.inbox.bytes());
            let read = read.map_err(|error| Report::fatal(error.state(), error.to_string()))?;
            let Some((packet, len)) = read else {
                self.fill(0).await?;
                continue;
            };
            match packet {
                Packet::Startup(startup) => {
                    let asked = Asked::new(startup);
                    if startup.needs_negotiation() {
                        let options: Vec<Vec<u8>> =
                            startup.unsupported_options().map(<[u8]>::to_vec).collect();
                        let options = options.iter().map(|option| &option[..]);
                        let out = &mut self.out.bytes;
                        backend::negotiate_protocol_version(out, asked.version, options);
                    }
                    self.inbox.consume(len);
                    return Ok(asked);
                }
                Packet::SslRequest | Packet::GssRequest => {
                    requests += 1;
                    if requests > ENCRYPTION_REQUESTS_MAX {
                        return Err(Stop::Quiet);
                    }
                    self.inbox.consume(len);
                    self.out.bytes.push(ENCRYPTION_REFUSED);
                    self.flush().await?;
                }
                Packet::Cancel(CancelKey { process, key }) => {
                    self.worker.sessions.cancel(process, key);
                    return Err(Stop::Quiet);
                }
                // There is no certificate to answer with.
                Packet::Tls => return Err(Stop::Quiet),
            }
        }
    }

    /// Finds out who the client is. Returns what its login proved, if a password did.
    async fn authenticate(&mut self, asked: &Asked) -> Result<Option<Proof>, Stop> {
        if let Origin::Unix { uid, user } = &self.origin {
            let is_self = **user == *asked.user || self.worker.host.access().is_owner(*uid);
            return match is_self {
                true => {
                    backend::authentication(&mut self.out.bytes, Authentication::Ok);
                    Ok(None)
                }
                false => Err(respond::another_user(&asked.user, user).into()),
            };
        }
        let known = self.worker.verifier(&asked.user);
        let secret = self.worker.secret();
        let verifier = scram::Verifier::or_mock(known.as_ref(), secret, asked.user.as_bytes());
        let offered = Mechanism::offered(false).iter().map(|one| one.name().as_bytes());
        backend::authentication_sasl(&mut self.out.bytes, offered);
        let first = self.sasl().await?;
        let first = SaslInitialResponse::read(&first).map_err(malformed)?;
        let mechanism = Mechanism::parse(first.mechanism)
            .ok_or_else(|| malformed("the client chose a mechanism that was not offered"))?;
        let nonce = nonce().map_err(|_| Stop::Quiet)?;
        let mut server =
            scram::Server::new(verifier.clone(), mechanism, None, nonce).map_err(malformed)?;
        let mut message = first.data.unwrap_or_default().to_vec();
        loop {
            match server.receive(&message) {
                Ok(Reply::Continue(data)) => {
                    let step = Authentication::SaslContinue(&data);
                    backend::authentication(&mut self.out.bytes, step);
                    message = self.sasl().await?;
                }
                Ok(Reply::Success { message, client_key }) => {
                    let out = &mut self.out.bytes;
                    backend::authentication(out, Authentication::SaslFinal(&message));
                    backend::authentication(out, Authentication::Ok);
                    return Ok(Some(Proof { client_key, verifier }));
                }
                Err(scram::ServerError::Proof) => {
                    let title = format!("sql:{}@{}", asked.user, self.origin.host());
                    self.worker.host.access().refused_unknown(&title, "log in");
                    return Err(respond::wrong_password(&asked.user).into());
                }
                Err(error) => return Err(malformed(error).into()),
            }
        }
    }

    /// The next message of the authentication.
    async fn sasl(&mut self) -> Result<Vec<u8>, Stop> {
        self.flush().await?;
        loop {
            let mut walk = Walk::new(Side::LOGIN, self.inbox.bytes());
            if let Some(message) = walk.step().map_err(malformed)? {
                let (body, len) = (message.body().to_vec(), walk.at());
                self.inbox.consume(len);
                return Ok(body);
            }
            let head = walk.head().map_err(malformed)?;
            self.fill(head.map_or(0, |head| head.total())).await?;
        }
    }

    /// Writes the end of the login.
    fn welcome(
        &mut self,
        asked: &Asked,
        welcome: &Welcome,
        parameters: &Parameters,
        registered: &Registered,
    ) {
        let out = &mut self.out.bytes;
        for (name, value) in &welcome.reported {
            let own = std::str::from_utf8(name).ok().and_then(|name| parameters.value(name));
            backend::parameter_status(out, name, own.unwrap_or(value));
        }
        if asked.version > Version::V3_0 {
            registered.0.lengthen();
        }
        let key = CancelKey { process: registered.0.number, key: registered.0.secret() };
        backend::key_data(out, key);
        backend::ready_for_query(out, Status::Idle);
    }

    async fn fill(&mut self, message: usize) -> Result<(), Stop> {
        self.flush().await?;
        let Self { inbox, stream, .. } = self;
        match poll_fn(|cx| inbox.poll_fill(message, stream, cx)).await {
            Ok(1..) => Ok(()),
            Ok(0) | Err(_) => Err(Stop::Quiet),
        }
    }

    async fn flush(&mut self) -> Result<(), Stop> {
        let Self { out, stream, .. } = self;
        poll_fn(|cx| out.poll_write_all(stream, cx)).await.map_err(|_| Stop::Quiet)?;
        out.clear();
        Ok(())
    }
}

impl Asked {
    fn new(startup: Startup<'_>) -> Self {
        // These name the session; the door knows them.
        let is_own = |name: &[u8]| matches!(name, b"user" | b"database" | b"replication");
        let others = startup.parameters.iter().filter(|(name, _)| !is_own(name));
        let others = others.filter(|(name, _)| !name.starts_with(b"_pq_."));
        let mut parameters: Vec<Pair> =
            others.map(|(name, value)| (name.into(), value.into())).collect();
        parameters.sort();
        Self {
            version: startup.version.agreed(),
            user: startup.user.into(),
            database: startup.database.into(),
            parameters,
        }
    }
}

fn is_tracked(name: &[u8]) -> bool {
    TRACKED.iter().any(|tracked| tracked.as_bytes().eq_ignore_ascii_case(name))
}

fn malformed(error: impl std::fmt::Display) -> Report {
    Report::fatal(SqlState::PROTOCOL_VIOLATION, error.to_string())
}

/// The same error for a client whose login fails with it.
fn fatal(report: Report) -> Report {
    report.with_severity(paceline_postgres::wire::report::Severity::Fatal)
}
