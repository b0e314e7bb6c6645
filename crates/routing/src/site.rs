//! A site: a server while it is at one address. A request connects to the site that it was given.
//!
//! An edit that moves a server to another address ends its site and begins another one. A request keeps the site that
//! it was given, so it can never connect to an address where it is not counted.

use crate::address::Address;
use paceline_types::ServerId;

/// The id of a site. Ids are unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteId(pub(crate) u32);

/// A server while it is at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its id.
    pub id: SiteId,
    /// The server.
    pub server: ServerId,
    /// The address of the server.
    pub address: Address,
}
