//! One piece of work, as a door hands it in.

use crate::{Attributes, SessionId, Span};

/// How a claim shares what it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Alone: no other claim may meet it.
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
    /// Alone or shared.
    pub mode: Mode,
}

/// What to do when a claim names a resource that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unknown {
    /// Refuse the request, with the nearest name there is.
    #[default]
    Refuse,
    /// Wait until it is created.
    Wait,
    /// Make it, without parents, for as long as it is claimed.
    Create,
}

/// What passes a checkpoint.
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
    /// What it is: a connection passes only checkpoints for connections, of its frontend.
    pub on: On,
    /// What rules match and expressions read.
    pub attributes: Attributes,
    /// What it spends at rate checkpoints and in fair shares; 1 unless said.
    pub cost: u32,
    /// What it must hold while it runs.
    pub claims: Vec<Claim>,
    /// What to do about claims on resources that do not exist.
    pub unknown: Unknown,
    /// Locks that its session must own.
    pub locks: Vec<Box<str>>,
    /// The longest it is willing to wait over all queues.
    pub wait_max: Option<Span>,
    /// The session whose end gives back what the request holds.
    pub session: Option<SessionId>,
    /// Sessions that end only after it: the request comes from a process that runs under what they hold. Waiting for
    /// their claims would last for ever.
    pub within: Vec<SessionId>,
    /// The generation of the configuration that its frontend has its name in; none if it came in at no frontend.
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
