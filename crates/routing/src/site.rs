//! A server while it is at one address: what a request that was given the server connects to.
//!
//! An edit that moves a server to another address ends its site and begins another one. A request keeps the site
//! that it was given, so it can never connect to an address where it is not counted.

use crate::address::Address;
use paceline_types::ServerId;

/// The number of a site. No two sites have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteId(pub(crate) u32);

/// A server while it is at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its own number.
    pub id: SiteId,
    /// The server.
    pub server: ServerId,
    /// Where the server is.
    pub address: Address,
}
