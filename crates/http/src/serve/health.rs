//! Decides which servers are up. Servers with a health check are checked periodically. The others are down when
//! connections to them fail.

use crate::serve::table::{LiveServer, Table, duration};
use crate::serve::upstream::open;
use crate::serve::vitals::VitalsOfAll;
use paceline_host::Control;
use paceline_routing::{Address, Health};
use paceline_types::{ServerId, Span};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Failed connections in a row that take a server down, with and without a health check.
pub(crate) const FAILURES_MAX: u32 = 3;

/// How often a server that is down and has no health check is tried.
const RETRY: Span = Span::from_secs(1);

/// Bytes of a response that a health check reads.
const ANSWER_BYTES_MAX: u64 = 1 << 10;

/// How workers report servers that they cannot connect to, and the state that they share about all servers.
#[derive(Clone, Debug)]
pub(crate) struct Watchers {
    reports: mpsc::UnboundedSender<Arc<LiveServer>>,
    vitals: Arc<VitalsOfAll>,
}

/// What a failed connection shows about its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// How many connections failed in a row.
    pub in_a_row: u32,
    /// Whether more requests may be sent there: the server is up, and its address has not changed.
    pub is_used: bool,
}

impl Watchers {
    /// The watchers, and the receiver of their reports.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Arc<LiveServer>>) {
        let (reports, receiver) = mpsc::unbounded_channel();
        (Self { reports, vitals: Arc::default() }, receiver)
    }

    /// The vitals of all servers.
    pub fn vitals(&self) -> &VitalsOfAll {
        &self.vitals
    }

    /// A server could not be connected to. After `FAILURES_MAX` failures it is down at once; otherwise a request that
    /// failed there would be sent there again.
    pub fn failed(&self, control: &Control, server: &Arc<LiveServer>) -> Failed {
        let snapshot = control.snapshot();
        let known = snapshot.routing().server(server.id);
        // A failure at an address that the server has left says nothing about the server.
        if known.is_none_or(|(_, known)| known.address != server.address) {
            return Failed { in_a_row: 0, is_used: false };
        }
        let in_a_row = server.vitals.fail();
        if in_a_row >= FAILURES_MAX && !server.is_up() {
            // An edit moved the server away and back, so the engine treats it as a new one.
            repeat(control, server);
        } else if in_a_row >= FAILURES_MAX && server.vitals.reports() {
            // Only one report is pending at a time, so that reports do not pile up.
            set_up(control, server, false);
            let _ = self.reports.send(Arc::clone(server));
        }
        Failed { in_a_row, is_used: server.is_up() }
    }
}

/// Watches all servers.
pub(crate) struct Ward {
    control: Arc<Control>,
    tasks: BTreeMap<ServerId, (Arc<LiveServer>, JoinHandle<()>)>,
    /// The servers in use.
    servers: BTreeMap<ServerId, Arc<LiveServer>>,
}

impl Drop for Ward {
    fn drop(&mut self) {
        self.tasks.values().for_each(|(_, task)| task.abort());
    }
}

impl Ward {
    pub const fn new(control: Arc<Control>) -> Self {
        Self { control, tasks: BTreeMap::new(), servers: BTreeMap::new() }
    }

    /// Watches the servers of this table from now on.
    pub fn configure(&mut self, table: &Table) {
        let old = std::mem::replace(&mut self.servers, table.servers.clone());
        self.tasks.retain(|id, (server, task)| {
            let is_kept = table.servers.get(id).is_some_and(|new| Arc::ptr_eq(new, server));
            if !is_kept {
                task.abort();
            }
            is_kept
        });
        for (id, server) in &table.servers {
            if self.tasks.contains_key(id) {
                continue;
            }
            // Failures under other settings say nothing about the new ones. Failures under the same settings continue
            // to count, and so do failures of a new server, because requests may have been sent to it before it
            // appeared here.
            if old.get(id).is_some_and(|old| !Arc::ptr_eq(old, server)) {
                server.vitals.forget_failures();
            }
            // A check that has just ended may have changed the engine.
            let is_up = repeat(&self.control, server);
            match server.health.clone() {
                Some(health) => self.watch(server, health, false),
                None if !is_up => self.recover(server),
                None => {}
            }
        }
    }

    /// A server cannot be connected to: it is down until a connection or its health check succeeds.
    pub fn failed(&mut self, server: &Arc<LiveServer>) {
        let Some(current) = self.servers.get(&server.id).cloned() else {
            return server.vitals.forget_failures();
        };
        // An edit may have changed the address or the health check meanwhile. Then the failure says nothing about the
        // server, which may still have been set down because of it.
        if current.is_reached_as(server) && current.is_up() {
            set_up(&self.control, &current, false);
        }
        if current.health.is_some() || current.is_up() {
            server.vitals.forget_failures();
        } else {
            self.recover(&current);
        }
    }

    fn recover(&mut self, server: &Arc<LiveServer>) {
        let health = Health { interval: RETRY, rise: 1, ..Health::default() };
        self.watch(server, health, true);
    }

    fn watch(&mut self, server: &Arc<LiveServer>, health: Health, once: bool) {
        let task = watch(Arc::clone(&self.control), Arc::clone(server), health, once);
        let old = self.tasks.insert(server.id, (Arc::clone(server), tokio::spawn(task)));
        if let Some((_, old)) = old {
            old.abort();
        }
    }
}

/// Checks a server periodically; with `once`, until it is up.
async fn watch(control: Arc<Control>, server: Arc<LiveServer>, health: Health, once: bool) {
    let mut ticks = interval(duration(health.interval));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut same, mut was_up) = (0, server.is_up());
    loop {
        ticks.tick().await;
        let answered = timeout(duration(health.timeout), ask(&server, &health)).await;
        let answer = answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let is_up = server.is_up();
        // Failed requests also take the server down: check results count from then on.
        if std::mem::replace(&mut was_up, is_up) != is_up {
            same = 0;
        }
        same = if answer.is_ok() == is_up { 0 } else { same + 1 };
        if same >= if is_up { health.fall } else { health.rise } {
            same = 0;
            if let Err(error) = answer {
                tracing::warn!(server = %server.name, %error, "a server does not answer");
            }
            server.vitals.forget_failures();
            set_up(&control, &server, !is_up);
            was_up = !is_up;
            if once && !is_up {
                return;
            }
        }
    }
}

/// Sets again in the engine whether a server is up, if its address has not changed. Returns whether it is up.
fn repeat(control: &Control, server: &LiveServer) -> bool {
    server.vitals.repeat(|is_up| {
        control.set_up(server.id, &server.address, is_up);
    })
}

/// Sets a server up or down, if its address has not changed.
fn set_up(control: &Control, server: &LiveServer, is_up: bool) {
    let tell = |is_up: bool| control.set_up(server.id, &server.address, is_up);
    if !server.vitals.set_up(is_up, tell) {
        return;
    }
    match is_up {
        true => tracing::info!(server = %server.name, "a server is up"),
        false => tracing::warn!(server = %server.name, "a server is down"),
    }
}

/// Checks a server once.
async fn ask(server: &LiveServer, health: &Health) -> io::Result<()> {
    // A health check has its own backlog lock, so it does not queue behind requests.
    let backlog = tokio::sync::Mutex::default();
    let opened = open(server, &backlog, duration(health.timeout)).await;
    let mut stream = opened.map_err(|error| io::Error::other(error.to_string()))?;
    let Some(path) = &health.path else {
        stream.say_goodbye();
        return Ok(());
    };
    let address = match &server.address {
        Address::Unix(_) => "localhost".to_owned(),
        address => address.to_string(),
    };
    let host = health.host.as_deref().unwrap_or(&address);
    let question = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: paceline\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(question.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = vec![];
    let mut reader = stream.take(ANSWER_BYTES_MAX);
    while !answer.contains(&b'\n') && reader.read_buf(&mut answer).await? > 0 {}
    match answer.get(..12) {
        Some([b'H', b'T', b'T', b'P', b'/', b'1', b'.', _, b' ', b'2' | b'3', _, _]) => Ok(()),
        Some(start) => {
            Err(io::Error::other(format!("it answered {:?}", String::from_utf8_lossy(start))))
        }
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
