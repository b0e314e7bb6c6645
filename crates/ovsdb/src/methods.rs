//! The methods of RFC 7047 and its extensions: turns a message into a call of the host.

use crate::respond::lock_error;
use crate::wire::Message;
use paceline_host::{Host, Hosted, LockOperation, Outgoing, Reply, Session, Ticket, WatchRequest};
use paceline_tables::json::Json;
use paceline_tables::monitor::Version;
use paceline_tables::{Error, Transaction, tag};
use paceline_types::{LOCK_NAME_RULE, Role, Uuid, valid_lock_name};
use std::sync::Arc;

/// Transactions that are run before the size of their responses is checked.
const TOGETHER_MAX: usize = 16;

/// The immediate result of a request: its response, or none if the host puts the response into the outbox later. An
/// error is the response to a refused request.
type Answered = Result<Option<Reply>, Reply>;

/// The methods that one client can call.
pub(crate) struct Methods {
    host: Arc<Host>,
    session: Arc<Session>,
    /// The database of the client's last call. A response is sent after the earlier ones of that database are written
    /// to disk.
    turned_to: Option<Arc<Hosted>>,
    /// Transactions on that database that are to be run together.
    pending: Vec<(Ticket, Transaction)>,
    /// Whether the client has asked for a lock.
    has_locked: bool,
}

impl Methods {
    pub(crate) fn new(host: Arc<Host>, session: Arc<Session>) -> Self {
        Self { host, session, turned_to: None, pending: Vec::new(), has_locked: false }
    }

    /// Whether the client has asked for a lock, which must be released when the client disconnects.
    pub(crate) fn has_locked(&self) -> bool {
        self.has_locked
    }

    /// A function that releases everything that the client holds, from any thread.
    pub(crate) fn ending(&self) -> impl FnOnce() + Send + 'static {
        let (host, session) = (self.host.clone(), self.session.clone());
        move || host.end_session(&session)
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.host
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Runs the pending transactions, and has everything done so far written and answered.
    pub(crate) fn flush(&mut self) {
        self.run_pending();
        if let Some(database) = &self.turned_to {
            database.flush();
        }
    }

    fn run_pending(&mut self) {
        if let Some(database) = self.turned_to.as_ref().filter(|_| !self.pending.is_empty()) {
            database.transact(&self.session, self.pending.drain(..));
        }
    }

    /// Handles `message`. Responses are put into the session's outbox.
    pub(crate) fn handle(&mut self, message: Message) {
        match message {
            Message::Request { id, method, params } => {
                let ticket: Ticket = id.into();
                let answered = self.request(&ticket, &method, params);
                if let Some(reply) = answered.unwrap_or_else(Some) {
                    self.answer(ticket, reply);
                }
            }
            Message::Notification { method, params } => {
                self.run_pending();
                if let ("cancel", [id]) = (&*method, params.as_slice()) {
                    let ticket = ticket(id);
                    self.host.databases().iter().any(|db| db.cancel(&self.session, &ticket));
                }
            }
            Message::ProbeReply => {}
        }
    }

    /// Handles one request.
    fn request(&mut self, ticket: &Ticket, method: &str, params: Vec<Json>) -> Answered {
        if method != "transact" {
            self.run_pending();
        }
        self.check(method, &params)?;
        match method {
            "transact" => self.transact(ticket, params),
            "monitor" => self.monitor(ticket, params, method, Version::V1),
            "monitor_cond" => self.monitor(ticket, params, method, Version::V2),
            "monitor_cond_since" => self.monitor(ticket, params, method, Version::V3),
            "monitor_cond_change" => self.monitor_cond_change(ticket, params),
            "monitor_cancel" => self.monitor_cancel(ticket, &params),
            "echo" => answer(&Json::Array(params)),
            "lock" => self.lock(ticket, &params, LockOperation::Lock, method),
            "steal" => self.lock(ticket, &params, LockOperation::Steal, method),
            "unlock" => self.lock(ticket, &params, LockOperation::Unlock, method),
            "list_dbs" => {
                let names = self.host.listed();
                let names = names.iter().map(|db| Json::string(db.name.clone())).collect();
                answer(&Json::Array(names))
            }
            "get_schema" => {
                let database = self.database(&params, method)?;
                Ok(Some(Reply::Shared(database.schema_text())))
            }
            "get_server_id" => answer(&Json::string(self.host.server_id.to_string())),
            "set_db_change_aware" => self.set_change_aware(params),
            "convert" => self.convert(ticket, params),
            _ => Err(Reply::Word("unknown method")),
        }
    }

    /// Checks that the client may call this method at all. The host checks what a transaction changes, and what is
    /// read and converted.
    fn check(&self, method: &str, params: &[Json]) -> Result<(), Reply> {
        let need = match method {
            // It keeps a connection open and reveals nothing.
            "echo" => return Ok(()),
            "lock" | "unlock" => Role::Client,
            "steal" => Role::Operator,
            _ => Role::Viewer,
        };
        let what = || match params.first() {
            Some(Json::String(about)) => format!("{method} {about}"),
            _ => method.to_owned(),
        };
        self.host.access().check(&self.session, need, what).map_err(Reply::Failed)
    }

    /// Sends a response after those to the client's earlier requests.
    fn answer(&self, ticket: Ticket, reply: Reply) {
        match &self.turned_to {
            Some(database) => database.answer(&self.session, ticket, reply),
            None => self.session.outbox.push(Outgoing::Reply(ticket, reply)),
        }
    }

    fn database(&self, params: &[Json], method: &str) -> Result<Arc<Hosted>, Reply> {
        let Some(Json::String(name)) = params.first() else {
            let details = format!("{method} request params must begin with <db-name>");
            return Err(Reply::Failed(Error::quoting_array(tag::SYNTAX, params, details)));
        };
        self.host.database(name).ok_or_else(|| {
            let details = format!("{method} request specifies unknown database {name}");
            Reply::Failed(Error::quoting_array("unknown database", params, details))
        })
    }

    /// Sets the database of the client's next call. Earlier calls on another database are answered first if that
    /// needs no wait.
    fn turn_to(&mut self, database: &Arc<Hosted>) {
        if !self.turned_to.as_ref().is_some_and(|last| Arc::ptr_eq(last, database)) {
            self.flush();
            self.turned_to = Some(database.clone());
        }
    }

    fn transact(&mut self, ticket: &Ticket, mut params: Vec<Json>) -> Answered {
        let database = self.database(&params, "transact").inspect_err(|_| self.run_pending())?;
        params.remove(0);
        self.turn_to(&database);
        self.pending.push((ticket.clone(), params.into()));
        if self.pending.len() >= TOGETHER_MAX {
            self.run_pending();
        }
        Ok(None)
    }

    fn monitor(
        &mut self,
        ticket: &Ticket,
        params: Vec<Json>,
        method: &str,
        version: Version,
    ) -> Answered {
        let database = self.database(&params, method)?;
        let wanted = if version == Version::V3 { 4 } else { 3 };
        let mut params = params;
        if params.len() != wanted {
            let quoted = Json::Array(params);
            return Err(Reply::Failed(Error::syntax(&quoted, "invalid parameters")));
        }
        let since = if version == Version::V3 { params.pop() } else { None };
        let (Some(requests), Some(id)) = (params.pop(), params.pop()) else {
            return Err(Reply::Word("invalid parameters"));
        };
        if requests.as_object().is_none() {
            let error = Error::syntax(&requests, "monitor-requests must be object");
            return Err(Reply::Failed(error));
        }
        let monitor_id = self::ticket(&id);
        if self.session.monitor(&monitor_id).is_some() {
            return Err(Reply::Failed(Error::syntax(&id, "duplicate monitor ID")));
        }
        let since = since.map(|json| parse_since(&json)).transpose().map_err(Reply::Failed)?;
        let request =
            WatchRequest { ticket: ticket.clone(), id: monitor_id, requests, version, since };
        self.turn_to(&database);
        database.watch(&self.session, request).map_err(Reply::Failed)?;
        Ok(None)
    }

    fn monitor_cond_change(&mut self, ticket: &Ticket, mut params: Vec<Json>) -> Answered {
        if params.len() != 3 {
            let error = Error::syntax(&Json::Array(params), "invalid parameters");
            return Err(Reply::Failed(error));
        }
        let (Some(conditions), Some(new), Some(old)) = (params.pop(), params.pop(), params.pop())
        else {
            return Err(Reply::Word("invalid parameters"));
        };
        let (old_id, new_id) = (self::ticket(&old), self::ticket(&new));
        let Some(database) = self.monitored(&old_id) else {
            return Err(Reply::Failed(Error::syntax(&old, "unknown monitor session")));
        };
        if old_id != new_id && self.session.monitor(&new_id).is_some() {
            return Err(Reply::Failed(Error::syntax(&new, "duplicate monitor ID")));
        }
        self.turn_to(&database);
        database
            .rewatch(&self.session, ticket.clone(), (old_id, new_id), conditions)
            .map_err(Reply::Failed)?;
        Ok(None)
    }

    fn monitor_cancel(&mut self, ticket: &Ticket, params: &[Json]) -> Answered {
        let [id] = params else { return Err(Reply::Word("invalid parameters")) };
        let id = self::ticket(id);
        let Some(database) = self.monitored(&id) else {
            return Err(Reply::Word("unknown monitor"));
        };
        self.turn_to(&database);
        database.unwatch(&self.session, ticket.clone(), id);
        Ok(None)
    }

    /// The database that the client monitors under this id, or will monitor after a conversion.
    fn monitored(&self, id: &Ticket) -> Option<Arc<Hosted>> {
        let record = self.session.monitor(id).map(|record| record.database);
        let held = |database: &Arc<Hosted>| database.holds_monitor(&self.session, id);
        record.or_else(|| self.host.databases().into_iter().find(held))
    }

    fn lock(
        &mut self,
        ticket: &Ticket,
        params: &[Json],
        operation: LockOperation,
        method: &str,
    ) -> Answered {
        if self.session.read_only {
            return Err(Reply::Word(
                "lock and unlock methods not allowed, DB server is read only.",
            ));
        }
        let [Json::String(name)] = params else {
            return Err(Reply::Failed(bad_lock_name(params, method)));
        };
        if !valid_lock_name(name) {
            return Err(Reply::Failed(bad_lock_name(params, method)));
        }
        // Earlier transactions are answered first if that needs no wait.
        self.flush();
        self.has_locked = true;
        self.host
            .locking()
            .operate_for_client(&self.session, ticket.clone(), operation, name)
            .map_err(|error| Reply::Failed(lock_error(error, operation, params)))?;
        Ok(None)
    }

    fn set_change_aware(&mut self, params: Vec<Json>) -> Answered {
        let [Json::Bool(aware)] = params.as_slice() else {
            let details = "set_db_change_aware: true or false parameter expected";
            return Err(Reply::Failed(Error::syntax(&Json::Array(params), details)));
        };
        self.session.set_change_aware(*aware);
        Ok(Some(Reply::Text(b"{}".to_vec())))
    }

    fn convert(&mut self, ticket: &Ticket, params: Vec<Json>) -> Answered {
        let database = self.database(&params, "convert")?;
        let [_, schema] = params.as_slice() else {
            let error = Error::syntax(&Json::Array(params), "array expected");
            return Err(Reply::Failed(error));
        };
        self.turn_to(&database);
        let converted = self.host.on_converted();
        database
            .convert(&self.session, ticket.clone(), schema, converted)
            .map_err(Reply::Failed)?;
        Ok(None)
    }
}

fn bad_lock_name(params: &[Json], method: &str) -> Error {
    let details = format!("{method} request params must be <id>: {LOCK_NAME_RULE}");
    Error::quoting_array(tag::SYNTAX, params, details)
}

fn parse_since(json: &Json) -> Result<Uuid, Error> {
    let Some(text) = json.as_str() else {
        return Err(Error::syntax(json, "last-txn-id must be string"));
    };
    text.parse().map_err(|_| Error::quoting(tag::SYNTAX, json, "last-txn-id must be UUID format."))
}

fn ticket(json: &Json) -> Ticket {
    let mut text = Vec::new();
    json.write(&mut text);
    text.into()
}

fn answer(json: &Json) -> Answered {
    let mut text = Vec::new();
    json.write(&mut text);
    Ok(Some(Reply::Text(text)))
}
