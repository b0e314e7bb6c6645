//! What clients know: what they hold according to the answers they received, and what they released.
//!
//! Knows only the promises. Each item is *held* (a client received that answer, and has not asked to release
//! it), or *unknown* (a request about it is under way, or was when the daemon died). Only what is certain is
//! checked: two holders of one thing are a fault only if both received the answer and neither can have ended,
//! in every graph of resources that may have been in use.

use paceline_host::Process;
use paceline_types::{Mode, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A row of the table Resource, by its UUID.
pub type Node = String;

/// The resources: name and parents of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph(pub BTreeMap<Node, (String, BTreeSet<Node>)>);

impl Graph {
    /// The resource of this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|(_, (other, _))| other == name).map(|(node, _)| node)
    }

    /// A resource and everything below it.
    #[must_use]
    pub fn below(&self, node: &Node) -> BTreeSet<&Node> {
        let mut below: BTreeSet<&Node> =
            self.0.get_key_value(node).map(|(node, _)| node).into_iter().collect();
        loop {
            let more: Vec<&Node> = self
                .0
                .iter()
                .filter(|(child, (_, parents))| {
                    !below.contains(child) && parents.iter().any(|parent| below.contains(parent))
                })
                .map(|(child, _)| child)
                .collect();
            if more.is_empty() {
                return below;
            }
            below.extend(more);
        }
    }
}

/// A value that was in force.
#[derive(Clone, Debug)]
pub struct Version<T> {
    value: T,
    /// The step at which another value came into force.
    to: u64,
}

/// All values that were in force, and those that may come into force.
#[derive(Clone, Debug)]
pub struct Versions<T> {
    known: Vec<Version<T>>,
    /// Edits that failed with an I/O error: they may be in a file that could not be truncated.
    ghosts: Vec<T>,
}

impl<T: Clone + PartialEq> Versions<T> {
    /// One value, from the start.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self { known: vec![Version { value, to: u64::MAX }], ghosts: vec![] }
    }

    /// The value in force, as far as clients know.
    #[must_use]
    pub fn told(&self) -> &T {
        let in_force = self.known.iter().find(|version| version.to == u64::MAX);
        &in_force.unwrap_or(&self.known[0]).value
    }

    /// Notes that a client asks for another value.
    pub fn ask(&mut self, value: T) {
        self.known.push(Version { value, to: u64::MAX });
    }

    /// Notes the outcome: done, refused, or failed; a failed edit may reappear in the next run.
    pub fn settle(&mut self, step: u64, outcome: &Result<(), String>) {
        let mut open: Vec<&mut Version<T>> =
            self.known.iter_mut().filter(|version| version.to == u64::MAX).collect();
        if let [old, new] = &mut open[..] {
            if outcome.as_ref().is_err_and(|error| error.starts_with("I/O error")) {
                self.ghosts.push(new.value.clone());
            }
            let over = if outcome.is_ok() { old } else { new };
            over.to = step;
        }
    }

    /// Notes the value found after a restart; false if it is impossible.
    pub fn find(&mut self, step: u64, value: &T) -> bool {
        if std::mem::take(&mut self.ghosts).contains(value) {
            self.ask(value.clone());
        }
        let found = self.known.iter().rposition(|one| one.to == u64::MAX && one.value == *value);
        for (index, version) in self.known.iter_mut().enumerate() {
            if version.to == u64::MAX && Some(index) != found {
                version.to = step;
            }
        }
        found.is_some()
    }

    /// All values that may have been in force at some time from this step on.
    pub fn since(&self, step: u64) -> impl Iterator<Item = &T> {
        self.known.iter().filter(move |version| version.to >= step).map(|version| &version.value)
    }
}

/// Whether something is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A client received that answer.
    Held,
    /// A client received that answer, and does not know that the machine may have lost it: no other client may
    /// have it before its lease expires.
    Lost,
    /// It may have ended.
    Unknown,
}

/// A session.
#[derive(Clone, Debug)]
pub struct SessionItem {
    /// Its name.
    pub name: String,
    /// Its user.
    pub user: String,
    /// Its lease; `None` if it is bound.
    pub lease: Option<Span>,
    /// When the lease expires.
    pub expires: Option<Time>,
    /// The process it is bound to.
    pub process: Option<Process>,
    /// Whether it exists.
    pub hold: Hold,
}

/// A permit.
#[derive(Clone, Debug)]
pub struct PermitItem {
    /// The number of its request.
    pub request: u64,
    /// The key of its session.
    pub session: Option<String>,
    /// Its own lease.
    pub lease: Option<Span>,
    /// When the lease expires.
    pub expires: Option<Time>,
    /// Its user.
    pub user: String,
    /// Which of the two bodies that clients send under one name asked for it.
    pub other: bool,
    /// What it claims, if that is certain.
    pub claims: Vec<(Node, Mode)>,
    /// Whether it has claims.
    pub has_claims: bool,
    /// The step at which it was asked for.
    pub asked: u64,
    /// What it certainly held, whatever happened to the resources, and from which step on.
    pub kept: Vec<(BTreeSet<Node>, Mode, u64)>,
    /// Whether it exists.
    pub hold: Hold,
}

impl PermitItem {
    fn keep(&mut self, graph: &Graph, step: u64) {
        for (node, mode) in &self.claims {
            let below: BTreeSet<Node> = graph.below(node).into_iter().cloned().collect();
            let has =
                |kept: &(BTreeSet<Node>, Mode, u64)| kept.1 == *mode && below.is_subset(&kept.0);
            if !self.kept.iter().any(has) {
                self.kept.push((below, *mode, step));
            }
        }
    }
}

/// A lock that a session of the API owns.
#[derive(Clone, Debug)]
pub struct LockItem {
    /// The key of the session.
    pub session: String,
    /// Its fencing number.
    pub fencing: u64,
    /// Whether it is held.
    pub hold: Hold,
}

/// Everything that clients know.
#[derive(Debug)]
pub struct Model {
    /// Sessions by key.
    pub sessions: BTreeMap<String, SessionItem>,
    /// Permits by name.
    pub permits: BTreeMap<String, PermitItem>,
    /// Locks by name and session.
    pub locks: BTreeMap<(String, String), LockItem>,
    /// Locks by name that connections own: the connection, and whether that is certain.
    pub conn_locks: BTreeMap<String, (u64, Hold)>,
    /// Locks by name and session that a client asked for and left, or released, by the number of its action:
    /// this may not be written yet.
    pub left: BTreeMap<u64, (String, String)>,
    /// Locks by name and session that the session may own although no client knows: they were being requested
    /// when the daemon ended.
    pub untold: BTreeSet<(String, String)>,
    /// The highest fencing number that a client received for each lock, and its owner.
    pub fencing: BTreeMap<String, (u64, String)>,
    /// The step of the last steal of each lock.
    pub stolen: BTreeMap<String, u64>,
    /// The resources.
    pub graphs: Versions<Graph>,
    /// The limit of the checkpoint.
    pub limits: Versions<u64>,
    /// What was released for good: requests, names of sessions, locks with fencing numbers.
    pub gone: Gone,
    /// What was released and is not on disk yet.
    pub unwritten: Gone,
}

/// What was released.
#[derive(Debug, Default)]
pub struct Gone {
    /// Requests, and the step at which a client received the answer.
    pub requests: BTreeMap<u64, u64>,
    /// Sessions by key.
    pub sessions: BTreeSet<String>,
    /// Locks with fencing numbers.
    pub locks: BTreeSet<(String, u64)>,
}

impl Gone {
    /// Moves everything from `other`.
    pub fn take(&mut self, other: &mut Self) {
        self.requests.append(&mut other.requests);
        self.sessions.append(&mut other.sessions);
        self.locks.append(&mut other.locks);
    }
}

impl Model {
    /// Nothing held.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            sessions: BTreeMap::new(),
            permits: BTreeMap::new(),
            locks: BTreeMap::new(),
            conn_locks: BTreeMap::new(),
            left: BTreeMap::new(),
            untold: BTreeSet::new(),
            fencing: BTreeMap::new(),
            stolen: BTreeMap::new(),
            graphs: Versions::new(Graph::default()),
            limits: Versions::new(limit),
            gone: Gone::default(),
            unwritten: Gone::default(),
        }
    }

    /// Whether a session certainly exists.
    #[must_use]
    pub fn has_session(&self, key: &str, now: Time) -> bool {
        self.sessions.get(key).is_some_and(|session| {
            session.hold != Hold::Unknown && session.expires.is_none_or(|at| at > now)
        })
    }

    /// Whether a permit is certainly held.
    #[must_use]
    pub fn has_permit(&self, permit: &PermitItem, now: Time) -> bool {
        permit.hold != Hold::Unknown
            && permit.expires.is_none_or(|at| at > now)
            && permit.session.as_ref().is_none_or(|key| self.has_session(key, now))
    }

    /// Whether a lock is certainly owned.
    #[must_use]
    pub fn has_lock(&self, lock: &LockItem, now: Time) -> bool {
        lock.hold != Hold::Unknown && self.has_session(&lock.session, now)
    }

    /// Notes that a client received a permit.
    ///
    /// # Errors
    ///
    /// When another client holds what it claims, or the limit is exceeded.
    pub fn granted(&mut self, name: &str, permit: PermitItem, now: Time) -> Result<(), String> {
        for (other, held) in &self.permits {
            if other != name && self.has_permit(held, now) && self.meet(held, &permit) {
                return Err(format!(
                    "C1: {name} (request {}) was granted what {other} (request {}) holds",
                    permit.request, held.request
                ));
            }
        }
        let same = |held: &&PermitItem| held.user == permit.user && self.has_permit(held, now);
        let count = self.permits.values().filter(same).count() as u64 + 1;
        let most = self.limits.since(permit.asked).max().copied().unwrap_or(0);
        if count > most {
            return Err(format!(
                "P1: {name} (request {}) is number {count} of {} where {most} may be",
                permit.request, permit.user
            ));
        }
        self.permits.insert(name.to_owned(), permit);
        Ok(())
    }

    /// Whether two permits certainly hold the same resource: when the later one of them was granted, in every
    /// graph that may have been in use.
    fn meet(&self, held: &PermitItem, new: &PermitItem) -> bool {
        let later = held.asked.max(new.asked);
        let clash = |(one, two): (Mode, Mode)| one == Mode::Exclusive || two == Mode::Exclusive;
        let now = held.claims.iter().any(|(theirs, one)| {
            new.claims.iter().any(|(ours, two)| {
                clash((*one, *two))
                    && self.graphs.since(later).all(|graph| {
                        let theirs = graph.below(theirs);
                        graph.below(ours).iter().any(|node| theirs.contains(node))
                    })
            })
        });
        let kept = held.kept.iter().any(|(nodes, one, since)| {
            *since <= new.asked
                && new.claims.iter().any(|(ours, two)| {
                    clash((*one, *two))
                        && self
                            .graphs
                            .since(new.asked)
                            .all(|graph| graph.below(ours).iter().any(|node| nodes.contains(*node)))
                })
        });
        now || kept
    }

    /// The resources that claims of these names certainly are, if these graphs may have been in use when they
    /// were requested.
    #[must_use]
    pub fn claimed(names: &[(String, Mode)], graphs: &[Graph]) -> Vec<(Node, Mode)> {
        let certain = |name: &str| -> Option<Node> {
            let mut nodes = graphs.iter().map(|graph| graph.named(name));
            let first = nodes.next().flatten()?;
            nodes.all(|node| node == Some(first)).then(|| first.clone())
        };
        names.iter().filter_map(|(name, mode)| Some((certain(name)?, *mode))).collect()
    }

    /// Called when an edit of the resources has ended: all holders keep what they hold now.
    pub fn keep_all(&mut self, step: u64) {
        let graph = self.graphs.told().clone();
        self.permits.values_mut().for_each(|permit| permit.keep(&graph, step));
    }

    /// Called when a permit was granted: it keeps what it holds now. If only one graph may have been in use,
    /// that is what it claims in this graph; otherwise what blocks other clients.
    pub fn keep(&mut self, name: &str, blocked: BTreeSet<Node>, step: u64) {
        let graph = self.graphs.told().clone();
        let Some(permit) = self.permits.get_mut(name) else { return };
        match self.graphs.since(permit.asked).all(|other| *other == graph) {
            true => permit.keep(&graph, step),
            false => permit.kept.push((blocked, Mode::Shared, step)),
        }
    }

    /// Notes that a session may have ended, with all it holds.
    pub fn doubt_session(&mut self, key: &str) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.hold = Hold::Unknown;
        }
    }

    /// Notes that a lock may have another owner.
    pub fn doubt_lock(&mut self, name: &str) {
        for ((lock, _), item) in &mut self.locks {
            if lock == name {
                item.hold = Hold::Unknown;
            }
        }
        if let Some((_, hold)) = self.conn_locks.get_mut(name) {
            *hold = Hold::Unknown;
        }
    }

    /// Notes that a client received a lock.
    ///
    /// # Errors
    ///
    /// When another client owns it, or the fencing number does not grow.
    pub fn locked(&mut self, name: &str, by: &str, fencing: u64, now: Time) -> Result<(), String> {
        let owner = self.locks.iter().find(|((lock, session), item)| {
            lock == name && session != by && self.has_lock(item, now)
        });
        if let Some(((_, owner), _)) = owner {
            return Err(format!("L1: {by} was told that it owns {name}, which {owner} owns"));
        }
        if let Some((conn, Hold::Held)) = self.conn_locks.get(name)
            && format!("connection {conn}") != by
        {
            return Err(format!(
                "L1: {by} was told that it owns {name}, which connection {conn} owns"
            ));
        }
        let last = self.fencing.entry(name.to_owned()).or_default();
        if fencing <= last.0 {
            return Err(format!("L2: {name} has number {fencing}, after {}", last.0));
        }
        *last = (fencing, by.to_owned());
        Ok(())
    }
}
