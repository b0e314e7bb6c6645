//! One piece of work, as a door submits it.

use crate::{Attributes, RequestId, SessionId, Span};

/// Whether a claim is exclusive or shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Alone: no other claim may overlap it.
    #[default]
    Exclusive,
    /// Together with other shared claims.
    Shared,
}

/// A claim on a resource and its whole sub-tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The resource's name.
    pub resource: Box<str>,
    /// Exclusive or shared.
    pub mode: Mode,
}

/// What to do when a claim names a resource that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unknown {
    /// Refuse the request, with the most similar name that exists.
    #[default]
    Refuse,
    /// Wait until it is created.
    Wait,
    /// Create it, without parents, for as long as it is claimed.
    Create,
}

/// Whether requests or connections pass a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum On {
    /// Requests.
    #[default]
    Request,
    /// A client's connection, from its beginning to its end.
    Connection,
}

/// One piece of work.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its kind: a connection passes only the checkpoints for connections, of its frontend.
    pub on: On,
    /// The attributes, which rules match and expressions read.
    pub attributes: Attributes,
    /// Its cost at rate checkpoints and in fair shares; 1 by default.
    pub cost: u32,
    /// The claims that it must hold while it runs.
    pub claims: Vec<Claim>,
    /// What to do about claims on resources that do not exist.
    pub unknown: Unknown,
    /// Locks that its session must own.
    pub locks: Vec<Box<str>>,
    /// The longest wait that it accepts over all queues.
    pub wait_max: Option<Span>,
    /// How long it had waited before it came: it counts as one that came so much earlier. Deadlines do not.
    pub waited: Span,
    /// Requests of its own sessions that began to hold after it was first submitted, although their numbers are lower: it
    /// may wait for them.
    pub beside: Box<[RequestId]>,
    /// The session whose end gives back what the request holds.
    pub session: Option<SessionId>,
    /// Sessions that end only after it: the request comes from a process that runs under what they hold, so it would
    /// wait forever for their claims.
    pub within: Vec<SessionId>,
    /// The generation of the configuration in which its frontend has its name; `None` if it did not arrive at a
    /// frontend.
    pub named_in: Option<u64>,
    /// Bytes that its door keeps for it besides its attributes.
    pub kept_bytes: usize,
}

impl Request {
    /// A request with these attributes, cost 1, and nothing else.
    #[must_use]
    pub fn new(attributes: Attributes) -> Self {
        Self {
            on: On::Request,
            attributes,
            cost: 1,
            claims: vec![],
            unknown: Unknown::Refuse,
            locks: vec![],
            wait_max: None,
            waited: Span::ZERO,
            beside: Box::default(),
            session: None,
            within: vec![],
            named_in: None,
            kept_bytes: 0,
        }
    }

    /// Bytes that are kept for it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.attributes.bytes() + self.kept_bytes
    }
}
