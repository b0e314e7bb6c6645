//! Which servers are up: asked from time to time where that is configured, else learnt from those that
//! cannot be connected to.

use crate::serve::table::{Table, Target, duration};
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

/// So many failed connections in a row take a server down, whether it is looked after or not.
pub(crate) const FAILURES_MAX: u32 = 3;

/// How often one that is not looked after is then tried.
const RETRY: Span = Span::from_secs(1);

/// Longest beginning of an answer that is looked at.
const ANSWER_BYTES_MAX: u64 = 1 << 10;

/// How workers tell of servers that cannot be connected to, and what they share about all servers.
#[derive(Clone, Debug)]
pub(crate) struct Watchers {
    reports: mpsc::UnboundedSender<Arc<Target>>,
    vitals: Arc<VitalsOfAll>,
}

/// What a failed connection says about its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// How many connections failed in a row.
    pub in_a_row: u32,
    /// Whether more requests may be sent there: the server is up, and still at that address.
    pub is_used: bool,
}

impl Watchers {
    /// A way to tell, and its other end.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Arc<Target>>) {
        let (reports, receiver) = mpsc::unbounded_channel();
        (Self { reports, vitals: Arc::default() }, receiver)
    }

    /// The vitals of all servers.
    pub fn vitals(&self) -> &VitalsOfAll {
        &self.vitals
    }

    /// A server could not be connected to. After the last of too many failures it is down at once: a request that
    /// failed there would be sent there again.
    pub fn failed(&self, control: &Control, target: &Arc<Target>) -> Failed {
        let snapshot = control.snapshot();
        let server = snapshot.routing().server(target.id);
        // A failure at an address that the server has left says nothing about the server.
        if server.is_none_or(|(_, server)| server.address != target.address) {
            return Failed { in_a_row: 0, is_used: false };
        }
        let in_a_row = target.vitals.fail();
        if in_a_row >= FAILURES_MAX && !target.is_up() {
            // An edit moved the server away and back: the engine takes it for a new one.
            repeat(control, target);
        } else if in_a_row >= FAILURES_MAX && target.vitals.reports() {
            // Told once until that was looked at, so nothing piles up.
            set_up(control, target, false);
            let _ = self.reports.send(Arc::clone(target));
        }
        Failed { in_a_row, is_used: target.is_up() }
    }
}

/// Looks after all servers.
pub(crate) struct Ward {
    control: Arc<Control>,
    tasks: BTreeMap<ServerId, (Arc<Target>, JoinHandle<()>)>,
    /// The servers in use.
    targets: BTreeMap<ServerId, Arc<Target>>,
}

impl Drop for Ward {
    fn drop(&mut self) {
        self.tasks.values().for_each(|(_, task)| task.abort());
    }
}

impl Ward {
    pub const fn new(control: Arc<Control>) -> Self {
        Self { control, tasks: BTreeMap::new(), targets: BTreeMap::new() }
    }

    /// Looks after the servers of this table from now on.
    pub fn configure(&mut self, table: &Table) {
        let old = std::mem::replace(&mut self.targets, table.servers.clone());
        self.tasks.retain(|id, (target, task)| {
            let is_kept = table.servers.get(id).is_some_and(|new| Arc::ptr_eq(new, target));
            if !is_kept {
                task.abort();
            }
            is_kept
        });
        for (id, target) in &table.servers {
            if self.tasks.contains_key(id) {
                continue;
            }
            // Failures under other settings say nothing about these. Those under the same ones count on, and so do
            // those of a new server, which requests may have been sent to before it came here.
            if old.get(id).is_some_and(|old| !Arc::ptr_eq(old, target)) {
                target.vitals.forget_failures();
            }
            // The engine may have been told otherwise by a watch that has just ended.
            let is_up = repeat(&self.control, target);
            match target.health.clone() {
                Some(health) => self.watch(target, health, false),
                None if !is_up => self.recover(target),
                None => {}
            }
        }
    }

    /// A server cannot be connected to: it is down until it can, or until it is found well by whoever looks
    /// after it.
    pub fn failed(&mut self, target: &Arc<Target>) {
        let Some(current) = self.targets.get(&target.id).cloned() else {
            return target.vitals.forget_failures();
        };
        // An edit may have changed where it is, or how it is looked after, meanwhile: then this says nothing
        // about it, but it may have been taken down for it.
        if current.is_reached_as(target) && current.is_up() {
            set_up(&self.control, &current, false);
        }
        if current.health.is_some() || current.is_up() {
            target.vitals.forget_failures();
        } else {
            self.recover(&current);
        }
    }

    fn recover(&mut self, target: &Arc<Target>) {
        let health = Health { interval: RETRY, rise: 1, ..Health::default() };
        self.watch(target, health, true);
    }

    fn watch(&mut self, target: &Arc<Target>, health: Health, once: bool) {
        let task = watch(Arc::clone(&self.control), Arc::clone(target), health, once);
        let old = self.tasks.insert(target.id, (Arc::clone(target), tokio::spawn(task)));
        if let Some((_, old)) = old {
            old.abort();
        }
    }
}

/// Asks a server again and again; with `once`, until it is up.
async fn watch(control: Arc<Control>, target: Arc<Target>, health: Health, once: bool) {
    let mut ticks = interval(duration(health.interval));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut same, mut was_up) = (0, target.is_up());
    loop {
        ticks.tick().await;
        let answered = timeout(duration(health.timeout), ask(&target, &health)).await;
        let answer = answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let is_up = target.is_up();
        // Requests that cannot connect take it down, too: answers count from then on.
        if std::mem::replace(&mut was_up, is_up) != is_up {
            same = 0;
        }
        same = if answer.is_ok() == is_up { 0 } else { same + 1 };
        if same >= if is_up { health.fall } else { health.rise } {
            same = 0;
            if let Err(error) = answer {
                tracing::warn!(server = %target.name, %error, "a server does not answer");
            }
            target.vitals.forget_failures();
            set_up(&control, &target, !is_up);
            was_up = !is_up;
            if once && !is_up {
                return;
            }
        }
    }
}

/// Tells the engine again whether a server is up, if it is still at that address. Returns whether it is up.
fn repeat(control: &Control, target: &Target) -> bool {
    target.vitals.repeat(|is_up| {
        control.set_up(target.id, &target.address, is_up);
    })
}

/// A server is up or down from now on, if it is still at that address.
fn set_up(control: &Control, target: &Target, is_up: bool) {
    let tell = |is_up: bool| control.set_up(target.id, &target.address, is_up);
    if !target.vitals.set_up(is_up, tell) {
        return;
    }
    match is_up {
        true => tracing::info!(server = %target.name, "a server is up"),
        false => tracing::warn!(server = %target.name, "a server is down"),
    }
}

/// Asks a server once.
async fn ask(target: &Target, health: &Health) -> io::Result<()> {
    let opened = open(target, duration(health.timeout)).await;
    let mut stream = opened.map_err(|error| io::Error::other(error.to_string()))?;
    let Some(path) = &health.path else {
        stream.say_goodbye();
        return Ok(());
    };
    let address = match &target.address {
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
