//! What must hold for every message: it is read as it was written, no damage to it does more than make it invalid or
//! another message, and it does not matter in which pieces it arrives.

mod broken;
mod lots;
mod made;
mod split;
mod written;

use super::frame::Side;
use super::{BodyError, backend, frontend, startup};
use lots::Lots;

/// How many random messages each test makes.
const ROUNDS: u64 = 400;

const CLIENT: Side = Side::client(super::frame::LENGTH_MAX);

/// Reads a message and writes what was read.
fn again(is_server: bool, kind: u8, body: &[u8]) -> Result<Vec<u8>, BodyError> {
    let mut out = vec![];
    if is_server {
        backend::Message::read(kind, body)?.write(&mut out).unwrap();
    } else {
        frontend::Message::read(kind, body)?.write(&mut out).unwrap();
    }
    Ok(out)
}

/// Reads the first packet and writes what was read; none if it is incomplete or no packet.
fn startup_again(bytes: &[u8]) -> Result<Option<Vec<u8>>, startup::StartupError> {
    let mut out = vec![];
    match startup::read(bytes)? {
        None | Some((startup::Packet::Tls, _)) => return Ok(None),
        Some((startup::Packet::SslRequest, _)) => startup::write_ssl_request(&mut out),
        Some((startup::Packet::GssRequest, _)) => startup::write_gss_request(&mut out),
        Some((startup::Packet::Cancel(cancel), _)) => startup::write_cancel(&mut out, cancel),
        Some((startup::Packet::Startup(startup), _)) => {
            startup::write_startup(&mut out, startup.version, startup.parameters);
        }
    }
    Ok(Some(out))
}
