//! A connection to a server: connecting, the login, and cancel requests.
//!
//! Promises that a password is only proved by SCRAM-SHA-256, never sent: a server that asks for it in clear text or as MD5
//! is refused, and so is one that does not prove that it knows the password itself.

use crate::limits::ANSWER_BYTES_MAX;
use crate::serve::inbox::{Inbox, LongBytes};
use crate::serve::target::{Pair, PoolKey};
use paceline_net::buffer::{Buffer, Outgoing};
use paceline_net::stream::{ServerStream, Socket};
use paceline_net::tls::{ClientTls, name_of};
use paceline_net::{dial, resolve};
use paceline_postgres::relay::{Parameters, Server};
use paceline_postgres::scram::{self, Login, Mechanism, NONCE_BYTES};
use paceline_postgres::wire::SqlState;
use paceline_postgres::wire::backend::{Authentication, Fields, Parameter};
use paceline_postgres::wire::frame::{Side, Walk};
use paceline_postgres::wire::frontend;
use paceline_postgres::wire::kind::server;
use paceline_postgres::wire::report::Report;
use paceline_postgres::wire::startup::{self, CancelKey, Version};
use paceline_routing::{Address, SqlTls, Upstream as Settings};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Waker};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::time::Instant;

/// A connection to a server whose login is complete.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub stream: ServerStream,
    pub inbox: Inbox,
    pub out: Outgoing,
    pub opened: Instant,
    pub cancel: Rc<CancelTarget>,
}

/// Where and how the statement of a server connection is cancelled.
#[derive(Debug)]
pub(crate) struct CancelTarget {
    address: Address,
    process: u32,
    key: Box<[u8]>,
}

/// What a server said at its login.
#[derive(Clone, Debug, Default)]
pub(crate) struct Welcome {
    /// The parameters that it reported, in order.
    pub reported: Vec<Pair>,
}

impl Welcome {
    /// The tracked ones.
    pub fn tracked(&self) -> Parameters {
        let mut tracked = Parameters::new();
        for (name, value) in &self.reported {
            tracked.set(name, value);
        }
        tracked
    }
}

/// Why a server cannot be used.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// It cannot be reached, or what it says is not the protocol.
    Broken(io::Error),
    /// It refused the login, or the login is not acceptable.
    Refused(Report),
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// Where and how a server is connected to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How<'a> {
    pub settings: &'a Settings,
    pub tls: Option<&'a ClientTls>,
    pub address: &'a Address,
    pub until: Instant,
}

impl Upstream {
    /// Connects to a server and logs in. The caller bounds the time.
    pub async fn connect(
        how: How<'_>,
        (key, login): (&PoolKey, Option<Login>),
        all: LongBytes,
    ) -> Result<(Self, Box<Server>, Welcome), ConnectError> {
        let stream = secured(how, open(how.address, how.until).await?).await?;
        let inbox = Inbox::new(Buffer::default(), all);
        let mut login = LoginExchange::new(stream, inbox, login);
        let mut parameters: Vec<(&[u8], &[u8])> = vec![
            (b"user", key.user.as_bytes()),
            (b"database", how.settings.url.database.as_bytes()),
        ];
        parameters.extend(key.parameters.iter().map(|(name, value)| (&**name, &**value)));
        startup::write_startup(&mut login.out.bytes, Version::V3_0, parameters);
        login.run().await?;
        let LoginExchange { stream, inbox, out, welcome, key, .. } = login;
        let (process, key) = key.unwrap_or_default();
        let cancel = Rc::new(CancelTarget { address: how.address.clone(), process, key });
        let server = Box::new(Server::new(welcome.tracked()));
        Ok((Self { stream, inbox, out, opened: Instant::now(), cancel }, server, welcome))
    }

    /// Whether the connection can be used: the server has neither closed it nor said anything since the last batch.
    pub fn is_quiet(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        self.inbox.is_empty() && self.inbox.poll_fill(0, &mut self.stream, &mut cx).is_pending()
    }

    /// Runs a text of the door's own. Returns the parameters that the server reported meanwhile.
    pub async fn run(&mut self, text: &[u8]) -> Result<Vec<Pair>, ConnectError> {
        frontend::query(&mut self.out.bytes, text);
        poll_fn(|cx| self.out.poll_write_all(&mut self.stream, cx)).await?;
        self.out.clear();
        let (mut reported, mut failed) = (vec![], None);
        loop {
            let (kind, body) = next_message(&mut self.inbox, &mut self.stream).await?;
            match kind {
                server::READY_FOR_QUERY => break,
                server::PARAMETER_STATUS => reported.push(parameter(&body)?),
                server::ERROR_RESPONSE => failed = Some(error_of(&body)?),
                _ => {}
            }
        }
        failed.map_or(Ok(reported), |report| Err(ConnectError::Refused(report)))
    }
}

/// Starts TLS if the settings ask for it and the server has it.
async fn secured(how: How<'_>, mut socket: Socket) -> Result<ServerStream, ConnectError> {
    // As with PostgreSQL's own clients, a unix socket is never encrypted.
    let Some(tls) = how.tls.filter(|_| !matches!(how.address, Address::Unix(_))) else {
        return Ok(ServerStream::Plain(socket));
    };
    let mut out = Outgoing::default();
    startup::write_ssl_request(&mut out.bytes);
    poll_fn(|cx| out.poll_write_all(&mut socket, cx)).await?;
    let answer = socket.read_u8().await?;
    if answer == startup::TLS_GRANTED {
        let name = name_of(&tls.spec, how.address);
        let unread = || io::Error::other("its certificates cannot be read");
        let stream = tls.connect(name, socket).await.ok_or_else(unread)??;
        return Ok(ServerStream::Tls(Box::new(stream)));
    }
    match how.settings.url.tls {
        SqlTls::Prefer => Ok(ServerStream::Plain(socket)),
        _ => Err(io::Error::other("the server does not offer TLS, which sslmode requires").into()),
    }
}

/// Connects a socket.
async fn open(address: &Address, until: Instant) -> io::Result<Socket> {
    let socket = match address {
        Address::Unix(path) => return UnixStream::connect(&**path).await.map(Socket::Unix),
        Address::Socket(address) => dial::first(&[*address], until).await?,
        Address::Host { name, port } => {
            let addresses = resolve::RESOLVER.addresses(name, *port).await?;
            dial::first(&addresses, until).await?
        }
    };
    // Without it, small messages wait for the acknowledgement of others.
    socket.set_nodelay(true)?;
    Ok(Socket::Tcp(socket))
}

/// A login that is not complete.
struct LoginExchange {
    stream: ServerStream,
    inbox: Inbox,
    out: Outgoing,
    login: Option<Login>,
    scram: Option<scram::Client>,
    welcome: Welcome,
    key: Option<(u32, Box<[u8]>)>,
}

impl LoginExchange {
    fn new(stream: ServerStream, inbox: Inbox, login: Option<Login>) -> Self {
        let (out, welcome) = (Outgoing::default(), Welcome::default());
        Self { stream, inbox, out, login, scram: None, welcome, key: None }
    }

    async fn run(&mut self) -> Result<(), ConnectError> {
        loop {
            poll_fn(|cx| self.out.poll_write_all(&mut self.stream, cx)).await?;
            self.out.clear();
            let (kind, body) = next_message(&mut self.inbox, &mut self.stream).await?;
            if kind != server::READY_FOR_QUERY {
                self.take(kind, &body)?;
                continue;
            }
            return match self.inbox.is_empty() {
                true => Ok(()),
                false => Err(violation("data behind the end of the login").into()),
            };
        }
    }

    fn take(&mut self, kind: u8, body: &[u8]) -> Result<(), ConnectError> {
        match kind {
            server::AUTHENTICATION => self.authenticate(body),
            server::BACKEND_KEY_DATA => {
                let key = CancelKey::read(body).map_err(violation)?;
                self.key = Some((key.process, key.key.into()));
                Ok(())
            }
            server::PARAMETER_STATUS => {
                self.welcome.reported.push(parameter(body)?);
                Ok(())
            }
            server::ERROR_RESPONSE => Err(ConnectError::Refused(error_of(body)?)),
            server::NOTICE_RESPONSE | server::NEGOTIATE_PROTOCOL_VERSION => Ok(()),
            _ => Err(violation("an unexpected message in the login").into()),
        }
    }

    fn authenticate(&mut self, body: &[u8]) -> Result<(), ConnectError> {
        let refused =
            |message: &str| ConnectError::Refused(Report::error(SqlState::CANNOT_CONNECT, message));
        match Authentication::read(body).map_err(violation)? {
            Authentication::Ok => match self.scram.as_ref().is_none_or(scram::Client::is_done) {
                true => Ok(()),
                false => Err(refused("the server did not prove that it knows the password")),
            },
            Authentication::Sasl(offered) => {
                let Some(login) = self.login.take() else {
                    return Err(refused("the server asks for a password, and there is none"));
                };
                let offered: Vec<Mechanism> = offered.iter().filter_map(Mechanism::parse).collect();
                let client = scram::Client::new(login, &offered, None, nonce()?);
                let client = client.map_err(|error| refused(&error.to_string()))?;
                let name = client.mechanism().name().as_bytes();
                let first = client.first();
                frontend::sasl_initial_response(&mut self.out.bytes, name, Some(&first));
                self.scram = Some(client);
                Ok(())
            }
            Authentication::SaslContinue(data) => {
                let scram = self.scram.as_mut().ok_or_else(|| violation("SASL out of turn"))?;
                let answer = scram.answer(data).map_err(|error| refused(&error.to_string()))?;
                frontend::sasl_response(&mut self.out.bytes, &answer);
                Ok(())
            }
            Authentication::SaslFinal(data) => {
                let scram = self.scram.as_mut().ok_or_else(|| violation("SASL out of turn"))?;
                scram.finish(data).map_err(|error| refused(&error.to_string()))
            }
            Authentication::CleartextPassword | Authentication::Md5Password(_) => Err(refused(
                "the server asks for the password in clear text or as MD5; only SCRAM-SHA-256 is used",
            )),
            Authentication::Other(code, _) => {
                Err(refused(&format!("the server asks for authentication method {code}")))
            }
        }
    }
}

/// The next message of a server, with its kind.
async fn next_message(inbox: &mut Inbox, stream: &mut ServerStream) -> io::Result<(u8, Vec<u8>)> {
    loop {
        let mut walk = Walk::new(Side::SERVER, inbox.bytes());
        if let Some(message) = walk.step().map_err(violation)? {
            let (found, len) = ((message.kind, message.body().to_vec()), walk.at());
            inbox.consume(len);
            return Ok(found);
        }
        let message = walk.head().map_err(violation)?.map_or(0, |head| head.total());
        if message > ANSWER_BYTES_MAX {
            return Err(violation("a message is too long"));
        }
        if poll_fn(|cx| inbox.poll_fill(message, stream, cx)).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn parameter(body: &[u8]) -> io::Result<Pair> {
    let Parameter { name, value } = Parameter::read(body).map_err(violation)?;
    Ok((name.into(), value.into()))
}

fn error_of(body: &[u8]) -> io::Result<Report> {
    Ok(Report::of_fields(Fields::read(server::ERROR_RESPONSE, body).map_err(violation)?))
}

/// A server that does not speak the protocol.
fn violation(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("protocol violation: {what}"))
}

/// Random bytes for a login.
pub(crate) fn nonce() -> io::Result<[u8; NONCE_BYTES]> {
    let mut bytes = [0; NONCE_BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("no random numbers can be had"))?;
    Ok(bytes)
}

impl CancelTarget {
    /// Asks the server to cancel what its connection runs. Returns when the server has handled that; the caller bounds the
    /// time.
    pub async fn cancel(&self, until: Instant) -> io::Result<()> {
        if self.process == 0 {
            return Ok(());
        }
        let mut stream = open(&self.address, until).await?;
        let mut out = Outgoing::default();
        startup::write_cancel(&mut out.bytes, CancelKey { process: self.process, key: &self.key });
        poll_fn(|cx| out.poll_write_all(&mut stream, cx)).await?;
        // The server answers nothing and closes the connection when it has sent the signal.
        let mut rest = [0; 64];
        while stream.read(&mut rest).await? > 0 {}
        Ok(())
    }
}
