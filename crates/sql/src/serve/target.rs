//! How clients are told apart at the servers of a target.

use paceline_postgres::scram::{ClientKey, Login, Verifier};

/// What a client's login proved, which the door may use to log in to a server as the same user.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    pub client_key: ClientKey,
    pub verifier: Verifier,
}

impl Proof {
    /// The login of this client at a server that stores the same verifier.
    pub fn login(&self) -> Login {
        Login::Key { client_key: self.client_key, verifier: self.verifier.clone() }
    }
}

/// The name and the value of a parameter.
pub(crate) type Pair = (Box<[u8]>, Box<[u8]>);

/// What all connections in one part of a pool have in common: a client is served only by connections of its own part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolKey {
    /// The user at the server.
    pub user: Box<str>,
    /// Startup parameters that are not tracked, sorted by name.
    pub parameters: Box<[Pair]>,
}
